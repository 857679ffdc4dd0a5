#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/openvino/tokenizer.hpp"
#include "cli/commands.hpp"
#include "data/lengths.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"

namespace lathe::cli {

namespace {

struct ProfileDataOptions {
    std::string model;
    std::string data;
    std::string columns;
    std::size_t samples = 0;
    std::size_t batch_size = 1;
    std::size_t buckets = 4;
    std::string output;
};

constexpr std::size_t most_buckets = 8;

/// What a text model or an engine says of its inputs.
struct TextModel {
    std::string tokenizer;
    std::vector<std::string> inputs; ///< of batch x sequence
    std::size_t limit = 0;           ///< tokens it takes at most; 0: what the tokenizer gives
    bool fixed = false;              ///< the graph itself takes one length only
};

Result<TextModel> read_text_model(const std::filesystem::path& file) {
    TextModel text;
    if (is_engine_file(file)) {
        LATHE_TRY(const Engine engine, Engine::load(file));
        text.tokenizer = engine.info().tokenizer;
        for (const IoInfo& input : engine.info().inputs) {
            if (input.range.max.size() != 2) continue;
            text.inputs.push_back(input.name);
            text.limit = static_cast<std::size_t>(input.range.max[1]);
        }
    } else {
        LATHE_TRY(const Model model, load_onnx(file));
        if (const std::string* tokenizer = model.find_metadata("lathe.tokenizer")) text.tokenizer = *tokenizer;
        for (const ValueInfo& input : model.graph.inputs) {
            if (model.graph.initializer(input.name) != nullptr || !input.dims || input.dims->size() != 2) continue;
            text.inputs.push_back(input.name);
            if (const auto& size = (*input.dims)[1].size; size) {
                text.limit = static_cast<std::size_t>(*size);
                text.fixed = true;
            }
        }
    }
    if (!text.tokenizer.empty() && !text.inputs.empty()) return text;
    return Error{ErrorCode::unsupported, "the model carries no tokenizer, so its texts have no lengths", file.string(),
                 "export it with lathe export from a folder with tokenizer.json"};
}

/// "--shape NAME:SHAPE" for every input, in one line.
std::string shape_options(const std::vector<std::string>& inputs, const std::string& shape) {
    std::string text;
    for (const std::string& input : inputs)
        text += (text.empty() ? "--shape " : " --shape ") + input + ":" + shape;
    return text;
}

std::string size_of(std::size_t batch, std::size_t length) {
    return std::to_string(batch) + "x" + std::to_string(length);
}

/// Options of `lathe build`: one engine for all lengths, a profile a bucket (GPU), and an engine a bucket.
Json shape_json(const TextModel& text, std::size_t batch, std::size_t middle, const std::vector<std::size_t>& buckets) {
    Json profiles = Json::array();
    Json fixed = Json::array();
    std::size_t from = 1;
    for (const std::size_t bucket : buckets) {
        const std::string full = size_of(batch, bucket);
        profiles.push_back(shape_options(text.inputs, size_of(1, from) + ".." + full + ".." + full));
        fixed.push_back(shape_options(text.inputs, full));
        from = bucket + 1;
    }
    const std::string range = size_of(1, 1) + ".." + size_of(batch, middle) + ".." + size_of(batch, buckets.back());
    return {{"dynamic", shape_options(text.inputs, range)},
            {"profiles", std::move(profiles)},
            {"static", std::move(fixed)}};
}

std::string join(const std::vector<std::size_t>& lengths, const char* separator) {
    std::string text;
    for (const std::size_t length : lengths)
        text += (text.empty() ? "" : separator) + std::to_string(length);
    return text;
}

/// What filling up costs: tokens computed, padding's share of them and over the real ones.
Json cost_json(std::size_t computed, std::size_t real) {
    const auto tokens = static_cast<double>(real);
    const double padding = static_cast<double>(computed) - tokens;
    return {{"computed_tokens", computed},
            {"padding_share", padding / static_cast<double>(computed)},
            {"padding_over_real", padding / tokens}};
}

std::string histogram(const LengthCounts& counts) {
    constexpr std::size_t bins = 12;
    constexpr std::size_t widest = 40;
    const std::size_t first = counts.begin()->first;
    const std::size_t width = (counts.rbegin()->first - first) / bins + 1;
    std::vector<std::size_t> sums((counts.rbegin()->first - first) / width + 1, 0);
    for (const auto& [length, samples] : counts)
        sums[(length - first) / width] += samples;
    const std::size_t most = *std::ranges::max_element(sums);
    std::vector<std::vector<std::string>> rows{{"tokens", "samples", ""}};
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::size_t low = first + i * width;
        rows.push_back({width == 1 ? std::to_string(low) : std::to_string(low) + ".." + std::to_string(low + width - 1),
                        std::to_string(sums[i]), std::string((sums[i] * widest + most - 1) / most, '#')});
    }
    return table(rows);
}

std::string proposals_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{{"filled up to", "tokens computed", "padding", "padding / real", ""}};
    const auto add = [&](const std::string& name, const Json& cost, bool chosen) {
        rows.push_back({name, cost["computed_tokens"].dump(),
                        fixed(100 * cost["padding_share"].get<double>(), 1) + " %",
                        fixed(cost["padding_over_real"].get<double>(), 3), chosen ? "<" : ""});
    };
    add(document["batch"] == 1 ? "nothing" : "the batch's longest", document["own"], false);
    for (const Json& proposal : document["proposals"]) {
        const auto lengths = proposal["buckets"].get<std::vector<std::size_t>>();
        add(join(lengths, ", "), proposal, proposal["chosen"].get<bool>());
    }
    return table(rows);
}

