#include "plan/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "bench/statistics.hpp"

namespace lathe {

namespace {

/// The `q` quantile of values, whose order changes.
double quantile_of(std::vector<double>& values, double q) {
    const auto place = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(place));
    return values[place];
}

/// Requests enough for so many beyond the quantile, between two limits.
std::size_t requests_beyond(double q, double beyond, double least, double most) {
    return static_cast<std::size_t>(std::clamp(beyond / (1 - q), least, most));
}
/// How long a run is. Far quantiles need long ones: the search is narrowed down with short runs, what it found is
/// confirmed with longer ones, and the choice is simulated once more. The longest is capped, so that a plan stays a
/// matter of seconds; the interval of the quantile tells what that leaves open.
struct RunLengths {
    explicit RunLengths(double q)
        : rough(requests_beyond(q, 200, 1e4, 2e4)), confirming(requests_beyond(q, 200, 1e4, 2e5)),
          final(requests_beyond(q, 2000, 1e5, 5e5)) {}
    std::size_t rough;
    std::size_t confirming;
    std::size_t final;
};

/// Numbers of machines closer than this are not told apart: a simulated quantile is not so exact.
std::size_t resolution(std::size_t machines) { return std::max<std::size_t>(1, machines / 256); }

/// Waiting times worth trying, as shares of what the objective leaves beside running alone.
constexpr double wait_shares[] = {0.2, 0.45, 0.7};
/// Utilisation below which waiting for a machine no longer matters.
constexpr double light_load = 0.01;

class Search {
public:
    Search(const CapacityRequest& request, Progress& progress)
        : request_(request), progress_(progress), lengths_(request.slo.quantile) {}

    Result<CapacityPlan> all() {
        LATHE_CHECK(check());
        CapacityPlan plan;
        plan.floor_ms = floor();
        const auto sizes = batch_sizes();
        progress_.begin("plan", sizes.size());
        std::optional<Configuration> best;
        for (const std::int64_t batch : sizes) {
            std::optional<Configuration> of_batch;
            for (const std::size_t instances : instance_counts()) {
                LATHE_CHECK(progress_.check());
                const auto found =
                    request_.machines ? on_given_machines(batch, instances) : fewest(batch, instances, of_batch);
                if (found && (!of_batch || better(*found, *of_batch))) of_batch = found;
            }
            if (of_batch) of_batch = confirmed(*of_batch);
            progress_.advance();
            if (!of_batch) continue;
            if (holds(*of_batch)) plan.by_batch.push_back(*of_batch);
            if (!best || better(*of_batch, *best)) best = of_batch;
        }
        progress_.end();
        if (!best && request_.machines) {
            return Error{ErrorCode::invalid_argument,
                         std::to_string(*request_.machines) + " machines cannot serve " +
                             std::to_string(request_.arrivals.rate()) + " requests a second",
                         "--machines", "leave --machines out to be told how many are needed"};
        }
        if (!best) best = at_light_load();
        tell(plan, *best);
        return plan;
    }

private:
    /// Fewer machines, then less latency.
    static bool better(const Configuration& a, const Configuration& b) {
        return a.machines != b.machines ? a.machines < b.machines : a.slo_ms < b.slo_ms;
    }

    Result<void> check() const {
        for (const std::int64_t batch : request_.batch_sizes) {
            if (batch >= 1 && batch <= request_.curve.max_batch()) continue;
            return Error{ErrorCode::invalid_argument,
                         "batch size " + std::to_string(batch) + " is not within 1 to " +
                             std::to_string(request_.curve.max_batch()) + ", the largest measured",
                         "--batch", "measure it: lathe bench --batch-sizes"};
        }
        if (request_.instances && *request_.instances != 1 && *request_.instances != request_.curve.streams) {
            const std::string measured =
                request_.curve.streams > 1 ? "1 and " + std::to_string(request_.curve.streams) : "1";
            return Error{ErrorCode::invalid_argument,
                         std::to_string(*request_.instances) + " instances a machine were not measured, only " +
                             measured,
                         "--instances", "the throughput part of lathe bench measures several at once"};
        }
        if (request_.machines && *request_.machines == 0)
            return Error{ErrorCode::invalid_argument, "0 machines serve nothing", "--machines", ""};
        return {};
    }

