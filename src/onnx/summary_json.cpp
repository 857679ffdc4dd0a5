#include "onnx/summary.hpp"

namespace lathe {

std::string shape_text(const ValueInfo& info) {
    if (!info.dims) return "";
    if (info.dims->empty()) return "scalar";
    std::string text;
    for (const Dimension& dim : *info.dims) {
        if (!text.empty()) text += "x";
        text += dim.size ? std::to_string(*dim.size) : dim.symbol.empty() ? "?" : dim.symbol;
    }
    return text;
}

Json to_json(const ValueInfo& info) {
    Json shape = nullptr;
    if (info.dims) {
        shape = Json::array();
        for (const Dimension& dim : *info.dims) {
            if (dim.size) {
                shape.push_back(*dim.size);
            } else if (!dim.symbol.empty()) {
                shape.push_back(dim.symbol);
            } else {
                shape.push_back(nullptr);
            }
        }
    }
    const std::string type = info.type == DataType::undefined ? "unknown" : to_string(info.type);
    return Json{{"name", info.name}, {"type", type}, {"shape", shape}};
}

Json to_json(const ModelSummary& summary, bool with_layers) {
    const auto values = [](const std::vector<ValueInfo>& infos) {
        Json list = Json::array();
        for (const ValueInfo& info : infos)
            list.push_back(to_json(info));
        return list;
    };
    Json opsets = Json::object();
    for (const auto& [domain, version] : summary.opsets)
        opsets[domain.empty() ? "ai.onnx" : domain] = version;
    const auto main_opset = summary.opsets.find("");
    Json json{{"kind", "model"},
              {"name", summary.name},
              {"ir_version", summary.ir_version},
              {"opset", main_opset == summary.opsets.end() ? 0 : main_opset->second},
              {"opsets", opsets},
              {"producer", summary.producer},
              {"inputs", values(summary.inputs)},
              {"outputs", values(summary.outputs)},
              {"nodes", summary.nodes},
              {"operators", summary.operators},
              {"parameters", summary.parameters},
              {"macs", summary.macs},
              {"assumed_dimensions", summary.assumed_dimensions},
              {"layers_of_unknown_shape", summary.unknown_layers},
              {"weight_bytes", summary.weight_bytes},
              {"activation_bytes", summary.activation_bytes},
              {"peak_activation_bytes", summary.peak_activation_bytes},
              {"precisions", summary.precisions}};
    if (!with_layers) return json;
    Json layers = Json::array();
    for (const LayerSummary& layer : summary.layers) {
        layers.push_back({{"name", layer.name},
                          {"type", layer.op_type},
                          {"precision", layer.precision},
                          {"macs", layer.macs},
                          {"parameters", layer.parameters},
                          {"inputs", values(layer.inputs)},
                          {"outputs", values(layer.outputs)}});
    }
    json["layers"] = std::move(layers);
    return json;
}

} // namespace lathe
