// Squeeze and excite in one kernel, in two ways. Shared: a cluster of blocks has an image; each sums a share of the
// pixels, adds up a share of the channels over the blocks, multiplies them with its columns of the first weights, and
// then, with all hidden numbers, computes its share of the results; channels and hidden numbers go through distributed
// shared memory. Repeated: each block computes all hidden numbers and its share of the results, so that none waits for
// another. The weights come before the kernel waits for the image.

#include <algorithm>

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/mma_ptx.cuh"
#include "backends/cuda/kernels/squeeze.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 512, warps = threads / 32;

constexpr std::int64_t up(std::int64_t v, std::int64_t step) { return (v + step - 1) / step * step; }

/// What a block has, in elements, and where it lies in shared memory.
struct Work {
    std::int32_t channels; ///< of the average, a block's share or all
    std::int32_t results;  ///< a block's share
    std::int32_t vectors;  ///< 16 bytes of a pixel
    std::int32_t across, down;
    std::int32_t second, sums, averages, parts, hidden; ///< bytes; the first weights lie at 0
    std::int32_t bytes;
};
Work work_of(const SqueezeParams& p, const SqueezeTile& tile) {
    const std::int64_t size = p.type == type_f32 ? 4 : 2, vec = 16 / size;
    Work w{};
    const std::int64_t split = tile.blocks, shares = tile.shared ? split : 1;
    const std::int64_t channels = up((p.first_c + shares - 1) / shares, vec),
                       results = (p.k_stride + split - 1) / split;
    const std::int64_t vectors = up(p.c, vec) / vec, across = std::min<std::int64_t>(vectors, threads);
    const std::int64_t down = threads / across;
    const std::int64_t second = up(p.hidden * channels * size, 16), sums = second + up(results * p.second_c * size, 16);
    const std::int64_t averages = sums + std::max(down * vectors * vec, channels * shares) * 4;
    const std::int64_t parts = averages + channels * 4, hidden = parts + up(p.hidden, 4) * 4;
    const std::int64_t bytes = hidden + up(p.second_c, 4) * 4;
    if (bytes > (std::int64_t{1} << 20)) return w; // more than any device has
    w.channels = static_cast<std::int32_t>(channels);
    w.results = static_cast<std::int32_t>(results);
    w.vectors = static_cast<std::int32_t>(vectors);
    w.across = static_cast<std::int32_t>(across);
    w.down = static_cast<std::int32_t>(down);
    w.second = static_cast<std::int32_t>(second);
    w.sums = static_cast<std::int32_t>(sums);
    w.averages = static_cast<std::int32_t>(averages);
    w.parts = static_cast<std::int32_t>(parts);
    w.hidden = static_cast<std::int32_t>(hidden);
    w.bytes = static_cast<std::int32_t>(bytes);
    return w;
}

/// The sum of what the blocks have at this place.
template <int Split>
__device__ __forceinline__ float over_blocks(const float* at) {
    if constexpr (Split == 1) return *at;
    float v[Split], sum = 0;
#pragma unroll
    for (int rank = 0; rank < Split; ++rank)
        v[rank] = mma::load_peer_float(mma::shared_address(at), rank);
#pragma unroll
    for (int rank = 0; rank < Split; ++rank)
        sum += v[rank];
    return sum;
}
template <int Split>
__device__ __forceinline__ void meet() {
    if constexpr (Split == 1)
        __syncthreads();
    else
        mma::cluster_arrive_and_wait();
}

