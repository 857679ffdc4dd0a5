#pragma once

#include <cstdint>
#include <vector>

#include "support/json.hpp"

namespace lathe {

/// A rectangle in pixels, as COCO writes it: edges lie between pixels, so that a picture is {0, 0, width, height}.
struct Box {
    double left = 0;
    double top = 0;
    double width = 0;
    double height = 0;

    double right() const { return left + width; }
    double bottom() const { return top + height; }
    double area() const { return width * height; }
    bool operator==(const Box&) const = default;
};

/// Intersection over union; 0 where they do not overlap. `crowd`: `truth` stands for many objects, and the share of
/// `detected` that lies in it counts (pycocotools' bbIou).
double overlap(const Box& detected, const Box& truth, bool crowd = false);

/// One object that a detector found.
struct Detection {
    Box box;
    float score = 0;
    std::int32_t class_index = 0; ///< the model's
    bool operator==(const Detection&) const = default;
};

/// One object that is in the picture.
struct TrueObject {
    Box box;
    std::int32_t class_index = 0; ///< the model's
    double area = 0;              ///< pixels; of the outline where the truth has one, so it may be less than the box's
    bool crowd = false;           ///< many objects in one box: found or not, it counts for nothing
    bool difficult = false;       ///< one object that counts for nothing either (Pascal VOC)
    bool operator==(const TrueObject&) const = default;
};

inline float score_of(const Detection& found) { return found.score; }

/// {"box": [left, top, width, height], "score", "class"}.
Json to_json(const Detection& detection);

/// What is in a picture and what was found there.
struct DetectedPicture {
    std::vector<TrueObject> truth;
    std::vector<Detection> detections;
};

/// Detections as truth for another detector: those with at least this score, each as large as its box.
std::vector<TrueObject> as_truth(const std::vector<Detection>& detections, float least_score);

} // namespace lathe
