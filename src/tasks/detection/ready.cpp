#include "tasks/detection/ready.hpp"

#include <algorithm>
#include <string>

#include "tasks/detection/shapes.hpp"

namespace lathe {

namespace {

/// Class indices that an output may name; more is no class.
constexpr float named_classes = 65'536;

bool says_class(const OutputShape& output) { return is_named(output, {"label", "class", "categor"}); }

/// An output whose last axis has `values`, with or without an axis for the sample before its rows.
bool has_rows_of(const Shape& shape, std::size_t values) {
    return (shape.size() == 2 || shape.size() == 3) && known_size(shape, shape.size() - 1) == values;
}

/// An output named as masks, one for each row of `rows` axes.
std::optional<std::size_t> listed_masks(std::span<const OutputShape> outputs, std::size_t rows) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::size_t rank = outputs[i].shape.size();
        if (is_named(outputs[i], {"mask"}) && (rank == rows + 1 || rank == rows + 2)) return i;
    }
    return std::nullopt;
}

/// Boxes with four values each, and two outputs with one: scores and classes, told apart by their names (torchvision
/// gives boxes, labels, scores; others boxes, scores, labels).
std::optional<DetectionHead> list_head(std::span<const OutputShape> outputs) {
    std::optional<std::size_t> boxes, scores, classes;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (!boxes && has_rows_of(shape, 4)) {
            boxes = i;
        } else if (shape.size() == 1 || shape.size() == 2) {
            if (!scores && is_named(outputs[i], {"score", "conf", "prob"}))
                scores = i;
            else if (!classes && says_class(outputs[i]))
                classes = i;
        }
    }
    if (!boxes || !scores || !classes) return std::nullopt;
    const std::size_t rank = outputs[*boxes].shape.size();
    if (outputs[*scores].shape.size() + 1 != rank || outputs[*classes].shape.size() + 1 != rank) return std::nullopt;
    DetectionHead head;
    head.outputs = {*boxes, *scores, *classes};
    head.one_sample = rank == 2;
    head.vertical_first = is_named(outputs[*boxes], {"detection_boxes"});
    head.masks = listed_masks(outputs, rank);
    return head;
}

/// Boxes with a score as a fifth value, and their classes.
std::optional<DetectionHead> mmdeploy_head(std::span<const OutputShape> outputs, bool named) {
    for (std::size_t boxes = 0; boxes < outputs.size(); ++boxes) {
        const Shape& shape = outputs[boxes].shape;
        if (!has_rows_of(shape, 5)) continue;
        const std::size_t rank = shape.size();
        for (std::size_t labels = 0; labels < outputs.size(); ++labels) {
            const Shape& own = outputs[labels].shape;
            const bool fits = labels != boxes && own.size() + 1 == rank &&
                              known_size(own, rank - 2) == known_size(shape, rank - 2) &&
                              (named || says_class(outputs[labels]));
            if (!fits) continue;
            DetectionHead head;
            head.outputs = {boxes, labels};
            head.one_sample = rank == 2;
            head.masks = listed_masks(outputs, rank);
            return head;
        }
    }
    return std::nullopt;
}

/// Rows of `values` without an axis for the sample. Where nobody says so it must be known that their axis is none, and
/// beside them there must be `others` lists, of how many detections a picture has.
std::optional<DetectionHead> rows_head(std::span<const OutputShape> outputs, std::size_t values, std::size_t others,
                                       bool named) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const OutputShape& rows = outputs[i];
        if (rows.shape.size() != 2 || known_size(rows.shape, 1) != values) continue;
        const auto lists = static_cast<std::size_t>(
            std::ranges::count_if(outputs, [](const OutputShape& output) { return output.shape.size() == 1; }));
        if (!named && (rows.sampled || lists != others || outputs.size() != others + 1)) continue;
        DetectionHead head;
        head.outputs = {i};
        head.one_sample = true;
        return head;
    }
    return std::nullopt;
}

