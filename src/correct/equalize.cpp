#include "correct/equalize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "correct/scaled_inputs.hpp"
#include "correct/walk.hpp"
#include "onnx/onnx.hpp"
#include "support/thread_pool.hpp"

namespace lathe {
namespace {

constexpr float most = 64.0F; // a factor beyond this says that the samples never used the channel

/// A weight seen as [outputs, inputs, taps], wherever it stores them; for depthwise ones [channels, 1, taps].
struct WeightView {
    std::size_t outputs = 0;
    std::size_t inputs = 0; ///< of one group
    std::size_t taps = 1;
    std::size_t groups = 1;
    bool transposed = false;
    std::size_t at(std::size_t m, std::size_t c, std::size_t tap) const {
        return transposed ? c * outputs + m : (m * inputs + c) * taps + tap;
    }
    /// The channel of the whole input that element c of output m reads.
    std::size_t channel(std::size_t m, std::size_t c) const { return m / (outputs / groups) * inputs + c; }
};

WeightView view_of(const Node& node, const Shape& shape) {
    WeightView view;
    view.groups = static_cast<std::size_t>(node.int_or("group", 1));
    view.transposed = node.is("MatMul") || (node.is("Gemm") && node.int_or("transB", 0) == 0);
    view.outputs = static_cast<std::size_t>(shape[view.transposed ? 1 : 0]);
    view.inputs = static_cast<std::size_t>(shape[view.transposed ? 0 : 1]);
    for (std::size_t axis = 2; axis < shape.size(); ++axis)
        view.taps *= static_cast<std::size_t>(shape[axis]);
    return view;
}

ReaderWeights reader_weights(const Node& node, const Tensor& weight, bool depthwise, std::size_t channels,
                             const ChannelStatistics& input) {
    const WeightView view = view_of(node, weight.shape());
    const auto values = weight.values<float>();
    ReaderWeights reader;
    reader.depthwise = depthwise;
    reader.taps = view.taps;
    reader.input = &input;
    reader.power.assign(channels, 0.0);
    reader.outputs = depthwise ? 1 : view.outputs;
    if (!depthwise) reader.absmax.assign(view.outputs * channels, 0.0F);
    for (std::size_t m = 0; m < view.outputs; ++m) {
        for (std::size_t c = 0; c < view.inputs; ++c) {
            const std::size_t channel = view.channel(m, c);
            for (std::size_t tap = 0; tap < view.taps; ++tap) {
                const float w = values[view.at(m, c, tap)];
                reader.power[channel] += static_cast<double>(w) * static_cast<double>(w);
                if (depthwise) continue;
                float& largest = reader.absmax[m * channels + channel];
                largest = std::max(largest, std::abs(w));
            }
        }
    }
    return reader;
}

/// Multiplies the elements of a node's weight (and bias) by factors of its output or input channels, as new constants.
class Scaler {
public:
    explicit Scaler(Model& model) : graph_(model.graph) {}

    void scale_output(std::size_t at, const std::vector<float>& factors) {
        Node& node = *graph_.nodes[at];
        if (!node.is("LayerNormalization")) {
            change(node, 1, [&](const WeightView& view, std::vector<float>& values) {
                for (std::size_t m = 0; m < view.outputs; ++m) {
                    for (std::size_t c = 0; c < view.inputs; ++c) {
                        for (std::size_t tap = 0; tap < view.taps; ++tap)
                            values[view.at(m, c, tap)] *= factors[m];
                    }
                }
            });
        }
        const std::vector<std::size_t> vectors =
            node.is("LayerNormalization") ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{2};
        for (const std::size_t input : vectors) {
            if (node.input(input).empty()) continue;
            change(node, input, [&](const WeightView&, std::vector<float>& values) {
                for (std::size_t i = 0; i < values.size(); ++i)
                    values[i] *= factors[i % factors.size()];
            });
        }
    }

