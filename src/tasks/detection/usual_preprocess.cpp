#include "tasks/detection/usual_preprocess.hpp"

namespace lathe {

std::optional<Preprocess> usual_preprocess(const DetectionHead& head, Layout layout) {
    const bool yolox = head.form == HeadForm::yolox;
    if (!yolox && head.form != HeadForm::yolov5 && head.form != HeadForm::yolov8 && head.form != HeadForm::end_to_end)
        return std::nullopt;
    Preprocess preprocess;
    preprocess.letterbox = Preprocess::Size{head.height, head.width};
    preprocess.pad = 114;
    preprocess.align = yolox ? Alignment::top_left : Alignment::centre;
    preprocess.interpolation = Interpolation::bilinear_opencv;
    preprocess.scale = yolox ? 1.0 : 1.0 / 255;
    preprocess.color = yolox ? ColorOrder::bgr : ColorOrder::rgb;
    preprocess.layout = layout;
    return preprocess;
}

} // namespace lathe
