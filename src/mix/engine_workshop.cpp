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

Result<std::vector<HostTensor>> EngineWorkshop::predict(const Engine& engine, const std::string& name) const {
    LATHE_TRY(const auto predictor, make_engine_predictor(engine, name, options_.output_name));
    std::vector<HostTensor> outputs;
    for (const Batch& batch : samples_) {
        LATHE_CHECK(progress_.check());
        LATHE_TRY(HostTensor output, predictor->predict(batch));
        outputs.push_back(std::move(output));
    }
    return outputs;
}

Result<Score> EngineWorkshop::judge(const Engine& engine) {
    if (expected_.empty()) {
        LATHE_TRY(const Engine plain, build(Mix::all_float(Precision::float32, layers_.size())));
        LATHE_TRY(expected_, predict(plain, "fp32"));
    }
    LATHE_TRY(const std::vector<HostTensor> actual, predict(engine, "mix"));
    Score score;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
        const std::size_t samples = samples_[i].size();
        const auto reference = expected_[i].as<float>();
        const auto subject = actual[i].as<float>();
        if (reference.size() != subject.size() || reference.size() % samples != 0 || reference.empty()) {
            return Error{ErrorCode::mismatch, "two engines of one model give outputs of different sizes", "", ""};
        }
        const std::size_t classes = reference.size() / samples;
        if (!kind_) {
            kind_ = detect_output_kind(reference, classes);
            if (model_.find_metadata("lathe.tokenizer") == nullptr)
                groups_ = find_output_groups(expected_[i].shape, {reference});
        }
        for (std::size_t sample = 0; sample < samples; ++sample) {
            const std::int64_t label = samples_[i].labels[sample];
            if (label >= static_cast<std::int64_t>(classes)) {
                return Error{ErrorCode::out_of_range,
                             "label " + std::to_string(label) + ", but the model has " + std::to_string(classes) +
                                 " classes",
                             samples_[i].names[sample], "are these the labels of the data the model was trained on?"};
            }
            score.add(reference.subspan(sample * classes, classes), subject.subspan(sample * classes, classes), label,
                      *kind_, groups_);
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
