#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "api/correct.hpp"
#include "backends/api/backend.hpp"
#include "cli/commands.hpp"
#include "cli/correction.hpp"
#include "cli/prepare.hpp"
#include "cli/tune.hpp"
#include "evaluate/engine_predictor.hpp"
#include "mix/engine_workshop.hpp"
#include "mix/outcome.hpp"
#include "mix/part_dataset.hpp"
#include "mix/search.hpp"
#include "report/document.hpp"
#include "report/html.hpp"
#include "runtime/engine.hpp"
#include "sensitivity/journal.hpp"
#include "sensitivity/measure.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"

// `lathe tune`: the best mix of precisions. (cli/tune.hpp is the option --tune, about the time of GPU kernels.)
namespace lathe::cli {

namespace {

namespace fs = std::filesystem;

struct Options {
    PrepareOptions prepare;
    SearchOptions search;
    WorkshopOptions workshop;
    std::string metric = to_string(DamageMetric::top1);
    std::string budget = "10m";
    std::string device = "cpu";
    std::string judge;
    std::string sensitivity;
    std::size_t sensitivity_samples = 64;
    std::optional<int> effort; ///< absent: 2 where the data allow it
    std::vector<std::string> shapes;
    std::string timing_cache;
    std::string tune = "default";
    std::string output;
    std::string results;
    std::string report;
    bool force = false;
};

/// "10m", "90s", "2h", or seconds.
Result<double> parse_duration(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string unit(end, text.data() + text.size());
    const double factor = unit == "h" ? 3600 : unit == "m" || unit == "min" ? 60 : unit == "s" || unit.empty() ? 1 : 0;
    if (error != std::errc{} || factor == 0 || !(value >= 0)) {
        return Error{ErrorCode::invalid_argument, "\"" + text + "\" is no duration", "--time-budget",
                     "write 10m, 90s or 1h"};
    }
    return value * factor;
}

/// The samples as one array an input, `most` of them at most (0: all).
Result<std::vector<HostTensor>> joined(const std::vector<Batch>& batches, std::size_t most) {
    MemoryDataset samples(batches, most);
    LATHE_TRY(std::optional<Batch> all, samples.next(samples.size()));
    if (!all) return std::vector<HostTensor>{};
    return std::move(all->inputs);
}

class Tuning {
public:
    Tuning(const Options& options, const Context& context) : options_(options), context_(context) {}

    Result<void> run() {
        LATHE_CHECK(settle_options());
        LATHE_TRY(prepared_, prepare_model(options_.prepare, context_,
                                           [this](const PreparedModel& model) { return calibration_samples(model); }));
        LATHE_CHECK(open_data(prepared_));
        LATHE_TRY(layers_, quantizable_layers(prepared_.model, workshop_options_.target));
        if (layers_.empty()) {
            return Error{ErrorCode::invalid_argument, "there is nothing in this model to quantise",
                         options_.prepare.model, "lathe quantize --explain gives the reasons"};
        }
        LATHE_CHECK(correct());
        LATHE_CHECK(resume());
        EngineWorkshop workshop(prepared_.model, prepared_.ranges, layers_, samples_, workshop_options_,
                                context_.progress());
        if (corrected_) workshop.correct_with(*corrected_);
        LATHE_CHECK(search(workshop));
        return finish(workshop);
    }

private:
    /// What can be told before any work.
    Result<void> settle_options() {
        search_options_ = options_.search;
        workshop_options_ = options_.workshop;
        LATHE_TRY(search_options_.metric, damage_metric_from_name(options_.metric));
        LATHE_TRY(search_options_.budget_s, parse_duration(options_.budget));
        LATHE_TRY(backend_, backend_for_device(options_.device));
        const bool gpu = options_.device != "cpu";
        workshop_options_.target = options_.device == "tensorrt" ? Target::tensorrt
                                   : gpu                         ? Target::cuda
                                                                 : Target::openvino;
        DevicePrecisions precisions = precisions_of(options_.device);
        search_options_.floats = std::move(precisions.floats);
        search_options_.bases = std::move(precisions.bases);
        BuildOptions& build = workshop_options_.build;
        build.device = options_.device;
        build.threads = options_.prepare.threads;
        build.timing_cache = options_.timing_cache;
        build.tune = tune_effort(options_.tune);
        build.name = fs::path(options_.prepare.model).stem().string();
        build.source = fs::absolute(options_.prepare.model).string();
        build.command_line = context_.command_line();
        for (const std::string& text : options_.shapes) {
            LATHE_TRY(auto shape, parse_shape_range(text));
            build.shapes.insert(std::move(shape));
        }
        LATHE_CHECK(check_writable({options_.output, options_.results, options_.report}));
        return look_for({options_.judge, options_.sensitivity});
    }

