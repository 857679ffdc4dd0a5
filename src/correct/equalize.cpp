#include "correct/equalize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "correct/channel_statistics.hpp"
#include "correct/equalize_noise.hpp"
#include "correct/scaled_inputs.hpp"
#include "correct/walk.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

/// With one scale a weight: classes are gone through at most so often, and while the noise falls by a hundredth.
constexpr std::size_t most_sweeps = 8;

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
                             const ChannelStatistics& input, bool one_scale) {
    const WeightView view = view_of(node, weight.shape());
    const auto values = weight.values<float>();
    ReaderWeights reader;
    reader.depthwise = depthwise;
    reader.taps = view.taps;
    reader.input = &input;
    reader.one_scale = one_scale;
    reader.power.assign(channels, 0.0);
    reader.outputs = depthwise ? 1 : view.outputs / view.groups;
    const bool by_output = !depthwise && !one_scale;
    if (by_output) reader.outputs = view.outputs;
    if (by_output || one_scale) reader.absmax.assign((by_output ? view.outputs : 1) * channels, 0.0F);
    for (std::size_t m = 0; m < view.outputs; ++m) {
        for (std::size_t c = 0; c < view.inputs; ++c) {
            const std::size_t channel = view.channel(m, c);
            for (std::size_t tap = 0; tap < view.taps; ++tap) {
                const float w = values[view.at(m, c, tap)];
                reader.power[channel] += static_cast<double>(w) * static_cast<double>(w);
                if (reader.absmax.empty()) continue;
                float& largest = reader.absmax[(by_output ? m * channels : 0) + channel];
                largest = std::max(largest, std::abs(w));
            }
        }
    }
    return reader;
}

