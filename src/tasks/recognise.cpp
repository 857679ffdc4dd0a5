#include <algorithm>
#include <cmath>
#include <utility>

#include "tasks/regression.hpp"
#include "tasks/segmentation.hpp"
#include "tasks/task.hpp"

namespace lathe {

namespace {

class ClassificationTask final : public CountedTask {
public:
    explicit ClassificationTask(std::size_t output) : output_(output) {}
    std::string_view name() const override { return "classification"; }
    std::string_view metric_name() const override { return "share of samples with the float network's class"; }

    Result<Answer> answer(std::span<const HostTensor> outputs, std::size_t sample) const override {
        const auto fits = [&](const HostTensor& output) {
            return output.type == DataType::float32 && output.shape.size() == 2 && output.shape[1] > 0 &&
                   sample < static_cast<std::size_t>(output.shape[0]);
        };
        if (output_ >= outputs.size() || !fits(outputs[output_]))
            return Error{ErrorCode::mismatch, "no row of scores for sample " + std::to_string(sample), "classification",
                         ""};
        const auto classes = static_cast<std::size_t>(outputs[output_].shape[1]);
        const auto scores = outputs[output_].as<float>().subspan(sample * classes, classes);
        std::int32_t best = -1; // of scores that are all NaN
        for (std::size_t c = 0; c < classes; ++c) {
            if (std::isnan(scores[c]) || (best >= 0 && scores[c] <= scores[static_cast<std::size_t>(best)])) continue;
            best = static_cast<std::int32_t>(c);
        }
        return Answer(LabelMap{1, 1, {best}});
    }

    Result<std::vector<double>> count(const Answer& given, const Answer& expected) const override {
        const auto* mine = std::get_if<LabelMap>(&given);
        const auto* truth = std::get_if<LabelMap>(&expected);
        if (mine == nullptr || truth == nullptr)
            return Error{ErrorCode::mismatch, "no classes to compare", "classification", ""};
        return std::vector<double>{mine->labels == truth->labels && mine->labels.front() >= 0 ? 1.0 : 0.0, 1.0};
    }

    std::vector<CountedFigure> figures() const override {
        return {{"agreement",
                 [](std::span<const double> sums) { return sums.size() < 2 ? std::nan("") : sums[0] / sums[1]; }}};
    }

private:
    std::size_t output_;
};

/// Whether an output is a picture or a map of numbers of the input's size or a whole multiple of it.
bool is_picture(const Shape& shape, std::size_t height, std::size_t width) {
    if (shape.size() != 4) return false;
    const auto multiple = [&](std::int64_t rows, std::int64_t columns, std::int64_t channels) {
        const auto h = static_cast<std::int64_t>(height);
        const auto w = static_cast<std::int64_t>(width);
        return (channels == 1 || channels == 3) && h > 0 && w > 0 && rows > 0 && rows % h == 0 &&
               columns == rows / h * w;
    };
    return multiple(shape[2], shape[3], shape[1]) || multiple(shape[1], shape[2], shape[3]);
}

} // namespace

std::unique_ptr<Task> make_classification_task(std::size_t output) {
    return std::make_unique<ClassificationTask>(output);
}

std::unique_ptr<Task> recognise_task(std::span<const OutputShape> outputs, std::size_t height, std::size_t width) {
    if (auto head = recognise_head(outputs, height, width)) return make_detection_task(*std::move(head));
    if (const auto head = recognise_segmentation(outputs, height, width)) return make_segmentation_task(*head);
    const auto scores = std::ranges::find_if(
        outputs, [](const Shape& shape) { return shape.size() == 2 && shape[1] > 1; }, &OutputShape::shape);
    if (scores != outputs.end()) return make_classification_task(static_cast<std::size_t>(scores - outputs.begin()));
    const auto picture = std::ranges::find_if(
        outputs, [&](const Shape& shape) { return is_picture(shape, height, width); }, &OutputShape::shape);
    if (picture != outputs.end()) return make_regression_task({static_cast<std::size_t>(picture - outputs.begin()), 0});
    return nullptr;
}

} // namespace lathe
