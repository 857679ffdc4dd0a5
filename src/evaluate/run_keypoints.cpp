#include <algorithm>
#include <cmath>
#include <utility>

#include "evaluate/figures.hpp"
#include "evaluate/match_judge.hpp"
#include "evaluate/run.hpp"
#include "runtime/engine.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "tasks/detection/keypoints.hpp"

namespace lathe {

namespace {

/// -1, where there was nothing to find, is null.
Json defined(double value) { return value <= -1 ? Json(nullptr) : Json(value); }

class PoseJudge final : public MatchJudge<Pose, TruePose, PosedPicture> {
public:
    PoseJudge(PoseHead head, DetectionOptions options, std::optional<Preprocess> preprocess,
              std::shared_ptr<const KeypointTruth> truth)
        : MatchJudge(truth != nullptr, options.resamples, std::move(preprocess)), head_(head),
          options_(std::move(options)), truth_(std::move(truth)) {
        options_.decode.most = std::min<std::size_t>(options_.decode.most, 100); // COCO counts 20
    }

private:
    Result<std::vector<Pose>> decoded(std::span<const HostTensor> outputs, std::size_t i) const override {
        return decode_poses(head_, outputs, i, options_.decode);
    }
    std::vector<TruePose> taken_for_truth(const std::vector<Pose>& answers) const override {
        return as_truth(answers, options_.least_true_score);
    }
    std::optional<std::vector<TruePose>> truth_of(const Batch& batch, std::size_t i) const override {
        return truth_->of(batch.names[i]);
    }
    DetectionMatches match(const std::vector<PosedPicture>& pictures) const override { return match_poses(pictures); }

    PoseHead head_;
    DetectionOptions options_;
    std::shared_ptr<const KeypointTruth> truth_;
};

Result<PoseHead> head_of(const EngineInfo& engine) {
    LATHE_TRY(const Preprocess::Size size, picture_input(engine));
    auto head = pose_head(output_shapes(engine), size.height, size.width);
    if (!head) return std::move(head).error().in(engine.name);
    return *head;
}

Result<void> check_points(const PoseHead& head, const KeypointTruth& truth) {
    if (head.points == truth.points) return {};
    return Error{ErrorCode::mismatch,
                 "the model finds " + std::to_string(head.points) + " keypoints, the truth has " +
                     std::to_string(truth.points),
                 truth.boxes.source.string(), "give data with the keypoints that the model was trained on"};
}

/// One subject of the eval document.
Json subject_of(const PoseJudge& judge, std::size_t network, bool labelled, bool has_reference,
                const std::string& reference, std::size_t resamples) {
    Json json = Json::object();
    if (labelled) {
        const DetectionMatches matches = judge.judged(network);
        const AveragePrecision figures = matches.figures();
        json["oks_ap"] = defined(figures.ap);
        json["oks_ap_ci95"] = to_json(bootstrap_interval(matches, OverlapRange::coco, resamples));
        json["oks_ap50"] = defined(figures.ap50);
        json["oks_ap75"] = defined(figures.ap75);
        json["oks_ap_medium"] = defined(figures.ap_medium);
        json["oks_ap_large"] = defined(figures.ap_large);
        json["oks_recall"] = defined(figures.recall_100);
    }
    if (!has_reference) return json;
    const DetectionMatches alike = judge.agreement(network);
    const double agreement = alike.average_precision(OverlapRange::half);
    const Json interval = to_json(bootstrap_interval(alike, OverlapRange::half, resamples));
    if (!labelled) {
        json["agreement"] = defined(agreement);
        json["agreement_ci95"] = interval;
    }
    if (network == 0) return json;
    const TaskScore score = judge.score(network);
    const std::string key = labelled ? "oks_ap" : "agreement";
    Json versus{{"reference", reference}, {"agreement", defined(agreement)}, {"agreement_ci95", interval}};
    versus[key + "_delta"] = score.defined() ? Json(0.0 - score.loss()) : Json(nullptr);
    versus[key + "_delta_ci95"] = to_json(judge.difference(network, 0));
    json["vs_reference"] = std::move(versus);
    return json;
}

} // namespace

Result<TaskJudging> judge_keypoints(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const PoseHead head, head_of(model));
    LATHE_TRY(auto found, find_keypoint_truth(request.data));
    std::optional<Preprocess> preprocess = request.preprocess;
    if (!preprocess) {
        LATHE_TRY(preprocess, preprocess_of(model));
    }
    TaskJudging judging;
    judging.task = "keypoints";
    judging.metric = found ? "OKS AP 0.50:0.95" : "OKS AP 0.50 against the float network's poses";
    judging.labelled = found.has_value();
    judging.samples = found ? found->boxes.pictures : request.data;
    std::shared_ptr<const KeypointTruth> truth;
    if (found) {
        LATHE_CHECK(check_points(head, *found));
        judging.digest = found->boxes.digest;
        truth = std::make_shared<const KeypointTruth>(*std::move(found));
    }
    judging.make = [head, options = request.detection, preprocess, truth]() -> std::unique_ptr<TaskJudge> {
        return std::make_unique<PoseJudge>(head, options, preprocess, truth);
    };
    return judging;
}

