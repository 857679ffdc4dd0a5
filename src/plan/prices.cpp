#include "plan/prices.hpp"
#include "support/json_fault.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lathe {

namespace {

constexpr double nowhere = std::numeric_limits<double>::infinity();

/// Kinds that count, as whole numbers of a common unit of rate; a kind's own is rounded down, what is needed up.
struct Units {
    std::vector<std::size_t> kinds; ///< indices into the table
    std::vector<std::size_t> holds;
    double unit = 0;

    Units(std::span<const double> rates_each, double rate) {
        double least = nowhere;
        for (const double each : rates_each) {
            if (each > 0) least = std::min(least, each);
        }
        // A table of a few million sums at most, also for ten thousand machines.
        constexpr double steps_each = 1024;
        constexpr double most_steps = 4e6;
        unit = std::max(least / steps_each, rate / most_steps);
        for (std::size_t k = 0; k < rates_each.size(); ++k) {
            if (rates_each[k] < unit) continue;
            kinds.push_back(k);
            holds.push_back(static_cast<std::size_t>(rates_each[k] / unit));
        }
    }
    std::size_t needed(double rate) const { return static_cast<std::size_t>(std::ceil(rate / unit)); }
};

/// The cheapest counts of these kinds that hold `needed` units, by dynamic programming over the units.
std::vector<std::size_t> cover(const Units& units, std::span<const std::size_t> allowed, std::span<const double> prices,
                               std::size_t needed, std::size_t kinds) {
    std::vector<double> cost(needed + 1, nowhere);
    std::vector<std::uint8_t> last(needed + 1, 0);
    cost[0] = 0;
    for (std::size_t have = 1; have <= needed; ++have) {
        for (std::size_t i = 0; i < allowed.size(); ++i) {
            const std::size_t holds = units.holds[allowed[i]];
            const double total = cost[have - std::min(have, holds)] + prices[units.kinds[allowed[i]]];
            if (total >= cost[have]) continue;
            cost[have] = total;
            last[have] = static_cast<std::uint8_t>(i);
        }
    }
    std::vector<std::size_t> counts(kinds);
    for (std::size_t left = needed; left > 0;) {
        const std::size_t chosen = allowed[last[left]];
        ++counts[units.kinds[chosen]];
        left -= std::min(left, units.holds[chosen]);
    }
    return counts;
}

MachineMix mix_of(std::vector<std::size_t> counts, std::span<const double> rates_each, std::span<const double> prices) {
    MachineMix mix;
    mix.counts = std::move(counts);
    for (std::size_t k = 0; k < mix.counts.size(); ++k) {
        mix.per_hour += static_cast<double>(mix.counts[k]) * prices[k];
        mix.rate += static_cast<double>(mix.counts[k]) * rates_each[k];
    }
    return mix;
}

Json to_json(const std::optional<MachineMix>& mix, const PriceTable& table) {
    if (!mix) return nullptr;
    Json machines = Json::object();
    for (std::size_t k = 0; k < mix->counts.size(); ++k) {
        if (mix->counts[k] > 0) machines[table.kinds[k].name] = mix->counts[k];
    }
    return {{"machines", std::move(machines)}, {"per_hour", mix->per_hour}, {"rate", mix->rate}};
}

} // namespace

Result<PriceTable> PriceTable::read(const std::filesystem::path& file) {
    LATHE_TRY(const Json json, read_json_file(file));
    constexpr std::size_t most_kinds = 100;
    PriceTable table;
    try {
        table.currency = json.at("currency").get<std::string>();
        for (const Json& row : json.at("machines")) {
            MachineKind kind;
            kind.name = row.at("name").get<std::string>();
            kind.per_hour = positive_at(row, "per_hour");
            const std::filesystem::path from = file.parent_path() / row.at("from").get<std::string>();
            LATHE_TRY(const Json bench, read_json_file(from));
            LATHE_TRY(kind.curve, read_latency_curve(bench, row.value("subject", ""), from.string()));
            const bool twice = std::ranges::find(table.kinds, kind.name, &MachineKind::name) != table.kinds.end();
            if (kind.name.empty() || twice)
                return Error{ErrorCode::parse_error, "each kind of machine needs a name of its own", file.string(), ""};
            table.kinds.push_back(std::move(kind));
        }
    } catch (const Json::exception& failure) {
        return Error{
            ErrorCode::parse_error, "this is no table of prices: " + json_fault(failure), file.string(),
            R"(as in {"currency": "USD", "machines": [{"name": "a", "per_hour": 0.3, "from": "bench.json"}]})"};
    }
    if (table.kinds.empty() || table.kinds.size() > most_kinds) {
        return Error{ErrorCode::parse_error, std::to_string(table.kinds.size()) + " kinds of machine are listed",
                     file.string(), "list 1 to 100"};
    }
    return table;
}

