#pragma once

#include <string>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe::report {

/// Checks that `json` is a result of a kind the report knows (optimize, bench, eval, layers, calibration, quantize,
/// simplify, sensitivity, tune), of version 1, and that every field the report reads has the type it must have; null
/// counts as absent, unknown fields are ignored. Returns the kind. `name` is the file, for the error: parse_error where
/// fields are wrong, unsupported for another version or kind.
Result<std::string> validate_result(const Json& json, const std::string& name);

} // namespace lathe::report
