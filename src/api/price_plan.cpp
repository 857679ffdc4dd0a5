#include <string>
#include <utility>
#include <vector>

#include "api/plan.hpp"
#include "plan/prices.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

Result<CapacityRequest> capacity_request(const PricePlanRequest& given) {
    if (given.rate.empty()) {
        return Error{ErrorCode::invalid_argument, "how many requests there are is not said", "rate",
                     "give one such as 1500/s"};
    }
    PlanRequest common;
    common.slo = given.slo;
    common.rate = given.rate;
    common.stages = given.stages;
    common.batch_sizes = given.batch_sizes;
    common.max_wait = given.max_wait;
    common.instances = given.instances;
    common.max_utilisation = given.max_utilisation;
    return capacity_request(common);
}

PricedMix priced(const MachineMix& mix, const MixUnderFailure& load, const PriceTable& prices) {
    return {mix.counts,
            mix.per_hour,
            load.whole.slo_ms,
            load.whole.of_held,
            prices.kinds[load.failing].name,
            load.one_less.slo_ms,
            load.one_less.of_held};
}

} // namespace

Result<PricePlanResult> plan_prices(const PricePlanRequest& given) {
    if (!(given.max_utilisation > 0 && given.max_utilisation < 1))
        return Error{ErrorCode::invalid_argument, "no machine is loaded so", "max_utilisation",
                     "give a share above 0 and below 1"};
    Progress& progress = given.progress != nullptr ? *given.progress : no_progress();
    LATHE_TRY(const CapacityRequest request, capacity_request(given));
    LATHE_TRY(const PriceTable prices, PriceTable::read(given.prices));
    std::vector<HeldByOne> held;
    std::vector<double> rates, per_hour;
    for (const MachineKind& kind : prices.kinds) {
        LATHE_TRY(held.emplace_back(), held_by_one(request, kind.curve, progress));
        rates.push_back(held.back().rate);
        per_hour.push_back(kind.per_hour);
    }
    const PricePlan plan = cheapest_machines(rates, per_hour, request.arrivals.rate());
    PricePlanResult result;
    result.currency = prices.currency;
    result.objective = request.slo.name();
    result.objective_ms = request.slo.limit_ms;
    result.rate = request.arrivals.rate();
    Json table = to_json(plan, prices);
    const auto judge = [&](const std::optional<MachineMix>& mix, const char* name,
                           std::optional<PricedMix>& told) -> Result<void> {
        if (!mix) return {};
        LATHE_TRY(const MixUnderFailure load, under_failure(request, prices, held, *mix, progress));
        table[name]["load"] = to_json(load, prices);
        told = priced(*mix, load, prices);
        return {};
    };
    LATHE_CHECK(judge(plan.cheapest, "cheapest", result.cheapest));
    LATHE_CHECK(judge(plan.with_spare, "with_spare", result.with_spare));
    for (std::size_t k = 0; k < held.size(); ++k) {
        PricedKind kind{prices.kinds[k].name, prices.kinds[k].per_hour, plan.kinds[k].rate_each, {}, {}, 0};
        if (const auto& alone = plan.kinds[k].alone) {
            kind.alone = alone->counts[k];
            kind.alone_per_hour = alone->per_hour;
        }
        if (held[k].choice) {
            kind.choice = planned(*held[k].choice);
            table["kinds"][k]["instances"] = held[k].choice->instances;
            table["kinds"][k]["max_batch"] = held[k].choice->max_batch;
            table["kinds"][k]["max_wait_ms"] = held[k].choice->max_wait_ms;
        }
        result.kinds.push_back(std::move(kind));
    }
    const Json document{{"kind", "prices"}, {"version", 1}, {"prices", std::move(table)}, {"rate", result.rate}};
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
