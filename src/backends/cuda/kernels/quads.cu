// Clamps as quads.cuh's kernels use them.

#include "backends/cuda/kernels/quads.cuh"

namespace lathe::cuda::kernels::quads {
namespace {

float low_of(const EpilogueParams& e) {
    return e.act == act_relu ? 0.0F : e.act == act_clip ? e.low * e.output_scale_inverse : -INFINITY;
}
float high_of(const EpilogueParams& e) { return e.act == act_clip ? e.high * e.output_scale_inverse : INFINITY; }
std::uint32_t twice(float v, std::int32_t type) {
    const std::uint32_t bits =
        type == type_f16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
    return bits << 16 | bits;
}

} // namespace

bool is_curved(const EpilogueParams& e) {
    return e.act == act_leaky_relu || e.act == act_gelu_erf || e.act == act_gelu_tanh || e.act == act_silu ||
           e.act == act_hard_swish || (e.act <= act_clip && e.residual_last != 0);
}

bool clamp_takes(const EpilogueParams& e, std::int32_t output_type) {
    if (e.residual_last != 0) return false;
    if (e.act != act_none && e.act != act_relu && e.act != act_clip) return false;
    if (output_type != type_f16 && output_type != type_bf16 && output_type != type_s8) return false;
    if (!(e.output_scale_inverse > 0) || !std::isfinite(e.output_scale_inverse)) return false;
    const float low = low_of(e), high = high_of(e);
    if (!(low <= 0) || !(high >= 0)) return false; // padded channels are zeros
    return output_type != type_s8 || std::fmin(std::rint(high), 127.0F) > std::fmax(std::rint(low), -128.0F);
}

bool curve_takes(const EpilogueParams& e, std::int32_t output_type) {
    if (!is_curved(e)) return clamp_takes(e, output_type);
    if (e.act == act_clip && !(e.low <= 0 && e.high >= 0)) return false; // padded channels are zeros
    if (output_type == type_s8) return e.output_scale_inverse > 0 && std::isfinite(e.output_scale_inverse);
    return (output_type == type_f16 || output_type == type_bf16) && e.output_scale_inverse == 1;
}

Clamp clamp_of(const EpilogueParams& e, std::int32_t output_type) {
    Clamp clamp{};
    const bool curved = is_curved(e);
    const float low = curved ? -INFINITY : low_of(e), high = curved ? INFINITY : high_of(e);
    clamp.curved = curved ? 1 : 0;
    clamp.output_scale_inverse = curved ? 1.0F : e.output_scale_inverse;
    clamp.residual_factor = e.residual_scale * clamp.output_scale_inverse;
    if (output_type == type_s8) {
        clamp.lowest = std::fmax(std::rint(low), -128.0F);
        clamp.range = std::fmin(std::rint(high), 127.0F) - clamp.lowest;
        clamp.range_inverse = curved ? 1.0F : 1.0F / clamp.range;
        clamp.base = curved ? 0.0F : clamp.lowest;
        if (!curved) clamp.residual_factor /= clamp.range;
        clamp.after = e.output_scale_inverse / clamp.range;
        clamp.shift = -clamp.lowest / clamp.range;
    } else {
        clamp.low = twice(low, output_type);
        clamp.high = twice(high, output_type);
    }
    return clamp;
}

} // namespace lathe::cuda::kernels::quads
