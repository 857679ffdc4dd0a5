#include "triton/model_config.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "deploy/text_filling.hpp"
#include "deploy/triton_config.hpp"
#include "triton/config_fields.hpp"

namespace lathe::triton {

namespace {

Error wrong(const std::string& field, const std::string& what, const std::string& hint = "") {
    return {ErrorCode::invalid_argument, what, "config.pbtxt: " + field, hint};
}

/// Whole numbers of 64 bits are strings in protobuf's JSON, and the server mends only some.
std::optional<std::int64_t> whole_number(const Json& value) {
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (!value.is_string()) return std::nullopt;
    const std::string& text = value.get_ref<const std::string&>();
    std::int64_t number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

Result<Shape> shape_at(const Json& object, const char* key, const std::string& field) {
    Shape shape;
    for (const Json& size : list_at(object, key)) {
        const auto number = whole_number(size);
        if (!number) return wrong(field, "the sizes are no whole numbers: " + size.dump());
        shape.push_back(*number);
    }
    return shape;
}

std::int64_t max_batch_of(const Json& config) {
    return whole_number(config.value("max_batch_size", Json(0))).value_or(0);
}

/// What the config says of one tensor agrees with the engine's.
Result<void> check_tensor(const Json& tensor, const std::vector<IoInfo>& known, const char* list, bool batched) {
    const std::string name = text_at(tensor, "name");
    const std::string field = std::string(list) + " \"" + name + "\"";
    const auto found = std::ranges::find(known, name, &IoInfo::name);
    if (found == known.end()) {
        std::string names;
        for (const IoInfo& io : known)
            names += (names.empty() ? "" : ", ") + io.name;
        return wrong(field, std::string("the engine has no such ") + list, "it has: " + names);
    }
    LATHE_TRY(const std::string type, triton_type(*found));
    if (text_at(tensor, "data_type") != type)
        return wrong(field, "data_type is " + text_at(tensor, "data_type") + ", the engine's is " + type,
                     "write data_type: " + type);
    const bool reshaped = tensor.contains("reshape") && tensor["reshape"].is_object();
    LATHE_TRY(const Shape dims,
              reshaped ? shape_at(tensor["reshape"], "shape", field) : shape_at(tensor, "dims", field));
    const ShapeRange& range = found->range;
    const std::size_t first = batched ? 1 : 0;
    bool fits = range.max.size() >= first && dims.size() == range.max.size() - first;
    for (std::size_t axis = 0; fits && axis < dims.size(); ++axis) {
        const std::int64_t min = range.min[axis + first];
        const std::int64_t max = range.max[axis + first];
        fits = dims[axis] < 0 || max < 0 || (dims[axis] >= min && dims[axis] <= max);
    }
    if (fits) return {};
    return wrong(field,
                 "dims " + to_string(dims) + (batched ? " behind the samples" : "") + " do not fit the engine's " +
                     range.describe(),
                 "leave input and output out of config.pbtxt: the engine tells them");
}

/// 1, 2, 3, 4, 6, 8, 12, 16, ... and the most: at most a third of a run is filled up, and a session keeps what it
/// prepared for each.
std::vector<std::int64_t> run_sizes(std::int64_t most) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = 1; size < most; size *= 2) {
        sizes.push_back(size);
        if (size > 1 && size + size / 2 < most) sizes.push_back(size + size / 2);
    }
    sizes.push_back(most);
    return sizes;
}

} // namespace

Result<LoadConfig> read_load_config(const Json& config) {
    LoadConfig load;
    load.file = text_at(config, "default_model_filename");
    const Json parameters = config.value("parameters", Json::object());
    if (const auto threads = parameters.find("threads"); threads != parameters.end()) {
        const auto number = whole_number(Json(text_at(*threads, "string_value")));
        if (!number || *number < 1)
            return wrong("parameters \"threads\"", "this is no number of threads: " + threads->dump(),
                         "give a string_value of \"1\" or more");
        load.threads = static_cast<std::size_t>(*number);
    }
    std::set<int> gpus;
    for (const Json& group : list_at(config, "instance_group")) {
        const std::string kind = text_at(group, "kind");
        load.on_gpu = load.on_gpu || kind == "KIND_GPU";
        load.on_cpu = load.on_cpu || kind == "KIND_CPU";
        for (const Json& gpu : list_at(group, "gpus")) {
            const auto index = whole_number(gpu);
            if (!index || *index < 0) return wrong("instance_group", "gpus holds no indices: " + gpu.dump());
            gpus.insert(static_cast<int>(*index));
        }
    }
    load.gpus.assign(gpus.begin(), gpus.end());
    return load;
}

Result<void> check_instances(const LoadConfig& config, const EngineInfo& info) {
    const bool cpu = info.device == "cpu";
    const char* const wanted = cpu ? "KIND_CPU" : "KIND_GPU";
    if (cpu ? config.on_gpu : config.on_cpu || !config.on_gpu) {
        return wrong("instance_group",
                     "the engine runs on device " + info.device + ", and its instances are to be of another kind",
                     std::string("write instance_group [ { kind: ") + wanted + " } ]");
    }
    if (!cpu && config.threads > 0)
        return wrong("parameters \"threads\"", "an engine for device " + info.device + " has no threads to choose",
                     "leave it out");
    return {};
}

