#pragma once

#include <filesystem>
#include <optional>

#include "data/image.hpp"
#include "tasks/detection/truth.hpp"

// The file formats behind find_detection_truth.
namespace lathe::detail {

/// Nothing where the JSON file is something else (no images, annotations and categories).
Result<std::optional<DetectionTruth>> read_coco(const std::filesystem::path& file);
Result<DetectionTruth> read_yolo(const std::filesystem::path& labels, const std::filesystem::path& pictures);
Result<DetectionTruth> read_voc(const std::filesystem::path& annotations, const std::filesystem::path& pictures);

} // namespace lathe::detail
