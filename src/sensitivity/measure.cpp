#include "sensitivity/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "evaluate/task_judge.hpp"
#include "onnx/macs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"
#include "quantize/quantize.hpp"
#include "sensitivity/differences.hpp"
#include "sensitivity/journal.hpp"
#include "sensitivity/noisy_output.hpp"
#include "sensitivity/only_layers.hpp"
#include "sensitivity/piece.hpp"
#include "sensitivity/segments.hpp"
#include "support/clock.hpp"
#include "support/machine.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

/// Largest difference between the segments' result and the whole model's, over the largest magnitude.
constexpr double tolerance = 1e-3;
/// The whole float model is timed once in so many batches: it is for a figure in the report only.
constexpr std::size_t batches_a_timing = 8;

std::string role_of(const Model& model, std::size_t index, bool first, bool last) {
    const Node& node = *model.graph.nodes[index];
    const bool convolution = node.is("Conv") || node.is("ConvTranspose");
    if (last) return convolution ? "last convolution" : "classifier";
    if (first && convolution) return "first convolution";
    if (!convolution) return node.is("MatMul") ? "matrix product" : "linear layer";
    const Tensor* weight = model.graph.constant(node.input(1));
    if (weight == nullptr || weight->shape().size() < 3) return "convolution";
    const Shape& shape = weight->shape();
    if (node.int_or("group", 1) > 1 && shape[1] == 1) return "depthwise convolution";
    std::string size;
    for (std::size_t i = 2; i < shape.size(); ++i)
        size += (i > 2 ? "x" : "") + std::to_string(shape[i]);
    return size + " convolution";
}

/// A layer's own segment, with the layer quantised.
struct QuantisedLayer {
    std::size_t layer = 0; ///< index into Sensitivity::layers
    Piece own;
    std::optional<std::size_t> rest; ///< index into Measurement::rests_ of what follows
};

class Measurement {
public:
    Measurement(const Model& model, const RangesFile& ranges, Dataset& data, const Backend& backend,
                const SensitivityOptions& options, Progress& progress)
        : model_(model), ranges_(ranges), data_(data), backend_(backend), options_(options), progress_(progress),
          journal_(options.judging == nullptr ? options.journal : std::filesystem::path(), options.key) {}

    Result<Sensitivity> run() {
        start_ = Clock::now();
        if (options_.judging != nullptr) {
            if (options_.judging->one_sample) {
                return Error{ErrorCode::unsupported, "the outputs have no axis for the sample", model_.graph.name,
                             "judge by --metric sqnr, or by engines with lathe eval"};
            }
            judge_ = options_.judging->make();
            result_.task = options_.judging->task;
            result_.task_metric = options_.judging->metric;
            result_.task_labelled = options_.judging->labelled;
        }
        result_.batch_size = runnable_batch(model_, options_.batch_size, options_.threads);
        rules_.weight_range = range_for_this_cpu(profile_of(options_.target));
        Model raised = model_;
        LATHE_TRY(const std::int64_t converted_from, raise_opset(raised));
        static_cast<void>(converted_from); // what is quantised whole tells it
        LATHE_TRY(fixed_, with_fixed_shapes(raised, result_.batch_size, options_.length));
        LATHE_CHECK(choose_output());
        LATHE_CHECK(list_layers());
        LATHE_CHECK(resume());
        LATHE_CHECK(compile());
        LATHE_CHECK(measure());
        return std::move(result_);
    }

private:
    Result<void> choose_output() {
        const auto& outputs = fixed_.graph.outputs;
        output_ = options_.output_name.empty() && !outputs.empty() ? outputs.front().name : options_.output_name;
        if (fixed_.graph.find_output(output_) != nullptr) return {};
        return Error{ErrorCode::not_found, "the model has no output '" + output_ + "'", model_.graph.name,
                     "see its outputs with lathe inspect"};
    }

