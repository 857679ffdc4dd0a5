#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/simplify.hpp"
#include "passes/pass.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Inputs in the order of a model's graph inputs (those with a default left out), or outputs in that of its outputs.
using TensorSet = std::vector<HostTensor>;
/// Runs a model in float32 on sets of inputs of the same shapes, and returns the outputs of each.
using Runner = std::function<Result<std::vector<TensorSet>>(const Model&, std::span<const TensorSet>)>;

struct SimplifyOptions {
    std::vector<std::string> disabled;                   ///< names of passes not to run
    bool for_gpus = false;                               ///< without the passes that pay on CPUs alone
    std::size_t fold_limit_bytes = std::size_t{1} << 20; ///< see PassContext
    std::size_t max_rounds = max_pass_rounds;
    std::size_t samples = 3; ///< sets of random inputs to verify on, at least 1
    std::uint64_t seed = 1;  ///< of the random inputs
    /// Largest difference allowed, relative to the largest magnitude of the output (on the original). float16 outputs
    /// are allowed 16 times as much; networks that quantise inside 20 times, since a value that falls to the other side
    /// of a rounding moves by a whole step.
    double tolerance = 1e-3;
    /// Of running the model and the result to verify; 0: none. One set is always compared; the others only where they
    /// have room, by how long the first took. `SimplifyReport::samples` says how many were.
    double time_limit_s = 0;
    /// Called after each pass that changed something, with a running number from 1.
    std::function<Result<void>(std::size_t step, std::string_view pass, const Model&)> dump;
    std::span<const Pass> passes; ///< empty: all_passes()
    Progress* progress = nullptr; ///< nullptr: silent
};

/// Run the passes to a fixed point and check that the result computes what the original does, on random inputs. On
/// failure the model is as it was. Errors: verification_failed naming the pass that changed a result (found by
/// bisection over the models after each pass), invalid_argument for an unknown pass name or a missing runner, and
/// what the runner returns.
Result<SimplifyReport> simplify(Model& model, const SimplifyOptions& options, const Runner& run,
                                const ShapeInference& infer_shapes);

} // namespace lathe
