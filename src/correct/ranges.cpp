#include "correct/ranges.hpp"

#include <algorithm>
#include <cmath>

#include "calibrate/guard.hpp"
#include "correct/layer.hpp"
#include "correct/layer_error.hpp"
#include "correct/quantized_layer.hpp"
#include "correct/walk.hpp"
#include "quantize/edges.hpp"
#include "quantize/insert.hpp"
#include "quantize/tensor_range.hpp"

namespace lathe {
namespace {

struct Candidate {
    std::string name;
    Range range;
    double error = 0.0; ///< noise to signal, summed over the readers
};

/// A scale group with what may be its range; the first candidate is the present one.
struct Group {
    std::vector<std::string> tensors;
    std::vector<Candidate> candidates;
    std::size_t readers = 0;
    NumberFormat format;
};

Range united(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

Quantizer quantizer_of(const Range& range, const NumberFormat& format) {
    const QuantizationParameters use = parameters_of(range, format);
    Quantizer quantizer;
    quantizer.scale = use.scale;
    quantizer.zero_point = static_cast<float>(use.zero_point);
    const int half = (format.levels - 1) / 2;
    quantizer.lowest = format.symmetric ? static_cast<float>(-half) : 0.0F;
    quantizer.highest = format.symmetric ? static_cast<float>(half) : static_cast<float>(format.levels - 1);
    return quantizer;
}

Group candidates_of(const ScaleGroup& group, const RangesFile& ranges, const NumberFormat& format) {
    Group result;
    result.format = format;
    Range whole;
    Range present;
    for (const std::string& name : group.ranges) {
        const TensorRange* tensor = ranges.find(name);
        if (tensor == nullptr) return {};
        result.tensors.push_back(name);
        whole = united(whole, estimate(tensor->histogram, Method::minmax, format));
        present = united(present, ranges.range(*tensor, format));
    }
    if (whole.low == 0.0F && whole.high == 0.0F) return {};
    result.candidates.push_back({to_string(ranges.method), present});
    for (const Method method : {Method::minmax, Method::mse, Method::entropy, Method::percentile}) {
        if (method == ranges.method) continue;
        Range range;
        for (const std::string& name : group.ranges)
            range = united(range, guarded_range(ranges.find(name)->histogram, method, format, {}));
        result.candidates.push_back({to_string(method), range});
    }
    for (const int percent : {90, 80, 70, 60, 50}) {
        const float share = static_cast<float>(percent) / 100.0F;
        result.candidates.push_back({std::to_string(percent) + " %", {share * whole.low, share * whole.high}});
    }
    return result;
}

double power_of(std::span<const float> values) {
    double power = 0.0;
    for (const float value : values)
        power += static_cast<double>(value) * static_cast<double>(value);
    return power;
}

/// x - q(x).
std::vector<float> noise_of(const std::vector<float>& values, const Quantizer& quantizer) {
    std::vector<float> noise = values;
    quantizer.apply(noise);
    for (std::size_t i = 0; i < noise.size(); ++i)
        noise[i] = values[i] - noise[i];
    return noise;
}

/// Power of the means over all but the first two axes.
double pooled_power(const HostTensor& shape_of, std::span<const float> values) {
    const auto planes = static_cast<std::size_t>(shape_of.shape[0] * shape_of.shape[1]);
    const std::size_t size = values.size() / std::max<std::size_t>(1, planes);
    double power = 0.0;
    for (std::size_t plane = 0; plane < planes; ++plane) {
        double sum = 0.0;
        for (const float x : values.subspan(plane * size, size))
            sum += static_cast<double>(x);
        power += sum * sum;
    }
    return power;
}

class Chooser {
public:
    Chooser(const Model& real, const RangeChoiceOptions& options, Masks masks)
        : index_(real.graph), options_(options), masks_(std::move(masks)), product_(options.threads) {}

    Result<void> judge_layer(const QuantizedLayer& layer, Walk& walk, Group& group) {
        std::string why;
        const auto twin = float_layer(index_, layer.output, why);
        if (!twin) return {};
        const LinearLayer& form = twin->form;
        LATHE_CHECK(walk.stop_before(layer.output));
        const Batches* input = walk.value(twin->node->input(0));
        if (input == nullptr || input->front().type != DataType::float32) return {};
        const Positions positions = choose_positions(form, *input, options_.positions, masks_);
        if (positions.at.empty()) return {};
        const std::vector<float> rows = gather_rows(form, *input, positions, options_.threads);
        const std::vector<float> weights = rows_of_weight(form, twin->weight.values<float>());
        const auto power = [&](std::span<const float> given) -> Result<double> {
            LATHE_TRY(const std::vector<float> outputs, product_(form, given, positions.at.size(), weights));
            return power_of(outputs);
        };
        std::vector<double> powers(1);
        LATHE_TRY(powers.front(), power(rows));
        for (const Candidate& candidate : group.candidates) {
            LATHE_TRY(const double noise, power(noise_of(rows, quantizer_of(candidate.range, group.format))));
            powers.push_back(noise);
        }
        add(group, powers);
        return {};
    }

    Result<void> judge_pool(const std::string& output, Walk& walk, Group& group) const {
        const auto pool = index_.producer(output);
        if (!pool) return {};
        LATHE_CHECK(walk.stop_before(output));
        const Batches* input = walk.value(index_.node(*pool).input(0));
        if (input == nullptr || input->front().type != DataType::float32 || input->front().shape.size() < 3) return {};
        std::vector<double> powers(group.candidates.size() + 1, 0.0);
        for (const HostTensor& batch : *input) {
            const auto values = batch.as<float>();
            const std::vector<float> copied(values.begin(), values.end());
            powers[0] += pooled_power(batch, values);
            for (std::size_t i = 0; i < group.candidates.size(); ++i) {
                powers[i + 1] +=
                    pooled_power(batch, noise_of(copied, quantizer_of(group.candidates[i].range, group.format)));
            }
        }
        add(group, powers);
        return {};
    }

private:
    static void add(Group& group, const std::vector<double>& powers) {
        if (!(powers[0] > 0.0)) return;
        for (std::size_t i = 0; i < group.candidates.size(); ++i)
            group.candidates[i].error += powers[i + 1] / powers[0];
        ++group.readers;
    }

    const EdgeIndex index_;
    const RangeChoiceOptions& options_;
    Masks masks_;
    LayerProduct product_;
};

} // namespace

Result<RangeChoices> choose_ranges(const Model& real, const Model& quantized, const QuantizationPlan& plan,
                                   const RangesFile& ranges, const std::map<std::string, Batches>& samples,
                                   const RangeChoiceOptions& options, Progress& progress) {
    std::vector<Group> groups(plan.groups.size());
    std::map<std::string, std::size_t> group_of;
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        if (plan.groups[i].whole_range) continue;
        groups[i] = candidates_of(plan.groups[i], ranges, format_of(plan.groups[i], plan));
    }
    for (const QuantizedTensor& tensor : plan.tensors) {
        if (!groups[tensor.group].candidates.empty()) group_of[tensor.name] = tensor.group;
    }
    LATHE_TRY(Walk walk, Walk::start(real, samples, options.threads, progress, options.spare));
    Chooser chooser(real, options, masks_of(samples));
    const std::vector<QuantizedLayer> layers = quantized_layers(quantized);
    const EdgeIndex index(quantized.graph);
    progress.begin("choose ranges", quantized.graph.nodes.size());
    auto layer = layers.begin();
    for (const auto& node : quantized.graph.nodes) {
        LATHE_CHECK(progress.check());
        progress.advance();
        if (layer != layers.end() && layer->output == node->output(0)) {
            const auto group = group_of.find(layer->quantized);
            if (group != group_of.end()) LATHE_CHECK(chooser.judge_layer(*layer, walk, groups[group->second]));
            ++layer;
        } else if (node->is("GlobalAveragePool")) {
            const auto pair = index.producer(node->input(0));
            if (!pair || !index.node(*pair).is("DequantizeLinear")) continue;
            const auto front = index.producer(index.node(*pair).input(0));
            if (!front) continue;
            const auto group = group_of.find(index.node(*front).input(0));
            if (group == group_of.end()) continue;
            LATHE_CHECK(chooser.judge_pool(node->output(0), walk, groups[group->second]));
        }
    }
    progress.end();

    RangeChoices choices;
    for (const Group& group : groups) {
        if (group.readers == 0) continue;
        ++choices.looked_at;
        // Of ranges that do the same on these samples the widest, which suits samples not seen.
        const auto least = std::ranges::min_element(group.candidates, {}, &Candidate::error)->error;
        const Candidate* best = nullptr;
        for (const Candidate& each : group.candidates) {
            if (each.error > least * 1.02) continue;
            const bool wider = best == nullptr || each.range.high - each.range.low > best->range.high - best->range.low;
            if (wider) best = &each;
        }
        const Candidate& present = group.candidates.front();
        if (best == nullptr || best->range == present.range) continue;
        for (const std::string& tensor : group.tensors)
            choices.ranges[tensor] = best->range;
        choices.changed.push_back({group.tensors.front(), best->name, present.error, best->error});
    }
    return choices;
}

} // namespace lathe
