#include "tasks/task.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/instances.hpp"

namespace lathe {

namespace {

/// A detection below this is nothing that the float network would show.
constexpr float least_true_score = 0.25F;

template <class Answer, class Picture>
class FoundJudge final : public AnswerJudge {
public:
    using Decode = std::function<Result<std::vector<Answer>>(std::span<const HostTensor> outputs, std::size_t sample)>;
    using Match = std::function<DetectionMatches(std::span<const Picture> pictures)>;

    FoundJudge(bool one_sample, Decode decode, Match match)
        : one_sample_(one_sample), decode_(std::move(decode)), match_(std::move(match)) {}

    Result<void> add(std::size_t network, std::span<const HostTensor> outputs) override {
        if (outputs.empty() || outputs.front().shape.empty()) {
            return Error{ErrorCode::mismatch, "no outputs to find detections in", "detection", ""};
        }
        if (network >= answers_.size()) answers_.resize(network + 1);
        const std::size_t samples = one_sample_ ? 1 : static_cast<std::size_t>(outputs.front().shape[0]);
        for (std::size_t i = 0; i < samples; ++i) {
            LATHE_TRY(auto found, decode_(outputs, i));
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
        std::vector<Picture> pictures;
        for (std::size_t i = 0; i < answers_.at(network).size(); ++i) {
            Picture& picture = pictures.emplace_back();
            auto& [truth, found] = picture;
            if (i < answers_.front().size()) truth = as_truth(answers_.front()[i], least_true_score);
            found = answers_[network][i];
        }
        return match_(pictures);
    }

    bool one_sample_;
    Decode decode_;
    Match match_;
    std::vector<std::vector<std::vector<Answer>>> answers_; ///< by network, then sample
};

class DetectionTask final : public Task {
public:
    DetectionTask(DetectionHead head, DecodeOptions options) : head_(std::move(head)), options_(options) {}
    std::string_view name() const override { return head_.masks ? "instances" : "detection"; }
    std::string_view metric_name() const override {
        return head_.masks ? "mAP of masks at IoU 0.5 against the float network's own masks"
                           : "mAP at IoU 0.5 against the float network's own detections";
    }
    std::vector<OutputPart> parts() const override { return parts_of(head_); }
    std::unique_ptr<AnswerJudge> judge() const override {
        if (head_.masks) {
            DecodeOptions options = options_;
            options.most = std::min<std::size_t>(options.most, 100); // each has a mask to make
            return std::make_unique<FoundJudge<Instance, InstancePicture>>(
                head_.one_sample,
                [head = head_, options](std::span<const HostTensor> outputs, std::size_t sample) {
                    return decode_instances(head, outputs, sample, options, std::nullopt);
                },
                match_instances);
        }
        return std::make_unique<FoundJudge<Detection, DetectedPicture>>(
            head_.one_sample,
            [head = head_, options = options_](std::span<const HostTensor> outputs, std::size_t sample) {
                return decode(head, outputs, sample, options);
            },
            [](std::span<const DetectedPicture> pictures) { return DetectionMatches(pictures); });
    }

private:
    DetectionHead head_;
    DecodeOptions options_;
};

} // namespace

std::unique_ptr<Task> make_detection_task(DetectionHead head, DecodeOptions options) {
    return std::make_unique<DetectionTask>(std::move(head), options);
}

} // namespace lathe
