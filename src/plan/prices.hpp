#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "plan/capacity.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// A kind of machine that can be rented, and what was measured on one.
struct MachineKind {
    std::string name;
    double per_hour = 0; ///< its price
    LatencyCurve curve;
};

/// {"currency": "USD", "machines": [{"name": "cpu-8", "per_hour": 0.34, "from": "bench.json", "subject": "int8"}]};
/// `from` is a bench, beside the file or with its whole path; `subject` as --subject. A file that ends in .csv has a
/// header line with the columns name, per_hour, currency (the same in each row), from and perhaps subject.
struct PriceTable {
    std::string currency;
    std::vector<MachineKind> kinds;

    /// Errors: parse_error, naming what is wrong and where; those of reading the benches.
    static Result<PriceTable> read(const std::filesystem::path& file);
};

/// So many machines of each kind, in the order of the table.
struct MachineMix {
    std::vector<std::size_t> counts;
    double per_hour = 0;
    double rate = 0; ///< requests a second that they hold within the objective
};

struct PricePlan {
    struct Kind {
        double rate_each = 0;            ///< requests a second that one holds within the objective; 0: none
        std::optional<MachineMix> alone; ///< with this kind only
    };
    std::vector<Kind> kinds; ///< in the order of the table
    std::optional<MachineMix> cheapest;
    /// The cheapest with which the objective still holds when any one machine fails.
    std::optional<MachineMix> with_spare;
};

/// What one machine of a kind holds, and how it is run for that.
struct HeldByOne {
    double rate = 0; ///< requests a second within the objective; 0: none, and no choice
    std::optional<Configuration> choice;
};

/// What one machine holds: the highest rate, to one in 256, at which `plan_capacity` meets the objective on one.
/// `request` has all but the curve and the rate. Errors: cancelled, those of plan_capacity but machines that do not do.
Result<HeldByOne> held_by_one(const CapacityRequest& request, const LatencyCurve& curve, Progress& progress);

/// The cheapest machines for the rate. Requests are spread over machines at random, as many as each holds, so each
/// meets the objective by itself and all do together. Exact to one in 1024 of the smallest kind's rate.
PricePlan cheapest_machines(std::span<const double> rates_each, std::span<const double> prices, double rate);

/// A mix at the rate, each machine with the share of the requests that it has of what the mix holds.
struct MixLoad {
    double of_held = 0; ///< the rate as a share of what the machines hold within the objective; above 1 it is broken
    /// The objective's quantile on the kind where it is longest, in ms; nothing: machines are overloaded, or none is
    /// left.
    std::optional<double> slo_ms;
};

/// What becomes of a mix with all machines, and when one of the largest fails: the others take its requests.
struct MixUnderFailure {
    MixLoad whole;
    std::size_t failing = 0; ///< the kind whose machine is missed most
    MixLoad one_less;
};

/// `held` is what `held_by_one` gave for each kind of the table; `request` as there, with the rate. Errors: cancelled,
/// those of plan_capacity but machines that do not do.
Result<MixUnderFailure> under_failure(const CapacityRequest& request, const PriceTable& table,
                                      std::span<const HeldByOne> held, const MachineMix& mix, Progress& progress);

Json to_json(const MixUnderFailure& load, const PriceTable& table);
Json to_json(const PricePlan& plan, const PriceTable& table);

} // namespace lathe
