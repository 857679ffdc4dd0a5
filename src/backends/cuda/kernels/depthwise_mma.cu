// Depthwise convolution over nhwc on mma.sync. Weights of a block of channels are a diagonal matrix, so that a lane's
// channels stay its own (quads.cuh) and only one product in 8 counts, which still costs less than converting and
// multiplying in turn: two taps of 8 channels are one instruction for 16 pixels.
//
// A lane computes Rows x 2 neighbouring results of Words words of channels, all inputs of which it loads at once, and
// may go down the image step by step, keeping the rows that two steps share. Where a weight is 0 an infinite input of
// another channel of the block still gives NaN.

#include "backends/cuda/kernels/depthwise.hpp"
#include "backends/cuda/kernels/quads.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace quads;

constexpr int threads = 128, columns = 2;

struct Work {
    std::int32_t groups; ///< of 4 * Words words of channels
    std::int32_t across; ///< pairs of columns
    std::int32_t down;   ///< runs of Rows * steps rows
    std::int32_t strips; ///< across * down * n
    std::int32_t steps;
    std::int32_t channel_bytes, pixel_bytes; ///< of an image: its channels, and from pixel to pixel
    std::int32_t out_bytes, out_pixel_bytes; ///< the same of the result
    Clamp clamp;
};

constexpr int window_words(int kernel, int stride, const DepthwiseTile& tile) {
    return ((tile.rows - 1) * stride + kernel) * (stride + kernel) * tile.words;
}
/// Whether there is such an instance: what fits registers.
constexpr bool exists(int kernel, int stride, const DepthwiseTile& tile) {
    if (tile.rows != 1 && tile.rows != 2 && tile.rows != 4) return false;
    if (tile.words != 2 && (tile.words != 4 || kernel != 3)) return false;
    return window_words(kernel, stride, tile) <= 104;
}
/// Blocks a multiprocessor: what registers allow, s8 needing some more for its bytes, or for results of twice the size.
constexpr int blocks_of(bool bytes, bool widened, int kernel, int stride, const DepthwiseTile& tile) {
    const int words =
        window_words(kernel, stride, tile) + (bytes ? 14 : 0) + (widened ? tile.rows * columns * tile.words : 0);
    return words <= 40 ? 6 : words <= 56 ? 5 : words <= 72 ? 4 : words <= 104 ? 3 : 2;
}

