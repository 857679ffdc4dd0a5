#include "backends/cuda/device/compare.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace lathe::cuda::kernels {

namespace {

constexpr int threads = 256;
constexpr int most_blocks = 1024;

int blocks_for(std::size_t count) {
    const std::size_t wanted = (count + threads - 1) / threads;
    return static_cast<int>(wanted < most_blocks ? wanted : most_blocks);
}

__device__ float to_float(float value) { return value; }
__device__ float to_float(double value) { return static_cast<float>(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ void reduce_into(T value, T* target) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xFFFFFFFFU, value, offset);
    if (threadIdx.x % 32 == 0 && value != T{}) atomicAdd(target, value);
}

template <class T>
__global__ void compare_floats(const T* reference, const T* candidate, std::size_t count, int channels, int stride,
                               Difference* result) {
    double error = 0, norm = 0;
    unsigned long long bad = 0, padding = 0, infinite = 0;
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step) {
        const float got = to_float(candidate[i]);
        if (static_cast<int>(i % static_cast<std::size_t>(stride)) >= channels) {
            padding += isfinite(got) ? 0 : 1;
            continue;
        }
        const float wanted = to_float(reference[i]);
        if (!isfinite(wanted)) {
            ++infinite;
            // NaN for NaN, infinity for the same infinity; large floats may overflow in another order of sums.
            bad += isfinite(got) ? 1 : 0;
            continue;
        }
        if (!isfinite(got)) {
            ++bad;
            continue;
        }
        const double difference = static_cast<double>(got) - wanted;
        error += difference * difference;
        norm += static_cast<double>(wanted) * wanted;
    }
    reduce_into(error, &result->squared_error);
    reduce_into(norm, &result->squared_reference);
    reduce_into(bad, &result->unwritten_or_nan);
    reduce_into(padding, &result->bad_padding);
    reduce_into(infinite, &result->reference_infinite);
}

template <class T>
__global__ void compare_integers(const T* reference, const T* candidate, std::size_t count, int channels, int stride,
                                 Difference* result) {
    unsigned long long one = 0, more = 0;
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step) {
        if (static_cast<int>(i % static_cast<std::size_t>(stride)) >= channels) continue;
        const long long difference = static_cast<long long>(candidate[i]) - static_cast<long long>(reference[i]);
        if (difference == 1 || difference == -1) {
            ++one;
        } else if (difference != 0) {
            ++more;
        }
    }
    reduce_into(one, &result->by_one);
    reduce_into(more, &result->by_more);
}

/// A hash of (seed, index): the same values whatever the grid (splitmix64's finisher).
__device__ std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
}

__device__ float normal(std::uint64_t bits) {
    const float u = (static_cast<float>(bits >> 40) + 1) * (1.0F / 16777217.0F);
    const float v = static_cast<float>((bits >> 8) & 0xFFFFFFU) * (1.0F / 16777216.0F);
    return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

__device__ void store(float* to, float value) { *to = value; }
__device__ void store(double* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16(value); }

template <class T>
__global__ void fill_floats(T* data, std::size_t count, std::uint64_t seed) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step)
        store(data + i, normal(mix(seed * 0x9E3779B97F4A7C15ULL + i)));
}

template <class T>
__global__ void fill_integers(T* data, std::size_t count, std::uint64_t seed, std::int64_t low, std::uint64_t span) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * threads;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step) {
        const std::uint64_t draw = mix(seed * 0x9E3779B97F4A7C15ULL + i) % span;
        data[i] = static_cast<T>(low + static_cast<std::int64_t>(draw));
    }
}

} // namespace

cudaError_t launch_compare(const void* reference, const void* candidate, int type, std::size_t count, int channels,
                           int stride, Difference* result, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    const int blocks = blocks_for(count);
    const auto floats = [&]<class T>(T) {
        compare_floats<T><<<blocks, threads, 0, stream>>>(
            static_cast<const T*>(reference), static_cast<const T*>(candidate), count, channels, stride, result);
    };
    const auto integers = [&]<class T>(T) {
        compare_integers<T><<<blocks, threads, 0, stream>>>(
            static_cast<const T*>(reference), static_cast<const T*>(candidate), count, channels, stride, result);
    };
    switch (type) {
        case 0: floats(float{}); break;
        case 1: floats(__half{}); break;
        case 2: floats(__nv_bfloat16{}); break;
        case 3: integers(std::int8_t{}); break;
        case 4: integers(std::int32_t{}); break;
        case 5: integers(std::int64_t{}); break;
        case 6:
        case 7: integers(std::uint8_t{}); break;
        case 8: integers(std::int16_t{}); break;
        case 9: integers(std::uint16_t{}); break;
        case 10: integers(std::uint32_t{}); break;
        case 11: integers(std::uint64_t{}); break;
        case 12: floats(double{}); break;
        default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

cudaError_t launch_fill(void* data, int type, std::size_t count, std::uint64_t seed, std::int64_t low,
                        std::int64_t high, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    const int blocks = blocks_for(count);
    const auto floats = [&]<class T>(T) {
        fill_floats<T><<<blocks, threads, 0, stream>>>(static_cast<T*>(data), count, seed);
    };
    const auto integers = [&]<class T>(T, std::int64_t least, std::int64_t most) {
        fill_integers<T><<<blocks, threads, 0, stream>>>(static_cast<T*>(data), count, seed, least,
                                                         static_cast<std::uint64_t>(most - least + 1));
    };
    switch (type) {
        case 0: floats(float{}); break;
        case 1: floats(__half{}); break;
        case 2: floats(__nv_bfloat16{}); break;
        case 3: integers(std::int8_t{}, -90, 90); break;
        case 4: integers(std::int32_t{}, low, high); break;
        case 5: integers(std::int64_t{}, low, high); break;
        case 6: integers(std::uint8_t{}, 0, 1); break;
        case 7: integers(std::uint8_t{}, 0, 255); break;
        case 8: integers(std::int16_t{}, -32000, 32000); break;
        case 9: integers(std::uint16_t{}, 0, 65000); break;
        case 10: integers(std::uint32_t{}, low < 0 ? 0 : low, high); break;
        case 11: integers(std::uint64_t{}, low < 0 ? 0 : low, high); break;
        case 12: floats(double{}); break;
        default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

} // namespace lathe::cuda::kernels
