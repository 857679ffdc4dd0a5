#include "lathe/optimize.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "api/assume.hpp"
#include "api/bfloat16_rest.hpp"
#include "api/calibrate.hpp"
#include "api/correct.hpp"
#include "api/model_data.hpp"
#include "api/optimize_request.hpp"
#include "api/optimized_rows.hpp"
#include "api/profile.hpp"
#include "api/quick_budget.hpp"
#include "api/simplify.hpp"
#include "api/stages.hpp"
#include "api/summary.hpp"
#include "backends/api/backend.hpp"
#include "backends/openvino/batch_trials.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "bench/bench.hpp"
#include "bench/run.hpp"
#include "calibrate/report.hpp"
#include "data/open_dataset.hpp"
#include "data/preprocess_presets.hpp"
#include "evaluate/run.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "passes/symmetric_int8.hpp"
#include "report/document.hpp"
#include "report/fields.hpp"
#include "report/html.hpp"
#include "report/verdict.hpp"
#include "report/wording.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "support/machine.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

/// Digest of texts, in order.
std::string key_of(std::initializer_list<std::string> parts) {
    Hasher hasher;
    for (const auto& part : parts)
        hasher.update(std::string_view(part));
    return hasher.hex();
}

/// The whole job over one output folder. Each step reads what the step before wrote, so that any of them can be redone
/// by hand with the command of its name.
class Optimizer {
public:
    Optimizer(const OptimizeRequest& options, Progress& progress)
        : options_(options), progress_(progress), folder_(options.output), stem_(options.model.stem().string()),
          precisions_(options.precisions), effort_(asked_for(options) ? options.effort.value_or(0) : usual_effort),
          stages_(Stages::open(folder_ / (stem_ + ".stages.json"), progress, options.tell, options.force)) {}

    Result<OptimizeResult> run() {
        LATHE_CHECK(read_model());
        LATHE_CHECK(simplify());
        LATHE_CHECK(check_layers());
        if (wants(Precision::int8) && !given_in_int8_) {
            LATHE_CHECK(calibrate());
            LATHE_CHECK(quantize_first());
        }
        LATHE_CHECK(build());
        LATHE_CHECK(evaluate());
        LATHE_CHECK(answer_loss());
        LATHE_CHECK(profile());
        LATHE_CHECK(measure());
        if (budget_.any_cut()) tell(budget_.told());
        return report();
    }

private:
    /// Biases by their layers' mean error, and SmoothQuant: some seconds, and most of what correcting gains.
    static constexpr int usual_effort = 1;
    /// Whether the caller says how much is to be corrected, or what.
    static bool asked_for(const OptimizeRequest& options) {
        const CorrectionChoice& choice = options.corrections;
        return options.effort || options.ranges_by_error || choice.bias || choice.rounding || choice.equalize ||
               choice.smooth;
    }

    bool wants(Precision precision) const { return std::ranges::count(precisions_, precision) > 0; }
    /// A network without layers for INT8, or one that is in INT8 already, is served all the same.
    Result<void> check_layers() {
        given_in_int8_ = rounds_values(model_.graph);
        if (given_in_int8_) return write_its_floats();
        const bool small_weights =
            std::ranges::any_of(model_.graph.nodes, [](const auto& node) { return node->is("DequantizeLinear"); });
        if (wants(Precision::int8) && small_weights) {
            std::erase(precisions_, Precision::int8);
            leave_out("int8",
                      "the model's weights are quantised already: give the model in floats for INT8 throughout");
            return {};
        }
        if (!wants(Precision::int8) || !quantizable_tensors(model_).empty()) return {};
        std::erase(precisions_, Precision::int8);
        leave_out("int8", "the model has no Conv, Gemm or MatMul in floating point that could become INT8");
        return {};
    }
    /// What another tool quantised, or Lathe before: INT8 is the model as it is, and float precisions are the network
    /// without its rounding.
    Result<void> write_its_floats() {
        const fs::path output = file(".float.onnx");
        LATHE_TRY(const Json written, stages_.run("float form", key_, {output}, [&]() -> Result<Json> {
            Model floats = model_;
            const std::size_t left = write_float_form(floats.graph, floats.opset());
            SimplifyOptions options;
            options.progress = &progress_;
            options.for_gpus = for_gpus();
            options.samples = 1;
            LATHE_CHECK(simplify_model(floats, options));
            LATHE_CHECK(save_onnx(floats, output));
            return Json{{"left", left}};
        }));
        const auto left = written.value("left", std::size_t{0});
        tell(
            "the model is quantised already: INT8 is the model as it is, other precisions are the same network without "
            "the rounding" +
            (left == 0 ? std::string() : " (but for " + std::to_string(left) + " values that are read as integers)"));
        return {};
    }
    /// Peers run the float model that the user gave, not our simplified one, unless only ours has the engines' inputs
    /// or is in floats.
    bool peers_run_given() const { return !inputs_fixed_ && !given_in_int8_; }
    /// What the engine of this name is built of.
    fs::path input_of(const std::string& name, Precision precision) const {
        if (given_in_int8_) return file(precision == Precision::int8 ? ".simplified.onnx" : ".float.onnx");
        return precision == Precision::int8 ? file("." + name + ".onnx") : file(".simplified.onnx");
    }
    void tell(const std::string& line) const {
        if (options_.tell) options_.tell(line);
    }
    fs::path file(const std::string& ending) const { return folder_ / (stem_ + ending); }
    bool for_gpus() const { return options_.device != "cpu"; }
    Target target() const {
        if (options_.device == "tensorrt") return Target::tensorrt;
        return for_gpus() ? Target::cuda : Target::openvino;
    }

