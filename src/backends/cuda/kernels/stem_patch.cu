// First convolution of an image network, any window: f32 NCHW of up to 4 channels in, nhwc out, products of f16 or bf16
// on mma.sync.
//
// A block takes tiles of results in turn. The pixels that a tile needs lie in shared memory as 4 channels of 8 bytes,
// taps in any order make up the reduction: 4 of them are the 16 products of an instruction, lane q of a quad has tap q.
// So an operand is one load of 8 bytes for each of its two rows, whatever the window. Weights lie in shared memory as
// the instruction takes them, and a warp's channels are permuted so that a lane gets 8 neighbouring ones of a pixel:
// results go to memory straight from registers, 16 bytes at a time, 64 bytes a quad.
//
// Taps beyond the last have weights of 0 and take the window's first pixel.

#include <algorithm>

#include "backends/cuda/kernels/mma_ptx.cuh"
#include "backends/cuda/kernels/stems.hpp"
#include "backends/cuda/kernels/vec4.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 128, block_channels = 32;
constexpr int at_once(int blocks) { return blocks == 1 ? 5 : blocks == 2 ? 4 : 3; } ///< by registers
constexpr int most_weights = 64 << 10, most_shared = 99 << 10; ///< bytes; the latter also on compute capability 8.6

struct Work {
    std::int32_t steps; ///< of 4 taps
    std::int32_t rows, columns, columns_log2;
    std::int32_t across, down, tiles;
    std::int32_t patch_h, patch_w, pitch; ///< pixels; pitch: from row to row
    std::int32_t slice, passes;           ///< channels of a block; passes of 32 * Blocks channels
    std::int32_t plain;                   ///< the activation is a clamp between low and high, all already scaled
    float low, high;
    std::int32_t weights_bytes, vectors_bytes, offsets_bytes;
    Divisor by_width; ///< by patch_w
};

