#pragma once

#include <string>

namespace lathe {

/// Now, in UTC, as ISO 8601 to the second: "2026-01-31T12:00:00Z".
std::string utc_now();

} // namespace lathe
