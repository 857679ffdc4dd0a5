#pragma once

#include <string>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Refuses outputs that are one of the inputs, also by a link of either kind, through a model's external data or as a
/// picture in a folder of them. Inputs may be empty or not there. Nothing is written. Errors: invalid_argument.
Result<void> refuse_lost_inputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

} // namespace lathe
