#include "bench/interleave.hpp"
#include "support/clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace lathe {

namespace {

struct Turn {
    Subject* subject = nullptr;
    Samples calls;
    std::vector<double> copy_in;
    std::vector<double> copy_out;
    std::vector<double> device;
    std::vector<double> paused;
    std::vector<double> other_size;
    SteadyDetector steady;
    std::optional<Error> failure;
};

std::optional<double> median_of(const std::vector<double>& values) {
    if (values.empty()) return std::nullopt;
    return summarize(values).median;
}

Result<InterleavedLatency> finish(Turn turn, const InterleaveOptions& options) {
    if (turn.failure) return std::move(*turn.failure);
    InterleavedLatency latency;
    latency.call_ns = turn.calls.summary();
    latency.burst_medians_ns = turn.calls.burst_medians();
    latency.copy_in_ns = median_of(turn.copy_in);
    latency.copy_out_ns = median_of(turn.copy_out);
    latency.device_ns = median_of(turn.device);
    latency.noisy = !turn.calls.settled(options.rule);
    latency.warmup_bursts = turn.steady.bursts();
    if (!turn.paused.empty()) latency.paused_ns = summarize(turn.paused);
    if (!turn.other_size.empty()) latency.other_size_ns = summarize(turn.other_size);
    if (latency.call_ns.count == 0) {
        return Error{ErrorCode::internal, "no call was timed", turn.subject->info().name, "raise --time-limit"};
    }
    for (const double percent : options.percentiles)
        latency.percentiles_ns[percent] = turn.calls.percentile(percent);
    return latency;
}

/// Few calls, so that the pauses do not take most of the time.
BurstPlan with_pauses(const InterleaveOptions& options) {
    BurstPlan plan = options.burst;
    plan.pause_ms = options.call_pause_ms;
    plan.max_calls = std::max<std::size_t>(1, static_cast<std::size_t>(plan.milliseconds / plan.pause_ms));
    return plan;
}

} // namespace

Result<std::vector<Result<InterleavedLatency>>> interleave(std::span<Subject* const> subjects,
                                                           const InterleaveOptions& options, Progress& progress) {
    const auto now = options.now ? options.now : steady_seconds;
    const auto sleep = options.sleep_ms ? options.sleep_ms : pause;
    std::vector<Turn> turns(subjects.size());
    for (std::size_t i = 0; i < subjects.size(); ++i)
        turns[i].subject = subjects[i];

    // The burst of one subject, or nothing once it has failed. Only an interruption fails the whole.
    const auto take_burst = [&](Turn& turn, const BurstPlan& plan) -> Result<std::optional<Burst>> {
        LATHE_CHECK(progress.check());
        sleep(options.pause_ms);
        auto burst = turn.subject->burst(plan, progress);
        if (!burst) {
            if (burst.error().code == ErrorCode::cancelled) return std::move(burst).error();
            turn.failure = std::move(burst).error();
            return std::optional<Burst>();
        }
        return std::optional<Burst>(std::move(burst).value());
    };

    // Calls as a server makes them.
    const auto take_served = [&](Turn& turn) -> Result<void> {
        LATHE_TRY(const std::optional<Burst> paused, take_burst(turn, with_pauses(options)));
        if (!paused) return {};
        turn.paused.insert(turn.paused.end(), paused->call_ns.begin(), paused->call_ns.end());
        if (!turn.subject->runs_other_sizes()) return {};
        BurstPlan plan = options.burst;
        plan.other_size = true;
        LATHE_TRY(const std::optional<Burst> changed, take_burst(turn, plan));
        if (changed) turn.other_size.insert(turn.other_size.end(), changed->call_ns.begin(), changed->call_ns.end());
        return {};
    };

    const double allowed = options.time_limit_s * static_cast<double>(subjects.size());
    for (Turn& turn : turns) {
        // Warming up may take a fifth of the subject's time at most; what is unsteady then shows up as noisy.
        const double least = now() + options.warm_up_s;
        const double deadline = now() + options.time_limit_s / 5;
        const auto warm = [&](bool steady) {
            return now() >= least && (steady || (turn.steady.bursts() >= options.warm_bursts && now() >= deadline));
        };
        for (bool steady = false; !turn.failure && !warm(steady);) {
            LATHE_TRY(const std::optional<Burst> burst, take_burst(turn, options.burst));
            if (burst) steady = turn.steady.add(summarize(burst->call_ns).median);
        }
    }

    const double deadline = now() + allowed;
    for (std::size_t round = 0;; ++round) {
        bool settled = true;
        for (Turn& turn : turns) {
            if (turn.failure) continue;
            LATHE_TRY(const std::optional<Burst> burst, take_burst(turn, options.burst));
            if (!burst) continue;
            turn.calls.add(burst->call_ns);
            turn.copy_in.insert(turn.copy_in.end(), burst->copy_in_ns.begin(), burst->copy_in_ns.end());
            turn.copy_out.insert(turn.copy_out.end(), burst->copy_out_ns.begin(), burst->copy_out_ns.end());
            turn.device.insert(turn.device.end(), burst->device_ns.begin(), burst->device_ns.end());
            settled = settled && turn.calls.settled(options.rule);
            if (options.call_pause_ms <= 0 || turn.subject->info().kind != SubjectKind::engine) continue;
            LATHE_CHECK(take_served(turn));
        }
        progress.advance();
        if (settled || now() >= deadline) break;
    }

    std::vector<Result<InterleavedLatency>> results;
    results.reserve(turns.size());
    for (Turn& turn : turns)
        results.push_back(finish(std::move(turn), options));
    return results;
}

} // namespace lathe
