#include "bench/settle.hpp"

#include <algorithm>

namespace lathe {

bool SteadyDetector::add(double burst_median) {
    ++bursts_;
    const bool gained = bursts_ == 1 || burst_median < best_ * (1 - gain_);
    best_ = bursts_ == 1 ? burst_median : std::min(best_, burst_median);
    without_gain_ = gained ? 0 : without_gain_ + 1;
    return without_gain_ >= 2;
}

void Samples::add(std::span<const double> burst) {
    if (burst.empty()) return;
    calls_.insert(calls_.end(), burst.begin(), burst.end());
    std::vector<double> sorted(burst.begin(), burst.end());
    std::sort(sorted.begin(), sorted.end());
    burst_medians_.push_back(quantile(sorted, 0.5));
}

Summary Samples::summary() const {
    Summary all = summarize(calls_);
    const Summary bursts = summarize(burst_medians_);
    if (bursts.count > 0) {
        all.ci95 = {std::min(all.ci95.low, bursts.ci95.low), std::max(all.ci95.high, bursts.ci95.high)};
    }
    all.ci95_covered = all.ci95_covered && bursts.ci95_covered;
    return all;
}

double Samples::percentile(double percent) const {
    std::vector<double> sorted = calls_;
    std::sort(sorted.begin(), sorted.end());
    return quantile(sorted, percent / 100);
}

bool Samples::settled(const SteadyRule& rule) const {
    return burst_medians_.size() >= rule.min_rounds && calls_.size() >= rule.min_calls &&
           summary().relative_half_width() <= rule.relative_half_width;
}

} // namespace lathe
