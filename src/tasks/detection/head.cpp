#include "tasks/detection/head.hpp"

#include <algorithm>
#include <array>

#include "tasks/detection/distances.hpp"
#include "tasks/detection/ready.hpp"
#include "tasks/detection/shapes.hpp"

namespace lathe {

namespace {

struct FormName {
    HeadForm form;
    const char* name;
    const char* outputs; ///< what its outputs look like, for errors
};

constexpr std::array<FormName, 14> form_names{{
    {HeadForm::yolox, "yolox", "one output NxAx(5+classes), A the cells of the grids"},
    {HeadForm::yolov5, "yolov5", "one output NxAx(5+classes)"},
    {HeadForm::yolov8, "yolov8", "one output Nx(4+classes)xA or NxAx(4+classes)"},
    {HeadForm::distances, "distances",
     "for each of several grids two outputs, NxAxclasses and NxAx4, 32, 64 or 68 (or Nxclassesxhxw and so on), with "
     "'cls' and 'box' in their names where the sizes do not tell; or one output NxAx(classes+32), A the cells of the "
     "grids; beside plain distances a third output of one value a cell, with 'center' in its name"},
    {HeadForm::yolo_nas, "yolo-nas", "two outputs, NxAxclasses and NxAx4"},
    {HeadForm::end_to_end, "end-to-end", "one output NxKx6"},
    {HeadForm::detr, "detr", "two outputs, NxQx(classes+1) and NxQx4"},
    {HeadForm::rt_detr, "rt-detr", "two outputs, NxQxclasses and NxQx4"},
    {HeadForm::ssd, "ssd", "two outputs, NxAxclasses and NxAx4"},
    {HeadForm::lists, "lists", "three outputs: K x 4 boxes, K scores, K classes"},
    {HeadForm::mmdeploy, "mmdeploy", "two outputs: K x 5 boxes with scores, K classes"},
    {HeadForm::paddle, "paddle", "an output Kx6"},
    {HeadForm::yolov7_nms, "yolov7-nms", "an output Kx7"},
    {HeadForm::nms_indices, "nms-indices", "three outputs: NxAx4 boxes, NxclassesxA scores, Kx3 indices"},
}};

const FormName& entry(HeadForm form) { return *std::ranges::find(form_names, form, &FormName::form); }

/// The output with the prototypes of masks.
std::optional<std::size_t> prototypes(std::span<const OutputShape> outputs, std::size_t height, std::size_t width) {
    const auto quarter = [](std::size_t size, std::size_t whole) { return size == 0 || size * 4 == whole; };
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (shape.size() == 4 && known_size(shape, 1) >= 8 && quarter(known_size(shape, 2), height) &&
            quarter(known_size(shape, 3), width))
            return i;
    }
    return std::nullopt;
}

/// Output number `index` as that of a YOLO, if it fits `form` and has so many values of masks.
std::optional<DetectionHead> one_output(HeadForm form, const Shape& shape, std::size_t index, std::size_t height,
                                        std::size_t width, std::size_t coefficients) {
    if (shape.size() != 3) return std::nullopt;
    const std::size_t rows = known_size(shape, 1);
    const std::size_t columns = known_size(shape, 2);
    DetectionHead head{form, {index}, 0, height, width, {}};
    head.coefficients = coefficients;
    switch (form) {
        case HeadForm::yolox:
            head.strides = strides_for(rows, height, width);
            if (head.strides.empty() || columns < 6 || coefficients > 0) return std::nullopt;
            head.classes = columns - 5;
            return head;
        case HeadForm::yolov5:
            if (rows == 0 || columns < 6 + coefficients) return std::nullopt;
            head.classes = columns - 5 - coefficients;
            return head;
        case HeadForm::yolov8: {
            head.anchors_last = columns == 0 || rows < columns || !strides_for(columns, height, width).empty();
            const std::size_t values = head.anchors_last ? rows : columns;
            if (values < 5 + coefficients) return std::nullopt;
            head.classes = values - 4 - coefficients;
            return head;
        }
        case HeadForm::end_to_end:
            if (columns != 6 + coefficients) return std::nullopt;
            return head;
        default: return std::nullopt;
    }
}

/// The same with the values of masks where there are prototypes, if they fit so.
std::optional<DetectionHead> one_output(HeadForm form, std::span<const OutputShape> outputs, std::size_t index,
                                        std::size_t height, std::size_t width) {
    if (const auto masks = prototypes(outputs, height, width)) {
        auto head = one_output(form, outputs[index].shape, index, height, width, known_size(outputs[*masks].shape, 1));
        if (head) {
            head->masks = masks;
            return head;
        }
    }
    return one_output(form, outputs[index].shape, index, height, width, 0);
}

/// Two outputs with as many boxes: scores first. Where both have four values a name must tell which are the boxes.
std::optional<DetectionHead> two_outputs(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                         std::size_t width) {
    const auto says_boxes = [&](std::size_t index) { return is_named(outputs[index], {"box", "dets"}); };
    for (std::size_t boxes = 0; boxes < outputs.size(); ++boxes) {
        const Shape& box_shape = outputs[boxes].shape;
        if (box_shape.size() != 3 || known_size(box_shape, 2) != 4) continue;
        for (std::size_t scores = 0; scores < outputs.size(); ++scores) {
            const Shape& score_shape = outputs[scores].shape;
            const bool fits = scores != boxes && score_shape.size() == 3 && known_size(score_shape, 2) > 0 &&
                              known_size(score_shape, 1) == known_size(box_shape, 1);
            if (!fits) continue;
            if (known_size(score_shape, 2) == 4 && (!says_boxes(boxes) || says_boxes(scores))) continue;
            DetectionHead head{form, {scores, boxes}, known_size(score_shape, 2), height, width, {}};
            if (form == HeadForm::detr || form == HeadForm::ssd) --head.classes; // no object, background
            if (head.classes > 0) return head;
        }
    }
    return std::nullopt;
}

/// Which of the forms with two outputs of as many boxes they are.
std::optional<DetectionHead> recognise_two(std::span<const OutputShape> outputs, std::size_t height,
                                           std::size_t width) {
    const auto head = two_outputs(HeadForm::rt_detr, outputs, height, width);
    if (outputs.size() != 2 || !head) return std::nullopt;
    const std::size_t boxes = known_size(outputs[head->outputs[1]].shape, 1);
    HeadForm form = HeadForm::rt_detr;
    if (boxes >= 1000) form = HeadForm::ssd;
    if (!strides_for(boxes, height, width).empty()) form = HeadForm::yolo_nas;
    if (boxes == 100 || head->classes == 92) form = HeadForm::detr;
    return two_outputs(form, outputs, height, width);
}

/// Of four grids YOLOX's anchors (YOLOv6's large networks, for 1280 pixels) and NanoDet-Plus's (for 320 and 416) are as
/// many.
bool is_nanodet(const Shape& shape, std::size_t height, std::size_t width) {
    constexpr std::size_t least_of_yolo = 640;
    const std::vector<std::size_t> strides = strides_for(known_size(shape, 1), height, width);
    return strides.size() == 4 && (std::max(height, width) < least_of_yolo || height % 64 != 0 || width % 64 != 0);
}

} // namespace

