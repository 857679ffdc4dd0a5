#include "sensitivity/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "onnx/onnx.hpp"
#include "onnx/summary.hpp"
#include "quantize/ops.hpp"
#include "quantize/quantize.hpp"
#include "sensitivity/journal.hpp"
#include "sensitivity/only_layers.hpp"
#include "sensitivity/piece.hpp"
#include "sensitivity/segments.hpp"
#include "support/clock.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

/// A segment holds at most this share of the work: less repeats less before a layer, but every border costs a copy.
constexpr double segment_share = 1.0 / 12;
/// Largest difference between the segments' result and the whole model's, over the largest magnitude.
constexpr double tolerance = 1e-3;

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

/// One float segment and, layer by layer, the same with that layer quantised.
struct CompiledSegment {
    Piece plain;
    std::vector<std::pair<std::size_t, Piece>> quantised; ///< index into Sensitivity::layers
};

bool reads_any(const Piece& piece, const Values& values) {
    return std::any_of(piece.inputs().begin(), piece.inputs().end(),
                       [&](const IoInfo& input) { return values.contains(input.name); });
}

class Measurement {
public:
    Measurement(const Model& model, const RangesFile& ranges, Dataset& data, const Backend& backend,
                const SensitivityOptions& options, Progress& progress)
        : model_(model), ranges_(ranges), data_(data), backend_(backend), options_(options), progress_(progress),
          journal_(options.journal, options.key) {}

