#include <algorithm>
#include <utility>

#include "evaluate/match_judge.hpp"
#include "tasks/detection/keypoints.hpp"

namespace lathe {

namespace {

constexpr std::size_t most_poses_kept = 100; ///< a picture; COCO counts 20

class PoseJudge final : public MatchJudge<Pose, TruePose, PosedPicture> {
public:
    PoseJudge(PoseHead head, DetectionOptions options, std::optional<Preprocess> preprocess,
              std::shared_ptr<const KeypointTruth> truth)
        : MatchJudge(truth != nullptr, std::move(options), most_poses_kept, std::move(preprocess)), head_(head),
          truth_(std::move(truth)) {}

private:
    Result<std::vector<Pose>> decoded(std::span<const HostTensor> outputs, std::size_t i,
                                      const std::optional<PicturePlace>& place) const override {
        LATHE_TRY(std::vector<Pose> poses, decode_poses(head_, outputs, i, decoding()));
        if (place) map_back(poses, place->mapping);
        return poses;
    }
    Result<std::optional<std::vector<TruePose>>> truth_of(const Batch& batch, std::size_t i) const override {
        return truth_->of(batch.names[i]);
    }
    DetectionMatches match(const std::vector<PosedPicture>& pictures) const override { return match_poses(pictures); }

    PoseHead head_;
    std::shared_ptr<const KeypointTruth> truth_;
};

Result<void> check_points(const PoseHead& head, const KeypointTruth& truth) {
    if (head.points == truth.points) return {};
    return Error{ErrorCode::mismatch,
                 "the model finds " + std::to_string(head.points) + " keypoints, the truth has " +
                     std::to_string(truth.points),
                 truth.boxes.source.string(), "give data with the keypoints that the model was trained on"};
}

void describe_poses(Json& document, const std::string& where, bool labelled) {
    using enum FigureFormat;
    if (!labelled) {
        describe_figures(document, {"OKS AP 0.50 against the reference's poses", "agreement"}, "Keypoints " + where, {},
                         {{"same poses (AP 0.50)", "agreement", share, 2}});
        return;
    }
    describe_figures(document, {"OKS AP", "oks_ap"}, "Keypoints " + where,
                     {{"OKS AP 0.50:0.95", "oks_ap", share, 2},
                      {"AP 0.50", "oks_ap50", share, 2},
                      {"AP 0.75", "oks_ap75", share, 2},
                      {"medium", "oks_ap_medium", share, 1},
                      {"large", "oks_ap_large", share, 1},
                      {"recall at 20", "oks_ap_recall", share, 1}},
                     {{"AP change", "oks_ap_delta", points, 2}, {"same poses (AP 0.50)", "agreement", share, 2}});
}

Result<MatchedPlan> plan_of_poses(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const PoseHead head, keypoint_head(model));
    LATHE_TRY(auto found, find_keypoint_truth(request.data));
    LATHE_TRY(const std::optional<Preprocess> preprocess, preprocess_for(request.preprocess, model));
    MatchedPlan plan{
        "keypoints",   "poses", "OKS AP", "oks_ap", "the data has no keypoints", "add COCO's person_keypoints.json",
        describe_poses};
    std::shared_ptr<const KeypointTruth> truth;
    if (found) {
        LATHE_CHECK(check_points(head, *found));
        truth = std::make_shared<const KeypointTruth>(*std::move(found));
        plan.truth = {truth, &truth->boxes};
    }
    plan.told["keypoints"] = head.points;
    plan.make = [head, options = request.detection, preprocess, truth]() -> std::unique_ptr<MatchesJudge> {
        return std::make_unique<PoseJudge>(head, options, preprocess, truth);
    };
    return plan;
}

} // namespace

Result<PoseHead> keypoint_head(const EngineInfo& engine) {
    LATHE_TRY(const Preprocess::Size size, picture_input(engine));
    auto head = pose_head(output_shapes(engine), size.height, size.width);
    if (!head) return std::move(head).error().in(engine.name);
    return *head;
}

Result<TaskJudging> judge_keypoints(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(MatchedPlan plan, plan_of_poses(request, model));
    return judging_of(std::move(plan), request);
}

Result<Json> evaluate_keypoint_engines(const EvalRequest& request, Progress& progress) {
    return evaluate_matched(request, plan_of_poses, progress);
}

} // namespace lathe
