#include "lathe/tune.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/correct.hpp"
#include "api/judged_by.hpp"
#include "api/prepare.hpp"
#include "backends/api/backend.hpp"
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
#include "support/json.hpp"
#include "support/lost_inputs.hpp"
#include "support/machine.hpp"
#include "support/writable.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

/// The samples as one array an input, `most` of them at most (0: all).
Result<std::vector<HostTensor>> joined(const std::vector<Batch>& batches, std::size_t most) {
    MemoryDataset samples(batches, most);
    LATHE_TRY(std::optional<Batch> all, samples.next(samples.size()));
    if (!all) return std::vector<HostTensor>{};
    return std::move(all->inputs);
}

/// As --tune of the command line, and so the journal's key, has it.
const char* name_of(TuneEffort effort) {
    return effort == TuneEffort::fast ? "fast" : effort == TuneEffort::full ? "full" : "default";
}

/// Numbers that mean nothing.
Result<void> check_numbers(const TuneRequest& request) {
    struct Limit {
        const char* name;
        bool holds;
        const char* cure;
    };
    const std::array limits{
        Limit{"max_drop", request.max_drop >= 0, "give 0 or more"},
        Limit{"min_speedup", request.min_speedup >= 0, "give 0 or more"},
        Limit{"budget_s", request.budget_s >= 0, "give seconds, 0 or more"},
        Limit{"slack", request.slack >= 0 && request.slack <= 0.5, "give a share from 0 to 0.5"},
        Limit{"batch_size", request.batch_size >= 1, "give 1 or more"},
        Limit{"time_limit_s", request.time_limit_s >= 0.1 && request.time_limit_s <= 86400,
              "give seconds from 0.1 to 86,400"},
        Limit{"length", request.length >= 1, "give 1 or more"},
        Limit{"sensitivity_samples", request.sensitivity_samples >= 1, "give 1 or more"},
        Limit{"effort", !request.effort || (*request.effort >= 0 && *request.effort <= 3), "give 0, 1, 2 or 3"},
        Limit{"model", !request.model.empty(), "give an ONNX file"},
        Limit{"data", !request.data.empty(), "give samples to judge on"},
        Limit{"output", !request.output.empty(), "name the engine file to write"},
    };
    for (const Limit& limit : limits) {
        if (!limit.holds)
            return Error{ErrorCode::invalid_argument, "this value means nothing here", limit.name, limit.cure};
    }
    return {};
}

Measured measured(double value, const Interval& interval) { return {value, interval.low, interval.high}; }

TuneTrial told_of(const Trial& trial, const std::vector<std::string>& layers, const SearchOptions& options) {
    TuneTrial told;
    told.name = trial.mix.name();
    told.phase = trial.phase;
    told.base = to_string(trial.mix.base);
    for (std::size_t i = 0; i < layers.size() && trial.mix.any_int8(); ++i) {
        if (!trial.mix.int8[i]) told.float_layers.push_back(layers[i]);
    }
    told.seconds = trial.seconds;
    told.failed = trial.failed;
    if (!trial.failed.empty()) return told;
    told.latency_ms = trial.latency_ms;
    told.speedup = measured(trial.speedup, trial.speedup_ci95);
    told.noisy = trial.noisy;
    if (trial.as_tried) told.first_speedup = trial.as_tried->speedup;
    told.drop = drop_of(trial.score, options.metric);
    told.drop_unit = drop_unit(options.metric);
    told.loss = loss_of(trial.score, options.metric);
    told.loss_name = loss_name(options.metric);
    told.feasible = is_feasible(trial, options);
    return told;
}

class Tuner {
public:
    explicit Tuner(const TuneRequest& request)
        : request_(request), progress_(request.progress != nullptr ? *request.progress : no_progress()) {}

