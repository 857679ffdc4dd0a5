#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "mix/mix.hpp"

namespace lathe {

/// Builds engines of mixes and measures them; a double of it in tests.
class MixWorkshop {
public:
    virtual ~MixWorkshop() = default;
    /// Builds the mix, compares it with the FP32 engine on the search's part of the data and times it in turns with the
    /// engine of `reference` (none: by itself), whose speed-up the result's builds on. A mix that this device or
    /// backend cannot do is a trial that `failed`, not an error.
    virtual Result<Trial> measure(const Mix& mix, const Trial* reference) = 0;
    /// Times a mix's engine again as `measure` does, for longer and built anew.
    virtual Result<Timing> time_again(const Mix& mix, const Trial& reference) = 0;
    /// Milliseconds that each layer takes in engines of `base` and of `int8`, both measured layer by layer: what is
    /// gained by quantising it. May be negative.
    virtual Result<std::vector<double>> gains(const Mix& base, const Mix& int8) = 0;
};

struct SearchOptions {
    DamageMetric metric = DamageMetric::top1;
    double max_drop = 0.3;  ///< see drop_of
    double min_speedup = 0; ///< over FP32; 0: any
    double budget_s = 600;  ///< of all trials together; those that every search needs are made in any case
    /// A mix that keeps more accuracy may cost this share of the speed of the fastest one that is good enough.
    double slack = 0.03;
    std::vector<Precision> floats{Precision::float32}; ///< the device's, FP32 first
    /// Those that can stand beside INT8, one in an engine; the usual one first. Another is tried beside INT8 where the
    /// usual one alone does not keep the limit, or where it is faster, or loses less at half of its speed or more.
    std::vector<Precision> bases{Precision::float32};
    std::size_t most_trials = 64;
};

/// What the search knows, and all that is kept of it between runs.
struct SearchState {
    std::vector<double> damage; ///< a layer, any unit in which layers add up
    std::vector<double> gains;  ///< a layer, ms; empty until measured
    std::vector<Trial> trials;
    double seconds = 0; ///< spent before the first trial: the sensitivity
};

/// Whether the trial keeps the limits. Without `with_speed` that on accuracy alone. FP32 keeps any limit on accuracy.
bool is_feasible(const Trial& trial, const SearchOptions& options, bool with_speed = true);

/// Which trial to hand out: the fastest within the limits, or one that is at most `slack` slower and loses less beyond
/// chance (loses_surely_less) than every one faster than it that was as good. The fastest is faster than those tried
/// before it beyond the noise of timing. Where none is fast enough, the same without the limit on speed. Nothing before
/// the FP32 engine was tried.
std::optional<std::size_t> choose(const std::vector<Trial>& trials, const SearchOptions& options);

/// Trials that no other one beats in both speed and what `metric` says is lost, the fastest first. What is won against
/// FP32 is chance, and counts as nothing lost; of trials that lose alike the one of less loss_of is better.
/// `choose` looks at loss_of alone, so that what it hands out need not be among them.
std::vector<std::size_t> pareto_front(const std::vector<Trial>& trials, DamageMetric metric);

/// The order in which layers are taken out of INT8: most damage for the time that it costs first; those that gain
/// nothing in INT8 before all others.
std::vector<std::size_t> order_layers(const std::vector<double>& damage, const std::vector<double>& gains);

/// Told after every measurement: what is known, the index of the trial to hand out, and of the one measured just now
/// (none: the layers' gains were).
using SearchFound =
    std::function<Result<void>(const SearchState&, std::size_t best, std::optional<std::size_t> measured)>;

/// Searches: FP32 and the device's other precisions, everything in INT8, then
///   1. prefix: where INT8 loses too much, the shortest run of `order_layers` that must stay float (by halving);
///   2. base: the layers kept float in others of `bases` that promise more;
///   3. tighten: of the layers kept float, each back in INT8, the largest gain first;
///   4. polish: more layers float as far as `slack` allows, which buys accuracy for nearly no time;
/// and again from the best found, until nothing new is left to try or the time is up. Then
///   5. confirm: the one to hand out and the fastest are timed again, for longer, until both have been: of many short
///      timings the best is also the luckiest.
/// A function of the state and what the workshop answers: with the trials of a search that was stopped, it goes on
/// where that one was and finds what that one would have found.
/// Errors: what the workshop or `found` give; unsupported (no FP32 engine); out_of_range (it gives NaN or infinity);
/// cancelled.
Result<void> search_mix(SearchState& state, const SearchOptions& options, MixWorkshop& workshop,
                        const SearchFound& found, Progress& progress);

} // namespace lathe
