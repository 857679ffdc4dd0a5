#include "correct/measured_layers.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_set>

#include "quantize/edges.hpp"

namespace lathe {
namespace {

/// The first batches of all inputs, as many as hold `wanted` samples. Not every input has a row a sample.
std::map<std::string, Batches> some_of(const std::map<std::string, Batches>& samples, std::size_t count,
                                       std::size_t wanted) {
    std::map<std::string, Batches> some;
    if (samples.empty() || count == 0) return some;
    const std::size_t batches = samples.begin()->second.size();
    const std::size_t taken = std::min(batches, (wanted * batches + count - 1) / count);
    for (const auto& [name, values] : samples)
        some[name].assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(taken));
    return some;
}

/// Layers to measure, in graph order.
std::vector<LayerNoise> candidates_of(const Graph& graph, const QuantizeOutcome& now,
                                      const MeasuredLayerLimits& limits) {
    const std::unordered_set<std::string> named = labels_of_one(graph);
    std::vector<LayerNoise> cheap;
    for (const LayerNoise& layer : now.noise) {
        const auto same = [&](const LayerNoise& noisy) { return noisy.node == layer.node; };
        if (layer.cost <= limits.cost && named.contains(layer.label) && std::ranges::none_of(now.in_float, same))
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
                                                        const KeptSamples& samples, std::size_t threads,
                                                        Progress& progress, const MeasuredLayerLimits& limits) {
    const std::vector<LayerNoise> candidates = candidates_of(real.graph, now, limits);
    std::vector<MeasuredLayer> found;
    if (candidates.empty()) return found;
    LATHE_TRY(Judge judge,
              Judge::of(real, some_of(samples.fit, samples.fit_count, limits.samples), threads, progress, false));
    LATHE_TRY(const Closeness as_is, judge.judge(now.model));
    if (!(as_is.error > 0.0)) return found;
    // What is in float now stays so, and nothing else follows it: else its gain were the candidate's.
    QuantizeOptions frozen = options;
    frozen.noisy_in_float = false;
    for (const LayerNoise& layer : now.in_float)
        frozen.placement.noisy.emplace(layer.node, "");
    const auto gain_without = [&](std::span<const LayerNoise> layers) -> Result<double> {
        QuantizeOptions quantizing = frozen;
        for (const LayerNoise& layer : layers)
            quantizing.placement.noisy.emplace(layer.node, "");
        LATHE_TRY(const QuantizeOutcome quantized, quantize_model(real, ranges, quantizing));
        if (quantized.plan.quantized_nodes == 0) return 1.0; // the float network itself
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
