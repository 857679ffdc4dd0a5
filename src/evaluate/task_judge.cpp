#include "evaluate/task_judge.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "evaluate/counted.hpp"
#include "evaluate/detection.hpp"
#include "evaluate/run.hpp"
#include "support/half.hpp"

namespace lathe {

namespace {

/// Detections a picture that are kept of a network: hundreds of networks are judged beside each other.
constexpr std::size_t most_detections = 300;

/// Samples part, part + 16, ...
std::vector<std::uint32_t> weights_of_part(std::size_t samples, std::size_t part) {
    std::vector<std::uint32_t> weights(samples, 0U);
    for (std::size_t i = part; i < samples; i += TaskScore::parts)
        weights[i] = 1;
    return weights;
}

double defined_or_nan(double value) { return value <= -1 ? std::nan("") : value; }

class DetectionTruthJudge final : public TaskJudge {
public:
    DetectionTruthJudge(DetectionHead head, DetectionOptions options, std::optional<Preprocess> preprocess,
                        std::shared_ptr<const DetectionTruth> truth, std::vector<std::int32_t> classes)
        : head_(std::move(head)), options_(std::move(options)), preprocess_(std::move(preprocess)),
          truth_(std::move(truth)), classes_(std::move(classes)) {
        options_.decode.most = std::min(options_.decode.most, most_detections);
    }

    Result<void> add(std::size_t network, const Batch& batch, std::span<const HostTensor> outputs) override {
        if (network >= found_.size()) found_.resize(network + 1);
        const bool pictures = !batch.sizes.empty();
        if (truth_ != nullptr && !pictures)
            return Error{ErrorCode::invalid_argument, "the truth is of pictures, but the data are arrays", "", ""};
        for (std::size_t i = 0; i < batch.size(); ++i) {
            LATHE_TRY(auto detections, decode(head_, outputs, head_.one_sample ? 0 : i, options_.decode));
            if (pictures && preprocess_)
                map_back(detections, preprocess_->mapping(batch.sizes[i].width, batch.sizes[i].height));
            if (network == 0) LATHE_CHECK(add_expected(batch, i, detections));
            found_[network].push_back(std::move(detections));
        }
        return {};
    }

    TaskScore score(std::size_t network) const override {
        const DetectionMatches alike = matches(network, own_);
        TaskScore score;
        score.agreement = defined_or_nan(alike.average_precision(OverlapRange::half));
        for (std::size_t part = 0; part < TaskScore::parts; ++part) {
            const double value = alike.average_precision(weights_of_part(alike.pictures(), part), OverlapRange::half);
            score.part_agreement.at(part) = value <= -1 ? 1.0 : value;
        }
        score.metric = truth_ == nullptr ? score.agreement : metric(network);
        score.reference = truth_ == nullptr ? agreement_of_reference() : metric(0);
        return score;
    }

    Interval difference(std::size_t network, std::size_t other) const override {
        if (truth_ == nullptr)
            return bootstrap_difference(matches(network, own_), matches(other, own_), OverlapRange::half,
                                        options_.resamples);
        return bootstrap_difference(matches(network, expected_), matches(other, expected_), OverlapRange::coco,
                                    options_.resamples);
    }

    std::size_t left_out() const override { return left_out_; }

private:
    using Objects = std::vector<std::vector<TrueObject>>;

    Result<void> add_expected(const Batch& batch, std::size_t i, const std::vector<Detection>& detections) {
        own_.push_back(as_truth(detections, options_.least_true_score));
        chosen_.push_back(true);
        if (truth_ == nullptr) return {};
        auto objects = truth_->of(batch.names[i], batch.sizes[i]);
        chosen_.back() = objects.has_value();
        if (!objects) {
            ++left_out_;
            objects.emplace();
        }
        for (TrueObject& object : *objects)
            object.class_index = classes_.at(static_cast<std::size_t>(object.class_index));
        expected_.push_back(*std::move(objects));
        return {};
    }

    DetectionMatches matches(std::size_t network, const Objects& truth) const {
        std::vector<DetectedPicture> pictures;
        for (std::size_t i = 0; i < found_.at(network).size(); ++i) {
            if (chosen_.at(i)) pictures.push_back({truth.at(i), found_[network][i]});
        }
        return DetectionMatches(pictures);
    }

    double metric(std::size_t network) const {
        if (network == 0 && reference_) return *reference_;
        const double value = defined_or_nan(matches(network, expected_).average_precision(OverlapRange::coco));
        if (network == 0) reference_ = value;
        return value;
    }

    double agreement_of_reference() const {
        if (!reference_) reference_ = defined_or_nan(matches(0, own_).average_precision(OverlapRange::half));
        return *reference_;
    }

    DetectionHead head_;
    DetectionOptions options_;
    std::optional<Preprocess> preprocess_;
    std::shared_ptr<const DetectionTruth> truth_;
    std::vector<std::int32_t> classes_;
    Objects expected_, own_; ///< by picture: what is there, what the reference found
    std::vector<bool> chosen_;
    std::size_t left_out_ = 0;
    std::vector<std::vector<std::vector<Detection>>> found_; ///< by network, then picture
    mutable std::optional<double> reference_;                ///< of network 0, once all samples are there
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

bool TaskScore::defined() const { return !std::isnan(metric) && !std::isnan(reference) && !std::isnan(agreement); }

double TaskScore::loss() const { return reference - metric; }

double TaskScore::unlikeness() const { return std::max(0.0, 1 - agreement); }

HostTensor as_floats(const TensorView& values, std::string name) {
    HostTensor floats(std::move(name), DataType::float32, values.shape);
    const auto out = floats.as<float>();
    const auto convert = [&](auto from, auto&& one) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = one(from[i]);
    };
    switch (values.type) {
        case DataType::float16: convert(values.as<const std::uint16_t>(), float_from_half); break;
        case DataType::bfloat16: convert(values.as<const std::uint16_t>(), float_from_bfloat16); break;
        case DataType::float64:
            convert(values.as<const double>(), [](double value) { return static_cast<float>(value); });
            break;
        case DataType::int64:
            convert(values.as<const std::int64_t>(), [](std::int64_t value) { return static_cast<float>(value); });
            break;
        case DataType::int32:
            convert(values.as<const std::int32_t>(), [](std::int32_t value) { return static_cast<float>(value); });
            break;
        default: convert(values.as<const float>(), [](float value) { return value; }); break;
    }
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
    std::optional<Preprocess> preprocess = request.preprocess;
    if (!preprocess) {
        LATHE_TRY(preprocess, preprocess_of(model));
    }
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