    void unscale_input(std::size_t at, const std::vector<float>& factors) {
        change(*graph_.nodes[at], 1, [&](const WeightView& view, std::vector<float>& values) {
            for (std::size_t m = 0; m < view.outputs; ++m) {
                for (std::size_t c = 0; c < view.inputs; ++c) {
                    for (std::size_t tap = 0; tap < view.taps; ++tap)
                        values[view.at(m, c, tap)] /= factors[view.channel(m, c)];
                }
            }
        });
    }

private:
    template <class Change>
    void change(Node& node, std::size_t input, Change apply) {
        const Tensor tensor = *graph_.constant(node.inputs[input]);
        const auto old = tensor.values<float>();
        std::vector<float> values(old.begin(), old.end());
        apply(input == 1 && !node.is("LayerNormalization") ? view_of(node, tensor.shape()) : WeightView{}, values);
        // Another node may read the same constant: each gets its own.
        std::string name = tensor.name;
        if (readers_of(tensor.name) > 1 || name.empty()) name = graph_.unique_name(node.inputs[input] + "_equalized");
        graph_.initializers.insert_or_assign(name, Tensor::of_floats(name, tensor.shape(), values));
        node.inputs[input] = name;
    }

    std::size_t readers_of(const std::string& name) const {
        std::size_t count = 0;
        for (const auto& node : graph_.nodes)
            count += static_cast<std::size_t>(std::ranges::count(node->inputs, name));
        return count;
    }

    Graph& graph_;
};

constexpr std::size_t level_bins = 512;

/// Channels [first, end) of a tensor's axis.
struct ChannelSpan {
    std::size_t first = 0;
    std::size_t end = 0;
};

/// body(channel, values of it that lie together), over all batches, but for padding.
template <class Body>
void for_each_channel(const Batches& batches, std::int64_t axis, std::size_t channels, ChannelSpan part,
                      const Masks& masks, Body body) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        const HostTensor& tensor = batches[batch];
        const PositionMask* mask = axis == -1 && batch < masks.size() && masks[batch] ? &*masks[batch] : nullptr;
        const auto layout = mask == nullptr ? std::nullopt : mask->layout_of(tensor.shape);
        const auto values = tensor.as<float>();
        const auto rank = static_cast<std::int64_t>(tensor.shape.size());
        std::size_t inner = 1;
        for (std::int64_t i = (axis < 0 ? axis + rank : axis) + 1; i < rank; ++i)
            inner *= static_cast<std::size_t>(tensor.shape[static_cast<std::size_t>(i)]);
        const std::size_t outer = values.size() / (inner * channels);
        for (std::size_t o = 0; o < outer; ++o) {
            if (layout && !mask->is_own(*layout, o * channels)) continue;
            for (std::size_t c = part.first; c < part.end; ++c)
                body(c, values.subspan((o * channels + c) * inner, inner));
        }
    }
}

/// The end of an 8-bit grid, as a part of the largest magnitude, with the least sum of squared errors over a histogram
/// of magnitudes: (level / 255)^2 / 12 for each value but 0, (x - level)^2 for each beyond it.
float best_level(std::span<const std::uint32_t> bins, double nonzero) {
    const auto size = static_cast<double>(bins.size());
    double count = 0.0; // of values beyond the level, and sums of them and of their squares, in parts of the largest
    double sum = 0.0;
    double squares = 0.0;
    double least = nonzero / (12.0 * 255.0 * 255.0);
    double best = 1.0;
    for (std::size_t i = bins.size(); i-- > bins.size() / 8;) {
        const double x = (static_cast<double>(i) + 0.5) / size;
        const auto here = static_cast<double>(bins[i]);
        count += here;
        sum += here * x;
        squares += here * x * x;
        const double level = static_cast<double>(i) / size;
        const double clipped = squares - 2.0 * level * sum + level * level * count;
        const double error = clipped + nonzero * level * level / (12.0 * 255.0 * 255.0);
        if (error >= least) continue;
        least = error;
        best = level;
    }
    return static_cast<float>(best);
}

