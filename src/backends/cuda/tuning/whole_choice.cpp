#include "backends/cuda/tuning/whole_choice.hpp"

#include <algorithm>

namespace lathe::cuda {

namespace {

constexpr std::size_t most_operations = 12, most_tactics = 2;
constexpr double much_slower = 1.15, least_share = 0.01;

const Timing* timing_of(const std::vector<Timing>& timings, const std::string& tactic) {
    const auto found =
        std::find_if(timings.begin(), timings.end(), [&](const Timing& timing) { return timing.tactic == tactic; });
    return found == timings.end() || !found->refused.empty() || found->mixed_us <= 0 ? nullptr : &*found;
}

} // namespace

std::vector<WholeCandidate> whole_candidates(const std::map<std::string, std::size_t>& counts,
                                             const std::map<std::string, std::vector<std::string>>& chosen,
                                             const std::map<std::string, std::vector<Timing>>& timings) {
    std::vector<WholeCandidate> found;
    double whole_us = 0;
    for (const auto& [signature, count] : counts) {
        const auto tactics = chosen.find(signature);
        const auto timed = timings.find(signature);
        if (tactics == chosen.end() || tactics->second.empty() || timed == timings.end()) continue;
        const Timing* best = timing_of(timed->second, tactics->second.front());
        if (best == nullptr) continue;
        WholeCandidate candidate{signature, best->mixed_us * static_cast<double>(count), {}};
        whole_us += candidate.network_us;
        for (std::size_t i = 1; i < tactics->second.size() && candidate.tactics.size() < most_tactics; ++i) {
            const Timing* other = timing_of(timed->second, tactics->second[i]);
            if (other != nullptr && other->mixed_us <= much_slower * best->mixed_us)
                candidate.tactics.push_back(other->tactic);
        }
        found.push_back(std::move(candidate));
    }
    std::erase_if(found, [&](const WholeCandidate& candidate) {
        return candidate.tactics.empty() || candidate.network_us < least_share * whole_us;
    });
    std::sort(found.begin(), found.end(),
              [](const WholeCandidate& a, const WholeCandidate& b) { return a.network_us > b.network_us; });
    if (found.size() > most_operations) found.resize(most_operations);
    return found;
}

bool keeps(std::vector<double> ratios) {
    if (ratios.empty()) return false;
    std::sort(ratios.begin(), ratios.end());
    constexpr double clearly = 0.995;
    return ratios[ratios.size() / 2] < clearly && ratios[ratios.size() * 3 / 4] < 1;
}

} // namespace lathe::cuda
