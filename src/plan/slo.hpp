#pragma once

#include <string>
#include <string_view>

#include "lathe/result.hpp"

namespace lathe {

/// What a service promises: the quantile of its latency stays within the limit.
struct Slo {
    double quantile = 0.99; ///< 0.5 to 0.9999
    double limit_ms = 0;
    std::string name() const; ///< "p99", "p99.9"
};

/// "p99=20ms", "p99.9=1s", "p50=800us". Errors: invalid_argument.
Result<Slo> parse_slo(std::string_view text);
/// "1500/s", "90000/min", "1e6/h", "1500": requests a second. Errors: invalid_argument.
Result<double> parse_rate(std::string_view text);
/// "2ms", "500us", "0.5s", "0": milliseconds, 0 or more. Errors: invalid_argument.
Result<double> parse_milliseconds(std::string_view text);

} // namespace lathe