    Result<Sensitivity> run() {
        result_.batch_size = runnable_batch(model_, options_.batch_size, options_.threads);
        rules_.weight_range = range_for_this_cpu(profile_of(options_.target));
        LATHE_TRY(fixed_, with_fixed_shapes(model_, result_.batch_size, options_.length));
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
        std::unordered_map<std::string, std::int64_t> macs;
        for (const LayerSummary& layer : summarize(fixed_).layers)
            macs[layer.name] = layer.macs / static_cast<std::int64_t>(result_.batch_size);
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
            macs_.push_back(0);
            if (const auto found = macs.find(nodes[i]->label()); found != macs.end())
                macs_.back() = static_cast<double>(found->second);
            if (is_heavy(*nodes[i])) heavy.push_back(i);
        }
        for (const std::size_t i : heavy) {
            LayerSensitivity layer;
            layer.node = nodes[i]->label();
            layer.op_type = nodes[i]->op_type;
            layer.role = role_of(fixed_, i, i == heavy.front(), heavy.size() > 1 && i == heavy.back());
            layer.macs = static_cast<std::int64_t>(macs_[i]);
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
        for (const char* name : {"samples", "classes"}) {
            if (!state->contains(name) || !(*state)[name].is_number_unsigned()) return damaged;
        }
        for (const char* name : {"seconds", "float_seconds"}) {
            if (!state->contains(name) || !(*state)[name].is_number()) return damaged;
        }
        if (!state->contains("layers") || (*state)["layers"].size() != result_.layers.size() ||
            !state->contains("everything"))
            return damaged;
        for (std::size_t i = 0; i < result_.layers.size(); ++i) {
            LATHE_TRY(result_.layers[i].score, score_from_json((*state)["layers"][i]));
        }
        LATHE_TRY(result_.everything, score_from_json((*state)["everything"]));
        result_.samples = (*state)["samples"].get<std::size_t>();
        result_.classes = (*state)["classes"].get<std::size_t>();
        result_.seconds = (*state)["seconds"].get<double>();
        float_seconds_ = (*state)["float_seconds"].get<double>();
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
                               {"float_seconds", float_seconds_},
                               {"output_kind", to_string(result_.output_kind)},
                               {"everything", sums_to_json(result_.everything)},
                               {"layers", std::move(layers)}});
    }

    Result<void> compile() {
        const std::vector<Segment> segments = cut_into_segments(fixed_, macs_, segment_share);
        result_.segments = segments.size();
        progress_.begin("compiling", result_.layers.size() + segments.size() + 2);
        LATHE_TRY(whole_, compile_one(fixed_));
        QuantizeOptions all;
        all.target = options_.target;
        LATHE_TRY(const QuantizeOutcome quantised, quantize_model(model_, ranges_, all));
        LATHE_TRY(const Model fixed, with_fixed_shapes(quantised.model, result_.batch_size, options_.length));
        LATHE_TRY(everything_, compile_one(fixed));
        for (const Segment& segment : segments) {
            const Model plain = extract(fixed_, segment.inputs, segment.outputs);
            LATHE_TRY(Piece compiled, compile_one(plain));
            CompiledSegment own{std::move(compiled), {}};
            for (const std::size_t index : segment.layers) {
                const std::size_t layer = position_.at(index);
                if (!result_.layers[layer].float_reason.empty()) {
                    progress_.advance();
                    continue;
                }
                LATHE_TRY(const Model one, quantize_only(plain, fixed_.graph, result_.layers[layer].node, rules_));
                LATHE_TRY(Piece piece, compile_one(one));
                own.quantised.emplace_back(layer, std::move(piece));
            }
            segments_.push_back(std::move(own));
        }
        progress_.end();
        return {};
    }

    Result<Piece> compile_one(const Model& model) {
        LATHE_CHECK(progress_.check());
        auto piece = Piece::compile(backend_, model, options_.threads);
        progress_.advance();
        return piece;
    }

    Result<void> measure() {
        start_ = Clock::now();
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
                LATHE_CHECK(keep());
                if (done.error().code == ErrorCode::cancelled && !journal_.file().empty()) {
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
        result_.float_seconds = float_seconds_;
        if (result_.samples == 0) {
            return Error{ErrorCode::invalid_argument, "the data holds no samples", "", "name data with samples"};
        }
        return {};
    }

    /// Scores of one batch are added all together or not at all.
    Result<void> one_batch(const Batch& batch) {
        Values values = padded_inputs(batch);
        Values none;
        for (CompiledSegment& segment : segments_) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(Values outputs, segment.plain.run(none, values));
            for (auto& [name, tensor] : outputs)
                values.insert_or_assign(name, std::move(tensor));
        }
        const auto found = values.find(output_);
        if (found == values.end()) {
            return Error{ErrorCode::unsupported, "the output is not computed from the inputs", output_, ""};
        }
        const HostTensor reference = found->second;
        LATHE_CHECK(check_output(reference, batch));
        LATHE_CHECK(run_whole(values, reference));
        if (result_.samples == 0) {
            result_.classes = reference.as<float>().size() / result_.batch_size;
            result_.output_kind = detect_output_kind(reference.as<float>(), result_.classes);
        }
        std::map<std::size_t, Score> scores;
        LATHE_TRY(Values all, everything_->run(none, values));
        Score everything = result_.everything;
        LATHE_CHECK(add(everything, reference, all.at(output_), batch));
        for (std::size_t at = 0; at < segments_.size(); ++at) {
            for (auto& [layer, piece] : segments_[at].quantised) {
                LATHE_CHECK(progress_.check());
                LATHE_TRY(Values changed, piece.run(none, values));
                for (std::size_t behind = at + 1; behind < segments_.size(); ++behind) {
                    if (!reads_any(segments_[behind].plain, changed)) continue;
                    LATHE_TRY(Values outputs, segments_[behind].plain.run(changed, values));
                    for (auto& [name, tensor] : outputs)
                        changed.insert_or_assign(name, std::move(tensor));
                }
                scores[layer] = result_.layers[layer].score;
                const auto own = changed.find(output_);
                LATHE_CHECK(add(scores[layer], reference, own == changed.end() ? reference : own->second, batch));
            }
        }
        for (auto& [layer, score] : scores)
            result_.layers[layer].score = score;
        result_.everything = everything;
        result_.samples += batch.size();
        return {};
    }

    /// The batch's inputs, a short one filled up with copies of its last sample.
    Values padded_inputs(const Batch& batch) const {
        Values values;
        for (const HostTensor& input : batch.inputs) {
            Shape shape = input.shape;
            shape[0] = static_cast<std::int64_t>(result_.batch_size);
            HostTensor whole(input.name, input.type, shape);
            const std::size_t row = input.bytes.size() / batch.size();
            std::memcpy(whole.bytes.data(), input.bytes.data(), std::min(whole.bytes.size(), input.bytes.size()));
            for (std::size_t i = batch.size(); i < result_.batch_size; ++i)
                std::memcpy(whole.bytes.data() + i * row, input.bytes.data() + (batch.size() - 1) * row, row);
            values.insert_or_assign(input.name, std::move(whole));
        }
        return values;
    }

    Result<void> check_output(const HostTensor& output, const Batch& batch) const {
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

    /// The batch goes through the whole float model too: is the result the same, and how long does it take?
    Result<void> run_whole(Values& values, const HostTensor& reference) {
        Values none;
        const auto start = Clock::now();
        LATHE_TRY(const Values whole, whole_->run(none, values));
        float_seconds_ += seconds_since(start);
        const auto expected = whole.at(output_).as<float>();
        const auto actual = reference.as<float>();
        double largest = 0;
        double difference = expected.size() == actual.size() ? 0 : std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
            if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
            largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
            difference = std::max(difference, std::abs(static_cast<double>(expected[i] - actual[i])));
        }
        if (difference <= tolerance * largest) return {};
        return Error{ErrorCode::verification_failed, "the model cut into segments differs from the whole one", output_,
                     "please report this"};
    }

    Result<void> add(Score& score, const HostTensor& reference, const HostTensor& subject, const Batch& batch) const {
        const auto expected = reference.as<float>();
        const auto actual = subject.as<float>();
        if (expected.size() != actual.size()) {
            return Error{ErrorCode::internal, "the quantised model's output has another size", output_, ""};
        }
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const std::size_t first = i * result_.classes;
            score.add(expected.subspan(first, result_.classes), actual.subspan(first, result_.classes), batch.labels[i],
                      result_.output_kind);
        }
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
    LayerRules rules_{ranges_, options_.target};
    std::vector<double> macs_;                              ///< a node
    std::unordered_map<std::size_t, std::size_t> position_; ///< node to layer
    std::optional<Piece> whole_;
    std::optional<Piece> everything_;
    std::vector<CompiledSegment> segments_;
    Clock::time_point start_ = Clock::now();
    double float_seconds_ = 0;
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
