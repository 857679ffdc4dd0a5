#pragma once
// Random test values and comparison of results on the device, for the tuner. Between g++ and nvcc: plain types.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace lathe::cuda::kernels {

/// How a result differs from the reference's. Padding (channels to the stride) counts in `bad_padding` alone.
struct Difference {
    double squared_error = 0;
    double squared_reference = 0;
    unsigned long long unwritten_or_nan = 0;   ///< NaN or infinite where the reference is not
    unsigned long long bad_padding = 0;        ///< NaN or infinite in the padding
    unsigned long long reference_infinite = 0; ///< NaN or infinite in the reference
    unsigned long long by_one = 0;             ///< integers: off by one
    unsigned long long by_more = 0;
};

/// Adds to `*result` (device memory, zeroed by the caller). Types as `ElementType`'s numbers; `count` elements with
/// padding; `channels` of every `stride` elements count (equal where there is no padding).
cudaError_t launch_compare(const void* reference, const void* candidate, int type, std::size_t count, int channels,
                           int stride, Difference* result, cudaStream_t stream);

/// Floats: normal, deviation 1. int8: uniform -90..90. Other integers: uniform low..high. Booleans: 0 or 1.
cudaError_t launch_fill(void* data, int type, std::size_t count, std::uint64_t seed, std::int64_t low,
                        std::int64_t high, cudaStream_t stream);

} // namespace lathe::cuda::kernels