/// Split: blocks that share an image; 1: those of an image (gridDim.z) repeat what comes before the results.
template <class T, int Split>
__global__ void __launch_bounds__(threads)
    squeeze(const __grid_constant__ SqueezeParams p, const __grid_constant__ Work w) {
    constexpr int vec = 16 / static_cast<int>(sizeof(T));
    extern __shared__ __align__(16) char shared[];
    T* first = reinterpret_cast<T*>(shared);
    T* second = reinterpret_cast<T*>(shared + w.second);
    float* sums = reinterpret_cast<float*>(shared + w.sums);
    float* averages = reinterpret_cast<float*>(shared + w.averages);
    float* parts = reinterpret_cast<float*>(shared + w.parts);
    float* hidden = reinterpret_cast<float*>(shared + w.hidden);
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const int rank = static_cast<int>(blockIdx.z), image = static_cast<int>(blockIdx.x);
    const int share = Split == 1 ? 0 : rank; // of pixels and channels
    const int channel0 = share * w.channels, result0 = rank * w.results;
    pdl_trigger();

    const int wide = w.channels / vec, deep = p.second_c / vec; // 16 bytes of a row of weights
    for (int r = warp; r < p.hidden; r += warps)
        for (int i = lane; i < wide; i += 32) {
            const int column = channel0 + i * vec;
            const bool real = column < p.first_c; // a multiple of 16 bytes
            mma::copy_async(
                mma::shared_address(first + (r * wide + i) * vec),
                static_cast<const T*>(p.first) + (real ? static_cast<std::int64_t>(r) * p.first_c + column : 0), real);
        }
    const int rows = min(w.results, p.k - result0);
    for (int i = thread; i < rows * deep; i += threads)
        mma::copy_async(mma::shared_address(second + i * vec),
                        static_cast<const T*>(p.second) + static_cast<std::int64_t>(result0) * p.second_c + i * vec,
                        true);
    mma::copy_commit();
    pdl_wait();

    const int per = (p.pixels + Split - 1) / Split, begin = share * per, end = min(p.pixels, begin + per);
    const T* input = static_cast<const T*>(p.input) + static_cast<std::int64_t>(image) * p.pixels * p.c_pitch;
    const int column = thread % w.across, row = thread / w.across;
    if (row < w.down)
        for (int at = column; at < w.vectors; at += w.across) {
            float sum[vec] = {};
            constexpr int ahead = 4;
            const T* from = input + static_cast<std::int64_t>(begin + row) * p.c_pitch + at * vec;
            const std::int64_t step = static_cast<std::int64_t>(w.down) * p.c_pitch;
            for (int pixel = begin + row; pixel < end; pixel += w.down * ahead, from += step * ahead) {
                uint4 raw[ahead];
#pragma unroll
                for (int i = 0; i < ahead; ++i)
                    raw[i] = pixel + i * w.down < end ? *reinterpret_cast<const uint4*>(from + i * step)
                                                      : make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int i = 0; i < ahead; ++i) {
                    float v[vec];
                    unpack<T>(raw[i], v);
#pragma unroll
                    for (int k = 0; k < vec; ++k)
                        sum[k] += v[k];
                }
            }
            float* to = sums + (row * w.vectors + at) * vec;
#pragma unroll
            for (int k = 0; k < vec; ++k)
                to[k] = sum[k];
        }
    __syncthreads();
    if (w.down > 1) { // rows are added up by as many threads as there are, then what they have by one a channel
        const int channels = w.vectors * vec, groups = min(w.down, max(1, threads / channels));
        for (int i = thread; i < channels * groups; i += threads) {
            float sum = 0;
            for (int r = i / channels; r < w.down; r += groups)
                sum += sums[r * channels + i % channels];
            sums[i] = sum; // the first of the rows that this thread alone has read
        }
        if (groups > 1) {
            __syncthreads();
            if (thread < channels) {
                float sum = 0;
                for (int r = 0; r < groups; ++r)
                    sum += sums[r * channels + thread];
                sums[thread] = sum;
            }
        }
    }
    meet<Split>();
    const float factor = p.factor / static_cast<float>(p.pixels);
    for (int i = thread; i < w.channels; i += threads)
        averages[i] = channel0 + i < p.c ? over_blocks<Split>(sums + channel0 + i) * factor : 0.0F;
    mma::copy_wait<0>();
    __syncthreads();

    const auto product = [](const uint4& weights, const float* with, float sum) {
        float v[vec];
        unpack<T>(weights, v);
#pragma unroll
        for (int k = 0; k < vec; k += 4) {
            const float4 x = *reinterpret_cast<const float4*>(with + k);
            sum = fmaf(v[k], x.x, fmaf(v[k + 1], x.y, fmaf(v[k + 2], x.z, fmaf(v[k + 3], x.w, sum))));
        }
        return sum;
    };
    constexpr int at_once = 4; // rows of a warp
    for (int r = warp; r < p.hidden; r += warps * at_once) {
        float sum[at_once] = {};
        for (int i = lane; i < wide; i += 32)
#pragma unroll
            for (int k = 0; k < at_once; ++k)
                if (r + k * warps < p.hidden)
                    sum[k] = product(reinterpret_cast<const uint4*>(first)[(r + k * warps) * wide + i],
                                     averages + i * vec, sum[k]);
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            sum[k] = warp_sum(sum[k]);
#pragma unroll
        for (int k = 0; k < at_once; ++k)
            if (lane == 0 && r + k * warps < p.hidden) parts[r + k * warps] = sum[k];
    }
    meet<Split>();
    for (int i = thread; i < p.second_c; i += threads)
        hidden[i] = i < p.hidden
                        ? finish(over_blocks<Split>(parts + i), p.inner.scale != nullptr ? p.inner.scale[i] : 1.0F,
                                 p.inner.bias != nullptr ? p.inner.bias[i] : 0.0F, 0, p.inner)
                        : 0.0F;
    if constexpr (Split > 1) mma::cluster_arrive();
    __syncthreads();

    constexpr int lanes = 4; // of a result
    T* output = static_cast<T*>(p.output) + static_cast<std::int64_t>(image) * p.k_stride + result0;
    const int results = min(w.results, p.k_stride - result0);
    for (int base = 0; base < results; base += threads / lanes) {
        const int r = base + thread / lanes;
        float sum = 0;
        if (r < rows)
            for (int i = thread % lanes; i < deep; i += lanes)
                sum = product(reinterpret_cast<const uint4*>(second)[r * deep + i], hidden + i * vec, sum);
#pragma unroll
        for (int offset = lanes / 2; offset > 0; offset >>= 1)
            sum += __shfl_xor_sync(0xffffffffU, sum, offset);
        if (thread % lanes != 0 || r >= results) continue;
        const int k = result0 + r;
        const float v = r < rows ? finish(sum, p.outer.scale != nullptr ? p.outer.scale[k] : 1.0F,
                                          p.outer.bias != nullptr ? p.outer.bias[k] : 0.0F, 0, p.outer)
                                 : 0.0F;
        output[r] = from_float<T>(v);
    }
    if constexpr (Split > 1) mma::cluster_wait(); // nobody leaves while others read its memory
}