    Result<void> list_layers() {
        LATHE_TRY(const QuantizationPlan plan, plan_quantization(fixed_, profile_of(options_.target)));
        rules_.from_zero = tensors_from_zero(plan);
        std::unordered_map<std::size_t, const EdgeDecision*> decisions; // of the first input
        for (const EdgeDecision& decision : plan.decisions) {
            if (decision.edge.input == 0 && decision.reason != Reason::inside_subgraph)
                decisions[decision.edge.node] = &decision;
        }
        const auto& nodes = fixed_.graph.nodes;
        std::vector<std::size_t> heavy;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (is_heavy(*nodes[i])) heavy.push_back(i);
        }
        const auto lookup = [&](const std::string& value) { return fixed_.graph.info(value); };
        for (const std::size_t i : heavy) {
            LayerSensitivity layer;
            layer.node = nodes[i]->label();
            layer.op_type = nodes[i]->op_type;
            layer.role = role_of(fixed_, i, i == heavy.front(), heavy.size() > 1 && i == heavy.back());
            layer.macs = count_macs(*nodes[i], lookup).macs / static_cast<std::int64_t>(result_.batch_size);
            const auto decision = decisions.find(i);
            if (decision == decisions.end()) {
                layer.float_reason = "its input is a constant";
            } else if (!decision->second->quantized()) {
                layer.float_reason = explain(decision->second->reason);
                if (!decision->second->detail.empty()) layer.float_reason += " (" + decision->second->detail + ")";
            }
            position_[i] = result_.layers.size();
            result_.layers.push_back(std::move(layer));
        }
        if (std::any_of(result_.layers.begin(), result_.layers.end(),
                        [](const LayerSensitivity& layer) { return layer.float_reason.empty(); }))
            return {};
        return Error{ErrorCode::invalid_argument, "there is nothing in this model to quantise", model_.graph.name,
                     "lathe quantize --explain gives the reasons"};
    }

    Result<void> resume() {
        LATHE_TRY(const std::optional<Json> state, journal_.read());
        if (!state) return {};
        const Error damaged{ErrorCode::corrupt, "the record of earlier work is damaged", journal_.file().string(),
                            "remove it, or begin anew with --force"};
        for (const char* name : {"samples", "classes", "timed_samples"}) {
            if (!state->contains(name) || !(*state)[name].is_number_unsigned()) return damaged;
        }
        for (const char* name : {"seconds", "timed_seconds"}) {
            if (!state->contains(name) || !(*state)[name].is_number()) return damaged;
        }
        if (!state->contains("outputs") || !state->contains("layers") ||
            (*state)["layers"].size() != result_.layers.size() || !state->contains("everything"))
            return damaged;
        for (std::size_t i = 0; i < result_.layers.size(); ++i) {
            LATHE_TRY(result_.layers[i].score, score_from_json((*state)["layers"][i]));
        }
        LATHE_TRY(result_.everything, score_from_json((*state)["everything"]));
        result_.samples = (*state)["samples"].get<std::size_t>();
        result_.classes = (*state)["classes"].get<std::size_t>();
        result_.seconds = (*state)["seconds"].get<double>();
        timed_seconds_ = (*state)["timed_seconds"].get<double>();
        timed_samples_ = (*state)["timed_samples"].get<std::size_t>();
        LATHE_TRY(noisy_, noisy_outputs_from((*state)["outputs"], damaged));
        for (const NoisyOutput& output : noisy_) {
            if (fixed_.graph.find_output(output.name) == nullptr) return damaged;
            result_.outputs.push_back(output.name);
        }
        if (noisy_.front().name != output_) return damaged;
        result_.output_kind =
            state->value("output_kind", "") == "probabilities" ? OutputKind::probabilities : OutputKind::logits;
        result_.resumed_samples = result_.samples;
        return {};
    }

    Result<void> keep() {
        Json layers = Json::array();
        for (const LayerSensitivity& layer : result_.layers)
            layers.push_back(sums_to_json(layer.score));
        return journal_.write({{"samples", result_.samples},
                               {"classes", result_.classes},
                               {"seconds", result_.seconds + seconds_since(start_)},
                               {"timed_seconds", timed_seconds_},
                               {"timed_samples", timed_samples_},
                               {"output_kind", to_string(result_.output_kind)},
                               {"outputs", to_json(noisy_)},
                               {"everything", sums_to_json(result_.everything)},
                               {"layers", std::move(layers)}});
    }

    Result<void> compile() {
        std::vector<std::size_t> nodes; // of the layers to quantise
        for (const auto& [node, layer] : position_) {
            if (result_.layers[layer].float_reason.empty()) nodes.push_back(node);
        }
        std::sort(nodes.begin(), nodes.end());
        const Division division = divide(fixed_, nodes);
        result_.segments = division.rests.size() + 1;
        progress_.begin("compiling", division.layers.size() + division.rests.size() + 3);
        LATHE_TRY(whole_, compile_one(fixed_));
        QuantizeOptions all;
        all.target = options_.target;
        LATHE_TRY(const QuantizeOutcome quantised, quantize_model(model_, ranges_, all));
        LATHE_TRY(const Model fixed, with_fixed_shapes(quantised.model, result_.batch_size, options_.length));
        LATHE_TRY(everything_, compile_one(fixed));
        for (const Segment& rest : division.rests) {
            LATHE_TRY(Piece piece, compile_piece(extract(fixed_, rest.inputs, rest.outputs)));
            rests_.push_back(std::move(piece));
        }
        for (const Division::Layer& layer : division.layers) {
            const std::size_t index = position_.at(layer.node);
            const Model plain = extract(fixed_, layer.own.inputs, layer.own.outputs);
            LATHE_TRY(const Model one, quantize_only(plain, fixed_.graph, result_.layers[index].node, rules_));
            LATHE_TRY(Piece piece, compile_piece(one));
            quantised_.push_back({index, std::move(piece), layer.rest});
        }
        LATHE_TRY(reference_, compile_one(with_outputs(division)));
        progress_.end();
        return {};
    }

    /// The float model, which shows what the segments read as well.
    Model with_outputs(const Division& division) const {
        Model model = fixed_;
        const auto add = [&](const std::string& name) {
            if (model.graph.find_input(name) != nullptr || model.graph.is_output(name)) return;
            model.graph.outputs.push_back(model.graph.info_or_name(name));
        };
        for (const Division::Layer& layer : division.layers)
            std::for_each(layer.own.inputs.begin(), layer.own.inputs.end(), add);
        for (const Segment& rest : division.rests)
            std::for_each(rest.inputs.begin(), rest.inputs.end(), add);
        for (const auto& [value, input] : references_)
            add(value);
        return model;
    }

    /// A part of the network, its float layers by differences where that is faster.
    Result<Piece> compile_piece(const Model& piece) {
        if (!differences_pay_) return compile_one(piece);
        LATHE_TRY(const Model model, in_differences(piece, fixed_.graph, references_));
        return compile_one(model);
    }

    Result<Piece> compile_one(const Model& model) {
        LATHE_CHECK(progress_.check());
        auto piece = Piece::compile(backend_, model, options_.threads);
        progress_.advance();
        return piece;
    }

    Result<void> measure() {
        // What an earlier run has done is read and left.
        for (std::size_t skipped = 0; skipped < result_.resumed_samples;) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(const std::optional<Batch> batch,
                      data_.next(std::min(result_.batch_size, result_.resumed_samples - skipped)));
            if (!batch || batch->size() == 0) break;
            skipped += batch->size();
        }
        const std::size_t layers = static_cast<std::size_t>(
            std::count_if(result_.layers.begin(), result_.layers.end(),
                          [](const LayerSensitivity& layer) { return layer.float_reason.empty(); }));
        const std::size_t left = data_.size() - std::min(data_.size(), result_.samples);
        progress_.begin("sensitivity of " + std::to_string(layers) + " layers", left);
        auto kept = Clock::now();
        while (true) {
            LATHE_TRY(const std::optional<Batch> batch, data_.next(result_.batch_size));
            if (!batch || batch->size() == 0) break;
            auto done = one_batch(*batch);
            if (!done) {
                // What was summed before this batch is worth keeping.
                if (result_.samples > result_.resumed_samples) LATHE_CHECK(keep());
                if (done.error().code == ErrorCode::cancelled && !journal_.file().empty() && result_.samples > 0) {
                    done.error().hint = std::to_string(result_.samples) + " samples are kept in " +
                                        journal_.file().string() + ": the same command goes on from there";
                }
                return done;
            }
            progress_.advance(batch->size());
            if (seconds_since(kept) >= options_.journal_seconds) {
                LATHE_CHECK(keep());
                kept = Clock::now();
            }
        }
        progress_.end();
        result_.seconds += seconds_since(start_);
        if (result_.samples == 0) {
            return Error{ErrorCode::invalid_argument, "the data holds no samples", "", "name data with samples"};
        }
        LATHE_CHECK(score_task());
        result_.float_seconds =
            timed_seconds_ * static_cast<double>(result_.samples) / static_cast<double>(timed_samples_);
        return {};
    }

    /// Scores of one batch are added all together or not at all.
    Result<void> one_batch(const Batch& batch) {
        std::vector<HostTensor> inputs = padded_inputs(batch);
        Values values;
        for (HostTensor& input : inputs)
            values.insert_or_assign(input.name, input.view());
        const Values none;
        LATHE_TRY(const Values computed, reference_->run(none, values));
        values.insert(computed.begin(), computed.end());
        for (const auto& [value, input] : references_)
            values.emplace(input, values.at(value));
        const TensorView reference = computed.at(output_);
        LATHE_CHECK(check_output(reference, batch));
        if (batches_ == 0) LATHE_CHECK(verify_segments(values, reference));
        if (batches_++ % batches_a_timing == 0) LATHE_CHECK(time_whole(values));
        if (result_.samples == 0) {
            result_.classes = reference.as<float>().size() / result_.batch_size;
            result_.output_kind = detect_output_kind(reference.as<float>(), result_.classes);
            find_noisy_outputs(computed);
        }
        LATHE_CHECK(judge_answers(0, batch, computed, computed));
        LATHE_TRY(const Values all, everything_->run(none, values));
        Score everything = result_.everything;
        LATHE_CHECK(add(everything, computed, all, batch));
        LATHE_CHECK(judge_answers(1, batch, computed, all));
        std::vector<Score> scores;
        for (QuantisedLayer& quantised : quantised_) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(Values changed, quantised.own.run(none, values));
            if (quantised.rest) {
                LATHE_TRY(const Values behind, rests_[*quantised.rest].run(changed, values));
                changed.insert(behind.begin(), behind.end());
            }
            scores.push_back(result_.layers[quantised.layer].score);
            LATHE_CHECK(add(scores.back(), computed, changed, batch));
            LATHE_CHECK(judge_answers(scores.size() + 1, batch, computed, changed));
        }
        for (std::size_t i = 0; i < scores.size(); ++i)
            result_.layers[quantised_[i].layer].score = scores[i];
        result_.everything = everything;
        result_.samples += batch.size();
        return {};
    }

    /// The batch's inputs, a short one filled up with copies of its last sample.
    std::vector<HostTensor> padded_inputs(const Batch& batch) const {
        std::vector<HostTensor> inputs;
        for (const HostTensor& input : batch.inputs) {
            if (batch.is_whole(input)) {
                inputs.push_back(input);
                continue;
            }
            Shape shape = input.shape;
            shape[0] = static_cast<std::int64_t>(result_.batch_size);
            HostTensor whole(input.name, input.type, shape);
            const std::size_t row = input.bytes.size() / batch.size();
            std::memcpy(whole.bytes.data(), input.bytes.data(), std::min(whole.bytes.size(), input.bytes.size()));
            for (std::size_t i = batch.size(); i < result_.batch_size; ++i)
                std::memcpy(whole.bytes.data() + i * row, input.bytes.data() + (batch.size() - 1) * row, row);
            inputs.push_back(std::move(whole));
        }
        return inputs;
    }

    Result<void> check_output(const TensorView& output, const Batch& batch) const {
        const std::size_t count = output.type == DataType::float32 ? output.as<float>().size() : 0;
        if (output.shape.empty() || output.shape[0] != static_cast<std::int64_t>(result_.batch_size) || count == 0) {
            return Error{ErrorCode::unsupported,
                         "the output is " + to_string(output.type) + " " + to_string(output.shape) +
                             ", not one row of float32 a sample",
                         output_, "choose another with --output-name"};
        }
        const auto classes = static_cast<std::int64_t>(count / result_.batch_size);
        for (std::size_t i = 0; i < batch.labels.size(); ++i) {
            if (batch.labels[i] < classes) continue;
            return Error{ErrorCode::out_of_range,
                         "label " + std::to_string(batch.labels[i]) + ", but the model has " + std::to_string(classes) +
                             " classes",
                         batch.names[i], "are these the labels of the data the model was trained on?"};
        }
        return {};
    }

    /// Do the whole float model and what lies behind each cut give what the reference gives?
    Result<void> verify_segments(const Values& values, const TensorView& reference) {
        const Values none;
        const auto same = [&](Piece& piece) -> Result<void> {
            LATHE_TRY(const Values outputs, piece.run(none, values));
            const auto found = outputs.find(output_);
            return found == outputs.end() ? Result<void>() : compare(reference, found->second);
        };
        LATHE_CHECK(same(*whole_));
        for (Piece& rest : rests_) {
            LATHE_CHECK(progress_.check());
            LATHE_CHECK(same(rest));
        }
        return {};
    }

    Result<void> compare(const TensorView& reference, const TensorView& other) const {
        const auto expected = reference.as<float>();
        const auto actual = other.as<float>();
        double largest = 0;
        double difference = expected.size() == actual.size() ? 0 : std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
            if (std::isfinite(expected[i])) largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
            if (expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
            const double apart = std::abs(static_cast<double>(expected[i] - actual[i]));
            difference = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(difference, apart);
        }
        if (difference <= tolerance * largest) return {};
        return Error{ErrorCode::verification_failed, "the model cut into segments differs from the whole one", output_,
                     "please report this"};
    }

    Result<void> time_whole(const Values& values) {
        const auto start = Clock::now();
        LATHE_CHECK(whole_->run({}, values));
        timed_seconds_ += seconds_since(start);
        timed_samples_ += result_.batch_size;
        return {};
    }

    /// The output to judge, and without one that was named all others in float that nothing in the network reads on:
    /// boxes beside scores. Each weighs alike: its signal in the first batch is 1 a sample.
    void find_noisy_outputs(const Values& computed) {
        const EdgeIndex readers(fixed_.graph);
        // Tokens are no channels, and the longest sample's padding is among them.
        const bool texts = model_.find_metadata("lathe.tokenizer") != nullptr;
        noisy_.clear();
        const auto take = [&](const std::string& name) {
            const TensorView& values = computed.at(name);
            NoisyOutput output{name, {}, 1};
            if (!texts) output.groups = find_output_groups(values.shape, {values.as<float>()});
            noisy_.push_back(std::move(output));
        };
        take(output_);
        for (const ValueInfo& info : fixed_.graph.outputs) {
            if (!options_.output_name.empty() || info.name == output_ || !readers.readers(info.name).empty()) continue;
            const auto found = computed.find(info.name);
            if (found == computed.end() || found->second.type != DataType::float32 || found->second.shape.empty() ||
                found->second.shape[0] != static_cast<std::int64_t>(result_.batch_size) ||
                found->second.as<float>().empty())
                continue;
            take(info.name);
        }
        result_.outputs.clear();
        for (NoisyOutput& output : noisy_) {
            result_.outputs.push_back(output.name);
            if (noisy_.size() == 1) continue; // signal and noise in the output's own unit
            Score alone;
            const auto values = computed.at(output.name).as<float>();
            const std::size_t row = values.size() / result_.batch_size;
            for (std::size_t i = 0; i < result_.batch_size; ++i)
                alone.add(values.subspan(i * row, row), values.subspan(i * row, row), -1, OutputKind::logits,
                          output.groups);
            // One that is 0 throughout has no unit to tell noise in.
            output.scale = alone.signal > 0 ? static_cast<double>(result_.batch_size) / alone.signal : 0;
        }
    }

    /// `changed`: what of the outputs differs from `reference`.
    Result<void> add(Score& score, const Values& reference, const Values& changed, const Batch& batch) const {
        const auto subject_of = [&](const std::string& name) -> const TensorView& {
            const auto own = changed.find(name);
            return own == changed.end() ? reference.at(name) : own->second;
        };
        for (const NoisyOutput& output : noisy_) {
            if (reference.at(output.name).as<float>().size() != subject_of(output.name).as<float>().size())
                return Error{ErrorCode::internal, "the quantised model's output has another size", output.name, ""};
        }
        std::vector<OtherOutput> others(noisy_.size() - 1);
        const auto row = [&](const TensorView& values, std::size_t i) {
            const auto all = values.as<float>();
            const std::size_t size = all.size() / result_.batch_size;
            return all.subspan(i * size, size);
        };
        for (std::size_t i = 0; i < batch.size(); ++i) {
            for (std::size_t k = 0; k < others.size(); ++k) {
                const NoisyOutput& output = noisy_[k + 1];
                others[k] = {row(reference.at(output.name), i), row(subject_of(output.name), i), &output.groups,
                             output.scale};
            }
            score.add(row(reference.at(output_), i), row(subject_of(output_), i), batch.labels[i], result_.output_kind,
                      noisy_.front().groups, others, noisy_.front().scale);
        }
        return {};
    }

    /// All outputs of one network, as the task's judge takes them.
    Result<void> judge_answers(std::size_t network, const Batch& batch, const Values& reference,
                               const Values& changed) {
        if (judge_ == nullptr) return {};
        std::vector<HostTensor> outputs;
        for (const ValueInfo& output : fixed_.graph.outputs) {
            const auto own = changed.find(output.name);
            LATHE_TRY(HostTensor floats,
                      as_floats(own == changed.end() ? reference.at(output.name) : own->second, output.name));
            outputs.push_back(std::move(floats));
        }
        return judge_->add(network, batch, outputs);
    }

    /// What all samples together say by the task.
    Result<void> score_task() {
        if (judge_ == nullptr) return {};
        result_.left_out = judge_->left_out();
        result_.everything.task = judge_->score(1);
        if (!result_.everything.task->defined()) {
            return Error{ErrorCode::invalid_argument,
                         "nothing is to be found in the samples, so " + result_.task_metric + " says nothing", "",
                         "give data with more samples, or judge by --metric sqnr"};
        }
        result_.task_change = judge_->difference(1, 0);
        for (std::size_t i = 0; i < quantised_.size(); ++i)
            result_.layers[quantised_[i].layer].score.task = judge_->score(i + 2);
        return {};
    }

    const Model& model_;
    const RangesFile& ranges_;
    Dataset& data_;
    const Backend& backend_;
    const SensitivityOptions& options_;
    Progress& progress_;
    Journal journal_;

    Sensitivity result_;
    Model fixed_;
    std::string output_;
    std::vector<NoisyOutput> noisy_; ///< the output to judge first
    std::unique_ptr<TaskJudge> judge_;
    LayerRules rules_{ranges_, options_.target};
    std::unordered_map<std::size_t, std::size_t> position_; ///< node to layer
    std::optional<Piece> whole_;
    std::optional<Piece> everything_;
    std::optional<Piece> reference_;
    std::vector<Piece> rests_;
    std::vector<QuantisedLayer> quantised_;
    const bool differences_pay_ = this_machine().multiplies_bfloat16();
    References references_;
    Clock::time_point start_ = Clock::now();
    std::size_t batches_ = 0;  ///< since it was started
    double timed_seconds_ = 0; ///< of the whole float model
    std::size_t timed_samples_ = 0;
};

} // namespace