    /// Reads the part of the data that the search sees, once.
    Result<void> open_data(const PreparedModel& prepared) {
        if (data_) return {};
        LATHE_TRY(data_, open_labelled(options_.prepare.data, prepared, options_.prepare));
        if (search_options_.metric == DamageMetric::top1 && !data_->has_labels()) {
            return Error{ErrorCode::invalid_argument, "--metric top1 needs labels, and the data has none",
                         options_.prepare.data, "add labels.csv or class subfolders, or use --metric agreement or kl"};
        }
        const std::size_t parts = options_.judge.empty() ? 2 : 1;
        if (data_->size() < parts) {
            return Error{ErrorCode::invalid_argument,
                         "the data holds " + std::to_string(data_->size()) + " samples, too few to search and to judge",
                         options_.prepare.data, "give more samples"};
        }
        context_.progress().begin("reading samples", 0);
        PartDataset part(*data_, 0, parts);
        LATHE_TRY(samples_, read_all(part));
        context_.progress().end();
        return {};
    }

    Result<std::vector<HostTensor>> calibration_samples(const PreparedModel& prepared) {
        LATHE_CHECK(open_data(prepared));
        return joined(samples_, options_.prepare.calibrate_samples);
    }

    /// Corrects INT8 throughout, once: mixes take what the layers have in it.
    Result<void> correct() {
        if (options_.effort == 0) return {};
        QuantizeOptions quantize;
        quantize.target = workshop_options_.target;
        CorrectOptions how = options_of_effort(options_.effort.value_or(2));
        how.float_last = false; // the search decides that
        how.threads = options_.prepare.threads;
        const OpenData open = [this](std::size_t samples) -> Result<std::unique_ptr<Dataset>> {
            if (options_.prepare.calibrate.empty())
                return std::unique_ptr<Dataset>(std::make_unique<MemoryDataset>(samples_, samples));
            PrepareOptions calibration = options_.prepare;
            calibration.samples = samples;
            return open_labelled(options_.prepare.calibrate, prepared_, calibration);
        };
        auto outcome = quantize_on_samples(prepared_.model, prepared_.ranges, quantize, how, open, context_.progress());
        const auto too_little = [](ErrorCode code) {
            return code == ErrorCode::not_found || code == ErrorCode::invalid_argument;
        };
        if (!outcome && !options_.effort && too_little(outcome.error().code)) {
            context_.print("INT8 without corrections (--effort 0): " + outcome.error().describe());
            return {};
        }
        if (!outcome) return std::move(outcome).error();
        corrected_ = *std::move(outcome);
        print_corrections(*corrected_, context_);
        return {};
    }

