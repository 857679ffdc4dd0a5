#include "backends/cuda/tuning/chain_choice.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace lathe::cuda {

namespace {

constexpr double clearly = 0.98;

/// What an option saves; 0 or less: it is not worth it, or the times of its operations are not known.
double saved(const ChainOption& option, const std::vector<double>& op_us) {
    double apart = 0;
    for (const std::size_t op : option.ops) {
        if (op_us[op] <= 0) return 0;
        apart += op_us[op];
    }
    return option.us > 0 && option.us < clearly * apart ? apart - option.us : 0;
}

} // namespace

std::vector<std::size_t> choose_chains(const std::vector<ChainOption>& options, const std::vector<double>& op_us) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < options.size(); ++i)
        if (const double by = saved(options[i], op_us); by > 0) order.emplace_back(by, i);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::size_t> chosen;
    std::set<std::size_t> taken;
    for (const auto& [by, i] : order) {
        const auto& ops = options[i].ops;
        if (std::any_of(ops.begin(), ops.end(), [&](std::size_t op) { return taken.contains(op); })) continue;
        taken.insert(ops.begin(), ops.end());
        chosen.push_back(i);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

} // namespace lathe::cuda
