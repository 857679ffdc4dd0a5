#include <algorithm>
#include <utility>

#include "evaluate/match_judge.hpp"
#include "tasks/detection/instances.hpp"

namespace lathe {

namespace {

/// Instances a picture that are kept of a network: each has a mask, and COCO counts 100 of a class.
constexpr std::size_t most_instances = 300;

class InstanceJudge final : public MatchJudge<Instance, TrueInstance, InstancePicture> {
public:
    InstanceJudge(DetectionHead head, DetectionOptions options, std::optional<Preprocess> preprocess,
                  std::shared_ptr<const InstanceTruth> truth, std::vector<std::int32_t> classes)
        : MatchJudge(truth != nullptr, std::move(options), most_instances, std::move(preprocess)),
          head_(std::move(head)), truth_(std::move(truth)), classes_(std::move(classes)) {}

private:
    Result<std::vector<Instance>> decoded(std::span<const HostTensor> outputs, std::size_t i,
                                          const std::optional<PicturePlace>& place) const override {
        return decode_instances(head_, outputs, head_.one_sample ? 0 : i, decoding(), place);
    }
    Result<std::optional<std::vector<TrueInstance>>> truth_of(const Batch& batch, std::size_t i) const override {
        LATHE_TRY(auto objects, truth_->of(batch.names[i], batch.sizes[i]));
        for (std::size_t k = 0; objects && k < objects->size(); ++k) {
            TrueObject& object = (*objects)[k].object;
            object.class_index = classes_.at(static_cast<std::size_t>(object.class_index));
        }
        return objects;
    }
    DetectionMatches match(const std::vector<InstancePicture>& pictures) const override {
        return match_instances(pictures);
    }

    DetectionHead head_;
    std::shared_ptr<const InstanceTruth> truth_;
    std::vector<std::int32_t> classes_;
};

void describe_instances(Json& document, const std::string& where, bool labelled) {
    using enum FigureFormat;
    if (!labelled) {
        describe_figures(document, {"mask mAP 0.50 against the reference's masks", "agreement"}, "Instances " + where,
                         {}, {{"same masks (mAP 0.50)", "agreement", share, 2}});
        return;
    }
    describe_figures(
        document, {"mask mAP", "mask_map"}, "Instances " + where,
        {{"mask mAP 0.50:0.95", "mask_map", share, 2},
         {"mAP 0.50", "mask_map50", share, 2},
         {"mAP 0.75", "mask_map75", share, 2},
         {"small", "mask_map_small", share, 1},
         {"medium", "mask_map_medium", share, 1},
         {"large", "mask_map_large", share, 1},
         {"recall at 100", "mask_map_recall", share, 1}},
        {{"mask mAP change", "mask_map_delta", points, 2}, {"same masks (mAP 0.50)", "agreement", share, 2}});
}

Result<MatchedPlan> plan_of_instances(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const DetectionHead head, instance_head(model, request.detection.head));
    LATHE_TRY(auto found, find_instance_truth(request.data));
    LATHE_TRY(const std::optional<Preprocess> preprocess, preprocess_for(request.preprocess, model));
    MatchedPlan plan{"instances",
                     "masks",
                     "mask mAP",
                     "mask_map",
                     "the data has no outlines",
                     "add COCO's instances.json with a segmentation of every object",
                     describe_instances};
    plan.one_sample = head.one_sample;
    std::shared_ptr<const InstanceTruth> truth;
    std::vector<std::int32_t> classes;
    if (found) {
        LATHE_TRY(classes, map_classes(found->boxes, model.labels, head.classes));
        truth = std::make_shared<const InstanceTruth>(*std::move(found));
        plan.truth = {truth, &truth->boxes};
    }
    plan.told["head"] = to_string(head.form);
    plan.told["class_names"] = class_names_of(model.labels, head, plan.truth.get(), classes);
    plan.make = [head, options = request.detection, preprocess, truth, classes]() -> std::unique_ptr<MatchesJudge> {
        return std::make_unique<InstanceJudge>(head, options, preprocess, truth, classes);
    };
    return plan;
}

} // namespace

Result<DetectionHead> instance_head(const EngineInfo& engine, const std::string& name) {
    LATHE_TRY(DetectionHead head, detection_head(engine, name));
    if (head.masks) return head;
    return Error{ErrorCode::unsupported,
                 "the outputs are those of a head " + std::string(to_string(head.form)) + " without masks", engine.name,
                 "give a network with prototypes of a quarter of the input's size beside a YOLO's output, or with an "
                 "output \"masks\" beside boxes, labels and scores; or --task detection"};
}

Result<bool> judged_by_masks(const EvalRequest& request, const DetectionHead& head,
                             const std::optional<DetectionTruth>& truth) {
    if (!request.task.empty() || !head.masks) return false;
    if (!truth) return true;
    return has_outlines(*truth);
}

Result<TaskJudging> judge_instances(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(MatchedPlan plan, plan_of_instances(request, model));
    return judging_of(std::move(plan), request);
}

Result<Json> evaluate_instance_engines(const EvalRequest& request, Progress& progress) {
    return evaluate_matched(request, plan_of_instances, progress);
}

} // namespace lathe