    Result<void> read_model() {
        LATHE_TRY(model_, load_onnx(options_.model));
        if (!options_.preprocess.empty()) {
            LATHE_TRY(preprocess_, preprocess_named(options_.preprocess, input_specs(model_)));
            model_.set_metadata("lathe.preprocess", preprocess_->to_json().dump());
        } else {
            LATHE_TRY(preprocess_, preprocess_of(model_));
        }
        AssumeRequest assume{preprocess_, options_.calibrate, options_.evaluate, options_.shapes.empty(),
                             options_.shapes};
        assume.tell = [this](std::string_view line) { tell(std::string(line)); };
        assume.progress = &progress_;
        if (options_.quick) assume.size_limit_s = assume.preset_limit_s = 6;
        const std::vector<InputSpec> given = input_specs(model_);
        LATHE_TRY(preprocess_, assume_inputs(model_, assume));
        const auto is_input = [&](const std::string& name) { return model_.graph.find_input(name) != nullptr; };
        for (const InputSpec& input : given) {
            if (is_input(input.name)) continue;
            shapes_.erase(input.name);
            inputs_fixed_ = true;
        }
        LATHE_CHECK(complete_shapes(model_, shapes_)); // refused now and not behind the calibration, at the build
        LATHE_TRY(source_hash_, hash_file(options_.model));
        summary_ = to_json(summarize_resolved(model_), false);
        key_ = key_of({LATHE_VERSION, source_hash_, preprocess_ ? preprocess_->to_json().dump() : "",
                       for_gpus() ? "for GPUs" : "for CPUs"});
        for (const InputSpec& input : input_specs(model_)) // whose sizes may be those of the data
            key_ = key_of({key_, input.name, to_string(input.shape)});
        return {};
    }

    Result<void> simplify() {
        const fs::path output = file(".simplified.onnx");
        LATHE_TRY(simplify_result_, stages_.run("simplify", key_, {output}, [&]() -> Result<Json> {
            Model simplified = model_;
            SimplifyOptions options;
            options.progress = &progress_;
            options.for_gpus = for_gpus();
            if (options_.quick) options.time_limit_s = budget_.share(6, 44);
            LATHE_TRY(const SimplifyReport result, simplify_model(simplified, options));
            LATHE_CHECK(save_onnx(simplified, output));
            if (result.samples > 0 && result.samples < options.samples)
                budget_.cut("simplify's check on " + std::to_string(options.samples - result.samples) + " of " +
                            std::to_string(options.samples) + " random inputs");
            return to_json(result);
        }));
        // The file, not the copy in memory, is what the later steps are about.
        LATHE_TRY(model_, load_onnx(output));
        return {};
    }

    CorrectOptions corrections_of(int effort) const {
        if (uncorrected_) return {};
        CorrectOptions correcting = options_of_effort(effort, options_.corrections);
        correcting.auto_ranges = correcting.auto_ranges || options_.ranges_by_error;
        correcting.threads = options_.threads;
        return correcting;
    }
    /// What the ranges and corrections depend on beside the model and the data.
    std::string quantization_key(int effort, bool corrected) const {
        const CorrectionChoice& choice = options_.corrections;
        const auto number = [](const auto& value) { return value ? std::to_string(static_cast<int>(*value)) : "-"; };
        constexpr const char* corrections = "measured layers"; // changes with what an effort means
        std::string key =
            key_of({corrections, to_string(options_.method), number(std::optional(options_.ranges_by_error)),
                    to_string(target()), std::to_string(effort),
                    corrected ? "" : "within " + std::to_string(*options_.answer_limit_s), number(choice.bias),
                    number(choice.rounding), number(choice.equalize), number(choice.smooth), number(choice.float_last),
                    number(choice.noisy_in_float), number(options_.weights), number(options_.activations)});
        for (const auto& pattern : options_.exclude)
            key = key_of({key, pattern});
        return key;
    }

