#pragma once

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What a model must not ask for before a runtime is given it, since runtimes do not check it and crash, or take all
/// memory, or give numbers that mean nothing: division of integers by a constant 0, or of the least by -1; an axis far
/// beyond a value's rank; a constant index outside of its axis; TopK of more values than there are;
/// a Split into sizes that are not its axis; negative sizes; inputs too few or too many, or integers of a type that
/// ONNX does not define the operator for; a value of more than memory_limit() bytes, or more than folding_limit()
/// computed from constants alone. Errors: parse_error, out_of_memory, naming the node.
Result<void> check_preconditions(const Model& model);

/// Says in the log which weights hold NaN or infinity: a model computes with them, but seldom what was meant.
void warn_about_nonfinite(const Model& model);

} // namespace lathe
