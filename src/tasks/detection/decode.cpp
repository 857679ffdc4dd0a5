#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "tasks/detection/head.hpp"

namespace lathe {

namespace {

/// Candidates that enter NMS, at most: as Ultralytics' max_nms.
constexpr std::size_t most_candidates = 30'000;
/// Class indices that an output may name; more is no class.
constexpr float named_classes = 65'536;

/// One sample of an output.
struct Rows {
    std::span<const float> values;
    std::size_t rows = 0;
    std::size_t columns = 0;

    float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
    std::span<const float> row(std::size_t index) const { return values.subspan(index * columns, columns); }
};

/// Sample `sample` of an output of rank 3, float32.
Result<Rows> rows_of(std::span<const HostTensor> outputs, std::size_t index, std::size_t sample) {
    if (index >= outputs.size()) {
        return Error{ErrorCode::mismatch,
                     "the head reads output " + std::to_string(index) + " of " + std::to_string(outputs.size()),
                     "decode", ""};
    }
    const HostTensor& output = outputs[index];
    if (output.type != DataType::float32 || output.shape.size() != 3)
        return unlike_head(output, "float32 of three axes");
    const auto samples = static_cast<std::size_t>(output.shape[0]);
    Rows rows;
    rows.rows = static_cast<std::size_t>(output.shape[1]);
    rows.columns = static_cast<std::size_t>(output.shape[2]);
    const auto all = output.as<float>();
    if (sample >= samples || all.size() != samples * rows.rows * rows.columns) {
        return unlike_head(output, "with a sample " + std::to_string(sample));
    }
    rows.values = all.subspan(sample * rows.rows * rows.columns, rows.rows * rows.columns);
    return rows;
}

bool finite(const Box& box) {
    return std::isfinite(box.left) && std::isfinite(box.top) && std::isfinite(box.width) && std::isfinite(box.height);
}

Box from_centre(double x, double y, double width, double height) {
    return {x - width / 2, y - height / 2, width, height};
}

using Found = std::vector<DecodedRow>;

void add(Found& found, std::size_t row, const Box& box, float score, std::size_t class_index, float threshold) {
    // Written so that NaN is below any threshold.
    if (!(score >= threshold) || !std::isfinite(score) || !finite(box) || box.width < 0 || box.height < 0) return;
    found.push_back({{box, score, static_cast<std::int32_t>(class_index)}, row});
}

/// Index of the greatest finite value.
std::size_t greatest(std::span<const float> values) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i)
        if (values[i] > values[best] || std::isnan(values[best])) best = i;
    return best;
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

/// Whether a YOLOX output holds pixels already: centres are then spread over the input, W / 2 on average, where
/// offsets in a cell are near 0 or 1.
bool is_decoded(const Rows& rows, std::size_t width) {
    double sum = 0;
    for (std::size_t i = 0; i < rows.rows; ++i) {
        const float x = rows.at(i, 0);
        if (std::isfinite(x)) sum += std::fabs(x);
    }
    return sum > static_cast<double>(rows.rows * width) / 8;
}

/// Every class of an anchor for itself, as here and below: as detectors are evaluated with a low threshold.
Result<Found> decode_yolox(const DetectionHead& head, const Rows& rows, float threshold) {
    Found found;
    const bool decoded = is_decoded(rows, head.width);
    std::size_t anchor = 0;
    for (const std::size_t stride : head.strides) {
        const double step = static_cast<double>(stride);
        for (std::size_t y = 0; y < head.height / stride; ++y) {
            for (std::size_t x = 0; x < head.width / stride; ++x, ++anchor) {
                const auto row = rows.row(anchor);
                if (!(row[4] >= threshold)) continue;
                const Box box = decoded ? from_centre(row[0], row[1], row[2], row[3])
                                        : from_centre((row[0] + static_cast<double>(x)) * step,
                                                      (row[1] + static_cast<double>(y)) * step,
                                                      std::exp(static_cast<double>(row[2])) * step,
                                                      std::exp(static_cast<double>(row[3])) * step);
                for (std::size_t c = 0; c < head.classes; ++c)
                    add(found, anchor, box, row[4] * row[5 + c], c, threshold);
            }
        }
    }
    return found;
}

Found decode_yolo(const DetectionHead& head, const Rows& rows, float threshold) {
    Found found;
    const bool objectness = head.form == HeadForm::yolov5;
    const std::size_t anchors = head.anchors_last ? rows.columns : rows.rows;
    const auto value = [&](std::size_t anchor, std::size_t item) {
        return head.anchors_last ? rows.at(item, anchor) : rows.at(anchor, item);
    };
    for (std::size_t anchor = 0; anchor < anchors; ++anchor) {
        const float object = objectness ? value(anchor, 4) : 1.0F;
        if (!(object >= threshold)) continue;
        const Box box = from_centre(value(anchor, 0), value(anchor, 1), value(anchor, 2), value(anchor, 3));
        for (std::size_t c = 0; c < head.classes; ++c)
            add(found, anchor, box, object * value(anchor, (objectness ? 5 : 4) + c), c, threshold);
    }
    return found;
}

Found decode_end_to_end(const Rows& rows, float threshold) {
    Found found;
    for (std::size_t i = 0; i < rows.rows; ++i) {
        const auto row = rows.row(i);
        const float index = row[5];
        if (!(index >= 0 && index < named_classes)) continue;
        add(found, i, {row[0], row[1], static_cast<double>(row[2]) - row[0], static_cast<double>(row[3]) - row[1]},
            row[4], static_cast<std::size_t>(index), threshold);
    }
    return found;
}

Found decode_queries(const DetectionHead& head, const Rows& logits, const Rows& boxes, float threshold) {
    Found found;
    const auto width = static_cast<double>(head.width);
    const auto height = static_cast<double>(head.height);
    for (std::size_t i = 0; i < logits.rows; ++i) {
        const auto row = logits.row(i);
        const auto place = boxes.row(i);
        const Box box = from_centre(place[0] * width, place[1] * height, place[2] * width, place[3] * height);
        if (head.form == HeadForm::rt_detr) {
            for (std::size_t c = 0; c < row.size(); ++c)
                add(found, i, box, sigmoid(row[c]), c, threshold);
            continue;
        }
        // Softmax with "no object" among the classes, last.
        const float most = row[greatest(row)];
        float sum = 0;
        for (const float value : row)
            sum += std::exp(value - most);
        const std::size_t best = greatest(row.first(head.classes));
        add(found, i, box, std::exp(row[best] - most) / sum, best, threshold);
    }
    return found;
}

Found decode_ssd(const DetectionHead& head, const Rows& scores, const Rows& boxes, float threshold) {
    Found found;
    const auto width = static_cast<double>(head.width);
    const auto height = static_cast<double>(head.height);
    for (std::size_t i = 0; i < scores.rows; ++i) {
        const auto place = boxes.row(i);
        const Box box{place[0] * width, place[1] * height, (static_cast<double>(place[2]) - place[0]) * width,
                      (static_cast<double>(place[3]) - place[1]) * height};
        for (std::size_t c = 1; c < scores.columns; ++c) // class 0 is the background
            add(found, i, box, scores.at(i, c), c - 1, threshold);
    }
    return found;
}

/// One sample of an output whose values are one, or four, a detection.
Result<std::span<const float>> list_of(const HostTensor& output, std::size_t sample, std::size_t values) {
    if (output.type != DataType::float32) return unlike_head(output, "float32");
    const std::size_t rank = output.shape.size();
    const std::size_t plain = values == 1 ? 1 : 2; // axes without that of the sample
    if (rank != plain && rank != plain + 1) return unlike_head(output, "a list of detections");
    const auto all = output.as<float>();
    const std::size_t samples = rank == plain ? 1 : static_cast<std::size_t>(output.shape[0]);
    if (sample >= samples || all.size() % (samples * values) != 0) {
        return unlike_head(output, "with a sample " + std::to_string(sample));
    }
    const std::size_t size = all.size() / samples;
    return all.subspan(sample * size, size);
}

Result<Found> decode_lists(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                           float threshold) {
    if (std::ranges::any_of(head.outputs, [&](std::size_t index) { return index >= outputs.size(); })) {
        return Error{ErrorCode::mismatch, "the head reads more outputs than there are", "decode", ""};
    }
    LATHE_TRY(const auto boxes, list_of(outputs[head.outputs[0]], sample, 4));
    LATHE_TRY(const auto scores, list_of(outputs[head.outputs[1]], sample, 1));
    LATHE_TRY(const auto classes, list_of(outputs[head.outputs[2]], sample, 1));
    if (boxes.size() != 4 * scores.size() || scores.size() != classes.size()) {
        return unlike_head(outputs[head.outputs[0]], std::to_string(scores.size()) + " boxes, one a score");
    }
    const bool shares = std::ranges::none_of(boxes, [](float value) { return value > 2; });
    const double width = shares ? static_cast<double>(head.width) : 1;
    const double height = shares ? static_cast<double>(head.height) : 1;
    Found found;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (!(classes[i] >= 0 && classes[i] < named_classes)) continue;
        const auto edges = boxes.subspan(4 * i, 4);
        const std::size_t x = head.vertical_first ? 1 : 0;
        const std::size_t y = 1 - x;
        add(found, i,
            {edges[x] * width, edges[y] * height, (static_cast<double>(edges[x + 2]) - edges[x]) * width,
             (static_cast<double>(edges[y + 2]) - edges[y]) * height},
            scores[i], static_cast<std::size_t>(classes[i]), threshold);
    }
    return found;
}

