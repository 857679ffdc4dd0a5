#pragma once

#include "api/simplify.hpp"
#include "support/json.hpp"

namespace lathe::cli {

/// {"before_nodes", "after_nodes", "passes": [{"name", "changes"}], ...}: "simplify" in the optimize document.
Json to_json(const SimplifyReport& report);

} // namespace lathe::cli
