#include "evaluate/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace lathe {

namespace {

/// ln P(Binomial(n, 1/2) = k)
double log_binomial_half(double n, double k) {
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + n * std::log(0.5);
}

} // namespace

Interval wilson_interval(std::size_t successes, std::size_t trials) {
    if (trials == 0) return {0, 1};
    const auto n = static_cast<double>(trials);
    const double p = static_cast<double>(successes) / n;
    const double z2 = z95 * z95;
    const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
    const double half = z95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    // At the ends the formula gives exactly 0 and 1 up to rounding.
    return {successes == 0 ? 0 : std::max(0.0, centre - half), successes == trials ? 1 : std::min(1.0, centre + half)};
}

void PairedOutcomes::add(bool reference_right, bool subject_right) {
    if (reference_right && subject_right)
        ++both_right;
    else if (reference_right)
        ++only_reference_right;
    else if (subject_right)
        ++only_subject_right;
    else
        ++both_wrong;
}

double PairedOutcomes::difference() const {
    if (total() == 0) return 0;
    return (static_cast<double>(only_subject_right) - static_cast<double>(only_reference_right)) /
           static_cast<double>(total());
}

McNemar mcnemar(const PairedOutcomes& outcomes) {
    const std::size_t smaller = std::min(outcomes.only_reference_right, outcomes.only_subject_right);
    const auto n = static_cast<double>(outcomes.only_reference_right + outcomes.only_subject_right);
    if (n == 0) return {};
    double tail = 0;
    for (std::size_t k = 0; k <= smaller; ++k)
        tail += std::exp(log_binomial_half(n, static_cast<double>(k)));
    const double at = std::exp(log_binomial_half(n, static_cast<double>(smaller)));
    return {std::min(1.0, 2 * tail), std::min(1.0, 2 * tail - at)};
}

Interval paired_difference_interval(const PairedOutcomes& outcomes) {
    const auto n = static_cast<double>(outcomes.total());
    if (n == 0) return {-1, 1};
    const auto a = static_cast<double>(outcomes.both_right);
    const auto b = static_cast<double>(outcomes.only_subject_right);
    const auto c = static_cast<double>(outcomes.only_reference_right);
    const auto d = static_cast<double>(outcomes.both_wrong);
    const double p1 = (a + b) / n;
    const double p2 = (a + c) / n;
    const Interval first = wilson_interval(outcomes.both_right + outcomes.only_subject_right, outcomes.total());
    const Interval second = wilson_interval(outcomes.both_right + outcomes.only_reference_right, outcomes.total());
    // The correlation of the two, with Newcombe's continuity correction where it is positive.
    const double margins = (a + b) * (c + d) * (a + c) * (b + d);
    double phi = 0;
    if (margins > 0) {
        const double determinant = a * d - b * c;
        phi = (determinant > 0 ? std::max(determinant - n / 2, 0.0) : determinant) / std::sqrt(margins);
    }
    const auto combine = [phi](double x, double y) {
        return std::sqrt(std::max(0.0, x * x - 2 * phi * x * y + y * y));
    };
    const double difference = p1 - p2;
    return {std::max(-1.0, difference - combine(p1 - first.low, second.high - p2)),
            std::min(1.0, difference + combine(first.high - p1, p2 - second.low))};
}

} // namespace lathe
