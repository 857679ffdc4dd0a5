#include "tasks/detection/detection.hpp"

#include <algorithm>

namespace lathe {

double overlap(const Box& detected, const Box& truth, bool crowd) {
    const double width = std::min(detected.right(), truth.right()) - std::max(detected.left, truth.left);
    if (width <= 0) return 0;
    const double height = std::min(detected.bottom(), truth.bottom()) - std::max(detected.top, truth.top);
    if (height <= 0) return 0;
    const double common = width * height;
    return common / (crowd ? detected.area() : detected.area() + truth.area() - common);
}

Json to_json(const Detection& detection) {
    const Box& box = detection.box;
    return {{"box", {box.left, box.top, box.width, box.height}},
            {"score", detection.score},
            {"class", detection.class_index}};
}

std::vector<TrueObject> as_truth(const std::vector<Detection>& detections, float least_score) {
    std::vector<TrueObject> truth;
    for (const Detection& detection : detections) {
        if (detection.score < least_score) continue;
        truth.push_back({detection.box, detection.class_index, detection.box.area()});
    }
    return truth;
}

} // namespace lathe
