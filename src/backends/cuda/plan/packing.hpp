#pragma once

#include <string>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// A float's bits in hex, for keys.
std::string bits_of(float value);
/// Floats rounded once to `type`. unsupported where a finite number overflows FP16.
Result<std::vector<std::byte>> converted(const std::vector<float>& values, ElementType type, const std::string& name);

} // namespace lathe::cuda
