#include "backends/api/tensorrt.hpp"

#include "support/json.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

constexpr const char* metadata_key = "lathe.tensorrt";

} // namespace

Json to_json(const TensorRtOptions& options) {
    return {{"optimization_level", options.optimization_level ? Json(*options.optimization_level) : Json()},
            {"version_compatible", options.version_compatible},
            {"hardware_compatible", options.hardware_compatible},
            {"strip_weights", options.strip_weights},
            {"refittable", options.refittable},
            {"compute_capabilities", options.compute_capabilities}};
}

Result<TensorRtOptions> tensorrt_options_from(const Json& json, const std::string& where) {
    TensorRtOptions options;
    try {
        if (const Json& level = json.at("optimization_level"); !level.is_null())
            options.optimization_level = level.get<int>();
        options.version_compatible = json.at("version_compatible").get<bool>();
        options.hardware_compatible = json.at("hardware_compatible").get<bool>();
        options.strip_weights = json.at("strip_weights").get<bool>();
        options.refittable = json.at("refittable").get<bool>();
        options.compute_capabilities = json.at("compute_capabilities").get<std::vector<int>>();
    } catch (const Json::exception& error) {
        return Error{ErrorCode::parse_error, "the TensorRT options are not as expected: " + json_fault(error), where,
                     "build from the model without them"};
    }
    if (options.optimization_level && (*options.optimization_level < 0 || *options.optimization_level > 5)) {
        return Error{ErrorCode::parse_error,
                     "the optimisation level is " + std::to_string(*options.optimization_level) + ", not 0 to 5", where,
                     "build from the model without it"};
    }
    return options;
}

void set_tensorrt_options(Model& model, const TensorRtOptions& options) {
    model.set_metadata(metadata_key, to_json(options).dump());
}

Result<TensorRtOptions> tensorrt_options_of(const Model& model) {
    const std::string* text = model.find_metadata(metadata_key);
    if (text == nullptr) return TensorRtOptions{};
    LATHE_TRY(const Json json, parse_json(*text, "metadata lathe.tensorrt"));
    return tensorrt_options_from(json, "metadata lathe.tensorrt");
}

} // namespace lathe
