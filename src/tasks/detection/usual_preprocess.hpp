#pragma once

#include <optional>

#include "data/preprocess.hpp"
#include "tasks/detection/head.hpp"

namespace lathe {

/// How the detectors that have this head are usually fed, for models that do not say it themselves; OpenCV resizes.
/// YOLOX takes BGR pixels of 0..255 at the top left of a letterbox, other YOLOs RGB of 0..1 in its centre, both padded
/// with 114. PicoDet and what else PaddleDetection exports take RGB with ImageNet's mean and deviation, NanoDet the
/// same as BGR of 0..255, both stretched to the input's size; SCRFD (x - 127.5) / 128 at the top left of a letterbox
/// padded with 0. Nothing for heads of many families.
std::optional<Preprocess> usual_preprocess(const DetectionHead& head, Layout layout);

} // namespace lathe
