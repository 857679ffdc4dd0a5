#include "cli/optimizer.hpp"

#include <algorithm>
#include <optional>

#include "api/model_data.hpp"
#include "api/summary.hpp"
#include "backends/api/backend.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "bench/run.hpp"
#include "calibrate/report.hpp"
#include "cli/calibrate.hpp"
#include "cli/commands.hpp"
#include "cli/correction.hpp"
#include "cli/profile.hpp"
#include "cli/simplify.hpp"
#include "cli/stages.hpp"
#include "cli/tune.hpp"
#include "data/open_dataset.hpp"
#include "evaluate/run.hpp"
#include "onnx/onnx.hpp"
#include "report/document.hpp"
#include "report/html.hpp"
#include "report/verdict.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"
#include "tasks/detection/truth.hpp"

namespace lathe::cli {

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
    Optimizer(const OptimizeOptions& options, const Context& context)
        : options_(options), context_(context), folder_(options.output), stem_(fs::path(options.model).stem().string()),
          stages_(Stages::open(folder_ / (stem_ + ".stages.json"), context, options.force)) {}

    Result<void> run() {
        LATHE_CHECK(read_model());
        LATHE_CHECK(simplify());
        if (wants("int8")) {
            LATHE_CHECK(calibrate());
            LATHE_CHECK(quantize());
        }
        LATHE_CHECK(build());
        LATHE_CHECK(evaluate());
        LATHE_CHECK(profile());
        LATHE_CHECK(measure());
        return report();
    }

private:
    bool wants(const std::string& precision) const {
        return std::find(options_.precisions.begin(), options_.precisions.end(), precision) !=
               options_.precisions.end();
    }
    fs::path file(const std::string& ending) const { return folder_ / (stem_ + ending); }
    Target target() const {
        if (options_.device == "tensorrt") return Target::tensorrt;
        return options_.on_gpu() ? Target::cuda : Target::openvino;
    }

    Result<void> read_model() {
        LATHE_TRY(model_, load_onnx(options_.model));
        if (!options_.preprocess.empty()) {
            LATHE_TRY(preprocess_, Preprocess::from_file(options_.preprocess));
            model_.set_metadata("lathe.preprocess", preprocess_->to_json().dump());
        } else {
            LATHE_TRY(preprocess_, preprocess_of(model_));
            if (!preprocess_) assume_preprocess();
        }
        LATHE_TRY(source_hash_, hash_file(options_.model));
        summary_ = to_json(summarize_resolved(model_), false);
        key_ = key_of({LATHE_VERSION, source_hash_, preprocess_ ? preprocess_->to_json().dump() : ""});
        return {};
    }

    /// Detectors rarely say how pictures become their input, but their heads tell how that is usually done.
    void assume_preprocess() {
        preprocess_ = assumed_preprocess(model_);
        if (!preprocess_) return;
        const std::string json = preprocess_->to_json().dump();
        model_.set_metadata("lathe.preprocess", json);
        context_.print("assumed, as usual for a " + std::string(to_string(head_of(model_)->form)) +
                       " head (--preprocess says otherwise): " + json);
    }

    Result<void> simplify() {
        const fs::path output = file(".simplified.onnx");
        LATHE_TRY(simplify_result_, stages_.run("simplify", key_, {output}, [&]() -> Result<Json> {
            Model simplified = model_;
            SimplifyOptions options;
            options.progress = &context_.progress();
            LATHE_TRY(const SimplifyReport result, simplify_model(simplified, options));
            LATHE_CHECK(save_onnx(simplified, output));
            return to_json(result);
        }));
        // The file, not the copy in memory, is what the later steps are about.
        LATHE_TRY(model_, load_onnx(output));
        return {};
    }

