#include "quantize/target.hpp"

namespace lathe {

const char* to_string(WeightGranularity granularity) {
    return granularity == WeightGranularity::per_channel ? "per-channel" : "per-tensor";
}

Result<WeightGranularity> weight_granularity_from_name(std::string_view name) {
    for (const WeightGranularity each : {WeightGranularity::per_channel, WeightGranularity::per_tensor}) {
        if (name == to_string(each)) return each;
    }
    return Error{ErrorCode::invalid_argument, "unknown granularity of weights '" + std::string(name) + "'", "",
                 "use per-channel or per-tensor"};
}

const char* to_string(WeightRange range) {
    switch (range) {
        case WeightRange::full: return "full";
        case WeightRange::pairs: return "pairs";
        case WeightRange::seven_bits: return "seven-bits";
    }
    return "";
}

Result<WeightRange> weight_range_from_name(std::string_view name) {
    for (const WeightRange each : {WeightRange::full, WeightRange::pairs, WeightRange::seven_bits}) {
        if (name == to_string(each)) return each;
    }
    return Error{ErrorCode::invalid_argument, "unknown range of weights '" + std::string(name) + "'", "",
                 "use full, pairs or seven-bits"};
}

const char* to_string(ActivationScheme scheme) {
    return scheme == ActivationScheme::symmetric ? "symmetric" : "asymmetric";
}

Result<ActivationScheme> activation_scheme_from_name(std::string_view name) {
    for (const ActivationScheme each : {ActivationScheme::symmetric, ActivationScheme::asymmetric}) {
        if (name == to_string(each)) return each;
    }
    return Error{ErrorCode::invalid_argument, "unknown scheme of activations '" + std::string(name) + "'", "",
                 "use symmetric or asymmetric"};
}

ActivationScheme scheme_of(const NumberFormat& activations) {
    return activations.symmetric ? ActivationScheme::symmetric : ActivationScheme::asymmetric;
}

Result<TargetProfile> with_formats(TargetProfile profile, std::optional<WeightGranularity> weights,
                                   std::optional<ActivationScheme> activations) {
    profile.granularity = weights.value_or(profile.granularity);
    if (!activations) return profile;
    if (*activations == ActivationScheme::asymmetric && profile.activations.symmetric) {
        const bool some = profile.zero_point_from_zero;
        return Error{ErrorCode::unsupported,
                     std::string(profile.name) + (some ? " takes a zero point only where it costs nothing, not on all "
                                                         "activations"
                                                       : " has symmetric int8 activations only"),
                     "activations asymmetric",
                     some ? "leave it out: tensors that start at zero get a zero point wherever this target can"
                          : "leave it out, or quantise for openvino or onnxruntime"};
    }
    profile.activations = *activations == ActivationScheme::symmetric ? NumberFormat::int8() : NumberFormat::uint8();
    profile.zero_point_from_zero = false;
    return profile;
}

} // namespace lathe