    /// What an earlier run has found, or the sensitivity of the layers.
    Result<void> resume() {
        LATHE_TRY(const std::string digest, data_->digest());
        Hasher hasher;
        for (const std::string& part : {prepared_.key,
                                        digest,
                                        options_.device,
                                        options_.metric,
                                        std::string(to_string(ranking_metric(search_options_.metric))),
                                        options_.judge,
                                        backend_->blob_key(),
                                        workshop_options_.output_name,
                                        options_.sensitivity,
                                        options_.tune,
                                        std::to_string(search_options_.max_drop),
                                        std::to_string(search_options_.min_speedup),
                                        std::to_string(search_options_.slack),
                                        std::to_string(workshop_options_.batch_size),
                                        std::to_string(options_.prepare.threads),
                                        std::to_string(options_.prepare.samples),
                                        std::to_string(options_.prepare.length),
                                        std::to_string(options_.sensitivity_samples),
                                        std::to_string(workshop_options_.time_limit_s),
                                        std::to_string(corrected_ ? options_.effort.value_or(2) : 0),
                                        this_machine().fingerprint()})
            hasher.update(part);
        for (const std::string& shape : options_.shapes)
            hasher.update(shape);
        key_ = hasher.hex();
        journal_.emplace(fs::path(options_.output + ".journal"), key_);
        std::error_code ignored;
        if (options_.force) {
            fs::remove(journal_->file(), ignored);
            fs::remove(options_.output + ".sensitivity.part", ignored);
        }
        LATHE_TRY(const std::optional<Json> kept, journal_->read());
        if (!kept) return measure_damage();
        const auto damaged = [&] {
            return Error{ErrorCode::corrupt, "the record of earlier work is damaged", journal_->file().string(),
                         "remove it, or begin anew with --force"};
        };
        try {
            state_.damage = kept->at("damage").get<std::vector<double>>();
            state_.gains = kept->at("gains").get<std::vector<double>>();
            state_.seconds = kept->at("seconds").get<double>();
            saved_mix_ = kept->at("saved_mix").get<std::string>();
            saved_hash_ = kept->at("saved_hash").get<std::string>();
            for (const Json& trial : kept->at("trials")) {
                LATHE_TRY(Trial read, trial_from_json(trial));
                if (read.mix.int8.size() != layers_.size()) return damaged();
                state_.trials.push_back(std::move(read));
            }
        } catch (const Json::exception&) {
            return damaged();
        }
        if (state_.damage.size() != layers_.size()) return damaged();
        context_.print("going on after " + std::to_string(state_.trials.size()) + " trials");
        return {};
    }

    Result<void> measure_damage() {
        std::map<std::string, double> damage;
        if (!options_.sensitivity.empty()) {
            LATHE_TRY(const Json file, read_json_file(options_.sensitivity));
            if (file.value("kind", "") != "sensitivity" || !file.contains("layers")) {
                return Error{ErrorCode::parse_error, "no result of lathe sensitivity", options_.sensitivity,
                             "write one with lathe sensitivity --output FILE"};
            }
            for (const Json& layer : file["layers"]) {
                if (!layer.contains("mean_kl")) continue; // stays float
                LATHE_TRY(const double loss, loss_from_json(layer, search_options_.metric));
                damage[layer.value("node", "")] = loss;
            }
        } else {
            MemoryDataset samples(samples_, options_.sensitivity_samples);
            LATHE_TRY(const Backend* cpu, default_backend());
            SensitivityOptions measure;
            measure.target = workshop_options_.target;
            measure.threads = options_.prepare.threads;
            measure.length = options_.prepare.length;
            measure.output_name = workshop_options_.output_name;
            measure.journal = options_.output + ".sensitivity.part";
            measure.key = key_;
            const Model& model = corrected_ ? corrected_->real : prepared_.model;
            const RangesFile& ranges = corrected_ ? corrected_->ranges : prepared_.ranges;
            LATHE_TRY(const Sensitivity found,
                      measure_sensitivity(model, ranges, samples, *cpu, measure, context_.progress()));
            state_.seconds = found.seconds;
            for (const LayerSensitivity& layer : found.layers)
                damage[layer.node] = loss_of(layer.score, search_options_.metric);
        }
        for (const std::string& layer : layers_) {
            if (!damage.contains(layer)) {
                return Error{ErrorCode::mismatch, "the sensitivity of a layer is not known", layer,
                             "the file belongs to another model or target: leave --sensitivity out"};
            }
            state_.damage.push_back(damage.at(layer));
        }
        LATHE_CHECK(keep());
        std::error_code ignored;
        fs::remove(options_.output + ".sensitivity.part", ignored);
        return {};
    }

    Result<void> keep() const {
        Json trials = Json::array();
        for (const Trial& trial : state_.trials)
            trials.push_back(lathe::to_json(trial));
        return journal_->write({{"damage", state_.damage},
                                {"gains", state_.gains},
                                {"seconds", state_.seconds},
                                {"saved_mix", saved_mix_},
                                {"saved_hash", saved_hash_},
                                {"trials", std::move(trials)}});
    }

    /// The engine file is that of this mix: whole, and what was written.
    Result<void> save(EngineWorkshop& workshop, const Mix& mix) {
        if (saved_mix_ == mix.key()) {
            if (const auto hash = hash_file(options_.output); hash && *hash == saved_hash_) return {};
        }
        LATHE_CHECK(workshop.save(mix, options_.output));
        LATHE_TRY(saved_hash_, hash_file(options_.output));
        saved_mix_ = mix.key();
        return {};
    }

