#pragma once
// Runs a kernel test's plan on a GPU: by the reference kernels, and its op under test by any candidate.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "plans.hpp"

namespace lathe::cuda::test {

struct Comparison {
    double error = 0; ///< relative; int8: share of values off by one
    bool bad = false; ///< NaN, unwritten, int8 off by more than one, padding not zero
    std::string what;
};

/// Two results of a value v, byte by byte as the device holds them.
Comparison compare(const Value& v, const std::vector<std::byte>& reference, const std::vector<std::byte>& candidate);

/// The greatest error of an op's result that counts as right.
double tolerance(const FusedOp& op, const Value& out);

/// A plan's values and weights on a GPU, inputs filled with seeded numbers, all else poisoned.
class Runner {
public:
    static Result<std::unique_ptr<Runner>> make(const TestPlan& test, const Device& device);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    /// All ops by the reference; keeps what the op under test wrote.
    Result<void> reference();
    /// The model's outputs after `reference`.
    Result<std::vector<std::vector<std::byte>>> results() { return download(test_.plan.outputs); }
    /// The op under test by a candidate, on poisoned outputs; times it if asked to.
    Result<std::vector<Comparison>> candidate(const Provider& provider, const std::string& id, double* microseconds);
    const std::vector<HostTensor>& inputs() const { return inputs_; }

private:
    Runner(const TestPlan& test, const Device& device) : test_(test), device_(device) {}

    Pointers pointers() { return {pointers_, weight_pointers_, workspace_.data()}; }
    Result<void> launch(const PreparedKernel& prepared);
    /// Microseconds of a launch, best of three graphs of 20 (one buffer, so caches are warm).
    Result<double> time(const PreparedKernel& prepared);
    Result<std::vector<std::vector<std::byte>>> download(const std::vector<ValueId>& ids);
    Result<std::vector<std::vector<std::byte>>> outputs() { return download(test_.plan.ops[test_.main].outputs); }

    const TestPlan& test_;
    const Device& device_;
    std::vector<DeviceMemory> memory_;
    std::vector<void*> pointers_;
    std::vector<const void*> weight_pointers_;
    DeviceMemory workspace_;
    cudaStream_t stream_ = nullptr;
    std::vector<HostTensor> inputs_;
    std::vector<std::vector<std::byte>> reference_;
};

} // namespace lathe::cuda::test