/// Blocks: of 32 channels that a warp makes at once.
template <class T, class Out, int Blocks>
__global__ void __launch_bounds__(threads, at_once(Blocks))
    stem_patch(const __grid_constant__ StemParams p, const __grid_constant__ Work t) {
    constexpr mma::Math math = std::is_same_v<T, __half> ? mma::Math::f16 : mma::Math::bf16;
    extern __shared__ __align__(128) unsigned char shared[];
    float* vectors = reinterpret_cast<float*>(shared + t.weights_bytes); // scales, then biases
    int* offsets = reinterpret_cast<int*>(shared + t.weights_bytes + t.vectors_bytes);
    unsigned char* patch = shared + t.weights_bytes + t.vectors_bytes + t.offsets_bytes;
    const int thread = static_cast<int>(threadIdx.x), warp = thread >> 5, lane = thread & 31, g = lane >> 2,
              q = lane & 3;
    const int slice0 = static_cast<int>(blockIdx.y) * t.slice, groups = t.slice / block_channels;
    const WindowParams& window = p.window;
    const int taps = window.kernel_h * window.kernel_w;

    // Weights, scales and biases do not depend on the kernel before. Tile j of a group of 32 channels has columns
    // n = g that are channels n / 2 * 8 + j * 2 + n % 2; warp j lays out the fragments of all tiles j.
    const T* weight = static_cast<const T*>(p.weight);
#pragma unroll 4
    for (int i = 0; i < t.steps * groups; ++i) {
        const int step = i / groups,
                  channel = slice0 + (i - step * groups) * block_channels + (g >> 1) * 8 + warp * 2 + (g & 1);
        const int tap = step * 4 + q;
        uint2 word = {0, 0};
        if (tap < taps && channel < p.k) {
            const T* from = weight + (static_cast<std::int64_t>(channel) * taps + tap) * p.weight_c;
            if (p.weight_c == 4) {
                word = __ldg(reinterpret_cast<const uint2*>(from));
            } else {
                T v[4] = {};
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    if (c < p.c) v[c] = __ldg(from + c);
                word = *reinterpret_cast<const uint2*>(v);
            }
        }
        *reinterpret_cast<uint2*>(shared + (i * 2 + (warp >> 1)) * 512 + lane * 16 + (warp & 1) * 8) = word;
    }
    for (int i = thread; i < t.slice; i += threads) {
        const int channel = slice0 + i;
        const float factor = t.plain != 0 ? p.epilogue.output_scale_inverse : 1.0F;
        const bool real = channel < p.k;
        vectors[i] = real ? (p.epilogue.scale != nullptr ? p.epilogue.scale[channel] : 1.0F) * factor : 0.0F;
        vectors[t.slice + i] = real && p.epilogue.bias != nullptr ? p.epilogue.bias[channel] * factor : 0.0F;
    }
    for (int i = thread; i < t.steps * 4; i += threads) {
        const int tap = i < taps ? i : 0, r = tap / window.kernel_w, s = tap - r * window.kernel_w;
        offsets[i] = (r * window.dil_h * t.pitch + s * window.dil_w) * 8;
    }
    pdl_wait();
    pdl_trigger();

    const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
    const int items = (t.rows << t.columns_log2) / 32 * t.passes, patch_pixels = t.patch_h * t.patch_w;
    for (int tile = static_cast<int>(blockIdx.x); tile < t.tiles; tile += static_cast<int>(gridDim.x)) {
        const int n = tile / (t.down * t.across), rest = tile - n * t.down * t.across;
        const int oh0 = rest / t.across * t.rows, ow0 = rest % t.across * t.columns;
        const int h0 = oh0 * window.stride_h - window.pad_h, w0 = ow0 * window.stride_w - window.pad_w;
        const float* image = p.input + n * p.c * plane;
#pragma unroll 6
        for (int i = thread; i < patch_pixels; i += threads) {
            const int row = t.by_width.divide(i), column = i - row * t.patch_w, h = h0 + row, w = w0 + column;
            const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                                static_cast<unsigned>(w) < static_cast<unsigned>(p.w);
            const float* from = image + static_cast<std::int64_t>(h) * p.w + w;
            float v[4];
#pragma unroll
            for (int c = 0; c < 4; ++c)
                v[c] = inside && c < p.c ? __ldg(from + c * plane) : 0.0F;
            *reinterpret_cast<uint2*>(patch + (row * t.pitch + column) * 8) =
                make_uint2(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]));
        }
        __syncthreads();

        for (int item = warp; item < items; item += threads / 32) {
            const int unit = item / t.passes, group0 = (item - unit * t.passes) * Blocks;
            const unsigned char* pixel[4];
            int oh[4], ow[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int m = unit * 32 + i * 8 + g, row = m >> t.columns_log2, column = m & (t.columns - 1);
                oh[i] = oh0 + row;
                ow[i] = ow0 + column;
                pixel[i] = patch + (row * window.stride_h * t.pitch + column * window.stride_w) * 8;
            }
            std::uint32_t sums[2][Blocks * 4][4] = {};
#pragma unroll 1
            for (int step = 0; step < t.steps; ++step) {
                const int offset = offsets[step * 4 + q];
                std::uint32_t a[2][4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const uint2 v = *reinterpret_cast<const uint2*>(pixel[i] + offset);
                    a[i / 2][i % 2] = v.x;
                    a[i / 2][i % 2 + 2] = v.y;
                }
                const unsigned char* fragments = shared + (step * groups + group0) * 1024 + lane * 16;
#pragma unroll
                for (int b = 0; b < Blocks * 2; ++b) {
                    const uint4 w = *reinterpret_cast<const uint4*>(fragments + b * 512);
#pragma unroll
                    for (int m = 0; m < 2; ++m) {
                        mma::multiply<math>(sums[m][b * 2], a[m], w.x, w.y);
                        mma::multiply<math>(sums[m][b * 2 + 1], a[m], w.z, w.w);
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < Blocks; ++b) {
                const int first = (group0 + b) * block_channels + q * 8, channel = slice0 + first;
                if (channel >= p.k_stride) continue;
                float scale[8], bias[8];
#pragma unroll
                for (int i = 0; i < 8; i += 4) {
                    *reinterpret_cast<float4*>(scale + i) = *reinterpret_cast<const float4*>(vectors + first + i);
                    *reinterpret_cast<float4*>(bias + i) =
                        *reinterpret_cast<const float4*>(vectors + t.slice + first + i);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (oh[i] >= p.p || ow[i] >= p.q) continue;
                    float v[2][4];
#pragma unroll
                    for (int k = 0; k < 8; ++k)
                        v[k / 4][k % 4] =
                            fmaf(__uint_as_float(sums[i / 2][b * 4 + k / 2][i % 2 * 2 + k % 2]), scale[k], bias[k]);
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        if (t.plain != 0) {
#pragma unroll
                            for (float& x : v[half])
                                x = fminf(fmaxf(x, t.low), t.high);
                        } else {
                            activate4(v[half], p.epilogue);
#pragma unroll
                            for (float& x : v[half])
                                x *= p.epilogue.output_scale_inverse;
                        }
                    }
                    const std::int64_t at =
                        ((static_cast<std::int64_t>(n) * p.p + oh[i]) * p.q + ow[i]) * p.k_stride + channel;
                    if constexpr (sizeof(Out) == 1) {
                        *reinterpret_cast<uint2*>(static_cast<Out*>(p.output) + at) =
                            make_uint2(four_bytes(v[0]), four_bytes(v[1]));
                    } else {
                        *reinterpret_cast<uint4*>(static_cast<Out*>(p.output) + at) =
                            make_uint4(pack_pair<Out>(v[0][0], v[0][1]), pack_pair<Out>(v[0][2], v[0][3]),
                                       pack_pair<Out>(v[1][0], v[1][1]), pack_pair<Out>(v[1][2], v[1][3]));
                    }
                }
            }
        }
        __syncthreads();
    }
}

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How the work is cut, and the bytes of shared memory; 0: there is no way.
int cut(const StemParams& p, const StemPatchTile& tile, Work& t) {
    const WindowParams& window = p.window;
    const std::int64_t taps = std::int64_t{window.kernel_h} * window.kernel_w;
    if (taps > 1024) return 0;
    t.steps = static_cast<std::int32_t>(divided(taps, 4));
    t.rows = tile.rows;
    t.columns = tile.columns;
    while (1 << t.columns_log2 < tile.columns)
        ++t.columns_log2;
    t.across = static_cast<std::int32_t>(divided(p.q, tile.columns));
    t.down = static_cast<std::int32_t>(divided(p.p, tile.rows));
    const std::int64_t tiles = std::int64_t{t.across} * t.down * p.n;
    const std::int64_t patch_h =
        std::int64_t{tile.rows - 1} * window.stride_h + std::int64_t{window.kernel_h - 1} * window.dil_h + 1;
    const std::int64_t patch_w =
        std::int64_t{tile.columns - 1} * window.stride_w + std::int64_t{window.kernel_w - 1} * window.dil_w + 1;
    const std::int64_t pitch = (patch_w + 6) / 16 * 16 + 9; // odd multiples of 8 bytes: rows in other banks
    if (tiles > 0x7fffffff || patch_h > 4096 || pitch > 4096) return 0;
    t.tiles = static_cast<std::int32_t>(tiles);
    t.patch_h = static_cast<std::int32_t>(patch_h);
    t.patch_w = static_cast<std::int32_t>(patch_w);
    t.by_width = Divisor(t.patch_w);
    t.pitch = static_cast<std::int32_t>(pitch);
    // as many channels a block as fit
    const int pass = block_channels * tile.blocks, all = static_cast<int>(divided(p.k_stride, pass));
    const int pass_bytes = t.steps * tile.blocks * 1024;
    t.passes = std::min(all, most_weights / pass_bytes);
    if (t.passes < 1) return 0;
    t.passes = static_cast<int>(divided(all, divided(all, t.passes))); // shares alike
    t.slice = t.passes * pass;
    t.weights_bytes = t.passes * pass_bytes;
    t.vectors_bytes = t.slice * 8;
    t.offsets_bytes = t.steps * 16;
    const std::int64_t shared = t.weights_bytes + t.vectors_bytes + t.offsets_bytes + patch_h * pitch * 8;
    return shared > most_shared ? 0 : static_cast<int>(shared);
}

