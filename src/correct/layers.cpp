#include "correct/layers.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "correct/as_run.hpp"
#include "correct/bias.hpp"
#include "correct/layer.hpp"
#include "correct/layer_error.hpp"
#include "correct/layer_look.hpp"
#include "correct/quantized_layer.hpp"
#include "correct/rounding.hpp"
#include "correct/walk.hpp"
#include "quantize/ops.hpp"
#include "support/thread_pool.hpp"

namespace lathe {
namespace {

class Corrector {
public:
    Corrector(const Model& real, const LayerCorrection& options, Masks masks, Walk& walk, Walk* quantized_walk,
              Model& quantized, Model* nearest)
        : index_(real.graph), options_(options), masks_(std::move(masks)), walk_(walk), quantized_walk_(quantized_walk),
          quantized_(quantized), nearest_(nearest), product_(options.threads) {
        if (quantized_walk != nullptr) quantized_index_.emplace(quantized_walk->model().graph);
    }

    /// Runs the float network up to the last of `layers`, which must be in graph order: what correct() needs of it.
    Result<void> look_ahead(std::span<const QuantizedLayer> layers) {
        std::set<std::string> wanted;
        std::string last;
        for (const QuantizedLayer& layer : layers) {
            const auto twin = index_.producer(layer.output);
            if (!twin) continue;
            wanted.insert(index_.node(*twin).input(0));
            wanted.insert(behind(index_, index_.node(*twin)).other);
            last = layer.output;
        }
        if (last.empty()) return {};
        return walk_.stop_before(last, wanted);
    }

    Result<CorrectedLayer> correct(const QuantizedLayer& layer) {
        CorrectedLayer told;
        told.node = layer.label;
        told.op_type = layer.op_type;
        const auto twin = float_layer(index_, layer.output, told.skipped);
        if (!twin) return told;
        const LinearLayer& form = twin->form;
        if (quantized_walk_ != nullptr) LATHE_CHECK(quantized_walk_->stop_before(layer.output));
        const Batches* real = walk_.value(twin->node->input(0));
        if (real == nullptr || real->front().type != DataType::float32) {
            told.skipped = "its input is no float32 value of the network";
            return told;
        }
        const Positions positions = choose_positions(form, *real, options_.positions, masks_);
        if (positions.at.empty()) {
            told.skipped = "it computes nothing";
            return told;
        }
        const auto [fit, check] = options_.rounding ? split_by_sample(positions) : std::pair(positions, Positions{});
        const Place place = place_of(layer, *twin->node, form, *real);
        LATHE_CHECK(solve(layer, form, rows_of_weight(form, twin->weight.values<float>()), place, fit, check, told));
        return told;
    }

private:
    /// Where a layer's outputs go.
    struct Place {
        const Batches* inputs = nullptr; ///< in the float network
        Behind behind;
        bool takes_shift = false;       ///< its bias can be corrected
        std::vector<float> bias;        ///< zeros where there is none
        const Batches* other = nullptr; ///< the sum's other term; null without one
        const Batches* quantized_other = nullptr;
    };

    /// Of a sum's two terms the one that is computed last takes the shift: then the other is known.
    Place place_of(const QuantizedLayer& layer, const Node& twin, const LinearLayer& form,
                   const Batches& inputs) const {
        Place place;
        place.inputs = &inputs;
        place.bias = layer.bias ? layer.bias->values : std::vector<float>(form.channels(), 0.0F);
        place.takes_shift = layer.bias.has_value();
        place.behind = behind(index_, twin);
        if (place.behind.other.empty()) {
            if (!place.takes_shift) place.behind.clamp = {}; // where it cuts depends on a bias that is not known
            return place;
        }
        place.takes_shift = false;
        const Clamp clamp = std::exchange(place.behind.clamp, {}); // without the other term it says nothing
        if (form.kind != LinearLayer::Kind::conv || quantized_walk_ == nullptr) return place;
        const EdgeIndex& index = *quantized_index_;
        const auto sum = index.only_reader(layer.output);
        if (!sum || !index.node(sum->node).is("Add")) return place;
        const Batches* other = walk_.value(place.behind.other);
        const Batches* quantized_other = quantized_walk_->value(index.node(sum->node).input(1 - sum->input));
        if (!like_outputs(form, inputs, other) || !like_outputs(form, inputs, quantized_other)) return place;
        place.other = other;
        place.quantized_other = quantized_other;
        place.behind.clamp = clamp;
        place.takes_shift = layer.bias.has_value();
        return place;
    }