Result<double> rate_of_one(const CapacityRequest& request, const LatencyCurve& curve, Progress& progress) {
    CapacityRequest one = request;
    one.curve = curve;
    take_preprocess_of_bench(one);
    double most = 0; // samples a second, if nobody had to wait
    for (const CurvePoint& point : curve.points)
        most = std::max(most, 1000 * static_cast<double>(point.batch * static_cast<std::int64_t>(curve.streams)) /
                                  point.time.time.mean());
    // Few requests, and machines enough: what fails here is no matter of the rate.
    constexpr double few = 1.0 / 256;
    one.machines.reset();
    one.arrivals = Arrivals::poisson(few * most);
    LATHE_TRY(const CapacityPlan at_all, plan_capacity(one, progress));
    if (!at_all.meets || at_all.choice.machines > 1) return 0.0;
    one.machines = 1;
    const auto meets = [&](double rate) -> Result<bool> {
        LATHE_CHECK(progress.check());
        one.arrivals = Arrivals::poisson(rate);
        const auto plan = plan_capacity(one, progress);
        if (plan) return plan->meets;
        if (plan.error().code == ErrorCode::invalid_argument) return false; // more than the machine can serve at all
        return plan.error();
    };
    double low = few * most;
    double high = most;
    while (high - low > low / 256) {
        const double middle = (low + high) / 2;
        LATHE_TRY(const bool good, meets(middle));
        (good ? low : high) = middle;
    }
    return low;
}

PricePlan cheapest_machines(std::span<const double> rates_each, std::span<const double> prices, double rate) {
    PricePlan plan;
    const Units units(rates_each, rate);
    const std::size_t kinds = rates_each.size();
    for (std::size_t k = 0; k < kinds; ++k) {
        PricePlan::Kind& kind = plan.kinds.emplace_back();
        kind.rate_each = rates_each[k];
        if (kind.rate_each <= 0) continue;
        std::vector<std::size_t> counts(kinds);
        counts[k] = static_cast<std::size_t>(std::ceil(rate / kind.rate_each));
        kind.alone = mix_of(std::move(counts), rates_each, prices);
    }
    if (units.kinds.empty()) return plan;
    std::vector<std::size_t> all(units.kinds.size());
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = i;
    const auto better = [&](std::optional<MachineMix>& best, std::vector<std::size_t> counts) {
        MachineMix mix = mix_of(std::move(counts), rates_each, prices);
        if (!best || mix.per_hour < best->per_hour) best = std::move(mix);
    };
    better(plan.cheapest, cover(units, all, prices, units.needed(rate), kinds));
    for (const PricePlan::Kind& kind : plan.kinds) {
        // One kind alone is exact, where the units are not.
        if (kind.alone) better(plan.cheapest, kind.alone->counts);
    }
    // The machine that fails is the largest there is: for each that it may be, no larger ones and its rate on top.
    for (const std::size_t largest : all) {
        std::vector<std::size_t> smaller;
        for (const std::size_t i : all) {
            if (units.holds[i] <= units.holds[largest]) smaller.push_back(i);
        }
        better(plan.with_spare, cover(units, smaller, prices, units.needed(rate) + units.holds[largest], kinds));
    }
    return plan;
}

Json to_json(const PricePlan& plan, const PriceTable& table) {
    Json kinds = Json::array();
    for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
        kinds.push_back({{"name", table.kinds[k].name},
                         {"per_hour", table.kinds[k].per_hour},
                         {"subject", table.kinds[k].curve.subject},
                         {"rate_each", plan.kinds[k].rate_each},
                         {"alone", to_json(plan.kinds[k].alone, table)}});
    }
    return {{"currency", table.currency},
            {"kinds", std::move(kinds)},
            {"cheapest", to_json(plan.cheapest, table)},
            {"with_spare", to_json(plan.with_spare, table)}};
}

} // namespace lathe
