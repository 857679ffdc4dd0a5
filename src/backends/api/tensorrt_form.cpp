#include "backends/api/tensorrt_form.hpp"

#include <charconv>
#include <utility>

#include "backends/api/typed_graph.hpp"
#include "onnx/onnx.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

constexpr const char* build_again = "build the engine again";

Json layers_json(const std::vector<LayerInfo>& layers) {
    Json array = Json::array();
    for (const LayerInfo& layer : layers)
        array.push_back({layer.name, layer.type, layer.precision, layer.implementation, layer.nodes});
    return array;
}

/// Forms of before the inspector was asked hold three texts a layer, and name the node alike.
LayerInfo layer_from(const Json& json) {
    LayerInfo layer;
    layer.name = json.at(0).get<std::string>();
    layer.type = json.at(1).get<std::string>();
    layer.precision = json.at(2).get<std::string>();
    layer.nodes = {layer.name};
    if (json.size() == 3) return layer;
    layer.implementation = json.at(3).get<std::string>();
    layer.nodes = json.at(4).get<std::vector<std::string>>();
    return layer;
}

std::vector<LayerInfo> layers_from(const Json& array) {
    std::vector<LayerInfo> layers;
    for (const Json& json : array)
        layers.push_back(layer_from(json));
    return layers;
}

/// "TensorRT 10.16.0": the product, and its numbers; those are empty where the text is none of this kind.
struct Release {
    std::string product;
    std::vector<int> numbers;
};

Release release_of(const std::string& environment) {
    const std::size_t space = environment.rfind(' ');
    if (space == std::string::npos) return {environment, {}};
    Release release{environment.substr(0, space), {}};
    const char* at = environment.data() + space + 1;
    const char* const end = environment.data() + environment.size();
    while (at < end) {
        int number = 0;
        const auto [next, failed] = std::from_chars(at, end, number);
        if (failed != std::errc{} || (next < end && *next != '.')) return {release.product, {}};
        release.numbers.push_back(number);
        at = next + 1;
    }
    return release;
}

} // namespace

ByteChain write_tensorrt_form(const TensorRtForm& form, ByteChain plan) {
    Json header{{"environment", form.environment},
                {"layers", layers_json(form.layers)},
                {"layers_from", to_string(form.layer_source)}};
    if (form.options) header["options"] = to_json(*form.options);
    if (!form.graph_digest.empty()) header["graph"] = form.graph_digest;
    add_bindings(header, form);
    return write_compiled(tensorrt_format, header, std::move(plan));
}

Result<TensorRtFormAndPlan> read_tensorrt_form(std::span<const std::byte> blob) {
    LATHE_TRY(const CompiledForm parts, read_compiled(tensorrt_format, blob));
    LATHE_TRY(const Json header, parse_json(parts.header, "compiled form"));
    TensorRtFormAndPlan read;
    TensorRtForm& form = read.form;
    LATHE_TRY(static_cast<CompiledBindings&>(form), read_bindings(header));
    try {
        form.environment = header.at("environment").get<std::string>();
        form.layers = layers_from(header.at("layers"));
        if (header.value("layers_from", "") == to_string(LayerSource::engine)) form.layer_source = LayerSource::engine;
        form.graph_digest = header.value("graph", "");
    } catch (const Json::exception& error) {
        return damaged_form(json_fault(error));
    }
    if (const auto found = header.find("options"); found != header.end()) {
        LATHE_TRY(form.options, tensorrt_options_from(*found, "compiled form"));
    }
    read.plan = parts.body;
    return read;
}

Result<void> check_tensorrt_version(const TensorRtForm& form, const std::string& here) {
    if (form.environment == here) return {};
    const auto refused = [&](const std::string& why) {
        return Error{ErrorCode::mismatch, "built by " + form.environment + ", here " + here + why, "", build_again};
    };
    const Release then = release_of(form.environment);
    const Release now = release_of(here);
    const bool asked = form.options && form.options->version_compatible;
    if (!asked || then.product != now.product || then.numbers.empty() || now.numbers.empty()) return refused("");
    if (then.product != "TensorRT") return refused(": its plans load in the release that built them only");
    if (then.numbers > now.numbers) return refused(": a version-compatible plan loads in later versions only");
    return {};
}

Result<std::string> tensorrt_onnx(const Model& model, Precision precision) {
    LATHE_TRY(const TypedModel typed, write_precision(model, precision));
    return serialize_onnx(typed.model);
}

Result<std::string> onnx_for_refit(const TensorRtForm& form, std::span<const std::byte> graph, Precision precision) {
    if (graph.empty()) {
        return Error{ErrorCode::not_found,
                     "the plan was stripped of its weights, and the graph to give them back from is not there",
                     "--strip-weights", "load the engine file, which holds it"};
    }
    LATHE_TRY(const Model model, parse_onnx(graph));
    LATHE_TRY(std::string onnx, tensorrt_onnx(model, precision));
    if (hash_hex(std::as_bytes(std::span(onnx))) == form.graph_digest) return onnx;
    return Error{ErrorCode::mismatch,
                 "the plan was stripped of its weights, and the graph in the engine is not the one TensorRT built it "
                 "from, or this version of Lathe writes it differently",
                 "--strip-weights", build_again};
}

} // namespace lathe
