#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "calibrate/collect.hpp"
#include "calibrate/ranges_file.hpp"
#include "data/dataset.hpp"
#include "lathe/calibrate.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

/// When to stop reading samples: as soon as a round of them, as many as were read before, would have been quantised
/// about as well with the ranges from before it.
///
/// Rounds end at 16, 32, 64, 128, ... samples. Let B be what a round saw of a tensor, r the range that the method found
/// before it and r' the one after it. Relative quantisation noise of B under a range is
///   e(r) = (sum over B of (x - q_r(x))^2) / (sum over B of x^2)
/// in closed form over the histogram (QuantizationError): rounding and clipping together. Over the tensors t
///   noise_change = sum_t |e_t(r_t) - e_t(r'_t)| / sum_t e_t(r'_t)
///   worst_change = max_t |e_t(r_t) - e_t(r'_t)| / max(e_t(r'_t), mean of e(r') over the tensors)
/// The sum stands for the noise that reaches the output, to which the layers add up; a tensor that is quieter than the
/// average is measured by the average, since its own noise does not matter. Both are taken for unsigned and for signed
/// 8 bits, and the greater counts.
///
/// For a tensor whose whole range is kept, whose extremes never stop growing, only what r clips of B counts:
/// e(r) - e(r') is then (sum over B of (x - clamp(x))^2) / (sum over B of x^2).
///
/// B was not seen when r was found, so noise_change is what reading on has just gained. It is no bound: what is still
/// to be gained was 0.7 to 4.3 % on three networks, against the ranges of 300 samples (docs/notes/01-calibration.md),
/// and 15 % where tensors hold 2,000 values a sample. What fewer than about one in ten samples hold may be missed
/// by 32.
struct SettleRule {
    std::size_t first_round = 16;  ///< samples; twice as many are read at least
    double noise_tolerance = 0.05; ///< of noise_change: 0.2 dB
    double worst_tolerance = 1.0;  ///< of worst_change: 3 dB, the noise twice as large
    /// Tensors whose whole range is kept whatever the method (ScaleGroup::whole_range).
    std::set<std::string> whole_ranges;
};

/// One round's noise_change, worst_change and worst_tensor. `before`, `fresh` (the round's own histograms) and `after`
/// hold the same tensors in the same order.
CalibrationRound judge_round(const RangesFile& before, std::span<const TensorStatistics> fresh, const RangesFile& after,
                             const SettleRule& rule, std::size_t threads = 0);

/// The rounds themselves, which know neither who runs the model nor where: says how many samples to read next, and is
/// told what was seen of them.
class SettlingRounds {
public:
    /// `available` samples at most; rounds end at multiples of `whole` samples.
    SettlingRounds(RangesKey key, std::size_t available, std::size_t whole, Method method,
                   const EstimateOptions& options, SettleRule rule, std::size_t threads);

    /// Of the round that comes next; 0: the ranges have settled, or all were read.
    std::size_t next() const;
    /// The round's own histograms, of as many samples as `next` said. Fewer: the data ended early; none: no more come.
    void add(std::span<const TensorStatistics> fresh, std::size_t samples);
    std::size_t seen() const { return ranges_.samples_seen; }
    /// The ranges of all that was added, with `convergence`.
    RangesFile take();

private:
    std::size_t rounded(std::size_t samples) const { return (samples + whole_ - 1) / whole_ * whole_; }

    std::size_t available_;
    std::size_t whole_;
    Method method_;
    EstimateOptions options_;
    SettleRule rule_;
    std::size_t threads_;
    std::size_t end_; ///< where the next round ends
    bool dry_ = false;
    RangesFile ranges_;
    CalibrationConvergence convergence_;
};

struct SettledRanges {
    RangesFile ranges; ///< with `convergence`; without findings about the activations
    double inference_seconds = 0.0;
    double histogram_seconds = 0.0;
};

/// Reads the dataset in rounds until the ranges stand still, or to its end (`collecting.samples` at most). The dataset
/// should be in scattered order. The result depends neither on batch size nor on threads; where the batch is fixed
/// (`collecting.whole_batches`), rounds end with a batch. Errors: as collect.
Result<SettledRanges> read_until_settled(ActivationSource& source, Dataset& dataset, const CollectOptions& collecting,
                                         RangesKey key, Method method, const EstimateOptions& options,
                                         const SettleRule& rule, Progress& progress = no_progress());

/// "32 of 300 samples; the last 16 changed the quantisation noise by 0.8 %, by 4.1 % at most (conv1)".
std::string describe(const CalibrationConvergence& convergence);
/// {"available", "settled", "rounds": [{"samples", "fresh", "noise_change", "worst_change", "worst_tensor"}, ...]}
Json to_json(const CalibrationConvergence& convergence);

} // namespace lathe