    std::vector<std::int64_t> batch_sizes() const {
        std::set<std::int64_t> sizes(request_.batch_sizes.begin(), request_.batch_sizes.end());
        if (sizes.empty()) {
            for (const CurvePoint& point : request_.curve.points)
                sizes.insert(point.batch);
            for (std::int64_t size = 1; size < request_.curve.max_batch(); size *= 2)
                sizes.insert(size);
        }
        return {sizes.begin(), sizes.end()};
    }

    std::vector<std::size_t> instance_counts() const {
        if (request_.instances) return {*request_.instances};
        if (request_.curve.streams > 1) return {1, request_.curve.streams};
        return {1};
    }

    double rate_of(std::size_t machines) const { return request_.arrivals.rate() / static_cast<double>(machines); }

    Configuration simulated(const MachineModel& model, std::size_t machines, std::size_t requests) const {
        Configuration configuration{static_cast<std::int64_t>(model.max_batch()), model.max_wait_ms, model.instances,
                                    machines};
        configuration.utilisation = rate_of(machines) / model.capacity();
        auto totals = simulate_totals(model, request_.arrivals.at_one_of(machines, requests), 0.05, request_.seed);
        configuration.slo_ms = quantile_of(totals, request_.slo.quantile);
        return configuration;
    }

    bool holds(const Configuration& configuration) const { return configuration.slo_ms <= request_.slo.limit_ms; }

    /// The fewest machines that a model can run on at all.
    std::size_t machines_for(const MachineModel& model, double utilisation) const {
        return static_cast<std::size_t>(
            std::max(1.0, std::ceil(request_.arrivals.rate() / (model.capacity() * utilisation))));
    }
    /// With more, requests hardly meet, and it becomes no quicker.
    std::size_t most_machines(const MachineModel& model) const { return machines_for(model, light_load); }

    /// Numbers of machines to look among, and where to begin.
    struct Bracket {
        std::size_t low;
        std::size_t high;
        std::size_t start;
    };

    /// The fewest machines of the bracket with which the objective holds, to the resolution: from the start in doubling
    /// steps, down where it holds there and else up, then by halving. Nothing where none of them does.
    std::optional<Configuration> least(const MachineModel& model, const Bracket& bracket, std::size_t requests) const {
        std::optional<Configuration> found;
        std::size_t failed = bracket.low - 1;
        const auto try_on = [&](std::size_t machines) {
            const Configuration tried = simulated(model, machines, requests);
            if (holds(tried))
                found = tried;
            else
                failed = machines;
            return holds(tried);
        };
        std::size_t at = bracket.start;
        const bool down = try_on(at);
        const std::size_t end = down ? bracket.low : bracket.high;
        for (std::size_t step = std::max<std::size_t>(1, at / 64); at != end; step *= 2) {
            step = std::min(step, down ? at - end : end - at);
            at = down ? at - step : at + step;
            if (try_on(at) != down) break;
        }
        while (found && found->machines > failed + resolution(found->machines))
            try_on(failed + (found->machines - failed) / 2);
        return found;
    }

    /// A configuration that short runs found, in runs that are long enough for the quantile: with fewer machines or
    /// more where they say so. Nothing if they say that it cannot hold the objective.
    std::optional<Configuration> confirmed(const Configuration& rough) const {
        if (lengths_.confirming == lengths_.rough) return rough;
        MachineModel model = machine_model(request_, rough.max_batch, rough.instances, rough.max_wait_ms);
        if (request_.machines) return simulated(model, rough.machines, lengths_.confirming);
        const Bracket bracket{machines_for(model, request_.max_utilisation), most_machines(model), rough.machines};
        auto found = least(model, bracket, lengths_.confirming);
        if (found || rough.max_wait_ms == 0 || request_.max_wait_ms) return found;
        model.max_wait_ms = 0;
        return least(model, bracket, lengths_.confirming);
    }

    /// What the objective leaves for waiting when a full batch is run at once.
    double slack_ms(const MachineModel& model) const {
        double taken = model.batches.back().time.quantile(request_.slo.quantile);
        for (const auto* stages : {&model.before, &model.after}) {
            for (const Stage& stage : *stages)
                taken += stage.time.mean();
        }
        return request_.slo.limit_ms - taken;
    }

    std::vector<double> waits(const MachineModel& model) const {
        if (request_.max_wait_ms) return {*request_.max_wait_ms};
        std::vector<double> found{0};
        const double slack = slack_ms(model);
        for (const double share : wait_shares) {
            if (slack > 0 && model.max_batch() > 1) found.push_back(share * slack);
        }
        return found;
    }

