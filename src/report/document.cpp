#include "report/document.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "report/fields.hpp"
#include "report/merge_bench.hpp"
#include "report/validate.hpp"
#include "report/verdict.hpp"
#include "report/wording.hpp"

namespace lathe::report {

namespace {

constexpr std::size_t max_bins = 128;

/// Neighbouring bins put together, the last group possibly smaller.
Json merge_bins(const Json& histogram) {
    const Json& edges = items(histogram, "edges");
    const Json& counts = items(histogram, "counts");
    const std::size_t group = (counts.size() + max_bins - 1) / max_bins;
    if (group <= 1) return histogram;
    Json merged_edges = Json::array({edges[0]});
    Json merged_counts = Json::array();
    for (std::size_t start = 0; start < counts.size(); start += group) {
        const std::size_t end = std::min(start + group, counts.size());
        double sum = 0.0;
        for (std::size_t i = start; i < end; ++i)
            sum += counts[i].is_number() ? counts[i].get<double>() : 0.0;
        merged_counts.push_back(sum);
        merged_edges.push_back(edges[end]);
    }
    return Json{{"edges", std::move(merged_edges)}, {"counts", std::move(merged_counts)}};
}

/// Worst first: by SQNR where it is known, then by the share clipped.
void order_tensors(Json& calibration, std::size_t histograms) {
    Json* tensors = calibration.is_object() && calibration.contains("tensors") ? &calibration["tensors"] : nullptr;
    if (tensors == nullptr || !tensors->is_array()) return;
    std::vector<Json> sorted(tensors->begin(), tensors->end());
    const auto badness = [](const Json& tensor) {
        return std::pair{number(tensor, "sqnr_db").value_or(std::numeric_limits<double>::infinity()),
                         -number(tensor, "clipped_fraction").value_or(0.0)};
    };
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const Json& a, const Json& b) { return badness(a) < badness(b); });
    std::size_t kept = 0;
    for (Json& tensor : sorted) {
        const Json* histogram = member(tensor, "histogram");
        const bool drawable = histogram != nullptr && !items(*histogram, "counts").empty();
        if (drawable && kept < histograms) {
            tensor["histogram"] = merge_bins(*histogram);
            ++kept;
        } else {
            tensor.erase("histogram");
        }
    }
    *tensors = Json(std::move(sorted));
}

Result<void> merge_eval(Json& into, Json&& from, const std::string& name) {
    const Json* old_data = member(into, "data");
    const Json* new_data = member(from, "data");
    const std::string old_digest = old_data != nullptr ? text(*old_data, "digest") : "";
    const std::string new_digest = new_data != nullptr ? text(*new_data, "digest") : "";
    if (old_digest.empty() || old_digest != new_digest) {
        return Error{ErrorCode::mismatch, "two evaluations of different data cannot be put together", name,
                     "evaluate all engines in one lathe eval, or make two reports"};
    }
    for (Json& subject : from["subjects"]) {
        if (find_item(items(into, "subjects"), "name", text(subject, "name")) != nullptr) {
            return Error{ErrorCode::invalid_argument, "subject \"" + text(subject, "name") + "\" was evaluated twice",
                         name, "leave one of the evaluations out"};
        }
        into["subjects"].push_back(std::move(subject));
    }
    return {};
}

void add_labels(Json& part) {
    if (!part.is_object() || !part.contains("subjects")) return;
    std::vector<std::string> labels;
    for (const Json& subject : part["subjects"])
        labels.push_back(subject_label(part["subjects"], text(subject, "name")));
    for (std::size_t i = 0; i < labels.size(); ++i)
        part["subjects"][i]["label"] = labels[i];
}

Json note(const std::string& severity, const std::string& name, const std::string& detail) {
    return Json{{"severity", severity}, {"name", name}, {"detail", detail}};
}

/// The first few names and how many more there are.
std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 4;
    if (names.size() <= most + 1) return join(names, ", ");
    return join({names.begin(), names.begin() + most}, ", ") + " and " + std::to_string(names.size() - most) + " more";
}

