#include "backends/api/tensorrt_layers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

namespace {

std::string text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Of "Thirty-two wide channel vectorized row major Int8 format." or "Half": "int8", "fp16"; other words as they are.
std::string precision_in(const std::string& words) {
    static constexpr std::array<std::pair<std::string_view, const char*>, 13> names{{{"BFloat16", "bf16"},
                                                                                     {"BF16", "bf16"},
                                                                                     {"FP16", "fp16"},
                                                                                     {"Half", "fp16"},
                                                                                     {"FP32", "fp32"},
                                                                                     {"FP8", "fp8"},
                                                                                     {"FP4", "fp4"},
                                                                                     {"Float", "fp32"},
                                                                                     {"Int8", "int8"},
                                                                                     {"INT8", "int8"},
                                                                                     {"Int32", "int32"},
                                                                                     {"Int64", "int64"},
                                                                                     {"Bool", "boolean"}}};
    for (const auto& [word, name] : names) {
        if (words.find(word) != std::string::npos) return name;
    }
    return words;
}

/// Of the first of a layer's "Inputs" or "Outputs".
std::string precision_of(const Json& layer, const char* side) {
    const auto found = layer.find(side);
    if (found == layer.end() || !found->is_array() || found->empty() || !found->front().is_object()) return "";
    for (const char* key : {"Format/Datatype", "Datatype"}) {
        if (const std::string words = text_of(found->front(), key); !words.empty()) return precision_in(words);
    }
    return "";
}

/// "[ONNX Layer: a]\x1e[ONNX Layer: b]": a and b. Names may hold brackets.
std::vector<std::string> nodes_in(const std::string& metadata) {
    constexpr std::string_view opening = "[ONNX Layer: ";
    std::vector<std::string> nodes;
    for (std::size_t at = metadata.find(opening); at != std::string::npos;) {
        const std::size_t begin = at + opening.size();
        at = metadata.find(opening, begin);
        const std::size_t end = metadata.rfind(']', at == std::string::npos ? at : at - 1);
        if (end != std::string::npos && end > begin) nodes.push_back(metadata.substr(begin, end - begin));
    }
    return nodes;
}

/// Of the first of a layer's "Inputs" or "Outputs", open sizes counted as 1; empty where it is not told.
std::vector<double> sizes_of(const Json& layer, const char* side) {
    const auto found = layer.find(side);
    if (found == layer.end() || !found->is_array() || found->empty() || !found->front().is_object()) return {};
    const auto sizes = found->front().find("Dimensions");
    if (sizes == found->front().end() || !sizes->is_array()) return {};
    std::vector<double> counts;
    for (const Json& size : *sizes) {
        if (!size.is_number()) return {};
        counts.push_back(std::max(size.get<double>(), 1.0));
    }
    return counts;
}

/// 0 where no sizes are told.
double elements(const std::vector<double>& sizes) {
    return sizes.empty() ? 0 : std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies{});
}

double number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

/// The type's name holds one of the words, in capitals or not: "CaskConvolution", "gemm", "MatrixMultiply".
bool names(std::string type, std::initializer_list<std::string_view> words) {
    std::ranges::transform(type, type.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::ranges::any_of(words, [&](std::string_view word) { return type.find(word) != std::string::npos; });
}

double macs_of(const Json& layer, const std::string& type) {
    const std::vector<double> in = sizes_of(layer, "Inputs");
    const std::vector<double> out = sizes_of(layer, "Outputs");
    if (const double maps = number_at(layer, "OutMaps"); maps > 0) {
        const auto weights = layer.find("Weights");
        const double count = weights != layer.end() && weights->is_object() ? number_at(*weights, "Count") : 0;
        // A transposed convolution multiplies every element that it reads.
        if (names(type, {"deconv"})) return in.size() > 1 ? elements(in) * count / in[1] : 0;
        return elements(out) * count / maps;
    }
    if (names(type, {"gemm", "matmul", "matrixmultiply"})) return in.empty() ? 0 : elements(out) * in.back();
    return 0;
}

} // namespace

std::vector<LayerInfo> layers_of_inspector(const Json& information) {
    std::vector<LayerInfo> layers;
    const auto list = information.find("Layers");
    if (!information.is_object() || list == information.end() || !list->is_array()) return layers;
    for (const Json& json : *list) {
        LayerInfo layer;
        if (json.is_string()) layer.name = json.get<std::string>();
        if (json.is_object()) {
            layer.name = text_of(json, "Name");
            layer.type = text_of(json, "LayerType");
            layer.implementation = text_of(json, "TacticName");
            layer.nodes = nodes_in(text_of(json, "Metadata"));
            const std::string input = precision_of(json, "Inputs");
            layer.precision = input == "int8" || input == "fp8" ? input : precision_of(json, "Outputs");
            layer.macs = macs_of(json, layer.type);
        }
        if (!layer.name.empty()) layers.push_back(std::move(layer));
    }
    return layers;
}

} // namespace lathe
