#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "tasks/detection/candidates.hpp"
#include "tasks/detection/distances.hpp"
#include "tasks/detection/ready.hpp"

namespace lathe {

namespace {

/// Candidates that enter NMS, at most: as Ultralytics' max_nms.
constexpr std::size_t most_candidates = 30'000;

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

Box from_centre(double x, double y, double width, double height) {
    return {x - width / 2, y - height / 2, width, height};
}

/// Index of the greatest finite value.
std::size_t greatest(std::span<const float> values) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i)
        if (values[i] > values[best] || std::isnan(values[best])) best = i;
    return best;
}

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
Result<Candidates> decode_yolox(const DetectionHead& head, const Rows& rows, float threshold) {
    Candidates found;
    const bool decoded = is_decoded(rows, head.width);
    std::size_t anchor = 0;
    for (const std::size_t stride : head.strides) {
        const double step = static_cast<double>(stride);
        for (std::size_t y = 0; y < cells_along(head.height, stride); ++y) {
            for (std::size_t x = 0; x < cells_along(head.width, stride); ++x, ++anchor) {
                const auto row = rows.row(anchor);
                if (!(row[4] >= threshold)) continue;
                const Box box = decoded ? from_centre(row[0], row[1], row[2], row[3])
                                        : from_centre((row[0] + static_cast<double>(x)) * step,
                                                      (row[1] + static_cast<double>(y)) * step,
                                                      std::exp(static_cast<double>(row[2])) * step,
                                                      std::exp(static_cast<double>(row[3])) * step);
                for (std::size_t c = 0; c < head.classes; ++c)
                    add_candidate(found, anchor, box, row[4] * row[5 + c], c, threshold);
            }
        }
    }
    return found;
}

Candidates decode_yolo(const DetectionHead& head, const Rows& rows, float threshold) {
    Candidates found;
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
            add_candidate(found, anchor, box, object * value(anchor, (objectness ? 5 : 4) + c), c, threshold);
    }
    return found;
}

Candidates decode_queries(const DetectionHead& head, const Rows& logits, const Rows& boxes, float threshold) {
    Candidates found;
    const auto width = static_cast<double>(head.width);
    const auto height = static_cast<double>(head.height);
    for (std::size_t i = 0; i < logits.rows; ++i) {
        const auto row = logits.row(i);
        const auto place = boxes.row(i);
        const Box box = from_centre(place[0] * width, place[1] * height, place[2] * width, place[3] * height);
        if (head.form == HeadForm::rt_detr) {
            for (std::size_t c = 0; c < row.size(); ++c)
                add_candidate(found, i, box, logistic(row[c]), c, threshold);
            continue;
        }
        // Softmax with "no object" among the classes, last.
        const float most = row[greatest(row)];
        float sum = 0;
        for (const float value : row)
            sum += std::exp(value - most);
        const std::size_t best = greatest(row.first(head.classes));
        add_candidate(found, i, box, std::exp(row[best] - most) / sum, best, threshold);
    }
    return found;
}

/// Scores and edges: an SSD's, in shares and with a background, or YOLO-NAS's.
Candidates decode_edges(const DetectionHead& head, const Rows& scores, const Rows& boxes, float threshold) {
    Candidates found;
    const bool ssd = head.form == HeadForm::ssd;
    const auto width = ssd ? static_cast<double>(head.width) : 1;
    const auto height = ssd ? static_cast<double>(head.height) : 1;
    const std::size_t first = ssd ? 1 : 0; // class 0 is the background
    for (std::size_t i = 0; i < scores.rows; ++i) {
        const auto place = boxes.row(i);
        const Box box{place[0] * width, place[1] * height, (static_cast<double>(place[2]) - place[0]) * width,
                      (static_cast<double>(place[3]) - place[1]) * height};
        for (std::size_t c = first; c < scores.columns; ++c)
            add_candidate(found, i, box, scores.at(i, c), c - first, threshold);
    }
    return found;
}

std::vector<Detection> plain(const Candidates& found) {
    std::vector<Detection> detections;
    for (const DecodedRow& each : found)
        detections.push_back(each.detection);
    return detections;
}

/// Best score first, at most `most`.
void keep_best(Candidates& found, std::size_t most) {
    std::ranges::stable_sort(found, std::greater<>(), [](const DecodedRow& each) { return each.detection.score; });
    if (found.size() > most) found.resize(most);
}

Result<Candidates> candidates_in(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                 float threshold) {
    if (const auto layout = ready_rows(head)) return decode_ready(head, *layout, outputs, sample, threshold);
    if (head.form == HeadForm::nms_indices) return decode_nms_indices(head, outputs, sample, threshold);
    if (head.form == HeadForm::distances) return decode_distances(head, outputs, sample, threshold);
    LATHE_TRY(const Rows rows, rows_of(outputs, head.outputs.front(), sample));
    const HostTensor& output = outputs[head.outputs.front()];
    switch (head.form) {
        case HeadForm::yolox: {
            std::size_t cells = 0;
            for (const std::size_t stride : head.strides)
                cells += cells_along(head.height, stride) * cells_along(head.width, stride);
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
        default: break;
    }
    LATHE_TRY(const Rows boxes, rows_of(outputs, head.outputs.at(1), sample));
    const bool other = head.form == HeadForm::detr || head.form == HeadForm::ssd; // no object, background
    const std::size_t extra = other ? 1 : 0;
    if (boxes.rows != rows.rows || boxes.columns != 4 || rows.columns != head.classes + extra) {
        return unlike_head(output, std::to_string(head.classes + extra) + " scores for each of " +
                                       std::to_string(boxes.rows) + " boxes");
    }
    const bool edges = head.form == HeadForm::ssd || head.form == HeadForm::yolo_nas;
    return edges ? decode_edges(head, rows, boxes, threshold) : decode_queries(head, rows, boxes, threshold);
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
    LATHE_TRY(Candidates found, candidates_in(head, outputs, sample, options.score_threshold));
    const bool queries = head.form == HeadForm::detr || head.form == HeadForm::rt_detr;
    const bool ready = ready_rows(head) || head.form == HeadForm::nms_indices;
    if (!queries && !ready) {
        keep_best(found, most_candidates);
        Candidates kept;
        for (const std::size_t i : suppress(plain(found), options.overlap_threshold))
            kept.push_back(found[i]);
        found = std::move(kept);
    }
    keep_best(found, options.most);
    return found;
}

Result<std::vector<Detection>> decode(const DetectionHead& head, std::span<const HostTensor> outputs,
                                      std::size_t sample, const DecodeOptions& options) {
    LATHE_TRY(const Candidates found, decode_rows(head, outputs, sample, options));
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