/// What a reader should know of the measurements before trusting them.
Json collect_notes(const Json& document) {
    Json notes = Json::array();
    if (const Json* calibration = member(document, "calibration")) {
        for (const Json& finding : items(*calibration, "findings"))
            notes.push_back(finding);
    }
    for (const auto& [part, key] : {std::pair{"simplify", "warnings"}, std::pair{"quantization", "remarks"}}) {
        const Json* holder = member(document, part);
        if (holder == nullptr) continue;
        for (const Json& remark : items(*holder, key)) {
            if (remark.is_string()) notes.push_back(note("info", part, remark.get<std::string>()));
        }
    }
    const Json* bench = member(document, "bench");
    if (bench != nullptr) {
        std::vector<std::string> noisy;
        std::vector<std::string> short_tail;
        for (const Json& row : items(*bench, "latency")) {
            const std::string label = subject_label(items(*bench, "subjects"), text(row, "subject"));
            const std::string place = label + " at batch " + decimals(number(row, "batch").value_or(0.0), 0);
            if (flag(row, "noisy")) noisy.push_back(place);
            const Json* reliable = member(row, "p99_reliable");
            if (reliable != nullptr && reliable->is_boolean() && !reliable->get<bool>()) short_tail.push_back(place);
        }
        if (!noisy.empty()) {
            notes.push_back(note("warning", "noisy_timing",
                                 "These timings did not settle within their time limit: " + list_of(noisy) + "."));
        }
        if (!short_tail.empty()) {
            notes.push_back(
                note("info", "few_runs_for_p99",
                     "The 99th percentile comes from fewer than 662 runs for: " + list_of(short_tail) + "."));
        }
        for (const Json& subject : items(*bench, "unavailable")) {
            const auto batch = number(subject, "batch");
            const std::string place = batch ? " at batch " + decimals(*batch, 0) : "";
            const std::string cure = text(subject, "cure").empty() ? "" : ". " + text(subject, "cure");
            notes.push_back(
                note("info", "not_measured", text(subject, "subject") + place + ": " + text(subject, "reason") + cure));
        }
        for (const Json& subject : items(*bench, "subjects")) {
            for (const Json& remark : items(subject, "notes")) {
                if (!remark.is_string()) continue;
                const std::string label = subject_label(items(*bench, "subjects"), text(subject, "name"));
                notes.push_back(note("info", "benchmark", label + ": " + remark.get<std::string>()));
            }
        }
        for (const Json& remark : items(*bench, "notes")) {
            if (remark.is_string()) notes.push_back(note("info", "benchmark", remark.get<std::string>()));
        }
    }
    if (const Json* eval = member(document, "eval"); eval != nullptr && member(*eval, "data") != nullptr) {
        const Json& data = *member(*eval, "data");
        const auto cut = number(data, "cut_samples");
        const auto limit = number(data, "token_limit");
        if (cut && limit && *cut > 0) {
            notes.push_back(note("warning", "cut_texts",
                                 decimals(*cut, 0) + " of the texts evaluated have more than " + decimals(*limit, 0) +
                                     " tokens and were cut there."));
        }
    }
    if (const Json* eval = member(document, "eval"); eval != nullptr && bench != nullptr) {
        const Json* evaluated_on = member(*eval, "machine");
        const Json* timed_on = member(*bench, "machine");
        if (evaluated_on != nullptr && timed_on != nullptr && text(*evaluated_on, "cpu") != text(*timed_on, "cpu")) {
            notes.push_back(note("info", "two_machines",
                                 "Accuracy was evaluated on another machine (" + text(*evaluated_on, "cpu") + ")."));
        }
    }
    return notes;
}

/// The first of the places where the results name the machine, the command and so on.
void gather(Json& document, const char* key, std::initializer_list<const char*> parts) {
    if (document.contains(key)) return;
    for (const char* part : parts) {
        const Json* holder = member(document, part);
        const Json* value = holder != nullptr ? member(*holder, key) : nullptr;
        if (value != nullptr && !value->is_null()) {
            document[key] = Json(*value);
            return;
        }
    }
}

