#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/open_dataset.hpp"

namespace lathe {

/// What an input beside a picture says of that picture.
enum class CompanionValue {
    width_height, ///< its size in pixels, x first
    height_width, ///< its size in pixels, y first
    scale,        ///< the size of the model's input as a share of the picture's, y and x
};

struct Companion {
    std::size_t input = 0; ///< which of the model's
    CompanionValue value = CompanionValue::scale;
    bool operator==(const Companion&) const = default;
};

/// Inputs of detectors that only say how large a picture was before it became the model's input.
struct Companions {
    std::size_t picture = 0; ///< the input of pictures: Nx3xHxW or NxHxWx3
    std::vector<Companion> others{};
};

/// The companions of the one input of pictures, told by their names, types and shapes, [N,]2:
///  - "orig_target_sizes": width and height (RT-DETR, D-FINE, DEIM);
///  - "im_shape", "image_shape": height and width (PaddleDetection; Keras' YOLOv3);
///  - "scale_factor", floating point: the scale (PaddleDetection).
/// Sizes are int32, int64 or floating point. Nothing where the model has no or several inputs of pictures, or another
/// input that is none of these, or companions of another number of samples than the pictures'.
Companions companions_of(std::span<const InputSpec> inputs);

/// "orig_target_sizes, scale_factor".
std::string names_of(const Companions& companions, std::span<const InputSpec> inputs);

} // namespace lathe
