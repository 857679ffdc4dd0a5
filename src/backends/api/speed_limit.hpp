#pragma once

#include <string>
#include <vector>

#include "lathe/engine_types.hpp"

namespace lathe {

/// How far a network, at one of the shapes that it was tuned for, is from what the machine allows.
struct ShapeLimit {
    /// One of its operations.
    struct Beyond {
        std::string name;
        double us = 0;       ///< of the chosen kernel
        double limit_us = 0; ///< at least needed
    };
    std::string shape;
    double us = 0;                 ///< sum of the chosen kernels' times
    double limit_us = 0;           ///< sum of the operations' limits ("speed of light"); 0: not known
    double reference_us = 0;       ///< of `us`, in reference kernels
    std::vector<Beyond> beyond;    ///< operations by the time beyond their limit, most first
    std::vector<Beyond> reference; ///< those that reference kernels run, slowest first
};

/// For each shape of the report, in its order; empty where nothing was timed.
std::vector<ShapeLimit> limits_by_shape(const BuildReport& report);

/// "speed of light 0.412 ms, reached 54 % (0.763 ms); most beyond it: conv1 +120.0 us, ..." with up to `most`
/// operations.
std::string describe(const ShapeLimit& limit, std::size_t most = 5);

/// The chosen candidate of an operation, or nullptr.
const TacticTiming* chosen_of(const BuildReport::Op& op);

} // namespace lathe
