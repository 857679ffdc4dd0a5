#pragma once

#include <string>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// What writing to them would give, for the first that cannot be written; empty ones are not tried. Before long work.
Result<void> check_writable(const std::vector<std::string>& paths);

} // namespace lathe
