// Convolutions in groups on mma.sync; f32 exactly with FMAs.
//
// A tile of 8 output channels multiplies only the input channels of its groups, in slices of 16 bytes: those are the
// whole of a wide group, or several narrow ones side by side with weights of 0 where input and output are of different
// groups (an infinite input of a neighbour then gives NaN). A slice is half of an instruction's reduction whatever the
// type, so that all types share every index.
//
// A block keeps the weights of some tiles in shared memory, as the instruction takes them, and goes through the image
// tile by tile: the pixels that a tile of results needs come once for all taps. Sums go through shared memory, so that
// a thread finishes 4 neighbouring channels.

#include <algorithm>

#include "backends/cuda/kernels/grouped.cuh"
#include "backends/cuda/kernels/vec4.cuh"

namespace lathe::cuda::kernels {
namespace {

using mma::Math;
using namespace in_groups;

constexpr int threads = 128, warps = threads / 32;

struct Work {
    std::int32_t taps, slices;        ///< slices: of a tap
    std::int32_t steps;               ///< of two slices
    std::int32_t width;               ///< slices of a pixel in shared memory
    std::int32_t tiles;               ///< of 8 channels, of a block
    std::int32_t rows, columns_log2;  ///< results
    std::int32_t across, down, count; ///< tiles of an image, and of all
    std::int32_t patch_h, patch_w, pixel_bytes;
    std::int32_t sums_pitch; ///< floats of a result in shared memory
    std::int32_t weights_bytes, offsets_bytes, sums_bytes;
};

/// The first slice of a tile's input channels, counted from the block's first one.
template <int Elements>
__device__ __forceinline__ int first_slice(const GroupedParams& p, const Work& t, int channel0, int tile) {
    const int in = p.c / p.groups, out = p.k / p.groups;
    const int at = min(channel0 + tile * tile_channels, p.k - 1) / out * in / Elements;
    return max(0, min(at - channel0 / out * in / Elements, t.width - t.slices));
}

/// The word of a tile's weights that lane (g, q) holds of a slice: output channel g, elements q of four.
template <class T>
__device__ __forceinline__ std::uint32_t weight_word(const GroupedParams& p, int channel, int tap, int input_channel) {
    constexpr int elements = 4 / static_cast<int>(sizeof(T));
    const int in = p.c / p.groups, out = p.k / p.groups, taps = p.window.kernel_h * p.window.kernel_w;
    T v[elements] = {};
    if (channel < p.k) {
        const int first = channel / out * in;
        const T* from = static_cast<const T*>(p.weight) + (static_cast<std::int64_t>(channel) * taps + tap) * in;
#pragma unroll
        for (int i = 0; i < elements; ++i)
            if (input_channel + i >= first && input_channel + i < first + in)
                v[i] = __ldg(from + input_channel + i - first);
    }
    return *reinterpret_cast<const std::uint32_t*>(v);
}

/// Together: tiles of 8 channels that read the same input channels.
template <Math M, int Together>
__global__ void __launch_bounds__(threads)
    grouped(const __grid_constant__ GroupedParams p, const __grid_constant__ Work t) {
    using T = typename Stored<M>::type;
    constexpr int elements = slice_bytes / static_cast<int>(sizeof(T)), of_word = elements / 4;
    extern __shared__ __align__(128) unsigned char shared[];
    std::int32_t* offsets = reinterpret_cast<std::int32_t*>(shared + t.weights_bytes);
    float* sums = reinterpret_cast<float*>(shared + t.weights_bytes + t.offsets_bytes);
    unsigned char* patch = shared + t.weights_bytes + t.offsets_bytes + t.sums_bytes;
    const int thread = static_cast<int>(threadIdx.x), warp = thread >> 5, lane = thread & 31, g = lane >> 2,
              q = lane & 3;
    const int channel0 = static_cast<int>(blockIdx.y) * t.tiles * tile_channels;
    const int in = p.c / p.groups, out = p.k / p.groups, slice0 = channel0 / out * in / elements;
    const WindowParams& window = p.window;
    const int all = t.taps * t.slices;

    // Weights do not depend on the kernel before. mma: [tile][step][lane][2] words; f32: [tile][slice][channel][4].
#pragma unroll 4
    for (int piece = warp; piece < t.tiles * t.steps * 2; piece += warps) {
        const int tile = piece / (t.steps * 2), i = piece - tile * t.steps * 2, tap = i / t.slices;
        const int slice = slice0 + first_slice<elements>(p, t, channel0, tile) + i - tap * t.slices;
        std::uint32_t word = 0;
        if (i < all) word = weight_word<T>(p, channel0 + tile * tile_channels + g, tap, slice * elements + q * of_word);
        if constexpr (M == Math::tf32) mma::to_tf32(word);
        std::uint32_t* to = reinterpret_cast<std::uint32_t*>(shared + (tile * t.steps + i / 2) * 256);
        to[M == Math::f32 ? i % 2 * 32 + lane : lane * 2 + i % 2] = word;
    }
    for (int i = thread; i < t.steps * 2; i += threads) {
        const int at = i < all ? i : 0, tap = at / t.slices, r = tap / window.kernel_w, s = tap - r * window.kernel_w;
        offsets[i] =
            (r * window.dil_h * t.patch_w + s * window.dil_w) * t.pixel_bytes + (at - tap * t.slices) * slice_bytes;
    }
    pdl_wait();
    pdl_trigger();

    const char* input = static_cast<const char*>(p.input);
    const std::int64_t input_pixel = static_cast<std::int64_t>(p.c_stride) * static_cast<int>(sizeof(T));
    const int columns = 1 << t.columns_log2, pixels = t.rows << t.columns_log2;
    for (int at = static_cast<int>(blockIdx.x); at < t.count; at += static_cast<int>(gridDim.x)) {
        const int n = at / (t.down * t.across), rest = at - n * t.down * t.across;
        const int oh0 = rest / t.across * t.rows, ow0 = rest % t.across << t.columns_log2;
        const int h0 = oh0 * window.stride_h - window.pad_h, w0 = ow0 * window.stride_w - window.pad_w;
        const std::uint32_t to = mma::shared_address(patch);
        for (int i = thread; i < t.patch_h * t.patch_w * t.width; i += threads) {
            const int pixel = i / t.width, slice = i - pixel * t.width, row = pixel / t.patch_w;
            const int h = h0 + row, w = w0 + pixel - row * t.patch_w, byte = (slice0 + slice) * slice_bytes;
            const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                                static_cast<unsigned>(w) < static_cast<unsigned>(p.w) && byte < input_pixel;
            mma::copy_async(to + static_cast<std::uint32_t>(pixel * t.pixel_bytes + slice * slice_bytes),
                            inside ? input + ((static_cast<std::int64_t>(n) * p.h + h) * p.w + w) * input_pixel + byte
                                   : input,
                            inside);
        }
        mma::copy_commit();
        mma::copy_wait<0>();
        __syncthreads();

        const int sets = t.tiles / Together, items = pixels / 32 * sets;
        for (int item = warp; item < items; item += warps) {
            const int unit = item / sets, tile0 = (item - unit * sets) * Together;
            const int slices_at = first_slice<elements>(p, t, channel0, tile0) * slice_bytes;
            const unsigned char* weights = shared + tile0 * t.steps * 256;
            if constexpr (M == Math::f32) {
                // a lane has one result's 8 channels
                const int m = unit * 32 + lane, row = m >> t.columns_log2, column = m & (columns - 1);
                const unsigned char* pixel =
                    patch + (row * window.stride_h * t.patch_w + column * window.stride_w) * t.pixel_bytes + slices_at;
                float acc[tile_channels] = {};
                for (int i = 0; i < all; ++i) {
                    const float4 x = *reinterpret_cast<const float4*>(pixel + offsets[i]);
#pragma unroll
                    for (int k = 0; k < tile_channels; ++k) {
                        const float4 w = *reinterpret_cast<const float4*>(weights + i * 128 + k * 16);
                        acc[k] = fmaf(x.x, w.x, fmaf(x.y, w.y, fmaf(x.z, w.z, fmaf(x.w, w.w, acc[k]))));
                    }
                }
                float* to_sums = sums + m * t.sums_pitch + tile0 * tile_channels;
#pragma unroll
                for (int k = 0; k < tile_channels; k += 4)
                    *reinterpret_cast<float4*>(to_sums + k) = make_float4(acc[k], acc[k + 1], acc[k + 2], acc[k + 3]);
            } else {
                std::uint32_t pixel[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int m = unit * 32 + i * 16 + (lane & 15), row = m >> t.columns_log2,
                              column = m & (columns - 1);
                    pixel[i] = to + static_cast<std::uint32_t>(
                                        (row * window.stride_h * t.patch_w + column * window.stride_w) * t.pixel_bytes +
                                        slices_at);
                }
                const std::int32_t* offset = offsets + (lane >> 4);
                std::uint32_t acc[2][Together][4] = {};
#pragma unroll 2
                for (int step = 0; step < t.steps; ++step) {
                    std::uint32_t a[2][4];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        mma::load_matrices(a[i], pixel[i] + static_cast<std::uint32_t>(offset[step * 2]));
                        if constexpr (M == Math::tf32)
#pragma unroll
                            for (std::uint32_t& word : a[i])
                                mma::to_tf32(word);
                    }
#pragma unroll
                    for (int j = 0; j < Together; ++j) {
                        const uint2 b =
                            *reinterpret_cast<const uint2*>(weights + (j * t.steps + step) * 256 + lane * 8);
                        mma::multiply<M>(acc[0][j], a[0], b.x, b.y);
                        mma::multiply<M>(acc[1][j], a[1], b.x, b.y);
                    }
                }
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < Together; ++j) {
                        const auto number = [](std::uint32_t word) {
                            if constexpr (M == Math::s8)
                                return static_cast<float>(static_cast<std::int32_t>(word));
                            else
                                return __uint_as_float(word);
                        };
                        *reinterpret_cast<float2*>(sums + (unit * 32 + i * 8 + g) * t.sums_pitch +
                                                   (tile0 + j) * tile_channels + q * 2) =
                            make_float2(number(acc[i / 2][j][i % 2 * 2]), number(acc[i / 2][j][i % 2 * 2 + 1]));
                    }
            }
        }
        __syncthreads();

