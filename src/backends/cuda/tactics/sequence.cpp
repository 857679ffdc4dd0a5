#include "backends/cuda/tactics/sequence.hpp"

#include "backends/cuda/plan/memory.hpp"

#include <algorithm>

namespace lathe::cuda {

namespace {

class BoundSequence final : public BoundKernel {
public:
    /// `waits`: of each kernel.
    BoundSequence(std::vector<std::unique_ptr<BoundKernel>> kernels, std::vector<bool> waits)
        : kernels_(std::move(kernels)), waits_(std::move(waits)) {}

    Result<void> launch(cudaStream_t stream, bool programmatic) const override {
        for (std::size_t i = 0; i < kernels_.size(); ++i)
            LATHE_CHECK(kernels_[i]->launch(stream, i == 0 ? programmatic : waits_[i - 1] && waits_[i]));
        return {};
    }

private:
    std::vector<std::unique_ptr<BoundKernel>> kernels_;
    std::vector<bool> waits_;
};

class PreparedSequence final : public PreparedKernel {
public:
    PreparedSequence(std::vector<std::unique_ptr<PreparedKernel>> kernels, std::vector<Placeless> placeless)
        : kernels_(std::move(kernels)), placeless_(std::move(placeless)) {
        for (const Placeless& one : placeless_)
            inside_ += aligned(one.bytes);
    }

    std::size_t workspace_bytes() const override {
        std::size_t most = 0;
        for (const auto& kernel : kernels_)
            most = std::max(most, kernel->workspace_bytes());
        return inside_ + most;
    }
    bool waits() const override { return kernels_.front()->waits(); }

    Result<std::unique_ptr<BoundKernel>> bind(const Pointers& pointers) const override {
        std::vector<void*> values(pointers.values.begin(), pointers.values.end());
        auto* at = static_cast<std::byte*>(pointers.workspace);
        for (const Placeless& one : placeless_) {
            values[one.value] = at;
            at += aligned(one.bytes);
        }
        std::vector<std::unique_ptr<BoundKernel>> bound;
        std::vector<bool> waits;
        for (const auto& kernel : kernels_) {
            LATHE_TRY(auto one, kernel->bind(Pointers{values, pointers.weights, at}));
            bound.push_back(std::move(one));
            waits.push_back(kernel->waits());
        }
        return std::unique_ptr<BoundKernel>(std::make_unique<BoundSequence>(std::move(bound), std::move(waits)));
    }

private:
    std::vector<std::unique_ptr<PreparedKernel>> kernels_;
    std::vector<Placeless> placeless_;
    std::size_t inside_ = 0;
};

} // namespace

std::unique_ptr<PreparedKernel> make_sequence(std::vector<std::unique_ptr<PreparedKernel>> kernels,
                                              std::vector<Placeless> placeless) {
    return std::make_unique<PreparedSequence>(std::move(kernels), std::move(placeless));
}

} // namespace lathe::cuda
