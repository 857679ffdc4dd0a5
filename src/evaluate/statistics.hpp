#pragma once

#include <cstddef>

#include "bench/statistics.hpp"

namespace lathe {

/// Quantile 0.975 of the normal distribution.
inline constexpr double z95 = 1.959963984540054;

/// Wilson's score interval, 95 %, for `successes` of `trials` (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927).
/// 0..1 for no trials.
Interval wilson_interval(std::size_t successes, std::size_t trials);

/// Two classifiers on the same samples: how often each was right.
struct PairedOutcomes {
    std::size_t both_right = 0;
    std::size_t only_reference_right = 0;
    std::size_t only_subject_right = 0;
    std::size_t both_wrong = 0;
    std::size_t total() const { return both_right + only_reference_right + only_subject_right + both_wrong; }
    void add(bool reference_right, bool subject_right);
    /// Subject's share of right answers minus the reference's; 0 for no samples.
    double difference() const;
};

/// McNemar's test that both are right equally often. Only the discordant samples tell: under the hypothesis the
/// smaller count follows Binomial(n, 1/2).
struct McNemar {
    double p_exact = 1; ///< two-sided exact conditional test; never above its nominal level
    double p_mid = 1;   ///< mid-p: closer to the nominal level (Fagerland, Lydersen, Laake, BMC Med Res Methodol 2013)
};
McNemar mcnemar(const PairedOutcomes& outcomes);

/// 95 % interval of the difference of the two shares (subject minus reference), for paired samples: Newcombe's hybrid
/// score interval, method 10 (R. G. Newcombe, Statistics in Medicine 17, 1998, 2635-2650). -1..1 for no samples.
Interval paired_difference_interval(const PairedOutcomes& outcomes);

} // namespace lathe
