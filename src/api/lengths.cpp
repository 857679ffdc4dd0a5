#include "lathe/lengths.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "backends/openvino/tokenizer.hpp"
#include "data/lengths.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

constexpr std::size_t largest_batch = 4096;

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

LengthShapes shapes_of(const TextModel& text, std::size_t batch, std::size_t middle,
                       const std::vector<std::size_t>& buckets) {
    LengthShapes shapes;
    std::size_t from = 1;
    for (const std::size_t bucket : buckets) {
        const std::string full = size_of(batch, bucket);
        shapes.profiles.push_back(shape_options(text.inputs, size_of(1, from) + ".." + full + ".." + full));
        shapes.fixed.push_back(shape_options(text.inputs, full));
        from = bucket + 1;
    }
    const std::string range = size_of(1, 1) + ".." + size_of(batch, middle) + ".." + size_of(batch, buckets.back());
    shapes.dynamic = shape_options(text.inputs, range);
    return shapes;
}

PaddingCost cost_of(std::size_t computed, std::size_t real) {
    const auto tokens = static_cast<double>(real);
    const double padding = static_cast<double>(computed) - tokens;
    return {computed, padding / static_cast<double>(computed), padding / tokens};
}

Json to_json(const PaddingCost& cost) {
    return {{"computed_tokens", cost.computed_tokens},
            {"padding_share", cost.padding_share},
            {"padding_over_real", cost.padding_over_real}};
}

Json to_json(const LengthShapes& shapes) {
    return {{"dynamic", shapes.dynamic}, {"profiles", shapes.profiles}, {"static", shapes.fixed}};
}

std::string joined(const std::vector<std::size_t>& lengths) {
    std::string text;
    for (const std::size_t length : lengths)
        text += (text.empty() ? "" : ",") + std::to_string(length);
    return text;
}

Json to_json(const DataProfile& profile, const ProfileDataRequest& request) {
    Json percentiles;
    for (const auto& [percent, length] : profile.percentiles)
        percentiles["p" + std::to_string(percent)] = length;
    Json proposals = Json::array();
    for (std::size_t i = 0; i < profile.proposals.size(); ++i) {
        Json proposal = to_json(profile.proposals[i].cost);
        proposal["buckets"] = profile.proposals[i].lengths;
        proposal["chosen"] = i == profile.chosen;
        proposals.push_back(std::move(proposal));
    }
    Json document{{"kind", "lengths"},
                  {"version", 1},
                  {"command", request.command_line},
                  {"model", request.model.string()},
                  {"data", request.data.string()},
                  {"samples", profile.samples},
                  {"batch", request.batch_size},
                  {"tokens", profile.tokens},
                  {"mean", profile.mean},
                  {"shortest", profile.shortest},
                  {"longest", profile.longest},
                  {"percentiles", std::move(percentiles)},
                  {"limit", profile.limit},
                  {"longer_than_limit", profile.longer_than_limit},
                  {"tokenizer_limit", profile.tokenizer_limit},
                  {"at_tokenizer_limit", profile.at_tokenizer_limit},
                  {"histogram", Json::array()},
                  {"own", to_json(profile.own)},
                  {"proposals", std::move(proposals)},
                  {"chosen", joined(profile.proposals[profile.chosen].lengths)}};
    for (const auto& [length, samples] : profile.histogram)
        document["histogram"].push_back({length, samples});
    document["shapes"] = profile.shapes ? to_json(*profile.shapes) : Json(nullptr);
    return document;
}

Result<void> check(const ProfileDataRequest& request) {
    if (request.buckets < 1 || request.buckets > most_length_buckets) {
        return Error{ErrorCode::invalid_argument, "so many lengths are not proposed", "buckets",
                     "give 1 to " + std::to_string(most_length_buckets)};
    }
    if (request.batch_size < 1 || request.batch_size > largest_batch) {
        return Error{ErrorCode::invalid_argument, "no request has so many samples", "batch_size",
                     "give 1 to " + std::to_string(largest_batch)};
    }
    return {};
}

} // namespace

Result<DataProfile> profile_data(const ProfileDataRequest& request) {
    LATHE_CHECK(check(request));
    LATHE_TRY(const TextModel text, read_text_model(request.model));
    DatasetOptions data;
    data.samples = request.samples;
    data.text = {request.columns, text.tokenizer, openvino::make_tokenizer, TextLabels::none, 0, 0};
    LATHE_TRY(const auto tokenizer, openvino::make_tokenizer(text.tokenizer, 0));
    LATHE_TRY(const std::vector<std::size_t> lengths,
              read_lengths(request.data, data, request.progress != nullptr ? *request.progress : no_progress()));
    const LengthCounts requests = count_lengths(lengths, request.batch_size);

    DataProfile profile;
    profile.histogram = count_lengths(lengths, 1);
    profile.samples = lengths.size();
    profile.tokens = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    profile.mean = static_cast<double>(profile.tokens) / static_cast<double>(lengths.size());
    profile.shortest = profile.histogram.begin()->first;
    profile.longest = profile.histogram.rbegin()->first;
    for (const int percent : {50, 75, 90, 95, 99})
        profile.percentiles[percent] = length_quantile(profile.histogram, percent / 100.0);
    profile.limit = text.limit == 0 ? tokenizer->max_length() : text.limit;
    profile.longer_than_limit = static_cast<std::size_t>(
        std::ranges::count_if(lengths, [&](std::size_t length) { return length > profile.limit; }));
    profile.tokenizer_limit = tokenizer->max_length();
    profile.at_tokenizer_limit = static_cast<std::size_t>(std::ranges::count(lengths, tokenizer->max_length()));
    std::size_t own = 0;
    for (const auto& [length, samples] : requests)
        own += length * samples;
    profile.own = cost_of(own, profile.tokens);
    for (BucketPlan& plan : propose_buckets(requests, most_length_buckets))
        profile.proposals.push_back({std::move(plan.lengths), cost_of(plan.computed, profile.tokens)});
    profile.chosen = std::min(request.buckets, profile.proposals.size()) - 1;
    if (!text.fixed) {
        profile.shapes = shapes_of(text, request.batch_size, length_quantile(requests, 0.5),
                                   profile.proposals[profile.chosen].lengths);
    }
    profile.document = to_json(profile, request).dump(2, ' ', false, Json::error_handler_t::replace);
    return profile;
}

} // namespace lathe
