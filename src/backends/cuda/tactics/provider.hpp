#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/plan/ir.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// Device addresses for one op of one session. They stay valid and fixed as long as what was bound.
struct Pointers {
    std::span<void* const> values;        ///< by ValueId (aliases resolved)
    std::span<const void* const> weights; ///< by WeightId
    void* workspace = nullptr;
};

/// An op ready to launch on fixed addresses: TMA descriptors encoded, parameters filled. One thread at a time.
class BoundKernel {
public:
    virtual ~BoundKernel() = default;
    /// Enqueue; never synchronises or allocates (it runs under stream capture). `programmatic`: the kernel before it in
    /// the stream triggers early (programmatic dependent launch); only kernels whose `waits()` is true are launched so.
    virtual Result<void> launch(cudaStream_t stream, bool programmatic) const = 0;
};

/// A candidate for one op and shape. Immutable, shared by sessions and threads.
class PreparedKernel {
public:
    virtual ~PreparedKernel() = default;
    virtual std::size_t workspace_bytes() const = 0;
    virtual bool waits() const { return false; }        ///< executes griddepcontrol.wait before touching activations
    virtual std::string code_key() const { return {}; } ///< of generated code in the KernelStore, which engines carry
    virtual Result<std::unique_ptr<BoundKernel>> bind(const Pointers& pointers) const = 0;
};

enum class Effort { fast, standard, full };

/// A source of kernels. Providers are listed in order of preference, the reference last; explicit list, no static
/// registration.
class Provider {
public:
    virtual ~Provider() = default;
    virtual std::string name() const = 0; ///< "cudnn", "cublaslt", "lathe", "lathe90", "generated", "reference", ...
    /// Ids of the candidates for this op on this device, best guess first. Empty: none; `why` then says why (for
    /// --explain).
    virtual std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device,
                                                Effort effort, std::string& why) const = 0;
    /// Ids are stable within `environment`; an id of a timing cache that no longer exists is an error (mismatch).
    virtual Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                            const Device& device) const = 0;
};
/// All providers usable on this device. `reference` takes every op that the lowering makes.
const std::vector<std::unique_ptr<Provider>>& providers();
std::unique_ptr<Provider> make_reference_provider();
std::unique_ptr<Provider> make_own_provider();   ///< "lathe": kernels/*.cu
std::unique_ptr<Provider> make_sm90_provider();  ///< "lathe90": kernels/sm90/implicit_gemm_*.cu, own_sm90.cpp
std::unique_ptr<Provider> make_wide_provider();  ///< "lathe90w": kernels/sm90/*_wgmma.cu for transformers, own_wide.cpp
std::unique_ptr<Provider> make_chain_provider(); ///< "lathe90c": kernels/sm90/chain_gemm_*.cu, own_chain.cpp
std::unique_ptr<Provider> make_generated_provider(); ///< "generated": generate/ and NVRTC, generated.cpp
std::unique_ptr<Provider> make_cublaslt_provider();
std::unique_ptr<Provider> make_cudnn_provider();

} // namespace lathe::cuda
