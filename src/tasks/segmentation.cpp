#include "tasks/segmentation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lathe {

namespace {

/// A map of classes may name this many; more are no classes.
constexpr std::int32_t class_limit = 65'536;
/// Values counted of each class: pixels that are it, that are given it, that are both.
constexpr std::size_t counted = 3;
/// More channels, or coarser maps, are features of a backbone rather than classes.
constexpr std::size_t most_recognised = 200;
constexpr std::array<std::size_t, 4> blocks{1, 2, 4, 8};

constexpr const char* other_output = "choose the output that holds the classes with --output-name";

bool covers(std::int64_t rows, std::int64_t columns, std::size_t height, std::size_t width) {
    return std::ranges::any_of(blocks, [&](std::size_t block) {
        return rows == static_cast<std::int64_t>((height + block - 1) / block) &&
               columns == static_cast<std::int64_t>((width + block - 1) / block);
    });
}

std::optional<SegmentationHead> head_of(const Shape& shape, std::size_t index, std::size_t height, std::size_t width) {
    if (shape.size() == 3 && shape[1] == static_cast<std::int64_t>(height) &&
        shape[2] == static_cast<std::int64_t>(width))
        return SegmentationHead{index, true, 0};
    if (shape.size() != 4) return std::nullopt;
    if (covers(shape[2], shape[3], height, width) && shape[1] > 0)
        return SegmentationHead{index, false, static_cast<std::size_t>(shape[1])};
    if (covers(shape[1], shape[2], height, width) && shape[3] > 0)
        return SegmentationHead{index, true, static_cast<std::size_t>(shape[3])};
    return std::nullopt;
}

/// One channel: classes as whole numbers, else one class against the background.
void from_one_channel(std::span<const float> values, std::vector<std::int32_t>& labels) {
    const auto shares =
        std::ranges::none_of(values, [](float value) { return value < 0 || value > 1; }); // NaN is neither
    const bool whole = std::ranges::all_of(
        values, [](float value) { return value >= 0 && value < float{class_limit} && std::floor(value) == value; });
    const float threshold = shares ? 0.5F : 0.0F;
    for (const float value : values) {
        if (std::isnan(value))
            labels.push_back(-1);
        else
            labels.push_back(whole ? static_cast<std::int32_t>(value) : std::int32_t{value > threshold});
    }
}

class SegmentationTask final : public CountedTask {
public:
    explicit SegmentationTask(SegmentationHead head) : head_(head) {}
    std::string_view name() const override { return "segmentation"; }
    std::string_view metric_name() const override { return "mean IoU with the float network's own classes"; }

    Result<Answer> answer(std::span<const HostTensor> outputs, std::size_t sample) const override {
        LATHE_TRY(const HostTensor* const found, output_at(outputs, head_.output));
        const HostTensor& output = *found;
        const std::size_t rank = head_.classes == 0 ? 3 : 4;
        if (output.type != DataType::float32 || output.shape.size() != rank)
            return unlike(output, "a class a pixel", other_output);
        const std::size_t rows = head_.classes == 0 || head_.channels_last ? 1 : 2;
        const std::size_t classes = std::max<std::size_t>(1, head_.classes);
        LabelMap map{
            static_cast<std::size_t>(output.shape[rows]), static_cast<std::size_t>(output.shape[rows + 1]), {}};
        const std::size_t pixels = map.height * map.width;
        const auto all = output.as<float>();
        if (sample >= static_cast<std::size_t>(output.shape[0]) ||
            all.size() != static_cast<std::size_t>(output.shape[0]) * classes * pixels)
            return unlike(output, "with " + std::to_string(classes) + " scores for each pixel", other_output);
        const auto values = all.subspan(sample * classes * pixels, classes * pixels);
        map.labels.reserve(pixels);
        if (classes == 1) {
            from_one_channel(values, map.labels);
            return Answer(std::move(map));
        }
        const std::size_t step = head_.channels_last ? 1 : pixels;
        for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
            const std::size_t first = head_.channels_last ? pixel * classes : pixel;
            std::int32_t best = -1; // of scores that are all NaN
            float most = 0;
            for (std::size_t c = 0; c < classes; ++c) {
                const float value = values[first + c * step];
                if (std::isnan(value) || (best >= 0 && value <= most)) continue;
                best = static_cast<std::int32_t>(c);
                most = value;
            }
            map.labels.push_back(best);
        }
        return Answer(std::move(map));
    }

