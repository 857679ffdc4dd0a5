#include "calibrate/settle.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "calibrate/quantization_error.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

/// A tensor's relative noise on the round's samples, in one format.
struct Noise {
    double before = 0.0; ///< with the ranges from before the round
    double after = 0.0;
};

/// Of what lies outside the whole range of what `seen` saw, relative to all of it: steps so fine that only clipping is
/// left.
double clipped(const QuantizationError& error, double power, const Histogram& seen, bool symmetric) {
    const NumberFormat fine{symmetric, (1 << 24) - (symmetric ? 1 : 0)};
    return error(grid_of(estimate(seen, Method::minmax, fine), fine)) / power;
}

/// Nothing where the tensor was all zeros or had no finite value: it has no noise.
Noise noise_of(const RangesFile& before, const Histogram& fresh, const RangesFile& after, std::size_t tensor,
               const NumberFormat& format, const SettleRule& rule) {
    const TensorRange& then = before.tensors[tensor];
    const TensorRange& then_and_fresh = after.tensors[tensor];
    const QuantizationError error(fresh);
    const double power = error.power();
    if (power <= 0.0) return {};
    if (rule.whole_ranges.contains(then.name)) {
        const Range whole = estimate(then_and_fresh.histogram, Method::minmax, format);
        const double noise = error(grid_of(whole, format)) / power;
        return {noise + clipped(error, power, then.histogram, format.symmetric), noise};
    }
    const Range old = before.range(then, format);
    const Range now = after.range(then_and_fresh, format);
    const double noise = error(grid_of(now, format)) / power;
    return {old == now ? noise : error(grid_of(old, format)) / power, noise};
}

std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f %%", share * 100);
    return text;
}

} // namespace

CalibrationRound judge_round(const RangesFile& before, std::span<const TensorStatistics> fresh, const RangesFile& after,
                             const SettleRule& rule, std::size_t threads) {
    const std::size_t count = fresh.size();
    CalibrationRound round;
    ThreadPool pool(threads);
    for (const NumberFormat& format : {NumberFormat::uint8(), NumberFormat::int8()}) {
        std::vector<Noise> noises(count);
        pool.for_each(count,
                      [&](std::size_t t) { noises[t] = noise_of(before, fresh[t].histogram, after, t, format, rule); });
        double total = 0.0;
        double changed = 0.0;
        for (const Noise& noise : noises) {
            total += noise.after;
            changed += std::fabs(noise.before - noise.after);
        }
        if (changed == 0.0) continue;
        // Without any noise afterwards any noise before is a whole change.
        const double mean = total / static_cast<double>(count);
        const auto relative = [](double change, double noise) { return noise > 0.0 ? change / noise : 1.0; };
        round.noise_change = std::max(round.noise_change, relative(changed, total));
        for (std::size_t t = 0; t < count; ++t) {
            const double change = std::fabs(noises[t].before - noises[t].after);
            if (change == 0.0) continue;
            const double worst = relative(change, std::max(noises[t].after, mean));
            if (worst <= round.worst_change) continue;
            round.worst_change = worst;
            round.worst_tensor = fresh[t].name;
        }
    }
    return round;
}

SettlingRounds::SettlingRounds(RangesKey key, std::size_t available, std::size_t whole, Method method,
                               const EstimateOptions& options, SettleRule rule, std::size_t threads)
    : available_(available), whole_(whole), method_(method), options_(options), rule_(std::move(rule)),
      threads_(threads), end_(rounded(rule_.first_round)) {
    ranges_.key = std::move(key);
    convergence_.available = available;
}

std::size_t SettlingRounds::next() const {
    return convergence_.settled || dry_ ? 0 : std::min(end_, available_) - ranges_.samples_seen;
}

void SettlingRounds::add(std::span<const TensorStatistics> fresh, std::size_t samples) {
    dry_ = samples == 0;
    if (dry_) return;
    const std::size_t before = ranges_.samples_seen;
    RangesFile after = ranges_;
    after.samples_seen += samples;
    if (before == 0) {
        for (const TensorStatistics& tensor : fresh)
            after.tensors.push_back({tensor.name, tensor.histogram, {}, {}, false});
    } else {
        for (std::size_t t = 0; t < fresh.size(); ++t)
            after.tensors[t].histogram.merge(fresh[t].histogram);
    }
    reestimate(after, method_, options_, threads_);
    if (before != 0) {
        convergence_.rounds.push_back(judge_round(ranges_, fresh, after, rule_, threads_));
        convergence_.rounds.back().samples = after.samples_seen;
        convergence_.rounds.back().fresh = samples;
    }
    ranges_ = std::move(after);
    // A round that the data's end cut short says less, but then there is nothing to save either.
    if (!convergence_.rounds.empty() && ranges_.samples_seen >= end_) {
        const CalibrationRound& round = convergence_.rounds.back();
        convergence_.settled =
            round.noise_change <= rule_.noise_tolerance && round.worst_change <= rule_.worst_tolerance;
    }
    end_ = rounded(2 * end_);
}

RangesFile SettlingRounds::take() {
    ranges_.convergence = std::move(convergence_);
    return std::move(ranges_);
}

Result<SettledRanges> read_until_settled(ActivationSource& source, Dataset& dataset, const CollectOptions& collecting,
                                         RangesKey key, Method method, const EstimateOptions& options,
                                         const SettleRule& rule, Progress& progress) {
    CollectOptions collect = collecting;
    // A longer batch would be cut at the end of a round anyway.
    if (!collect.whole_batches) collect.batch_size = std::min(collect.batch_size, rule.first_round);
    LATHE_TRY(Collector collector, Collector::make(source, dataset, collect, progress));
    SettlingRounds rounds(std::move(key), collector.available(), collect.whole_batches ? collect.batch_size : 1, method,
                          options, rule, collect.threads);
    SettledRanges found;
    while (const std::size_t count = rounds.next()) {
        LATHE_TRY(const ActivationStatistics part, collector.next(count));
        found.inference_seconds += part.inference_seconds;
        found.histogram_seconds += part.histogram_seconds;
        rounds.add(part.tensors, part.samples);
        LATHE_CHECK(progress.check());
    }
    progress.end();
    if (rounds.seen() == 0) return no_samples();
    found.ranges = rounds.take();
    return found;
}

std::string describe(const CalibrationConvergence& convergence) {
    const auto& rounds = convergence.rounds;
    const std::string of = "of " + std::to_string(convergence.available) + " samples";
    if (rounds.empty()) return "all " + of + ", too few to see whether more would change the ranges";
    const CalibrationRound& last = rounds.back();
    std::string text = last.samples < convergence.available ? std::to_string(last.samples) + " " + of : "all " + of;
    text +=
        "; the last " + std::to_string(last.fresh) + " changed the quantisation noise by " + percent(last.noise_change);
    if (!last.worst_tensor.empty()) {
        text += ", by " + percent(last.worst_change) + " at most (" + last.worst_tensor + ")";
    }
    return text + (convergence.settled ? "" : ", so the ranges had not settled");
}

Json to_json(const CalibrationConvergence& convergence) {
    Json rounds = Json::array();
    for (const CalibrationRound& round : convergence.rounds) {
        rounds.push_back({{"samples", round.samples},
                          {"fresh", round.fresh},
                          {"noise_change", round.noise_change},
                          {"worst_change", round.worst_change},
                          {"worst_tensor", round.worst_tensor}});
    }
    return {{"available", convergence.available}, {"settled", convergence.settled}, {"rounds", std::move(rounds)}};
}

} // namespace lathe
