#include "correct/layers.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "correct/as_run.hpp"
#include "correct/bias.hpp"
#include "correct/layer.hpp"
#include "correct/layer_error.hpp"
#include "correct/quantized_layer.hpp"
#include "correct/rounding.hpp"
#include "correct/walk.hpp"
#include "quantize/ops.hpp"
#include "support/thread_pool.hpp"

namespace lathe {
namespace {

class Corrector {
public:
    Corrector(const Model& real, const LayerCorrection& options, Walk& walk, Walk* quantized_walk, Model& quantized)
        : real_(real), index_(real.graph), options_(options), walk_(walk), quantized_walk_(quantized_walk),
          quantized_(quantized) {}

    Result<CorrectedLayer> correct(const QuantizedLayer& layer) {
        CorrectedLayer told{layer.label, layer.op_type, false, false, 0.0, 0.0, 0.0, ""};
        const Node* twin = twin_of(layer.output);
        const Tensor* weight = twin == nullptr ? nullptr : weight_of(*twin);
        if (weight == nullptr) {
            told.skipped = "the float model has no such layer";
            return told;
        }
        const auto form = linear_layer(*twin, weight->shape(), told.skipped);
        if (!form) return told;
        LATHE_CHECK(walk_.stop_before(layer.output));
        if (quantized_walk_ != nullptr) LATHE_CHECK(quantized_walk_->stop_before(layer.output));
        const Batches* real = walk_.value(twin->inputs[0]);
        if (real == nullptr || real->front().type != DataType::float32) {
            told.skipped = "its input is no float32 value of the network";
            return told;
        }
        const Positions positions = choose_positions(*form, *real, options_.positions);
        LayerRows rows;
        rows.positions = positions.at.size();
        if (rows.positions == 0) {
            told.skipped = "it computes nothing";
            return told;
        }
        rows.real = gather_rows(*form, *real, positions, options_.threads);
        LATHE_CHECK(gather_quantized(layer, *form, positions, rows));
        LATHE_CHECK(solve(layer, *form, *weight, rows, told));
        return told;
    }

private:
    const Node* twin_of(const std::string& output) const {
        const auto found = std::ranges::find_if(
            real_.graph.nodes, [&](const auto& node) { return is_heavy(*node) && node->output(0) == output; });
        return found == real_.graph.nodes.end() ? nullptr : found->get();
    }

    const Tensor* weight_of(const Node& twin) {
        const Constant constant = resolve_constant(real_.graph, twin.input(1));
        const auto* tensor = std::get_if<Tensor>(&constant);
        if (tensor == nullptr || tensor->type() != DataType::float32) return nullptr;
        weight_ = *tensor;
        return &weight_;
    }

    Result<void> gather_quantized(const QuantizedLayer& layer, const LinearLayer& form, const Positions& positions,
                                  LayerRows& rows) {
        if (quantized_walk_ == nullptr) {
            rows.quantized = rows.real;
            if (layer.input) layer.input->apply(rows.quantized);
            return {};
        }
        const Batches* values = quantized_walk_->value(layer.input_name);
        if (values == nullptr || values->front().type != DataType::float32) {
            return Error{ErrorCode::internal, "the quantised network does not give the layer's input", layer.label, ""};
        }
        rows.quantized = gather_rows(form, *values, positions, options_.threads);
        return {};
    }

    Result<void> solve(const QuantizedLayer& layer, const LinearLayer& form, const Tensor& weight,
                       const LayerRows& rows, CorrectedLayer& told) {
        const std::vector<float> real = rows_of_weight(form, weight.values<float>());
        std::vector<std::int8_t> steps(real.size());
        std::vector<float> change(real.size());
        for (std::size_t m = 0; m < form.channels(); ++m) {
            for (std::size_t k = 0; k < form.depth; ++k) {
                const std::size_t at = m * form.depth + k;
                steps[at] = layer.steps[form.weight_at(m, k)];
                change[at] = layer.scale_of(m) * static_cast<float>(steps[at]) - real[at];
            }
        }
        if (options_.rounding) {
            LATHE_TRY(LayerError error, measure_layer(form, rows, real, change, options_.damping, options_.threads));
            round(layer, form, real, error, steps, told);
            std::vector<std::int8_t> stored(steps.size());
            for (std::size_t m = 0; m < form.channels(); ++m) {
                for (std::size_t k = 0; k < form.depth; ++k)
                    stored[form.weight_at(m, k)] = steps[m * form.depth + k];
            }
            set_constant(Tensor::of<std::int8_t>(layer.weight, DataType::int8, layer.shape, stored));
        }
        if (!options_.bias) return {};
        for (std::size_t i = 0; i < change.size(); ++i)
            change[i] = layer.scale_of(i / form.depth) * static_cast<float>(steps[i]);
        return correct_bias(layer, form, rows, real, change, told);
    }