    Result<std::vector<double>> count(const Answer& given, const Answer& expected) const override {
        const auto* mine = std::get_if<LabelMap>(&given);
        const auto* truth = std::get_if<LabelMap>(&expected);
        if (mine == nullptr || truth == nullptr || mine->labels.size() != truth->labels.size() ||
            mine->width != truth->width) {
            return Error{ErrorCode::mismatch, "maps of classes of different sizes", "segmentation", ""};
        }
        std::int32_t last = -1;
        for (std::size_t i = 0; i < mine->labels.size(); ++i)
            last = std::max({last, mine->labels[i], truth->labels[i]});
        std::vector<double> counts(counted * static_cast<std::size_t>(last + 1), 0.0);
        for (std::size_t i = 0; i < mine->labels.size(); ++i) {
            const std::int32_t is = truth->labels[i];
            const std::int32_t said = mine->labels[i];
            if (is < 0) continue;
            ++counts[counted * static_cast<std::size_t>(is)];
            if (said < 0) continue;
            ++counts[counted * static_cast<std::size_t>(said) + 1];
            if (is == said) ++counts[counted * static_cast<std::size_t>(is) + 2];
        }
        return counts;
    }

    std::vector<CountedFigure> figures() const override {
        return {{"miou",
                 [](std::span<const double> sums) {
                     double total = 0;
                     std::size_t there = 0;
                     for (const double each : class_overlaps(sums)) {
                         if (std::isnan(each)) continue;
                         total += each;
                         ++there;
                     }
                     return total / static_cast<double>(there); // 0 / 0 is NaN
                 }},
                {"pixel_accuracy", [](std::span<const double> sums) {
                     double pixels = 0;
                     double right = 0;
                     for (std::size_t c = 0; c + counted <= sums.size(); c += counted) {
                         pixels += sums[c];
                         right += sums[c + 2];
                     }
                     return right / pixels;
                 }}};
    }

private:
    SegmentationHead head_;
};

} // namespace

std::vector<double> class_overlaps(std::span<const double> sums) {
    std::vector<double> overlaps;
    for (std::size_t c = 0; c + counted <= sums.size(); c += counted) {
        const double both = sums[c + 2];
        const double either = sums[c] + sums[c + 1] - both;
        overlaps.push_back(either > 0 ? both / either : std::numeric_limits<double>::quiet_NaN());
    }
    return overlaps;
}

std::optional<SegmentationHead> recognise_segmentation(std::span<const OutputShape> outputs, std::size_t height,
                                                       std::size_t width) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto head = head_of(outputs[i].shape, i, height, width);
        if (head && head->classes != 1 && head->classes != 3 && head->classes <= most_recognised) return head;
    }
    return std::nullopt;
}

Result<SegmentationHead> segmentation_head(std::span<const OutputShape> outputs, std::size_t height,
                                           std::size_t width) {
    if (const auto head = recognise_segmentation(outputs, height, width)) return *head;
    std::string found;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (const auto head = head_of(outputs[i].shape, i, height, width)) return *head;
        found += (found.empty() ? "" : ", ") + outputs[i].name + " " + to_string(outputs[i].shape);
    }
    return Error{ErrorCode::mismatch,
                 "no output has a class, or scores of classes, for each pixel of " + std::to_string(height) + "x" +
                     std::to_string(width),
                 found, "segmentation takes NxCxHxW, NxHxWxC or NxHxW"};
}

std::unique_ptr<CountedTask> make_segmentation_task(SegmentationHead head) {
    return std::make_unique<SegmentationTask>(head);
}

} // namespace lathe