std::vector<Detection> plain(const Found& found) {
    std::vector<Detection> detections;
    for (const DecodedRow& each : found)
        detections.push_back(each.detection);
    return detections;
}

/// Best score first, at most `most`.
void keep_best(Found& found, std::size_t most) {
    std::ranges::stable_sort(found, std::greater<>(), [](const DecodedRow& each) { return each.detection.score; });
    if (found.size() > most) found.resize(most);
}

Result<Found> candidates(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                         float threshold) {
    if (head.form == HeadForm::lists) return decode_lists(head, outputs, sample, threshold);
    LATHE_TRY(const Rows rows, rows_of(outputs, head.outputs.front(), sample));
    const HostTensor& output = outputs[head.outputs.front()];
    switch (head.form) {
        case HeadForm::yolox: {
            std::size_t cells = 0;
            for (const std::size_t stride : head.strides)
                cells += (head.height / stride) * (head.width / stride);
            if (rows.rows != cells || rows.columns != 5 + head.classes) {
                return unlike_head(output,
                                   std::to_string(cells) + " cells of " + std::to_string(5 + head.classes) + " values");
            }
            return decode_yolox(head, rows, threshold);
        }
        case HeadForm::yolov5:
        case HeadForm::yolov8: {
            const std::size_t values = head.classes + (head.form == HeadForm::yolov5 ? 5 : 4) + head.coefficients;
            if ((head.anchors_last ? rows.rows : rows.columns) != values) {
                return unlike_head(output, std::to_string(values) + " values an anchor");
            }
            return decode_yolo(head, rows, threshold);
        }
        case HeadForm::end_to_end:
            if (rows.columns != 6 + head.coefficients)
                return unlike_head(output, std::to_string(6 + head.coefficients) + " values a detection");
            return decode_end_to_end(rows, threshold);
        default: break;
    }
    LATHE_TRY(const Rows boxes, rows_of(outputs, head.outputs.at(1), sample));
    const std::size_t extra = head.form == HeadForm::rt_detr ? 0 : 1;
    if (boxes.rows != rows.rows || boxes.columns != 4 || rows.columns != head.classes + extra) {
        return unlike_head(output, std::to_string(head.classes + extra) + " scores for each of " +
                                       std::to_string(boxes.rows) + " boxes");
    }
    return head.form == HeadForm::ssd ? decode_ssd(head, rows, boxes, threshold)
                                      : decode_queries(head, rows, boxes, threshold);
}

} // namespace