/// 0 where the network never uses the channel.
std::vector<float> relative(const std::vector<float>& values) {
    const float largest = values.empty() ? 0.0F : *std::ranges::max_element(values);
    std::vector<float> result(values.size(), 0.0F);
    if (largest > 0.0F) std::ranges::transform(values, result.begin(), [&](float each) { return each / largest; });
    return result;
}

/// From one end of the grid to the other, when the input's channels are multiplied by `factors`.
double range_of(const ReaderWeights& reader, const std::vector<float>& factors) {
    const ChannelStatistics& input = *reader.input;
    double low = 0.0;
    double high = 0.0;
    for (std::size_t c = 0; c < factors.size(); ++c) {
        const auto factor = static_cast<double>(factors[c]);
        high = std::max(high, factor * static_cast<double>(reader.both_signs ? input.highest[c] : input.level[c]));
        if (reader.both_signs) low = std::min(low, factor * static_cast<double>(input.lowest[c]));
    }
    return high - low;
}

} // namespace

ChannelStatistics channel_statistics(const Batches& batches, std::int64_t axis, std::size_t channels,
                                     std::size_t threads, const Masks& masks) {
    ChannelStatistics result;
    result.level.assign(channels, 0.0F);
    result.power.assign(channels, 0.0);
    result.nonzero.assign(channels, 0.0);
    result.lowest.assign(channels, 0.0F);
    result.highest.assign(channels, 0.0F);
    constexpr std::size_t together = 16; // channels a task: a row of the last axis is read in pieces of a cache line
    ThreadPool(threads).for_each((channels + together - 1) / together, [&](std::size_t task) {
        const ChannelSpan part{task * together, std::min(channels, (task + 1) * together)};
        std::array<float, together> absmax{};
        std::array<double, together> count{};
        for_each_channel(batches, axis, channels, part, masks, [&](std::size_t c, std::span<const float> values) {
            float least = 0.0F;
            float greatest = 0.0F;
            float power = 0.0F;
            std::size_t nonzero = 0;
            for (const float x : values) {
                least = std::min(least, x);
                greatest = std::max(greatest, x);
                power += x * x;
                nonzero += x != 0.0F ? 1U : 0U;
            }
            result.lowest[c] = std::min(result.lowest[c], least);
            result.highest[c] = std::max(result.highest[c], greatest);
            count[c - part.first] += static_cast<double>(values.size());
            result.power[c] += static_cast<double>(power);
            result.nonzero[c] += static_cast<double>(nonzero);
        });
        for (std::size_t c = part.first; c < part.end; ++c)
            absmax[c - part.first] = std::max(result.highest[c], -result.lowest[c]);
        std::array<std::array<std::uint32_t, level_bins>, together> bins{};
        for_each_channel(batches, axis, channels, part, masks, [&](std::size_t c, std::span<const float> values) {
            const float largest = absmax[c - part.first];
            const float factor = largest > 0.0F ? static_cast<float>(level_bins) / largest : 0.0F;
            for (const float x : values)
                ++bins[c - part.first][std::min(level_bins - 1, static_cast<std::size_t>(std::abs(x) * factor))];
        });
        for (std::size_t c = part.first; c < part.end; ++c) {
            const double values = std::max(1.0, count[c - part.first]);
            result.level[c] = absmax[c - part.first] * best_level(bins[c - part.first], result.nonzero[c]);
            result.lowest[c] = std::max(result.lowest[c], -result.level[c]);
            result.highest[c] = std::min(result.highest[c], result.level[c]);
            result.power[c] /= values;
            result.nonzero[c] /= values;
        }
    });
    return result;
}