Result<Json> evaluate_keypoint_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(auto found, find_keypoint_truth(request.data));
    const bool has_reference = !request.reference.empty();
    if (!found && !has_reference) {
        return Error{ErrorCode::invalid_argument, "the data has no keypoints and there is no reference engine",
                     request.data.string(), "add COCO's person_keypoints.json, or give --reference fp32.engine"};
    }
    const std::shared_ptr<const KeypointTruth> truth =
        found ? std::make_shared<const KeypointTruth>(*std::move(found)) : nullptr;
    std::vector<std::unique_ptr<OutputsPredictor>> engines; // the reference first, if there is one
    std::optional<Preprocess> preprocess = request.preprocess;
    PoseHead head;
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (engines.empty()) {
            if (!preprocess) {
                LATHE_TRY(preprocess, preprocess_of(engine.info()));
            }
            LATHE_TRY(head, head_of(engine.info()));
        }
        std::vector<std::string> outputs;
        for (const IoInfo& output : engine.info().outputs)
            outputs.push_back(output.name);
        LATHE_TRY(auto predictor, make_outputs_predictor(engine, name, outputs,
                                                         request.preprocess_on_device ? preprocess : std::nullopt,
                                                         OutputsHold::numbers));
        engines.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    if (truth != nullptr) LATHE_CHECK(check_points(head, *truth));
    DatasetOptions opening;
    opening.samples = request.samples;
    opening.pictures = request.preprocess_on_device;
    LATHE_TRY(const auto data,
              open_dataset(truth != nullptr ? truth->boxes.pictures : request.data, preprocess, loaded.first, opening));
    PoseJudge judge(head, request.detection, preprocess, truth);
    std::vector<std::size_t> nonfinite(engines.size(), 0);
    progress.begin("evaluate", data->size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data->next(std::max<std::size_t>(request.options.batch_size, 1)));
        if (!batch || batch->size() == 0) break;
        for (std::size_t s = 0; s < engines.size(); ++s) {
            auto outputs = engines[s]->predict_all(*batch);
            if (!outputs) return std::move(outputs).error().in(engines[s]->name());
            if (auto added = judge.add(s, *batch, *outputs); !added)
                return std::move(added).error().in(engines[s]->name());
            for (std::size_t i = 0; i < batch->size(); ++i)
                nonfinite[s] += all_outputs_finite(*outputs, i, batch->size()) ? 0 : 1;
        }
        progress.advance(batch->size());
    }
    progress.end();
    if (judge.names().empty()) {
        return Error{ErrorCode::invalid_argument, "the data holds no pictures that the truth speaks of",
                     truth != nullptr ? truth->boxes.source.string() : request.data.string(), "do its file names fit?"};
    }
    if (judge.left_out() > 0) {
        log(LogLevel::warning, std::to_string(judge.left_out()) + " pictures are left out: " +
                                   truth->boxes.source.string() + " does not speak of them");
    }
    if (truth == nullptr) {
        log(LogLevel::warning, "the data has no keypoints: the reference's own poses with a score of at least 0.25 are "
                               "taken for the truth");
    }
    LATHE_TRY(const std::string pictures_digest, data->digest());
    Hasher digest;
    digest.update(std::string_view(pictures_digest));
    if (truth != nullptr) digest.update(std::string_view(truth->boxes.digest));
    Json json = eval_document(request, loaded.libraries, digest.hex(), judge.names().size());
    json["task"] = "keypoints";
    json["keypoints"] = head.points;
    json["truth"] = truth != nullptr ? Json{{"format", "COCO"}, {"path", truth->boxes.source.string()}} : Json(nullptr);
    json["score_threshold"] = request.detection.decode.score_threshold;
    json["nms_overlap"] = request.detection.decode.overlap_threshold;
    Json subjects = Json::array();
    for (std::size_t s = 0; s < engines.size(); ++s) {
        Json subject{{"name", engines[s]->name()},
                     {"precision", engines[s]->precision()},
                     {"samples", judge.names().size()},
                     {"nonfinite_samples", nonfinite[s]}};
        subject.update(subject_of(judge, s, truth != nullptr, has_reference, engines.front()->name(),
                                  request.detection.resamples));
        subjects.push_back(std::move(subject));
    }
    json["subjects"] = std::move(subjects);
    const std::string pictures = std::to_string(judge.names().size()) + " pictures";
    using enum FigureFormat;
    if (truth != nullptr) {
        describe_figures(json, {"OKS AP", "oks_ap"}, "Keypoints on " + pictures + " (COCO)",
                         {{"OKS AP 0.50:0.95", "oks_ap", share, 2},
                          {"AP 0.50", "oks_ap50", share, 2},
                          {"AP 0.75", "oks_ap75", share, 2},
                          {"medium", "oks_ap_medium", share, 1},
                          {"large", "oks_ap_large", share, 1},
                          {"recall at 20", "oks_recall", share, 1}},
                         {{"AP change", "oks_ap_delta", points, 2}, {"same poses (AP 0.50)", "agreement", share, 2}});
    } else {
        describe_figures(json, {"OKS AP 0.50 against the reference's poses", "agreement"},
                         "Keypoints on " + pictures + " without truth", {},
                         {{"same poses (AP 0.50)", "agreement", share, 2}});
    }
    return json;
}

} // namespace lathe