    Result<TuneResult> run() {
        LATHE_CHECK(settle_options());
        given_ = prepare_options(request_);
        prepare_ = given_;
        LATHE_CHECK(look_for({given_.model, given_.data}));
        LATHE_TRY(const auto samples, samples_of(request_.data, request_.task));
        prepare_.data = samples.string();
        LATHE_TRY(prepared_, prepare_model(prepare_, progress_,
                                           [this](const PreparedModel& model) { return calibration_samples(model); }));
        LATHE_CHECK(open_data(prepared_));
        LATHE_TRY(layers_, quantizable_layers(prepared_.model, workshop_options_.target));
        if (layers_.empty()) {
            return Error{ErrorCode::invalid_argument, "there is nothing in this model to quantise", given_.model,
                         "lathe quantize --explain gives the reasons"};
        }
        LATHE_CHECK(check_shapes());
        LATHE_CHECK(correct());
        LATHE_CHECK(resume());
        EngineWorkshop workshop(prepared_.model, prepared_.ranges, layers_, samples_, workshop_options_, progress_);
        if (corrected_) workshop.correct_with(*corrected_);
        LATHE_CHECK(search(workshop));
        return finish(workshop);
    }

private:
    void tell(const std::string& line) const {
        if (request_.tell) request_.tell(line);
    }

    /// What can be told before any work.
    Result<void> settle_options() {
        LATHE_CHECK(check_numbers(request_));
        search_options_.max_drop = request_.max_drop;
        search_options_.min_speedup = request_.min_speedup;
        search_options_.budget_s = request_.budget_s;
        search_options_.slack = request_.slack;
        if (!request_.metric.empty()) {
            LATHE_TRY(search_options_.metric, damage_metric_from_name(request_.metric));
        }
        workshop_options_.batch_size = request_.batch_size;
        workshop_options_.time_limit_s = request_.time_limit_s;
        workshop_options_.output_name = request_.task.output_name;
        LATHE_TRY(backend_, backend_for_device(request_.device));
        const bool gpu = request_.device != "cpu";
        workshop_options_.target = request_.device == "tensorrt" ? Target::tensorrt
                                   : gpu                         ? Target::cuda
                                                                 : Target::openvino;
        DevicePrecisions precisions = precisions_of(request_.device);
        search_options_.floats = std::move(precisions.floats);
        search_options_.bases = std::move(precisions.bases);
        BuildOptions& build = workshop_options_.build;
        build.device = request_.device;
        build.threads = request_.threads;
        build.timing_cache = request_.timing_cache;
        build.tune = request_.kernels;
        build.name = request_.model.stem().string();
        build.source = fs::absolute(request_.model).string();
        build.command_line = request_.command_line;
        build.shapes = request_.shapes;
        const std::vector<std::string> written{request_.output.string(), request_.results.string(),
                                               request_.report.string()};
        LATHE_CHECK(
            refuse_lost_inputs(written, {request_.model.string(), request_.data.string(), request_.calibrate.string(),
                                         request_.ranges.string(), request_.preprocess, request_.judge.string(),
                                         request_.sensitivity.string()}));
        LATHE_CHECK(check_writable(written));
        return look_for({request_.judge.string(), request_.sensitivity.string()});
    }

    /// Reads the part of the data that the search sees, once.
    Result<void> open_data(const PreparedModel& prepared) {
        if (data_) return {};
        LATHE_TRY(by_,
                  judged_by(prepared, given_.data, request_.task, request_.metric, DamageMetric::top1, given_.length));
        LATHE_TRY(data_, open_labelled(prepare_.data, prepared, prepare_));
        if (request_.task.name == "classification" && request_.metric.empty() && !data_->has_labels())
            by_.metric = DamageMetric::agreement;
        search_options_.metric = by_.metric;
        if (by_.task) {
            if (by_.task->one_sample) {
                return Error{ErrorCode::unsupported, "the outputs have no axis for the sample", given_.model,
                             "limit --metric sqnr, or judge engines with lathe eval"};
            }
            workshop_options_.judging = &*by_.task;
            tell("judged by " + by_.task->metric + " (--task " + by_.task->task + ")");
        }
        if (search_options_.metric == DamageMetric::top1 && !data_->has_labels()) {
            return Error{ErrorCode::invalid_argument, "--metric top1 needs labels, and the data has none", given_.data,
                         "add labels.csv or class subfolders, or use --metric agreement or kl"};
        }
        const std::size_t parts = request_.judge.empty() ? 2 : 1;
        if (data_->size() < parts) {
            return Error{ErrorCode::invalid_argument,
                         "the data holds " + std::to_string(data_->size()) + " samples, too few to search and to judge",
                         given_.data, "give more samples"};
        }
        progress_.begin("reading samples", 0);
        PartDataset part(*data_, 0, parts);
        LATHE_TRY(samples_, read_all(part));
        progress_.end();
        return {};
    }