double predicted_noise(const std::vector<ReaderWeights>& readers, const std::vector<float>& factors) {
    const std::size_t channels = factors.size();
    double sum = 0.0;
    for (const ReaderWeights& reader : readers) {
        const ChannelStatistics& input = *reader.input;
        const double range = range_of(reader, factors);
        double signal = 0.0;
        double noise = 0.0;
        double scaled_power = 0.0;
        for (std::size_t c = 0; c < channels; ++c) {
            const auto s = static_cast<double>(factors[c]);
            signal += reader.power[c] * input.power[c];
            noise += reader.power[c] / (s * s) * input.nonzero[c];
            scaled_power += input.power[c] * s * s;
        }
        noise *= range * range / (12.0 * 255.0 * 255.0);
        if (!reader.depthwise) {
            for (std::size_t m = 0; m < reader.outputs; ++m) {
                float largest = 0.0F;
                for (std::size_t c = 0; c < channels; ++c)
                    largest = std::max(largest, reader.absmax[m * channels + c] / factors[c]);
                const double step = static_cast<double>(largest) / 127.0;
                noise += static_cast<double>(reader.taps) * scaled_power * step * step / 12.0;
            }
        }
        if (signal > 0.0) sum += noise / signal;
    }
    return sum;
}

std::vector<float> best_factors(const std::vector<ReaderWeights>& readers, std::size_t channels,
                                std::optional<float> cap) {
    std::vector<float> activation(channels, 0.0F);
    std::vector<float> seen(channels, 0.0F);
    std::vector<float> weights(channels, 0.0F);
    bool weights_matter = false;
    for (const ReaderWeights& reader : readers) {
        const std::vector<float> own = relative(reader.input->level);
        std::vector<float> columns(channels, 0.0F);
        for (std::size_t i = 0; i < reader.absmax.size(); ++i)
            columns[i % channels] = std::max(columns[i % channels], reader.absmax[i]);
        columns = relative(columns);
        weights_matter = weights_matter || !reader.depthwise;
        for (std::size_t c = 0; c < channels; ++c) {
            activation[c] = std::max(activation[c], own[c]);
            seen[c] = std::max(seen[c], reader.input->level[c]);
            weights[c] = std::max(weights[c], columns[c]);
        }
    }
    std::vector<float> best(channels, 1.0F);
    double least = predicted_noise(readers, best) * 0.99; // for less it is not worth touching the network
    for (const float a : {0.25F, 0.5F, 0.75F, 1.0F}) {
        for (const float b : {0.0F, 0.25F, 0.5F, 0.75F}) {
            if (b > 0.0F && !weights_matter) continue;
            std::vector<float> factors(channels, 1.0F);
            for (std::size_t c = 0; c < channels; ++c) {
                if (activation[c] <= 0.0F) continue;
                const float weight = weights[c] > 0.0F ? std::pow(weights[c], b) : 1.0F;
                factors[c] = std::clamp(std::pow(activation[c], -a) * weight, 1.0F / most, most);
                if (cap) factors[c] = std::max(1.0F, std::min(factors[c], *cap / seen[c]));
            }
            const double noise = predicted_noise(readers, factors);
            if (noise >= least) continue;
            least = noise;
            best = std::move(factors);
        }
    }
    return best;
}

