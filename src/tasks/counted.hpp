#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "tasks/task.hpp"

namespace lathe {

/// A class for every pixel, row by row; a negative one is none.
struct LabelMap {
    std::size_t height = 0;
    std::size_t width = 0;
    std::vector<std::int32_t> labels;
};

/// Numbers as the network gives them, without the axis of the sample.
struct Numbers {
    Shape shape;
    std::vector<float> values;
};

/// What a network says of one sample, or what is true of it.
using Answer = std::variant<LabelMap, Numbers, std::u32string>;

/// A figure computed from what was counted, summed over samples. NaN where that says nothing.
struct CountedFigure {
    const char* key; ///< in an evaluation's JSON
    std::function<double(std::span<const double> sums)> of;
};

/// What was counted of each sample. Rows may differ in length: what a row lacks is 0.
class SampleCounts {
public:
    void add(std::vector<double> counts);
    std::size_t samples() const { return rows_.size(); }
    std::span<const double> row(std::size_t sample) const { return rows_[sample]; }
    std::vector<double> sums() const;
    /// With sample i counted weights[i] times.
    std::vector<double> sums(std::span<const std::uint32_t> weights) const;

private:
    std::vector<std::vector<double>> rows_;
    std::size_t width_ = 0;
};

/// 95 % bootstrap intervals over samples of a figure, and of subject minus reference on the same drawn samples.
Interval bootstrap_interval(const SampleCounts& counts, const CountedFigure& figure, std::size_t resamples = 1000);
Interval bootstrap_difference(const SampleCounts& subject, const SampleCounts& reference, const CountedFigure& figure,
                              std::size_t resamples = 1000);

/// A task whose figures are made of counts that add up over samples (pixels of a class, characters, squared errors),
/// so that a bootstrap over samples only adds them anew. A new one says three things: what the answer in some outputs
/// is, what is counted of it beside the expected one, and the figures; the rest is here.
class CountedTask : public Task {
public:
    /// `outputs`: all of the model's, float32, axis 0 the sample. Errors: mismatch (outputs of another form).
    virtual Result<Answer> answer(std::span<const HostTensor> outputs, std::size_t sample) const = 0;
    /// Errors: mismatch (answers that cannot be compared).
    virtual Result<std::vector<double>> count(const Answer& given, const Answer& expected) const = 0;
    /// The first judges: 1 is perfect, more is better.
    virtual std::vector<CountedFigure> figures() const = 0;

    std::vector<OutputPart> parts() const override { return {}; }
    std::unique_ptr<AnswerJudge> judge() const override;

protected:
    /// The model's output of this number. Errors: mismatch.
    Result<const HostTensor*> output_at(std::span<const HostTensor> outputs, std::size_t number) const;
};

/// mismatch: the output's type and shape are "not " + wanted.
Error unlike(const HostTensor& output, const std::string& wanted, std::string hint = "");

} // namespace lathe