        const EpilogueParams& e = p.epilogue;
        const int vectors = t.tiles * tile_channels / 4;
        for (int i = thread; i < pixels * vectors; i += threads) {
            const int m = i / vectors, first = (i - m * vectors) * 4, c0 = channel0 + first;
            const int oh = oh0 + (m >> t.columns_log2), ow = ow0 + (m & (columns - 1));
            if (oh >= p.p || ow >= p.q || c0 >= p.k_stride) continue;
            const float4 sum = *reinterpret_cast<const float4*>(sums + m * t.sums_pitch + first);
            const std::int64_t pixel = (static_cast<std::int64_t>(n) * p.p + oh) * p.q + ow;
            float v[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const bool real = c0 + k < p.k;
                const float scale = real && e.scale != nullptr ? __ldg(e.scale + c0 + k) : 1.0F;
                const float bias = real && e.bias != nullptr ? __ldg(e.bias + c0 + k) : 0.0F;
                v[k] = fmaf(v[k], scale, bias);
            }
            const auto add_residual = [&] {
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    if (c0 + k < p.k)
                        v[k] = fmaf(load_any(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.output_type,
                                             pixel * e.residual_stride + c0 + k),
                                    e.residual_scale, v[k]);
            };
            if (e.residual != nullptr && e.residual_last == 0) add_residual();
            activate4(v, e);
            if (e.residual != nullptr && e.residual_last != 0) add_residual();
#pragma unroll
            for (float& x : v)
                x *= e.output_scale_inverse;
            store4(p.output, p.output_type, pixel * p.k_pitch + c0, v);
        }
        // the next tile's pixels do not touch the sums, and its sums come behind a barrier
    }
}

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
int bytes_of_type(int type) { return type == type_s8 ? 1 : type == type_f32 ? 4 : 2; }

