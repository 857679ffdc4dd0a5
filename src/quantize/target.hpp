#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "calibrate/range.hpp"
#include "lathe/quantize.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// How the two inputs of an elementwise residual Add are treated when its output is wanted in int8.
enum class ResidualRule {
    skip_input,  ///< only the input that does not come straight from a convolution, which then adds it in float32
    both_inputs, ///< both: the runtime fuses the Add only between quantised tensors
};

/// What a target's runtime needs of a Q/DQ graph. One constant a target; the figures behind each are in profiles.cpp.
struct TargetProfile {
    Target target = Target::openvino;
    const char* name = "";
    /// Activations: uint8 with a zero point where a CPU multiplies u8 x s8, int8 with zero point 0 on NVIDIA hardware.
    NumberFormat activations;
    WeightGranularity granularity = WeightGranularity::per_channel; ///< of weights
    ResidualRule residual = ResidualRule::both_inputs;
    /// The runtime makes an int8 kernel only where the output is quantised too, and all its readers read that.
    bool quantize_outputs = false;
    /// A reshaping op needs the pair before and after it (same scale) to run on int8; otherwise one before is enough.
    bool pair_after_pass_through = false;
    /// AveragePool and GlobalAveragePool keep int8 between a pair on either side.
    bool quantize_average_pool = true;
    /// MatMul of two activations (attention) in int8.
    bool quantize_activation_matmul = true;
    /// A convolution with fewer input or output channels stays float; depthwise ones are judged by their output.
    std::int64_t minimum_channels = 1;
    /// The first convolution (at most 4 input channels) is exempt from minimum_channels.
    bool quantize_stem = true;
    /// Convolutions of one pixel whose result scales a whole image (squeeze-and-excitation) run in int8 too. On a GPU
    /// they take the time of a launch in any format, and quantising what they average is a pass over the image.
    bool quantize_gates = true;
    /// MatMul and Gemm whose depth or width is less stay float. At least 2: one row or column is a dot product.
    std::int64_t minimum_matmul_size = 2;
    /// Of weights on CPUs without VNNI, whose 16-bit sums of u8 x s8 overflow.
    WeightRange range_without_vnni = WeightRange::full;
    /// Kernels for such CPUs lay the input channels of one position of a convolution's kernel right behind those of the
    /// one before: with an odd number of them, pairs span two positions. Else each position begins a pair.
    bool pairs_span_positions = false;
    /// Activations that are never negative and are read only by depthwise convolutions, others without padding, matrix
    /// products and residual Adds take all of int8, with zero point -128: there it costs nothing but a constant in the
    /// bias.
    bool zero_point_from_zero = false;
    /// x * Sigmoid(x) behind a convolution is part of its kernel, and so is a sum behind its activation (YOLO's blocks:
    /// skip + SiLU(conv)): both can give int8.
    bool gates_and_adds_behind = false;
    /// A Mul in front of a MatMul, by factors a channel, is part of the pass that quantises the value, and so free.
    bool scales_in_front = false;
};

/// All targets, in the order of `Target`.
std::span<const TargetProfile> target_profiles();
const TargetProfile& profile_of(Target target);

/// The profile with the number formats asked for in place of its own; what is absent stays.
/// unsupported, with the cause, where the target's runtime cannot run them.
Result<TargetProfile> with_formats(TargetProfile profile, std::optional<WeightGranularity> weights,
                                   std::optional<ActivationScheme> activations);
/// What the weights for a target take on this CPU.
WeightRange range_for_this_cpu(const TargetProfile& profile);
ActivationScheme scheme_of(const NumberFormat& activations);

} // namespace lathe
