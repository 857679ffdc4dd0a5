#pragma once
// What the host side of both Hopper kernels shares.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/tensor_maps.hpp"

namespace lathe::cuda::kernels::sm90 {

inline constexpr int shared_limit = 232448; ///< bytes of shared memory of a block, at most

inline bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// Pixels lie as far apart as their channels need, at least.
inline bool has_pitches(const ImplicitGemmParams& params) {
    return params.c_pitch >= params.c && params.k_pitch >= params.k;
}

/// 1x1, stride 1, no padding: pixels are rows of a matrix.
inline bool is_matrix(const ImplicitGemmParams& params) {
    return params.r == 1 && params.s == 1 && params.stride_h == 1 && params.stride_w == 1 && params.pad_h == 0 &&
           params.pad_w == 0 && params.p == params.h && params.q == params.w;
}

/// More than bounds lies behind the sums: see bend.
inline bool is_curved(const EpilogueParams& epilogue) {
    const bool curve = (epilogue.act >= 3 && epilogue.act <= 5) || epilogue.act == 7 || epilogue.act == 9;
    return curve || (epilogue.act <= 2 && epilogue.residual_last != 0);
}
/// Whether results can go straight from registers to memory: whole runs of
/// channels, simple arithmetic behind the sums.
inline bool is_direct(int run, const ImplicitGemmParams& params) {
    const EpilogueParams& epilogue = params.epilogue;
    const bool simple = epilogue.act <= 2 && epilogue.residual_last == 0 && epilogue.output_scale_inverse == 1;
    return params.k % (4 * run) == 0 && params.k == params.k_stride && (simple || is_curved(epilogue)) &&
           is_aligned(params.output) && is_aligned(epilogue.residual);
}

/// A window that is odd, padded by half of it, in steps of one or two.
inline bool is_centred_window(const ImplicitGemmParams& params) {
    return params.r % 2 == 1 && params.s % 2 == 1 && params.pad_h == params.r / 2 && params.pad_w == params.s / 2 &&
           params.stride_h == params.stride_w && params.stride_h <= 2 && params.dil_h == 1 && params.dil_w == 1 &&
           params.p == (params.h + params.stride_h - 1) / params.stride_h &&
           params.q == (params.w + params.stride_w - 1) / params.stride_w;
}

/// Whether im2col boxes can walk over these outputs, up to `reach` pixels
/// behind the first tap.
inline bool is_walkable(int extent, int outputs, int stride, int pad, int reach) {
    const PixelBox box = pixel_box(extent, outputs, stride, pad);
    return stride <= 8 && box.lower >= -128 && box.upper >= -128 && box.upper <= 127 && reach <= 255;
}

inline Destination destination_of(const ImplicitGemmParams& params, const TileConfig& config, bool direct) {
    Destination to{};
    to.output = params.output;
    to.epilogue = params.epilogue;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (params.epilogue.act < 2) {
        to.epilogue.low = params.epilogue.act == 1 ? 0 : -infinity;
        to.epilogue.high = infinity;
    }
    to.direct = direct;
    to.curved = direct && is_curved(params.epilogue);
    to.small_sums = direct && config.in_type == type_s8 && params.r * params.s * params.c <= 256;
    to.steps = to.per_step = 1;
    if (to.curved) {
        const bool bytes = config.out_type == type_s8;
        to.unit = params.epilogue.output_scale_inverse / (bytes ? 255 : 1);
        to.zero = bytes ? 128.0F / 255 : 0;
        to.bottom = -128;
        if (bytes) to.steps = 255;
    } else if (direct && config.out_type == type_s8) { // rounding keeps order, so bounds may be rounded first
        to.epilogue.low = std::nearbyint(std::clamp(to.epilogue.low, -128.0F, 127.0F));
        to.epilogue.high = std::nearbyint(std::clamp(to.epilogue.high, to.epilogue.low, 127.0F));
        to.lowest = to.bottom = to.epilogue.low;
        to.steps = std::max(to.epilogue.high - to.epilogue.low, 1.0F / 256);
        to.per_step = 1 / to.steps;
    }
    to.rows = params.n * params.p * params.q;
    to.k = params.k;
    to.k_stride = params.k_stride;
    to.k_pitch = params.k_pitch;
    to.type = config.out_type;
    to.vectors = params.k_stride * element_bytes(config.out_type) % 16 == 0 &&
                 params.k_pitch * element_bytes(config.out_type) % 16 == 0 && is_aligned(params.output) &&
                 is_aligned(params.epilogue.residual);
    return to;
}

inline MapFormat input_format(const TileConfig& config) {
    return {config.in_type, config.k_bytes / element_bytes(config.in_type)};
}
/// The input's pixels as tiles walk over them; `flat_p` by `flat_q` first taps
/// an image.
inline Pixels pixels_of(const ImplicitGemmParams& params, int flat_p, int flat_q) {
    return {params.n, params.h,        params.w,        params.c,     params.c_pitch, flat_p,
            flat_q,   params.stride_h, params.stride_w, params.pad_h, params.pad_w};
}

/// The instances of several translation units in one list, in order.
template <typename Instance>
std::vector<Instance> joined(std::initializer_list<const Instance* (*)(int&)> lists) {
    std::vector<Instance> result;
    for (const auto list : lists) {
        int count = 0;
        const Instance* first = list(count);
        result.insert(result.end(), first, first + count);
    }
    return result;
}
template <typename Instance>
std::vector<TileConfig> configs_of(const std::vector<Instance>& instances) {
    std::vector<TileConfig> result;
    for (const Instance& instance : instances)
        result.push_back(instance.config);
    return result;
}

/// The kernel that keeps its weights; `index` among its own tiles.
const TileConfig* resident_tiles(int& count);
bool resident_takes(int index, const ImplicitGemmParams& params);
cudaError_t encode_resident(int index, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_resident(int index, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                            bool programmatic);

/// The kernel that loads the pixels under a window once; `index` among its own tiles.
const TileConfig* window_tiles(int& count);
bool window_takes(int index, int split, const ImplicitGemmParams& params);
cudaError_t encode_window(int index, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_window(int index, int split, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                          bool programmatic);

/// The kernel for 3x3 windows over few channels; `index` among its own tiles.
const TileConfig* strip_tiles(int& count);
bool strip_takes(int index, const ImplicitGemmParams& params);
cudaError_t encode_strip(int index, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_strip(int index, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                         bool programmatic);

/// Launches `kernel` in clusters of `split` blocks along x.
inline cudaError_t launch_cluster(const void* kernel, dim3 grid, int threads, int shared_bytes, int split,
                                  cudaStream_t stream, bool programmatic, void** arguments) {
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (split > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim = {static_cast<unsigned>(split), 1, 1};
        ++count;
    }
    if (programmatic) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count].val.programmaticStreamSerializationAllowed = 1;
        ++count;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

} // namespace lathe::cuda::kernels::sm90
