// 1x1 convolution of few input channels on mma.sync without staging (quads.cuh): a lane loads its channels of a pixel,
// keeps them in registers, and goes through the output channels 32 at a time; only weights lie in shared memory, in
// the order in which lanes read them. Made for layers whose time is their reading and writing.

#include <algorithm>

#include "backends/cuda/kernels/quads.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace quads;

constexpr int threads = 128, warps = threads / 32, tiles = 4, block_channels = 8 * tiles;

struct Work {
    std::int32_t pixels, turns;                                  ///< turns: of a warp's pixels, in all
    std::int32_t groups;                                         ///< of 32 output channels, in all
    std::int32_t groups_a_block;                                 ///< blockIdx.y's share
    std::int32_t in_pitch, in_bytes, weight_pitch, weight_bytes; ///< in_bytes: of a pixel that are read
    std::int32_t residual_stride;
    Clamp clamp;
};

/// Words a lane has of a pixel, in pieces of 16, 8 and 4 bytes; the four lanes' parts of a piece are neighbours.
template <int Words>
struct Pieces {
    static constexpr int fours = Words / 4, twos = Words % 4 / 2, ones = Words % 2;
    /// f(first word, words of the piece, first byte of the piece in the pixel)
    template <class F>
    static __device__ __forceinline__ void each(F&& f) {
#pragma unroll
        for (int i = 0; i < fours; ++i)
            f(std::integral_constant<int, 4>{}, i * 4, i * 64);
        if constexpr (twos != 0) f(std::integral_constant<int, 2>{}, fours * 4, fours * 64);
        if constexpr (ones != 0) f(std::integral_constant<int, 1>{}, fours * 4 + twos * 2, fours * 64 + twos * 32);
    }
};

