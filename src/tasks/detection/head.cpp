#include "tasks/detection/head.hpp"

#include <algorithm>
#include <array>

namespace lathe {

namespace {

struct FormName {
    HeadForm form;
    const char* name;
    const char* outputs; ///< what its outputs look like, for errors
};

constexpr std::array<FormName, 8> form_names{{
    {HeadForm::yolox, "yolox", "one output NxAx(5+classes), A the cells of the grids"},
    {HeadForm::yolov5, "yolov5", "one output NxAx(5+classes)"},
    {HeadForm::yolov8, "yolov8", "one output Nx(4+classes)xA or NxAx(4+classes)"},
    {HeadForm::end_to_end, "end-to-end", "one output NxKx6"},
    {HeadForm::detr, "detr", "two outputs, NxQx(classes+1) and NxQx4"},
    {HeadForm::rt_detr, "rt-detr", "two outputs, NxQxclasses and NxQx4"},
    {HeadForm::ssd, "ssd", "two outputs, NxAxclasses and NxAx4"},
    {HeadForm::lists, "lists", "three outputs: K x 4 boxes, K scores, K classes"},
}};

const FormName& entry(HeadForm form) { return *std::ranges::find(form_names, form, &FormName::form); }

/// Cells of the grids with these strides.
std::size_t cells(std::size_t height, std::size_t width, std::span<const std::size_t> strides) {
    std::size_t sum = 0;
    for (const std::size_t stride : strides)
        sum += (height / stride) * (width / stride);
    return sum;
}

/// The usual strides whose grids have `anchors` cells, each with `per_cell` anchors; empty for none.
std::vector<std::size_t> strides_for(std::size_t anchors, std::size_t height, std::size_t width,
                                     std::size_t per_cell = 1) {
    static constexpr std::array<std::size_t, 5> usual{8, 16, 32, 64, 128};
    for (const std::size_t count : {std::size_t{3}, std::size_t{4}, std::size_t{5}}) {
        const std::span<const std::size_t> strides(usual.data(), count);
        if (anchors > 0 && cells(height, width, strides) * per_cell == anchors) return {strides.begin(), strides.end()};
    }
    return {};
}

/// A size of a shape; 0 where it is free or there is no such axis.
std::size_t size_of(const Shape& shape, std::size_t axis) {
    return axis < shape.size() && shape[axis] > 0 ? static_cast<std::size_t>(shape[axis]) : 0;
}

/// The output with the prototypes of masks.
std::optional<std::size_t> prototypes(std::span<const OutputShape> outputs, std::size_t height, std::size_t width) {
    const auto quarter = [](std::size_t size, std::size_t whole) { return size == 0 || size * 4 == whole; };
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (shape.size() == 4 && size_of(shape, 1) >= 8 && quarter(size_of(shape, 2), height) &&
            quarter(size_of(shape, 3), width))
            return i;
    }
    return std::nullopt;
}

/// Output number `index` as that of a YOLO, if it fits `form` and has so many values of masks.
std::optional<DetectionHead> one_output(HeadForm form, const Shape& shape, std::size_t index, std::size_t height,
                                        std::size_t width, std::size_t coefficients) {
    if (shape.size() != 3) return std::nullopt;
    const std::size_t rows = size_of(shape, 1);
    const std::size_t columns = size_of(shape, 2);
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
        auto head = one_output(form, outputs[index].shape, index, height, width, size_of(outputs[*masks].shape, 1));
        if (head) {
            head->masks = masks;
            return head;
        }
    }
    return one_output(form, outputs[index].shape, index, height, width, 0);
}

