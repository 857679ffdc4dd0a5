#include "cli/mixer.hpp"

#include <charconv>
#include <filesystem>
#include <memory>

#include "api/correct.hpp"
#include "api/judged_by.hpp"
#include "backends/api/backend.hpp"
#include "cli/correction.hpp"
#include "cli/mix_print.hpp"
#include "cli/tune.hpp"
#include "evaluate/engine_predictor.hpp"
#include "evaluate/run.hpp"
#include "mix/outcome.hpp"
#include "mix/part_dataset.hpp"
#include "mix/record.hpp"
#include "report/document.hpp"
#include "report/html.hpp"
#include "runtime/engine.hpp"
#include "sensitivity/measure.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"

namespace lathe::cli {

namespace {

namespace fs = std::filesystem;

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

class Mixer {
public:
    Mixer(const MixOptions& options, const Context& context) : options_(options), context_(context) {}

    Result<void> run() {
        LATHE_CHECK(settle_options());
        prepare_ = options_.prepare;
        LATHE_TRY(const auto samples, samples_of(options_.prepare.data, options_.task));
        prepare_.data = samples.string();
        LATHE_TRY(prepared_, prepare_model(prepare_, context_,
                                           [this](const PreparedModel& model) { return calibration_samples(model); }));
        LATHE_CHECK(open_data(prepared_));
        LATHE_TRY(layers_, quantizable_layers(prepared_.model, workshop_options_.target));
        if (layers_.empty()) {
            return Error{ErrorCode::invalid_argument, "there is nothing in this model to quantise",
                         options_.prepare.model, "lathe quantize --explain gives the reasons"};
        }
        LATHE_CHECK(check_shapes());
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
        if (!options_.metric.empty()) {
            LATHE_TRY(search_options_.metric, damage_metric_from_name(options_.metric));
        }
        workshop_options_.output_name = options_.task.output_name;
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
        LATHE_TRY(by_, judged_by(prepared, options_.prepare.data, options_.task, options_.metric, DamageMetric::top1,
                                 options_.prepare.length));
        LATHE_TRY(data_, open_labelled(prepare_.data, prepared, prepare_));
        if (options_.task.name == "classification" && options_.metric.empty() && !data_->has_labels())
            by_.metric = DamageMetric::agreement;
        search_options_.metric = by_.metric;
        if (by_.task) {
            if (by_.task->one_sample) {
                return Error{ErrorCode::unsupported, "the outputs have no axis for the sample", options_.prepare.model,
                             "limit --metric sqnr, or judge engines with lathe eval"};
            }
            workshop_options_.judging = &*by_.task;
            context_.print("judged by " + by_.task->metric + " (--task " + by_.task->task + ")");
        }
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

    /// Told before the corrections, which take most of a minute.
    Result<void> check_shapes() const {
        if (!options_.sensitivity.empty()) return {};
        auto fixed = with_fixed_shapes(prepared_.model, 1, options_.prepare.length);
        if (!fixed) return std::move(fixed).error();
        return {};
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
        const auto cannot = [](ErrorCode code) {
            return code == ErrorCode::not_found || code == ErrorCode::invalid_argument ||
                   code == ErrorCode::unsupported;
        };
        if (!outcome && !options_.effort && cannot(outcome.error().code)) {
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
        if (by_.task) {
            LATHE_TRY(task_key_, task_digest(options_.task));
            task_key_ += by_.task->digest;
        }
        Hasher hasher;
        for (const std::string& part : {prepared_.key,
                                        digest,
                                        options_.device,
                                        std::string(to_string(search_options_.metric)),
                                        task_key_,
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
        record_.emplace(fs::path(options_.output + ".journal"), key_);
        std::error_code ignored;
        if (options_.force) {
            fs::remove(record_->file(), ignored);
            fs::remove(options_.output + ".sensitivity.part", ignored);
        }
        LATHE_TRY(const bool known, record_->read(layers_.size()));
        if (!known) return measure_damage();
        context_.print("going on after " + std::to_string(record_->state.trials.size()) + " trials");
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
            if (by_.task)
                measure.judging = &*by_.task;
            else
                measure.journal = options_.output + ".sensitivity.part";
            measure.key = key_;
            const Model& model = corrected_ ? corrected_->real : prepared_.model;
            const RangesFile& ranges = corrected_ ? corrected_->ranges : prepared_.ranges;
            LATHE_TRY(const Sensitivity found,
                      measure_sensitivity(model, ranges, samples, *cpu, measure, context_.progress()));
            record_->state.seconds = found.seconds;
            for (const LayerSensitivity& layer : found.layers)
                damage[layer.node] = loss_of(layer.score, search_options_.metric);
        }
        for (const std::string& layer : layers_) {
            if (!damage.contains(layer)) {
                return Error{ErrorCode::mismatch, "the sensitivity of a layer is not known", layer,
                             "the file belongs to another model or target: leave --sensitivity out"};
            }
            record_->state.damage.push_back(damage.at(layer));
        }
        LATHE_CHECK(record_->keep());
        std::error_code ignored;
        fs::remove(options_.output + ".sensitivity.part", ignored);
        return {};
    }

    /// The engine file is that of this mix: whole, and what was written.
    Result<void> save(EngineWorkshop& workshop, const Mix& mix) {
        if (record_->saved_mix == mix.key()) {
            if (const auto hash = hash_file(options_.output); hash && *hash == record_->saved_hash) return {};
        }
        LATHE_CHECK(workshop.save(mix, options_.output));
        LATHE_TRY(record_->saved_hash, hash_file(options_.output));
        record_->saved_mix = mix.key();
        return {};
    }

    Result<void> search(EngineWorkshop& workshop) {
        const SearchFound found = [&](const SearchState& state, std::size_t best,
                                      std::optional<std::size_t> measured) -> Result<void> {
            LATHE_CHECK(save(workshop, state.trials[best].mix));
            LATHE_CHECK(record_->keep());
            if (measured) print_trial(state.trials[*measured], best == *measured, search_options_, context_);
            return {};
        };
        auto searched = search_mix(record_->state, search_options_, workshop, found, context_.progress());
        if (!searched && searched.error().code == ErrorCode::cancelled) {
            searched.error().hint =
                std::to_string(record_->state.trials.size()) + " trials are kept in " + record_->file().string() +
                ": the same command goes on from there" +
                (record_->saved_mix.empty() ? "" : "; " + options_.output + " is the best engine so far");
        }
        return searched;
    }

    /// Judges and times the engine in the file.
    Result<void> finish(EngineWorkshop& workshop) {
        const std::size_t chosen = choose(record_->state.trials, search_options_).value();
        const Trial& best = record_->state.trials[chosen];
        LATHE_CHECK(save(workshop, best.mix));
        LATHE_CHECK(record_->keep());
        LATHE_TRY(const Engine engine, Engine::load(options_.output));
        Judged judged;
        LATHE_TRY(judged.evaluation, evaluate_saved(workshop, engine));
        if (by_.task) {
            LATHE_TRY(judged.task, judge_saved(workshop, engine));
        }
        std::vector<Mix> others;
        for (const Trial& trial : record_->state.trials) {
            if (!trial.failed.empty() || trial.mix.any_int8()) continue;
            others.push_back(trial.mix);
            if (!is_feasible(trial, search_options_, false)) judged.beyond_limit.push_back(trial.mix.name());
        }
        judged.floats = others.size();
        for (const Trial& trial : record_->state.trials) {
            if (trial.failed.empty() && trial.phase == "int8") others.push_back(trial.mix);
        }
        context_.progress().begin("timing the saved engine", 0);
        LATHE_TRY(const Engine fresh, Engine::load(options_.output));
        LATHE_TRY(judged.timed, workshop.compare(fresh, others));
        const Outcome outcome = judge(best, judged, search_options_);
        Json document = lathe::to_json(record_->state, chosen, layers_, search_options_, judged, outcome);
        document["search_samples"] = count(samples_);
        if (corrected_) document["corrections"] = lathe::to_json(*corrected_);
        document["device"] = options_.device;
        document["batch_size"] = workshop_options_.batch_size;
        document["engine"] = options_.output;
        document["engine_hash"] = record_->saved_hash;
        document["model"] = {{"name", fs::path(options_.prepare.model).stem().string()},
                             {"file", options_.prepare.model},
                             {"hash", prepared_.source_hash}};
        document["data"] = {{"path", options_.prepare.data}, {"judge", options_.judge}};
        document["lathe_version"] = LATHE_VERSION;
        document["machine"] = to_json(this_machine());
        document["command"] = context_.command_line();
        document["time"] = utc_now();
        if (!options_.results.empty()) LATHE_CHECK(write_json_file(options_.results, document));
        LATHE_CHECK(write_report(document));
        record_->remove();
        print_mix(document, record_->state.trials, search_options_, context_);
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

    /// The part of the data that the search did not see, or that of --judge.
    Result<std::unique_ptr<Dataset>> judging_data() {
        if (options_.judge.empty()) {
            auto part = std::make_unique<PartDataset>(*data_, 1, 2);
            part->rewind();
            return std::unique_ptr<Dataset>(std::move(part));
        }
        PrepareOptions all = options_.prepare;
        all.samples = 0;
        LATHE_TRY(const auto samples, samples_of(options_.judge, options_.task));
        return open_labelled(samples, prepared_, all);
    }

    /// By the task, against the FP32 engine, with the truth of --judge where that is given.
    Result<Judged::ByTask> judge_saved(EngineWorkshop& workshop, const Engine& engine) {
        JudgedBy by = by_;
        if (!options_.judge.empty()) {
            LATHE_TRY(by, judged_by(prepared_, options_.judge, options_.task, "task", DamageMetric::task,
                                    options_.prepare.length));
            if (by.task->labelled != by_.task->labelled || by.task->task != by_.task->task) {
                return Error{ErrorCode::mismatch,
                             "--judge is judged by " + by.task->metric + ", --data by " + by_.task->metric,
                             options_.judge, "give both truth of one kind, or neither"};
            }
        }
        LATHE_TRY(const Engine plain, workshop.build(Mix::all_float(Precision::float32, layers_.size())));
        std::vector<std::string> names;
        for (const IoInfo& output : engine.info().outputs)
            names.push_back(output.name);
        LATHE_TRY(const auto reference, make_outputs_predictor(plain, "FP32", names, {}, OutputsHold::numbers));
        LATHE_TRY(const auto subject, make_outputs_predictor(engine, "saved", names, {}, OutputsHold::numbers));
        LATHE_TRY(const auto data, judging_data());
        const auto judge = by.task->make();
        context_.progress().begin("judging the saved engine", data->size());
        while (true) {
            LATHE_CHECK(context_.progress().check());
            LATHE_TRY(const std::optional<Batch> batch, data->next(workshop_options_.evaluate_batch));
            if (!batch || batch->size() == 0) break;
            LATHE_TRY(const auto expected, reference->predict_all(*batch));
            LATHE_CHECK(judge->add(0, *batch, expected));
            LATHE_TRY(const auto actual, subject->predict_all(*batch));
            LATHE_CHECK(judge->add(1, *batch, actual));
            context_.progress().advance(batch->size());
        }
        context_.progress().end();
        Judged::ByTask found{by.task->task, by.task->metric, by.task->labelled, {}, {}, judge->left_out()};
        found.score = judge->score(1);
        if (!found.score.defined()) {
            return Error{ErrorCode::invalid_argument,
                         "nothing is to be found in the samples that judge, so " + found.metric + " says nothing",
                         options_.judge.empty() ? options_.prepare.data : options_.judge,
                         "give more samples, or others with --judge"};
        }
        found.change = judge->difference(1, 0);
        return found;
    }

    Result<Evaluation> evaluate_saved(EngineWorkshop& workshop, const Engine& engine) {
        LATHE_TRY(const Engine plain, workshop.build(Mix::all_float(Precision::float32, layers_.size())));
        LATHE_TRY(const auto reference, make_engine_predictor(plain, "FP32", workshop_options_.output_name));
        LATHE_TRY(const auto subject, make_engine_predictor(engine, "saved", workshop_options_.output_name));
        LATHE_TRY(const auto data, judging_data());
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

    const MixOptions& options_;
    const Context& context_;
    SearchOptions search_options_;
    WorkshopOptions workshop_options_;
    const Backend* backend_ = nullptr;
    PreparedModel prepared_;
    PrepareOptions prepare_; ///< with the samples' own folder for `data`
    JudgedBy by_;
    std::string task_key_;
    std::optional<CorrectOutcome> corrected_;
    std::unique_ptr<Dataset> data_;
    std::vector<Batch> samples_; ///< that the search sees
    std::vector<std::string> layers_;
    std::string key_;
    std::optional<MixRecord> record_;
};

} // namespace

Result<void> run_mixer(const MixOptions& options, const Context& context) { return Mixer(options, context).run(); }

} // namespace lathe::cli
