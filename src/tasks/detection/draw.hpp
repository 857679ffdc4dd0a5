#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/image.hpp"
#include "tasks/detection/detection.hpp"
#include "tasks/detection/keypoints.hpp"
#include "tasks/detection/object_mask.hpp"

namespace lathe {

/// "cat", or "class 3" where there is no name.
std::string class_name(const std::vector<std::string>& names, std::int32_t class_index);

/// Lets the colour of its class shine over a mask, which is of the picture's size, or, of another, is not drawn.
void draw_mask(Image& image, const ObjectMask& mask, std::int32_t class_index);

/// Draws the points that are likelier there than not, and of COCO's 17 points of people the limbs between them.
void draw_points(Image& image, std::span<const Keypoint> points);

/// Draws each box with its class and score, a colour a class, the best score on top. Boxes may reach out of the
/// picture.
void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& names);

} // namespace lathe