template <class T, int Words, int Halves>
__global__ void __launch_bounds__(threads, Halves == 2 && Words <= 12 ? 5 : 4)
    pointwise_mma(const __grid_constant__ ImplicitGemmParams p, const __grid_constant__ Work t) {
    using N = Number<T>;
    using P = Pieces<Words>;
    constexpr int pixels = 8 * Halves; ///< a warp's
    extern __shared__ __align__(16) std::uint32_t shared[];
    pdl_trigger();
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane >> 2, q = lane & 3;
    const int group0 = static_cast<int>(blockIdx.y) * t.groups_a_block;
    const int groups = min(t.groups_a_block, t.groups - group0);
    float4* vectors = reinterpret_cast<float4*>(shared);         // [group][16 pairs]
    std::uint32_t* weights = shared + t.groups_a_block * 16 * 4; // [group][tile][piece][lane][words]
    for (int i = thread; i < groups * 16; i += threads)
        vectors[i] = channel_pair<T>(p.epilogue, t.clamp, (group0 * 16 + i) * 2, p.k);
    for (int row = thread >> 2; row < groups * block_channels; row += threads / 4) {
        // row: tile j, column n of a group, whose channel is 8 * (n / 2) + 2 * j + n % 2
        const int j = row / 8 % tiles, n = row % 8;
        const int channel = (group0 + row / block_channels) * block_channels + 8 * (n >> 1) + 2 * j + (n & 1);
        const char* from = static_cast<const char*>(p.weight) + static_cast<std::int64_t>(channel) * t.weight_pitch;
        std::uint32_t* to = weights + row / 8 * 32 * Words;
        P::each([&](auto count, int word, int byte) {
            constexpr int c = decltype(count)::value;
            const int at = byte + q * c * 4;
            std::uint32_t v[c];
            load_words<c>(v, from + at, channel < p.k && at < t.weight_bytes);
            store_words<c>(to + word * 32 + (n * 4 + q) * c, v);
        });
    }
    __syncthreads();
    pdl_wait();

    const char* input = static_cast<const char*>(p.input);
    const auto load = [&](std::uint32_t(&to)[Halves][Words], int turn) {
#pragma unroll
        for (int m = 0; m < Halves; ++m) {
            const int pixel = turn * pixels + m * 8 + g;
            const char* from = input + static_cast<std::int64_t>(pixel) * t.in_pitch;
            P::each([&](auto count, int word, int byte) {
                constexpr int c = decltype(count)::value;
                const int at = byte + q * c * 4;
                load_words<c>(&to[m][word], from + at, pixel < t.pixels && at < t.in_bytes);
            });
        }
    };
    constexpr bool ahead = Words * Halves <= 16; // the next turn's pixels are loaded behind the computing of this one's
    const int stride = static_cast<int>(gridDim.x) * warps;
    std::uint32_t a[Halves][Words], next[ahead ? Halves : 1][ahead ? Words : 1];
    int turn = static_cast<int>(blockIdx.x) * warps + thread / 32;
    if (turn >= t.turns) return;
    load(a, turn);
    for (;; turn += stride) {
        if constexpr (ahead) {
            if (turn + stride < t.turns) load(next, turn + stride);
        }
#pragma unroll 1
        for (int group = 0; group < groups; ++group) {
            const int channel = (group0 + group) * block_channels + 8 * q;
            const bool real = channel < p.k_stride;
            constexpr int out_words = 8 / N::of_word;
            std::uint32_t residual[Halves][out_words];
            if (p.epilogue.residual != nullptr) {
#pragma unroll
                for (int m = 0; m < Halves; ++m) {
                    const int pixel = turn * pixels + m * 8 + g;
                    load_words<out_words>(residual[m],
                                          static_cast<const T*>(p.epilogue.residual) +
                                              static_cast<std::int64_t>(pixel) * t.residual_stride + channel,
                                          real && pixel < t.pixels);
                }
            }
            typename N::Sum sums[tiles][Halves / 2][4];
#pragma unroll
            for (int j = 0; j < tiles; ++j) {
                std::uint32_t b[Words];
                P::each([&](auto count, int word, int) {
                    constexpr int c = decltype(count)::value;
                    load_shared<c>(&b[word], weights + (group * tiles + j) * 32 * Words + word * 32 + lane * c);
                });
#pragma unroll
                for (int m = 0; m < Halves / 2; ++m) {
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        sums[j][m][k] = N::zero();
#pragma unroll
                    for (int w = 0; w + 1 < Words; w += 2)
                        N::multiply(sums[j][m], a[2 * m][w], a[2 * m + 1][w], a[2 * m][w + 1], a[2 * m + 1][w + 1],
                                    b[w], b[w + 1]);
                    if constexpr (Words % 2 != 0)
                        N::multiply(sums[j][m], a[2 * m][Words - 1], a[2 * m + 1][Words - 1], b[Words - 1]);
                }
            }
#pragma unroll
            for (int m = 0; m < Halves; ++m) {
                float v[8];
#pragma unroll
                for (int j = 0; j < tiles; ++j) {
                    const float4 ab = vectors[group * 16 + q * 4 + j];
                    v[2 * j] = fmaf(N::value(sums[j][m / 2][m % 2 * 2]), ab.x, ab.z);
                    v[2 * j + 1] = fmaf(N::value(sums[j][m / 2][m % 2 * 2 + 1]), ab.y, ab.w);
                }
                const auto add_residual = [&] {
                    float r[8];
                    if constexpr (sizeof(T) == 1) {
#pragma unroll
                        for (int w = 0; w < 2; ++w) {
                            r[4 * w] = byte_value(residual[m][w], 0);
                            r[4 * w + 1] = byte_value(residual[m][w], 1);
                            r[4 * w + 2] = byte_value(residual[m][w], 2);
                            r[4 * w + 3] = byte_value(residual[m][w], 3);
                        }
                    } else {
#pragma unroll
                        for (int w = 0; w < 4; ++w) {
                            const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&residual[m][w]));
                            r[2 * w] = f.x;
                            r[2 * w + 1] = f.y;
                        }
                    }
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        v[i] = fmaf(r[i], t.clamp.residual_factor, v[i]);
                };
                const bool last = p.epilogue.residual_last != 0;
                if (p.epilogue.residual != nullptr && !last) add_residual();
                if (t.clamp.curved != 0) {
                    activate_quickly(v, p.epilogue);
                    if (p.epilogue.residual != nullptr && last) add_residual();
                    as_stored<T>(v, t.clamp);
                }
                std::uint32_t out[out_words];
                if constexpr (sizeof(T) == 1) {
#pragma unroll
                    for (int w = 0; w < 2; ++w)
                        out[w] = join_bytes(clamp_byte(v[4 * w], t.clamp), clamp_byte(v[4 * w + 1], t.clamp),
                                            clamp_byte(v[4 * w + 2], t.clamp), clamp_byte(v[4 * w + 3], t.clamp));
                } else {
#pragma unroll
                    for (int w = 0; w < 4; ++w)
                        out[w] = N::clamp(v[2 * w], v[2 * w + 1], t.clamp);
                }
                const int pixel = turn * pixels + m * 8 + g;
                if (real && pixel < t.pixels)
                    store_words<out_words>(
                        static_cast<T*>(p.output) + static_cast<std::int64_t>(pixel) * p.k_pitch + channel, out);
            }
        }
        if (turn + stride >= t.turns) break;
        if constexpr (ahead) {
#pragma unroll
            for (int m = 0; m < Halves; ++m)
#pragma unroll
                for (int w = 0; w < Words; ++w)
                    a[m][w] = next[m][w];
        } else {
            load(a, turn + stride);
        }
    }
}