    Result<std::vector<HostTensor>> calibration_samples(const PreparedModel& prepared) {
        LATHE_CHECK(open_data(prepared));
        return joined(samples_, given_.calibrate_samples);
    }

    /// Told before the corrections, which take most of a minute.
    Result<void> check_shapes() const {
        if (!request_.sensitivity.empty()) return {};
        auto fixed = with_fixed_shapes(prepared_.model, 1, given_.length);
        if (!fixed) return std::move(fixed).error();
        return {};
    }

    /// Corrects INT8 throughout, once: mixes take what the layers have in it.
    Result<void> correct() {
        if (request_.effort == 0) return {};
        QuantizeOptions quantize;
        quantize.target = workshop_options_.target;
        CorrectOptions how = options_of_effort(request_.effort.value_or(2));
        how.float_last = false; // the search decides that
        how.threads = given_.threads;
        const OpenData open = [this](std::size_t samples) -> Result<std::unique_ptr<Dataset>> {
            if (given_.calibrate.empty())
                return std::unique_ptr<Dataset>(std::make_unique<MemoryDataset>(samples_, samples));
            PrepareOptions calibration = given_;
            calibration.samples = samples;
            return open_labelled(given_.calibrate, prepared_, calibration);
        };
        auto outcome = quantize_on_samples(prepared_.model, prepared_.ranges, quantize, how, open, progress_);
        const auto cannot = [](ErrorCode code) {
            return code == ErrorCode::not_found || code == ErrorCode::invalid_argument ||
                   code == ErrorCode::unsupported;
        };
        if (!outcome && !request_.effort && cannot(outcome.error().code)) {
            tell("INT8 without corrections (--effort 0): " + outcome.error().describe());
            return {};
        }
        if (!outcome) return std::move(outcome).error();
        corrected_ = *std::move(outcome);
        for (const std::string& line : describe(*corrected_))
            tell(line);
        return {};
    }

    /// What an earlier run has found, or the sensitivity of the layers.
    Result<void> resume() {
        LATHE_TRY(const std::string digest, data_->digest());
        if (by_.task) {
            LATHE_TRY(task_key_, task_digest(request_.task));
            task_key_ += by_.task->digest;
        }
        std::string judge_key;
        if (!request_.judge.empty()) {
            LATHE_TRY(const auto judging, judging_data());
            LATHE_TRY(judge_key, judging->digest());
        }
        std::string sensitivity_key;
        if (!request_.sensitivity.empty()) {
            LATHE_TRY(sensitivity_key, hash_file(request_.sensitivity));
        }
        Hasher hasher;
        for (const std::string& part : {prepared_.key,
                                        digest,
                                        request_.device,
                                        std::string(to_string(search_options_.metric)),
                                        task_key_,
                                        std::string(to_string(ranking_metric(search_options_.metric))),
                                        judge_key,
                                        backend_->blob_key(),
                                        workshop_options_.output_name,
                                        sensitivity_key,
                                        std::string(name_of(request_.kernels)),
                                        std::to_string(search_options_.max_drop),
                                        std::to_string(search_options_.min_speedup),
                                        std::to_string(search_options_.slack),
                                        std::to_string(workshop_options_.batch_size),
                                        std::to_string(given_.threads),
                                        std::to_string(given_.samples),
                                        std::to_string(given_.length),
                                        std::to_string(request_.sensitivity_samples),
                                        std::to_string(workshop_options_.time_limit_s),
                                        std::to_string(corrected_ ? request_.effort.value_or(2) : 0),
                                        this_machine().fingerprint()})
            hasher.update(part);
        for (const auto& [input, range] : request_.shapes)
            hasher.update(input + ":" + range.describe());
        key_ = hasher.hex();
        record_.emplace(fs::path(request_.output.string() + ".journal"), key_);
        std::error_code ignored;
        if (request_.force) {
            fs::remove(record_->file(), ignored);
            fs::remove(request_.output.string() + ".sensitivity.part", ignored);
        }
        LATHE_TRY(const bool known, record_->read(layers_.size()));
        if (!known) return measure_damage();
        tell("going on after " + std::to_string(record_->state.trials.size()) + " trials");
        return {};
    }