    /// Has an element for every element of the layer's output.
    static bool like_outputs(const LinearLayer& form, const Batches& inputs, const Batches* values) {
        if (values == nullptr || values->size() != inputs.size()) return false;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const auto size = window_places(form, inputs[i].shape).output;
            Shape shape{inputs[i].shape[0], static_cast<std::int64_t>(form.channels())};
            shape.insert(shape.end(), inputs[i].shape.size() == 3 ? size.begin() + 1 : size.begin(), size.end());
            if (values->at(i).type != DataType::float32 || values->at(i).shape != shape) return false;
        }
        return true;
    }

    Result<LayerLook> look_at(const QuantizedLayer& layer, const LinearLayer& form, std::span<const float> weight,
                              const Place& place, const Positions& positions) {
        LayerLook look;
        look.rows.positions = positions.at.size();
        look.rows.real = gather_rows(form, *place.inputs, positions, options_.threads);
        if (quantized_walk_ == nullptr) {
            look.rows.quantized = look.rows.real;
            if (layer.input) layer.input->apply(look.rows.quantized);
        } else {
            const Batches* values = quantized_walk_->value(layer.input_name);
            if (values == nullptr || values->front().type != DataType::float32) {
                return Error{ErrorCode::internal, "the quantised network does not give the layer's input", layer.label,
                             ""};
            }
            look.rows.quantized = gather_rows(form, *values, positions, options_.threads);
        }
        if (place.other != nullptr) {
            look.real_other = gather_outputs(*place.other, positions, form.channels(), options_.threads);
            look.quantized_other = gather_outputs(*place.quantized_other, positions, form.channels(), options_.threads);
        }
        LATHE_TRY(look.wanted, outputs_of(form, look, weight, place.bias, true, product_));
        return look;
    }

    /// A layer's weights in steps, in float, and what they give.
    struct Choice {
        std::vector<std::int8_t> steps; ///< [channels, depth]
        std::vector<float> weight;
        std::vector<float> outputs; ///< at the positions looked at
        std::vector<double> shifts; ///< of the bias
    };

    Result<void> weigh(const QuantizedLayer& layer, const LinearLayer& form, const LayerLook& look, const Place& place,
                       Choice& choice) {
        choice.weight.resize(choice.steps.size());
        for (std::size_t i = 0; i < choice.steps.size(); ++i)
            choice.weight[i] = layer.scale_of(i / form.depth) * static_cast<float>(choice.steps[i]);
        LATHE_TRY(choice.outputs, outputs_of(form, look, choice.weight, place.bias, false, product_));
        choice.shifts.assign(form.channels(), 0.0);
        if (options_.bias) { // where the bias cannot take it, the error is looked at without its mean
            choice.shifts = bias_shifts(look, choice.outputs, place.behind.clamp, form.channels(), options_.threads);
        }
        return {};
    }

    Result<void> solve(const QuantizedLayer& layer, const LinearLayer& form, std::span<const float> real,
                       const Place& place, const Positions& fit, const Positions& check, CorrectedLayer& told) {
        LATHE_TRY(const LayerLook look, look_at(layer, form, real, place, fit));
        Choice choice;
        choice.steps = rows_of_weight(form, std::span(layer.steps));
        LATHE_CHECK(weigh(layer, form, look, place, choice));
        if (nearest_ != nullptr && options_.bias && place.takes_shift) {
            put_bias(nearest_->graph, layer, shifted(place.bias, choice.shifts));
        }
        if (options_.rounding) {
            LATHE_CHECK(try_rounding(layer, form, real, place, look, check, choice, told));
        }
        if (told.rounded) {
            std::vector<std::int8_t> stored(choice.steps.size());
            for (std::size_t m = 0; m < form.channels(); ++m) {
                for (std::size_t k = 0; k < form.depth; ++k)
                    stored[form.weight_at(m, k)] = choice.steps[m * form.depth + k];
            }
            set_constant(Tensor::of<std::int8_t>(layer.weight, DataType::int8, layer.shape, stored));
        }
        if (options_.bias) set_bias(layer, place, choice.shifts, told);
        return {};
    }

