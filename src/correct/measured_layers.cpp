#include "correct/measured_layers.hpp"

#include <algorithm>
#include <functional>
#include <span>

namespace lathe {
namespace {

std::map<std::string, Batches> some_of(const std::map<std::string, Batches>& samples, std::size_t wanted) {
    std::map<std::string, Batches> some;
    for (const auto& [name, batches] : samples) {
        std::size_t count = 0;
        for (const HostTensor& batch : batches) {
            if (count >= wanted) break;
            some[name].push_back(batch);
            count += batch.shape.empty() ? 1U : static_cast<std::size_t>(batch.shape.front());
        }
    }
    return some;
}

/// Layers to measure, in graph order.
std::vector<LayerNoise> candidates_of(const Graph& graph, const QuantizeOutcome& now,
                                      const MeasuredLayerLimits& limits) {
    std::map<std::string, int> named;
    for (const auto& node : graph.nodes)
        ++named[node->label()];
    std::vector<LayerNoise> cheap;
    for (const LayerNoise& layer : now.noise) {
        const auto same = [&](const LayerNoise& noisy) { return noisy.node == layer.node; };
        if (layer.cost <= limits.cost && named[layer.label] == 1 && std::ranges::none_of(now.in_float, same))
            cheap.push_back(layer);
    }
    std::vector<LayerNoise> chosen = cheap;
    std::ranges::stable_sort(chosen, std::greater{}, &LayerNoise::noise);
    chosen.resize(std::min(chosen.size(), limits.noisiest));
    std::size_t more = 0;
    for (const LayerNoise& layer : cheap) {
        if (more == limits.first) break;
        if (std::ranges::find(chosen, layer.node, &LayerNoise::node) != chosen.end()) continue;
        chosen.push_back(layer);
        ++more;
    }
    std::ranges::sort(chosen, {}, &LayerNoise::node);
    return chosen;
}

} // namespace

Result<std::vector<MeasuredLayer>> measure_cheap_layers(const Model& real, const RangesFile& ranges,
                                                        const QuantizeOptions& options, const QuantizeOutcome& now,
                                                        const std::map<std::string, Batches>& samples,
                                                        std::size_t threads, Progress& progress,
                                                        const MeasuredLayerLimits& limits) {
    const std::vector<LayerNoise> candidates = candidates_of(real.graph, now, limits);
    std::vector<MeasuredLayer> found;
    if (candidates.empty()) return found;
    LATHE_TRY(Judge judge, Judge::of(real, some_of(samples, limits.samples), threads, progress, false));
    LATHE_TRY(const Closeness as_is, judge.judge(now.model));
    if (!(as_is.error > 0.0)) return found;
    const auto gain_without = [&](std::span<const LayerNoise> layers) -> Result<double> {
        QuantizeOptions quantizing = options;
        for (const LayerNoise& layer : layers)
            quantizing.placement.exclude.push_back(layer.label);
        LATHE_TRY(const QuantizeOutcome quantized, quantize_model(real, ranges, quantizing));
        LATHE_TRY(const Closeness without, judge.judge(quantized.model));
        return 1.0 - without.error / as_is.error;
    };
    LATHE_TRY(const double all, gain_without(candidates));
    if (all < limits.worth_while) return found;
    for (const LayerNoise& layer : candidates) {
        LATHE_TRY(const double gain, gain_without({&layer, 1}));
        if (gain >= limits.gain) found.push_back({layer.label, layer.cost, gain});
    }
    std::ranges::stable_sort(
        found, [](const MeasuredLayer& a, const MeasuredLayer& b) { return a.gain * b.cost > b.gain * a.cost; });
    double cost = 0.0;
    std::erase_if(found, [&](const MeasuredLayer& layer) {
        if (cost + layer.cost > limits.all) return true;
        cost += layer.cost;
        return false;
    });
    return found;
}

} // namespace lathe
