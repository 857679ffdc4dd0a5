#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "api/plan.hpp"
#include "bench/inputs.hpp"
#include "bench/statistics.hpp"
#include "lathe/batching.hpp"
#include "lathe/engine.hpp"
#include "plan/load.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;

Result<Session> single_threaded_session(const fs::path& file) {
    EngineLoadOptions load;
    load.threads = 1;
    LATHE_TRY(const Engine engine, Engine::load(file, load));
    return engine.make_session();
}

/// Engines for `instances` side by side: on the CPU each with a thread of its own, as lathe bench measures them.
Result<BatchingSession> serve(const Engine& engine, const fs::path& file, const PlannedConfiguration& choice) {
    std::vector<Session> sessions;
    for (std::size_t i = 0; i < choice.instances; ++i) {
        const bool shared = choice.instances == 1 || engine.sessions_share_engine();
        LATHE_TRY(Session session, shared ? engine.make_session() : single_threaded_session(file));
        sessions.push_back(std::move(session));
    }
    BatchingOptions options;
    options.max_batch = choice.max_batch;
    options.max_wait = std::chrono::microseconds(std::llround(1000 * choice.max_wait_ms));
    options.queue_capacity = 1U << 20U;
    options.warm_up = true;
    return BatchingSession::start(std::move(sessions), options);
}

Result<std::vector<std::vector<HostTensor>>> samples_for(const Engine& engine) {
    std::vector<InputSpec> specs;
    for (const IoInfo& input : engine.info().inputs) {
        Shape shape = input.range.opt;
        shape[0] = 1;
        specs.push_back({input.name, input.type, shape});
    }
    LATHE_TRY(const InputSets sets, InputSets::random(std::move(specs), 1, last_level_cache_bytes()));
    std::vector<std::vector<HostTensor>> samples;
    for (std::size_t i = 0; i < sets.count(); ++i)
        samples.push_back(sets.set(i));
    return samples;
}

LoadLatency latency_of(const Summary& summary, double batch) {
    return {summary.mean, summary.median, summary.p90, summary.p99, batch};
}

/// The sender's own lateness is in what was measured, and is no server's fault.
PlanTrial compared(const MachineModel& model, const LoadResult& load, std::vector<double> sent, std::uint64_t seed) {
    for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] += load.late_ms[i];
    Simulation simulation = simulate(model, sent, 0, seed);
    for (std::size_t i = 0; i < sent.size(); ++i)
        simulation.total[i] += load.late_ms[i];
    const Summary measured = summarize(load.latency_ms);
    PlanTrial trial;
    trial.requests = measured.count;
    trial.seconds = load.seconds;
    trial.predicted = latency_of(summarize(simulation.total), simulation.mean_batch);
    trial.measured = latency_of(measured, static_cast<double>(load.samples) / static_cast<double>(load.batches));
    trial.p99_reliable = measured.p99_reliable;
    trial.sender_late_p99_ms = summarize(load.late_ms).p99;
    return trial;
}

Json to_json(const LoadLatency& latency) {
    return {{"mean_ms", latency.mean_ms},
            {"median_ms", latency.median_ms},
            {"p90_ms", latency.p90_ms},
            {"p99_ms", latency.p99_ms},
            {"mean_batch", latency.mean_batch}};
}

Json to_json(const PlanTrial& trial) {
    return {{"requests", trial.requests},
            {"seconds", trial.seconds},
            {"predicted", to_json(trial.predicted)},
            {"measured", to_json(trial.measured)},
            {"p99_ratio", trial.measured.p99_ms / trial.predicted.p99_ms},
            {"sender_late_p99_ms", trial.sender_late_p99_ms}};
}

/// One machine's requests, in two loads one after another.
class Loads {
public:
    Loads(std::vector<double> arrivals, const fs::path& engine, Progress& progress)
        : arrivals_(std::move(arrivals)), engine_(engine), progress_(progress) {}

    /// The half of them from the `first` on. The times sent stand beside the result.
    Result<std::pair<LoadResult, std::vector<double>>>
    run(BatchingSession& session, std::vector<std::vector<HostTensor>>& samples, std::size_t first) const {
        const std::size_t count = arrivals_.size() / 2;
        std::vector<double> times(arrivals_.begin() + static_cast<std::ptrdiff_t>(first),
                                  arrivals_.begin() + static_cast<std::ptrdiff_t>(first + count));
        for (double& time : times)
            time -= first == 0 ? 0 : arrivals_[first - 1];
        LATHE_TRY(LoadResult load, run_load(session, times, samples, progress_));
        if (load.failed == 0) return std::pair(std::move(load), std::move(times));
        return Error{ErrorCode::verification_failed, std::to_string(load.failed) + " of the requests tried failed",
                     engine_.string(), ""};
    }

private:
    std::vector<double> arrivals_;
    fs::path engine_;
    Progress& progress_;
};

} // namespace

Result<PlanTrials> try_plan(const PlanRequest& given, const PlannedConfiguration& choice, const fs::path& file,
                            double seconds) {
    if (!(seconds > 0)) return Error{ErrorCode::invalid_argument, "a load takes time", "seconds", "give more than 0"};
    if (given.bench.empty())
        return Error{ErrorCode::invalid_argument, "there are no measured latencies", "bench",
                     "give the JSON of lathe bench at several batch sizes"};
    LATHE_TRY(CapacityRequest request, capacity_request(given));
    LATHE_TRY(const Engine engine, Engine::load(file));
    LATHE_TRY(auto samples, samples_for(engine));
    LATHE_TRY(BatchingSession session, serve(engine, file, choice));
    request.stages = {};
    PlanTrials trials;
    trials.rate = request.arrivals.rate() / static_cast<double>(choice.machines);
    const auto count = std::max<std::size_t>(100, static_cast<std::size_t>(trials.rate * seconds));
    const Loads loads(request.arrivals.at_one_of(choice.machines, 2 * count), file,
                      given.progress != nullptr ? *given.progress : no_progress());
    const auto model = [&] { return machine_model(request, choice.max_batch, choice.instances, choice.max_wait_ms); };
    LATHE_TRY(const auto first, loads.run(session, samples, 0));
    trials.from_bench = compared(model(), first.first, first.second, request.seed);
    request.curve.served.reset();
    LATHE_TRY(request.curve.served, ServedTimes::learn(model().batches, first.first.served));
    LATHE_TRY(const auto second, loads.run(session, samples, count));
    trials.from_load = compared(model(), second.first, second.second, request.seed);
    Json document = to_json(trials.from_bench);
    document["rate"] = trials.rate;
    document["served"] = request.curve.served->json();
    document["again"] = to_json(trials.from_load);
    trials.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return trials;
}

} // namespace lathe
