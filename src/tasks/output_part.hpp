#pragma once

#include <cstddef>

namespace lathe {

/// What a stretch of an output's values stands for.
enum class Meaning {
    box_centre, ///< where a box is
    box_size,   ///< its width and height, or their logarithms
    box_edges,  ///< both at once: left, top, right, bottom
    box_bins,   ///< logits of the distances that a box's sides may have
    objectness, ///< whether there is an object at all
    class_score,
    class_index,
    mask_coefficient, ///< of one object, for each prototype
    mask_prototype,   ///< a mask that others are made of
};
const char* to_string(Meaning meaning);

/// A piece of a model's output with one meaning, and so with one scale: values begin .. end of `axis` (axis 0 is the
/// sample) of output number `output`.
struct OutputPart {
    std::size_t output = 0;
    std::size_t axis = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
    Meaning meaning = Meaning::class_score;
    bool operator==(const OutputPart&) const = default;
};

} // namespace lathe