    Result<void> search(EngineWorkshop& workshop) {
        const auto found = [&](const SearchState& state, std::size_t best) -> Result<void> {
            LATHE_CHECK(save(workshop, state.trials[best].mix));
            LATHE_CHECK(keep());
            report_trial(state, best);
            return {};
        };
        auto searched = search_mix(state_, search_options_, workshop, found, context_.progress());
        if (!searched && searched.error().code == ErrorCode::cancelled) {
            searched.error().hint = std::to_string(state_.trials.size()) + " trials are kept in " +
                                    journal_->file().string() + ": the same command goes on from there" +
                                    (saved_mix_.empty() ? "" : "; " + options_.output + " is the best engine so far");
        }
        return searched;
    }

    void report_trial(const SearchState& state, std::size_t best) {
        if (state.trials.size() == reported_) return;
        reported_ = state.trials.size();
        const Trial& trial = state.trials.back();
        char text[200];
        if (trial.failed.empty()) {
            std::snprintf(text, sizeof(text), "%-9s %-24s %7.3f ms  %5.2fx  loses %.3g %s, %s %.2g%s",
                          trial.phase.c_str(), trial.mix.name().c_str(), trial.latency_ms, trial.speedup,
                          drop_of(trial.score, search_options_.metric), drop_unit(search_options_.metric),
                          loss_name(search_options_.metric), loss_of(trial.score, search_options_.metric),
                          best + 1 == state.trials.size() ? "  <- best so far" : "");
            context_.print(text);
        } else {
            context_.print(trial.phase + " " + trial.mix.name() + ": " + trial.failed);
        }
    }

    /// Judges and times the engine in the file.
    Result<void> finish(EngineWorkshop& workshop) {
        const std::size_t chosen = choose(state_.trials, search_options_).value();
        const Trial& best = state_.trials[chosen];
        LATHE_CHECK(save(workshop, best.mix));
        LATHE_CHECK(keep());
        LATHE_TRY(const Engine engine, Engine::load(options_.output));
        Judged judged;
        LATHE_TRY(judged.evaluation, evaluate_saved(workshop, engine));
        std::vector<Mix> others;
        for (const Trial& trial : state_.trials) {
            if (trial.failed.empty() && !trial.mix.any_int8()) others.push_back(trial.mix);
        }
        judged.floats = others.size();
        for (const Trial& trial : state_.trials) {
            if (trial.failed.empty() && trial.phase == "int8") others.push_back(trial.mix);
        }
        context_.progress().begin("timing the saved engine", 0);
        LATHE_TRY(judged.timed, workshop.compare(engine, others));
        const Outcome outcome = judge(best, judged, search_options_);
        Json document = lathe::to_json(state_, chosen, layers_, search_options_, judged, outcome);
        document["search_samples"] = count(samples_);
        if (corrected_) document["corrections"] = lathe::to_json(*corrected_);
        document["device"] = options_.device;
        document["batch_size"] = workshop_options_.batch_size;
        document["engine"] = options_.output;
        document["engine_hash"] = saved_hash_;
        document["model"] = {{"name", fs::path(options_.prepare.model).stem().string()},
                             {"file", options_.prepare.model},
                             {"hash", prepared_.source_hash}};
        document["data"] = {{"path", options_.prepare.data}, {"judge", options_.judge}};
        document["machine"] = to_json(this_machine());
        document["command"] = context_.command_line();
        document["time"] = utc_now();
        if (!options_.results.empty()) LATHE_CHECK(write_json_file(options_.results, document));
        LATHE_CHECK(write_report(document));
        journal_->remove();
        print_result(document);
        context_.print_json(document);
        if (outcome.good) return {};
        return Error{ErrorCode::verification_failed, outcome.text, options_.output,
                     outcome.reasons.empty() ? std::string() : outcome.reasons.front()};
    }

    static std::size_t count(const std::vector<Batch>& batches) {
        std::size_t samples = 0;
        for (const Batch& batch : batches)
            samples += batch.size();
        return samples;
    }

