#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// For each view the index of the input it is for: by its name if it has one, else by its place.
/// Errors: invalid_argument for a wrong count, an unknown name, an input given twice.
Result<std::vector<std::size_t>> match_inputs(const std::vector<IoInfo>& inputs, std::span<const TensorView> views);

} // namespace lathe