    /// `corrected`: nothing kept the corrections from being made.
    Result<std::string> quantization_stage_key(int effort, bool corrected) const {
        LATHE_TRY(const std::string ranges_hash, hash_file(file(".ranges")));
        return key_of({key_, ranges_hash, quantization_key(effort, corrected)});
    }

    Result<void> calibrate() {
        LATHE_TRY(const TargetProfile profile,
                  with_formats(profile_of(target()), options_.weights, options_.activations));
        CalibrateRequest request;
        request.data = options_.calibrate;
        request.columns = options_.columns;
        request.preprocess = preprocess_;
        request.samples = options_.samples;
        request.until_settled = options_.until_settled.value_or(!asked_for(options_) || !corrections_of(effort_).any());
        request.threads = options_.threads;
        request.method = options_.method;
        if (options_.quick) request.time_limit_s = budget_.share(10, 30);
        request.output = file(".ranges");
        request.force = options_.force;
        auto outcome = calibrate_model(model_, request, progress_);
        if (!outcome && outcome.error().code == ErrorCode::mismatch) {
            // The folder is this job's own: a cache of other data or another model is replaced, and that is said.
            tell("calibrating anew: " + outcome.error().message);
            request.force = true;
            outcome = calibrate_model(model_, request, progress_);
        }
        if (!outcome) return std::move(outcome).error();
        if (outcome->reused) tell(outcome->reuse);
        if (!outcome->reused && outcome->ranges.samples_seen > 0)
            observed_seconds_ = outcome->seconds / static_cast<double>(outcome->ranges.samples_seen);
        if (outcome->cut)
            budget_.cut("calibration ended after " + std::to_string(outcome->ranges.samples_seen) + " samples");
        calibration_ = calibration_to_json(outcome->ranges, profile.activations, outcome->seconds);
        timings_extra_.push_back({{"name", "calibrate"}, {"seconds", outcome->seconds}, {"reused", outcome->reused}});
        ranges_ = std::move(outcome->ranges);
        return {};
    }

    /// Whether corrections may be done within so many seconds. They run both networks piece by piece on some hundred
    /// samples, and a piece under way cannot be stopped: what surely takes longer is better not begun.
    bool corrections_fit(double seconds) const {
        constexpr double samples = 300;
        return samples * observed_seconds_ <= seconds;
    }

    /// The INT8 network that was asked for; without corrections where a quick job's minute has no room for them or, if
    /// nobody asked for them, where they take too long or cannot be done.
    Result<void> quantize_corrected() {
        const bool asked = asked_for(options_);
        if ((asked && !options_.quick) || !corrections_of(effort_).any()) return quantize("int8", effort_, progress_);
        const double limit_s = options_.quick ? budget_.share(*options_.answer_limit_s, 22) : *options_.answer_limit_s;
        std::string why = "it takes more than " + report::decimals(limit_s, options_.quick ? 0 : -1) + " s";
        LATHE_TRY(const std::string without, quantization_stage_key(0, false));
        if (stages_.was_done("quantize", without)) {
            why = "nor was it before";
        } else if (corrections_fit(limit_s)) {
            TimeLimited limited(progress_, limit_s);
            auto made = quantize("int8", effort_, limited);
            if (made || progress_.cancelled() || !becomes_int8()) return made;
            if (!limited.expired()) {
                if (asked) return made;
                why = made.error().message;
            }
        }
        if (options_.quick) budget_.cut("the corrections of effort " + std::to_string(effort_));
        if (!asked) tell("INT8 is not corrected (--effort 1): " + why);
        uncorrected_ = true;
        effort_ = 0;
        return quantize("int8", 0, progress_);
    }

    QuantizeOptions quantize_options() const {
        QuantizeOptions options;
        options.target = target();
        options.placement.exclude = options_.exclude;
        options.placement.weights = options_.weights;
        options.placement.activations = options_.activations;
        options.method = options_.method;
        options.noisy_in_float = options_.corrections.noisy_in_float.value_or(true);
        return options;
    }
    /// Whether anything of the network does; unknown counts as so.
    bool becomes_int8() const {
        const auto made = quantize_model(model_, ranges_, quantize_options());
        return !made || rounds_values(made->model.graph);
    }

    /// The first INT8 network. Where all of a network stays in float (weights from the left, products of activations
    /// alone, what is too noisy), its other precisions are served.
    Result<void> quantize_first() {
        auto made = quantize_corrected();
        if (progress_.cancelled() || (made && effort_ > 0) || becomes_int8()) return made;
        std::erase(precisions_, Precision::int8);
        quantizations_.erase("int8");
        uncorrected_ = false;
        leave_out("int8", "all of the model stays in float: lathe quantize --explain tells why, layer by layer");
        return {};
    }

