#include "evaluate/task_judge.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/convert.hpp"
#include "evaluate/counted.hpp"
#include "evaluate/detection.hpp"
#include "evaluate/match_judge.hpp"
#include "evaluate/run.hpp"

namespace lathe {

namespace {

/// Detections a picture that are kept of a network: hundreds of networks are judged beside each other.
constexpr std::size_t most_detections = 300;

class DetectionTruthJudge final : public MatchJudge<Detection, TrueObject, DetectedPicture> {
public:
    DetectionTruthJudge(DetectionHead head, DetectionOptions options, std::optional<Preprocess> preprocess,
                        std::shared_ptr<const DetectionTruth> truth, std::vector<std::int32_t> classes)
        : MatchJudge(truth != nullptr, std::move(options), most_detections, std::move(preprocess)),
          head_(std::move(head)), truth_(std::move(truth)), classes_(std::move(classes)) {}

private:
    Result<std::vector<Detection>> decoded(std::span<const HostTensor> outputs, std::size_t i,
                                           const std::optional<PicturePlace>& place) const override {
        LATHE_TRY(std::vector<Detection> found, decode(head_, outputs, head_.one_sample ? 0 : i, decoding()));
        if (place) map_back(found, place->mapping);
        return found;
    }
    Result<std::optional<std::vector<TrueObject>>> truth_of(const Batch& batch, std::size_t i) const override {
        auto objects = truth_->of(batch.names[i], batch.sizes[i]);
        for (std::size_t k = 0; objects && k < objects->size(); ++k)
            (*objects)[k].class_index = classes_.at(static_cast<std::size_t>((*objects)[k].class_index));
        return objects;
    }
    DetectionMatches match(const std::vector<DetectedPicture>& pictures) const override {
        return DetectionMatches(pictures);
    }

    DetectionHead head_;
    std::shared_ptr<const DetectionTruth> truth_;
    std::vector<std::int32_t> classes_;
};

class CountedTruthJudge final : public TaskJudge {
public:
    CountedTruthJudge(std::shared_ptr<const CountedTask> task, std::size_t output,
                      std::shared_ptr<const CountedTruth> truth)
        : task_(std::move(task)), output_(output), truth_(std::move(truth)), figure_(task_->figures().front()) {}

    Result<void> add(std::size_t network, const Batch& batch, std::span<const HostTensor> outputs) override {
        if (output_ >= outputs.size()) {
            return Error{ErrorCode::mismatch, "the model has no output " + std::to_string(output_),
                         std::string(task_->name()), ""};
        }
        if (network >= networks_.size()) networks_.resize(network + 1);
        Counts& counts = networks_[network];
        for (std::size_t i = 0; i < batch.size(); ++i) {
            LATHE_TRY(Answer given, task_->answer(outputs.subspan(output_, 1), i));
            if (network == 0) {
                std::optional<Answer> expected;
                if (truth_ != nullptr) {
                    const auto size = batch.sizes.empty() ? std::nullopt : std::optional(batch.sizes[i]);
                    LATHE_TRY(expected, truth_->of(batch.names[i], size, given));
                    if (!expected) ++left_out_;
                }
                expected_.push_back(std::move(expected));
                own_.push_back(given);
            }
            const std::size_t sample = counts.seen++;
            if (truth_ != nullptr && !expected_.at(sample)) continue;
            LATHE_TRY(auto alike, task_->count(given, own_.at(sample)));
            counts.own.add(std::move(alike));
            if (truth_ == nullptr) continue;
            auto right = task_->count(given, *expected_[sample]);
            if (!right) return std::move(right).error().in(batch.names[i]);
            counts.truth.add(*std::move(right));
        }
        return {};
    }

    TaskScore score(std::size_t network) const override {
        const Counts& counts = networks_.at(network);
        TaskScore score;
        score.agreement = figure_.of(counts.own.sums());
        for (std::size_t part = 0; part < TaskScore::parts; ++part) {
            const double value = figure_.of(counts.own.sums(weights_of_part(counts.own.samples(), part)));
            score.part_agreement.at(part) = std::isnan(value) ? 1.0 : value;
        }
        score.metric = figure_.of(judged(network).sums());
        score.reference = figure_.of(judged(0).sums());
        return score;
    }

    Interval difference(std::size_t network, std::size_t other) const override {
        return bootstrap_difference(judged(network), judged(other), figure_);
    }

