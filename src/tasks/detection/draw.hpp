#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/image.hpp"
#include "tasks/detection/detection.hpp"

namespace lathe {

/// "cat", or "class 3" where there is no name.
std::string class_name(const std::vector<std::string>& names, std::int32_t class_index);

/// Draws each box with its class and score, a colour a class, the best score on top. Boxes may reach out of the
/// picture.
void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& names);

} // namespace lathe
