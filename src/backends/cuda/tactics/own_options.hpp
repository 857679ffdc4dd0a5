#pragma once
// Options of provider "lathe": own.cpp collects them, own_direct.cpp adds those of image networks' light layers.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

/// A kernel and variant. The closure prepares it.
struct Option {
    std::string id;
    double cost = 0; ///< to sort by; any unit
    std::function<std::unique_ptr<PreparedKernel>()> make;
};

/// An option whose launch takes one struct: `set` fills in addresses.
template <class Params, class Set, class LaunchFunction>
Option make_option(const FusedOp& op, bool waits, std::string id, double cost, const Params& params, Set set,
                   LaunchFunction launch) {
    std::string name = "lathe " + id + " for " + op.name;
    return {std::move(id), cost, [name = std::move(name), params, set, launch, waits] {
                return make_kernel(name, 0, waits, [params, set, launch](const Pointers& pointers) -> Result<Launch> {
                    Params bound = params;
                    set(bound, pointers);
                    return Launch([bound, launch](cudaStream_t stream, bool programmatic) {
                        return launch(bound, stream, programmatic);
                    });
                });
            }};
}

/// A tile of kernels/implicit_gemm_mma.cuh for a product, with its guessed time in clock cycles.
struct MmaTile {
    int tile = 0, split = 1;
    double cost = 0;
    std::string id;
};
/// Every tile and split that makes sense; tf32: f32 products may be rounded.
std::vector<MmaTile> mma_tiles_for(const ImplicitGemm& gemm, bool tf32, const Device& device);

/// Each adds its options for `op` and returns why there are none, or nothing.
std::string stem_options(const FusedOp& op, const Conv& conv, const Plan& plan, const Device& device,
                         std::vector<Option>& options);
std::string depthwise_options(const FusedOp& op, const Depthwise& detail, const Plan& plan, const Device& device,
                              std::vector<Option>& options);
/// Convolutions in groups, or without that the implicit GEMM refuses.
std::string grouped_options(const FusedOp& op, const Conv& conv, const Plan& plan, const Device& device,
                            std::vector<Option>& options);
/// Lines whose threads work together, and sampled images.
std::string indexed_options(const FusedOp& op, const Plan& plan, const Device& device, std::vector<Option>& options);
/// Recurrent cells of many samples.
std::string recurrent_options(const FusedOp& op, const Plan& plan, const Device& device, std::vector<Option>& options);
/// Indexed of kind depth_taps.
std::string depth_taps_options(const FusedOp& op, const Plan& plan, std::vector<Option>& options, bool waits);
/// Squeeze and excite.
std::string squeeze_options(const FusedOp& op, const Chain& chain, const Plan& plan, const Device& device,
                            std::vector<Option>& options);
/// 1x1 convolutions of few input channels.
void pointwise_mma_options(const FusedOp& op, const ImplicitGemm& gemm, const Device& device,
                           std::vector<Option>& options);

} // namespace lathe::cuda
