#include "tasks/counted.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/bootstrap.hpp"

namespace lathe {

namespace {

class CountedJudge final : public AnswerJudge {
public:
    explicit CountedJudge(const CountedTask& task) : task_(task), figure_(task.figures().front()) {}

    Result<void> add(std::size_t network, std::span<const HostTensor> outputs) override {
        if (outputs.empty() || outputs.front().shape.empty()) {
            return Error{ErrorCode::mismatch, "no outputs to judge", std::string(task_.name()), ""};
        }
        if (network >= counts_.size()) counts_.resize(network + 1);
        const auto samples = static_cast<std::size_t>(outputs.front().shape[0]);
        for (std::size_t i = 0; i < samples; ++i) {
            LATHE_TRY(Answer given, task_.answer(outputs, i));
            const std::size_t at = counts_[network].samples();
            if (network == 0) expected_.push_back(given);
            if (at >= expected_.size()) {
                return Error{ErrorCode::mismatch, "more samples than the reference was given",
                             std::string(task_.name()), ""};
            }
            LATHE_TRY(auto counted, task_.count(given, expected_[at]));
            counts_[network].add(std::move(counted));
        }
        return {};
    }

    double metric(std::size_t network) const override {
        const double value = figure_.of(counts_.at(network).sums());
        return std::isnan(value) ? -1 : value;
    }

    Interval difference(std::size_t network, std::size_t other) const override {
        return bootstrap_difference(counts_.at(network), counts_.at(other), figure_);
    }

private:
    const CountedTask& task_;
    CountedFigure figure_;
    std::vector<Answer> expected_;
    std::vector<SampleCounts> counts_; ///< by network
};

} // namespace

void SampleCounts::add(std::vector<double> counts) {
    width_ = std::max(width_, counts.size());
    rows_.push_back(std::move(counts));
}

std::vector<double> SampleCounts::sums() const {
    const std::vector<std::uint32_t> once(rows_.size(), 1U);
    return sums(once);
}

std::vector<double> SampleCounts::sums(std::span<const std::uint32_t> weights) const {
    std::vector<double> total(width_, 0.0);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (weights[i] == 0) continue;
        for (std::size_t k = 0; k < rows_[i].size(); ++k)
            total[k] += weights[i] * rows_[i][k];
    }
    return total;
}

Interval bootstrap_interval(const SampleCounts& counts, const CountedFigure& figure, std::size_t resamples) {
    return bootstrap(counts.samples(), resamples, 1, [&](auto weights) { return figure.of(counts.sums(weights)); });
}

Interval bootstrap_difference(const SampleCounts& subject, const SampleCounts& reference, const CountedFigure& figure,
                              std::size_t resamples) {
    return bootstrap(subject.samples(), resamples, 1, [&](auto weights) {
        return figure.of(subject.sums(weights)) - figure.of(reference.sums(weights));
    });
}

Result<const HostTensor*> CountedTask::output_at(std::span<const HostTensor> outputs, std::size_t number) const {
    if (number < outputs.size()) return &outputs[number];
    return Error{ErrorCode::mismatch, "the model has no output " + std::to_string(number), std::string(name()), ""};
}

Error unlike(const HostTensor& output, const std::string& wanted, std::string hint) {
    return {ErrorCode::mismatch,
            "the output is " + to_string(output.type) + " " + to_string(output.shape) + ", not " + wanted, output.name,
            std::move(hint)};
}

std::unique_ptr<AnswerJudge> CountedTask::judge() const { return std::make_unique<CountedJudge>(*this); }

} // namespace lathe