    std::optional<Configuration> fewest(std::int64_t batch, std::size_t instances,
                                        std::optional<Configuration> best) const {
        MachineModel model = machine_model(request_, batch, instances, 0);
        const std::size_t low = machines_for(model, request_.max_utilisation);
        for (const double wait : waits(model)) {
            model.max_wait_ms = wait;
            // Waiting costs latency: it must save a machine, and mostly one run shows that it does not.
            const std::size_t high = best ? best->machines - resolution(best->machines) : most_machines(model);
            if (high < low) continue;
            if (auto found = least(model, {low, high, best ? high : low}, lengths_.rough)) best = found;
        }
        return best;
    }

    std::optional<Configuration> on_given_machines(std::int64_t batch, std::size_t instances) const {
        std::optional<Configuration> best;
        MachineModel model = machine_model(request_, batch, instances, 0);
        if (rate_of(*request_.machines) >= model.capacity()) return best;
        for (const double wait : waits(model)) {
            model.max_wait_ms = wait;
            const Configuration tried = simulated(model, *request_.machines, lengths_.rough);
            if (!best || better(tried, *best)) best = tried;
        }
        return best;
    }

    Configuration at_light_load() const {
        const std::int64_t batch = request_.batch_sizes.empty() ? 1 : request_.batch_sizes.front();
        const MachineModel model =
            machine_model(request_, batch, request_.instances.value_or(1), request_.max_wait_ms.value_or(0));
        return simulated(model, most_machines(model), lengths_.confirming);
    }

