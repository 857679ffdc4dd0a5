#include "backends/cuda/device/chain_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "backends/cuda/plan/chains.hpp"

namespace lathe::cuda {

namespace {

/// Whether a chain's kernel was chosen; nothing where the chain was never timed.
std::optional<bool> decision(const EngineState& state, const std::string& signature) {
    const auto found = state.tactics.find(signature);
    if (found == state.tactics.end()) return std::nullopt;
    // The reference is what is left where every kernel was wrong in the network: then ops run apart.
    return !found->second.empty() && !found->second.front().starts_with("reference:");
}

/// Decisions of the tuned shapes by a chain's name, with its work.
using Decisions = std::multimap<std::string, std::pair<double, bool>>;
Decisions tuned_decisions(EngineState& state) {
    Decisions all;
    for (const auto& shapes : state.points()) {
        const auto plan = lower(state.prepared, shapes);
        if (!plan) continue;
        for (const ChainSite& site : chain_sites(*plan)) {
            const FusedOp op = chain_of(*plan, site);
            if (const auto known = decision(state, signature(op, *plan)))
                all.emplace(op.name, std::pair{static_cast<double>(op.macs), *known});
        }
    }
    return all;
}

bool as_nearest(const Decisions& decisions, const FusedOp& op) {
    double least = std::numeric_limits<double>::infinity();
    bool join = false;
    const auto range = decisions.equal_range(op.name);
    for (auto it = range.first; it != range.second; ++it) {
        const double far =
            std::abs(std::log(it->second.first / static_cast<double>(std::max<std::int64_t>(op.macs, 1))));
        if (far < least) {
            least = far;
            join = it->second.second;
        }
    }
    return join;
}

} // namespace

void join_chosen(EngineState& state, Plan& plan) {
    std::vector<ChainSite> sites = chain_sites(plan);
    std::optional<Decisions> tuned;
    std::erase_if(sites, [&](const ChainSite& site) {
        const FusedOp op = chain_of(plan, site);
        if (const auto known = decision(state, signature(op, plan))) return !*known;
        if (!tuned) tuned = tuned_decisions(state);
        return !as_nearest(*tuned, op);
    });
    join_chains(plan, sites);
}

} // namespace lathe::cuda
