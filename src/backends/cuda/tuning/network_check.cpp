#include "backends/cuda/tuning/network_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "backends/cuda/plan/memory.hpp"

namespace lathe::cuda {

double tolerance(ElementType compute, bool tf32, ElementType stored) {
    double limit = 5e-5; // other orders of summation, Winograd's form; tf32 is at 3e-4
    if (tf32) limit = 2e-3;
    const auto at_least = [&](ElementType type) {
        if (type == ElementType::f16) limit = std::max(limit, 3e-3);
        if (type == ElementType::bf16) limit = std::max(limit, 2e-2);
    };
    at_least(compute);
    at_least(stored);
    return limit;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2g", value);
    return text;
}

double excess(const Deviation& found, ElementType stored, double allowed) {
    if (found.broken > 0 || std::isnan(found.relative)) return std::numeric_limits<double>::infinity();
    const auto count = static_cast<double>(std::max<std::size_t>(found.count, 1));
    const double more = static_cast<double>(found.by_more) / count / 1e-4;
    const double one = static_cast<double>(found.by_one) / count / (stored == ElementType::s8 ? 1e-2 : 1e-4);
    return std::max({found.relative / allowed, more, one});
}

std::vector<ValueId> standing(const Plan& plan, std::size_t op) {
    const std::vector<Lifetime> lives = lifetimes(plan);
    std::vector<ValueId> list;
    for (ValueId id = 0; id < plan.values.size(); ++id) {
        const bool has_memory = plan.values[id].alias_of == none && plan.values[id].weight == none;
        if (has_memory && lives[id].used && lives[id].first <= op && op <= lives[id].last) list.push_back(id);
    }
    return list;
}

std::pair<std::int64_t, std::int64_t> integer_range(const Plan& plan, ValueId input) {
    constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
    const ValueId wanted = root_of(plan, input);
    std::int64_t rows = unknown;
    const auto bound = [&](const Shape& dims, std::int64_t axis) {
        const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis;
        if (at >= 0 && at < static_cast<std::int64_t>(dims.size()))
            rows = std::min(rows, dims[static_cast<std::size_t>(at)]);
    };
    for (const FusedOp& op : plan.ops) {
        const auto* gather = std::get_if<Gather>(&op.detail);
        if (gather == nullptr) continue;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (root_of(plan, op.inputs[i]) != wanted) continue;
            if (i < gather->tables.size())
                bound(plan.weights->weights[gather->tables[i]].dims, gather->axis);
            else if (gather->tables.empty() && i == 1)
                bound(plan.values[op.inputs[0]].dims, gather->axis);
        }
    }
    return {0, rows == unknown ? 1 : std::max<std::int64_t>(0, rows - 1)};
}

std::vector<std::string> ranking(std::vector<Timing> timings, std::size_t workspace_limit, std::size_t kept) {
    std::vector<std::string> list;
    while (list.size() < kept) {
        const Timing* best = choose(timings, workspace_limit);
        if (best == nullptr) break;
        list.push_back(best->tactic);
        timings.erase(timings.begin() + (best - timings.data()));
    }
    return list;
}

std::string Bans::engine_of(const std::string& tactic) {
    return tactic.starts_with("cudnn:") ? tactic.substr(0, tactic.find("_k")) : tactic;
}

Result<void> Bans::ban(const NetworkFault& fault, std::map<std::string, std::vector<std::string>>& order,
                       const std::vector<Timing>& timings, std::size_t workspace_limit,
                       const std::string& reference_tactic) {
    const auto failed = [&](const std::string& why) {
        return Error{ErrorCode::verification_failed,
                     "in the whole network the kernel " + fault.tactic + " is wrong: " + fault.what + "; " + why,
                     fault.name,
                     "leave a library out with LATHE_CUDA_PROVIDERS, use another precision, or accept the results with "
                     "--no-check, and please report this"};
    };
    if (fault.tactic == reference_tactic) return failed("it is the slow reference kernel, behind which there is none");
    if (banned_.size() >= most) return failed(std::to_string(most) + " kernels were wrong before it");
    banned_.emplace(fault.signature, engine_of(fault.tactic));
    std::vector<Timing> rest = timings;
    std::erase_if(rest, [&](const Timing& timing) { return holds(fault.signature, timing.tactic); });
    std::vector<std::string>& list = order[fault.signature];
    // What the whole network preferred stays before what was fastest alone.
    std::erase_if(list, [&](const std::string& tactic) { return holds(fault.signature, tactic); });
    for (std::string& tactic : ranking(std::move(rest), workspace_limit))
        if (std::find(list.begin(), list.end(), tactic) == list.end()) list.push_back(std::move(tactic));
    if (list.empty()) list.push_back(reference_tactic);
    return {};
}

} // namespace lathe::cuda
