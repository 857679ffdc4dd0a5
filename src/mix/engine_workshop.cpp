#include "mix/engine_workshop.hpp"

#include <algorithm>
#include <chrono>

#include "bench/engine_subject.hpp"
#include "bench/interleave.hpp"
#include "correct/carry_over.hpp"
#include "evaluate/engine_predictor.hpp"
#include "mix/layer_times.hpp"
#include "mix/session_subject.hpp"
#include "onnx/onnx.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

/// What `Engine::build` is asked for. An engine named int8 computes what is not quantised in the device's usual
/// precision: FP32 on a CPU, FP16 on a GPU. Any other is asked for by name, and its Q/DQ stays int8 all the same.
Precision engine_precision(const Mix& mix, const std::string& device) {
    if (!mix.any_int8()) return mix.base;
    const Precision usual = precisions_of(device).bases.front();
    return mix.base == usual ? Precision::int8 : mix.base;
}

/// How much longer than in a trial an engine is timed where it matters.
constexpr double longer = 8.0 / 3;

InterleaveOptions turns_of(double time_limit_s) {
    InterleaveOptions options;
    options.time_limit_s = time_limit_s;
    return options;
}

} // namespace

DevicePrecisions precisions_of(const std::string& device) {
    using enum Precision;
    if (device == "cpu") return {{float32, bfloat16, float16}, {float32, bfloat16, float16}};
    return {{float32, bfloat16, float16}, {float16, bfloat16, float32}};
}

Result<std::vector<std::string>> quantizable_layers(const Model& model, Target target) {
    Model known = model;
    if (Model inferred = model; infer_shapes(inferred)) known = std::move(inferred);
    LATHE_TRY(const QuantizationPlan plan, plan_quantization(known, profile_of(target)));
    std::vector<std::string> layers;
    for (const EdgeDecision& decision : plan.decisions) {
        if (decision.edge.input != 0 || !decision.quantized()) continue;
        const Node& node = *known.graph.nodes[decision.edge.node];
        if (is_heavy(node)) layers.push_back(node.label());
    }
    return layers;
}

Result<Engine> EngineWorkshop::build(const Mix& mix, bool profiling) const {
    LATHE_CHECK(progress_.check());
    BuildOptions build = options_.build;
    build.precision = engine_precision(mix, build.device);
    build.progress = &progress_;
    build.profiling = profiling;
    // How much of it is in which precision is what is searched for.
    build.allow_fallback = true;
    build.hashes["mix"] = mix.key();
    if (!mix.any_int8()) return Engine::build(model_, build);
    QuantizeOptions quantize;
    quantize.target = options_.target;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        if (!mix.int8[i]) quantize.placement.exclude.push_back(layers_[i]);
    }
    const Model& model = corrected_ == nullptr ? model_ : corrected_->real;
    const RangesFile& ranges = corrected_ == nullptr ? ranges_ : corrected_->ranges;
    if (corrected_ != nullptr) quantize.chosen = corrected_->chosen;
    LATHE_TRY(QuantizeOutcome quantised, quantize_model(model, ranges, quantize));
    if (corrected_ != nullptr) carry_over_corrections(corrected_->quantized.model, quantised.model);
    build.calibration_digest = ranges_.key.data;
    return Engine::build(quantised.model, build);
}

std::vector<std::string> EngineWorkshop::outputs_of(const Engine& engine) const {
    std::vector<std::string> names;
    const auto& outputs = engine.info().outputs;
    if (options_.judging != nullptr) {
        for (const IoInfo& output : outputs)
            names.push_back(output.name);
        return names;
    }
    if (!options_.output_name.empty() || outputs.empty()) return {options_.output_name};
    names.push_back(outputs.front().name);
    const EdgeIndex readers(model_.graph);
    const auto& first = outputs.front().range;
    for (const IoInfo& output : outputs) {
        const bool floats =
            output.type == DataType::float32 || output.type == DataType::float16 || output.type == DataType::bfloat16;
        const bool rows = !output.range.opt.empty() && !first.opt.empty() && output.range.opt[0] == first.opt[0] &&
                          output.range.min[0] == first.min[0] && output.range.max[0] == first.max[0];
        if (output.name != names.front() && floats && rows && readers.readers(output.name).empty())
            names.push_back(output.name);
    }
    return names;
}

