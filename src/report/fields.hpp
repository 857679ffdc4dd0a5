#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/json.hpp"

namespace lathe::report {

/// Reading result files without surprises: a field that is missing, null or of another type is simply absent.

/// The member, or null if `object` is no object or lacks it.
const Json* member(const Json& object, std::string_view key);
/// A finite number, or nothing.
std::optional<double> number(const Json& object, std::string_view key);
/// A string, or "".
std::string text(const Json& object, std::string_view key);
/// True only for the JSON value true.
bool flag(const Json& object, std::string_view key);
/// An array of two finite numbers in rising order, or nothing.
std::optional<std::pair<double, double>> interval(const Json& object, std::string_view key);
/// The array, or an empty one.
const Json& items(const Json& object, std::string_view key);
/// The first item of `array` whose `key` is `value`, or null.
const Json* find_item(const Json& array, std::string_view key, std::string_view value);

/// How a person calls a subject: "INT8" for the only INT8 engine, "PyTorch eager" for kind pytorch in FP32, "OpenVINO
/// INT8", and so on; its own name where that would be ambiguous. `subjects` is the list it stands in.
std::string subject_label(const Json& subjects, std::string_view name);

} // namespace lathe::report