    Result<void> measure_damage() {
        std::map<std::string, double> damage;
        if (!request_.sensitivity.empty()) {
            LATHE_TRY(const Json file, read_json_file(request_.sensitivity));
            const bool ours = file.is_object() && file.contains("kind") && file["kind"] == "sensitivity" &&
                              file.contains("layers") && file["layers"].is_array();
            if (!ours) {
                return Error{ErrorCode::parse_error, "no result of lathe sensitivity", request_.sensitivity.string(),
                             "write one with lathe sensitivity --output FILE"};
            }
            for (const Json& layer : file["layers"]) {
                if (!layer.contains("mean_kl")) continue; // stays float
                if (!layer.contains("node") || !layer["node"].is_string())
                    return Error{ErrorCode::parse_error, "a layer has no name", request_.sensitivity.string(),
                                 "write the file with lathe sensitivity --output FILE"};
                LATHE_TRY(const double loss, loss_from_json(layer, search_options_.metric));
                damage[layer["node"].get<std::string>()] = loss;
            }
        } else {
            MemoryDataset samples(samples_, request_.sensitivity_samples);
            LATHE_TRY(const Backend* cpu, default_backend());
            SensitivityOptions measure;
            measure.target = workshop_options_.target;
            measure.threads = given_.threads;
            measure.length = given_.length;
            measure.output_name = workshop_options_.output_name;
            if (by_.task)
                measure.judging = &*by_.task;
            else
                measure.journal = request_.output.string() + ".sensitivity.part";
            measure.key = key_;
            const Model& model = corrected_ ? corrected_->real : prepared_.model;
            const RangesFile& ranges = corrected_ ? corrected_->ranges : prepared_.ranges;
            LATHE_TRY(const Sensitivity found, measure_sensitivity(model, ranges, samples, *cpu, measure, progress_));
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
        fs::remove(request_.output.string() + ".sensitivity.part", ignored);
        return {};
    }

    /// The engine file is that of this mix: whole, and what was written.
    Result<void> save(EngineWorkshop& workshop, const Mix& mix) {
        if (record_->saved_mix == mix.key()) {
            if (const auto hash = hash_file(request_.output); hash && *hash == record_->saved_hash) return {};
        }
        LATHE_CHECK(workshop.save(mix, request_.output));
        LATHE_TRY(record_->saved_hash, hash_file(request_.output));
        record_->saved_mix = mix.key();
        return {};
    }

    Result<void> search(EngineWorkshop& workshop) {
        const SearchFound found = [&](const SearchState& state, std::size_t best,
                                      std::optional<std::size_t> measured) -> Result<void> {
            LATHE_CHECK(save(workshop, state.trials[best].mix));
            LATHE_CHECK(record_->keep());
            if (measured && request_.tried)
                request_.tried(told_of(state.trials[*measured], layers_, search_options_), best == *measured);
            return {};
        };
        auto searched = search_mix(record_->state, search_options_, workshop, found, progress_);
        if (!searched && searched.error().code == ErrorCode::cancelled) {
            searched.error().hint =
                std::to_string(record_->state.trials.size()) + " trials are kept in " + record_->file().string() +
                ": the same command goes on from there" +
                (record_->saved_mix.empty() ? "" : "; " + request_.output.string() + " is the best engine so far");
        }
        return searched;
    }

    /// Judges and times the engine in the file.
    Result<TuneResult> finish(EngineWorkshop& workshop) {
        const std::size_t chosen = choose(record_->state.trials, search_options_).value();
        const Trial& best = record_->state.trials[chosen];
        LATHE_CHECK(save(workshop, best.mix));
        LATHE_CHECK(record_->keep());
        LATHE_TRY(const Engine engine, Engine::load(request_.output));
        Judged judged;
        LATHE_TRY(judged.evaluation, evaluate_saved(workshop, engine));
        if (by_.task) {
            LATHE_TRY(judged.task, judge_saved(workshop, engine));
        }
        std::vector<Mix> others;
        for (const Trial& trial : record_->state.trials) {
            if (!trial.failed.empty() || trial.mix.any_int8()) continue;
            // How batches are cut is timed at every build, and a small network may lack BF16 uncut that it had cut.
            LATHE_TRY(const bool there, workshop.can_build(trial.mix));
            if (!there) continue;
            others.push_back(trial.mix);
            if (!is_feasible(trial, search_options_, false)) judged.beyond_limit.push_back(trial.mix.name());
        }
        judged.floats = others.size();
        for (const Trial& trial : record_->state.trials) {
            if (!trial.failed.empty() || trial.phase != "int8") continue;
            LATHE_TRY(const bool there, workshop.can_build(trial.mix));
            if (there) others.push_back(trial.mix);
        }
        progress_.begin("timing the saved engine", 0);
        LATHE_TRY(const Engine fresh, Engine::load(request_.output));
        LATHE_TRY(judged.timed, workshop.compare(fresh, others));
        const Outcome outcome = judge(best, judged, search_options_);
        Json document = lathe::to_json(record_->state, chosen, layers_, search_options_, judged, outcome);
        document["search_samples"] = count(samples_);
        if (corrected_) document["corrections"] = lathe::to_json(*corrected_);
        document["device"] = request_.device;
        document["batch_size"] = workshop_options_.batch_size;
        document["engine"] = request_.output.string();
        document["engine_hash"] = record_->saved_hash;
        document["model"] = {
            {"name", fs::path(given_.model).stem().string()}, {"file", given_.model}, {"hash", prepared_.source_hash}};
        document["data"] = {{"path", given_.data}, {"judge", request_.judge.string()}};
        document["lathe_version"] = LATHE_VERSION;
        document["machine"] = to_json(this_machine());
        document["command"] = request_.command_line;
        document["time"] = utc_now();
        if (!request_.results.empty()) LATHE_CHECK(write_json_file(request_.results, document));
        LATHE_CHECK(write_report(document));
        record_->remove();
        TuneResult result = result_of(chosen, judged, outcome);
        result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
        return result;
    }

    TuneResult result_of(std::size_t chosen, const Judged& judged, const Outcome& outcome) const {
        const SearchState& state = record_->state;
        const Mix& mix = state.trials.at(chosen).mix;
        TuneResult result;
        result.good = outcome.good;
        result.text = outcome.text;
        result.reasons = outcome.reasons;
        result.engine = request_.output;
        result.chosen = mix.name();
        result.metric = to_string(search_options_.metric);
        result.drop_unit = drop_unit(search_options_.metric);
        result.loss_name = loss_name(search_options_.metric);
        result.drop = measured(outcome.drop, outcome.drop_ci95);
        result.search_samples = count(samples_);
        result.judged_samples = judged.evaluation.samples;
        result.seconds = state.seconds;
        for (const Trial& trial : state.trials) {
            result.trials.push_back(told_of(trial, layers_, search_options_));
            result.seconds += trial.seconds;
        }
        result.trials.at(chosen).chosen = true;
        result.front = pareto_front(state.trials, search_options_.metric);
        for (const std::size_t index : result.front)
            result.trials.at(index).pareto = true;
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            TunedLayer layer{layers_[i], mix.int8[i] ? "int8" : to_string(mix.base), state.damage.at(i), {}};
            if (i < state.gains.size()) layer.gain_ms = state.gains[i];
            result.layers.push_back(std::move(layer));
        }
        for (const TimedEngine& engine : judged.timed) {
            result.timed.push_back({engine.name, measured(engine.latency_ms, engine.latency_ci95),
                                    measured(engine.speedup.median, engine.speedup.ci95), engine.noisy});
        }
        result.notices = prepared_.notices;
        return result;
    }

