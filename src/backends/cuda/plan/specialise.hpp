#pragma once

#include <vector>

#include "backends/cuda/plan/lower.hpp"

namespace lathe::cuda {

/// Metadata key of a prepared model: how many of its graph inputs are the user's (large initializers come after them).
inline constexpr const char* inputs_key = "lathe.cuda.inputs";
Result<std::size_t> input_count(const Model& model);

/// Metadata key, with a large initializer's name behind it: along how many leading axes it only repeats itself.
inline constexpr const char* repeats_prefix = "lathe.cuda.repeats.";
/// That number for a tensor; axes of size 1 count.
std::size_t repeated_axes(const Tensor& tensor);

/// The prepared model for these shapes of the user's inputs, with every shape known and what then is constant folded.
/// Errors: invalid_argument for the number of shapes, out_of_range where they do not fit the model, each other, or
/// where a shape depends on data, unless such shapes are `left` open.
enum class OpenShapes { refused, left };
Result<Model> specialise(const Prepared& prepared, const std::vector<Shape>& shapes,
                         OpenShapes open = OpenShapes::refused);

} // namespace lathe::cuda
