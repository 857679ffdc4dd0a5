#include "api/inspect.hpp"

#include <utility>

#include "support/hash.hpp"

namespace lathe {
namespace {

std::vector<DescribedValue> described(const std::vector<ValueInfo>& infos) {
    std::vector<DescribedValue> values;
    for (const ValueInfo& info : infos)
        values.push_back({info.name, info.type, info.shape()});
    return values;
}

} // namespace

Result<Inspection> inspect_model(const std::filesystem::path& file) {
    Inspection inspection;
    LATHE_TRY(inspection.model, load_onnx(file));
    inspection.summary = summarize_resolved(inspection.model);
    inspection.nonfinite = find_nonfinite(inspection.model);
    return inspection;
}

Result<Json> inspection_document(const Inspection& inspection, const std::filesystem::path& file, bool with_layers) {
    LATHE_TRY(const std::string digest, hash_file(file));
    Json json = to_json(inspection.summary, with_layers);
    json["file"] = file.string();
    std::error_code failed;
    json["file_bytes"] = std::filesystem::file_size(file, failed);
    json["hash"] = digest;
    Json metadata = Json::object();
    for (const auto& [key, value] : inspection.model.metadata) {
        auto parsed = parse_json(value, key);
        if (parsed && key == "lathe.tokenizer" && parsed->is_object()) { // its graphs are half a megabyte of base64
            parsed->erase("single");
            parsed->erase("pair");
            parsed->erase("huggingface");
        }
        metadata[key] = parsed ? *std::move(parsed) : Json(value);
    }
    json["metadata"] = metadata;
    Json nonfinite = Json::array();
    for (const NonfiniteTensor& tensor : inspection.nonfinite)
        nonfinite.push_back({{"name", tensor.name}, {"nans", tensor.nans}, {"infinities", tensor.infinities}});
    json["nonfinite_weights"] = nonfinite;
    return json;
}

Result<InspectResult> inspect(const std::filesystem::path& file) {
    LATHE_TRY(const Inspection inspection, inspect_model(file));
    const ModelSummary& summary = inspection.summary;
    InspectResult result;
    result.name = summary.name;
    result.producer = summary.producer;
    result.opsets = summary.opsets;
    result.inputs = described(summary.inputs);
    result.outputs = described(summary.outputs);
    result.operators = summary.operators;
    result.parameters = summary.parameters;
    result.macs = summary.macs;
    result.assumed_dimensions = summary.assumed_dimensions;
    result.unknown_layers = summary.unknown_layers;
    result.weight_bytes = summary.weight_bytes;
    result.activation_bytes = summary.activation_bytes;
    result.peak_activation_bytes = summary.peak_activation_bytes;
    for (const LayerSummary& layer : summary.layers) {
        result.layers.push_back({layer.name, layer.op_type, described(layer.inputs), described(layer.outputs),
                                 layer.macs, layer.parameters, layer.precision});
    }
    for (const auto& [key, value] : inspection.model.metadata)
        result.metadata[key] = value;
    for (const NonfiniteTensor& tensor : inspection.nonfinite)
        result.nonfinite_weights.push_back(tensor.name);
    LATHE_TRY(const Json document, inspection_document(inspection, file, true));
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