Result<std::vector<std::vector<HostTensor>>> EngineWorkshop::predict(const Engine& engine,
                                                                     const std::string& name) const {
    const std::vector<std::string> names = outputs_of(engine);
    LATHE_TRY(const auto predictor,
              make_outputs_predictor(engine, name, names, std::nullopt,
                                     options_.judging != nullptr ? OutputsHold::numbers : OutputsHold::scores));
    std::vector<std::vector<HostTensor>> outputs;
    for (const Batch& batch : samples_) {
        LATHE_CHECK(progress_.check());
        LATHE_TRY(std::vector<HostTensor> all, predictor->predict_all(batch));
        outputs.push_back(std::move(all));
    }
    return outputs;
}

void EngineWorkshop::weigh_outputs() {
    const EdgeIndex readers(model_.graph);
    const bool texts = model_.find_metadata("lathe.tokenizer") != nullptr;
    const std::vector<HostTensor>& first = expected_.front();
    const auto is_named = [&](const HostTensor& output) { return output.name == options_.output_name; };
    const auto named = std::ranges::find_if(first, is_named);
    const std::size_t judged = named == first.end() ? 0 : static_cast<std::size_t>(named - first.begin());
    const auto take = [&](std::size_t index) {
        NoisyOutput output{index, {}, 1};
        if (!texts) output.groups = find_output_groups(first[index].shape, {first[index].as<float>()});
        noisy_.push_back(std::move(output));
    };
    take(judged);
    const std::size_t samples = samples_.front().size();
    for (std::size_t i = 0; i < first.size(); ++i) {
        const bool rows = !first[i].bytes.empty() && first[i].as<float>().size() % samples == 0;
        // A task's answers may also lie in whole numbers; those are no signal.
        const auto info = std::ranges::find(model_.graph.outputs, first[i].name, &ValueInfo::name);
        const bool floats =
            info == model_.graph.outputs.end() || info->type == DataType::float32 || info->type == DataType::undefined;
        const bool ends = readers.readers(first[i].name).empty();
        if (i != judged && options_.output_name.empty() && rows && floats && ends) take(i);
    }
    if (noisy_.size() == 1) return; // in the output's own unit
    for (NoisyOutput& output : noisy_) {
        Score alone;
        const auto values = first[output.index].as<float>();
        const std::size_t row = values.size() / samples;
        for (std::size_t i = 0; i < samples; ++i)
            alone.add(values.subspan(i * row, row), values.subspan(i * row, row), -1, OutputKind::logits,
                      output.groups);
        output.scale = alone.signal > 0 ? static_cast<double>(samples) / alone.signal : 0;
    }
}