/// Slices that the output channels from `first` on read, `count` of them.
int slices_of(const GroupedParams& p, std::int64_t first, std::int64_t count) {
    const std::int64_t in = p.c / p.groups, out = p.k / p.groups, elements = slice_bytes / bytes_of_type(p.type);
    const std::int64_t last = std::min<std::int64_t>(first + count, p.k) - 1;
    return static_cast<int>(divided((last / out + 1) * in, elements) - first / out * in / elements);
}
int most_slices(const GroupedParams& p, int count) {
    int most = 0;
    for (std::int64_t first = 0; first < p.k; first += count)
        most = std::max(most, slices_of(p, first, count));
    return most;
}

/// How the work is cut, and the bytes of shared memory; 0: there is no way.
std::size_t cut(const GroupedParams& p, const GroupedTile& tile, Work& t) {
    const WindowParams& window = p.window;
    const std::int64_t taps = std::int64_t{window.kernel_h} * window.kernel_w;
    const std::int64_t patch_h =
        std::int64_t{tile.rows - 1} * window.stride_h + std::int64_t{window.kernel_h - 1} * window.dil_h + 1;
    const std::int64_t patch_w =
        std::int64_t{tile.columns - 1} * window.stride_w + std::int64_t{window.kernel_w - 1} * window.dil_w + 1;
    if (taps > 4096 || patch_h > 4096 || patch_w > 4096) return 0;
    t.taps = static_cast<std::int32_t>(taps);
    t.slices = most_slices(p, tile_channels);
    t.width = most_slices(p, tile.tiles * tile_channels);
    const std::int64_t steps = divided(taps * t.slices, 2);
    if (steps > 1 << 16) return 0;
    t.steps = static_cast<std::int32_t>(steps);
    t.tiles = tile.tiles;
    t.rows = tile.rows;
    while (1 << t.columns_log2 < tile.columns)
        ++t.columns_log2;
    t.across = static_cast<std::int32_t>(divided(p.q, tile.columns));
    t.down = static_cast<std::int32_t>(divided(p.p, tile.rows));
    const std::int64_t count = std::int64_t{t.across} * t.down * p.n;
    if (count > 0x7fffffff) return 0;
    t.count = static_cast<std::int32_t>(count);
    t.patch_h = static_cast<std::int32_t>(patch_h);
    t.patch_w = static_cast<std::int32_t>(patch_w);
    t.pixel_bytes = (t.width | 1) * slice_bytes; // odd: neighbouring pixels in other banks
    t.sums_pitch = (tile.tiles * tile_channels + 31) / 32 * 32 + 8;
    t.weights_bytes = t.tiles * t.steps * 256;
    t.offsets_bytes = (t.steps * 8 + 15) / 16 * 16;
    t.sums_bytes = tile.rows * tile.columns * t.sums_pitch * 4;
    return static_cast<std::size_t>(std::int64_t{t.weights_bytes} + t.offsets_bytes + t.sums_bytes +
                                    patch_h * patch_w * t.pixel_bytes);
}