    void round(const QuantizedLayer& layer, const LinearLayer& form, std::span<const float> real, LayerError& error,
               std::vector<std::int8_t>& steps, CorrectedLayer& told) const {
        RoundingOptions options;
        options.sweeps = options_.sweeps;
        const std::vector<std::int8_t> before = steps;
        std::vector<double> falls(form.channels(), 0.0);
        std::vector<double> noise(form.channels(), 0.0);
        ThreadPool(options_.threads).for_each(form.channels(), [&](std::size_t m) {
            const std::size_t group = m / form.outputs;
            const std::size_t first = m * form.depth;
            const OutputError of{
                form.depth, std::span(error.hessian).subspan(group * form.depth * form.depth, form.depth * form.depth),
                std::span(error.pull).subspan(first, form.depth)};
            const float scale = layer.scale_of(m);
            const std::span<float> gradient = std::span(error.gradient).subspan(first, form.depth);
            // d^T H d, from the gradient H d - b.
            for (std::size_t k = 0; k < form.depth; ++k) {
                const double d = static_cast<double>(scale) * steps[first + k] - static_cast<double>(real[first + k]);
                noise[m] += d * static_cast<double>(gradient[k] + of.pull[k]);
            }
            RoundingOptions own = options;
            own.limit = layer.limit;
            falls[m] = round_channel(of, real.subspan(first, form.depth), scale,
                                     std::span(steps).subspan(first, form.depth), gradient, own);
        });
        std::size_t moved = 0;
        for (std::size_t i = 0; i < steps.size(); ++i)
            moved += steps[i] != before[i] ? 1U : 0U;
        double fall = 0.0;
        double all = 0.0;
        for (std::size_t m = 0; m < falls.size(); ++m) {
            fall += falls[m];
            all += noise[m];
        }
        told.rounded = true;
        told.moved = static_cast<double>(moved) / static_cast<double>(steps.size());
        told.error_fall = all > 0.0 ? fall / all : 0.0;
    }

    /// `weight` and `quantized`: [channels, depth], in float.
    Result<void> correct_bias(const QuantizedLayer& layer, const LinearLayer& form, const LayerRows& rows,
                              std::span<const float> weight, std::span<const float> quantized, CorrectedLayer& told) {
        const auto clamp = clamp_behind(index_, *twin_of(layer.output));
        if (!layer.bias || !clamp) {
            const char* const why = layer.bias ? "its sum with another layer decides" : "it has no bias";
            if (!told.rounded) told.skipped = why;
            return {};
        }
        LATHE_TRY(std::vector<float> real, layer_outputs(form, rows.real, rows.positions, weight, options_.threads));
        LATHE_TRY(std::vector<float> given,
                  layer_outputs(form, rows.quantized, rows.positions, quantized, options_.threads));
        std::vector<float> bias = layer.bias->values;
        std::vector<double> shifts(form.channels(), 0.0);
        ThreadPool(options_.threads).for_each(form.channels(), [&](std::size_t m) {
            const auto y = std::span(real).subspan(m * rows.positions, rows.positions);
            const auto z = std::span(given).subspan(m * rows.positions, rows.positions);
            for (std::size_t i = 0; i < y.size(); ++i) {
                y[i] += bias[m];
                z[i] += bias[m];
            }
            shifts[m] = bias_shift(y, z, *clamp);
        });
        double squares = 0.0;
        for (std::size_t m = 0; m < form.channels(); ++m) {
            bias[m] += static_cast<float>(shifts[m]);
            squares += shifts[m] * shifts[m];
        }
        const std::string name = quantized_.graph.unique_name(layer.label + "_bias_corrected");
        set_constant(Tensor::of_floats(name, layer.bias->shape, bias));
        set_input(layer.bias->node, layer.bias->input, name);
        told.bias = true;
        told.bias_shift = std::sqrt(squares / static_cast<double>(form.channels()));
        return {};
    }

    void set_constant(const Tensor& tensor) {
        quantized_.graph.initializers.insert_or_assign(tensor.name, tensor);
        if (quantized_walk_ != nullptr) quantized_walk_->set_constant(tensor);
    }
    void set_input(std::size_t node, std::size_t input, const std::string& value) {
        auto& inputs = quantized_.graph.nodes.at(node)->inputs;
        if (inputs.size() <= input) inputs.resize(input + 1);
        inputs[input] = value;
        if (quantized_walk_ != nullptr) {
            quantized_walk_->set_input(quantized_.graph.nodes[node]->output(0), input, value);
        }
    }

    const Model& real_;
    const EdgeIndex index_;
    const LayerCorrection& options_;
    Walk& walk_;
    Walk* quantized_walk_;
    Model& quantized_;
    Tensor weight_;
};

void remove_unread_constants(Graph& graph, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        const bool read = std::ranges::any_of(
            graph.nodes, [&](const auto& node) { return std::ranges::find(node->inputs, name) != node->inputs.end(); });
        if (!read && graph.find_input(name) == nullptr && !graph.is_output(name)) graph.initializers.erase(name);
    }
}

} // namespace

Result<std::vector<CorrectedLayer>> correct_layers(const Model& real, Model& quantized, Target target,
                                                   const std::map<std::string, Batches>& samples,
                                                   const LayerCorrection& options, Progress& progress) {
    const std::vector<QuantizedLayer> layers = quantized_layers(quantized);
    std::vector<CorrectedLayer> told;
    LATHE_TRY(Walk walk, Walk::start(real, samples, options.threads));
    std::optional<Walk> quantized_walk;
    if (options.inputs == LayerInputs::network_error) {
        LATHE_TRY(quantized_walk, Walk::start(as_run(quantized, target), samples, options.threads));
    }
    Corrector corrector(real, options, walk, quantized_walk ? &*quantized_walk : nullptr, quantized);
    progress.begin("correct layers", layers.size());
    std::vector<std::string> old_biases;
    for (const QuantizedLayer& layer : layers) {
        LATHE_CHECK(progress.check());
        auto outcome = corrector.correct(layer);
        if (!outcome) return std::move(outcome).error().in(layer.label);
        if (outcome->bias) old_biases.push_back(layer.bias->name);
        told.push_back(*std::move(outcome));
        progress.advance();
    }
    progress.end();
    remove_unread_constants(quantized.graph, old_biases);
    return told;
}

} // namespace lathe
