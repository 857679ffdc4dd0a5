#include "evaluate/matched.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "evaluate/detection.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/statistics.hpp"
#include "runtime/engine.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

/// -1, where there was nothing to find, is null.
/// One subject of the eval document.
Json subject_of(const MatchedPlan& plan, const MatchesJudge& judge, std::size_t network, const std::string& reference,
                const EvalRequest& request) {
    const std::size_t resamples = request.detection.resamples;
    const bool labelled = plan.truth != nullptr;
    const std::string key = labelled ? plan.key : "agreement";
    Json json = Json::object();
    if (labelled) {
        const DetectionMatches matches = judge.judged(network);
        const AveragePrecision figures = matches.figures();
        json[key] = known_or_null(figures.ap);
        json[key + "_ci95"] = to_json(bootstrap_interval(matches, OverlapRange::coco, resamples));
        json[key + "50"] = known_or_null(figures.ap50);
        json[key + "75"] = known_or_null(figures.ap75);
        json[key + "_small"] = known_or_null(figures.ap_small);
        json[key + "_medium"] = known_or_null(figures.ap_medium);
        json[key + "_large"] = known_or_null(figures.ap_large);
        json[key + "_recall"] = known_or_null(figures.recall_100);
    }
    if (request.reference.empty()) return json;
    const DetectionMatches alike = judge.agreement(network);
    const double agreement = alike.average_precision(OverlapRange::half);
    const Json interval = to_json(bootstrap_interval(alike, OverlapRange::half, resamples));
    if (!labelled) {
        json["agreement"] = known_or_null(agreement);
        json["agreement_ci95"] = interval;
    }
    if (network == 0) return json;
    const TaskScore score = judge.score(network);
    Json versus{{"reference", reference}, {"agreement", known_or_null(agreement)}, {"agreement_ci95", interval}};
    versus[key + "_delta"] = score.defined() ? Json(0.0 - score.loss()) : Json(nullptr);
    versus[key + "_delta_ci95"] = to_json(judge.difference(network, 0));
    json["vs_reference"] = std::move(versus);
    json["worst"] = judge.worst(network, request.options.worst);
    return json;
}

} // namespace

TaskJudging judging_of(MatchedPlan plan, const EvalRequest& request) {
    TaskJudging judging;
    judging.task = plan.task;
    judging.labelled = plan.truth != nullptr;
    judging.metric =
        std::string(plan.metric) +
        (judging.labelled ? " 0.50:0.95" : " 0.50 against the float network's " + std::string(plan.answers));
    judging.samples = judging.labelled ? plan.truth->pictures : request.data;
    if (judging.labelled) judging.digest = plan.truth->digest;
    judging.one_sample = plan.one_sample;
    judging.make = [make = std::move(plan.make)]() -> std::unique_ptr<TaskJudge> { return make(); };
    return judging;
}

Result<Json> evaluate_matched(const EvalRequest& request,
                              Result<MatchedPlan> (*plan_of)(const EvalRequest& request, const EngineInfo& model),
                              Progress& progress) {
    std::vector<std::unique_ptr<OutputsPredictor>> engines; // the reference first, if there is one
    std::optional<Preprocess> preprocess;
    std::optional<MatchedPlan> plan;
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (!plan) {
            LATHE_TRY(plan, plan_of(request, engine.info()));
            if (plan->truth == nullptr && request.reference.empty()) {
                return Error{ErrorCode::invalid_argument,
                             std::string(plan->no_truth) + " and there is no reference engine", request.data.string(),
                             std::string(plan->cure) + ", or give --reference fp32.engine"};
            }
        }
        if (!preprocess) {
            LATHE_TRY(preprocess, preprocess_for(request.preprocess, engine.info()));
        }
        std::vector<std::string> outputs;
        for (const IoInfo& output : engine.info().outputs)
            outputs.push_back(output.name);
        LATHE_TRY(auto predictor, make_outputs_predictor(
                                      engine, name, outputs, request.preprocess_on_device ? preprocess : std::nullopt,
                                      plan->one_sample ? OutputsHold::one_sample : OutputsHold::numbers));
        engines.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    const std::filesystem::path pictures = plan->truth != nullptr ? plan->truth->pictures : request.data;
    DatasetOptions opening;
    opening.samples = request.samples;
    opening.pictures = request.preprocess_on_device;
    LATHE_TRY(const auto data, open_dataset(pictures, preprocess, loaded.first, opening));
    const std::unique_ptr<MatchesJudge> judge = plan->make();
    std::vector<std::size_t> nonfinite(engines.size(), 0);
    const std::size_t batch_size = plan->one_sample ? 1 : std::max<std::size_t>(request.options.batch_size, 1);
    progress.begin("evaluate", data->size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data->next(batch_size));
        if (!batch || batch->size() == 0) break;
        for (std::size_t s = 0; s < engines.size(); ++s) {
            auto outputs = engines[s]->predict_all(*batch);
            if (!outputs) return std::move(outputs).error().in(engines[s]->name());
            if (auto added = judge->add(s, *batch, *outputs); !added)
                return std::move(added).error().in(engines[s]->name());
            for (std::size_t i = 0; i < batch->size(); ++i)
                nonfinite[s] += all_outputs_finite(*outputs, i, batch->size()) ? 0 : 1;
        }
        progress.advance(batch->size());
    }
    progress.end();
    const std::string source = plan->truth != nullptr ? plan->truth->source.string() : request.data.string();
    if (judge->names().empty()) {
        return Error{ErrorCode::invalid_argument, "the data holds no pictures that the truth speaks of", source,
                     "do its file names fit?"};
    }
    if (judge->left_out() > 0) {
        log(LogLevel::warning,
            std::to_string(judge->left_out()) + " pictures are left out: " + source + " does not speak of them");
    }
    if (plan->truth == nullptr) {
        log(LogLevel::warning, std::string(plan->no_truth) + ": the reference's own " + plan->answers +
                                   " with a score of at least 0.25 are taken for the truth");
    }
    LATHE_TRY(const std::string pictures_digest, data->digest());
    Hasher digest;
    digest.update(std::string_view(pictures_digest));
    if (plan->truth != nullptr) digest.update(std::string_view(plan->truth->digest));
    Json json = eval_document(request, loaded.libraries, digest.hex(), judge->names().size());
    json["task"] = plan->task;
    json.update(plan->told);
    json["truth"] = plan->truth != nullptr ? Json{{"format", "COCO"}, {"path", source}} : Json(nullptr);
    json["score_threshold"] = request.detection.decode.score_threshold;
    json["nms_overlap"] = request.detection.decode.overlap_threshold;
    Json subjects = Json::array();
    for (std::size_t s = 0; s < engines.size(); ++s) {
        Json subject{{"name", engines[s]->name()},
                     {"precision", engines[s]->precision()},
                     {"samples", judge->names().size()},
                     {"nonfinite_samples", nonfinite[s]}};
        subject.update(subject_of(*plan, *judge, s, engines.front()->name(), request));
        subjects.push_back(std::move(subject));
    }
    json["subjects"] = std::move(subjects);
    show_pictures(json["subjects"], pictures);
    plan->describe(json,
                   "on " + std::to_string(judge->names().size()) + " pictures" +
                       (plan->truth != nullptr ? " (COCO)" : " without truth"),
                   plan->truth != nullptr);
    return json;
}

} // namespace lathe
