#include "correct/bias.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lathe {
namespace {

std::optional<Clamp> clamp_of(const Graph& graph, const Node& node) {
    if (node.is("Relu")) return Clamp{0.0F, std::numeric_limits<float>::infinity()};
    if (!node.is("Clip")) return std::nullopt;
    Clamp clamp;
    for (const std::size_t input : {1U, 2U}) {
        if (node.input(input).empty()) continue;
        const Tensor* bound = graph.constant(node.input(input));
        if (bound == nullptr || bound->to_floats().size() != 1) return std::nullopt;
        (input == 1 ? clamp.low : clamp.high) = bound->to_floats().front();
    }
    return clamp;
}

} // namespace

Behind behind(const EdgeIndex& index, const Node& layer) {
    const auto reader = index.only_reader(layer.output(0));
    if (!reader) return {};
    const Node& next = index.node(reader->node);
    if (const auto clamp = clamp_of(index.graph(), next)) return {*clamp, ""};
    if (!next.is("Add") || next.inputs.size() != 2) return {};
    const auto reads_sum = index.only_reader(next.output(0));
    if (!reads_sum) return {};
    const auto clamp = clamp_of(index.graph(), index.node(reads_sum->node));
    if (!clamp) return {};
    const std::string& other = next.input(1 - reader->input);
    if (!index.is_constant(other)) return {*clamp, other};
    // A MatMul's bias stands in an Add. A constant behind a layer with a bias of its own moves the clamp instead.
    return layer.is("MatMul") ? Behind{*clamp, ""} : Behind{};
}

double clamped_error(std::span<const float> real, std::span<const float> quantized, const Clamp& clamp, double shift) {
    double sum = 0.0;
    for (std::size_t i = 0; i < real.size(); ++i) {
        const float moved = quantized[i] + static_cast<float>(shift);
        const auto difference =
            static_cast<double>(std::clamp(real[i], clamp.low, clamp.high) - std::clamp(moved, clamp.low, clamp.high));
        sum += difference * difference;
    }
    return sum;
}

double bias_shift(std::span<const float> real, std::span<const float> quantized, const Clamp& clamp) {
    double best = 0.0;
    double least = clamped_error(real, quantized, clamp, 0.0);
    double shift = 0.0;
    for (int step = 0; step < 6; ++step) {
        double sum = 0.0;
        std::size_t count = 0;
        for (std::size_t i = 0; i < real.size(); ++i) {
            const float moved = quantized[i] + static_cast<float>(shift);
            if (moved <= clamp.low || moved >= clamp.high) continue;
            sum += static_cast<double>(std::clamp(real[i], clamp.low, clamp.high) - moved);
            ++count;
        }
        if (count == 0) break;
        const double change = sum / static_cast<double>(count);
        shift += change;
        const double error = clamped_error(real, quantized, clamp, shift);
        if (error < least) {
            least = error;
            best = shift;
        }
        if (std::abs(change) < 1e-3 * std::abs(shift)) break;
    }
    return best;
}

} // namespace lathe