    /// Writes the INT8 network called `name`.
    Result<void> quantize(const std::string& name, int effort, Progress& progress) {
        LATHE_TRY(const std::string key, quantization_stage_key(effort, !uncorrected_));
        const fs::path output = file("." + name + ".onnx");
        const std::string stage = name == "int8" ? "quantize" : "quantize " + name;
        LATHE_TRY(Json document, stages_.run(stage, key, {output}, [&]() -> Result<Json> {
            const QuantizeOptions options = quantize_options();
            const CorrectData data{options_.calibrate, options_.columns, preprocess_};
            LATHE_TRY(const CorrectOutcome outcome,
                      quantize_on_data(model_, ranges_, options, corrections_of(effort), data, progress));
            for (const std::string& line : in_words(outcome.quantized.in_float))
                tell("left in float, since 8 bits harm most there: " + line);
            for (const std::string& line : describe(outcome))
                tell(line);
            LATHE_CHECK(save_onnx(outcome.quantized.model, output));
            return outcome.quantized.document;
        }));
        quantizations_[name] = std::move(document);
        return {};
    }

    /// A quick job's builds do not time how batches of a heavy network are best cut.
    TuneEffort tune() const { return options_.quick ? TuneEffort::fast : options_.tune; }

    Result<void> build() {
        const auto macs = summary_.value("macs", std::int64_t{0});
        if (options_.quick && options_.device == "cpu" && openvino::times_batches(macs, options_.tune) &&
            !openvino::times_batches(macs, tune()))
            budget_.cut("timing batches in pieces");
        for (const Precision precision : precisions_) {
            // Another float precision is worth less than measuring the two that the verdict is about.
            const bool needed = precision == Precision::float32 || precision == Precision::int8;
            if (!needed && budget_.left() < 2 * build_seconds_ + 15) {
                budget_.cut(to_string(precision));
                skipped_.push_back({{"subject", to_string(precision)}, {"reason", over_budget}});
                continue;
            }
            const auto start = std::chrono::steady_clock::now();
            LATHE_CHECK(build_named(to_string(precision), precision, input_of(to_string(precision), precision)));
            build_seconds_ = std::max(build_seconds_, seconds_since(start));
        }
        return build_rest_in_bfloat16();
    }

    bool was_built(const std::string& name) const {
        return std::ranges::count(engines_, file("." + name + ".engine")) > 0;
    }

    /// What an engine depends on that is built of a file of this hash.
    Result<std::string> build_key(const std::string& hash) const {
        LATHE_TRY(const Backend* backend, backend_for_device(options_.device));
        std::string key = key_of({LATHE_VERSION, hash, this_machine().fingerprint(), std::to_string(options_.threads),
                                  options_.device, backend->blob_key(), std::to_string(static_cast<int>(tune())),
                                  options_.allow_fallback ? "fallback" : ""});
        for (const auto& [shaped, range] : shapes_)
            key = key_of({key, shaped, range.describe()});
        return key;
    }

    /// What INT8 leaves in float (recurrent layers, attention, normalisations) is FP32 on a CPU. Where the processor
    /// computes it in BF16 a twentieth faster or more, that engine is judged and measured beside the other.
    Result<void> build_rest_in_bfloat16() {
        const std::string name = "int8-bf16";
        if (options_.device != "cpu" || !was_built("int8") || !was_built("bf16")) return {};
        if (budget_.left() < 2 * build_seconds_ + 20) {
            budget_.cut("INT8 with the rest in BF16");
            return {};
        }
        const fs::path input = input_of("int8", Precision::int8);
        LATHE_TRY(const std::string hash, hash_file(input));
        LATHE_TRY(const std::string key, build_key(hash));
        LATHE_TRY(const Json timed, stages_.run("time " + name, key, {}, [&]() -> Result<Json> {
            LATHE_TRY(const double found, speedup_with_bfloat16_rest(file(".int8.engine"), input,
                                                                     build_options(Precision::bfloat16), progress_));
            return Json{{"speedup", found}};
        }));
        constexpr double worth = 1.05;
        const double speedup = timed.value("speedup", 0.0);
        if (speedup < worth) return {};
        tell("INT8 with the rest in BF16 takes " + report::decimals(100 / speedup, 0) +
             " % of the time: judged and measured as " + name);
        return build_named(name, Precision::bfloat16, input);
    }

    Result<void> build_named(const std::string& name, Precision precision, const fs::path& input) {
        const fs::path output = file("." + name + ".engine");
        LATHE_TRY(const std::string hash, hash_file(input));
        LATHE_TRY(const std::string key, build_key(hash));
        const auto built =
            stages_.run("build " + name, key, {output}, [&] { return build_one(precision, input, output, hash); });
        if (built) {
            if (engines_.empty()) first_engine_ = *built;
            engines_.push_back(output);
            return {};
        }
        // A precision that this machine lacks is a finding, not the end of the job.
        if (built.error().code != ErrorCode::unsupported || name == "fp32") return Error(built.error()).in(name);
        leave_out(name, built.error().describe());
        return {};
    }