WriterWeights writer_weights(const Node& node, const Tensor& weight, const ChannelStatistics& input) {
    const WeightView view = view_of(node, weight.shape());
    const auto values = weight.values<float>();
    WriterWeights writer;
    writer.absmax.assign(view.outputs, 0.0F);
    writer.input_power.assign(view.outputs, 0.0);
    for (std::size_t m = 0; m < view.outputs; ++m) {
        for (std::size_t c = 0; c < view.inputs; ++c) {
            for (std::size_t tap = 0; tap < view.taps; ++tap) {
                writer.absmax[m] = std::max(writer.absmax[m], std::abs(values[view.at(m, c, tap)]));
                writer.input_power[m] += input.power[view.channel(m, c)];
            }
        }
    }
    return writer;
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

/// What the layers of the classes read, by tensor; follows the factors that are given to the model.
class Statistics {
public:
    /// Of the readers of `classes`, and of their writers too. `real` is run.
    static Result<Statistics> of(const Model& real, const Model& model, const std::vector<ChannelClass>& classes,
                                 bool writers, const std::map<std::string, Batches>& samples,
                                 const EqualizeOptions& options, Progress& progress) {
        std::map<std::size_t, std::size_t> layers; // channels of the input, by node
        for (const ChannelClass& each : classes) {
            for (const auto& reader : each.readers)
                layers[reader.node] = each.channels;
            for (const auto& writer : each.writers) {
                if (writers && !each.normalized) layers[writer.node] = inputs_of(model, writer.node);
            }
        }
        Statistics result;
        const Masks masks = masks_of(samples);
        LATHE_TRY(Walk walk, Walk::start(real, samples, options.threads, progress, options.spare));
        progress.begin("equalize", layers.size());
        const std::vector<std::pair<std::size_t, std::size_t>> stops(layers.begin(), layers.end());
        constexpr std::size_t ahead = 4; // layers a stop
        for (std::size_t i = 0; i < stops.size(); ++i) {
            LATHE_CHECK(progress.check());
            if (i % ahead == 0) {
                const std::size_t end = std::min(stops.size(), i + ahead);
                std::set<std::string> inputs;
                for (std::size_t next = i; next < end; ++next)
                    inputs.insert(model.graph.nodes[stops[next].first]->input(0));
                LATHE_CHECK(walk.stop_before(model.graph.nodes[stops[end - 1].first]->output(0), inputs));
            }
            const auto& [at, channels] = stops[i];
            const Node& layer = *model.graph.nodes[at];
            const Batches* values = walk.value(layer.input(0));
            if (values == nullptr || values->front().type != DataType::float32) {
                return Error{ErrorCode::internal, "a layer's input was not computed", layer.label(), ""};
            }
            if (!result.by_tensor_.contains(layer.input(0))) {
                result.by_tensor_[layer.input(0)] =
                    channel_statistics(*values, layer.is("Conv") ? 1 : -1, channels, options.threads, masks);
            }
            progress.advance();
        }
        progress.end();
        return result;
    }

    const ChannelStatistics& at(const std::string& tensor) const { return by_tensor_.at(tensor); }

    void scale(const std::set<std::string>& tensors, const std::vector<float>& factors) {
        for (const std::string& tensor : tensors) {
            ChannelStatistics& each = by_tensor_.at(tensor);
            for (std::size_t c = 0; c < factors.size(); ++c) {
                each.level[c] *= factors[c];
                each.absmax[c] *= factors[c];
                each.lowest[c] *= factors[c];
                each.highest[c] *= factors[c];
                each.power[c] *= static_cast<double>(factors[c]) * static_cast<double>(factors[c]);
            }
        }
    }

private:
    /// Channels of a layer's input.
    static std::size_t inputs_of(const Model& model, std::size_t at) {
        const Node& node = *model.graph.nodes[at];
        const WeightView view = view_of(node, model.graph.constant(node.input(1))->shape());
        return view.inputs * view.groups;
    }

    std::map<std::string, ChannelStatistics> by_tensor_;
};

class Equalizer {
public:
    Equalizer(Model& model, const std::vector<ChannelClass>& classes, Statistics statistics,
              const EqualizeOptions& options)
        : model_(model), classes_(classes), statistics_(std::move(statistics)), options_(options), scaler_(model),
          fired_(classes.size(), false) {}

    void run(EqualizeOutcome& outcome) {
        std::vector<double> before(classes_.size());
        for (std::size_t i = 0; i < classes_.size(); ++i)
            before[i] = noise_of(classes_[i]);
        if (one_scale()) {
            double noise = std::accumulate(before.begin(), before.end(), 0.0);
            for (std::size_t sweeps = 0; sweeps < most_sweeps; ++sweeps) {
                sweep();
                double now = 0.0;
                for (const ChannelClass& each : classes_)
                    now += noise_of(each);
                if (now > 0.99 * noise) break;
                noise = now;
            }
        } else {
            sweep();
        }
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            if (!fired_[i]) continue;
            ++outcome.fired;
            outcome.noise_before += before[i];
            outcome.noise_after += noise_of(classes_[i]);
        }
        outcome.in_front = in_front_.size();
        put_in_front();
    }

private:
    bool one_scale() const { return options_.weights == WeightGranularity::per_tensor; }

    bool quantized(const Node& layer) const {
        return std::ranges::find(options_.stays_float, layer.output(0)) == options_.stays_float.end();
    }

    ClassWeights weights_of(const ChannelClass& each) const {
        ClassWeights layers;
        const bool halved = options_.activations == ActivationScheme::symmetric &&
                            std::ranges::none_of(each.values, [&](const std::string& value) {
                                return options_.from_zero.contains(value);
                            });
        layers.activation_steps = halved ? 127.0 : 255.0;
        for (const auto& reader : each.readers) {
            const Node& node = *model_.graph.nodes[reader.node];
            if (!quantized(node)) continue;
            layers.readers.push_back(reader_weights(node, *model_.graph.constant(node.input(1)), reader.depthwise,
                                                    each.channels, statistics_.at(node.input(0)), one_scale()));
            layers.readers.back().both_signs = !each.value.empty();
        }
        for (const auto& writer : each.writers) {
            const Node& node = *model_.graph.nodes[writer.node];
            if (!one_scale() || each.normalized || !quantized(node)) continue;
            layers.writers.push_back(
                writer_weights(node, *model_.graph.constant(node.input(1)), statistics_.at(node.input(0))));
        }
        return layers;
    }

    double noise_of(const ChannelClass& each) const {
        return predicted_noise(weights_of(each), std::vector<float>(each.channels, 1.0F));
    }

    /// Nodes are put in when all is scaled: classes know theirs by place.
    void put_in_front() {
        std::vector<std::vector<Node*>> readers;
        for (const auto& [i, factors] : in_front_) {
            std::vector<Node*>& of_class = readers.emplace_back();
            for (const auto& reader : classes_[i].readers)
                of_class.push_back(model_.graph.nodes[reader.node].get());
        }
        std::size_t place = 0;
        for (const auto& [i, factors] : in_front_)
            scale_in_front(model_.graph, classes_[i].value, factors, readers[place++]);
    }

    /// Every class in turn takes its best factors.
    void sweep() {
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            const ChannelClass& each = classes_[i];
            const ClassWeights layers = weights_of(each);
            if (layers.readers.empty()) continue;
            const std::vector<float> factors = best_factors(layers, each.channels, each.cap);
            if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0F; })) continue;
            if (!each.value.empty()) {
                // A Mul is work, if little.
                constexpr double worth = 0.9;
                const double before = predicted_noise(layers, std::vector<float>(each.channels, 1.0F));
                if (!fired_[i] && predicted_noise(layers, factors) > worth * before) continue;
                std::vector<float>& so_far = in_front_.try_emplace(i, each.channels, 1.0F).first->second;
                std::ranges::transform(so_far, factors, so_far.begin(), std::multiplies<>());
            }
            fired_[i] = true;
            for (const auto& writer : each.writers)
                scaler_.scale_output(writer.node, factors);
            std::set<std::string> read;
            for (const auto& reader : each.readers) {
                scaler_.unscale_input(reader.node, factors);
                read.insert(model_.graph.nodes[reader.node]->input(0));
            }
            statistics_.scale(read, factors);
        }
    }

    Model& model_;
    const std::vector<ChannelClass>& classes_;
    Statistics statistics_;
    const EqualizeOptions& options_;
    Scaler scaler_;
    std::vector<bool> fired_;
    std::map<std::size_t, std::vector<float>> in_front_; ///< factors that a Mul takes, by class
};

} // namespace

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
    outcome.left = std::erase_if(classes, [&](const ChannelClass& each) {
        return std::ranges::any_of(options.stays_as_is, [&](const std::string& value) {
            return each.value == value || std::ranges::binary_search(each.values, value);
        });
    });
    outcome.classes = classes.size();
    if (classes.empty()) return outcome;
    const bool writers = options.weights == WeightGranularity::per_tensor;
    LATHE_TRY(Statistics statistics, Statistics::of(real, model, classes, writers, samples, options, progress));
    Equalizer(model, classes, std::move(statistics), options).run(outcome);
    return outcome;
}

} // namespace lathe