int resident_blocks(int blocks, int shared) {
    return std::max(1, std::min(at_once(blocks), (220 << 10) / (shared + 1024)));
}

template <class T, class Out, int Blocks>
cudaError_t launch_one(const StemParams& p, const Work& t, int shared, int processors, cudaStream_t stream,
                       bool programmatic) {
    const auto kernel = stem_patch<T, Out, Blocks>;
    if (shared > 48 << 10)
        if (const cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
            code != cudaSuccess)
            return code;
    const int resident = resident_blocks(Blocks, shared);
    const auto slices = static_cast<unsigned>(divided(p.k_stride, t.slice));
    const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{processors} * resident / slices);
    return launch_kernel(kernel, dim3(static_cast<unsigned>(std::min<std::int64_t>(t.tiles, most)), slices), threads,
                         static_cast<std::size_t>(shared), stream, programmatic, 1, p, t);
}
template <class T, class Out>
cudaError_t launch_blocks(const StemParams& p, const Work& t, int blocks, int shared, int processors,
                          cudaStream_t stream, bool programmatic) {
    if (blocks == 1) return launch_one<T, Out, 1>(p, t, shared, processors, stream, programmatic);
    if (blocks == 2) return launch_one<T, Out, 2>(p, t, shared, processors, stream, programmatic);
    return launch_one<T, Out, 3>(p, t, shared, processors, stream, programmatic);
}

} // namespace

