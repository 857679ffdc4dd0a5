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

bool clamp_takes(const EpilogueParams& e, std::int32_t output_type) {
    if (e.act != act_none && e.act != act_relu && e.act != act_clip) return false;
    if (output_type != type_f16 && output_type != type_bf16 && output_type != type_s8) return false;
    if (!(e.output_scale_inverse > 0) || !std::isfinite(e.output_scale_inverse)) return false;
    const float low = low_of(e), high = high_of(e);
    if (!(low <= 0) || !(high >= 0)) return false; // padded channels are zeros
    return output_type != type_s8 || std::fmin(std::rint(high), 127.0F) > std::fmax(std::rint(low), -128.0F);
}

Clamp clamp_of(const EpilogueParams& e, std::int32_t output_type) {
    Clamp clamp{};
    const float low = low_of(e), high = high_of(e);
    clamp.output_scale_inverse = e.output_scale_inverse;
    clamp.residual_factor = e.residual_scale * e.output_scale_inverse;
    if (output_type == type_s8) {
        clamp.lowest = std::fmax(std::rint(low), -128.0F);
        clamp.range = std::fmin(std::rint(high), 127.0F) - clamp.lowest;
        clamp.range_inverse = 1.0F / clamp.range;
        clamp.residual_factor /= clamp.range;
    } else {
        clamp.low = twice(low, output_type);
        clamp.high = twice(high, output_type);
    }
    return clamp;
}

} // namespace lathe::cuda::kernels::quads