const char* to_string(HeadForm form) { return entry(form).name; }

std::optional<HeadForm> head_form_from_name(std::string_view name) {
    const auto found = std::ranges::find_if(form_names, [&](const FormName& each) { return name == each.name; });
    if (found == form_names.end()) return std::nullopt;
    return found->form;
}

std::string head_form_names() {
    std::string names;
    for (const FormName& each : form_names)
        names += (names.empty() ? "" : ", ") + std::string(each.name);
    return names;
}

std::optional<DetectionHead> recognise_head(std::span<const OutputShape> outputs, std::size_t height,
                                            std::size_t width) {
    for (const HeadForm form :
         {HeadForm::lists, HeadForm::mmdeploy, HeadForm::paddle, HeadForm::yolov7_nms, HeadForm::nms_indices})
        if (auto head = ready_head(form, outputs, height, width, false)) return head;
    if (auto head = distances_by_grid(outputs, height, width)) return head;
    if (auto head = recognise_two(outputs, height, width)) return head;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (shape.size() != 3) continue;
        const std::size_t rows = known_size(shape, 1);
        const std::size_t columns = known_size(shape, 2);
        if (outputs.size() == 1 && is_nanodet(shape, height, width))
            if (auto head = distances_in_one(outputs, height, width)) return head;
        std::optional<HeadForm> form;
        if (!strides_for(columns, height, width).empty()) form = HeadForm::yolov8;
        if (!strides_for(rows, height, width, 3).empty()) form = HeadForm::yolov5;
        if (!strides_for(rows, height, width).empty()) form = HeadForm::yolox;
        // Fewer rows than the smallest grids have cells: what is left of them.
        if (!form && rows <= 1000) {
            auto head = one_output(HeadForm::end_to_end, outputs, i, height, width);
            if (head && (outputs.size() == 1 || head->masks)) return head;
        }
        if (!form) continue;
        if (auto head = one_output(*form, outputs, i, height, width)) return head;
    }
    return std::nullopt;
}