void print_document(const Context& context, const Json& document, const LengthCounts& counts) {
    const Json& at = document["percentiles"];
    context.print(context.bold("Tokens a sample, " + document["samples"].dump() + " samples of " +
                               document["data"].get<std::string>()));
    context.print(histogram(counts) + "\n");
    context.print("mean " + fixed(document["mean"].get<double>(), 1) + ", half up to " + at["p50"].dump() +
                  ", 90 % up to " + at["p90"].dump() + ", 95 % up to " + at["p95"].dump() + ", 99 % up to " +
                  at["p99"].dump() + ", longest " + document["longest"].dump() + "\n");
    context.print(context.bold("Buckets with the least padding"));
    context.print(proposals_table(document) + "\n");
    if (document["shapes"].is_null()) {
        context.print("The model takes " + document["limit"].dump() + " tokens and no other number: nothing to build.");
        return;
    }
    const Json& shapes = document["shapes"];
    context.print(context.bold("One engine for every length"));
    context.print("lathe build MODEL " + shapes["dynamic"].get<std::string>() + "\n");
    context.print(context.bold("CPU: the same, with a form of its own for each bucket"));
    context.print("lathe build MODEL " + shapes["dynamic"].get<std::string>() + " --lengths " +
                  document["chosen"].get<std::string>() + "\n");
    context.print(context.bold("GPU: one engine, a profile a bucket"));
    std::string line = "lathe build MODEL --device cuda";
    for (const Json& profile : shapes["profiles"])
        line += " " + profile.get<std::string>();
    context.print(line + "\n");
    context.print(context.bold("An engine of one length, for each bucket"));
    for (const Json& shape : shapes["static"])
        context.print("lathe build MODEL " + shape.get<std::string>());
    context.print("\n" + context.bold("What each costs"));
    context.print("lathe bench ENGINE --lengths-from " + document["data"].get<std::string>() +
                  " --buckets own --buckets longest --buckets " + document["chosen"].get<std::string>());
}

