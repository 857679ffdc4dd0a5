#pragma once

#include <filesystem>
#include <vector>

#include "lathe/optimize.hpp"
#include "support/json.hpp"

namespace lathe {

/// A row for each latency in the bench document, with what the eval document (null: none) says of its engine. `folder`
/// holds the engines.
std::vector<OptimizedRow> optimized_rows(const Json& bench, const Json& eval, const std::filesystem::path& folder);

} // namespace lathe