Error unlike_head(const HostTensor& output, const std::string& wanted) {
    return {ErrorCode::mismatch,
            "the output is " + to_string(output.type) + " " + to_string(output.shape) + ", not " + wanted, output.name,
            "decode what the head was recognised from"};
}

std::vector<std::size_t> suppress(std::span<const Detection> detections, float overlap_threshold) {
    std::vector<std::size_t> order(detections.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return detections[i].score; });
    std::map<std::int32_t, std::vector<std::size_t>> kept_of_class;
    std::vector<std::size_t> kept;
    for (const std::size_t i : order) {
        auto& better = kept_of_class[detections[i].class_index];
        const bool hidden = std::ranges::any_of(better, [&](std::size_t other) {
            return overlap(detections[i].box, detections[other].box) > static_cast<double>(overlap_threshold);
        });
        if (hidden) continue;
        better.push_back(i);
        kept.push_back(i);
    }
    return kept;
}

Result<std::vector<DecodedRow>> decode_rows(const DetectionHead& head, std::span<const HostTensor> outputs,
                                            std::size_t sample, const DecodeOptions& options) {
    if (head.outputs.empty()) return Error{ErrorCode::invalid_argument, "the head names no output", "decode", ""};
    LATHE_TRY(Found found, candidates(head, outputs, sample, options.score_threshold));
    const bool suppresses = head.form == HeadForm::yolox || head.form == HeadForm::yolov5 ||
                            head.form == HeadForm::yolov8 || head.form == HeadForm::ssd;
    if (suppresses) {
        keep_best(found, most_candidates);
        Found kept;
        for (const std::size_t i : suppress(plain(found), options.overlap_threshold))
            kept.push_back(found[i]);
        found = std::move(kept);
    }
    keep_best(found, options.most);
    return found;
}

Result<std::vector<Detection>> decode(const DetectionHead& head, std::span<const HostTensor> outputs,
                                      std::size_t sample, const DecodeOptions& options) {
    LATHE_TRY(const Found found, decode_rows(head, outputs, sample, options));
    return plain(found);
}

void map_back(std::vector<Detection>& detections, const Preprocess::Mapping& mapping) {
    for (Detection& detection : detections) {
        Box& box = detection.box;
        box = {(box.left - mapping.left) / mapping.scale_x, (box.top - mapping.top) / mapping.scale_y,
               box.width / mapping.scale_x, box.height / mapping.scale_y};
    }
}

} // namespace lathe