Result<EqualizeOutcome> equalize(const Model& real, const std::map<std::string, Batches>& samples,
                                 const EqualizeOptions& options, Progress& progress) {
    EqualizeOutcome outcome;
    outcome.model = real;
    Model& model = outcome.model;
    if (Model inferred = model; infer_shapes(inferred)) model = std::move(inferred);
    std::vector<ChannelClass> classes = channel_classes(model);
    std::erase_if(classes, [&](const ChannelClass& each) {
        return each.normalized ? !options.normalizations : !options.convolutions;
    });
    if (!options.scaled_in_front.empty()) {
        std::ranges::move(scaled_inputs(model, classes, options.scaled_in_front), std::back_inserter(classes));
    }
    outcome.classes = classes.size();
    if (classes.empty()) return outcome;

    // Statistics of every input of a reader, in graph order.
    std::map<std::size_t, std::int64_t> axes; // by reader
    std::map<std::size_t, std::size_t> channels;
    for (const ChannelClass& each : classes) {
        for (const auto& reader : each.readers) {
            axes[reader.node] = model.graph.nodes[reader.node]->is("Conv") ? 1 : -1;
            channels[reader.node] = each.channels;
        }
    }
    std::map<std::string, ChannelStatistics> statistics; // by tensor
    const Masks masks = masks_of(samples);
    LATHE_TRY(Walk walk, Walk::start(real, samples, options.threads, progress));
    progress.begin("equalize", axes.size());
    const std::vector<std::pair<std::size_t, std::int64_t>> stops(axes.begin(), axes.end());
    constexpr std::size_t ahead = 8; // readers a stop
    for (std::size_t i = 0; i < stops.size(); ++i) {
        LATHE_CHECK(progress.check());
        if (i % ahead == 0) {
            const std::size_t end = std::min(stops.size(), i + ahead);
            std::set<std::string> inputs;
            for (std::size_t next = i; next < end; ++next)
                inputs.insert(model.graph.nodes[stops[next].first]->input(0));
            LATHE_CHECK(walk.stop_before(model.graph.nodes[stops[end - 1].first]->output(0), inputs));
        }
        const auto& [at, axis] = stops[i];
        const Node& reader = *model.graph.nodes[at];
        const Batches* values = walk.value(reader.input(0));
        if (values == nullptr || values->front().type != DataType::float32) {
            return Error{ErrorCode::internal, "a layer's input was not computed", reader.label(), ""};
        }
        if (!statistics.contains(reader.input(0))) {
            statistics[reader.input(0)] = channel_statistics(*values, axis, channels[at], options.threads, masks);
        }
        progress.advance();
    }
    progress.end();

    Scaler scaler(model);
    std::vector<std::pair<const ChannelClass*, std::vector<float>>> in_front; // nodes are put in when all is scaled
    for (const ChannelClass& each : classes) {
        std::vector<ReaderWeights> readers;
        for (const auto& reader : each.readers) {
            const Node& node = *model.graph.nodes[reader.node];
            if (std::ranges::find(options.stays_float, node.output(0)) != options.stays_float.end()) continue;
            readers.push_back(reader_weights(node, *model.graph.constant(node.input(1)), reader.depthwise,
                                             each.channels, statistics.at(node.input(0))));
            readers.back().both_signs = !each.value.empty();
        }
        if (readers.empty()) continue;
        const std::vector<float> factors = best_factors(readers, each.channels, each.cap);
        if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0F; })) continue;
        if (!each.value.empty()) {
            // A Mul is work, if little.
            constexpr double worth = 0.9;
            const double before = predicted_noise(readers, std::vector<float>(each.channels, 1.0F));
            if (predicted_noise(readers, factors) > worth * before) continue;
            in_front.emplace_back(&each, factors);
        }
        ++outcome.fired;
        outcome.noise_before += predicted_noise(readers, std::vector<float>(each.channels, 1.0F));
        outcome.noise_after += predicted_noise(readers, factors);
        for (const auto& writer : each.writers)
            scaler.scale_output(writer.node, factors);
        for (const auto& reader : each.readers)
            scaler.unscale_input(reader.node, factors);
    }
    outcome.in_front = in_front.size();
    std::vector<std::vector<Node*>> readers_of;
    for (const auto& [each, factors] : in_front) {
        std::vector<Node*>& readers = readers_of.emplace_back();
        for (const auto& reader : each->readers)
            readers.push_back(model.graph.nodes[reader.node].get());
    }
    for (std::size_t i = 0; i < in_front.size(); ++i)
        scale_in_front(model.graph, in_front[i].first->value, in_front[i].second, readers_of[i]);
    return outcome;
}

} // namespace lathe
