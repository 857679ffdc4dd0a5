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

std::string what_is_measured(const Sensitivity& sensitivity, DamageMetric metric) {
    switch (metric) {
        case DamageMetric::sqnr: return "noise at the output";
        case DamageMetric::kl: return "KL divergence at the output";
        case DamageMetric::agreement: return "changed classes";
        case DamageMetric::top1: return "lost right answers";
        case DamageMetric::task: return "loss of " + sensitivity.task_metric;
    }
    return "damage";
}

/// What INT8 throughout loses, in words.
std::string whole_loss(const Sensitivity& sensitivity, DamageMetric metric) {
    const Score& everything = sensitivity.everything;
    switch (metric) {
        case DamageMetric::sqnr: return "leaves " + text("%.1f", everything.sqnr_db()) + " dB of signal to noise";
        case DamageMetric::kl: return "costs a KL divergence of " + text("%.4f", everything.mean_kl());
        case DamageMetric::agreement: return "changes " + percent(1 - everything.agreement()) + " of the classes";
        case DamageMetric::top1: return "loses " + text("%.2f", 100 * everything.top1_drop()) + " points of top-1";
        case DamageMetric::task:
            return "loses " + text("%.2f", 100 * everything.task->loss()) + " points of " + sensitivity.task_metric +
                   " (" + text("%.2f", 100 * everything.task->reference) + " in float)";
    }
    return "";
}

/// More than most who quantise would take.
bool is_much(const Score& everything, DamageMetric metric) {
    if (everything.samples == 0) return false;
    switch (metric) {
        case DamageMetric::sqnr: return everything.sqnr_db() < 15;
        case DamageMetric::kl: return everything.mean_kl() > 0.05;
        case DamageMetric::agreement: return everything.agreement() < 0.95;
        case DamageMetric::top1: return everything.top1_drop() > 0.01;
        case DamageMetric::task: return everything.task->loss() > 0.01;
    }
    return false;
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
    std::stable_sort(ranked.begin(), ranked.end(), [&](const RankedLayer& a, const RankedLayer& b) {
        if (a.damage != b.damage) return a.damage > b.damage;
        // A task's metric counts answers: many layers change none by themselves.
        const auto& one = sensitivity.layers[a.layer].score.task;
        const auto& other = sensitivity.layers[b.layer].score.task;
        if (metric == DamageMetric::task && one && other && one->agreement != other->agreement)
            return one->agreement < other->agreement;
        return a.macs_share < b.macs_share;
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
        const Score& everything = sensitivity.everything;
        const bool much = is_much(everything, metric);
        sentences.push_back(std::string("No layer stands out") + (much ? ": " : ", so INT8 throughout: ") +
                            "the most harmful one, " + first.node + " (" + first.role + "), causes " +
                            percent(ranked.front().damage_share) + " of the " + what_is_measured(sensitivity, metric) +
                            " that the layers cause one by one.");
        if (much) {
            sentences.push_back(
                "But INT8 throughout " + whole_loss(sensitivity, metric) +
                ", spread over the layers: lathe quantize --effort 2 takes much of that away, and lathe "
                "tune finds the fastest mix within a limit.");
        } else if (everything.samples > 0) {
            sentences.push_back("INT8 throughout " + whole_loss(sensitivity, metric) + ".");
        }
    } else if (!worst.empty()) {
        double damage = 0;
        double macs = 0;
        for (const RankedLayer& layer : worst) {
            damage += layer.damage_share;
            macs += layer.macs_share;
        }
        sentences.push_back("Keep " + listed(sensitivity, worst) + " in FP16 (or FP32, BF16 on a CPU): " +
                            percent(damage) + " of the " + what_is_measured(sensitivity, metric) + " for " +
                            percent(macs) + " of the multiply-accumulates.");
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
