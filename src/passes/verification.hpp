#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Random inputs for each graph input without a default. Set 0 is normal(0, 1), set 1 uniform in [0, 1), later ones
/// uniform in [-3, 3). Integers that index a constant table stay within it; other integers are 0 or 1, uint8 and int8
/// use their whole range, booleans are either. Symbols and unknown dimensions get small sizes: 2 for the first axis,
/// 64 for the last two of four, else 16; equal symbols equal sizes. Same seed and set, same inputs.
Result<std::vector<HostTensor>> random_inputs(const Model& model, std::uint64_t seed, std::size_t set);

struct Difference {
    double relative = 0; ///< largest absolute difference over largest magnitude; infinite if they cannot be compared
    std::string output;  ///< where
    std::string problem; ///< why they cannot be compared; empty if they can
    bool nothing_finite = false; ///< an output of the reference has no finite element: nothing was checked
};

/// Compare outputs. Floating-point: NaN and infinities must be at the same places. Integers and booleans: `relative`
/// is the share of elements that differ, so that an ArgMax may tip over rarely.
Difference compare_outputs(std::span<const HostTensor> expected, std::span<const HostTensor> actual);

} // namespace lathe
