#include <map>
#include <sstream>

#include "backends/openvino/compiled.hpp"

namespace lathe::openvino {

namespace {

std::string rt_string(const ov::Node& node, const char* key) {
    const auto& info = node.get_rt_info();
    const auto found = info.find(key);
    return found == info.end() || !found->second.is<std::string>() ? "" : found->second.as<std::string>();
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        if (!part.empty()) parts.push_back(part);
    }
    return parts;
}

/// OpenVINO's name of a precision in the words Lathe uses for engines.
std::string precision_name(std::string name) {
    for (auto& c : name)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name == "f32") return "fp32";
    if (name == "f16") return "fp16";
    if (name == "i8" || name == "u8") return "int8";
    if (name == "i32") return "int32";
    if (name == "i64") return "int64";
    return name;
}

bool is_structural(const std::string& type) {
    return type == "Input" || type == "Output" || type == "Const" || type == "Constant";
}

} // namespace

Result<std::vector<LayerInfo>> layers_of(const ov::CompiledModel& compiled) {
    return guarded("cannot read the compiled layers", "openvino", [&]() -> Result<std::vector<LayerInfo>> {
        std::vector<LayerInfo> layers;
        const std::shared_ptr<const ov::Model> executed = compiled.get_runtime_model();
        for (const auto& node : executed->get_ordered_ops()) {
            const std::string type = rt_string(*node, "layerType");
            if (is_structural(type)) continue;
            LayerInfo layer;
            layer.name = node->get_friendly_name();
            layer.nodes = split(rt_string(*node, "originalLayersNames"));
            layer.type = type;
            layer.precision = precision_name(rt_string(*node, "runtimePrecision"));
            layer.implementation = rt_string(*node, "primitiveType");
            layers.push_back(std::move(layer));
        }
        return layers;
    });
}

Result<std::vector<LayerInfo>> profile_of(const ov::CompiledModel& compiled, const ov::InferRequest& request) {
    LATHE_TRY(std::vector<LayerInfo> layers, layers_of(compiled));
    return guarded("cannot read layer times", "openvino", [&]() -> Result<std::vector<LayerInfo>> {
        std::map<std::string, double> milliseconds;
        for (const auto& info : request.get_profiling_info())
            milliseconds[info.node_name] = static_cast<double>(info.real_time.count()) / 1000.0;
        for (auto& layer : layers) {
            const auto found = milliseconds.find(layer.name);
            if (found != milliseconds.end()) layer.milliseconds = found->second;
        }
        return std::move(layers);
    });
}

} // namespace lathe::openvino
