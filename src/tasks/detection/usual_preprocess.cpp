#include "tasks/detection/usual_preprocess.hpp"

namespace lathe {

namespace {

Preprocess letterboxed(const DetectionHead& head, Alignment align, std::uint8_t pad) {
    Preprocess preprocess;
    preprocess.letterbox = Preprocess::Size{head.height, head.width};
    preprocess.pad = pad;
    preprocess.align = align;
    return preprocess;
}

/// ImageNet's colours, as shares of 255.
Preprocess stretched(const DetectionHead& head) {
    Preprocess preprocess;
    preprocess.resize = Preprocess::Size{head.height, head.width};
    preprocess.scale = 1.0 / 255;
    preprocess.mean = {0.485, 0.456, 0.406};
    preprocess.std = {0.229, 0.224, 0.225};
    return preprocess;
}

/// RGB of 0..1 in the centre of a letterbox, as Ultralytics'.
Preprocess as_yolo(const DetectionHead& head) {
    Preprocess preprocess = letterboxed(head, Alignment::centre, 114);
    preprocess.scale = 1.0 / 255;
    return preprocess;
}

std::optional<Preprocess> of_distances(const DetectionHead& head) {
    constexpr std::size_t bins_of_yolo = 16;
    constexpr std::size_t bins_of_nanodet = 8;
    if (head.distances.bins == bins_of_yolo) return as_yolo(head);
    if (head.distances.bins == bins_of_nanodet && head.outputs.size() > 1) return stretched(head); // PicoDet
    Preprocess preprocess;
    if (head.distances.bins == bins_of_nanodet) {
        preprocess.resize = Preprocess::Size{head.height, head.width};
        preprocess.mean = {103.53, 116.28, 123.675};
        preprocess.std = {57.375, 57.12, 58.395};
        preprocess.color = ColorOrder::bgr;
        return preprocess;
    }
    if (head.distances.centre_and_size) { // YuNet
        preprocess = letterboxed(head, Alignment::top_left, 0);
        preprocess.color = ColorOrder::bgr;
        return preprocess;
    }
    if (head.distances.anchors_a_cell != 2) return std::nullopt;
    preprocess = letterboxed(head, Alignment::top_left, 0); // SCRFD
    preprocess.mean = {127.5, 127.5, 127.5};
    preprocess.std = {128, 128, 128};
    return preprocess;
}

std::optional<Preprocess> of_form(const DetectionHead& head) {
    switch (head.form) {
        case HeadForm::yolox: {
            Preprocess preprocess = letterboxed(head, Alignment::top_left, 114);
            preprocess.color = ColorOrder::bgr;
            return preprocess;
        }
        case HeadForm::yolov5:
        case HeadForm::yolov8:
        case HeadForm::yolo_nas:
        case HeadForm::yolov7_nms:
        case HeadForm::end_to_end: return as_yolo(head);
        case HeadForm::paddle: return stretched(head);
        case HeadForm::distances: return of_distances(head);
        default: return std::nullopt;
    }
}

} // namespace

std::optional<Preprocess> usual_preprocess(const DetectionHead& head, Layout layout) {
    auto preprocess = of_form(head);
    if (!preprocess) return std::nullopt;
    preprocess->interpolation = Interpolation::bilinear_opencv;
    preprocess->layout = layout;
    return preprocess;
}

} // namespace lathe