    void leave_out(const std::string& name, const std::string& reason) {
        log(LogLevel::warning, name + " is left out: " + reason);
        skipped_.push_back({{"subject", name}, {"reason", reason}});
    }

    /// Where INT8 loses more than allowed a corrected network is made beside it, judged and measured like the others.
    /// The job's results stand without it, so what keeps it from being made (time, too few samples) is told, no
    /// failure.
    Result<void> answer_loss() {
        static constexpr int effort = 2;
        if (given_in_int8_ || uncorrected_ || !options_.answer_loss || effort_ >= effort || eval_.is_null() ||
            !wants(Precision::int8))
            return {};
        report::VerdictOptions limit;
        limit.max_drop_points = options_.max_drop;
        const report::Verdict verdict = report::make_verdict(nullptr, &eval_, limit);
        // A loss that only lacks proof is no cause: more samples answer it, not corrections.
        const bool loses = std::ranges::any_of(verdict.candidates, [&](const report::Candidate& candidate) {
            return candidate.name == stem_ + ".int8" && candidate.loss_points.value_or(0) > options_.max_drop;
        });
        if (!loses) return {};
        const std::string name = "int8-effort" + std::to_string(effort);
        const std::string loss = "INT8 loses more than the " + report::decimals(options_.max_drop, -1) + " pt allowed";
        // Building, judging and measuring one engine more must fit in as well.
        const double limit_s = std::min(*options_.answer_limit_s, budget_.left() - 16 - build_seconds_);
        if (options_.quick && (limit_s < 1 || !corrections_fit(limit_s))) {
            tell(loss + ", and correcting it takes longer than --quick allows");
            budget_.cut("correcting INT8 (effort " + std::to_string(effort) + ")");
            return {};
        }
        tell(loss + ": correcting it with effort " + std::to_string(effort) + " as " + name);
        TimeLimited limited(progress_, limit_s);
        if (auto made = quantize(name, effort, limited); !made) {
            if (progress_.cancelled()) return made;
            if (limited.expired() && options_.quick)
                budget_.cut("correcting INT8 (effort " + std::to_string(effort) + ")");
            const std::string reason = limited.expired() ? "correcting it took more than " +
                                                               report::decimals(limit_s, options_.quick ? 0 : -1) +
                                                               " s; without limit: --effort " + std::to_string(effort)
                                                         : made.error().describe();
            leave_out(name, reason);
            return {};
        }
        if (auto built = build_named(name, Precision::int8, input_of(name, Precision::int8)); !built) {
            if (progress_.cancelled()) return built;
            leave_out(name, built.error().describe());
            return {};
        }
        return evaluate("evaluate " + name);
    }

    BuildOptions build_options(Precision precision) const {
        BuildOptions build;
        build.name = stem_;
        build.device = options_.device;
        // Which layers of a GPU's INT8 model stay in float was decided by their time, and is judged by it again.
        if (precision != Precision::int8 || options_.device == "cpu") build.precision = precision;
        build.timing_cache = options_.timing_cache;
        build.allow_fallback = options_.allow_fallback;
        build.tune = tune();
        build.progress = &progress_;
        build.threads = options_.threads;
        build.shapes = shapes_;
        build.command_line = options_.command_line;
        return build;
    }

    Result<Json> build_one(Precision precision, const fs::path& input, const fs::path& output,
                           const std::string& hash) {
        LATHE_TRY(const Model model, load_onnx(input));
        BuildOptions build = build_options(precision);
        if (peers_run_given()) build.source = fs::absolute(options_.model).string();
        build.hashes = {{"source", source_hash_}, {"onnx", hash}};
        if (input != file(".simplified.onnx")) build.calibration_digest = ranges_.key.data;
        LATHE_TRY(Engine engine, Engine::build(model, build));
        LATHE_CHECK(engine.save(output));
        return to_json(engine.info());
    }

    Result<std::string> engines_key() const {
        std::string key = LATHE_VERSION;
        for (const auto& engine : engines_) {
            LATHE_TRY(const std::string hash, hash_file(engine));
            key = key_of({key, hash});
        }
        return key;
    }