    /// Auto chooses among ranges from histograms, which any method's file holds.
    Result<Method> range_method() const {
        return options_.method == "auto" ? Result<Method>(Method::mse) : method_from_name(options_.method);
    }
    Result<CorrectOptions> corrections_asked() const {
        LATHE_TRY(CorrectOptions correcting, options_of(options_.correction, ""));
        correcting.auto_ranges = correcting.auto_ranges || options_.method == "auto";
        correcting.threads = options_.threads;
        return correcting;
    }

    Result<void> calibrate() {
        PlacementOptions placement;
        LATHE_CHECK(choose_formats(options_.formats, placement));
        LATHE_TRY(const TargetProfile profile,
                  with_formats(profile_of(target()), placement.weights, placement.activations));
        CalibrateRequest request;
        request.data = options_.calibrate;
        request.columns = options_.columns;
        request.preprocess = preprocess_;
        request.samples = options_.samples.samples;
        LATHE_TRY(const CorrectOptions corrections, corrections_asked());
        request.until_settled = options_.samples.until_settled && (options_.samples_given || !corrections.any());
        request.threads = options_.threads;
        LATHE_TRY(request.method, range_method());
        request.output = file(".ranges");
        request.force = options_.force;
        auto outcome = calibrate_model(model_, request, context_);
        if (!outcome && outcome.error().code == ErrorCode::mismatch) {
            // The folder is this job's own: a cache of other data or another model is replaced, and that is said.
            context_.print("calibrating anew: " + outcome.error().message);
            request.force = true;
            outcome = calibrate_model(model_, request, context_);
        }
        if (!outcome) return std::move(outcome).error();
        calibration_ = calibration_to_json(outcome->ranges, profile.activations, outcome->seconds);
        timings_extra_.push_back({{"name", "calibrate"}, {"seconds", outcome->seconds}, {"reused", outcome->reused}});
        ranges_ = std::move(outcome->ranges);
        return {};
    }

    Result<void> quantize() {
        LATHE_TRY(const std::string ranges_hash, hash_file(file(".ranges")));
        std::string key = key_of({key_, ranges_hash, options_.method, to_string(target()), key_of(options_.correction),
                                  options_.formats.weights, options_.formats.activations});
        for (const auto& pattern : options_.exclude)
            key = key_of({key, pattern});
        const fs::path output = file(".int8.onnx");
        LATHE_TRY(quantization_, stages_.run("quantize", key, {output}, [&]() -> Result<Json> {
            QuantizeOptions options;
            options.target = target();
            options.placement.exclude = options_.exclude;
            LATHE_CHECK(choose_formats(options_.formats, options.placement));
            LATHE_TRY(options.method, range_method());
            LATHE_TRY(const CorrectOptions corrections, corrections_asked());
            const CorrectData data{options_.calibrate, options_.columns, preprocess_};
            LATHE_TRY(const CorrectOutcome outcome,
                      quantize_on_data(model_, ranges_, options, corrections, data, context_.progress()));
            print_corrections(outcome, context_);
            LATHE_CHECK(save_onnx(outcome.quantized.model, output));
            return outcome.quantized.document;
        }));
        return {};
    }

    Result<void> build() {
        LATHE_TRY(const Backend* backend, backend_for_device(options_.device));
        const std::string machine = this_machine().fingerprint();
        for (const auto& name : options_.precisions) {
            const auto precision = precision_from_name(name);
            if (!precision) {
                return Error{ErrorCode::invalid_argument, "no precision is called '" + name + "'", "--precisions",
                             "choose from fp32, tf32 (GPU), bf16, fp16, int8"};
            }
            const fs::path input = name == "int8" ? file(".int8.onnx") : file(".simplified.onnx");
            const fs::path output = file("." + name + ".engine");
            LATHE_TRY(const std::string hash, hash_file(input));
            std::string key = key_of({LATHE_VERSION, hash, machine, std::to_string(options_.threads), options_.device,
                                      backend->blob_key(), options_.tune, options_.allow_fallback ? "fallback" : ""});
            for (const auto& shape : options_.shapes)
                key = key_of({key, shape});
            const auto built =
                stages_.run("build " + name, key, {output}, [&] { return build_one(*precision, input, output, hash); });
            if (built) {
                engines_.push_back(output);
                continue;
            }
            // A precision that this machine lacks is a finding, not the end of the job.
            if (built.error().code != ErrorCode::unsupported || name == "fp32") return Error(built.error()).in(name);
            context_.warn(name + " is left out: " + built.error().describe());
            skipped_.push_back({{"subject", name}, {"reason", built.error().describe()}});
        }
        return {};
    }

