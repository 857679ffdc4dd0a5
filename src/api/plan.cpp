#include "api/plan.hpp"

#include <utility>

#include "plan/coverage.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

PlannedConfiguration planned(const Configuration& found) {
    return {found.max_batch, found.max_wait_ms, found.instances, found.machines, found.slo_ms, found.utilisation};
}

} // namespace

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
    result.not_measured = coverage_of(found, request).missing;
    result.document = plan_document(found, request).dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