template <class T, class Out, int Kernel, int Stride, int Words, int Rows>
__global__ void __launch_bounds__(threads,
                                  blocks_of(sizeof(T) == 1, sizeof(T) != sizeof(Out), Kernel, Stride, {Words, Rows, 1}))
    depthwise_mma(const __grid_constant__ DepthwiseParams p, const __grid_constant__ Work t) {
    using N = Number<T>;
    using O = Number<Out>;
    constexpr int taps = Kernel * Kernel, wide = Stride + Kernel, high = (Rows - 1) * Stride + Kernel,
                  kept = Kernel - Stride, group_words = 4 * Words, pairs_a_lane = Words * N::of_word / 2,
                  out_words = Words * N::of_word / O::of_word;
    __shared__ std::uint32_t weights[taps * group_words];
    __shared__ float4 vectors[4 * pairs_a_lane];
    pdl_trigger();
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane >> 2, q = lane & 3;
    const int block = static_cast<int>(blockIdx.x);
    const int group = block % t.groups, strip = (block / t.groups * threads + thread) >> 2;

    for (int i = thread; i < taps * group_words; i += threads) {
        const int tap = i / group_words, word = group * group_words + i % group_words;
        weights[i] = word * N::of_word < p.weight_c
                         ? __ldg(static_cast<const std::uint32_t*>(p.weight) + tap * (p.weight_c / N::of_word) + word)
                         : 0U;
    }
    for (int i = thread; i < 4 * pairs_a_lane; i += threads)
        vectors[i] = channel_pair<Out>(p.epilogue, t.clamp, (group * 4 * pairs_a_lane + i) * 2, p.c);
    __syncthreads();

    const int across = strip % t.across, rest = strip / t.across, n = rest / t.down;
    const int ow = across * columns, oh0 = (rest - n * t.down) * Rows * t.steps;
    const std::uint32_t word0 = static_cast<std::uint32_t>((group * 4 + q) * Words * 4);
    const bool mine = strip < t.strips && static_cast<int>(word0) < t.channel_bytes;
    // volatile: read again for every use, as registers would not hold them all
    const volatile std::uint32_t* own = weights + q * Words;
    const char* image = static_cast<const char*>(p.input);
    const std::uint32_t first = static_cast<std::uint32_t>(n) * static_cast<std::uint32_t>(p.h);
    std::uint32_t at[wide];
    bool inside[wide];
#pragma unroll
    for (int s = 0; s < wide; ++s) {
        const int w = ow * Stride - p.window.pad_w + s;
        inside[s] = mine && static_cast<unsigned>(w) < static_cast<unsigned>(p.w);
        at[s] = static_cast<std::uint32_t>(w * t.pixel_bytes) + word0;
    }
    std::uint32_t x[high][wide][Words];
    int h = oh0 * Stride - p.window.pad_h;
    const int h_end = min(p.h, h + (Rows * t.steps - 1) * Stride + Kernel); // rows from here on are not needed
    const auto load = [&](std::uint32_t(&to)[wide][Words]) {
        const bool row = h >= 0 && h < h_end;
        const std::uint32_t from =
            (first + static_cast<std::uint32_t>(h)) * static_cast<std::uint32_t>(p.w * t.pixel_bytes);
#pragma unroll
        for (int s = 0; s < wide; ++s)
            load_words<Words>(to[s], image + (from + at[s]), row && inside[s], p.pad_word);
        ++h;
    };
    std::uint32_t mask[N::parts];
#pragma unroll
    for (int part = 0; part < N::parts; ++part)
        mask[part] = g >> 1 != q ? 0U : sizeof(T) == 1 ? 0xffU << (16 * part + 8 * (g & 1)) : 0xffffU << (16 * (g & 1));

    pdl_wait();
#pragma unroll
    for (int r = 0; r < kept; ++r)
        load(x[r]);
#pragma unroll 1
    for (int step = 0; step < t.steps; ++step) {
        const int oh = oh0 + step * Rows;
        if (__all_sync(0xffffffffU, oh >= p.p)) break; // instructions of a whole warp follow
#pragma unroll
        for (int r = kept; r < high; ++r)
            load(x[r]);
        std::uint32_t out[Rows][columns][out_words];
#pragma unroll
        for (int i = 0; i < Words; ++i) {
            // Operands of an instruction are 4 registers in a row, so those of a word are laid out once for all rows
            // and parts: taps of a row in pairs, its last one with that of the row below (odd) or above.
            std::uint32_t in_row[high][Kernel / 2][4], last[(high + 1) / 2][4] = {};
#pragma unroll
            for (int r = 0; r < high; ++r) {
#pragma unroll
                for (int s = 0; s < Kernel / 2; ++s)
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        in_row[r][s][k] = x[r][2 * s + k / 2 + k % 2 * Stride][i];
#pragma unroll
                for (int k = 0; k < 2; ++k)
                    last[r / 2][r % 2 * 2 + k] = x[r][Kernel - 1 + k * Stride][i];
            }
            std::uint32_t bytes[Rows][columns][4];
#pragma unroll
            for (int part = 0; part < N::parts; ++part) {
                typename N::Sum sums[Rows][4];
#pragma unroll
                for (int r = 0; r < Rows; ++r)
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        sums[r][k] = N::zero();
                const auto weight = [&](int r, int s) { return own[(r * Kernel + s) * group_words + i] & mask[part]; };
#pragma unroll
                for (int r = 0; r < Kernel; ++r)
#pragma unroll
                    for (int s = 0; s < Kernel / 2; ++s) {
                        const std::uint32_t b0 = weight(r, 2 * s), b1 = weight(r, 2 * s + 1);
#pragma unroll
                        for (int row = 0; row < Rows; ++row) {
                            const std::uint32_t(&a)[4] = in_row[row * Stride + r][s];
                            N::multiply(sums[row], a[0], a[1], a[2], a[3], b0, b1);
                        }
                    }
                std::uint32_t b[Kernel];
#pragma unroll
                for (int r = 0; r < Kernel; ++r)
                    b[r] = weight(r, Kernel - 1);
#pragma unroll
                for (int row = 0; row < Rows; ++row)
#pragma unroll
                    for (int m = row * Stride / 2; m <= (row * Stride + Kernel - 1) / 2; ++m) {
                        const int r = 2 * m - row * Stride; // of the window, that of the pair's first row
                        N::multiply(sums[row], last[m][0], last[m][1], last[m][2], last[m][3], r >= 0 ? b[r] : 0U,
                                    r + 1 < Kernel ? b[r + 1] : 0U);
                    }
                const float4 ab = vectors[q * pairs_a_lane + i * N::parts + part];
                float v[Rows * columns * 2];
#pragma unroll
                for (int k = 0; k < Rows * columns; ++k) {
                    v[2 * k] = fmaf(N::value(sums[k / columns][k % columns * 2]), ab.x, ab.z);
                    v[2 * k + 1] = fmaf(N::value(sums[k / columns][k % columns * 2 + 1]), ab.y, ab.w);
                }
                if (t.clamp.curved != 0) {
                    activate_quickly(v, p.epilogue);
                    as_stored<Out>(v, t.clamp);
                }
#pragma unroll
                for (int k = 0; k < Rows * columns; ++k) {
                    if constexpr (sizeof(Out) == 1) {
                        bytes[k / columns][k % columns][part * 2] = clamp_byte(v[2 * k], t.clamp);
                        bytes[k / columns][k % columns][part * 2 + 1] = clamp_byte(v[2 * k + 1], t.clamp);
                    } else {
                        out[k / columns][k % columns][i * N::parts + part] = O::clamp(v[2 * k], v[2 * k + 1], t.clamp);
                    }
                }
            }
            if constexpr (sizeof(Out) == 1) {
#pragma unroll
                for (int r = 0; r < Rows; ++r)
#pragma unroll
                    for (int c = 0; c < columns; ++c)
                        out[r][c][i] = join_bytes(bytes[r][c][0], bytes[r][c][1], bytes[r][c][2], bytes[r][c][3]);
            }
        }
        if (mine) {
            constexpr int piece = out_words < 4 ? out_words : 4; // words of a store
            const int out0 = static_cast<int>(word0) / static_cast<int>(sizeof(T)) * static_cast<int>(sizeof(Out));
            char* to = static_cast<char*>(p.output) +
                       static_cast<std::int64_t>((n * p.p + oh) * p.q + ow) * t.out_pixel_bytes + out0;
#pragma unroll
            for (int r = 0; r < Rows; ++r)
#pragma unroll
                for (int c = 0; c < columns; ++c)
                    if (oh + r < p.p && ow + c < p.q)
#pragma unroll
                        for (int i = 0; i < out_words; i += piece)
                            if (sizeof(T) == sizeof(Out) || out0 + i * 4 < t.out_bytes)
                                store_words<piece>(to + static_cast<std::int64_t>(r * p.q + c) * t.out_pixel_bytes +
                                                       i * 4,
                                                   out[r][c] + i);
        }
#pragma unroll
        for (int r = 0; r < kept; ++r)
#pragma unroll
            for (int s = 0; s < wide; ++s)
#pragma unroll
                for (int i = 0; i < Words; ++i)
                    x[r][s][i] = x[r + high - kept][s][i];
    }
}