    /// Rounds the weights anew, and leaves them so if the error on samples that they were not chosen on falls.
    Result<void> try_rounding(const QuantizedLayer& layer, const LinearLayer& form, std::span<const float> real,
                              const Place& place, const LayerLook& look, const Positions& check, Choice& choice,
                              CorrectedLayer& told) {
        told.too_few = look.rows.positions < options_.positions_per_element * form.depth;
        if (told.too_few) return {};
        std::vector<float> change(real.size());
        for (std::size_t i = 0; i < change.size(); ++i)
            change[i] = choice.weight[i] - real[i];
        LATHE_TRY(LayerError error, measure_layer(form, look.rows, real, change, options_.damping, options_.threads));
        Choice rounded;
        rounded.steps = choice.steps;
        round(layer, form, real, error, rounded.steps, told);
        if (told.moved == 0.0) return {};
        LATHE_CHECK(weigh(layer, form, look, place, rounded));
        if (!check.at.empty()) {
            LATHE_TRY(const LayerLook other, look_at(layer, form, real, place, check));
            const auto error_with = [&](const Choice& with) -> Result<double> {
                LATHE_TRY(const std::vector<float> outputs,
                          outputs_of(form, other, with.weight, place.bias, false, product_));
                return error_of(other, outputs, place.behind.clamp, with.shifts, options_.threads);
            };
            LATHE_TRY(const double before, error_with(choice));
            LATHE_TRY(const double after, error_with(rounded));
            told.check_fall = before > 0.0 ? 1.0 - after / before : 0.0;
            if (!(after < before)) return {};
        }
        told.rounded = true;
        choice = std::move(rounded);
        return {};
    }

    void round(const QuantizedLayer& layer, const LinearLayer& form, std::span<const float> real, LayerError& error,
               std::vector<std::int8_t>& steps, CorrectedLayer& told) const {
        RoundingOptions how;
        how.sweeps = options_.sweeps;
        how.limit = layer.limit;
        const std::int64_t positions = form.kind == LinearLayer::Kind::conv ? form.kernel[0] * form.kernel[1] : 1;
        const auto inputs = static_cast<std::int64_t>(form.depth) / positions;
        const WeightPairs pairs({static_cast<std::int64_t>(form.channels()), inputs, positions}, 1);
        if (pairs.fit(steps)) how.pairs = pairs;
        std::vector<float> scales(form.channels());
        for (std::size_t m = 0; m < scales.size(); ++m)
            scales[m] = layer.scale_of(m);
        const std::vector<std::int8_t> before = steps;
        constexpr std::size_t most = 16; // channels whose gradients stay in the cache while a row of H is read once
        const std::size_t blocks = (form.outputs + most - 1) / most;
        std::vector<double> falls(form.channels(), 0.0);
        ThreadPool(options_.threads).for_each(form.groups * blocks, [&](std::size_t block) {
            const std::size_t group = block / blocks;
            const std::size_t first = group * form.outputs + block % blocks * most;
            const std::size_t count = std::min(most, (group + 1) * form.outputs - first);
            const std::size_t at = first * form.depth;
            const std::size_t size = count * form.depth;
            const std::size_t square = form.depth * form.depth;
            const ChannelBlock channels{real.subspan(at, size), std::span(scales).subspan(first, count),
                                        std::span(steps).subspan(at, size),
                                        std::span(error.gradient).subspan(at, size)};
            const std::vector<double> fell =
                round_channels(std::span(error.hessian).subspan(group * square, square), channels, how);
            std::ranges::copy(fell, falls.begin() + static_cast<std::ptrdiff_t>(first));
        });
        std::size_t moved = 0;
        for (std::size_t i = 0; i < steps.size(); ++i)
            moved += steps[i] != before[i] ? 1U : 0U;
        told.moved = static_cast<double>(moved) / static_cast<double>(steps.size());
    }