constexpr int sizes[] = {1, 2, 3, 4, 6, 8, 9, 12, 15, 18};
int words_of(int bytes) { // the instance for pixels of so many bytes
    for (const int words : sizes)
        if (words * 16 >= bytes) return words;
    return 0;
}
constexpr int most_shared = 96 * 1024;

Work work_of(const ImplicitGemmParams& p, int size, int output_type, int splits) {
    Work t{};
    t.pixels = p.n * p.p * p.q;
    t.groups = (p.k_stride + block_channels - 1) / block_channels;
    t.groups_a_block = (t.groups + splits - 1) / splits;
    t.in_pitch = p.c_pitch * size;
    t.in_bytes = t.weight_bytes = t.weight_pitch = p.c * size;
    if (t.in_pitch < t.in_bytes) t.in_bytes = t.in_pitch;
    t.residual_stride = p.epilogue.residual_stride != 0 ? p.epilogue.residual_stride : p.k_pitch;
    t.clamp = clamp_of(p.epilogue, output_type);
    return t;
}
int shared_bytes(const Work& t, int words) { return t.groups_a_block * (16 * 16 + tiles * 32 * words * 4); }

template <class T, int Words, int Halves>
cudaError_t launch_one(const ImplicitGemmParams& p, int splits, int turns, int output_type, cudaStream_t stream,
                       bool programmatic) {
    Work t = work_of(p, static_cast<int>(sizeof(T)), output_type, splits);
    t.turns = (t.pixels + 8 * Halves - 1) / (8 * Halves);
    const int shared = shared_bytes(t, Words);
    if (shared > 48 * 1024)
        if (const cudaError_t code = cudaFuncSetAttribute(pointwise_mma<T, Words, Halves>,
                                                          cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
            code != cudaSuccess)
            return code;
    const int parts = (t.groups + t.groups_a_block - 1) / t.groups_a_block;
    if (turns == 0) { // as many as let the device run all blocks at once
        int device = 0, processors = 0, blocks = 0;
        if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
        if (const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
            code != cudaSuccess)
            return code;
        if (const cudaError_t code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, pointwise_mma<T, Words, Halves>, threads, static_cast<std::size_t>(shared));
            code != cudaSuccess)
            return code;
        const int at_once = std::max(1, processors * blocks / parts) * warps;
        turns = (t.turns + at_once - 1) / at_once;
    }
    const dim3 grid(blocks_for(t.turns, std::int64_t{warps} * turns), static_cast<unsigned>(parts));
    return launch_kernel(pointwise_mma<T, Words, Halves>, grid, threads, static_cast<std::size_t>(shared), stream,
                         programmatic, 1, p, t);
}
template <class T, int Words>
cudaError_t launch_halves(const ImplicitGemmParams& p, const PointwiseTile& tile, int output_type, cudaStream_t stream,
                          bool programmatic) {
    if (tile.halves == 2) return launch_one<T, Words, 2>(p, tile.splits, tile.turns, output_type, stream, programmatic);
    if constexpr (Words <= 9)
        if (tile.halves == 4)
            return launch_one<T, Words, 4>(p, tile.splits, tile.turns, output_type, stream, programmatic);
    return cudaErrorInvalidValue;
}
template <class T>
cudaError_t launch_words(int words, const ImplicitGemmParams& p, const PointwiseTile& tile, int output_type,
                         cudaStream_t stream, bool programmatic) {
    switch (words) {
        case 1: return launch_halves<T, 1>(p, tile, output_type, stream, programmatic);
        case 2: return launch_halves<T, 2>(p, tile, output_type, stream, programmatic);
        case 3: return launch_halves<T, 3>(p, tile, output_type, stream, programmatic);
        case 4: return launch_halves<T, 4>(p, tile, output_type, stream, programmatic);
        case 6: return launch_halves<T, 6>(p, tile, output_type, stream, programmatic);
        case 8: return launch_halves<T, 8>(p, tile, output_type, stream, programmatic);
        case 9: return launch_halves<T, 9>(p, tile, output_type, stream, programmatic);
        case 12: return launch_halves<T, 12>(p, tile, output_type, stream, programmatic);
        case 15: return launch_halves<T, 15>(p, tile, output_type, stream, programmatic);
        case 18: return launch_halves<T, 18>(p, tile, output_type, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

} // namespace

bool pointwise_mma_takes(const ImplicitGemmParams& p, int type, const PointwiseTile& tile) {
    if (type != type_f16 && type != type_s8) return false;
    if (p.r != 1 || p.s != 1 || p.stride_h != 1 || p.stride_w != 1 || p.pad_h != 0 || p.pad_w != 0) return false;
    const int size = type == type_s8 ? 1 : 2;
    if (p.c * size % 16 != 0 || p.c_pitch * size % 16 != 0 || p.k_stride % 8 != 0 || p.k_pitch % 8 != 0) return false;
    if (std::int64_t{p.n} * p.p * p.q > 0x7fffff00 || (type == type_s8 && p.c > most_s8_products)) return false;
    if (!curve_takes(p.epilogue, type)) return false;
    const int words = words_of(p.c * size);
    if (words == 0 || (tile.halves != 2 && (tile.halves != 4 || words > 9)) || tile.splits < 1 || tile.turns < 0)
        return false;
    if (p.epilogue.residual_stride % 8 != 0) return false;
    const Work t = work_of(p, size, type, tile.splits);
    return tile.splits <= t.groups && shared_bytes(t, words) <= most_shared;
}

cudaError_t launch_pointwise_mma(const ImplicitGemmParams& p, int type, const PointwiseTile& tile, cudaStream_t stream,
                                 bool programmatic) {
    if (!pointwise_mma_takes(p, type, tile)) return cudaErrorInvalidValue;
    return type == type_s8 ? launch_words<std::int8_t>(words_of(p.c), p, tile, type, stream, programmatic)
                           : launch_words<__half>(words_of(p.c * 2), p, tile, type, stream, programmatic);
}

} // namespace lathe::cuda::kernels