template <class T, class Out, int Kernel, int Stride, int Words, int Rows>
cudaError_t launch_one(const DepthwiseParams& p, int steps, cudaStream_t stream, bool programmatic) {
    if constexpr (!exists(Kernel, Stride, {Words, Rows, 1})) {
        return cudaErrorInvalidValue;
    } else {
        Work t{};
        t.channel_bytes = p.c_stride * static_cast<int>(sizeof(T));
        t.pixel_bytes = p.c_pitch * static_cast<int>(sizeof(T));
        t.out_bytes = p.y_stride * static_cast<int>(sizeof(Out));
        t.out_pixel_bytes = p.y_pitch * static_cast<int>(sizeof(Out));
        t.groups = (t.channel_bytes + 16 * Words - 1) / (16 * Words);
        t.across = (p.q + columns - 1) / columns;
        t.down = (p.p + Rows * steps - 1) / (Rows * steps);
        t.strips = t.across * t.down * p.n;
        t.steps = steps;
        t.clamp = clamp_of(p.epilogue, p.output_type);
        const std::int64_t blocks = (std::int64_t{t.strips} + threads / 4 - 1) / (threads / 4) * t.groups;
        if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
        return launch_kernel(depthwise_mma<T, Out, Kernel, Stride, Words, Rows>, static_cast<unsigned>(blocks), threads,
                             0, stream, programmatic, 1, p, t);
    }
}
template <class T, class Out, int Kernel, int Stride, int Words>
cudaError_t launch_rows(const DepthwiseParams& p, const DepthwiseTile& tile, cudaStream_t stream, bool programmatic) {
    switch (tile.rows) {
        case 1: return launch_one<T, Out, Kernel, Stride, Words, 1>(p, tile.steps, stream, programmatic);
        case 2: return launch_one<T, Out, Kernel, Stride, Words, 2>(p, tile.steps, stream, programmatic);
        case 4: return launch_one<T, Out, Kernel, Stride, Words, 4>(p, tile.steps, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}
template <class T, class Out, int Kernel, int Stride>
cudaError_t launch_words(const DepthwiseParams& p, const DepthwiseTile& tile, cudaStream_t stream, bool programmatic) {
    if (tile.words == 2) return launch_rows<T, Out, Kernel, Stride, 2>(p, tile, stream, programmatic);
    if constexpr (Kernel == 3)
        if (tile.words == 4) return launch_rows<T, Out, Kernel, Stride, 4>(p, tile, stream, programmatic);
    return cudaErrorInvalidValue;
}
template <class T, class Out>
cudaError_t launch_type(const DepthwiseParams& p, const DepthwiseTile& tile, cudaStream_t stream, bool programmatic) {
    const int kernel = p.window.kernel_h, stride = p.window.stride_h;
    if (kernel == 3 && stride == 1) return launch_words<T, Out, 3, 1>(p, tile, stream, programmatic);
    if (kernel == 3 && stride == 2) return launch_words<T, Out, 3, 2>(p, tile, stream, programmatic);
    if (kernel == 5 && stride == 1) return launch_words<T, Out, 5, 1>(p, tile, stream, programmatic);
    return launch_words<T, Out, 5, 2>(p, tile, stream, programmatic);
}

} // namespace

bool depthwise_mma_takes(const DepthwiseParams& p, const DepthwiseTile& tile) {
    const WindowParams& window = p.window;
    const int kernel = window.kernel_h, stride = window.stride_h;
    if (is_deep(p) || window.kernel_w != kernel || window.stride_w != stride || window.dil_h != 1 || window.dil_w != 1)
        return false;
    if ((kernel != 3 && kernel != 5) || (stride != 1 && stride != 2)) return false;
    if (!are_types(p.type, p.output_type)) return false;
    const int size = p.type == type_s8 ? 1 : 2;
    const bool widened = p.type != p.output_type;
    if (p.weight_c < p.c_stride || p.y_stride < p.c) return false;
    if (widened ? p.y_stride > p.c_stride || p.y_stride % 8 != 0 : p.c_stride != p.y_stride) return false;
    if (p.c_stride * size % 16 != 0 || p.c_pitch * size % 16 != 0 || p.weight_c * size % 16 != 0) return false;
    if (p.y_pitch * (widened ? 2 : size) % 16 != 0) return false;
    if (p.epilogue.residual != nullptr || p.epilogue.residual_scale != 0 || !curve_takes(p.epilogue, p.output_type))
        return false;
    if (std::int64_t{p.n} * p.h * p.w > 0x7fffffff || std::int64_t{p.n} * p.p * p.q > 0x7fffffff) return false;
    if (std::int64_t{p.n} * p.h * p.w * p.c_pitch * size > 0xffffffffLL) return false;
    return tile.steps >= 1 && tile.steps <= 64 && exists(kernel, stride, tile);
}

int depthwise_mma_blocks(const DepthwiseParams& p, const DepthwiseTile& tile) {
    return blocks_of(p.type == type_s8, p.type != p.output_type, p.window.kernel_h, p.window.stride_h, tile);
}

cudaError_t launch_depthwise_mma(const DepthwiseParams& p, const DepthwiseTile& tile, cudaStream_t stream,
                                 bool programmatic) {
    if (!depthwise_mma_takes(p, tile)) return cudaErrorInvalidValue;
    return launch_of_types(p.type, p.output_type, [&](auto in, auto out) {
        return launch_type<decltype(in), decltype(out)>(p, tile, stream, programmatic);
    });
}

} // namespace lathe::cuda::kernels
