#include "backends/api/tensorrt_audit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lathe {

namespace {

constexpr double enough = 0.9;

double work_of(std::span<const LayerInfo> layers) {
    double sum = 0;
    for (const LayerInfo& layer : layers)
        sum += layer.macs;
    return sum;
}

bool is_between_activations(const LayerInfo& layer, const std::set<std::string>& names) {
    return names.contains(layer.name) ||
           std::ranges::any_of(layer.nodes, [&](const std::string& node) { return names.contains(node); });
}

std::string percent(double share) { return std::to_string(static_cast<int>(std::floor(share * 100 + 1e-9))) + " %"; }

/// "; a (fp16), b (fp32) and 3 more are not"
std::string those_elsewhere(std::span<const LayerInfo> layers, const std::string& asked) {
    constexpr std::size_t most = 5;
    std::vector<const LayerInfo*> others;
    for (const LayerInfo& layer : layers) {
        if (layer.macs > 0 && layer.precision != asked) others.push_back(&layer);
    }
    if (others.empty()) return "";
    std::ranges::stable_sort(others, std::ranges::greater{}, &LayerInfo::macs);
    std::string text;
    for (std::size_t i = 0; i < std::min(most, others.size()); ++i)
        text += (i == 0 ? "; " : ", ") + others[i]->name + " (" + others[i]->precision + ")";
    if (others.size() > most) text += " and " + std::to_string(others.size() - most) + " more";
    return text + (others.size() == 1 ? " is not" : " are not");
}

} // namespace

std::string to_string(LayerSource source) { return source == LayerSource::engine ? "engine" : "network"; }

std::map<std::string, double> precision_shares(std::span<const LayerInfo> layers) {
    std::map<std::string, double> shares;
    const double all = work_of(layers);
    for (const LayerInfo& layer : layers) {
        if (layer.macs > 0) shares[layer.precision] += layer.macs / all;
    }
    return shares;
}

bool tells_the_work(std::span<const LayerInfo> engine, std::span<const LayerInfo> network) {
    return work_of(engine) >= enough * work_of(network);
}

Result<void> check_precision(const LayerAudit& audit, Precision asked, bool allow_fallback) {
    if (asked == Precision::float32 || asked == Precision::tensor_float32) return {};
    const bool int8 = asked == Precision::int8;
    std::vector<LayerInfo> counted;
    std::ranges::copy_if(audit.layers, std::back_inserter(counted), [&](const LayerInfo& layer) {
        return !int8 || !is_between_activations(layer, audit.between_activations);
    });
    const std::string name = to_string(asked);
    const auto shares = precision_shares(counted);
    if (shares.empty()) return {};
    const auto share_of = [&](const std::string& precision) {
        const auto found = shares.find(precision);
        return found == shares.end() ? 0.0 : found->second;
    };
    const double found = share_of("int8") + (int8 ? 0.0 : share_of(name));
    // Sums of many parts: a rounding error below nine tenths is nine tenths.
    if (found > 0 && (found >= enough - 1e-9 || allow_fallback)) return {};
    std::string parts;
    for (const auto& [precision, share] : shares)
        parts += (parts.empty() ? "" : ", ") + percent(share) + " in " + precision;
    return Error{ErrorCode::unsupported,
                 "asked for " + name + ", but the " + to_string(audit.source) + " multiplies " + parts +
                     those_elsewhere(counted, name),
                 "--precision " + name,
                 found > 0 ? "--allow-fallback builds all the same; --explain tells what stays"
                 : int8    ? "quantise it first: lathe quantize --target tensorrt"
                           : "--explain tells what stays; ask for another precision"};
}

} // namespace lathe
