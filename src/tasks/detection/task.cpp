#include "tasks/task.hpp"

#include <utility>

#include "tasks/detection/average_precision.hpp"

namespace lathe {

namespace {

/// A detection below this is nothing that the float network would show.
constexpr float least_true_score = 0.25F;

class DetectionJudge final : public AnswerJudge {
public:
    DetectionJudge(DetectionHead head, DecodeOptions options) : head_(std::move(head)), options_(options) {}

    Result<void> add(std::size_t network, std::span<const HostTensor> outputs) override {
        if (outputs.empty() || outputs.front().shape.empty()) {
            return Error{ErrorCode::mismatch, "no outputs to find detections in", "detection", ""};
        }
        if (network >= answers_.size()) answers_.resize(network + 1);
        const std::size_t samples = head_.one_sample ? 1 : static_cast<std::size_t>(outputs.front().shape[0]);
        for (std::size_t i = 0; i < samples; ++i) {
            LATHE_TRY(auto found, decode(head_, outputs, i, options_));
            answers_.at(network).push_back(std::move(found));
        }
        return {};
    }

    double metric(std::size_t network) const override { return matches(network).average_precision(OverlapRange::half); }

    Interval difference(std::size_t network, std::size_t other) const override {
        return bootstrap_difference(matches(network), matches(other), OverlapRange::half);
    }

private:
    DetectionMatches matches(std::size_t network) const {
        std::vector<DetectedPicture> pictures;
        for (std::size_t i = 0; i < answers_.at(network).size(); ++i) {
            DetectedPicture picture;
            if (i < answers_.front().size()) picture.truth = as_truth(answers_.front()[i], least_true_score);
            picture.detections = answers_[network][i];
            pictures.push_back(std::move(picture));
        }
        return DetectionMatches(pictures);
    }

    DetectionHead head_;
    DecodeOptions options_;
    std::vector<std::vector<std::vector<Detection>>> answers_; ///< by network, then sample
};

class DetectionTask final : public Task {
public:
    DetectionTask(DetectionHead head, DecodeOptions options) : head_(std::move(head)), options_(options) {}
    std::string_view name() const override { return "detection"; }
    std::string_view metric_name() const override {
        return "mAP at IoU 0.5 against the float network's own detections";
    }
    std::vector<OutputPart> parts() const override { return parts_of(head_); }
    std::unique_ptr<AnswerJudge> judge() const override { return std::make_unique<DetectionJudge>(head_, options_); }

private:
    DetectionHead head_;
    DecodeOptions options_;
};

} // namespace

std::unique_ptr<Task> make_detection_task(DetectionHead head, DecodeOptions options) {
    return std::make_unique<DetectionTask>(std::move(head), options);
}

} // namespace lathe