    static std::size_t count(const std::vector<Batch>& batches) {
        std::size_t samples = 0;
        for (const Batch& batch : batches)
            samples += batch.size();
        return samples;
    }

    /// The part of the data that the search did not see, or that of --judge.
    Result<std::unique_ptr<Dataset>> judging_data() {
        if (request_.judge.empty()) {
            auto part = std::make_unique<PartDataset>(*data_, 1, 2);
            part->rewind();
            return std::unique_ptr<Dataset>(std::move(part));
        }
        PrepareOptions all = given_;
        all.samples = 0;
        LATHE_TRY(const auto samples, samples_of(request_.judge, request_.task));
        return open_labelled(samples, prepared_, all);
    }

    /// By the task, against the FP32 engine, with the truth of --judge where that is given.
    Result<Judged::ByTask> judge_saved(EngineWorkshop& workshop, const Engine& engine) {
        JudgedBy by = by_;
        if (!request_.judge.empty()) {
            LATHE_TRY(by,
                      judged_by(prepared_, request_.judge, request_.task, "task", DamageMetric::task, given_.length));
            if (by.task->labelled != by_.task->labelled || by.task->task != by_.task->task) {
                return Error{ErrorCode::mismatch,
                             "--judge is judged by " + by.task->metric + ", --data by " + by_.task->metric,
                             request_.judge.string(), "give both truth of one kind, or neither"};
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
        progress_.begin("judging the saved engine", data->size());
        while (true) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(const std::optional<Batch> batch, data->next(workshop_options_.evaluate_batch));
            if (!batch || batch->size() == 0) break;
            LATHE_TRY(const auto expected, reference->predict_all(*batch));
            LATHE_CHECK(judge->add(0, *batch, expected));
            LATHE_TRY(const auto actual, subject->predict_all(*batch));
            LATHE_CHECK(judge->add(1, *batch, actual));
            progress_.advance(batch->size());
        }
        progress_.end();
        Judged::ByTask found{by.task->task, by.task->metric, by.task->labelled, {}, {}, judge->left_out()};
        found.score = judge->score(1);
        if (!found.score.defined()) {
            return Error{ErrorCode::invalid_argument,
                         "nothing is to be found in the samples that judge, so " + found.metric + " says nothing",
                         request_.judge.empty() ? given_.data : request_.judge.string(),
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
        return evaluate({&judged, 1}, reference.get(), *data, evaluation, progress_);
    }

    Result<void> write_report(const Json& document) const {
        if (request_.report.empty()) return {};
        report::DocumentOptions page;
        page.command = request_.command_line;
        page.version = LATHE_VERSION;
        LATHE_TRY(const Json whole,
                  report::make_document(
                      {{request_.results.empty() ? std::string("tune") : request_.results.string(), document}}, page));
        return write_file(request_.report, report::render_html(whole));
    }

    const TuneRequest& request_;
    Progress& progress_;
    PrepareOptions given_; ///< as the request has it
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

Result<TuneResult> tune(const TuneRequest& request) { return Tuner(request).run(); }

} // namespace lathe
