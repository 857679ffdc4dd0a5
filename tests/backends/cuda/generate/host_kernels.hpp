#pragma once
// Generated kernels compiled by the host's compiler and run on the host.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/generate/generate.hpp"

namespace lathe::cuda::test {

/// Kernels of one library, by the order they were added in. Compiled at the first `run`.
class HostKernels {
public:
    HostKernels();
    ~HostKernels();
    HostKernels(const HostKernels&) = delete;
    HostKernels& operator=(const HostKernels&) = delete;

    std::size_t add(GeneratedKernel kernel);
    /// "" or what the compiler said.
    std::string compile();
    void run(std::size_t index, std::vector<void*> arguments) const;
    const GeneratedKernel& kernel(std::size_t index) const { return kernels_[index]; }
    std::size_t size() const { return kernels_.size(); }

private:
    std::vector<GeneratedKernel> kernels_;
    std::string folder_;
    std::vector<void*> libraries_;
};

} // namespace lathe::cuda::test
