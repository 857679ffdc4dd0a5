#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// Keeps bytes under a key, as Lowering::store does: `make` is asked where the key is new.
using StoreComputed = std::function<Result<WeightId>(const std::string& key, ElementType type, const Shape& dims,
                                                     const std::function<Result<std::vector<std::byte>>()>& make)>;

/// What depends on constants alone (positions, masks of windows, tables that are picked from and turned) is computed
/// now and stored, up to a size; products and convolutions are not. Their operations read nothing that is asked for any
/// more: Lowering::remove_unread drops them.
Result<void> compute_constants(Plan& plan, const StoreComputed& store);

} // namespace lathe::cuda
