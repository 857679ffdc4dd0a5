#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "backends/cuda/kernels/indexed.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/recurrent.hpp"
#include "backends/cuda/tactics/provider.hpp"

namespace lathe::cuda {

/// Enqueues on fixed addresses; see BoundKernel::launch.
using Launch = std::function<cudaError_t(cudaStream_t, bool programmatic)>;
/// Fills in addresses. Runs once a session and op; may fail.
using Bind = std::function<Result<Launch>(const Pointers&)>;
/// A prepared kernel from two closures, which own all they need (the plan may go away).
std::unique_ptr<PreparedKernel> make_kernel(std::string name, std::size_t workspace, bool waits, Bind bind);

/// A kernel whose launch takes one struct: `set` fills in addresses.
template <class Params, class Set>
std::unique_ptr<PreparedKernel> make_kernel(std::string name, bool waits, const Params& params, Set set,
                                            cudaError_t (*launch)(const Params&, cudaStream_t, bool)) {
    return make_kernel(std::move(name), 0, waits, [params, set, launch](const Pointers& pointers) -> Result<Launch> {
        Params bound = params;
        set(bound, pointers);
        return Launch(
            [bound, launch](cudaStream_t stream, bool programmatic) { return launch(bound, stream, programmatic); });
    });
}

/// Whether this build's kernels execute griddepcontrol.wait on the device (they were compiled for it, not from the PTX
/// of sm_80).
bool waits_on(const Device& device);

inline std::int32_t narrow(std::int64_t v) { return static_cast<std::int32_t>(v); }
inline bool fits_32(std::int64_t v) { return v >= 0 && v < std::numeric_limits<std::int32_t>::max(); }
inline double blocks_a_processor(std::int64_t blocks, const Device& device) {
    return static_cast<double>(blocks) / std::max(1, device.multiprocessors);
}

std::int32_t type_number(ElementType type);
/// rank-3 images as rank 4 with a height of 1; everything else as it is.
Shape image_dims(const Value& value);
/// Strides by layout; images have rank 4.
kernels::TensorDesc desc_of(const Value& value);
/// Where a value lies: a constant's weight or the session's memory.
void* address(const Pointers& pointers, const Plan& plan, ValueId id);
/// The same for closures that outlive the plan.
struct Place {
    ValueId value = none;
    WeightId weight = none;  ///< of a constant
    std::int64_t offset = 0; ///< bytes
    void* in(const Pointers& pointers) const;
};
Place place_of(const Plan& plan, ValueId id);

const Weight& weight_of(const Plan& plan, WeightId id);
inline const void* weight_address(const Pointers& pointers, WeightId id) {
    return id == none ? nullptr : pointers.weights[id];
}
kernels::WindowParams window_params(const Window& window);
kernels::DepthParams depth_params(const Depths& depths);
/// Numbers of the epilogue; `bind_epilogue` adds the addresses.
kernels::EpilogueParams epilogue_params(const Epilogue& epilogue, const Plan& plan);
void bind_epilogue(kernels::EpilogueParams& params, const Epilogue& epilogue, const Place& residual,
                   const Pointers& pointers);
/// Place of the residual, or one that is none.
Place residual_place(const Epilogue& epilogue, const Plan& plan);

/// For conv and gemm alike: gemm is a 1x1 convolution over an image of m x 1. Fails for what is not one of the two, has
/// groups, reads NCHW, or pools.
struct ImplicitGemm {
    kernels::ImplicitGemmParams params; ///< without addresses
    ElementType in = ElementType::f16, out = ElementType::f16, weight = ElementType::f16;
    Place input, output, residual;
    WeightId weight_id = none;
    Epilogue epilogue;
    bool gemm = false;
    bool pointwise() const; ///< 1x1, stride 1, no padding: a plain matrix product
    std::int64_t rows() const { return std::int64_t{params.n} * params.p * params.q; }
    /// The parameters with addresses.
    kernels::ImplicitGemmParams bound(const Pointers& pointers) const;
};
Result<ImplicitGemm> implicit_gemm(const FusedOp& op, const Plan& plan);
/// The same of a convolution in groups, whose kernels are fewer.
Result<ImplicitGemm> implicit_gemm_of_groups(const FusedOp& op, const Plan& plan);

Result<kernels::GemmParams> gemm_params(const FusedOp& op, const Plan& plan);
Result<kernels::AttentionParams> attention_params(const FusedOp& op, const Plan& plan);
Result<kernels::GatherParams> gather_params(const FusedOp& op, const Plan& plan);
Result<kernels::PointwiseParams> pointwise_params(const FusedOp& op, const Plan& plan);
kernels::SoftmaxParams softmax_params(const FusedOp& op, const Plan& plan);
kernels::LayerNormParams layer_norm_params(const FusedOp& op, const Plan& plan);
kernels::RecurrentParams recurrent_params(const FusedOp& op, const Plan& plan);
kernels::IndexedParams indexed_params(const FusedOp& op, const Plan& plan);

/// Setters of addresses for the structs above.
std::function<void(kernels::GemmParams&, const Pointers&)> gemm_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::AttentionParams&, const Pointers&)> attention_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::GatherParams&, const Pointers&)> gather_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::PointwiseParams&, const Pointers&)> pointwise_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::SoftmaxParams&, const Pointers&)> softmax_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::LayerNormParams&, const Pointers&)> layer_norm_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::RecurrentParams&, const Pointers&)> recurrent_setter(const FusedOp& op, const Plan& plan);
std::function<void(kernels::IndexedParams&, const Pointers&)> indexed_setter(const FusedOp& op, const Plan& plan);

Error cannot(const FusedOp& op, std::string why);
Error no_such_tactic(const std::string& provider, const std::string& id, const FusedOp& op);

} // namespace lathe::cuda
