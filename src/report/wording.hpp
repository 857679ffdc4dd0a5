#pragma once

#include <string>
#include <vector>

#include "report/verdict.hpp"

namespace lathe::report {

/// Numbers as the verdict's sentences write them.

/// Fixed decimals; -1: as few as show the value ("1", "0.5").
std::string decimals(double value, int places);
/// Three significant digits: "1.85", "23.1", "104".
std::string factor(double value);
/// A factor for a headline: "1.85×" below 2, "9.1×" below 10, "23×" above.
std::string times(double factor);
/// Three significant digits and the unit: "1.72 ms", "452 ms".
std::string milliseconds(double value);
/// A share as "87.80 %".
std::string percent(double share);
/// Signed percentage points with a real minus sign: "−0.10", "+0.20", "0.00".
std::string points(double value);
/// A count with thousands separated: "5,000".
std::string count(double value);
std::string join(const std::vector<std::string>& parts, const std::string& separator);

/// "within the 1 pt allowed", "no loss seen, ...", as a part of a sentence.
std::string accuracy_phrase(Accuracy accuracy, const std::string& reference, double limit_points);

} // namespace lathe::report
