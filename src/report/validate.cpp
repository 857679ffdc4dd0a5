#include "report/validate.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "report/fields.hpp"

namespace lathe::report {

namespace {

enum class Type { number, text, boolean, object, list, numbers, texts };

struct Field {
    std::string_view name;
    Type type;
    bool required = false;
};

const char* describe(Type type) {
    switch (type) {
        case Type::number: return "a number";
        case Type::text: return "a string";
        case Type::boolean: return "true or false";
        case Type::object: return "an object";
        case Type::list: return "an array";
        case Type::numbers: return "an array of numbers";
        case Type::texts: return "an array of strings";
    }
    return "another type";
}

bool has_type(const Json& value, Type type) {
    const auto all = [&](auto&& test) { return value.is_array() && std::all_of(value.begin(), value.end(), test); };
    switch (type) {
        case Type::number: return value.is_number();
        case Type::text: return value.is_string();
        case Type::boolean: return value.is_boolean();
        case Type::object: return value.is_object();
        case Type::list: return value.is_array();
        case Type::numbers: return all([](const Json& item) { return item.is_number() || item.is_null(); });
        case Type::texts: return all([](const Json& item) { return item.is_string(); });
    }
    return false;
}

Error wrong(const std::string& where, const std::string& what) {
    return Error{ErrorCode::parse_error, what, where,
                 "is the file whole, and written by lathe with --json or --output?"};
}

Result<void> check_fields(const Json& object, std::initializer_list<Field> fields, const std::string& where) {
    if (!object.is_object()) return wrong(where, std::string("must be an object, is ") + object.type_name());
    for (const Field& field : fields) {
        const std::string place = where + (where.ends_with(":") ? " " : ".") + std::string(field.name);
        const Json* value = member(object, field.name);
        if (value == nullptr || value->is_null()) {
            if (field.required) return wrong(place, "a required field is missing");
            continue;
        }
        if (!has_type(*value, field.type)) {
            return wrong(place, std::string("must be ") + describe(field.type) + ", is " + value->type_name());
        }
    }
    return {};
}

/// Checks every object of the array `object[key]`, which may be absent.
template <class Check>
Result<void> check_each(const Json& object, std::string_view key, const std::string& where, Check&& check) {
    const std::string place = where + (where.ends_with(":") ? " " : ".") + std::string(key);
    const Json* list = member(object, key);
    if (list == nullptr || list->is_null()) return {};
    if (!list->is_array()) return wrong(place, std::string("must be an array, is ") + list->type_name());
    for (std::size_t i = 0; i < list->size(); ++i)
        LATHE_CHECK(check((*list)[i], place + "[" + std::to_string(i) + "]"));
    return {};
}

auto fields(std::initializer_list<Field> list) {
    return [list = std::vector<Field>(list)](const Json& item, const std::string& where) -> Result<void> {
        for (const Field& field : list)
            LATHE_CHECK(check_fields(item, {field}, where));
        if (list.empty()) return check_fields(item, {}, where);
        return {};
    };
}

Result<void> check_common(const Json& json, const std::string& where) {
    return check_fields(json,
                        {{"machine", Type::object},
                         {"command", Type::text},
                         {"time", Type::text},
                         {"libraries", Type::object},
                         {"provenance", Type::object}},
                        where);
}

Result<void> check_length_mix(const Json& mix, const std::string& where) {
    LATHE_CHECK(check_fields(mix,
                             {{"data", Type::text},
                              {"samples", Type::number},
                              {"batch", Type::number},
                              {"mean_length", Type::number},
                              {"p99_length", Type::number},
                              {"longest", Type::number},
                              {"limit", Type::number},
                              {"cut_samples", Type::number}},
                             where));
    LATHE_CHECK(check_each(mix, "rows", where,
                           fields({{"subject", Type::text, true},
                                   {"padding", Type::text, true},
                                   {"ms_per_sample", Type::number, true},
                                   {"median_ms", Type::number},
                                   {"mean_ms", Type::number},
                                   {"p90_ms", Type::number},
                                   {"p99_ms", Type::number},
                                   {"mix_ms", Type::number},
                                   {"tokens_per_second", Type::number},
                                   {"padding_share", Type::number}})));
    return check_each(mix, "ratios", where,
                      fields({{"subject", Type::text, true},
                              {"padding", Type::text, true},
                              {"reference", Type::text, true},
                              {"reference_padding", Type::text, true},
                              {"speedup", Type::number, true},
                              {"ci95", Type::numbers}}));
}

Result<void> check_bench(const Json& bench, const std::string& where) {
    LATHE_CHECK(check_common(bench, where));
    LATHE_CHECK(check_fields(bench, {{"subjects", Type::list, true}, {"latency", Type::list}}, where));
    LATHE_CHECK(check_each(bench, "subjects", where,
                           fields({{"name", Type::text, true},
                                   {"kind", Type::text, true},
                                   {"precision", Type::text},
                                   {"file", Type::text},
                                   {"hash", Type::text},
                                   {"file_bytes", Type::number},
                                   {"load_ms", Type::number},
                                   {"peak_rss_bytes", Type::number}})));
    LATHE_CHECK(check_each(bench, "latency", where,
                           fields({{"subject", Type::text, true},
                                   {"batch", Type::number, true},
                                   {"median_ms", Type::number, true},
                                   {"mean_ms", Type::number},
                                   {"std_ms", Type::number},
                                   {"p90_ms", Type::number},
                                   {"p95_ms", Type::number},
                                   {"p99_ms", Type::number},
                                   {"min_ms", Type::number},
                                   {"max_ms", Type::number},
                                   {"count", Type::number},
                                   {"ci95_ms", Type::numbers},
                                   {"noisy", Type::boolean},
                                   {"p99_reliable", Type::boolean},
                                   {"copy_in_ms", Type::number},
                                   {"copy_out_ms", Type::number},
                                   {"device_ms", Type::number},
                                   {"preprocess_ms", Type::number}})));
    LATHE_CHECK(check_each(bench, "throughput", where,
                           fields({{"subject", Type::text, true},
                                   {"batch", Type::number, true},
                                   {"samples_per_second", Type::number, true},
                                   {"qps", Type::number},
                                   {"duration_s", Type::number},
                                   {"requests", Type::number},
                                   {"streams", Type::number}})));
    LATHE_CHECK(check_each(bench, "ratios", where,
                           fields({{"subject", Type::text, true},
                                   {"reference", Type::text, true},
                                   {"batch", Type::number, true},
                                   {"speedup", Type::number, true},
                                   {"ci95", Type::numbers},
                                   {"pairs", Type::number}})));
    LATHE_CHECK(check_fields(bench, {{"length_mix", Type::object}}, where));
    if (const Json* mix = member(bench, "length_mix"); mix != nullptr && mix->is_object()) {
        LATHE_CHECK(check_length_mix(*mix, where + (where.ends_with(":") ? " " : ".") + "length_mix"));
    }
    return check_each(bench, "unavailable", where,
                      fields({{"subject", Type::text, true}, {"reason", Type::text, true}}));
}

Result<void> check_eval_subject(const Json& subject, const std::string& where) {
    LATHE_CHECK(check_fields(subject,
                             {{"name", Type::text, true},
                              {"precision", Type::text},
                              {"samples", Type::number},
                              {"top1", Type::number},
                              {"top1_ci95", Type::numbers},
                              {"top5", Type::number},
                              {"top5_ci95", Type::numbers},
                              {"spearman", Type::number},
                              {"spearman_ci95", Type::numbers},
                              {"pearson", Type::number},
                              {"pearson_ci95", Type::numbers},
                              {"exact", Type::number},
                              {"exact_ci95", Type::numbers},
                              {"f1", Type::number},
                              {"f1_ci95", Type::numbers},
                              {"has_answer", Type::object},
                              {"no_answer", Type::object},
                              {"vs_reference", Type::object}},
                             where));
    for (const char* part : {"has_answer", "no_answer"}) {
        const Json* questions = member(subject, part);
        if (questions == nullptr || questions->is_null()) continue;
        LATHE_CHECK(check_fields(*questions, {{"samples", Type::number}, {"exact", Type::number}, {"f1", Type::number}},
                                 where + "." + part));
    }
    if (const Json* versus = member(subject, "vs_reference"); versus != nullptr && versus->is_object()) {
        const std::string place = where + ".vs_reference";
        LATHE_CHECK(check_fields(*versus,
                                 {{"reference", Type::text, true},
                                  {"agreement", Type::number},
                                  {"agreement_ci95", Type::numbers},
                                  {"mean_kl", Type::number},
                                  {"sqnr_db", Type::number},
                                  {"cosine", Type::number},
                                  {"least_cosine", Type::number},
                                  {"max_abs_error", Type::number},
                                  {"rank_agreement", Type::number},
                                  {"spearman_delta", Type::number},
                                  {"spearman_delta_ci95", Type::numbers},
                                  {"exact_delta", Type::number},
                                  {"f1_delta", Type::number},
                                  {"f1_delta_ci95", Type::numbers},
                                  {"top1_delta", Type::number},
                                  {"top1_delta_ci95", Type::numbers},
                                  {"mcnemar", Type::object}},
                                 place));
        if (const Json* mcnemar = member(*versus, "mcnemar"); mcnemar != nullptr && mcnemar->is_object()) {
            LATHE_CHECK(check_fields(*mcnemar,
                                     {{"only_reference_right", Type::number},
                                      {"only_subject_right", Type::number},
                                      {"p_value", Type::number}},
                                     place + ".mcnemar"));
        }
    }
    return check_each(subject, "worst", where, fields({}));
}

/// What a task says of its figures: which there are, and that the subjects have numbers there.
Result<void> check_figures(const Json& eval, const std::string& where) {
    if (const Json* metric = member(eval, "metric"); metric != nullptr && metric->is_object()) {
        LATHE_CHECK(check_fields(*metric, {{"name", Type::text, true}, {"key", Type::text, true}}, where + " metric"));
    }
    const Json* columns = member(eval, "columns");
    if (columns == nullptr || !columns->is_object()) return {};
    for (const char* part : {"subjects", "vs_reference"}) {
        LATHE_CHECK(check_each(*columns, part, where + " columns",
                               fields({{"title", Type::text, true},
                                       {"key", Type::text, true},
                                       {"format", Type::text, true},
                                       {"digits", Type::number, true}})));
        for (const Json& column : items(*columns, part)) {
            const std::string key = text(column, "key");
            for (const Json& subject : items(eval, "subjects")) {
                const Json* object = std::string_view(part) == "subjects" ? &subject : member(subject, part);
                if (object == nullptr || !object->is_object()) continue;
                LATHE_CHECK(check_fields(*object, {{key, Type::number}, {key + "_ci95", Type::numbers}},
                                         where + " subject " + text(subject, "name")));
            }
        }
    }
    return {};
}

Result<void> check_eval(const Json& eval, const std::string& where) {
    LATHE_CHECK(check_common(eval, where));
    LATHE_CHECK(check_fields(eval,
                             {{"data", Type::object},
                              {"task", Type::text},
                              {"score", Type::text},
                              {"squad_version", Type::text},
                              {"windows", Type::number},
                              {"metric", Type::object},
                              {"heading", Type::text},
                              {"columns", Type::object},
                              {"class_names", Type::texts},
                              {"subjects", Type::list, true}},
                             where));
    LATHE_CHECK(check_figures(eval, where));
    if (const Json* data = member(eval, "data"); data != nullptr && data->is_object()) {
        LATHE_CHECK(check_fields(*data,
                                 {{"path", Type::text},
                                  {"digest", Type::text},
                                  {"samples", Type::number},
                                  {"cut_samples", Type::number},
                                  {"token_limit", Type::number}},
                                 where + " data"));
    }
    return check_each(eval, "subjects", where, check_eval_subject);
}

Result<void> check_layers(const Json& layers, const std::string& where) {
    LATHE_CHECK(check_fields(layers, {{"subjects", Type::list, true}}, where));
    return check_each(layers, "subjects", where, [](const Json& subject, const std::string& place) -> Result<void> {
        LATHE_CHECK(check_fields(subject, {{"name", Type::text, true}, {"layers", Type::list, true}}, place));
        return check_each(subject, "layers", place,
                          fields({{"name", Type::text, true},
                                  {"type", Type::text},
                                  {"precision", Type::text},
                                  {"implementation", Type::text},
                                  {"ms", Type::number},
                                  {"nodes", Type::texts}}));
    });
}

Result<void> check_calibration(const Json& calibration, const std::string& where) {
    LATHE_CHECK(check_fields(calibration,
                             {{"method", Type::text},
                              {"samples", Type::number},
                              {"data_digest", Type::text},
                              {"seconds", Type::number},
                              {"tensors", Type::list, true}},
                             where));
    LATHE_CHECK(
        check_each(calibration, "tensors", where, [](const Json& tensor, const std::string& place) -> Result<void> {
            LATHE_CHECK(check_fields(tensor,
                                     {{"name", Type::text, true},
                                      {"min", Type::number},
                                      {"max", Type::number},
                                      {"low", Type::number},
                                      {"high", Type::number},
                                      {"clipped_fraction", Type::number},
                                      {"sqnr_db", Type::number},
                                      {"histogram", Type::object}},
                                     place));
            const Json* histogram = member(tensor, "histogram");
            if (histogram == nullptr || histogram->is_null()) return {};
            LATHE_CHECK(check_fields(*histogram, {{"edges", Type::numbers, true}, {"counts", Type::numbers, true}},
                                     place + ".histogram"));
            const std::size_t edges = items(*histogram, "edges").size();
            const std::size_t counts = items(*histogram, "counts").size();
            if (counts != 0 && edges != counts + 1) {
                return wrong(place + ".histogram", "has " + std::to_string(counts) + " counts and " +
                                                       std::to_string(edges) +
                                                       " edges; there must be one edge more than counts");
            }
            return {};
        }));
    return check_each(calibration, "findings", where,
                      fields({{"name", Type::text, true}, {"detail", Type::text}, {"severity", Type::text}}));
}

/// Of a quantisation or of the INT8 network that a search begins with.
Result<void> check_corrections(const Json& holder, const std::string& where) {
    const Json* corrections = member(holder, "corrections");
    if (corrections == nullptr || corrections->is_null()) return {};
    const std::string place = where + (where.ends_with(":") ? " " : ".") + "corrections";
    const auto closeness = [](const Json& json, const std::string& at) -> Result<void> {
        for (const char* key : {"before", "after"}) {
            LATHE_CHECK(check_fields(json, {{key, Type::object}}, at));
            const Json* figures = member(json, key);
            if (figures == nullptr || figures->is_null()) continue;
            LATHE_CHECK(check_fields(*figures,
                                     {{"error", Type::number},
                                      {"sqnr_db", Type::number},
                                      {"mean_kl", Type::number},
                                      {"metric", Type::number},
                                      {"metric_name", Type::text},
                                      {"agreement", Type::number}},
                                     at + "." + key));
        }
        return {};
    };
    LATHE_CHECK(check_fields(
        *corrections, {{"fit_samples", Type::number}, {"held_back_samples", Type::number}, {"seconds", Type::number}},
        place));
    LATHE_CHECK(closeness(*corrections, place));
    return check_each(*corrections, "steps", place, [&](const Json& step, const std::string& at) -> Result<void> {
        LATHE_CHECK(check_fields(step,
                                 {{"method", Type::text, true},
                                  {"kept", Type::boolean, true},
                                  {"detail", Type::text},
                                  {"seconds", Type::number}},
                                 at));
        return closeness(step, at);
    });
}

Result<void> check_quantization(const Json& quantization, const std::string& where);

/// By the name of the INT8 network.
Result<void> check_quantizations(const Json& all, const std::string& where) {
    for (const auto& [name, quantization] : all.items()) {
        if (!quantization.is_object()) return wrong(where + "." + name, "is no object");
        LATHE_CHECK(check_quantization(quantization, where + "." + name));
    }
    return {};
}

Result<void> check_quantization(const Json& quantization, const std::string& where) {
    LATHE_CHECK(check_fields(quantization,
                             {{"target", Type::text},
                              {"quantized_nodes", Type::number},
                              {"total_nodes", Type::number},
                              {"remarks", Type::texts}},
                             where));
    LATHE_CHECK(check_corrections(quantization, where));
    return check_each(quantization, "decisions", where,
                      fields({{"node", Type::text},
                              {"tensor", Type::text},
                              {"quantized", Type::boolean, true},
                              {"reason", Type::text},
                              {"explanation", Type::text},
                              {"detail", Type::text}}));
}

Result<void> check_simplify(const Json& simplify, const std::string& where) {
    LATHE_CHECK(check_fields(
        simplify, {{"before_nodes", Type::number}, {"after_nodes", Type::number}, {"warnings", Type::texts}}, where));
    return check_each(simplify, "passes", where, fields({{"name", Type::text, true}, {"changes", Type::number}}));
}

Result<void> check_sensitivity(const Json& sensitivity, const std::string& where) {
    LATHE_CHECK(check_common(sensitivity, where));
    LATHE_CHECK(check_fields(sensitivity,
                             {{"metric", Type::text, true},
                              {"samples", Type::number},
                              {"target", Type::text},
                              {"seconds", Type::number},
                              {"float_seconds", Type::number},
                              {"everything", Type::object},
                              {"outstanding", Type::texts},
                              {"advice", Type::texts},
                              {"layers", Type::list, true}},
                             where));
    return check_each(sensitivity, "layers", where,
                      fields({{"node", Type::text, true},
                              {"role", Type::text},
                              {"quantized", Type::boolean, true},
                              {"reason", Type::text},
                              {"rank", Type::number},
                              {"macs_share", Type::number},
                              {"damage_share", Type::number},
                              {"sqnr_db", Type::number},
                              {"mean_kl", Type::number},
                              {"agreement", Type::number},
                              {"top1_delta", Type::number}}));
}

Result<void> check_tune(const Json& tune, const std::string& where) {
    LATHE_CHECK(check_common(tune, where));
    LATHE_CHECK(check_fields(tune,
                             {{"metric", Type::text, true},
                              {"drop_unit", Type::text},
                              {"ranked_by", Type::text},
                              {"max_drop", Type::number},
                              {"min_speedup", Type::number},
                              {"search_samples", Type::number},
                              {"seconds", Type::number},
                              {"device", Type::text},
                              {"chosen", Type::text},
                              {"text", Type::text},
                              {"reasons", Type::texts},
                              {"good", Type::boolean},
                              {"judged", Type::object},
                              {"trials", Type::list, true}},
                             where));
    LATHE_CHECK(check_corrections(tune, where));
    LATHE_CHECK(
        check_each(tune, "layers", where, fields({{"node", Type::text, true}, {"precision", Type::text, true}})));
    return check_each(tune, "trials", where,
                      fields({{"name", Type::text, true},
                              {"phase", Type::text},
                              {"failed", Type::text},
                              {"latency_ms", Type::number},
                              {"speedup", Type::number},
                              {"drop", Type::number},
                              {"loss", Type::number},
                              {"mean_kl", Type::number},
                              {"feasible", Type::boolean},
                              {"pareto", Type::boolean},
                              {"chosen", Type::boolean},
                              {"float_layers", Type::texts}}));
}

/// What `lathe profile-data` finds.
Result<void> check_lengths(const Json& lengths, const std::string& where) {
    LATHE_CHECK(check_common(lengths, where));
    LATHE_CHECK(check_fields(lengths,
                             {{"model", Type::text},
                              {"data", Type::text},
                              {"samples", Type::number, true},
                              {"batch", Type::number},
                              {"tokens", Type::number},
                              {"mean", Type::number},
                              {"shortest", Type::number},
                              {"longest", Type::number},
                              {"percentiles", Type::object},
                              {"limit", Type::number},
                              {"longer_than_limit", Type::number},
                              {"tokenizer_limit", Type::number},
                              {"at_tokenizer_limit", Type::number},
                              {"own", Type::object},
                              {"chosen", Type::text},
                              {"shapes", Type::object},
                              {"histogram", Type::list, true}},
                             where));
    LATHE_CHECK(check_each(lengths, "histogram", where, [](const Json& bin, const std::string& place) -> Result<void> {
        if (bin.is_array() && bin.size() == 2 && bin[0].is_number() && bin[1].is_number()) return {};
        return wrong(place, "must be a length and its number of samples");
    }));
    constexpr Field computed{"computed_tokens", Type::number, true};
    constexpr Field share{"padding_share", Type::number};
    constexpr Field over_real{"padding_over_real", Type::number};
    if (const Json* own = member(lengths, "own"); own != nullptr && own->is_object()) {
        LATHE_CHECK(check_fields(*own, {computed, share, over_real}, where + " own"));
    }
    return check_each(
        lengths, "proposals", where,
        fields({computed, share, over_real, {"buckets", Type::numbers, true}, {"chosen", Type::boolean}}));
}

Result<void> check_optimize(const Json& optimize, const std::string& where) {
    LATHE_CHECK(check_common(optimize, where));
    LATHE_CHECK(check_fields(optimize, {{"model", Type::object}, {"verdict", Type::object}, {"simplify", Type::object}},
                             where));
    if (const Json* model = member(optimize, "model"); model != nullptr && model->is_object()) {
        const std::string place = where + " model";
        LATHE_CHECK(check_fields(*model,
                                 {{"name", Type::text},
                                  {"file", Type::text},
                                  {"hash", Type::text},
                                  {"opset", Type::number},
                                  {"parameters", Type::number},
                                  {"macs", Type::number}},
                                 place));
        for (const std::string_view key : {"inputs", "outputs"}) {
            LATHE_CHECK(check_each(*model, key, place, fields({{"name", Type::text}, {"type", Type::text}})));
        }
    }
    if (const Json* verdict = member(optimize, "verdict"); verdict != nullptr && verdict->is_object()) {
        LATHE_CHECK(check_fields(*verdict,
                                 {{"recommended", Type::text}, {"text", Type::text}, {"reasons", Type::texts}},
                                 where + " verdict"));
    }
    LATHE_CHECK(
        check_each(optimize, "stages", where, fields({{"name", Type::text, true}, {"seconds", Type::number, true}})));

    using Check = Result<void> (*)(const Json&, const std::string&);
    const std::array<std::pair<std::string_view, Check>, 9> parts{{{"bench", check_bench},
                                                                   {"eval", check_eval},
                                                                   {"layers", check_layers},
                                                                   {"calibration", check_calibration},
                                                                   {"quantization", check_quantization},
                                                                   {"quantizations", check_quantizations},
                                                                   {"simplify", check_simplify},
                                                                   {"sensitivity", check_sensitivity},
                                                                   {"tune", check_tune}}};
    for (const auto& [key, check] : parts) {
        const Json* part = member(optimize, key);
        if (part != nullptr && !part->is_null()) LATHE_CHECK(check(*part, where + " " + std::string(key)));
    }
    return {};
}

} // namespace

Result<std::string> validate_result(const Json& json, const std::string& name) {
    const std::string kinds =
        "the report takes results of lathe optimize, bench, eval, calibrate, quantize, simplify, sensitivity, tune and "
        "profile-data, and layer profiles";
    const std::string kind = text(json, "kind");
    if (kind.empty()) {
        return Error{ErrorCode::parse_error, "not a result of Lathe: there is no \"kind\"", name, kinds};
    }
    const auto version = number(json, "version");
    using Check = Result<void> (*)(const Json&, const std::string&);
    const std::array<std::pair<std::string_view, Check>, 10> known{{{"optimize", check_optimize},
                                                                    {"bench", check_bench},
                                                                    {"eval", check_eval},
                                                                    {"layers", check_layers},
                                                                    {"calibration", check_calibration},
                                                                    {"quantize", check_quantization},
                                                                    {"simplify", check_simplify},
                                                                    {"sensitivity", check_sensitivity},
                                                                    {"tune", check_tune},
                                                                    {"lengths", check_lengths}}};
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == kind; });
    if (found == known.end()) {
        return Error{ErrorCode::unsupported, "results of kind \"" + kind + "\" cannot be reported", name, kinds};
    }
    if (version != 1.0) {
        return Error{ErrorCode::unsupported, "results of kind \"" + kind + "\" must be of version 1", name,
                     "write them again with this version of lathe"};
    }
    LATHE_CHECK(found->second(json, name + ":"));
    return kind;
}

} // namespace lathe::report