    std::size_t left_out() const override { return left_out_; }

private:
    struct Counts {
        std::size_t seen = 0;
        SampleCounts truth, own;
    };

    const SampleCounts& judged(std::size_t network) const {
        const Counts& counts = networks_.at(network);
        return truth_ == nullptr ? counts.own : counts.truth;
    }

    std::shared_ptr<const CountedTask> task_;
    std::size_t output_;
    std::shared_ptr<const CountedTruth> truth_;
    CountedFigure figure_;
    std::vector<std::optional<Answer>> expected_;
    std::vector<Answer> own_; ///< of the reference
    std::vector<Counts> networks_;
    std::size_t left_out_ = 0;
};

} // namespace

std::vector<std::uint32_t> weights_of_part(std::size_t samples, std::size_t part) {
    std::vector<std::uint32_t> weights(samples, 0U);
    for (std::size_t i = part; i < samples; i += TaskScore::parts)
        weights[i] = 1;
    return weights;
}

bool TaskScore::defined() const { return !std::isnan(metric) && !std::isnan(reference) && !std::isnan(agreement); }

double TaskScore::loss() const { return reference - metric; }

double TaskScore::unlikeness() const { return std::max(0.0, 1 - agreement); }

Result<HostTensor> as_floats(const TensorView& values, std::string name) {
    HostTensor floats(std::move(name), DataType::float32, values.shape);
    LATHE_CHECK(convert_elements(values.type, values.bytes, DataType::float32, floats.bytes, floats.name));
    return floats;
}

std::unique_ptr<TaskJudge> make_detection_judge(DetectionHead head, DetectionOptions options,
                                                std::optional<Preprocess> preprocess,
                                                std::shared_ptr<const DetectionTruth> truth,
                                                std::vector<std::int32_t> classes) {
    return std::make_unique<DetectionTruthJudge>(std::move(head), std::move(options), std::move(preprocess),
                                                 std::move(truth), std::move(classes));
}

std::unique_ptr<TaskJudge> make_counted_judge(std::shared_ptr<const CountedTask> task, std::size_t output,
                                              std::shared_ptr<const CountedTruth> truth) {
    return std::make_unique<CountedTruthJudge>(std::move(task), output, std::move(truth));
}

Result<TaskJudging> judge_detection(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const DetectionHead head, detection_head(model, request.detection.head));
    LATHE_TRY(auto found, find_detection_truth(request.data));
    LATHE_TRY(const bool by_masks, judged_by_masks(request, head, found));
    if (by_masks) return judge_instances(request, model);
    LATHE_TRY(const std::optional<Preprocess> preprocess, preprocess_for(request.preprocess, model));
    TaskJudging judging;
    judging.task = "detection";
    judging.metric = found ? "mAP 0.50:0.95" : "mAP 0.50 against the float network's detections";
    judging.labelled = found.has_value();
    judging.samples = found ? found->pictures : request.data;
    judging.one_sample = head.one_sample;
    std::vector<std::int32_t> classes;
    std::shared_ptr<const DetectionTruth> truth;
    if (found) {
        judging.digest = found->digest;
        LATHE_TRY(classes, map_classes(*found, model.labels, head.classes));
        truth = std::make_shared<const DetectionTruth>(*std::move(found));
    }
    judging.make = [head, options = request.detection, preprocess, truth, classes] {
        return make_detection_judge(head, options, preprocess, truth, classes);
    };
    return judging;
}

Result<std::optional<TaskJudging>> find_task_judging(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const EvaluationTask* task, evaluation_task(request));
    if (request.task.empty() && request.output_name.empty() && std::string_view(task->name) == "classification") {
        // Nothing but the outputs may tell; labels of classes are looked for by the caller.
        task = task_of_outputs(model, request.detection.head);
        if (task == nullptr) return std::optional<TaskJudging>();
    }
    if (std::string_view(task->name) == "classification") return std::optional<TaskJudging>();
    if (task->judge == nullptr) {
        return Error{ErrorCode::unsupported, std::string("layers and mixes cannot be judged by the task ") + task->name,
                     "--task", "lathe eval and lathe optimize can; choose --metric sqnr, kl, agreement or top1 here"};
    }
    LATHE_TRY(TaskJudging judging, task->judge(request, model));
    return std::optional<TaskJudging>(std::move(judging));
}

} // namespace lathe
