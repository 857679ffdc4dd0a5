#pragma once

#include <optional>

#include "data/preprocess.hpp"
#include "tasks/detection/head.hpp"

namespace lathe {

/// How the detectors that have this head are usually fed, for models that do not say it themselves: YOLOX BGR pixels of
/// 0..255 at the top left of a letterbox, other YOLOs RGB of 0..1 in its centre, both padded with 114 and resized as
/// OpenCV does. Nothing for heads of many families.
std::optional<Preprocess> usual_preprocess(const DetectionHead& head, Layout layout);

} // namespace lathe
