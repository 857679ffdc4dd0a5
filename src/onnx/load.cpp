#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "onnx/proto.hpp"
#include "support/log.hpp"

namespace lathe {
namespace {

Result<void> verify_or_sort(Model& model) {
    auto verdict = verify(model);
    if (verdict) return {};
    // Some exporters write nodes in any order; ONNX forbids it, but nothing is lost by sorting.
    const bool sorted = static_cast<bool>(model.graph.sort_topologically());
    if (!sorted || !verify(model)) {
        Error error = std::move(verdict).error();
        error.code = ErrorCode::parse_error; // what is wrong is the file
        return error;
    }
    log(LogLevel::warning, "the model's nodes were not in topological order; they were sorted");
    return {};
}

/// Initial values of inputs are constants here: what is folded, quantised and compiled would not follow another value.
/// Before IR version 4 every weight is such an input, and nobody means to give it.
void fix_initial_values(Model& model) {
    std::vector<std::string> fixed;
    if (model.ir_version >= 4) {
        for (const ValueInfo& input : model.graph.inputs)
            if (model.graph.initializers.contains(input.name)) fixed.push_back(input.name);
    }
    drop_initializer_inputs(model);
    if (fixed.empty()) return;
    log(LogLevel::warning,
        "input " + fixed.front() +
            (fixed.size() > 1 ? " and " + std::to_string(fixed.size() - 1) + " others have" : " has") +
            " an initial value in the model: it is a constant here, and cannot be given");
}

/// Smaller weights are not worth keeping apart.
constexpr std::size_t least_apart = 4096;

Result<Model> parse(std::span<const std::byte> bytes, proto::TensorSource* source, const LoadOptions& options,
                    const std::shared_ptr<const void>& owner) {
    if (bytes.empty()) return Error{ErrorCode::parse_error, "the file is empty", "", "export the model again"};
    proto::Importer importer{source, options.max_depth, nullptr, owner};
    std::optional<proto::WithoutWeights> apart;
    if (bytes.size() >= options.in_place_from) apart = proto::without_weights(bytes, least_apart);
    if (apart) {
        importer.apart = &*apart;
        bytes = std::as_bytes(std::span(apart->model));
    }
    if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
        return Error{ErrorCode::parse_error,
                     "the file is not a valid ONNX model, or holds more than protobuf's 2 GB beside its initializers",
                     "", "turn large Constant nodes into initializers; else it is truncated or damaged"};
    }
    onnx::ModelProto message;
    if (!proto::parse(message, bytes)) {
        return Error{ErrorCode::parse_error, "the file is not a valid ONNX model", "",
                     "it is truncated, damaged or in another format"};
    }
    LATHE_CHECK(proto::check_function_calls(message));
    LATHE_TRY(Model model, importer.model(message));
    if (const std::int64_t latest = latest_opset(); model.opset() > latest) {
        log(LogLevel::warning, "the model is written for ONNX opset " + std::to_string(model.opset()) +
                                   ", which is newer than the latest known here, " + std::to_string(latest) +
                                   ": its operators may mean something else");
    }
    if (options.verify) LATHE_CHECK(verify_or_sort(model));
    return model;
}

} // namespace

Result<Model> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& data_folder,
                         const LoadOptions& options, const std::shared_ptr<const void>& owner) {
    Result<Model> model = Error{};
    proto::ExternalFiles files(data_folder);
    proto::TensorSource* source = data_folder.empty() ? nullptr : &files;
    LATHE_CHECK(
        proto::guarded(ErrorCode::internal, "reading ONNX", [&] { model = parse(bytes, source, options, owner); }));
    return model;
}

Result<Model> load_onnx(const std::filesystem::path& path, const LoadOptions& options) {
    LATHE_TRY(const auto file, MappedFile::open(path));
    std::filesystem::path folder = path.parent_path();
    if (folder.empty()) folder = ".";
    auto model = parse_onnx(file->bytes(), folder, options, file);
    if (!model) return std::move(model).error().in(path.string());
    fix_initial_values(*model);
    if (auto written = write_out_quantized_operators(*model); !written)
        return std::move(written).error().in(path.string());
    write_out_fused_operators(*model);
    return model;
}

} // namespace lathe
