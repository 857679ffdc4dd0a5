#pragma once

#include <string_view>

namespace lathe::report {

/// A file of assets/ (or chart.min.js) as embedded at build time; empty for a name there is not.
std::string_view asset(std::string_view name);

} // namespace lathe::report