/// NonMaxSuppression's boxes, scores and indices.
std::optional<DetectionHead> indices_head(std::span<const OutputShape> outputs) {
    if (outputs.size() != 3) return std::nullopt;
    std::optional<std::size_t> boxes, scores, indices;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        const std::size_t last = shape.empty() ? 0 : known_size(shape, shape.size() - 1);
        if (shape.size() == 2 || shape.size() == 3) {
            if (last == 3)
                indices = i;
            else if (shape.size() == 3)
                (last == 4 ? boxes : scores) = i;
        }
    }
    if (!boxes || !scores || !indices) return std::nullopt;
    const std::size_t anchors = known_size(outputs[*boxes].shape, 1);
    if (known_size(outputs[*scores].shape, 2) != anchors) return std::nullopt;
    DetectionHead head;
    head.outputs = {*boxes, *scores, *indices};
    head.classes = known_size(outputs[*scores].shape, 1);
    head.vertical_first = true;
    head.one_sample = true; // the indices of all samples are one list
    return head;
}

/// One sample of rows of so many values.
Result<std::span<const float>> rows_of_sample(const DetectionHead& head, const HostTensor& output, std::size_t sample,
                                              std::size_t values) {
    if (output.type != DataType::float32) return unlike_head(output, "float32");
    const std::size_t rank = output.shape.size();
    const std::size_t plain = values == 1 ? 1 : 2; // axes without that of the sample
    if ((rank != plain || !head.one_sample) && rank != plain + 1)
        return unlike_head(output, std::string("a list of detections") + (head.one_sample ? "" : " for each sample"));
    if (values > 1 && output.shape.back() != static_cast<std::int64_t>(values))
        return unlike_head(output, std::to_string(values) + " values a detection");
    const auto all = output.as<float>();
    const std::size_t samples = rank == plain ? 1 : static_cast<std::size_t>(output.shape[0]);
    if (sample >= samples) return unlike_head(output, "with a sample " + std::to_string(sample));
    const std::size_t size = all.size() / samples;
    return all.subspan(sample * size, size);
}

} // namespace

std::optional<ReadyRows> ready_rows(const DetectionHead& head) {
    switch (head.form) {
        case HeadForm::end_to_end: return ReadyRows{{0, 0}, {0, 4}, {0, 5}, std::nullopt, {6 + head.coefficients}};
        case HeadForm::lists: return ReadyRows{{0, 0}, {1, 0}, {2, 0}, std::nullopt, {4, 1, 1}};
        case HeadForm::mmdeploy: return ReadyRows{{0, 0}, {0, 4}, {1, 0}, std::nullopt, {5, 1}};
        case HeadForm::paddle: return ReadyRows{{0, 2}, {0, 1}, {0, 0}, std::nullopt, {6}};
        case HeadForm::yolov7_nms: return ReadyRows{{0, 1}, {0, 6}, {0, 5}, 0, {7}};
        default: return std::nullopt;
    }
}

std::optional<DetectionHead> ready_head(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                        std::size_t width, bool named) {
    std::optional<DetectionHead> head;
    if (form == HeadForm::lists) head = list_head(outputs);
    if (form == HeadForm::mmdeploy) head = mmdeploy_head(outputs, named);
    if (form == HeadForm::paddle) head = rows_head(outputs, 6, 1, named);
    if (form == HeadForm::yolov7_nms) head = rows_head(outputs, 7, 0, named);
    if (form == HeadForm::nms_indices) head = indices_head(outputs);
    if (!head) return std::nullopt;
    head->form = form;
    head->height = height;
    head->width = width;
    return head;
}