/// Two outputs with as many boxes: scores first.
std::optional<DetectionHead> two_outputs(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                         std::size_t width) {
    for (std::size_t boxes = 0; boxes < outputs.size(); ++boxes) {
        const Shape& box_shape = outputs[boxes].shape;
        if (box_shape.size() != 3 || size_of(box_shape, 2) != 4) continue;
        for (std::size_t scores = 0; scores < outputs.size(); ++scores) {
            const Shape& score_shape = outputs[scores].shape;
            const bool fits = scores != boxes && score_shape.size() == 3 && size_of(score_shape, 2) > 0 &&
                              size_of(score_shape, 1) == size_of(box_shape, 1);
            if (!fits) continue;
            DetectionHead head{form, {scores, boxes}, size_of(score_shape, 2), height, width, {}};
            if (form == HeadForm::detr || form == HeadForm::ssd) --head.classes; // no object, background
            if (head.classes > 0) return head;
        }
    }
    return std::nullopt;
}

/// Boxes with four values each, and two outputs with one: scores and classes, told apart by their names (torchvision
/// gives boxes, labels, scores; others boxes, scores, labels).
std::optional<DetectionHead> three_outputs(std::span<const OutputShape> outputs, std::size_t height,
                                           std::size_t width) {
    const auto named = [](const OutputShape& output, std::initializer_list<const char*> words) {
        std::string name = output.name;
        std::ranges::transform(name, name.begin(),
                               [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        return std::ranges::any_of(words, [&](const char* word) { return name.find(word) != std::string::npos; });
    };
    std::optional<std::size_t> boxes, scores, classes, masks;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        const bool four = (shape.size() == 2 || shape.size() == 3) && size_of(shape, shape.size() - 1) == 4;
        if (!boxes && four) {
            boxes = i;
        } else if (shape.size() == 1 || shape.size() == 2) {
            if (!scores && named(outputs[i], {"score", "conf", "prob"}))
                scores = i;
            else if (!classes && named(outputs[i], {"label", "class", "categor"}))
                classes = i;
        } else if (!masks && named(outputs[i], {"mask"})) {
            masks = i;
        }
    }
    if (!boxes || !scores || !classes) return std::nullopt;
    const std::size_t rank = outputs[*boxes].shape.size();
    if (outputs[*scores].shape.size() + 1 != rank || outputs[*classes].shape.size() + 1 != rank) return std::nullopt;
    DetectionHead head{HeadForm::lists, {*boxes, *scores, *classes}, 0, height, width, {}};
    head.one_sample = rank == 2;
    head.vertical_first = named(outputs[*boxes], {"detection_boxes"});
    if (masks && (outputs[*masks].shape.size() == rank + 1 || outputs[*masks].shape.size() == rank + 2))
        head.masks = masks;
    return head;
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
    if (auto head = three_outputs(outputs, height, width)) return head;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (shape.size() != 3) continue;
        const std::size_t rows = size_of(shape, 1);
        const std::size_t columns = size_of(shape, 2);
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
    if (outputs.size() == 2) {
        auto head = two_outputs(HeadForm::rt_detr, outputs, height, width);
        if (!head) return std::nullopt;
        const std::size_t boxes = size_of(outputs[head->outputs[1]].shape, 1);
        if (boxes == 100 || head->classes == 92) return two_outputs(HeadForm::detr, outputs, height, width);
        return boxes >= 1000 ? two_outputs(HeadForm::ssd, outputs, height, width) : head;
    }
    return std::nullopt;
}

Result<DetectionHead> make_head(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                std::size_t width) {
    std::optional<DetectionHead> head;
    if (form == HeadForm::lists) {
        head = three_outputs(outputs, height, width);
    } else if (form == HeadForm::detr || form == HeadForm::rt_detr || form == HeadForm::ssd) {
        head = two_outputs(form, outputs, height, width);
    } else {
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
            parts = {{first, 2, 0, head.classes + 1, Meaning::class_score},
                     {head.outputs[1], 2, 0, 4, Meaning::box_edges}};
            break;
        case HeadForm::lists: break; // their number differs from sample to sample: there is nothing to cut
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
        case Meaning::objectness: return "objectness";
        case Meaning::class_score: return "class scores";
        case Meaning::class_index: return "classes";
        case Meaning::mask_coefficient: return "mask coefficients";
        case Meaning::mask_prototype: return "mask prototypes";
    }
    return "";
}

} // namespace lathe
