// The unpooled 3x3 stem of stride 2: f32 NCHW of up to 4 channels in, nhwc out, products of f16 on mma.sync without
// shared memory (quads.cuh). Lane q of a quad has channel q of the input; its 9 taps are the reduction. A lane loads 5
// columns of a row for two neighbouring results, 16 bytes of them at once where rows start on 16 bytes, and goes down
// the image, keeping the row that two results share. A warp makes 16 results of a row times 32 channels.

#include "backends/cuda/kernels/quads.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

using namespace quads;

constexpr int threads = 128, tiles = 4, block_channels = tiles * 8, warp_columns = 16;

struct Work {
    std::int32_t across, down, strips; ///< runs of 16 columns, of `steps` rows; of a warp, in all
    std::int32_t steps;
    std::int32_t vectors; ///< rows of the input start on 16 bytes
    Clamp clamp;
};

__device__ __forceinline__ std::uint32_t halves(float a, float b) {
    const __half2 h = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&h);
}

template <class Out>
__global__ void __launch_bounds__(threads, 6)
    stem_direct(const __grid_constant__ StemParams p, const __grid_constant__ Work t) {
    pdl_trigger();
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane >> 2, q = lane & 3;
    const int strip = static_cast<int>(blockIdx.x) * (threads / 32) + thread / 32;
    const int channel0 = static_cast<int>(blockIdx.y) * block_channels;

    // tile j, column n of it: channel 8 * (n / 2) + 2 * j + n % 2, so that a lane gets 8 neighbouring ones
    std::uint32_t b[tiles][5];
    const __half* weight = static_cast<const __half*>(p.weight);
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
        const int k = channel0 + 8 * (g >> 1) + 2 * j + (g & 1);
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            const __half* from = weight + (k * 9 + 2 * i) * 4 + q;
            const bool real = k < p.k;
            const std::uint32_t lo = real ? __half_as_ushort(from[0]) : 0U;
            const std::uint32_t hi = real && i < 4 ? __half_as_ushort(from[4]) : 0U;
            b[j][i] = hi << 16 | lo;
        }
    }
    float4 v[tiles];
#pragma unroll
    for (int j = 0; j < tiles; ++j)
        v[j] = channel_pair<Out>(p.epilogue, t.clamp, channel0 + 8 * q + 2 * j, p.k);

    const int across = strip % t.across, rest = strip / t.across, n = rest / t.down;
    const int ow = across * warp_columns + g * 2, oh0 = (rest - n * t.down) * t.steps;
    const int w0 = ow * 2 - p.window.pad_w; // first of 5 columns
    const bool mine = strip < t.strips && q < p.c;
    const float* plane = p.input + (static_cast<std::int64_t>(n) * p.c + q) * p.h * p.w;
    int h = oh0 * 2 - p.window.pad_h;
    float x[3][5];
    const auto load = [&](float(&to)[5]) {
        const bool row = mine && static_cast<unsigned>(h) < static_cast<unsigned>(p.h);
        const float* from = plane + static_cast<std::int64_t>(h) * p.w;
        ++h;
        if (t.vectors != 0) { // pad_w is 0 or 1 and the width a multiple of 4: four are all inside or all outside
            const int w = w0 + p.window.pad_w, single = p.window.pad_w != 0 ? w0 : w0 + 4;
            float4 four = make_float4(0, 0, 0, 0);
            float one = 0;
            if (row && static_cast<unsigned>(w) < static_cast<unsigned>(p.w))
                four = *reinterpret_cast<const float4*>(from + w);
            if (row && static_cast<unsigned>(single) < static_cast<unsigned>(p.w)) one = from[single];
            const bool shifted = p.window.pad_w != 0;
            to[0] = shifted ? one : four.x;
            to[1] = shifted ? four.x : four.y;
            to[2] = shifted ? four.y : four.z;
            to[3] = shifted ? four.z : four.w;
            to[4] = shifted ? four.w : one;
        } else {
#pragma unroll
            for (int s = 0; s < 5; ++s)
                to[s] = row && static_cast<unsigned>(w0 + s) < static_cast<unsigned>(p.w) ? from[w0 + s] : 0.0F;
        }
    };

    pdl_wait();
    load(x[0]);
