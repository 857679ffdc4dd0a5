#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// How often a pass rewrote something.
struct PassCount {
    std::string name;
    std::size_t changes = 0; ///< rewrites in all rounds
};

/// What simplifying did.
struct SimplifyReport {
    std::size_t before_nodes = 0; ///< subgraphs included
    std::size_t after_nodes = 0;
    std::size_t before_initializers = 0;
    std::size_t after_initializers = 0;
    std::size_t rounds = 0;
    std::vector<PassCount> passes; ///< in the order run; 0 changes included
    std::size_t samples = 0;       ///< sets of inputs compared; 0 if nothing changed
    /// Worst difference found, relative to the largest magnitude of the output on the original.
    double max_error = 0;
    std::vector<std::string> warnings;
};

struct SimplifyRequest {
    std::vector<std::string> disabled = {}; ///< passes not to run, by name (see `lathe simplify --list-passes`)
    std::string device = "cpu";             ///< what it is simplified for: "cpu", "cuda" or "tensorrt"
    std::size_t samples = 3;                ///< sets of random inputs to verify on, at least 1
    std::uint64_t seed = 1;                 ///< of the random inputs
    double tolerance = 1e-3;                ///< largest difference allowed, as `SimplifyReport::max_error`
    Progress* progress = nullptr;           ///< nullptr: silent
};

/// Fold constants, BatchNormalization and shape arithmetic, and remove what does nothing. The result is run against the
/// original on the CPU with random inputs; on any failure the model is as it was.
/// Errors: verification_failed (naming the pass), invalid_argument (an unknown pass or device), unsupported (the CPU
/// backend cannot run the model), cancelled.
LATHE_API Result<SimplifyReport> simplify(Model& model, const SimplifyRequest& request = {});

} // namespace lathe