    Result<Json> build_one(Precision precision, const fs::path& input, const fs::path& output,
                           const std::string& hash) {
        LATHE_TRY(const Model model, load_onnx(input));
        BuildOptions build;
        build.name = stem_;
        build.device = options_.device;
        build.precision = precision;
        build.timing_cache = options_.timing_cache;
        build.allow_fallback = options_.allow_fallback;
        build.tune = tune_effort(options_.tune);
        build.progress = &context_.progress();
        build.threads = options_.threads;
        for (const auto& text : options_.shapes) {
            LATHE_TRY(auto shape, parse_shape_range(text));
            build.shapes.insert(std::move(shape));
        }
        build.command_line = context_.command_line();
        // Peers run the float model that the user gave, not our simplified one.
        build.source = fs::absolute(options_.model).string();
        build.hashes = {{"source", source_hash_}, {"onnx", hash}};
        if (precision == Precision::int8) build.calibration_digest = ranges_.key.data;
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

    Result<void> evaluate() {
        if (options_.evaluate.empty()) return {};
        EvalRequest request;
        request.engines = engines_;
        request.reference = file(".fp32.engine");
        request.data = options_.evaluate;
        request.columns = options_.columns;
        request.make_tokenizer = openvino::make_tokenizer;
        request.samples = options_.evaluate_samples;
        request.preprocess = preprocess_;
        request.command_line = context_.command_line();
        LATHE_TRY(const std::string digest, evaluation_digest());
        LATHE_TRY(const std::string engines, engines_key());
        LATHE_TRY(eval_, stages_.run("evaluate", key_of({engines, digest}), {},
                                     [&] { return evaluate_engines(request, context_.progress()); }));
        return write_json_file(folder_ / "eval.json", eval_);
    }

    Result<std::string> evaluation_digest() const {
        DatasetOptions data;
        data.samples = options_.evaluate_samples;
        data.text = text_options(model_, options_.columns);
        LATHE_TRY(const auto truth, find_detection_truth(options_.evaluate));
        const fs::path samples = truth ? truth->pictures : fs::path(options_.evaluate);
        LATHE_TRY(const auto dataset, open_dataset(samples, preprocess_, input_specs(model_), data));
        LATHE_TRY(const std::string digest, dataset->digest());
        return truth ? key_of({digest, truth->digest}) : digest;
    }

    Result<void> profile() {
        LATHE_TRY(const std::string engines, engines_key());
        LATHE_TRY(layers_,
                  stages_.run("profile", engines, {}, [&] { return profile_engines(engines_, context_.progress()); }));
        return {};
    }

    Result<void> measure() {
        BenchRequest request;
        request.engines = engines_;
        for (const auto& text : options_.against) {
            if (text.empty()) continue; // --against '' compares with nothing
            LATHE_TRY(PeerRequest peer, parse_peer(text));
            request.against.push_back(std::move(peer));
        }
        request.model = options_.model;
        request.batch_sizes = options_.batch_sizes;
        request.duration_s = options_.duration_s;
        request.time_limit_s = options_.time_limit_s;
        request.data = options_.evaluate.empty() ? options_.calibrate : options_.evaluate;
        request.columns = options_.columns;
        request.make_tokenizer = openvino::make_tokenizer;
        request.preprocess = preprocess_;
        request.samples = 64;
        request.probe_command = {"/proc/self/exe", "bench", "--probe"};
        request.command_line = context_.command_line();
        LATHE_TRY(std::string key, engines_key());
        key = key_of({key, source_hash_, this_machine().fingerprint(), std::to_string(options_.duration_s),
                      std::to_string(options_.time_limit_s), request.data.string(), request.columns});
        for (const auto& text : options_.against)
            key = key_of({key, text});
        for (const auto batch : options_.batch_sizes)
            key = key_of({key, std::to_string(batch)});
        LATHE_TRY(bench_, stages_.run("benchmark", key, {}, [&] { return bench(request, context_.progress()); }));
        for (auto& entry : skipped_)
            bench_["unavailable"].push_back(entry);
        return write_json_file(folder_ / "bench.json", bench_);
    }

    Result<void> report() {
        const Machine machine = this_machine();
        report::VerdictOptions verdict_options;
        verdict_options.max_drop_points = options_.max_drop;
        const report::Verdict verdict =
            report::make_verdict(&bench_, eval_.is_null() ? nullptr : &eval_, verdict_options);
        Json stages = stages_.timings();
        for (const auto& timing : timings_extra_)
            stages.insert(stages.begin() + 1, timing);

        Json model = summary_;
        model["name"] = stem_;
        model["file"] = options_.model;
        model["hash"] = source_hash_;
        Json document{{"kind", "optimize"},
                      {"version", 1},
                      {"model", std::move(model)},
                      {"verdict", report::to_json(verdict, verdict_options)},
                      {"device", options_.device},
                      {"precisions", options_.precisions},
                      {"bench", bench_}};
        if (!eval_.is_null()) document["eval"] = eval_;
        document["layers"] = layers_;
        if (!calibration_.is_null()) document["calibration"] = calibration_;
        if (!quantization_.is_null()) document["quantization"] = quantization_;
        document["simplify"] = simplify_result_;
        document["machine"] = to_json(machine);
        document["provenance"] = {{"command", context_.command_line()},
                                  {"lathe_version", LATHE_VERSION},
                                  {"time", utc_now()},
                                  {"libraries", bench_["libraries"]},
                                  {"data", {options_.calibrate, options_.evaluate}},
                                  {"hashes", hashes()}};
        document["stages"] = std::move(stages);
        LATHE_CHECK(write_json_file(folder_ / "report.json", document));

        report::DocumentOptions page;
        page.command = context_.command_line();
        page.version = LATHE_VERSION;
        LATHE_TRY(const Json whole, report::make_document({{(folder_ / "report.json").string(), document}}, page));
        LATHE_CHECK(write_file(folder_ / "report.html", report::render_html(whole)));

        context_.print("");
        context_.print(context_.bold(verdict.text));
        for (const auto& reason : verdict.reasons)
            context_.print("  " + reason);
        if (!verdict.recommended.empty()) {
            context_.print("Engine: " + (folder_ / (verdict.recommended + ".engine")).string());
        }
        context_.print("Report: " + (folder_ / "report.html").string());
        context_.print_json(document);
        return {};
    }

    Json hashes() const {
        Json found{{fs::path(options_.model).filename().string(), source_hash_}};
        for (const auto& engine : engines_) {
            if (const auto hash = hash_file(engine)) found[engine.filename().string()] = *hash;
        }
        return found;
    }

    const OptimizeOptions& options_;
    const Context& context_;
    fs::path folder_;
    std::string stem_;
    Stages stages_;
    Model model_;
    std::optional<Preprocess> preprocess_;
    std::string source_hash_;
    std::string key_; ///< of the model as read, with its preprocessing
    RangesFile ranges_;
    std::vector<fs::path> engines_;
    Json summary_, simplify_result_, calibration_, quantization_, eval_, layers_, bench_;
    Json timings_extra_ = Json::array();
    Json skipped_ = Json::array();
};

} // namespace

Result<void> run_optimizer(const OptimizeOptions& options, const Context& context) {
    return Optimizer(options, context).run();
}

} // namespace lathe::cli