    void set_bias(const QuantizedLayer& layer, const Place& place, std::span<const double> shifts,
                  CorrectedLayer& told) {
        if (!place.takes_shift) {
            const char* const why = layer.bias ? "its sum with another layer decides" : "it has no bias";
            if (!told.rounded) told.skipped = why;
            return;
        }
        const Tensor& bias = put_bias(quantized_.graph, layer, shifted(place.bias, shifts));
        if (quantized_walk_ != nullptr) {
            quantized_walk_->set_constant(bias);
            quantized_walk_->set_input(quantized_.graph.nodes[layer.bias->node]->output(0), layer.bias->input,
                                       bias.name);
        }
        told.bias = true;
        const double squares = std::inner_product(shifts.begin(), shifts.end(), shifts.begin(), 0.0);
        told.bias_shift = std::sqrt(squares / static_cast<double>(shifts.size()));
    }

    static std::vector<float> shifted(std::vector<float> bias, std::span<const double> shifts) {
        for (std::size_t m = 0; m < bias.size(); ++m)
            bias[m] += static_cast<float>(shifts[m]);
        return bias;
    }

    void set_constant(const Tensor& tensor) {
        quantized_.graph.initializers.insert_or_assign(tensor.name, tensor);
        if (quantized_walk_ != nullptr) quantized_walk_->set_constant(tensor);
    }

    const EdgeIndex index_;
    const LayerCorrection& options_;
    Masks masks_;
    Walk& walk_;
    Walk* quantized_walk_;
    std::optional<EdgeIndex> quantized_index_; ///< of the walk's graph
    Model& quantized_;
    Model* nearest_; ///< gets biases alone; may be nullptr
    LayerProduct product_;
};

/// Layers with int8 weights that are none of `layers`, and why.
std::vector<CorrectedLayer> without_form(const Graph& graph, std::span<const QuantizedLayer> layers) {
    const EdgeIndex index(graph);
    std::set<std::string> known;
    for (const QuantizedLayer& layer : layers)
        known.insert(layer.output);
    std::vector<CorrectedLayer> told;
    for (const auto& node : graph.nodes) {
        if (!is_heavy(*node) || known.contains(node->output(0))) continue;
        const auto producer = index.producer(node->input(1));
        if (!producer || !index.node(*producer).is("DequantizeLinear")) continue;
        if (graph.constant(index.node(*producer).input(0)) == nullptr) continue;
        CorrectedLayer& layer = told.emplace_back();
        layer.node = node->label();
        layer.op_type = node->op_type;
        layer.skipped = node->is("ConvTranspose") ? node->op_type : "others read its weight too";
    }
    return told;
}

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
                                                   const LayerCorrection& options, Progress& progress, Model* nearest) {
    const std::vector<QuantizedLayer> layers = quantized_layers(quantized);
    std::vector<CorrectedLayer> told;
    LATHE_TRY(Walk walk, Walk::start(real, samples, options.threads, progress, options.spare));
    std::optional<Walk> quantized_walk;
    if (options.inputs == LayerInputs::network_error) {
        LATHE_TRY(quantized_walk,
                  Walk::start(as_run(quantized, target), samples, options.threads, progress, options.spare));
    }
    Corrector corrector(real, options, masks_of(samples), walk, quantized_walk ? &*quantized_walk : nullptr, quantized,
                        nearest);
    progress.begin("correct layers", layers.size());
    std::vector<std::string> old_biases;
    constexpr std::size_t ahead = 4;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const QuantizedLayer& layer = layers[i];
        LATHE_CHECK(progress.check());
        if (i % ahead == 0)
            LATHE_CHECK(corrector.look_ahead(std::span(layers).subspan(i, std::min(ahead, layers.size() - i))));
        auto outcome = corrector.correct(layer);
        if (!outcome) return std::move(outcome).error().in(layer.label);
        if (outcome->bias) old_biases.push_back(layer.bias->name);
        told.push_back(*std::move(outcome));
        progress.advance();
    }
    progress.end();
    std::ranges::move(without_form(quantized.graph, layers), std::back_inserter(told));
    remove_unread_constants(quantized.graph, old_biases);
    if (nearest != nullptr) remove_unread_constants(nearest->graph, old_biases);
    return told;
}

} // namespace lathe
