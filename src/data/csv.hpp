#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Rows of comma-separated text (RFC 4180: quoted fields, doubled quotes, CRLF or LF). Empty lines are left out; a
/// byte order mark is skipped. Error: parse_error for a quote that does not end, naming the line.
Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text, std::string_view where);

} // namespace lathe