    double floor() const {
        const MachineModel model = machine_model(request_, 1, 1, 0);
        auto totals =
            simulate_totals(model, Arrivals::poisson(light_load * model.capacity() / 10).at_one_of(1, 10'000));
        return quantile_of(totals, request_.slo.quantile);
    }

    /// The choice again in the longest run; where that shows the objective missed by a hair, with more machines.
    void tell(CapacityPlan& plan, Configuration choice) const {
        const MachineModel model = machine_model(request_, choice.max_batch, choice.instances, choice.max_wait_ms);
        if (holds(choice) && !request_.machines) {
            const Bracket bracket{choice.machines, std::max(choice.machines, most_machines(model)), choice.machines};
            if (const auto found = least(model, bracket, lengths_.final)) choice = *found;
        }
        Simulation run =
            simulate(model, request_.arrivals.at_one_of(choice.machines, lengths_.final), 0.05, request_.seed);
        choice.slo_ms = long_quantile(plan, run.total);
        choice.utilisation = rate_of(choice.machines) / model.capacity();
        fill(plan, run);
        plan.meets = holds(choice);
        plan.choice = choice;
        plan.machine_capacity = model.capacity();
        for (Configuration& row : plan.by_batch) {
            if (row.max_batch == choice.max_batch) row = choice;
        }
        if (choice.machines > 1 && rate_of(choice.machines - 1) < model.capacity())
            plan.without_one_ms = simulated(model, choice.machines - 1, lengths_.final).slo_ms;
    }

    /// The objective's quantile, with its interval from ten parts of the run put into the plan.
    double long_quantile(CapacityPlan& plan, const std::vector<double>& totals) const {
        constexpr std::size_t parts = 10;
        constexpr double student = 2.262; // 97.5 %, nine degrees of freedom
        std::vector<double> quantiles;
        for (std::size_t i = 0; i < parts; ++i) {
            const auto first = totals.begin() + static_cast<std::ptrdiff_t>(i * totals.size() / parts);
            const auto last = totals.begin() + static_cast<std::ptrdiff_t>((i + 1) * totals.size() / parts);
            std::vector<double> part(first, last);
            quantiles.push_back(quantile_of(part, request_.slo.quantile));
        }
        plan.slo_half_width_ms = student * summarize(quantiles).std / std::sqrt(static_cast<double>(parts));
        std::vector<double> all = totals;
        return quantile_of(all, request_.slo.quantile);
    }

    void fill(CapacityPlan& plan, Simulation& run) const {
        plan.simulated = run.total.size();
        plan.mean_batch = run.mean_batch;
        std::vector<double> sorted = run.total;
        std::ranges::sort(sorted);
        plan.mean_ms = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
        plan.median_ms = quantile(sorted, 0.5);
        plan.p90_ms = quantile(sorted, 0.9);
        plan.p95_ms = quantile(sorted, 0.95);
        plan.p99_ms = quantile(sorted, 0.99);
        plan.p999_ms = quantile(sorted, 0.999);
        const double tail = 1 - request_.slo.quantile;
        const double low = quantile(sorted, request_.slo.quantile - tail / 2);
        const double high = quantile(sorted, request_.slo.quantile + tail / 2);
        for (std::size_t i = 0; i < run.names.size(); ++i) {
            StageBudget stage{run.names[i]};
            std::vector<double>& spent = run.spent[i];
            double near = 0;
            std::size_t count = 0;
            for (std::size_t r = 0; r < spent.size(); ++r) {
                stage.mean += spent[r];
                if (run.total[r] < low || run.total[r] > high) continue;
                near += spent[r];
                ++count;
            }
            stage.mean /= static_cast<double>(spent.size());
            stage.at_slo = near / static_cast<double>(std::max<std::size_t>(1, count));
            stage.median = quantile_of(spent, 0.5);
            stage.p99 = quantile_of(spent, 0.99);
            plan.stages.push_back(std::move(stage));
        }
    }

    const CapacityRequest& request_;
    Progress& progress_;
    RunLengths lengths_;
};

Json to_json(const Configuration& configuration) {
    return {{"machines", configuration.machines},   {"instances", configuration.instances},
            {"max_batch", configuration.max_batch}, {"max_wait_ms", configuration.max_wait_ms},
            {"slo_ms", configuration.slo_ms},       {"utilisation", configuration.utilisation}};
}

} // namespace

MachineModel machine_model(const CapacityRequest& request, std::int64_t max_batch, std::size_t instances,
                           double max_wait_ms) {
    MachineModel model{request.stages.before, request.curve.batches(max_batch, instances), max_wait_ms, instances,
                       request.stages.after};
    if (request.full_batches) model.batches.assign(model.batches.size(), BatchTime(model.batches.back()));
    return model;
}

void take_preprocess_of_bench(CapacityRequest& request) {
    const auto named = [](const Stage& stage) { return stage.name == "decode" || stage.name == "preprocess"; };
    const auto preprocess = request.curve.preprocess_ms();
    request.preprocess_of_bench = preprocess && std::ranges::none_of(request.stages.before, named);
    if (request.preprocess_of_bench)
        request.stages.before.push_back({"preprocess", TimeDistribution::fixed(*preprocess), std::nullopt});
}

Result<CapacityPlan> plan_capacity(const CapacityRequest& request, Progress& progress) {
    return Search(request, progress).all();
}

Json to_json(const CapacityPlan& plan, const CapacityRequest& request) {
    Json json{{"kind", "plan"}, {"version", 1}};
    json["slo"] = {{"percentile", 100 * request.slo.quantile}, {"limit_ms", request.slo.limit_ms}};
    json["meets"] = plan.meets;
    json["arrivals"] = {{"rate", request.arrivals.rate()}, {"kind", request.arrivals.is_trace() ? "trace" : "poisson"}};
    json["subject"] = {
        {"name", request.curve.subject}, {"precision", request.curve.precision}, {"file", request.curve.file}};
    json["choice"] = to_json(plan.choice);
    json["choice"]["slo_ms_half_width"] = plan.slo_half_width_ms;
    json["choice"]["mean_batch"] = plan.mean_batch;
    json["choice"]["machine_capacity"] = plan.machine_capacity;
    json["choice"]["without_one_ms"] = plan.without_one_ms ? Json(*plan.without_one_ms) : Json(nullptr);
    json["latency_ms"] = {{"mean", plan.mean_ms}, {"p50", plan.median_ms}, {"p90", plan.p90_ms},
                          {"p95", plan.p95_ms},   {"p99", plan.p99_ms},    {"p99.9", plan.p999_ms}};
    json["floor_ms"] = plan.floor_ms;
    json["stages"] = Json::array();
    for (const StageBudget& stage : plan.stages) {
        json["stages"].push_back({{"name", stage.name},
                                  {"mean_ms", stage.mean},
                                  {"median_ms", stage.median},
                                  {"p99_ms", stage.p99},
                                  {"at_slo_ms", stage.at_slo}});
    }
    json["by_batch"] = Json::array();
    for (const Configuration& row : plan.by_batch)
        json["by_batch"].push_back(to_json(row));
    json["simulated_requests"] = plan.simulated;
    return json;
}

} // namespace lathe