    /// `stage`: another name for other engines, or each would undo what is kept of the other.
    Result<void> evaluate(const std::string& stage = "evaluate") {
        if (options_.evaluate.empty()) return {};
        if (!choose_evaluation_samples()) return {};
        EvalRequest request = eval_request();
        request.engines = engines_;
        LATHE_TRY(const std::string digest, evaluation_digest());
        LATHE_TRY(const std::string task, task_digest(options_.task));
        LATHE_TRY(const std::string engines, engines_key());
        auto judged = stages_.run(stage, key_of({engines, digest, task}), {},
                                  [&] { return evaluate_engines(request, progress_); });
        if (!judged && judged.error().code == ErrorCode::unsupported && options_.task.name.empty()) {
            // Outputs that no task here knows are no reason not to build and measure.
            leave_out("accuracy", judged.error().describe());
            return {};
        }
        if (!judged) return std::move(judged).error();
        eval_ = *std::move(judged);
        return write_json_file(folder_ / "eval.json", eval_);
    }

    /// Of a quick job as many as a share of its minute has room for, chosen once, so that all engines are judged on the
    /// same.
    /// False where there is no room for as many as say anything.
    bool choose_evaluation_samples() {
        if (!options_.quick || evaluation_chosen_) return evaluation_fits_;
        evaluation_chosen_ = true;
        constexpr std::size_t least = 4;
        const double each = sample_seconds() * static_cast<double>(engines_.size());
        if (each <= 0) return true;
        const auto room = static_cast<std::size_t>(std::min(budget_.share(10, 20) / each, 1e9));
        if (evaluation_samples_ != 0 && room >= evaluation_samples_) return true;
        evaluation_fits_ = room >= least;
        if (!evaluation_fits_) {
            budget_.cut("accuracy");
            return false;
        }
        evaluation_samples_ = room;
        budget_.cut("at most " + std::to_string(evaluation_samples_) + " evaluation samples");
        return true;
    }

    /// Of the FP32 engine.
    double sample_seconds() {
        if (!sample_seconds_) sample_seconds_ = time_a_sample(engines_.front());
        return *sample_seconds_;
    }

    EvalRequest eval_request() const {
        EvalRequest request;
        request.reference = file(".fp32.engine");
        request.data = options_.evaluate;
        request.columns = options_.columns;
        set_task(request, options_.task);
        request.make_tokenizer = openvino::make_tokenizer;
        request.samples = evaluation_samples_;
        request.preprocess = preprocess_;
        request.command_line = options_.command_line;
        return request;
    }

    /// Where the evaluation's samples lie, and their truth's digest. Finding them reads the truth, so it is done once.
    Result<EvaluationData> evaluation_data() {
        if (!evaluation_data_) {
            const EvalRequest request = eval_request();
            LATHE_TRY(const EvaluationTask* const task, evaluation_task(request));
            LATHE_TRY(evaluation_data_, task->data(request));
        }
        return *evaluation_data_;
    }

    /// Of samples and truth; reads them all, so it is made once.
    Result<std::string> evaluation_digest() {
        if (!evaluation_digest_.empty()) return evaluation_digest_;
        DatasetOptions data;
        data.samples = evaluation_samples_;
        data.text = text_options(model_, options_.columns);
        LATHE_TRY(const EvaluationData where, evaluation_data());
        LATHE_TRY(const auto dataset, open_dataset(where.samples, preprocess_, input_specs(model_), data));
        LATHE_TRY(const std::string digest, dataset->digest());
        evaluation_digest_ = where.truth_digest.empty() ? digest : key_of({digest, where.truth_digest});
        return evaluation_digest_;
    }

    Result<void> profile() {
        LATHE_TRY(const std::string engines, engines_key());
        double limit_s = no_limit_s;
        if (options_.quick) {
            const auto count = static_cast<double>(engines_.size());
            // It compiles each engine anew.
            const double room = budget_.left() - 14 - count * (build_seconds_ + 2 * sample_seconds());
            if (room < 0) {
                budget_.cut("the layers' times");
                return {};
            }
            limit_s = std::clamp(room / count, 0.1, 1.0);
        }
        LATHE_TRY(layers_, stages_.run("profile", key_of({engines, options_.quick ? "quick" : ""}), {},
                                       [&] { return profile_engines(engines_, progress_, limit_s); }));
        return {};
    }

    /// Those asked for, or of the usual ones those that the engines take; of a fixed batch, that one.
    std::vector<std::int64_t> batch_sizes() const {
        if (!options_.batch_sizes.empty()) return options_.batch_sizes;
        const Json& inputs = report::items(first_engine_, "inputs");
        if (inputs.empty() || inputs[0]["min"].empty()) return {1};
        const auto least = inputs[0]["min"][0].get<std::int64_t>();
        const auto most = inputs[0]["max"][0].get<std::int64_t>();
        // An input of a fixed size, a recurrent state say, goes with single samples alone.
        const bool state = std::ranges::any_of(
            inputs, [](const Json& input) { return !input["min"].empty() && input["min"][0] == input["max"][0]; });
        std::vector<std::int64_t> sizes;
        for (const std::int64_t size : {1, 8, 16}) {
            if (size >= least && size <= most && (!state || size == 1)) sizes.push_back(size);
        }
        if (sizes.empty()) sizes.push_back(least);
        if (least == most) tell("the model's batch size is fixed at " + std::to_string(least) + ", which is measured");
        return sizes;
    }

