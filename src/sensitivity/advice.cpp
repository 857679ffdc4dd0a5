#include "sensitivity/advice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lathe {

namespace {

constexpr double least_share = 0.05;
constexpr double over_median = 5;
constexpr double enough_share = 0.75;
constexpr std::size_t most_layers = 8;

std::string text(const char* format, double value) {
    char buffer[48];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
}

std::string percent(double share) { return text(share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share); }

std::string listed(const Sensitivity& sensitivity, const std::vector<RankedLayer>& ranked) {
    std::string names;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        if (i > 0) names += i + 1 == ranked.size() ? " and " : ", ";
        const LayerSensitivity& layer = sensitivity.layers[ranked[i].layer];
        names += layer.node + " (" + layer.role + ")";
    }
    return names;
}

std::string what_is_measured(DamageMetric metric) {
    switch (metric) {
        case DamageMetric::sqnr: return "noise at the output";
        case DamageMetric::kl: return "KL divergence at the output";
        case DamageMetric::agreement: return "changed classes";
        case DamageMetric::top1: return "lost right answers";
    }
    return "damage";
}

} // namespace

std::vector<RankedLayer> rank_layers(const Sensitivity& sensitivity, DamageMetric metric) {
    std::vector<RankedLayer> ranked;
    double damage = 0;
    double macs = 0;
    for (std::size_t i = 0; i < sensitivity.layers.size(); ++i) {
        const LayerSensitivity& layer = sensitivity.layers[i];
        macs += static_cast<double>(layer.macs);
        if (!layer.float_reason.empty()) continue;
        ranked.push_back({i, layer.score.damage(metric), 0, static_cast<double>(layer.macs)});
        damage += ranked.back().damage;
    }
    for (RankedLayer& layer : ranked) {
        layer.damage_share = damage > 0 ? layer.damage / damage : 0;
        layer.macs_share = macs > 0 ? layer.macs_share / macs : 0;
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const RankedLayer& a, const RankedLayer& b) {
        return a.damage != b.damage ? a.damage > b.damage : a.macs_share < b.macs_share;
    });
    return ranked;
}

std::vector<RankedLayer> outstanding_layers(const Sensitivity& sensitivity, DamageMetric metric) {
    const std::vector<RankedLayer> ranked = rank_layers(sensitivity, metric);
    if (ranked.size() < 2) return {};
    const double median = ranked[ranked.size() / 2].damage;
    std::vector<RankedLayer> outstanding;
    double sum = 0;
    for (const RankedLayer& layer : ranked) {
        const bool stands_out = layer.damage_share >= least_share && layer.damage > over_median * median;
        if (!stands_out || sum >= enough_share || outstanding.size() == most_layers) break;
        outstanding.push_back(layer);
        sum += layer.damage_share;
    }
    return outstanding;
}

std::vector<std::string> advise(const Sensitivity& sensitivity, DamageMetric metric) {
    std::vector<std::string> sentences;
    const std::vector<RankedLayer> ranked = rank_layers(sensitivity, metric);
    const std::vector<RankedLayer> worst = outstanding_layers(sensitivity, metric);
    if (worst.empty() && !ranked.empty()) {
        const LayerSensitivity& first = sensitivity.layers[ranked.front().layer];
        sentences.push_back("No layer stands out, so INT8 throughout: the most harmful one, " + first.node + " (" +
                            first.role + "), causes " + percent(ranked.front().damage_share) + " of the " +
                            what_is_measured(metric) + " that the layers cause one by one.");
    } else if (!worst.empty()) {
        double damage = 0;
        double macs = 0;
        for (const RankedLayer& layer : worst) {
            damage += layer.damage_share;
            macs += layer.macs_share;
        }
        sentences.push_back("Keep " + listed(sensitivity, worst) +
                            " in FP16 (or FP32, BF16 on a CPU): " + percent(damage) + " of the " +
                            what_is_measured(metric) + " for " + percent(macs) + " of the multiply-accumulates.");
        std::string excluded;
        for (const RankedLayer& layer : worst)
            excluded += " --exclude '" + sensitivity.layers[layer.layer].node + "'";
        sentences.push_back("To do so: lathe quantize" + excluded + "; lathe tune finds out what it costs in time.");
    }
    if (sensitivity.everything.nonfinite > 0) {
        sentences.push_back("With everything quantised " + std::to_string(sensitivity.everything.nonfinite) +
                            " samples give NaN or infinity.");
    }
    return sentences;
}

} // namespace lathe
