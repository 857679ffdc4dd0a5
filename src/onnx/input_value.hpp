#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Make inputs constants: "NAME=VALUE", or as many values as the input has elements, separated by commas; true and
/// false for bool. They are no inputs any more. Value infos are inferred anew; the model is unchanged on failure.
/// Errors: invalid_argument (no such input, no number of its type, another count), unsupported (open sizes).
Result<void> set_input_constants(Model& model, const std::vector<std::string>& constants);

} // namespace lathe