#pragma unroll 1
    for (int step = 0; step < t.steps; ++step) {
        const int oh = oh0 + step;
        if (oh >= p.p) break; // the same of a whole warp
        load(x[1]);
        load(x[2]);
        std::uint32_t a[2][5];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const auto tap = [&](int i) { return x[i / 3][2 * c + i % 3]; };
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[c][i] = halves(tap(2 * i), tap(2 * i + 1));
            a[c][4] = halves(tap(8), 0.0F);
        }
        std::uint32_t words[2][sizeof(Out) == 1 ? 8 : 4];
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
            float sums[4] = {};
            Number<__half>::multiply(sums, a[0][0], a[1][0], a[0][1], a[1][1], b[j][0], b[j][1]);
            Number<__half>::multiply(sums, a[0][2], a[1][2], a[0][3], a[1][3], b[j][2], b[j][3]);
            Number<__half>::multiply(sums, a[0][4], a[1][4], b[j][4]);
            float out[4];
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                out[c * 2] = fmaf(sums[c * 2], v[j].x, v[j].z);
                out[c * 2 + 1] = fmaf(sums[c * 2 + 1], v[j].y, v[j].w);
            }
            if (t.clamp.curved != 0) {
                activate_quickly(out, p.epilogue);
                as_stored<Out>(out, t.clamp);
            }
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const float v0 = out[c * 2], v1 = out[c * 2 + 1];
                if constexpr (sizeof(Out) == 1) {
                    words[c][j * 2] = clamp_byte(v0, t.clamp);
                    words[c][j * 2 + 1] = clamp_byte(v1, t.clamp);
                } else {
                    words[c][j] = Number<__half>::clamp(v0, v1, t.clamp);
                }
            }
        }
        const int channel = channel0 + 8 * q;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            if (strip >= t.strips || ow + c >= p.q || channel >= p.k_stride) continue;
            Out* to = static_cast<Out*>(p.output) +
                      static_cast<std::int64_t>((n * p.p + oh) * p.q + ow + c) * p.k_stride + channel;
            if constexpr (sizeof(Out) == 1) {
                const std::uint32_t* w = words[c];
                const std::uint32_t packed[2] = {join_bytes(w[0], w[1], w[2], w[3]),
                                                 join_bytes(w[4], w[5], w[6], w[7])};
                store_words<2>(to, packed);
            } else {
                store_words<4>(to, words[c]);
            }
        }
#pragma unroll
        for (int s = 0; s < 5; ++s) {
            x[0][s] = x[2][s];
        }
    }
}

template <class Out>
cudaError_t launch_type(const StemParams& p, int steps, cudaStream_t stream, bool programmatic) {
    Work t{};
    t.across = (p.q + warp_columns - 1) / warp_columns;
    t.down = (p.p + steps - 1) / steps;
    const std::int64_t strips = std::int64_t{t.across} * t.down * p.n;
    if (strips > 0x7ffffff0) return cudaErrorInvalidValue;
    t.strips = static_cast<int>(strips);
    t.steps = steps;
    t.vectors = p.w % 4 == 0 && p.window.pad_w <= 1 && reinterpret_cast<std::uintptr_t>(p.input) % 16 == 0 ? 1 : 0;
    t.clamp = clamp_of(p.epilogue, p.output_type);
    const dim3 grid(blocks_for(strips, threads / 32),
                    static_cast<unsigned>((p.k_stride + block_channels - 1) / block_channels));
    return launch_kernel(stem_direct<Out>, grid, threads, 0, stream, programmatic, 1, p, t);
}

/// 3x3, stride 2, padded by less than itself.
bool is_window_of_three(const WindowParams& w) {
    return w.kernel_h == 3 && w.kernel_w == 3 && w.stride_h == 2 && w.stride_w == 2 && w.dil_h == 1 && w.dil_w == 1 &&
           w.pad_h >= 0 && w.pad_w >= 0 && w.pad_h < 3 && w.pad_w < 3;
}

} // namespace

bool stem_direct_takes(const StemParams& p) {
    if (p.weight_type != type_f16 || (p.output_type != type_f16 && p.output_type != type_s8)) return false;
    if (p.weight_c != 4 || p.c < 1 || p.c > 4 || p.pooled != 0 || p.n < 1 || p.p < 1 || p.q < 1) return false;
    const int whole = p.output_type == type_s8 ? 16 : 8; // channels of 8 or 16 bytes a lane
    if (p.k < 1 || p.k_stride < p.k || p.k_stride % whole != 0) return false;
    return is_window_of_three(p.window) && curve_takes(p.epilogue, p.output_type) &&
           std::int64_t{p.n} * p.p * p.q < 0x7fffffff;
}

cudaError_t launch_stem_direct(const StemParams& p, int steps, cudaStream_t stream, bool programmatic) {
    if (!stem_direct_takes(p) || steps < 1) return cudaErrorInvalidValue;
    return p.output_type == type_s8 ? launch_type<std::int8_t>(p, steps, stream, programmatic)
                                    : launch_type<__half>(p, steps, stream, programmatic);
}

} // namespace lathe::cuda::kernels
