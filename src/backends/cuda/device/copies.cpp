#include "backends/cuda/device/copies.hpp"

#include <utility>
#include <vector>

#include "backends/cuda/device/handles.hpp"

namespace lathe::cuda {

namespace {

class Copies final : public DeviceCopies {
public:
    explicit Copies(int device) : device_(device) {}
    ~Copies() override {
        if (cudaSetDevice(device_) == cudaSuccess) static_cast<void>(cudaStreamSynchronize(stream_.get()));
    }

    Result<void> open() {
        LATHE_CUDA(cudaSetDevice(device_), "choosing the GPU");
        LATHE_TRY(stream_, Stream::create());
        return {};
    }

    Result<std::span<std::byte>> memory(std::size_t number, std::size_t bytes) override {
        if (memory_.size() <= number) memory_.resize(number + 1);
        DeviceMemory& found = memory_[number];
        if (found.size() < bytes) {
            LATHE_CUDA(cudaSetDevice(device_), "choosing the GPU");
            LATHE_CHECK(wait());
            found = DeviceMemory();
            LATHE_TRY(found, DeviceMemory::allocate(bytes, "tensors of requests"));
        }
        return std::span(found.data(), found.size());
    }

    Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
        if (bytes == 0) return {};
        // Which side is whose the addresses tell.
        LATHE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "copying a tensor");
        return {};
    }

    Result<void> wait() override { return stream_.synchronize("copying tensors"); }

private:
    int device_;
    Stream stream_;
    std::vector<DeviceMemory> memory_;
};

} // namespace

Result<std::unique_ptr<DeviceCopies>> make_copies(int device) {
    auto made = std::make_unique<Copies>(device);
    LATHE_CHECK(made->open());
    return std::unique_ptr<DeviceCopies>(std::move(made));
}

} // namespace lathe::cuda
