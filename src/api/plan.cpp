#include "api/plan.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "plan/coverage.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

std::string in_milliseconds(double value) {
    char text[48];
    const int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 3;
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::vector<std::string> warnings_of(const CapacityPlan& plan, const CapacityRequest& request) {
    std::vector<std::string> warnings;
    const auto& points = request.curve.points;
    for (const CurvePoint& point : points) {
        if (point.noisy)
            warnings.push_back("batch " + std::to_string(point.batch) + " of " + request.curve.subject +
                               " was measured on a disturbed machine (noisy): the plan is as uncertain");
    }
    if (std::ranges::none_of(points, [](const CurvePoint& p) { return p.time.after_pause.has_value(); }))
        warnings.emplace_back("the bench timed calls one after another only; in a server with little to do each is "
                              "slower: bench with --pause 2 for a p99 nearer the truth");
    if (!plan.meets && plan.floor_ms > request.slo.limit_ms) {
        warnings.push_back("even a request that waits for nobody has " + request.slo.name() + " " +
                           in_milliseconds(plan.floor_ms) +
                           " ms: a faster engine or shorter stages are needed, not more machines");
    }
    return warnings;
}

} // namespace

PlannedConfiguration planned(const Configuration& found) {
    return {found.max_batch, found.max_wait_ms, found.instances, found.machines, found.slo_ms, found.utilisation};
}

Result<CapacityRequest> capacity_request(const PlanRequest& given) {
    CapacityRequest request;
    LATHE_TRY(request.slo, parse_slo(given.slo));
    double rate = 0;
    if (!given.rate.empty()) {
        LATHE_TRY(rate, parse_rate(given.rate));
    }
    if (!given.trace.empty()) {
        LATHE_TRY(auto times, read_arrival_times(given.trace));
        auto trace = Arrivals::trace(std::move(times), rate);
        if (!trace) return std::move(trace).error().in(given.trace.string());
        request.arrivals = *std::move(trace);
    } else if (rate > 0) {
        request.arrivals = Arrivals::poisson(rate);
    } else {
        return Error{ErrorCode::invalid_argument, "how many requests there are is not said", "",
                     "give --rate 1500/s, or --trace FILE with arrival times"};
    }
    if (!given.stages.empty()) {
        LATHE_TRY(request.stages, read_stages(given.stages));
    }
    request.batch_sizes = given.batch_sizes;
    if (!given.max_wait.empty()) {
        LATHE_TRY(request.max_wait_ms, parse_milliseconds(given.max_wait));
    }
    if (given.instances > 0) request.instances = given.instances;
    if (given.machines > 0) request.machines = given.machines;
    request.max_utilisation = given.max_utilisation;
    if (given.bench.empty()) return request;
    LATHE_TRY(const Json bench, read_json_file(given.bench));
    LATHE_TRY(request.curve, read_latency_curve(bench, given.subject, given.bench.string()));
    if (!given.served.empty()) {
        LATHE_TRY(const Json tried, read_json_file(given.served));
        const Json::json_pointer place("/tried/served");
        LATHE_TRY(request.curve.served,
                  ServedTimes::read(tried.contains(place) ? tried.at(place) : Json(), given.served.string()));
    }
    take_preprocess_of_bench(request);
    return request;
}

Json plan_document(const CapacityPlan& plan, const CapacityRequest& request) {
    Json document = to_json(plan, request);
    document["coverage"] = to_json(coverage_of(plan, request));
    return document;
}

Result<PlanResult> plan(const PlanRequest& given) {
    if (given.bench.empty())
        return Error{ErrorCode::invalid_argument, "there are no measured latencies", "bench",
                     "give the JSON of lathe bench at several batch sizes"};
    if (!(given.max_utilisation > 0 && given.max_utilisation < 1))
        return Error{ErrorCode::invalid_argument, "no machine is loaded so", "max_utilisation",
                     "give a share above 0 and below 1"};
    LATHE_TRY(const CapacityRequest request, capacity_request(given));
    LATHE_TRY(const CapacityPlan found,
              plan_capacity(request, given.progress != nullptr ? *given.progress : no_progress()));
    PlanResult result;
    result.meets = found.meets;
    result.objective = request.slo.name();
    result.objective_ms = request.slo.limit_ms;
    result.rate = request.arrivals.rate();
    result.slo_half_width_ms = found.slo_half_width_ms;
    result.choice = planned(found.choice);
    result.mean_ms = found.mean_ms;
    result.median_ms = found.median_ms;
    result.p99_ms = found.p99_ms;
    result.mean_batch = found.mean_batch;
    result.machine_capacity = found.machine_capacity;
    result.without_one_ms = found.without_one_ms;
    result.floor_ms = found.floor_ms;
    for (const StageBudget& stage : found.stages)
        result.stages.push_back({stage.name, stage.mean, stage.median, stage.p99, stage.at_slo});
    for (const Configuration& each : found.by_batch)
        result.by_batch.push_back(planned(each));
    StageCoverage coverage = coverage_of(found, request);
    result.not_measured = std::move(coverage.missing);
    result.remarks = std::move(coverage.facts);
    result.warnings = warnings_of(found, request);
    result.document = plan_document(found, request).dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
