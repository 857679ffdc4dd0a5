#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "evaluate/fidelity.hpp"
#include "evaluate/output_groups.hpp"
#include "evaluate/task_judge.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// By what a layer's damage is told.
enum class DamageMetric { sqnr, kl, agreement, top1, task };
const char* to_string(DamageMetric metric);
/// invalid_argument, with the names that exist, for any other text.
Result<DamageMetric> damage_metric_from_name(std::string_view name);

/// One sample of an output beside the first.
struct OtherOutput {
    std::span<const float> reference;
    std::span<const float> subject; ///< of equal length
    const OutputGroups* groups = nullptr;
    double scale = 1; ///< of its squares, so that all outputs weigh alike
};

/// How far outputs with something quantised are from those in float, summed over samples in float64. Plain sums, so
/// that what was summed before an interruption can be kept and added to.
struct Score {
    std::uint64_t samples = 0;   ///< compared
    std::uint64_t nonfinite = 0; ///< of them, with a NaN or infinity: in no other figure, and counted as wrong
    std::uint64_t agree = 0;     ///< whose likeliest class is the same
    std::uint64_t labelled = 0;
    std::uint64_t right = 0;           ///< of the labelled, the subject
    std::uint64_t reference_right = 0; ///< of the labelled, the float model
    double soft_right = 0;             ///< `right`, smoothed; see soft_top1_drop
    double soft_reference_right = 0;   ///< `reference_right`, smoothed
    double kl = 0;                     ///< nats, of all samples together
    double signal = 0;                 ///< squares of the float outputs, each group's in its own scale
    double noise = 0;                  ///< squares of the differences, likewise
    /// `kl` and `noise` of every 16th sample from this one on: how much of a difference between two scores of the same
    /// samples is chance shows in how much the parts differ.
    static constexpr std::size_t parts = 16;
    std::array<double, parts> part_kl{};
    std::array<double, parts> part_noise{};
    std::optional<TaskScore> task; ///< of all samples together; absent where no task judges

    /// One sample's outputs, of equal length; label -1 where unknown. `groups`: the same for every sample; each of
    /// several weighs alike in signal and noise, whatever its size and number. `others` add to signal and noise alone,
    /// the first output's times `scale`.
    void add(std::span<const float> reference, std::span<const float> subject, std::int64_t label, OutputKind kind,
             const OutputGroups& groups = {}, std::span<const OtherOutput> others = {}, double scale = 1);

    double mean_kl() const;
    double sqnr_db() const; ///< infinite where there is no noise
    double agreement() const;
    double top1_drop() const; ///< share of right answers lost; negative: won. 0 without labels
    /// The same with far less noise. What small perturbations do to the top-1 of a few hundred samples is mostly
    /// chance: samples near a border between classes fall to either side. So each sample counts as right by
    /// sigmoid(margin), the margin being the label's logit (or log probability) minus the largest of the others,
    /// instead of by 0 or 1. As long as margins are spread evenly within about 1 of the border, the expected loss is
    /// the same.
    double soft_top1_drop() const;
    /// Never negative, 0 for none, and of several layers about the sum: mean KL, noise over signal, share of classes
    /// changed, share of right answers lost, what the task's metric loses. Beyond all of them where no sample is
    /// finite.
    double damage(DamageMetric metric) const;
};

/// The sums themselves, exactly; and back. Errors: corrupt.
Json sums_to_json(const Score& score);
Result<Score> score_from_json(const Json& json);
/// {"samples", "sqnr_db" (null: infinite), "mean_kl", "agreement", "top1", "top1_delta" (both null without labels),
/// ...}
Json to_json(const Score& score);

} // namespace lathe
