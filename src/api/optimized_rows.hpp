#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "lathe/optimize.hpp"
#include "support/json.hpp"

namespace lathe {

/// The figure with its interval; its value alone where there is none.
std::optional<Measured> measured(const Json& object, const char* key, const char* interval_key);

/// A row for each latency in the bench document, with what the eval document (null: none) says of its engine. `folder`
/// holds the engines.
std::vector<OptimizedRow> optimized_rows(const Json& bench, const Json& eval, const std::filesystem::path& folder);

} // namespace lathe