Result<Score> EngineWorkshop::judge(const Engine& engine) {
    if (expected_.empty()) {
        LATHE_TRY(const Engine plain, build(Mix::all_float(Precision::float32, layers_.size())));
        LATHE_TRY(expected_, predict(plain, "fp32"));
        weigh_outputs();
        if (options_.judging != nullptr) {
            judge_ = options_.judging->make();
            for (std::size_t i = 0; i < samples_.size(); ++i)
                LATHE_CHECK(judge_->add(0, samples_[i], expected_[i]));
        }
    }
    LATHE_TRY(const auto actual, predict(engine, "mix"));
    Score score;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
        const std::size_t samples = samples_[i].size();
        for (const NoisyOutput& output : noisy_) {
            const std::size_t values = expected_[i][output.index].as<float>().size();
            if (values != actual[i][output.index].as<float>().size() || values % samples != 0 || values == 0) {
                return Error{ErrorCode::mismatch, "two engines of one model give outputs of different sizes",
                             actual[i][output.index].name, ""};
            }
        }
        const auto row = [&](const HostTensor& output, std::size_t sample) {
            const auto all = output.as<float>();
            return all.subspan(sample * (all.size() / samples), all.size() / samples);
        };
        const NoisyOutput& judged = noisy_.front();
        const HostTensor& reference = expected_[i][judged.index];
        const std::size_t classes = reference.as<float>().size() / samples;
        if (!kind_) kind_ = detect_output_kind(reference.as<float>(), classes);
        for (std::size_t sample = 0; sample < samples; ++sample) {
            const std::int64_t label = samples_[i].labels[sample];
            if (label >= static_cast<std::int64_t>(classes)) {
                return Error{ErrorCode::out_of_range,
                             "label " + std::to_string(label) + ", but the model has " + std::to_string(classes) +
                                 " classes",
                             samples_[i].names[sample], "are these the labels of the data the model was trained on?"};
            }
            std::vector<OtherOutput> others;
            for (std::size_t k = 1; k < noisy_.size(); ++k)
                others.push_back({row(expected_[i][noisy_[k].index], sample), row(actual[i][noisy_[k].index], sample),
                                  &noisy_[k].groups, noisy_[k].scale});
            score.add(row(reference, sample), row(actual[i][judged.index], sample), label, *kind_, judged.groups,
                      others, judged.scale);
        }
    }
    if (judge_ != nullptr) {
        const std::size_t network = ++judged_;
        for (std::size_t i = 0; i < samples_.size(); ++i)
            LATHE_CHECK(judge_->add(network, samples_[i], actual[i]));
        score.task = judge_->score(network);
        if (!score.task->defined()) {
            return Error{ErrorCode::invalid_argument,
                         "nothing is to be found in the samples that are searched on, so " + options_.judging->metric +
                             " says nothing",
                         "", "give data with more samples, or --metric sqnr"};
        }
    }
    return score;
}

Result<const InputSets*> EngineWorkshop::inputs_for(const Engine& engine) {
    if (!inputs_) {
        LATHE_TRY(auto specs, engine_inputs(engine.info(), options_.batch_size));
        LATHE_TRY(InputSets sets, InputSets::random(std::move(specs), 1, last_level_cache_bytes()));
        inputs_.emplace(std::move(sets));
    }
    return &*inputs_;
}

Result<Subject*> EngineWorkshop::reference_subject(const Mix& mix) {
    auto& subject = references_[mix.key()];
    if (!subject) {
        LATHE_TRY(const Engine engine, build(mix));
        LATHE_TRY(Session session, engine.make_session());
        subject = make_session_subject(mix.name(), std::move(session));
        LATHE_TRY(const InputSets* inputs, inputs_for(engine));
        LATHE_CHECK(subject->prepare(*inputs, progress_));
    }
    return subject.get();
}

Result<bool> EngineWorkshop::can_build(const Mix& mix) {
    const auto subject = reference_subject(mix);
    if (!subject && subject.error().code == ErrorCode::unsupported) return false;
    if (!subject) return Error(subject.error());
    return true;
}

Result<Trial> EngineWorkshop::measure(const Mix& mix, const Trial* reference) {
    const auto start = Clock::now();
    auto trial = measure_built(mix, reference);
    if (!trial && trial.error().code == ErrorCode::unsupported) {
        // A precision that this device lacks is a finding, not the end of the search.
        Trial failed;
        failed.failed = trial.error().describe();
        trial = failed;
    }
    if (!trial) return trial;
    trial->mix = mix;
    trial->seconds = seconds_since(start);
    return trial;
}

Result<Trial> EngineWorkshop::measure_built(const Mix& mix, const Trial* reference) {
    last_.reset();
    LATHE_TRY(Engine engine, build(mix));
    Trial trial;
    // Judged after: an engine that has run larger batches is up to 2 % slower than a new one (ResNet-50 on a CPU).
    LATHE_TRY(static_cast<Timing&>(trial), time(engine, mix, reference, options_.time_limit_s));
    LATHE_TRY(trial.score, judge(engine));
    last_.emplace(std::move(engine));
    last_mix_ = mix;
    return trial;
}