bool stem_patch_takes(const StemParams& p, const StemPatchTile& tile) {
    if (p.pooled != 0 || p.c < 1 || p.c > 4 || (p.weight_c != 4 && p.weight_c != p.c)) return false;
    if (p.weight_type != type_f16 && p.weight_type != type_bf16) return false;
    if (p.output_type != p.weight_type && p.output_type != type_s8) return false;
    if (p.k < 1 || p.k_stride < p.k || p.k_stride % (p.output_type == type_s8 ? 16 : 8) != 0) return false;
    if (tile.blocks < 1 || tile.blocks > 3 || tile.rows < 1 || tile.columns < 8 || tile.columns > 256) return false;
    if ((tile.columns & (tile.columns - 1)) != 0 || tile.rows * tile.columns % 32 != 0) return false;
    Work t{};
    return cut(p, tile, t) != 0;
}

StemPatchBlock stem_patch_block(const StemParams& p, const StemPatchTile& tile) {
    Work t{};
    const int shared = cut(p, tile, t);
    return {static_cast<std::int32_t>(divided(p.k_stride, std::max(1, t.slice))), t.passes,
            resident_blocks(tile.blocks, shared)};
}

cudaError_t launch_stem_patch(const StemParams& p, const StemPatchTile& tile, int processors, cudaStream_t stream,
                              bool programmatic) {
    if (!stem_patch_takes(p, tile)) return cudaErrorInvalidValue;
    Work t{};
    const int shared = cut(p, tile, t);
    const EpilogueParams& e = p.epilogue;
    t.plain = e.act <= act_clip && e.output_scale_inverse > 0 ? 1 : 0;
    t.low = e.act == act_relu ? 0.0F : e.act == act_clip ? e.low * e.output_scale_inverse : -INFINITY;
    t.high = e.act == act_clip ? e.high * e.output_scale_inverse : INFINITY;
    if (p.weight_type == type_f16)
        return p.output_type == type_s8
                   ? launch_blocks<__half, std::int8_t>(p, t, tile.blocks, shared, processors, stream, programmatic)
                   : launch_blocks<__half, __half>(p, t, tile.blocks, shared, processors, stream, programmatic);
    return p.output_type == type_s8
               ? launch_blocks<__nv_bfloat16, std::int8_t>(p, t, tile.blocks, shared, processors, stream, programmatic)
               : launch_blocks<__nv_bfloat16, __nv_bfloat16>(p, t, tile.blocks, shared, processors, stream,
                                                             programmatic);
}

} // namespace lathe::cuda::kernels