    Result<void> measure() {
        BenchRequest request;
        request.engines = engines_;
        for (const auto& text : options_.against.value()) {
            LATHE_TRY(PeerRequest peer, parse_peer(text));
            request.against.push_back(std::move(peer));
        }
        request.model = peers_run_given() ? options_.model : input_of("fp32", Precision::float32);
        request.code = options_.source;
        request.batch_sizes = batch_sizes();
        request.duration_s = *options_.duration_s;
        request.time_limit_s = *options_.time_limit_s;
        request.data = options_.calibrate;
        if (!options_.evaluate.empty()) {
            LATHE_TRY(const EvaluationData where, evaluation_data());
            request.data = where.samples;
        }
        request.columns = options_.columns;
        request.make_tokenizer = openvino::make_tokenizer;
        request.preprocess = preprocess_;
        request.samples = 64;
        request.probe_command = options_.program;
        if (!options_.program.empty()) request.probe_command.insert(request.probe_command.end(), {"bench", "--probe"});
        request.command_line = options_.command_line;
        if (options_.quick) budget_.fit(request, *options_.against, sample_seconds());
        LATHE_TRY(std::string key, engines_key());
        key = key_of({key, source_hash_, this_machine().fingerprint(), std::to_string(request.duration_s),
                      std::to_string(request.time_limit_s), options_.quick ? "quick" : "", request.data.string(),
                      request.columns, request.code});
        for (const auto& text : options_.against.value())
            key = key_of({key, text});
        for (const auto batch : request.batch_sizes)
            key = key_of({key, std::to_string(batch)});
        LATHE_TRY(bench_, stages_.run("benchmark", key, {}, [&] { return bench(request, progress_); }));
        for (const Json& entry : bench_["unavailable"]) {
            if (entry.value("reason", "") == over_budget) {
                budget_.cut(entry.value("subject", ""));
                continue;
            }
            const std::string cure = entry.value("cure", "");
            log(LogLevel::warning, entry.value("subject", "") + " was not measured: " + entry.value("reason", "") +
                                       (cure.empty() ? "" : "; " + cure));
        }
        for (auto& entry : skipped_)
            bench_["unavailable"].push_back(entry);
        return write_json_file(folder_ / "bench.json", bench_);
    }

    /// Whether what INT8 loses is too much, or may be.
    bool loses_in_int8(const report::Verdict& verdict) const {
        return std::ranges::any_of(verdict.candidates, [&](const report::Candidate& candidate) {
            return candidate.name == stem_ + ".int8" &&
                   (candidate.accuracy == report::Accuracy::worse || candidate.accuracy == report::Accuracy::unproven);
        });
    }

    /// What limits the verdict, for a person who reads it.
    Result<void> add_caveats(report::Verdict& verdict) {
        if (budget_.any_cut()) verdict.reasons.push_back(budget_.told());
        if (!given_in_int8_ && loses_in_int8(verdict) && effort_ < 2 && quantizations_.size() < 2)
            verdict.reasons.emplace_back(
                effort_ == 0 ? "INT8 was not corrected: --effort 2 gains most of such a loss back, as a rule."
                             : "INT8 was corrected with effort 1: --effort 2 may gain more of it back.");
        if (options_.evaluate.empty() || !wants(Precision::int8) || given_in_int8_) return {};
        LATHE_TRY(const EvaluationData where, evaluation_data());
        std::error_code failed;
        const fs::path judged = fs::weakly_canonical(where.samples, failed);
        const fs::path tuned = fs::weakly_canonical(options_.calibrate, failed);
        const auto inside = [](const fs::path& path, const fs::path& folder) {
            return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
        };
        if (!failed && (inside(judged, tuned) || inside(tuned, judged)))
            verdict.reasons.emplace_back("INT8 was " +
                                         std::string(corrected() ? "calibrated and corrected" : "calibrated") +
                                         " on the data it is judged by: on new data it may lose more. Give "
                                         "--evaluate other samples than --calibrate.");
        return {};
    }

    /// Whether weights or ranges of an INT8 network were fitted to samples.
    bool corrected() const {
        return std::any_of(quantizations_.begin(), quantizations_.end(),
                           [](const Json& each) { return each.contains("corrections"); });
    }