Result<Timing> EngineWorkshop::time_again(const Mix& mix, const Trial& reference) {
    last_.reset();
    LATHE_TRY(Engine engine, build(mix));
    LATHE_TRY(const Timing timing, time(engine, mix, &reference, longer * options_.time_limit_s));
    last_.emplace(std::move(engine));
    last_mix_ = mix;
    return timing;
}

Result<Timing> EngineWorkshop::time(const Engine& engine, const Mix& mix, const Trial* reference, double time_limit_s) {
    LATHE_TRY(const InputSets* inputs, inputs_for(engine));
    LATHE_TRY(Session session, engine.make_session());
    const auto subject = make_session_subject(mix.name(), std::move(session));
    LATHE_CHECK(subject->prepare(*inputs, progress_));
    std::vector<Subject*> subjects{subject.get()};
    if (reference != nullptr) {
        LATHE_TRY(Subject * beside, reference_subject(reference->mix));
        subjects.push_back(beside);
    }
    LATHE_TRY(const auto timed, interleave(subjects, turns_of(time_limit_s), no_progress()));
    LATHE_CHECK(progress_.check());
    for (const auto& one : timed) {
        if (!one) return Error(one.error());
    }
    const InterleavedLatency& own = *timed[0];
    Timing timing;
    timing.noisy = own.noisy;
    timing.latency_ms = own.call_ns.median / 1e6;
    if (reference != nullptr) {
        const RatioSummary ratio = summarize_ratio(own.burst_medians_ns, timed[1]->burst_medians_ns);
        timing.speedup = reference->speedup * ratio.median;
        timing.speedup_ci95 = {reference->speedup * ratio.ci95.low, reference->speedup * ratio.ci95.high};
        // The latency beside the reference's own, whatever the machine did in between.
        timing.latency_ms = reference->latency_ms / ratio.median;
    }
    return timing;
}

Result<std::vector<double>> EngineWorkshop::gains(const Mix& base, const Mix& int8) {
    LATHE_TRY(const Engine plain, build(base, true));
    LATHE_TRY(const Engine quantised, build(int8, true));
    return layer_gains(plain, quantised, layers_, options_.batch_size, progress_);
}

Result<void> EngineWorkshop::save(const Mix& mix, const std::filesystem::path& output) {
    if (!last_ || !(last_mix_ == mix)) {
        LATHE_TRY(Engine engine, build(mix));
        last_.emplace(std::move(engine));
        last_mix_ = mix;
    }
    return last_->save(output);
}

Result<std::vector<TimedEngine>> EngineWorkshop::compare(const Engine& engine, const std::vector<Mix>& mixes) {
    LATHE_TRY(const InputSets* inputs, inputs_for(engine));
    LATHE_TRY(Session session, engine.make_session());
    const auto own = make_session_subject("saved", std::move(session));
    LATHE_CHECK(own->prepare(*inputs, progress_));
    std::vector<Subject*> subjects{own.get()};
    for (const Mix& mix : mixes) {
        LATHE_TRY(Subject * subject, reference_subject(mix));
        subjects.push_back(subject);
    }
    LATHE_TRY(const auto timed, interleave(subjects, turns_of(longer * options_.time_limit_s), progress_));
    std::vector<TimedEngine> engines;
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        if (!timed[i]) return Error(timed[i].error());
        TimedEngine each;
        each.name = subjects[i]->info().name;
        each.latency_ms = timed[i]->call_ns.median / 1e6;
        each.latency_ci95 = {timed[i]->call_ns.ci95.low / 1e6, timed[i]->call_ns.ci95.high / 1e6};
        each.speedup = summarize_ratio(timed[0]->burst_medians_ns, timed[i]->burst_medians_ns);
        each.noisy = timed[i]->noisy;
        engines.push_back(std::move(each));
    }
    return engines;
}

} // namespace lathe