template <Math M, int Together>
cudaError_t launch_one(const GroupedParams& p, const Work& t, std::size_t shared, int processors, cudaStream_t stream,
                       bool programmatic) {
    const auto kernel = grouped<M, Together>;
    if (shared > 48 << 10)
        if (const cudaError_t code =
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
            code != cudaSuccess)
            return code;
    const auto slabs = static_cast<unsigned>(divided(p.k_stride, t.tiles * tile_channels));
    if (slabs > 65535) return cudaErrorInvalidValue;
    const std::int64_t resident =
        std::clamp<std::int64_t>((220 << 10) / static_cast<std::int64_t>(shared + 1024), 1, 6);
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{processors} * resident / slabs);
    return launch_kernel(kernel, dim3(static_cast<unsigned>(std::min<std::int64_t>(t.count, most)), slabs), threads,
                         shared, stream, programmatic, 1, p, t);
}
template <Math M>
cudaError_t launch_together(const GroupedParams& p, const Work& t, std::size_t shared, int processors,
                            cudaStream_t stream, bool programmatic) {
    switch (grouped_tiles_together(p, t.tiles)) {
        case 4: return launch_one<M, 4>(p, t, shared, processors, stream, programmatic);
        case 3: return launch_one<M, 3>(p, t, shared, processors, stream, programmatic);
        case 2: return launch_one<M, 2>(p, t, shared, processors, stream, programmatic);
        default: return launch_one<M, 1>(p, t, shared, processors, stream, programmatic);
    }
}

} // namespace

int grouped_tiles_together(const GroupedParams& p, int tiles) {
    if (p.type == type_f32 && p.tf32 == 0) return 1;
    const int out = p.k / std::max(1, p.groups);
    for (const int count : {4, 3, 2})
        if (tiles % count == 0 && out % (count * tile_channels) == 0) return count;
    return 1;
}

int grouped_slices(const GroupedParams& p) {
    return p.window.kernel_h * p.window.kernel_w * most_slices(p, tile_channels);
}

bool grouped_takes(const GroupedParams& p, const GroupedTile& tile, std::size_t shared_limit) {
    if (p.type < type_f32 || p.type > type_s8 || p.output_type < type_f32 || p.output_type > type_s8) return false;
    if (p.groups < 1 || p.c < 1 || p.k < 1 || p.c % p.groups != 0 || p.k % p.groups != 0) return false;
    if (p.c_stride * bytes_of_type(p.type) % slice_bytes != 0 || p.k_stride % 4 != 0 || p.k_stride < p.k ||
        p.k_pitch % 4 != 0)
        return false;
    if (tile.rows < 1 || tile.columns < 8 || tile.columns > 256 || (tile.columns & (tile.columns - 1)) != 0 ||
        tile.rows * tile.columns % 32 != 0 || tile.tiles < 1)
        return false;
    if (std::int64_t{p.n} * p.h * p.w > 0x7fffffff || std::int64_t{p.n} * p.p * p.q > 0x7fffffff) return false;
    Work t{};
    const std::size_t shared = cut(p, tile, t);
    return shared != 0 && shared <= shared_limit;
}

cudaError_t launch_grouped(const GroupedParams& p, const GroupedTile& tile, std::size_t shared_limit, int processors,
                           cudaStream_t stream, bool programmatic) {
    if (!grouped_takes(p, tile, shared_limit)) return cudaErrorInvalidValue;
    Work t{};
    const std::size_t shared = cut(p, tile, t);
    switch (p.type) {
        case type_s8: return launch_together<Math::s8>(p, t, shared, processors, stream, programmatic);
        case type_f16: return launch_together<Math::f16>(p, t, shared, processors, stream, programmatic);
        case type_bf16: return launch_together<Math::bf16>(p, t, shared, processors, stream, programmatic);
        default: break;
    }
    if (p.tf32 == 0) return launch_one<Math::f32, 1>(p, t, shared, processors, stream, programmatic);
    return launch_together<Math::tf32>(p, t, shared, processors, stream, programmatic);
}

} // namespace lathe::cuda::kernels