    Result<OptimizeResult> report() {
        const Machine machine = this_machine();
        report::VerdictOptions verdict_options;
        verdict_options.max_drop_points = options_.max_drop;
        report::Verdict verdict = report::make_verdict(&bench_, eval_.is_null() ? nullptr : &eval_, verdict_options);
        LATHE_CHECK(add_caveats(verdict));
        Json stages = stages_.timings();
        for (const auto& timing : timings_extra_)
            stages.insert(stages.begin() + 1, timing);

        Json model = summary_;
        model["name"] = stem_;
        model["file"] = options_.model.string();
        model["hash"] = source_hash_;
        Json document{{"kind", "optimize"},
                      {"version", 1},
                      {"model", std::move(model)},
                      {"verdict", report::to_json(verdict, verdict_options)},
                      {"device", options_.device},
                      {"precisions", precision_names()},
                      {"bench", bench_}};
        if (!eval_.is_null()) document["eval"] = eval_;
        if (!layers_.is_null()) document["layers"] = layers_;
        if (!calibration_.is_null()) document["calibration"] = calibration_;
        if (quantizations_.contains("int8")) document["quantization"] = quantizations_["int8"];
        if (quantizations_.size() > 1) document["quantizations"] = quantizations_;
        document["simplify"] = simplify_result_;
        document["machine"] = to_json(machine);
        document["provenance"] = {{"command", options_.command_line},
                                  {"lathe_version", LATHE_VERSION},
                                  {"time", utc_now()},
                                  {"libraries", bench_["libraries"]},
                                  {"data", {options_.calibrate.string(), options_.evaluate.string()}},
                                  {"hashes", hashes()}};
        document["stages"] = std::move(stages);
        LATHE_CHECK(write_json_file(folder_ / "report.json", document));

        report::DocumentOptions page;
        page.command = options_.command_line;
        page.version = LATHE_VERSION;
        LATHE_TRY(const Json whole, report::make_document({{(folder_ / "report.json").string(), document}}, page));
        LATHE_CHECK(write_file(folder_ / "report.html", report::render_html(whole)));

        OptimizeResult result;
        result.verdict = verdict.text;
        result.reasons = verdict.reasons;
        if (!verdict.recommended.empty()) result.engine = folder_ / (verdict.recommended + ".engine");
        result.report = folder_ / "report.html";
        result.folder = folder_;
        result.rows = optimized_rows(bench_, eval_, folder_);
        result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
        return result;
    }

    Json hashes() const {
        Json found{{options_.model.filename().string(), source_hash_}};
        for (const auto& engine : engines_) {
            if (const auto hash = hash_file(engine)) found[engine.filename().string()] = *hash;
        }
        return found;
    }

    std::vector<std::string> precision_names() const {
        std::vector<std::string> names;
        for (const Precision precision : precisions_)
            names.push_back(to_string(precision));
        return names;
    }

    const OptimizeRequest& options_;
    Progress& progress_;
    fs::path folder_;
    std::string stem_;
    bool given_in_int8_ = false;
    std::vector<Precision> precisions_; ///< of the request, but for what this model cannot have
    int effort_;                        ///< of the request, or the usual one, until that proves too much
    Stages stages_;
    Model model_;
    std::map<std::string, ShapeRange> shapes_ =
        options_.shapes;        ///< of the request, but for inputs that became constants
    bool inputs_fixed_ = false; ///< some inputs of the file are constants of `model_`
    std::optional<Preprocess> preprocess_;
    std::string source_hash_;
    std::string key_; ///< of the model as read, with its preprocessing
    RangesFile ranges_;
    std::vector<fs::path> engines_;
    QuickBudget budget_{options_.quick};
    bool uncorrected_ = false;    ///< there was no time for the corrections that were asked for
    double build_seconds_ = 0;    ///< of the slowest engine
    double observed_seconds_ = 0; ///< a sample of the calibration; 0 where it was reused
    std::optional<double> sample_seconds_;
    std::size_t evaluation_samples_ = options_.evaluate_samples.value_or(0);
    bool evaluation_chosen_ = false;
    bool evaluation_fits_ = true;
    std::optional<EvaluationData> evaluation_data_;
    std::string evaluation_digest_;
    Json first_engine_; ///< what the first built engine says of itself
    Json summary_, simplify_result_, calibration_, eval_, layers_, bench_;
    Json quantizations_ = Json::object(); ///< by name of the INT8 network
    Json timings_extra_ = Json::array();
    Json skipped_ = Json::array();
};

} // namespace

Result<OptimizeResult> optimize(const OptimizeRequest& asked) {
    LATHE_TRY(const OptimizeRequest request, completed(asked));
    std::error_code failed;
    std::filesystem::create_directories(request.output, failed);
    if (failed) {
        return Error{ErrorCode::io, "cannot make the output folder: " + failed.message(), request.output.string(), ""};
    }
    return Optimizer(request, request.progress != nullptr ? *request.progress : no_progress()).run();
}

} // namespace lathe
