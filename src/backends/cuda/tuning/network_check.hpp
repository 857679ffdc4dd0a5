#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "backends/cuda/tuning/timing_cache.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// ‖out - ref‖ / ‖ref‖ up to which a kernel that computes in `compute` and stores `stored` counts as right.
double tolerance(ElementType compute, bool tf32, ElementType stored);

/// Two significant digits, for messages.
std::string short_number(double value);

/// How a value differs from what it should be.
struct Deviation {
    double relative = 0;       ///< floats: ‖out - ref‖ / ‖ref‖
    std::uint64_t broken = 0;  ///< NaN, infinite or unwritten where the reference is not, in the padding too
    std::uint64_t by_one = 0;  ///< integers: off by one
    std::uint64_t by_more = 0; ///< integers: off by more
    std::size_t count = 0;     ///< elements without padding
};

/// A value's error in multiples of what is allowed: floats by `allowed` (see tolerance); int8 by one step on 1 % of the
/// values and more on 1 in 10,000; other integers by any difference on 1 in 10,000. Infinite where something is broken.
double excess(const Deviation& found, ElementType stored, double allowed);

/// An operation's own result is far off from this excess on: values inside a network are less even than a trial's.
inline constexpr double far_off = 10;
/// A value that another operation made may not change at all; this allows for kernels that are not deterministic.
inline constexpr double changed = 1;

/// The values (no aliases, no constants) whose memory must hold right after operation `op` ran: made before and read by
/// `op` or later, or read or made by it; by number. Model outputs stay to the end.
std::vector<ValueId> standing(const Plan& plan, std::size_t op);

/// Least and greatest integer that a model input may hold: rows of the smallest table that it indexes; else 0 and 1.
std::pair<std::int64_t, std::int64_t> integer_range(const Plan& plan, ValueId input);

/// What is wrong with an operation inside a network.
struct NetworkFault {
    std::size_t op = 0; ///< index in the plan
    std::string name, signature, tactic;
    std::string what; ///< "its result is off by ...", "it changes ... of ..."
};

/// Kernels that are not used any more in this build.
class Bans {
public:
    /// Takes the fault's kernel, and all settings of the same cuDNN engine, out of `order` (by signature, best first)
    /// and puts the next best of `timings` there, at last `reference_tactic`. Errors: verification_failed where the
    /// reference's kernel itself is at fault, or where more than `most` kernels are.
    Result<void> ban(const NetworkFault& fault, std::map<std::string, std::vector<std::string>>& order,
                     const std::vector<Timing>& timings, std::size_t workspace_limit,
                     const std::string& reference_tactic);
    bool holds(const std::string& signature, const std::string& tactic) const {
        return banned_.contains({signature, engine_of(tactic)});
    }
    std::size_t size() const { return banned_.size(); }

    static constexpr std::size_t most = 8;

private:
    /// "cudnn:fused/eng4" of "cudnn:fused/eng4_k24=28": what was wrong with one setting was wrong with all that were
    /// seen.
    static std::string engine_of(const std::string& tactic);
    std::set<std::pair<std::string, std::string>> banned_;
};

/// The best `kept` that may win, as `choose` orders them.
std::vector<std::string> ranking(std::vector<Timing> timings, std::size_t workspace_limit, std::size_t kept = 3);

} // namespace lathe::cuda