/// "bench" as a heading has it.
std::string words_of(const std::string& kind) {
    if (kind == "bench") return "Benchmark";
    if (kind == "eval") return "Evaluation";
    std::string word = kind;
    word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    return word;
}

void drop_nulls(Json& object) {
    for (auto item = object.begin(); item != object.end();)
        item = item->is_null() ? object.erase(item) : std::next(item);
}

} // namespace

Result<Json> make_document(std::vector<Input> inputs, const DocumentOptions& options) {
    if (inputs.empty()) return Error{ErrorCode::invalid_argument, "no results were given", "", "name a JSON file"};
    std::map<std::string, std::string> given; // part -> file
    Json document = Json::object();
    bool replaced = false;
    // The optimize result first: the other files replace its parts.
    std::vector<std::pair<std::string, Input*>> ordered;
    for (Input& input : inputs) {
        LATHE_TRY(std::string kind, validate_result(input.json, input.name));
        if (kind == "quantize") kind = "quantization"; // as the optimize result calls it
        ordered.insert(kind == "optimize" ? ordered.begin() : ordered.end(), {kind, &input});
    }
    for (auto& [kind, input] : ordered) {
        if (kind == "bench" && !given.contains(kind) && document.contains(kind) &&
            text(input->json, "source") == "trtexec") {
            given[kind] = "the optimize result"; // whose benchmark logs of trtexec join, not replace
        }
        const auto earlier = given.find(kind);
        if (earlier != given.end()) {
            if (kind == "eval") {
                LATHE_CHECK(merge_eval(document["eval"], std::move(input->json), input->name));
                replaced = true;
                continue;
            }
            if (kind == "bench") {
                LATHE_CHECK(
                    merge_bench(document["bench"], std::move(input->json), earlier->second + " and " + input->name));
                replaced = true;
                continue;
            }
            return Error{ErrorCode::invalid_argument, "two results of kind \"" + kind + "\"",
                         earlier->second + " and " + input->name, "leave one of them out"};
        }
        given[kind] = input->name;
        if (kind == "optimize") {
            document = std::move(input->json);
            drop_nulls(document);
        } else {
            replaced = replaced || document.contains(kind);
            if (kind == "quantization") document.erase("quantizations"); // of the networks before
            document[kind] = std::move(input->json);
        }
    }
    document["kind"] = "report";

    const Json* bench = member(document, "bench");
    const Json* eval = member(document, "eval");
    const Json* old_verdict = member(document, "verdict");
    const bool keep =
        old_verdict != nullptr && !text(*old_verdict, "text").empty() && !replaced && !options.max_drop_points;
    if (!keep && (bench != nullptr || eval != nullptr)) {
        VerdictOptions rules;
        if (options.max_drop_points) rules.max_drop_points = *options.max_drop_points;
        Json verdict = to_json(make_verdict(bench, eval, rules), rules);
        document["verdict"] = std::move(verdict);
    }
    for (const char* part : {"bench", "eval", "layers"}) {
        if (document.contains(part)) add_labels(document[part]);
    }
    if (document.contains("calibration")) order_tensors(document["calibration"], options.worst_histograms);
    gather(document, "machine", {"bench", "eval", "tune", "sensitivity"});
    gather(document, "command", {"provenance", "bench", "eval", "tune", "sensitivity", "lengths"});
    gather(document, "time", {"provenance", "bench", "eval", "tune", "sensitivity"});
    gather(document, "model", {"tune", "sensitivity"});
    gather(document, "libraries", {"provenance", "bench"});
    document["notes"] = collect_notes(document);

    std::string title = options.title;
    if (title.empty() && document.contains("model")) {
        title = text(document["model"], "name");
        if (title.empty()) title = std::filesystem::path(text(document["model"], "file")).stem().string();
    }
    if (title.empty() && given.size() == 1) title = words_of(given.begin()->first) + " results";
    document["title"] = title.empty() ? "Results" : title;
    Json files = Json::array();
    for (const Input& input : inputs)
        files.push_back(input.name);
    document["report"] = Json{{"command", options.command}, {"version", options.version}, {"inputs", std::move(files)}};
    return document;
}

} // namespace lathe::report