template <class T, int Split>
cudaError_t launch_one(const SqueezeParams& p, const SqueezeTile& tile, cudaStream_t stream, bool programmatic) {
    const Work w = work_of(p, tile);
    if (w.bytes > 48 * 1024)
        if (const cudaError_t code =
                cudaFuncSetAttribute(squeeze<T, Split>, cudaFuncAttributeMaxDynamicSharedMemorySize, w.bytes);
            code != cudaSuccess)
            return code;
    const dim3 grid(static_cast<unsigned>(p.n), 1, static_cast<unsigned>(tile.blocks));
    return launch_kernel(squeeze<T, Split>, grid, threads, static_cast<std::size_t>(w.bytes), stream, programmatic,
                         Split, p, w);
}
template <class T>
cudaError_t launch_type(const SqueezeParams& p, const SqueezeTile& tile, cudaStream_t stream, bool programmatic) {
    switch (tile.shared ? tile.blocks : 1) {
        case 1: return launch_one<T, 1>(p, tile, stream, programmatic);
        case 2: return launch_one<T, 2>(p, tile, stream, programmatic);
        case 4: return launch_one<T, 4>(p, tile, stream, programmatic);
        case 8: return launch_one<T, 8>(p, tile, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}

} // namespace

bool squeeze_takes(const SqueezeParams& p, const SqueezeTile& tile) {
    if (p.type != type_f32 && p.type != type_f16 && p.type != type_bf16) return false;
    if (tile.blocks < 1 || tile.blocks > 64 ||
        (tile.shared && tile.blocks != 2 && tile.blocks != 4 && tile.blocks != 8))
        return false;
    const int vec = p.type == type_f32 ? 4 : 8;
    if (p.c_pitch % vec != 0 || p.first_c % vec != 0 || p.second_c % vec != 0 || p.c_pitch < up(p.c, vec)) return false;
    if (p.first_c < p.c || p.second_c < p.hidden || p.k_stride < p.k) return false;
    if (p.n < 1 || p.pixels < 1 || p.hidden < 1) return false;
    // every block has results, pixels and channels of its own
    const Work w = work_of(p, tile);
    if (w.bytes == 0 || static_cast<std::int64_t>(w.results) * (tile.blocks - 1) >= p.k) return false;
    return !tile.shared ||
           (static_cast<std::int64_t>(w.channels) * (tile.blocks - 1) < p.first_c && p.pixels >= tile.blocks);
}

std::size_t squeeze_shared_bytes(const SqueezeParams& p, const SqueezeTile& tile) {
    return static_cast<std::size_t>(work_of(p, tile).bytes);
}

cudaError_t launch_squeeze(const SqueezeParams& p, const SqueezeTile& tile, cudaStream_t stream, bool programmatic) {
    if (!squeeze_takes(p, tile)) return cudaErrorInvalidValue;
    if (p.type == type_f16) return launch_type<__half>(p, tile, stream, programmatic);
    if (p.type == type_bf16) return launch_type<__nv_bfloat16>(p, tile, stream, programmatic);
    return launch_type<float>(p, tile, stream, programmatic);
}

} // namespace lathe::cuda::kernels
