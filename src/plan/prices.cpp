#include "plan/prices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "data/csv.hpp"
#include "support/files.hpp"
#include "support/json_fault.hpp"

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

/// The rows of a .csv as the JSON that says the same. What is wrong with values is for the reader of that to say.
Result<Json> table_of_csv(const std::filesystem::path& file) {
    LATHE_TRY(const std::string text, read_text_file(file, 1U << 20U));
    LATHE_TRY(const auto rows, parse_csv(text, file.string()));
    const auto wrong = [&](const std::string& what) {
        return Error{ErrorCode::parse_error, what, file.string(),
                     "begin with the line name,per_hour,currency,from,subject; subject may be left out"};
    };
    if (rows.empty()) return wrong("the table of prices is empty");
    Json json{{"machines", Json::array()}};
    for (std::size_t r = 1; r < rows.size(); ++r) {
        const std::string line = "row " + std::to_string(r) + " of the table of prices ";
        if (rows[r].size() != rows[0].size())
            return wrong(line + "has " + std::to_string(rows[r].size()) + " fields and the header " +
                         std::to_string(rows[0].size()));
        Json machine = Json::object();
        for (std::size_t column = 0; column < rows[0].size(); ++column) {
            const std::string& name = rows[0][column];
            const std::string& value = rows[r][column];
            if (name == "per_hour") {
                Json number = Json::parse(value, nullptr, false);
                if (!number.is_number()) return wrong(line + "has the price \"" + value + "\", which is no number");
                machine[name] = std::move(number);
            } else if (name == "currency") {
                if (r > 1 && json["currency"] != value)
                    return wrong(line + "is in " + value + ", and the first in " + json["currency"].get<std::string>());
                json["currency"] = value;
            } else if (name == "name" || name == "from" || (name == "subject" && !value.empty())) {
                machine[name] = value;
            } else if (name != "subject") {
                return wrong("the table of prices has a column \"" + name + "\"");
            }
        }
        json["machines"].push_back(std::move(machine));
    }
    return json;
}

Result<Json> table_of(const std::filesystem::path& file) {
    if (file.extension() == ".csv") return table_of_csv(file);
    return read_json_file(file);
}

/// The objective's quantile on one machine at a rate; nothing where it cannot serve that.
Result<std::optional<double>> slo_at(const CapacityRequest& request, const LatencyCurve& curve,
                                     const Configuration& choice, double rate, Progress& progress) {
    LATHE_CHECK(progress.check());
    CapacityRequest one = request;
    one.curve = curve;
    take_preprocess_of_bench(one);
    one.machines = 1;
    one.batch_sizes = {choice.max_batch};
    one.instances = choice.instances;
    one.max_wait_ms = choice.max_wait_ms;
    one.max_utilisation = 0.99; // what happens is asked, not what should be planned
    one.arrivals = Arrivals::poisson(rate);
    const auto plan = plan_capacity(one, progress);
    if (plan) return std::optional(plan->choice.slo_ms);
    if (plan.error().code == ErrorCode::invalid_argument) return std::optional<double>();
    return plan.error();
}

Result<MixLoad> load_of(const CapacityRequest& request, const PriceTable& table, std::span<const HeldByOne> held,
                        std::span<const std::size_t> counts, Progress& progress) {
    double all = 0;
    for (std::size_t k = 0; k < counts.size(); ++k)
        all += static_cast<double>(counts[k]) * held[k].rate;
    MixLoad load;
    if (all <= 0) {
        load.of_held = nowhere;
        return load;
    }
    load.of_held = request.arrivals.rate() / all;
    double longest = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
        if (counts[k] == 0 || !held[k].choice) continue;
        LATHE_TRY(const auto slo_ms,
                  slo_at(request, table.kinds[k].curve, *held[k].choice, load.of_held * held[k].rate, progress));
        if (!slo_ms) return load;
        longest = std::max(longest, *slo_ms);
    }
    load.slo_ms = longest;
    return load;
}

Json to_json(const MixLoad& load) {
    return {{"of_held", std::isfinite(load.of_held) ? Json(load.of_held) : Json(nullptr)},
            {"slo_ms", load.slo_ms ? Json(*load.slo_ms) : Json(nullptr)}};
}

} // namespace

Result<PriceTable> PriceTable::read(const std::filesystem::path& file) {
    LATHE_TRY(const Json json, table_of(file));
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

Result<HeldByOne> held_by_one(const CapacityRequest& request, const LatencyCurve& curve, Progress& progress) {
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
    if (!at_all.meets || at_all.choice.machines > 1) return HeldByOne{};
    one.machines = 1;
    HeldByOne held{few * most, at_all.choice};
    const auto meets = [&](double rate) -> Result<bool> {
        LATHE_CHECK(progress.check());
        one.arrivals = Arrivals::poisson(rate);
        const auto plan = plan_capacity(one, progress);
        if (plan && plan->meets) held = {rate, plan->choice};
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
    return held;
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

Result<MixUnderFailure> under_failure(const CapacityRequest& request, const PriceTable& table,
                                      std::span<const HeldByOne> held, const MachineMix& mix, Progress& progress) {
    MixUnderFailure load;
    for (std::size_t k = 0; k < mix.counts.size(); ++k) {
        const bool missed_more = mix.counts[load.failing] == 0 || held[k].rate > held[load.failing].rate;
        if (mix.counts[k] > 0 && missed_more) load.failing = k;
    }
    LATHE_TRY(load.whole, load_of(request, table, held, mix.counts, progress));
    std::vector<std::size_t> left = mix.counts;
    --left[load.failing];
    LATHE_TRY(load.one_less, load_of(request, table, held, left, progress));
    return load;
}

Json to_json(const MixUnderFailure& load, const PriceTable& table) {
    return {{"whole", to_json(load.whole)},
            {"failing", table.kinds[load.failing].name},
            {"one_less", to_json(load.one_less)}};
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