    Result<Evaluation> evaluate_saved(EngineWorkshop& workshop, const Engine& engine) {
        LATHE_TRY(const Engine plain, workshop.build(Mix::all_float(Precision::float32, layers_.size())));
        LATHE_TRY(const auto reference, make_engine_predictor(plain, "FP32", workshop_options_.output_name));
        LATHE_TRY(const auto subject, make_engine_predictor(engine, "saved", workshop_options_.output_name));
        std::unique_ptr<Dataset> other;
        std::unique_ptr<PartDataset> part;
        Dataset* data = nullptr;
        if (options_.judge.empty()) {
            part = std::make_unique<PartDataset>(*data_, 1, 2);
            part->rewind();
            data = part.get();
        } else {
            PrepareOptions all = options_.prepare;
            all.samples = 0;
            LATHE_TRY(other, open_labelled(options_.judge, prepared_, all));
            data = other.get();
        }
        Predictor* judged = subject.get();
        EvaluateOptions evaluation;
        evaluation.batch_size = workshop_options_.evaluate_batch;
        evaluation.worst = 0;
        return evaluate({&judged, 1}, reference.get(), *data, evaluation, context_.progress());
    }

    Result<void> write_report(const Json& document) const {
        if (options_.report.empty()) return {};
        report::DocumentOptions page;
        page.command = context_.command_line();
        page.version = LATHE_VERSION;
        LATHE_TRY(const Json whole,
                  report::make_document({{options_.results.empty() ? "tune" : options_.results, document}}, page));
        return write_file(options_.report, report::render_html(whole));
    }

    static std::string number(const Json& value, const char* format) {
        char text[48];
        std::snprintf(text, sizeof(text), format, value.get<double>());
        return text;
    }

    void print_result(const Json& document) const {
        std::vector<std::vector<std::string>> rows{{"Pareto front by " + options_.metric, "ms", "x FP32",
                                                    "loses " + std::string(drop_unit(search_options_.metric)),
                                                    "ranked by " + std::string(loss_name(search_options_.metric)), ""}};
        std::vector<std::size_t> shown = pareto_front(state_.trials, search_options_.metric);
        const std::size_t chosen = choose(state_.trials, search_options_).value();
        const bool beaten = std::ranges::find(shown, chosen) == shown.end();
        if (beaten) shown.push_back(chosen);
        for (const std::size_t i : shown) {
            const Json& trial = document["trials"][i];
            rows.push_back({trial["name"].get<std::string>(), number(trial["latency_ms"], "%.3f"),
                            number(trial["speedup"], "%.2f"), number(trial["drop"], "%.3g"),
                            number(trial["loss"], "%.2g"),
                            i != chosen ? ""
                            : beaten    ? "chosen, not on the front"
                                        : "chosen"});
        }
        context_.print("\n" + table(rows) + "\n");
        std::string kept;
        for (const Json& layer : document["layers"]) {
            if (layer["precision"] != "int8")
                kept += (kept.empty() ? "" : ", ") + layer["node"].get<std::string>() + " (" +
                        layer["precision"].get<std::string>() + ")";
        }
        if (!kept.empty() && document["chosen"].get<std::string>().starts_with("INT8"))
            context_.print("Not in INT8: " + kept);
        rows = {{"saved engine again, in turns with", "ms", "saved is faster (95 %)"}};
        for (const Json& engine : document["judged"]["timed"]) {
            rows.push_back({engine["name"].get<std::string>(), number(engine["latency_ms"], "%.3f"),
                            number(engine["speedup"], "%.3f") + "x (" + number(engine["speedup_ci95"][0], "%.3f") +
                                ".." + number(engine["speedup_ci95"][1], "%.3f") + ")"});
        }
        context_.print(table(rows) + "\n");
        context_.print(context_.bold(document["text"].get<std::string>()));
        for (const Json& reason : document["reasons"])
            context_.print("  " + reason.get<std::string>());
        context_.print("Engine: " + options_.output);
    }

