#include "report/wording.hpp"

#include <cmath>
#include <cstdio>

namespace lathe::report {

std::string decimals(double value, int places) {
    char buffer[64];
    if (places < 0) {
        std::snprintf(buffer, sizeof buffer, "%.6g", value);
    } else {
        std::snprintf(buffer, sizeof buffer, "%.*f", places, value);
    }
    return buffer;
}

std::string times(double factor) {
    const int places = factor < 1.995 ? 2 : factor < 9.95 ? 1 : 0;
    return decimals(factor, places) + "×";
}

std::string factor(double value) { return decimals(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0); }

std::string milliseconds(double value) {
    const int places = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    if (value > 0.0 && value < 0.1) return decimals(value * 1000.0, value < 0.00995 ? 2 : 1) + " µs";
    return decimals(value, places) + " ms";
}

std::string percent(double share) { return decimals(share * 100.0, 2) + " %"; }

std::string points(double value) {
    std::string digits = decimals(std::fabs(value), 2);
    if (digits == "0.00") return digits;
    return (value < 0.0 ? "−" : "+") + digits;
}

std::string count(double value) {
    std::string digits = decimals(value, 0);
    for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
        if (digits[static_cast<std::size_t>(at) - 1] != '-') digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
}

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
    std::string text;
    for (const std::string& part : parts)
        text += (text.empty() ? "" : separator) + part;
    return text;
}

std::string accuracy_phrase(Accuracy accuracy, const std::string& reference, double limit_points) {
    const std::string limit = "the " + decimals(limit_points, -1) + " pt allowed";
    switch (accuracy) {
        case Accuracy::within: return "within " + limit;
        case Accuracy::indistinguishable:
            return "not distinguishable from " + reference +
                   ", though the samples are too few to exclude a loss of a "
                   "little over " +
                   limit;
        case Accuracy::unproven: return "too few samples to show that it stays within " + limit;
        case Accuracy::worse: return "a loss of more than " + limit;
        case Accuracy::reference: return "the reference";
        case Accuracy::not_measured: return "not measured";
    }
    return "not measured";
}

} // namespace lathe::report
