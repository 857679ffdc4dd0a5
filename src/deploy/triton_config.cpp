#include "deploy/triton_config.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "deploy/text_filling.hpp"
#include "deploy/text_proto.hpp"

namespace lathe {

namespace {

constexpr std::array<std::pair<TritonBackend, const char*>, 4> backend_names{
    {{TritonBackend::lathe, "lathe"},
     {TritonBackend::onnxruntime, "onnxruntime"},
     {TritonBackend::openvino, "openvino"},
     {TritonBackend::tensorrt, "tensorrt"}}};

/// A file or a text a sample.
void write_strings(TextProto& out, const std::string& name) {
    out.open("input");
    out.text("name", name);
    out.name("data_type", "TYPE_STRING");
    out.numbers("dims", {1});
    out.close();
}

/// Pictures of any size, decoded.
void write_pixels(TextProto& out, const std::string& name) {
    out.open("input");
    out.text("name", name);
    out.name("data_type", "TYPE_UINT8");
    out.numbers("dims", {-1, -1, 3});
    out.close();
}

void write_small(TextProto& out, const char* field, const char* name, const char* type, std::int64_t size,
                 bool optional) {
    out.open(field);
    out.text("name", name);
    out.name("data_type", type);
    out.numbers("dims", {size});
    if (optional) out.name("optional", "true");
    out.close();
}

/// As triton/generation.hpp reads it.
void write_generation(TextProto& out, const TritonModel& model) {
    out.open("model_transaction_policy");
    out.name("decoupled", "true");
    out.close();
    if (model.texts) write_small(out, "input", "text", "TYPE_STRING", 1, true);
    write_small(out, "input", "input_ids", "TYPE_INT64", -1, model.texts);
    write_small(out, "input", "max_tokens", "TYPE_INT32", 1, false);
    write_small(out, "input", "eos", "TYPE_INT64", 1, true);
    write_small(out, "input", "temperature", "TYPE_FP32", 1, true);
    write_small(out, "input", "top_k", "TYPE_INT32", 1, true);
    write_small(out, "input", "seed", "TYPE_INT64", 1, true);
    write_small(out, "output", "token", "TYPE_INT64", 1, false);
    if (model.gives_texts) write_small(out, "output", "text", "TYPE_STRING", 1, false);
}

Result<void> write_tensor(TextProto& out, const char* field, const IoInfo& io, bool batched, bool filled,
                          const std::vector<std::string>& labels) {
    LATHE_TRY(const std::string type, triton_type(io));
    const Shape dims = triton_dims(io, batched);
    out.open(field);
    out.text("name", io.name);
    out.name("data_type", type);
    if (dims.empty()) { // one number a sample: Triton knows no tensors without sizes
        out.numbers("dims", {1});
        out.open("reshape");
        out.close();
    } else {
        out.numbers("dims", dims);
    }
    if (!labels.empty() && !dims.empty() && dims.back() == static_cast<std::int64_t>(labels.size()))
        out.text("label_filename", "labels.txt");
    if (filled) out.name("allow_ragged_batch", "true");
    out.close();
    return {};
}

/// One run of batches of this size with random floats; zeros for other types, which can be indices.
Result<void> write_warmup(TextProto& out, const TritonModel& model, std::int64_t batch, bool batched) {
    out.open("model_warmup");
    out.text("name", "batch of " + std::to_string(batch));
    out.number("batch_size", batched ? batch : 0);
    for (const IoInfo& io : model.info.inputs) {
        LATHE_TRY(const std::string type, triton_type(io));
        Shape dims(io.range.opt.begin() + (batched ? 1 : 0), io.range.opt.end());
        if (dims.empty()) dims = {1};
        out.open("inputs");
        out.text("key", io.name);
        out.open("value");
        out.name("data_type", type);
        out.numbers("dims", dims);
        out.name(is_floating(io.type) ? "random_data" : "zero_data", "true");
        out.close();
        out.close();
    }
    out.close();
    return {};
}

void write_parameter(TextProto& out, const std::string& key, const std::string& value) {
    if (value.empty()) return;
    out.open("parameters");
    out.text("key", key);
    out.open("value");
    out.text("string_value", value);
    out.close();
    out.close();
}

void write_batching(TextProto& out, const TritonSizing& sizing) {
    out.open("dynamic_batching");
    out.numbers("preferred_batch_size", sizing.preferred);
    out.number("max_queue_delay_microseconds", sizing.max_queue_delay_us);
    if (sizing.max_queue > 0) {
        out.open("default_queue_policy");
        out.number("max_queue_size", sizing.max_queue);
        out.close();
    }
    out.close();
}

/// What the backends take: see the READMEs of triton-inference-server/openvino_backend and onnxruntime_backend.
void write_backend_parameters(TextProto& out, const TritonModel& model, bool batched) {
    if (model.backend == TritonBackend::openvino) {
        // Without it, batches of fewer than max_batch_size are errors.
        if (batched && model.sizing.max_batch > 1) write_parameter(out, "ENABLE_BATCH_PADDING", "YES");
        if (model.info.precision == Precision::bfloat16) write_parameter(out, "HINT_BF16", "YES");
        write_parameter(out, "NUM_STREAMS", std::to_string(model.sizing.instances));
    }
    if (!model.sizing.one_thread_each || model.gpu) return;
    if (model.backend == TritonBackend::onnxruntime) write_parameter(out, "intra_op_thread_count", "1");
    if (model.backend == TritonBackend::lathe) write_parameter(out, "threads", "1");
}

} // namespace

Result<std::string> triton_type(const IoInfo& io) {
    switch (io.type) {
        case DataType::boolean: return std::string("TYPE_BOOL");
        case DataType::uint8: return std::string("TYPE_UINT8");
        case DataType::uint16: return std::string("TYPE_UINT16");
        case DataType::uint32: return std::string("TYPE_UINT32");
        case DataType::uint64: return std::string("TYPE_UINT64");
        case DataType::int8: return std::string("TYPE_INT8");
        case DataType::int16: return std::string("TYPE_INT16");
        case DataType::int32: return std::string("TYPE_INT32");
        case DataType::int64: return std::string("TYPE_INT64");
        case DataType::float16: return std::string("TYPE_FP16");
        case DataType::float32: return std::string("TYPE_FP32");
        case DataType::float64: return std::string("TYPE_FP64");
        case DataType::bfloat16: return std::string("TYPE_BF16");
        case DataType::string: return std::string("TYPE_STRING");
        default:
            return Error{ErrorCode::unsupported, "Triton has no element type " + to_string(io.type), io.name,
                         "export the model with another type for this tensor"};
    }
}

Shape triton_dims(const IoInfo& io, bool batched) {
    Shape dims;
    for (std::size_t axis = batched ? 1 : 0; axis < io.range.max.size(); ++axis)
        dims.push_back(io.range.min[axis] == io.range.max[axis] ? std::max<std::int64_t>(-1, io.range.max[axis]) : -1);
    return dims;
}

std::string to_string(TritonBackend backend) {
    return std::ranges::find(backend_names, backend, &decltype(backend_names)::value_type::first)->second;
}

std::optional<TritonBackend> triton_backend_from_name(std::string_view name) {
    for (const auto& [backend, known] : backend_names) {
        if (name == known) return backend;
    }
    return std::nullopt;
}

std::string model_file_of(TritonBackend backend) {
    switch (backend) {
        case TritonBackend::lathe: return "model.engine";
        case TritonBackend::openvino: return "model.xml";
        case TritonBackend::tensorrt: return "model.plan";
        default: return "model.onnx";
    }
}

bool pads_batches(TritonBackend backend) { return backend == TritonBackend::openvino; }

bool has_open_batch(const EngineInfo& info) {
    const auto open = [](const IoInfo& io) { return !io.range.max.empty() && io.range.min[0] != io.range.max[0]; };
    const auto follows = [](const IoInfo& io) {
        return !io.range.max.empty() && (io.range.max[0] < 0 || io.range.min[0] != io.range.max[0]);
    };
    return std::ranges::all_of(info.inputs, open) && std::ranges::all_of(info.outputs, follows);
}

Result<std::string> triton_config(const TritonModel& model) {
    const bool batched = !model.generates && has_open_batch(model.info);
    const std::int64_t max_batch = batched ? model.sizing.max_batch : 0;
    const bool filled = model.backend == TritonBackend::lathe && max_batch > 1 && text_filling_of(model.info);
    TextProto out;
    out.comment("Written by lathe deploy. " + model.sizing.reason);
    out.text("name", model.name);
    out.text("backend", to_string(model.backend));
    out.text("default_model_filename", model_file_of(model.backend));
    out.number("max_batch_size", max_batch);
    if (model.generates) {
        write_generation(out, model);
    } else if (model.texts) {
        write_strings(out, "text");
    }
    for (const IoInfo& io : model.info.inputs) {
        if (model.texts || model.generates) break;
        if (model.pictures) {
            write_strings(out, io.name);
        } else if (model.pixels) {
            write_pixels(out, io.name);
        } else {
            LATHE_CHECK(write_tensor(out, "input", io, batched, filled, {}));
        }
    }
    for (const IoInfo& io : model.info.outputs) {
        if (!model.generates) LATHE_CHECK(write_tensor(out, "output", io, batched, false, model.info.labels));
    }
    out.open("instance_group");
    out.number("count", static_cast<std::int64_t>(model.sizing.instances));
    out.name("kind", model.gpu ? "KIND_GPU" : "KIND_CPU");
    out.close();
    if (max_batch > 1) write_batching(out, model.sizing);
    // The server makes up numbers for a warm-up, no pictures or words.
    if (!model.pictures && !model.pixels && !model.texts && !model.generates) {
        LATHE_CHECK(write_warmup(out, model, 1, batched));
        if (max_batch > 1) LATHE_CHECK(write_warmup(out, model, max_batch, batched));
    }
    write_backend_parameters(out, model, batched);
    write_parameter(out, "lathe.precision", to_string(model.info.precision));
    write_parameter(out, "lathe.source", model.info.source);
    write_parameter(out, "lathe.version", model.info.lathe_version);
    write_parameter(out, "lathe.built", model.info.time);
    write_parameter(out, "lathe.preprocess", model.info.preprocess);
    for (const auto& [what, digest] : model.info.hashes)
        write_parameter(out, "lathe.hash." + what, digest);
    return out.str();
}

} // namespace lathe