Result<Candidates> decode_ready(const DetectionHead& head, const ReadyRows& layout, std::span<const HostTensor> outputs,
                                std::size_t sample, float threshold) {
    std::vector<std::span<const float>> values;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < layout.widths.size(); ++i) {
        if (i >= head.outputs.size() || head.outputs[i] >= outputs.size())
            return Error{ErrorCode::mismatch, "the head reads more outputs than there are", "decode", ""};
        const HostTensor& output = outputs[head.outputs[i]];
        LATHE_TRY(const auto own, rows_of_sample(head, output, sample, layout.widths[i]));
        const std::size_t count = own.size() / layout.widths[i];
        if (i > 0 && count != rows)
            return unlike_head(output, "of " + std::to_string(rows) + " detections, as the one before");
        rows = count;
        values.push_back(own);
    }
    const auto at = [&](const ReadyRows::Place& place, std::size_t row, std::size_t offset = 0) {
        return values[place.output][row * layout.widths[place.output] + place.value + offset];
    };
    // Only lists are known in both units: TensorFlow's are shares.
    bool shares = head.form == HeadForm::lists;
    for (std::size_t i = 0; i < rows && shares; ++i)
        for (std::size_t side = 0; side < 4; ++side)
            shares = shares && !(at(layout.box, i, side) > 2);
    const double width = shares ? static_cast<double>(head.width) : 1;
    const double height = shares ? static_cast<double>(head.height) : 1;
    const std::size_t x = head.vertical_first ? 1 : 0;
    const std::size_t y = 1 - x;
    Candidates found;
    for (std::size_t i = 0; i < rows; ++i) {
        const float index = at(layout.label, i);
        if (!(index >= 0 && index < named_classes)) continue;
        if (layout.sample && at({0, *layout.sample}, i) != static_cast<float>(sample)) continue;
        const auto side = [&](std::size_t which) { return static_cast<double>(at(layout.box, i, which)); };
        add_candidate(
            found, i,
            {side(x) * width, side(y) * height, (side(x + 2) - side(x)) * width, (side(y + 2) - side(y)) * height},
            at(layout.score, i), static_cast<std::size_t>(index), threshold);
    }
    return found;
}

Result<Candidates> decode_nms_indices(const DetectionHead& head, std::span<const HostTensor> outputs,
                                      std::size_t sample, float threshold) {
    if (head.outputs.size() != 3 ||
        std::ranges::any_of(head.outputs, [&](std::size_t index) { return index >= outputs.size(); }))
        return Error{ErrorCode::mismatch, "the head reads more outputs than there are", "decode", ""};
    const HostTensor& boxes = outputs[head.outputs[0]];
    const HostTensor& scores = outputs[head.outputs[1]];
    const HostTensor& indices = outputs[head.outputs[2]];
    for (const HostTensor* output : {&boxes, &scores, &indices})
        if (output->type != DataType::float32) return unlike_head(*output, "float32");
    if (boxes.shape.size() != 3 || boxes.shape[2] != 4) return unlike_head(boxes, "boxes of 4 values for each sample");
    if (scores.shape.size() != 3 || scores.shape[0] != boxes.shape[0] || scores.shape[2] != boxes.shape[1])
        return unlike_head(scores, "classes x " + std::to_string(boxes.shape[1]) + " scores for each sample");
    const std::size_t rank = indices.shape.size();
    if ((rank != 2 && !(rank == 3 && indices.shape[0] == 1)) || indices.shape.back() != 3)
        return unlike_head(indices, "rows of sample, class and anchor");
    if (sample >= static_cast<std::size_t>(boxes.shape[0]))
        return unlike_head(boxes, "with a sample " + std::to_string(sample));

    const auto classes = static_cast<std::size_t>(scores.shape[1]);
    const auto anchors = static_cast<std::size_t>(scores.shape[2]);
    const auto own_boxes = boxes.as<float>().subspan(sample * anchors * 4, anchors * 4);
    const auto own_scores = scores.as<float>().subspan(sample * classes * anchors, classes * anchors);
    const auto rows = indices.as<float>();
    const auto is_below = [](float value, std::size_t end) { return value >= 0 && value < static_cast<float>(end); };
    Candidates found;
    for (std::size_t row = 0; row * 3 < rows.size(); ++row) {
        const auto index = rows.subspan(row * 3, 3);
        if (index[0] != static_cast<float>(sample) || !is_below(index[1], classes) || !is_below(index[2], anchors))
            continue;
        const auto label = static_cast<std::size_t>(index[1]);
        const auto anchor = static_cast<std::size_t>(index[2]);
        const auto side = [&](std::size_t which) { return static_cast<double>(own_boxes[anchor * 4 + which]); };
        add_candidate(found, row, {side(1), side(0), side(3) - side(1), side(2) - side(0)},
                      own_scores[label * anchors + anchor], label, threshold);
    }
    return found;
}

} // namespace lathe