Result<Json> complete_config(Json config, const EngineInfo& info) {
    const bool no_inputs = list_at(config, "input").empty();
    const bool no_outputs = list_at(config, "output").empty();
    if (no_inputs && no_outputs && max_batch_of(config) == 0 && has_open_batch(info))
        config["max_batch_size"] = info.inputs.front().range.max[0];
    const std::int64_t max_batch = max_batch_of(config);
    const auto scheduled = [&](const char* key) { return config.contains(key) && config[key].is_object(); };
    if (max_batch > 1 && !scheduled("dynamic_batching") && !scheduled("sequence_batching") &&
        !scheduled("ensemble_scheduling"))
        config["dynamic_batching"] = Json::object();
    const auto filling = text_filling_of(info);
    const auto tensors = [&](const std::vector<IoInfo>& list, bool inputs) -> Result<Json> {
        Json array = Json::array();
        for (const IoInfo& io : list) {
            LATHE_TRY(const std::string type, triton_type(io));
            Json tensor{{"name", io.name}, {"data_type", type}};
            const Shape dims = triton_dims(io, max_batch > 0);
            tensor["dims"] = dims.empty() ? Shape{1} : dims;
            if (dims.empty()) tensor["reshape"] = {{"shape", Json::array()}};
            if (inputs && filling && max_batch > 0) tensor["allow_ragged_batch"] = true;
            array.push_back(std::move(tensor));
        }
        return array;
    };
    if (no_inputs) {
        LATHE_TRY(config["input"], tensors(info.inputs, true));
    }
    if (no_outputs) {
        LATHE_TRY(config["output"], tensors(info.outputs, false));
    }
    return config;
}

Result<ServedAs> serving_of(const Json& config, const EngineInfo& info, const EngineInfo* prefill) {
    ServedAs serving;
    LATHE_TRY(serving.generation, GenerationStage::of(config, info, prefill));
    if (serving.generation) return serving;
    if (prefill != nullptr)
        return wrong("model_transaction_policy", "there is an engine for prompts, and the model continues no texts",
                     "write model_transaction_policy { decoupled: true }, or remove prefill.engine");
    serving.inputs = info.inputs;
    serving.outputs = info.outputs;
    serving.on_gpu = info.device != "cpu";
    const std::int64_t max_batch = max_batch_of(config);
    serving.batched = max_batch > 0;
    LATHE_TRY(serving.texts, TextStage::of(config, info));
    if (!serving.texts) {
        LATHE_TRY(serving.pictures, PictureStage::of(config, info));
        LATHE_TRY(serving.pixels, PixelStage::of(config, info));
    }
    if (serving.has_own_input() && !serving.batched) {
        return wrong("max_batch_size",
                     std::string(serving.texts ? "texts" : "pictures") + " need samples, and the model does not batch",
                     "write a max_batch_size of 1 or more, with an engine whose first axis is open");
    }
    for (const Json& tensor : list_at(config, "input")) {
        if (!serving.has_own_input()) LATHE_CHECK(check_tensor(tensor, info.inputs, "input", serving.batched));
    }
    for (const Json& tensor : list_at(config, "output"))
        LATHE_CHECK(check_tensor(tensor, info.outputs, "output", serving.batched));
    for (const IoInfo& input : info.inputs) {
        const auto is_it = [&](const Json& tensor) { return text_at(tensor, "name") == input.name; };
        if (!serving.texts && std::ranges::none_of(list_at(config, "input"), is_it))
            return wrong("input", "the engine's input " + input.name + " is missing",
                         "leave input out of config.pbtxt: the engine tells its inputs");
        if (bit_width(input.type) < 8)
            return Error{ErrorCode::unsupported, "elements of " + to_string(input.type) + " cannot be sent", input.name,
                         "export the model with another type for this tensor"};
    }
    if (!serving.batched) return serving;
    for (const IoInfo& input : info.inputs) {
        const ShapeRange& range = input.range;
        if (range.max.empty() || range.min[0] != info.inputs[0].range.min[0] ||
            range.max[0] != info.inputs[0].range.max[0])
            return wrong("max_batch_size", "the first axis of input " + input.name + " is not the samples",
                         "write max_batch_size: 0");
    }
    serving.least = info.inputs.front().range.min[0];
    serving.most = max_batch;
    if (max_batch > info.inputs.front().range.max[0]) {
        return wrong("max_batch_size",
                     std::to_string(max_batch) +
                         " samples are more than the engine takes: " + info.inputs.front().range.describe(),
                     "write max_batch_size: " + std::to_string(info.inputs.front().range.max[0]) +
                         ", or build the engine with a larger --shape");
    }
    serving.filling = text_filling_of(info);
    // Of several profiles one may hold a size and not the next.
    if (serving.on_gpu && info.profiles.empty()) serving.sizes = run_sizes(serving.most);
    return serving;
}

} // namespace lathe::triton
