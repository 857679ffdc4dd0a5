#include "backends/cuda/device/guard.hpp"

#include <algorithm>
#include <vector>

namespace lathe::cuda {

Result<std::size_t> bytes_written(const std::byte* guard, const Stream& stream) {
    std::vector<unsigned char> bytes(guard_bytes);
    LATHE_CUDA(cudaMemcpyAsync(bytes.data(), guard, guard_bytes, cudaMemcpyDeviceToHost, stream.get()),
               "looking behind a kernel's memory");
    LATHE_CHECK(stream.synchronize("looking behind a kernel's memory"));
    return static_cast<std::size_t>(
        std::count_if(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != poison; }));
}

} // namespace lathe::cuda
