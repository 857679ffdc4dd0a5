#pragma once
// Inputs whose values decide shapes (sizes of a Resize, the target of a Reshape, a Loop's rounds): a plan is for fixed
// values of them, as it is for fixed shapes. A model's metadata holds the values that an engine is built for, under
// `value_prefix` and the input's name, as text ("1,3,10,10"); a session makes further plans for others.

#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

inline constexpr const char* value_prefix = "lathe.value.";
/// An input with more numbers decides nothing: each of its values would be a plan.
inline constexpr std::int64_t most_values = 64;

/// Inputs of the graph that decide shapes or control flow: integers, truth values, and floats where an operator takes
/// those (scales of Resize, Range, thresholds of NonMaxSuppression), of at most one dimension.
std::vector<std::string> deciding_inputs(const lathe::Graph& graph);

/// A tensor's numbers as text that `apply_values` reads without loss. "" for types that decide nothing.
std::string value_text(const Tensor& tensor);

/// Values by input name, as text.
using InputValues = std::map<std::string, std::string>;
void set_values(Model& model, const InputValues& values);

/// What reads an input whose value is given reads a constant instead; the input stays, unread. The sizes of inputs are
/// fixed. Errors: invalid_argument naming an input of which a value is given that is no number of its type, or that has
/// another number of elements.
Result<void> apply_values(Model& model);

} // namespace lathe::cuda