Result<DetectionHead> make_head(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                std::size_t width) {
    std::optional<DetectionHead> head;
    switch (form) {
        case HeadForm::lists:
        case HeadForm::mmdeploy:
        case HeadForm::paddle:
        case HeadForm::yolov7_nms:
        case HeadForm::nms_indices: head = ready_head(form, outputs, height, width, true); break;
        case HeadForm::detr:
        case HeadForm::rt_detr:
        case HeadForm::ssd:
        case HeadForm::yolo_nas: head = two_outputs(form, outputs, height, width); break;
        case HeadForm::distances:
            head = distances_by_grid(outputs, height, width);
            if (!head) head = distances_in_one(outputs, height, width);
            break;
        case HeadForm::yolox:
        case HeadForm::yolov5:
        case HeadForm::yolov8:
        case HeadForm::end_to_end:
            for (std::size_t i = 0; i < outputs.size() && !head; ++i)
                head = one_output(form, outputs, i, height, width);
    }
    if (head) return *std::move(head);
    std::string found;
    for (const OutputShape& output : outputs)
        found += (found.empty() ? "" : ", ") + output.name + " " + to_string(output.shape);
    return Error{ErrorCode::mismatch, "the model's outputs are not those of a head " + std::string(to_string(form)),
                 found, "it has " + std::string(entry(form).outputs)};
}

std::vector<OutputPart> parts_of(const DetectionHead& head) {
    const std::size_t first = head.outputs.front();
    std::vector<OutputPart> parts;
    std::size_t axis = 2;
    std::size_t values = 0; // of an anchor, without those of masks
    switch (head.form) {
        case HeadForm::yolox:
        case HeadForm::yolov5:
            values = 5 + head.classes;
            parts = {{first, 2, 0, 2, Meaning::box_centre},
                     {first, 2, 2, 4, Meaning::box_size},
                     {first, 2, 4, 5, Meaning::objectness},
                     {first, 2, 5, values, Meaning::class_score}};
            break;
        case HeadForm::yolov8:
            axis = head.anchors_last ? 1 : 2;
            values = 4 + head.classes;
            parts = {{first, axis, 0, 2, Meaning::box_centre},
                     {first, axis, 2, 4, Meaning::box_size},
                     {first, axis, 4, values, Meaning::class_score}};
            break;
        case HeadForm::end_to_end:
            values = 6;
            parts = {{first, 2, 0, 4, Meaning::box_edges},
                     {first, 2, 4, 5, Meaning::class_score},
                     {first, 2, 5, 6, Meaning::class_index}};
            break;
        case HeadForm::detr:
        case HeadForm::rt_detr:
            parts = {{first, 2, 0, head.classes + (head.form == HeadForm::detr ? 1U : 0U), Meaning::class_score},
                     {head.outputs[1], 2, 0, 2, Meaning::box_centre},
                     {head.outputs[1], 2, 2, 4, Meaning::box_size}};
            break;
        case HeadForm::ssd:
        case HeadForm::yolo_nas:
            parts = {{first, 2, 0, head.classes + (head.form == HeadForm::ssd ? 1U : 0U), Meaning::class_score},
                     {head.outputs[1], 2, 0, 4, Meaning::box_edges}};
            break;
        case HeadForm::distances: return parts_of_distances(head);
        case HeadForm::mmdeploy:
            parts = {{first, 2, 0, 4, Meaning::box_edges}, {first, 2, 4, 5, Meaning::class_score}};
            if (head.one_sample) parts.clear();
            break;
        case HeadForm::lists:
        case HeadForm::paddle:
        case HeadForm::yolov7_nms:
        case HeadForm::nms_indices: break; // their number differs from sample to sample: there is nothing to cut
    }
    if (head.coefficients > 0) {
        parts.push_back({first, axis, values, values + head.coefficients, Meaning::mask_coefficient});
        parts.push_back({*head.masks, 1, 0, head.coefficients, Meaning::mask_prototype});
    }
    return parts;
}

const char* to_string(Meaning meaning) {
    switch (meaning) {
        case Meaning::box_centre: return "box centres";
        case Meaning::box_size: return "box sizes";
        case Meaning::box_edges: return "box edges";
        case Meaning::box_bins: return "box bins";
        case Meaning::objectness: return "objectness";
        case Meaning::class_score: return "class scores";
        case Meaning::class_index: return "classes";
        case Meaning::mask_coefficient: return "mask coefficients";
        case Meaning::mask_prototype: return "mask prototypes";
    }
    return "";
}

} // namespace lathe
