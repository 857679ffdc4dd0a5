#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/detection.hpp"
#include "evaluate/matched.hpp"
#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/head.hpp"

namespace lathe {

/// An average precision; -1, where there was nothing to find, is NaN.
inline double defined_or_nan(double value) { return value <= -1 ? std::nan("") : value; }

/// Samples part, part + 16, ...
std::vector<std::uint32_t> weights_of_part(std::size_t samples, std::size_t part);

/// Judges what is found in pictures (boxes, poses, instances) by average precision: against the truth, at COCO's
/// overlaps, or without one against network 0's own answers, at a half. `Picture` is {what is true, what was found}.
template <class Answer, class Truth, class Picture>
class MatchJudge : public MatchesJudge {
public:
    Result<void> add(std::size_t network, const Batch& batch, std::span<const HostTensor> outputs) override {
        if (network >= found_.size()) found_.resize(network + 1);
        const bool pictures = !batch.sizes.empty();
        if (labelled_ && !pictures)
            return Error{ErrorCode::invalid_argument, "the truth is of pictures, but the data are arrays", "", ""};
        for (std::size_t i = 0; i < batch.size(); ++i) {
            std::optional<PicturePlace> place;
            if (pictures && preprocess_) {
                const PictureSize& size = batch.sizes[i];
                place = PicturePlace{preprocess_->mapping(size.width, size.height), size};
            }
            LATHE_TRY(auto answers, decoded(outputs, i, place));
            if (network == 0) LATHE_CHECK(expect(batch, i, answers));
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
        return bootstrap_difference(judged(network), judged(other), range(), options_.resamples);
    }

    std::size_t left_out() const override { return left_out_; }

    DetectionMatches judged(std::size_t network) const override {
        return matches(network, labelled_ ? expected_ : own_);
    }
    DetectionMatches agreement(std::size_t network) const override { return matches(network, own_); }
    const std::vector<std::string>& names() const override { return names_; }

    Json worst(std::size_t network, std::size_t count) const override {
        struct Entry {
            std::size_t picture;
            std::string name;
            double agreement;
        };
        std::vector<Entry> entries;
        std::size_t chosen = 0;
        for (std::size_t i = 0; i < own_.size(); ++i) {
            if (!chosen_[i]) continue;
            std::vector<Picture> one(1);
            auto& [truth, found] = one.front();
            truth = own_[i];
            found = found_.at(network)[i];
            const double alike = match(one).average_precision(OverlapRange::half);
            if (alike > -1) entries.push_back({i, names_[chosen], alike});
            ++chosen;
        }
        std::ranges::stable_sort(entries, {}, &Entry::agreement);
        if (entries.size() > count) entries.resize(count);
        Json worst = Json::array();
        for (const Entry& entry : entries) {
            worst.push_back({{"sample", entry.name},
                             {"agreement", entry.agreement},
                             {"reference_boxes", shown(found_.front()[entry.picture])},
                             {"subject_boxes", shown(found_[network][entry.picture])}});
        }
        return worst;
    }

protected:
    /// Of a picture's answers `most` are kept at most.
    MatchJudge(bool labelled, DetectionOptions options, std::size_t most, std::optional<Preprocess> preprocess)
        : labelled_(labelled), options_(std::move(options)), preprocess_(std::move(preprocess)) {
        options_.decode.most = std::min(options_.decode.most, most);
    }

    const DecodeOptions& decoding() const { return options_.decode; }

    /// What the outputs say of sample `i`, in the picture's pixels; where it is none, in the input's.
    virtual Result<std::vector<Answer>> decoded(std::span<const HostTensor> outputs, std::size_t i,
                                                const std::optional<PicturePlace>& place) const = 0;
    /// Of a labelled judge: nothing for pictures that the truth does not speak of.
    virtual Result<std::optional<std::vector<Truth>>> truth_of(const Batch& batch, std::size_t i) const = 0;
    virtual DetectionMatches match(const std::vector<Picture>& pictures) const = 0;

private:
    using Truths = std::vector<std::vector<Truth>>;

    OverlapRange range() const { return labelled_ ? OverlapRange::coco : OverlapRange::half; }

    /// Those that are worth a look, in a document.
    Json shown(const std::vector<Answer>& answers) const {
        Json list = Json::array();
        for (const Answer& answer : answers) {
            if (score_of(answer) >= options_.least_true_score) list.push_back(to_json(answer));
        }
        return list;
    }

    Result<void> expect(const Batch& batch, std::size_t i, const std::vector<Answer>& answers) {
        own_.push_back(as_truth(answers, options_.least_true_score));
        std::optional<std::vector<Truth>> expected = std::vector<Truth>();
        if (labelled_) {
            LATHE_TRY(expected, truth_of(batch, i));
        }
        chosen_.push_back(expected.has_value());
        if (expected)
            names_.push_back(batch.names[i]);
        else
            ++left_out_;
        expected_.push_back(std::move(expected).value_or(std::vector<Truth>()));
        return {};
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
    DetectionOptions options_;
    std::optional<Preprocess> preprocess_;
    Truths expected_, own_; ///< by picture: what is there, what the reference found
    std::vector<bool> chosen_;
    std::vector<std::string> names_;
    std::size_t left_out_ = 0;
    std::vector<std::vector<std::vector<Answer>>> found_; ///< by network, then picture
    mutable std::optional<double> reference_;             ///< of network 0, once all samples are there
};

} // namespace lathe