Result<void> profile_data(const ProfileDataOptions& options, const Context& context) {
    LATHE_TRY(const TextModel text, read_text_model(options.model));
    DatasetOptions data;
    data.samples = options.samples;
    data.text = {options.columns, text.tokenizer, openvino::make_tokenizer, TextLabels::none, 0, 0};
    LATHE_TRY(const auto tokenizer, openvino::make_tokenizer(text.tokenizer, 0));
    LATHE_TRY(const std::vector<std::size_t> lengths, read_lengths(options.data, data, context.progress()));
    const std::size_t limit = text.limit == 0 ? tokenizer->max_length() : text.limit;
    const std::size_t real = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    const LengthCounts counts = count_lengths(lengths, 1);
    const LengthCounts requests = count_lengths(lengths, options.batch_size);
    const auto longer = std::ranges::count_if(lengths, [&](std::size_t length) { return length > limit; });
    const auto full = std::ranges::count(lengths, tokenizer->max_length());

    Json percentiles;
    for (const int percent : {50, 75, 90, 95, 99})
        percentiles["p" + std::to_string(percent)] = length_quantile(counts, percent / 100.0);
    std::size_t own = 0;
    for (const auto& [length, samples] : requests)
        own += length * samples;
    const auto plans = propose_buckets(requests, most_buckets);
    const BucketPlan& chosen = plans[std::min(options.buckets, plans.size()) - 1];
    Json proposals = Json::array();
    for (const BucketPlan& plan : plans) {
        Json proposal = cost_json(plan.computed, real);
        proposal["buckets"] = plan.lengths;
        proposal["chosen"] = &plan == &chosen;
        proposals.push_back(std::move(proposal));
    }
    Json document{{"kind", "lengths"},
                  {"version", 1},
                  {"command", context.command_line()},
                  {"model", options.model},
                  {"data", options.data},
                  {"samples", lengths.size()},
                  {"batch", options.batch_size},
                  {"tokens", real},
                  {"mean", static_cast<double>(real) / static_cast<double>(lengths.size())},
                  {"shortest", counts.begin()->first},
                  {"longest", counts.rbegin()->first},
                  {"percentiles", std::move(percentiles)},
                  {"limit", limit},
                  {"longer_than_limit", longer},
                  {"tokenizer_limit", tokenizer->max_length()},
                  {"at_tokenizer_limit", full},
                  {"histogram", Json::array()},
                  {"own", cost_json(own, real)},
                  {"proposals", std::move(proposals)},
                  {"chosen", join(chosen.lengths, ",")}};
    for (const auto& [length, samples] : counts)
        document["histogram"].push_back({length, samples});
    document["shapes"] = text.fixed
                             ? Json(nullptr)
                             : shape_json(text, options.batch_size, length_quantile(requests, 0.5), chosen.lengths);
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    print_document(context, document, counts);
    if (longer > 0) {
        context.warn(std::to_string(longer) + " samples have more than the " + std::to_string(limit) + " tokens that " +
                     options.model + " takes; it cuts them");
    }
    if (full > 0) {
        context.warn(std::to_string(full) + " samples fill the tokenizer's " + std::to_string(tokenizer->max_length()) +
                     " tokens: all that are not just so long are cut");
    }
    if (!options.output.empty()) context.print("results: " + options.output);
    context.print_json(document);
    return {};
}

} // namespace

void add_profile_data(Commands& commands) {
    const auto options = std::make_shared<ProfileDataOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"profile-data",
         "How long a dataset's texts are for a model, the lengths to build engines for and what padding "
         "costs with each",
         {"lathe profile-data minilm.onnx --data texts.tsv",
          "lathe profile-data minilm.onnx --data sts.tsv --columns text=5,pair=6 --batch-size 8 --buckets 3",
          "lathe profile-data minilm.engine --data texts.tsv --json --output lengths.json"}},
        [options, &context] { return profile_data(*options, context); });
    command.add_option("model", options->model, "ONNX file or engine with a tokenizer")
        ->type_name("MODEL_OR_ENGINE")
        ->required();
    command.add_option("--data", options->data, "Texts: .tsv, .csv, .jsonl or .txt")->required();
    command.add_option("--columns", options->columns, columns_help);
    command.add_option("--samples", options->samples, "Use that many samples, spread evenly (default: all)");
    command
        .add_option("--batch-size", options->batch_size,
                    "Samples a request, in the data's order; all become as long as the longest")
        ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
        ->capture_default_str();
    command.add_option("--buckets", options->buckets, "Propose shapes for that many lengths")
        ->check(CLI::Range(std::size_t{1}, most_buckets))
        ->capture_default_str();
    command.add_option("--output", options->output, "Write the results as JSON");
}

} // namespace lathe::cli
