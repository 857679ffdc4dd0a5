#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/json.hpp"

namespace lathe::report {

struct VerdictOptions {
    /// Largest loss of top-1 accuracy that is acceptable, in percentage points.
    double max_drop_points = 1.0;
};

/// What the evaluation says of an engine's loss of top-1 accuracy. With `point` the loss measured, [low, high] its 95 %
/// interval and `limit` the largest loss allowed (all in points, a loss being positive):
enum class Accuracy {
    not_measured,      ///< no evaluation of it
    reference,         ///< it is what the others are compared with
    within,            ///< high <= limit: the limit holds, and that is shown
    indistinguishable, ///< low <= 0 and high <= 2 limit: no loss can be seen, though the samples do not exclude one
                       ///< somewhat over the limit
    unproven,          ///< too few samples to say
    worse,             ///< low > 0 and point > limit: it loses more than allowed
};

/// What the benchmark says of an engine's speed against the FP32 engine, by the 95 % interval of the ratio.
enum class Speed {
    not_measured, ///< no timing of it, or no FP32 engine to compare with
    baseline,     ///< it is the FP32 engine
    faster,       ///< the whole interval is above 1
    same,         ///< the interval holds 1: no difference beyond noise
    slower,       ///< the whole interval is below 1
};

const char* to_string(Accuracy accuracy);
const char* to_string(Speed speed);

/// What was concluded about one engine.
struct Candidate {
    std::string name;
    std::string label; ///< "INT8"
    Accuracy accuracy = Accuracy::not_measured;
    Speed speed = Speed::not_measured;
    std::optional<double> loss_points; ///< measured loss (a gain is negative); absent where it was not judged
};

struct Verdict {
    std::string recommended; ///< subject's name; empty where the results do not support a choice
    std::string text;        ///< one line: "INT8: 1.85× FP32, 9.1× PyTorch eager, −0.1 pt top-1 ±0.4: use it"
    std::vector<std::string> reasons; ///< sentences, the weightiest first
    std::vector<Candidate> candidates;
    std::optional<double> batch; ///< batch size at which speed was judged
};

/// Judges bench and eval results (either may be null; fields that are missing count as not measured).
///
/// Candidates are the subjects of kind "engine". Speed is judged at the smallest batch size that all of them were timed
/// at, from the paired ratios where the benchmark has them and else from the medians' intervals (a wider, cautious
/// interval). A candidate is acceptable if its accuracy is `reference`, `within` or `indistinguishable` and it is
/// faster than FP32 beyond noise. The fastest acceptable one is recommended; where two of them are equal within noise,
/// the one of higher precision. If none is acceptable, FP32 is recommended. Without any evaluation a lower precision is
/// never recommended, only described. Evaluations without labels are judged by agreement with the reference: top-1
/// cannot fall by more than the share of samples whose class changed. Of questions and answers F1 takes top-1's place.
Verdict make_verdict(const Json* bench, const Json* eval, const VerdictOptions& options = {});

/// {"recommended", "text", "reasons", "batch", "max_drop_points", "candidates": [{"name", "accuracy", "speed"}]}.
Json to_json(const Verdict& verdict, const VerdictOptions& options = {});

} // namespace lathe::report
