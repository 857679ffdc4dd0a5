#pragma once

#include <chrono>
#include <string>

namespace lathe {

/// Now, in UTC, as ISO 8601 to the second: "2026-01-31T12:00:00Z".
std::string utc_now();

/// Seconds of the steady clock since its own start.
double steady_seconds();
/// Seconds of the steady clock from `start` to now.
double seconds_since(std::chrono::steady_clock::time_point start);

} // namespace lathe