std::size_t runnable_batch(const Model& model, std::size_t wanted, std::size_t threads) {
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr || !input.dims || input.dims->empty()) continue;
        if (const auto size = input.dims->front().size)
            return static_cast<std::size_t>(std::max<std::int64_t>(1, *size));
    }
    if (wanted > 0) return wanted;
    return threads > 0 ? threads : available_cores();
}

Result<Model> with_fixed_shapes(const Model& model, std::size_t batch, std::size_t length) {
    Model fixed = model;
    LATHE_CHECK(set_batch_size(fixed, Dimension::of(static_cast<std::int64_t>(batch))));
    const bool texts = model.find_metadata("lathe.tokenizer") != nullptr;
    for (ValueInfo& input : fixed.graph.inputs) {
        if (!input.dims) continue;
        for (Dimension& dimension : *input.dims) {
            if (dimension.size) continue;
            if (!texts) {
                return Error{ErrorCode::out_of_range, "an input has a size, not of the batch, that is open", input.name,
                             "fix it with lathe simplify --shape"};
            }
            dimension = Dimension::of(static_cast<std::int64_t>(length));
        }
    }
    for (ValueInfo& output : fixed.graph.outputs)
        output.dims.reset();
    LATHE_CHECK(infer_shapes(fixed, {.discard_existing = true}));
    return fixed;
}

Result<Sensitivity> measure_sensitivity(const Model& model, const RangesFile& ranges, Dataset& data,
                                        const Backend& backend, const SensitivityOptions& options, Progress& progress) {
    return Measurement(model, ranges, data, backend, options, progress).run();
}

} // namespace lathe
