#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/statistics.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "sensitivity/score.hpp"
#include "support/json.hpp"

namespace lathe {

/// A precision for every layer: INT8 where its flag is set, `base` for the others and for all that is no layer.
struct Mix {
    Precision base = Precision::float32;
    std::vector<bool> int8; ///< one a layer that can be quantised, in graph order

    bool operator==(const Mix&) const = default;
    std::size_t int8_layers() const;
    bool any_int8() const { return int8_layers() > 0; }
    /// "fp32:0110", for the journal.
    std::string key() const;
    /// "INT8, 3 layers FP32", "BF16", for people.
    std::string name() const;

    static Mix all_float(Precision base, std::size_t layers) { return {base, std::vector<bool>(layers, false)}; }
    static Mix all_int8(Precision base, std::size_t layers) { return {base, std::vector<bool>(layers, true)}; }
};
Result<Mix> mix_from_key(const std::string& key);

/// How fast an engine of a mix is.
struct Timing {
    double latency_ms = 0;
    double speedup = 1; ///< over the FP32 engine
    Interval speedup_ci95{1, 1};
    bool noisy = false;
};

/// What was measured of one mix, on an engine that was built.
struct Trial : Timing {
    Mix mix;
    std::string phase;              ///< why it was tried: "float", "int8", "prefix", "base", "tighten", "polish"
    std::string failed;             ///< why it cannot be built here; then there are no figures
    Score score;                    ///< against the FP32 engine, on the part of the data that the search sees
    std::optional<Timing> as_tried; ///< the trial's own, where its engine was timed again since
    double seconds = 0;             ///< what the trial took
};
Json to_json(const Trial& trial);
/// Errors: corrupt.
Result<Trial> trial_from_json(const Json& json);

/// What is lost against FP32, as the search sees it, in the metric's unit: top1 (smoothed, see Score::soft_top1_drop)
/// agreement and task in percentage points, kl in nats, sqnr as noise over signal in percent.
double drop_of(const Score& score, DamageMetric metric);
const char* drop_unit(DamageMetric metric);

/// By what mixes and layers are ranked where `limit` says how much may be lost. sqnr: itself, for outputs whose values
/// count (embeddings, hidden states), which a softmax over features would not judge. kl: itself. top1 and agreement:
/// KL, since a count of answers is too coarse to rank by: of 200 samples one is 0.5 points, a layer by itself changes
/// none or two, and which of two mixes changes fewer is chance. KL moves with every sample's probabilities, and is
/// small where few answers change. task: itself, by the float network's own answers (TaskScore::unlikeness), which
/// every sample has and a truth's chance does not blur.
DamageMetric ranking_metric(DamageMetric limit);
/// What a mix or a layer by itself loses, as it is ranked: KL in nats, or noise over signal. Never negative, about
/// additive over layers; 0 for none. By a task, 1 minus its metric against the float network's answers.
double loss_of(const Score& score, DamageMetric limit);
/// Whether `one` loses less than `other`, of the same samples, beyond the chance of which samples these are: their
/// difference is over its one-sided 95 % point, by Student's t over Score::parts parts of the samples.
bool loses_surely_less(const Score& one, const Score& other, DamageMetric limit);
/// What loss_of tells, of one layer in a result of `lathe sensitivity`. Errors: parse_error (it lacks the figure).
Result<double> loss_from_json(const Json& layer, DamageMetric limit);
/// What loss_of tells, in a word or two: "KL", "noise/signal".
const char* loss_name(DamageMetric limit);

} // namespace lathe
