#include "cli/number_formats.hpp"

namespace lathe::cli {

void add_format_options(CLI::App& command, FormatArguments& arguments) {
    command
        .add_option("--weights", arguments.weights,
                    "Weights: a scale for each output channel, or one for all (default: what the target runs best, "
                    "per-channel)")
        ->check(CLI::IsMember({to_string(WeightGranularity::per_channel), to_string(WeightGranularity::per_tensor)}));
    command
        .add_option("--activations", arguments.activations,
                    "Activations: symmetric, int8 with zero point 0; or asymmetric, uint8 with a zero point (default: "
                    "what the target runs best: asymmetric for openvino and onnxruntime, symmetric for tensorrt and "
                    "cuda, which refuse asymmetric)")
        ->check(CLI::IsMember({to_string(ActivationScheme::symmetric), to_string(ActivationScheme::asymmetric)}));
}

Result<void> choose_formats(const FormatArguments& arguments, PlacementOptions& placement) {
    if (!arguments.weights.empty()) {
        LATHE_TRY(placement.weights, weight_granularity_from_name(arguments.weights));
    }
    if (!arguments.activations.empty()) {
        LATHE_TRY(placement.activations, activation_scheme_from_name(arguments.activations));
    }
    return {};
}

} // namespace lathe::cli