    const Options& options_;
    const Context& context_;
    SearchOptions search_options_;
    WorkshopOptions workshop_options_;
    const Backend* backend_ = nullptr;
    PreparedModel prepared_;
    std::optional<CorrectOutcome> corrected_;
    std::unique_ptr<Dataset> data_;
    std::vector<Batch> samples_; ///< that the search sees
    std::vector<std::string> layers_;
    std::string key_;
    std::optional<Journal> journal_;
    SearchState state_;
    std::string saved_mix_;
    std::string saved_hash_;
    std::size_t reported_ = 0;
};

} // namespace

void add_tune(Commands& commands) {
    auto options = std::make_shared<Options>();
    options->prepare.samples = 1000;
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"tune",
         "The best mix: search a precision for every layer, by accuracy on real data and latency of built engines. "
         "Exit "
         "code 5 where the engine misses a limit or a plainer one is faster",
         {"lathe tune resnet50.onnx --data labelled/ --calibrate photos/ --max-drop 0.3 --output best.engine",
          "lathe tune m.onnx --data labelled/ --max-drop 0.5 --min-speedup 1.5 --time-budget 30m --report tune.html "
          "--output best.engine",
          "lathe tune m.onnx --data photos/ --metric agreement --max-drop 2 --judge others/ --output best.engine",
          "lathe tune m.onnx --data labelled/ --max-drop 0.1 --device cuda --output best.engine"}},
        [options, &context] { return Tuning(*options, context).run(); });
    add_prepare_options(command, options->prepare);
    command
        .add_option("--samples", options->prepare.samples,
                    "How many samples of --data, spread evenly; 0: all. Every second one is kept from the search")
        ->capture_default_str();
    command.add_option("--judge", options->judge, "Other data to judge the winner on; --data is then all searched on");
    command
        .add_option("--metric", options->metric,
                    "What --max-drop limits: top1 and agreement (points), kl (nats), sqnr (noise in % of the signal)")
        ->check(CLI::IsMember({"top1", "agreement", "kl", "sqnr"}))
        ->capture_default_str();
    command.add_option("--max-drop", options->search.max_drop, "Largest loss against FP32")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command.add_option("--min-speedup", options->search.min_speedup, "Least speed-up over FP32")
        ->check(CLI::NonNegativeNumber);
    command.add_option("--time-budget", options->budget, "For the trials: 10m, 90s, 1h; interruptions do not count")
        ->capture_default_str();
    command
        .add_option("--slack", options->search.slack,
                    "Share of the best speed that may be given for more accuracy, within --max-drop")
        ->check(CLI::Range(0.0, 0.5))
        ->capture_default_str();
    command
        .add_option(
            "--device", options->device,
            "Device to build for and to measure on (see lathe doctor). In an engine each layer is in INT8 or in "
            "one other precision, FP32, BF16 or FP16 as the device offers, the same for all that is not INT8: "
            "FP16 here and FP32 there is not searched (see lathe autocast)")
        ->capture_default_str();
    command.add_option("--batch-size", options->workshop.batch_size, "That latency is measured at")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        .add_option("--time-limit", options->workshop.time_limit_s,
                    "Seconds an engine is timed in a trial; the best engine and what it is compared with 8/3 of it")
        ->check(CLI::Range(0.1, 86400.0))
        ->capture_default_str();
    command.add_option("--shape", options->shapes, "[INPUT:]MIN..OPT..MAX, repeatable (default: batches 1..8..32)")
        ->allow_extra_args(false);
    command.add_option("--sensitivity", options->sensitivity, "Result of lathe sensitivity, instead of measuring it");
    command.add_option("--sensitivity-samples", options->sensitivity_samples, "How many samples to measure it on")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command
        .add_option("--effort", options->effort,
                    "How much to correct what INT8 costs before the search, as for lathe quantize, on the calibration "
                    "samples (default: 2, or 0 where there are too few of them)")
        ->check(CLI::Range(0, 3));
    command.add_option("--output-name", options->workshop.output_name, "Output to judge (default: the first)");
    command.add_option("--timing-cache", options->timing_cache, "GPU: file of kernel times (see lathe build)");
    add_tune_option(command, options->tune);
    command
        .add_option("-o,--output", options->output,
                    "Engine file: the best so far at every moment. FILE.journal beside it keeps what is known, so that "
                    "the same command goes on after an interruption")
        ->required();
    command.add_option("--results", options->results, "JSON to write, for lathe report");
    command.add_option("--report", options->report, "HTML page to write: Pareto front, table and chart");
    command.add_flag("--force", options->force, "Begin anew, whatever FILE.journal holds");
}

} // namespace lathe::cli
