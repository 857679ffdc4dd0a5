// Which depthwise convolutions the kernels of depthwise_window.cuh take, and how their work is cut.

#include <algorithm>

#include "backends/cuda/kernels/depthwise_window.hpp"

namespace lathe::cuda::kernels {

namespace depthwise {

int taps_at_once(const DepthwiseParams& p) {
    const WindowParams& window = p.window;
    if (window.dil_w != 1 || window.kernel_w < 3 || window.stride_w > 2) return 0;
    for (const int taps : {7, 5, 3})
        if (window.kernel_w % taps == 0 && (taps < 7 || window.stride_w == 1)) return taps;
    return 5 <= window.kernel_w ? 5 : 3; // and the rest one by one
}

namespace {

constexpr std::int64_t most_taps = 1024; // of bytes, whose sums are exact as floats

int channels_of(const DepthwiseParams& p) { return std::max(p.c_stride, p.y_stride); }

/// Threads of neighbouring channels: 8, or fewer where that leaves fewer of them idle.
int lanes_log2(const DepthwiseParams& p) {
    const int chunks = (channels_of(p) + 3) / 4;
    int best = 3;
    for (const int lanes : {3, 2, 1})
        if ((chunks + (1 << lanes) - 1) >> lanes << lanes < (chunks + (1 << best) - 1) >> best << best) best = lanes;
    return best;
}

} // namespace
} // namespace depthwise

std::size_t depthwise_window_shared_bytes(const DepthwiseParams& p) {
    const std::size_t taps = static_cast<std::size_t>(p.depths.kernel) * static_cast<std::size_t>(p.window.kernel_h) *
                             static_cast<std::size_t>(p.window.kernel_w);
    return taps * (std::size_t{16} << depthwise::lanes_log2(p));
}

bool depthwise_window_takes(const DepthwiseParams& p, int columns) {
    if (p.type < type_f32 || p.type > type_s8 || p.output_type < type_f32 || p.output_type > type_s8) return false;
    if (p.c_stride % 4 != 0 || p.y_stride % 4 != 0 || p.c_pitch % 4 != 0 || p.y_pitch % 4 != 0) return false;
    if (p.weight_c % 4 != 0 || p.weight_c < p.c) return false;
    if (std::int64_t{p.depths.kernel} * p.window.kernel_h * p.window.kernel_w > depthwise::most_taps) return false;
    if (p.epilogue.residual_scale != 0 && p.epilogue.residual_stride % 4 != 0) return false;
    if (std::int64_t{p.h} * p.w * p.c_pitch > 0x7fffffff || std::int64_t{p.n} * p.p * p.q > 0x7fffffff) return false;
    if (depthwise::taps_at_once(p) == 0) return columns == depthwise::general_columns;
    if (is_deep(p))
        return p.pad_word == 0 &&
               (columns == depthwise::general_columns || (columns == 2 && depthwise::taps_at_once(p) == 3));
    return columns == 2 || columns == 4 || columns == 7 || columns == 14;
}

cudaError_t launch_depthwise_window(const DepthwiseParams& p, int columns, cudaStream_t stream, bool programmatic) {
    if (!depthwise_window_takes(p, columns)) return cudaErrorInvalidValue;
    depthwise::Work t{};
    t.lanes_log2 = depthwise::lanes_log2(p);
    const int channels = 4 << t.lanes_log2;
    t.groups = (depthwise::channels_of(p) + channels - 1) / channels;
    t.across = (p.q + columns - 1) / columns;
    t.strips = t.across * p.p * p.n;
    const std::size_t shared = depthwise_window_shared_bytes(p);
    switch (p.type) {
        case type_s8: return depthwise::launch_s8(p, t, columns, shared, stream, programmatic);
        case type_f16: return depthwise::launch_f16(p, t, columns, shared, stream, programmatic);
        case type_bf16: return depthwise::launch_bf16(p, t, columns, shared, stream, programmatic);
        default: return depthwise::launch_f32(p, t, columns, shared, stream, programmatic);
    }
}

} // namespace lathe::cuda::kernels
