#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/task_judge.hpp"
#include "tasks/detection/average_precision.hpp"

namespace lathe {

/// An average precision; -1, where there was nothing to find, is NaN.
inline double defined_or_nan(double value) { return value <= -1 ? std::nan("") : value; }

/// Samples part, part + 16, ...
std::vector<std::uint32_t> weights_of_part(std::size_t samples, std::size_t part);

/// Judges what is found in pictures (boxes, poses) by average precision: against the truth, at COCO's overlaps, or
/// without one against network 0's own answers, at a half. `Picture` is {what is true, what was found}.
template <class Answer, class Truth, class Picture>
class MatchJudge : public TaskJudge {
public:
    Result<void> add(std::size_t network, const Batch& batch, std::span<const HostTensor> outputs) override {
        if (network >= found_.size()) found_.resize(network + 1);
        const bool pictures = !batch.sizes.empty();
        if (labelled_ && !pictures)
            return Error{ErrorCode::invalid_argument, "the truth is of pictures, but the data are arrays", "", ""};
        for (std::size_t i = 0; i < batch.size(); ++i) {
            LATHE_TRY(auto answers, decoded(outputs, i));
            if (pictures && preprocess_)
                map_back(answers, preprocess_->mapping(batch.sizes[i].width, batch.sizes[i].height));
            if (network == 0) expect(batch, i, answers);
            found_[network].push_back(std::move(answers));
        }
        return {};
    }

    TaskScore score(std::size_t network) const override {
        const DetectionMatches alike = agreement(network);
        TaskScore score;
        score.agreement = defined_or_nan(alike.average_precision(OverlapRange::half));
        for (std::size_t part = 0; part < TaskScore::parts; ++part) {
            const double value = alike.average_precision(weights_of_part(alike.pictures(), part), OverlapRange::half);
            score.part_agreement.at(part) = value <= -1 ? 1.0 : value;
        }
        score.metric = labelled_ ? metric(network) : score.agreement;
        score.reference = metric(0);
        return score;
    }

    Interval difference(std::size_t network, std::size_t other) const override {
        return bootstrap_difference(judged(network), judged(other), range(), resamples_);
    }

    std::size_t left_out() const override { return left_out_; }

    /// Against the truth, or without one against network 0's own answers.
    DetectionMatches judged(std::size_t network) const { return matches(network, labelled_ ? expected_ : own_); }
    DetectionMatches agreement(std::size_t network) const { return matches(network, own_); }
    OverlapRange range() const { return labelled_ ? OverlapRange::coco : OverlapRange::half; }
    /// Of the samples that count.
    const std::vector<std::string>& names() const { return names_; }

protected:
    MatchJudge(bool labelled, std::size_t resamples, std::optional<Preprocess> preprocess)
        : labelled_(labelled), resamples_(resamples), preprocess_(std::move(preprocess)) {}

    /// What the outputs say of sample `i`, in the input's pixels.
    virtual Result<std::vector<Answer>> decoded(std::span<const HostTensor> outputs, std::size_t i) const = 0;
    virtual std::vector<Truth> taken_for_truth(const std::vector<Answer>& answers) const = 0;
    /// Of a labelled judge: nothing for pictures that the truth does not speak of.
    virtual std::optional<std::vector<Truth>> truth_of(const Batch& batch, std::size_t i) const = 0;
    virtual DetectionMatches match(const std::vector<Picture>& pictures) const = 0;

private:
    using Truths = std::vector<std::vector<Truth>>;

    void expect(const Batch& batch, std::size_t i, const std::vector<Answer>& answers) {
        own_.push_back(taken_for_truth(answers));
        auto expected = labelled_ ? truth_of(batch, i) : std::optional(std::vector<Truth>());
        chosen_.push_back(expected.has_value());
        if (expected)
            names_.push_back(batch.names[i]);
        else
            ++left_out_;
        expected_.push_back(std::move(expected).value_or(std::vector<Truth>()));
    }

    DetectionMatches matches(std::size_t network, const Truths& truth) const {
        std::vector<Picture> pictures;
        for (std::size_t i = 0; i < found_.at(network).size(); ++i) {
            if (chosen_.at(i)) pictures.push_back({truth.at(i), found_[network][i]});
        }
        return match(pictures);
    }

    double metric(std::size_t network) const {
        if (network == 0 && reference_) return *reference_;
        const double value = defined_or_nan(judged(network).average_precision(range()));
        if (network == 0) reference_ = value;
        return value;
    }

    bool labelled_;
    std::size_t resamples_;
    std::optional<Preprocess> preprocess_;
    Truths expected_, own_; ///< by picture: what is there, what the reference found
    std::vector<bool> chosen_;
    std::vector<std::string> names_;
    std::size_t left_out_ = 0;
    std::vector<std::vector<std::vector<Answer>>> found_; ///< by network, then picture
    mutable std::optional<double> reference_;             ///< of network 0, once all samples are there
};

} // namespace lathe
