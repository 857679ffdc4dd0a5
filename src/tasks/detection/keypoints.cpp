#include "tasks/detection/keypoints.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

/// Of a picture and class, as COCO counts poses.
constexpr std::size_t most_poses = 20;
/// A point that the network says less of is not shown to be there.
constexpr float least_point_score = 0.5F;

/// Nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles (cocodataset.org, "keypoints evaluation").
constexpr std::array<double, 17> person_sigmas{0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072,
                                               0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089};

/// The box around all points: pycocotools takes its area for that of a pose.
double area_of(const std::vector<Keypoint>& points) {
    if (points.empty()) return 0;
    const auto [left, right] = std::ranges::minmax(points, {}, &Keypoint::x);
    const auto [top, bottom] = std::ranges::minmax(points, {}, &Keypoint::y);
    return (right.x - left.x) * (bottom.y - top.y);
}

/// How far a value is outside a range.
double beyond(double value, double low, double high) {
    return std::max(0.0, low - value) + std::max(0.0, value - high);
}

Error malformed(const std::filesystem::path& file, std::size_t annotation, const std::string& what) {
    return {ErrorCode::parse_error, "annotations[" + std::to_string(annotation) + "] " + what, file.string(),
            "give COCO's format: \"keypoints\": x, y and visibility of each point"};
}

Result<std::vector<Keypoint>> points_of(const Json& list, const std::filesystem::path& file, std::size_t annotation) {
    std::vector<Keypoint> points;
    if (!list.is_array() || list.size() % 3 != 0) return malformed(file, annotation, "has no three numbers a keypoint");
    for (std::size_t i = 0; i < list.size(); i += 3) {
        for (std::size_t k = 0; k < 3; ++k) {
            if (!list[i + k].is_number() || !std::isfinite(list[i + k].get<double>()))
                return malformed(file, annotation, "has a keypoint that is no number");
        }
        points.push_back({list[i].get<double>(), list[i + 1].get<double>(), list[i + 2].get<float>()});
    }
    return points;
}

} // namespace

std::vector<double> keypoint_sigmas(std::size_t count) {
    if (count == person_sigmas.size()) return {person_sigmas.begin(), person_sigmas.end()};
    return std::vector<double>(count, 1.0 / static_cast<double>(std::max<std::size_t>(count, 1)));
}

double keypoint_similarity(const std::vector<Keypoint>& found, const TruePose& truth,
                           const std::vector<double>& sigmas) {
    const std::size_t count = std::min({found.size(), truth.points.size(), sigmas.size()});
    const auto is_labelled = [](const Keypoint& point) { return point.score > 0; };
    const bool labelled = std::ranges::any_of(truth.points, is_labelled);
    const Box& box = truth.object.box;
    double sum = 0;
    std::size_t points = 0;
    for (std::size_t i = 0; i < std::max(count, truth.points.size()); ++i) {
        if (labelled && !is_labelled(truth.points[i])) continue;
        ++points;
        if (i >= count) continue;
        double dx = found[i].x - truth.points[i].x;
        double dy = found[i].y - truth.points[i].y;
        if (!labelled) {
            dx = beyond(found[i].x, box.left - box.width, box.left + 2 * box.width);
            dy = beyond(found[i].y, box.top - box.height, box.top + 2 * box.height);
        }
        const double variance = 4 * sigmas[i] * sigmas[i];
        constexpr double least = std::numeric_limits<double>::epsilon(); // of an area of 0
        sum += std::exp(-(dx * dx + dy * dy) / variance / (truth.object.area + least) / 2);
    }
    return points == 0 ? 0 : sum / static_cast<double>(points);
}

DetectionMatches match_poses(std::span<const PosedPicture> pictures) {
    MatchRules rules;
    rules.most = most_poses;
    rules.overlap = [pictures](std::size_t picture, std::size_t pose, std::size_t object) {
        const TruePose& truth = pictures[picture].truth[object];
        return keypoint_similarity(pictures[picture].poses[pose].points, truth, keypoint_sigmas(truth.points.size()));
    };
    rules.area = [pictures](std::size_t picture, std::size_t pose) {
        return area_of(pictures[picture].poses[pose].points);
    };
    return {plain_pictures(pictures), rules};
}

Result<PoseHead> pose_head(std::span<const OutputShape> outputs, std::size_t height, std::size_t width) {
    std::string found;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        found += (found.empty() ? "" : ", ") + outputs[i].name + " " + to_string(shape);
        if (shape.size() != 3) continue;
        const std::int64_t rows = shape[1];
        const std::int64_t columns = shape[2];
        PoseHead head;
        head.output = i;
        head.height = height;
        head.width = width;
        // Anchors are more than an anchor's values, and may be open.
        head.anchors_last = columns <= 0 || (rows > 0 && rows < columns);
        const std::int64_t values = head.anchors_last ? rows : columns;
        if (values >= 8 && (values - 5) % 3 == 0) {
            head.points = static_cast<std::size_t>((values - 5) / 3);
            return head;
        }
        if (!head.anchors_last && columns >= 9 && (columns - 6) % 3 == 0) {
            head.end_to_end = true;
            head.points = static_cast<std::size_t>((columns - 6) / 3);
            return head;
        }
    }
    return Error{ErrorCode::unsupported, "the outputs are those of no pose network: " + found, "",
                 "known are Nx(5+3P)xA as of YOLOv8-pose, and NxKx(6+3P) with NMS done"};
}

Result<std::vector<Pose>> decode_poses(const PoseHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                       const DecodeOptions& options) {
    const std::size_t values = (head.end_to_end ? 6 : 5) + 3 * head.points;
    if (head.output >= outputs.size()) {
        return Error{ErrorCode::mismatch, "the model has no output " + std::to_string(head.output), "keypoints", ""};
    }
    const HostTensor& output = outputs[head.output];
    const std::size_t axis = head.anchors_last ? 1 : 2;
    if (output.type != DataType::float32 || output.shape.size() != 3 ||
        output.shape[axis] != static_cast<std::int64_t>(values) ||
        sample >= static_cast<std::size_t>(output.shape[0])) {
        return Error{ErrorCode::mismatch,
                     "the output is " + to_string(output.type) + " " + to_string(output.shape) + ", not float32 with " +
                         std::to_string(values) + " values a pose in sample " + std::to_string(sample),
                     output.name, "decode what the head was told from"};
    }
    const auto anchors = static_cast<std::size_t>(output.shape[head.anchors_last ? 2 : 1]);
    const auto all = output.as<float>().subspan(sample * anchors * values, anchors * values);
    const auto at = [&](std::size_t anchor, std::size_t value) {
        return static_cast<double>(head.anchors_last ? all[value * anchors + anchor] : all[anchor * values + value]);
    };
    std::vector<Pose> poses;
    for (std::size_t i = 0; i < anchors; ++i) {
        Pose pose;
        pose.detection.score = static_cast<float>(at(i, 4));
        // Written so that NaN is below any threshold.
        if (!(pose.detection.score >= options.score_threshold)) continue;
        bool finite = true;
        for (std::size_t k = 0; k < values; ++k)
            finite = finite && std::isfinite(at(i, k));
        if (!finite) continue;
        pose.detection.box = head.end_to_end
                                 ? Box{at(i, 0), at(i, 1), at(i, 2) - at(i, 0), at(i, 3) - at(i, 1)}
                                 : Box{at(i, 0) - at(i, 2) / 2, at(i, 1) - at(i, 3) / 2, at(i, 2), at(i, 3)};
        if (pose.detection.box.width < 0 || pose.detection.box.height < 0) continue;
        for (std::size_t k = 0; k < head.points; ++k) {
            const std::size_t first = values - 3 * head.points + 3 * k;
            pose.points.push_back({at(i, first), at(i, first + 1), static_cast<float>(at(i, first + 2))});
        }
        poses.push_back(std::move(pose));
    }
    std::vector<Detection> boxes;
    for (const Pose& pose : poses)
        boxes.push_back(pose.detection);
    // Without NMS still the best first.
    const float threshold = head.end_to_end ? std::numeric_limits<float>::infinity() : options.overlap_threshold;
    std::vector<Pose> kept;
    for (const std::size_t i : suppress(boxes, threshold)) {
        if (kept.size() == options.most) break;
        kept.push_back(std::move(poses[i]));
    }
    return kept;
}

void map_back(std::vector<Pose>& poses, const Preprocess::Mapping& mapping) {
    for (Pose& pose : poses) {
        std::vector<Detection> box{pose.detection};
        map_back(box, mapping);
        pose.detection = box.front();
        for (Keypoint& point : pose.points) {
            point.x = (point.x - mapping.left) / mapping.scale_x;
            point.y = (point.y - mapping.top) / mapping.scale_y;
        }
    }
}

std::optional<std::vector<TruePose>> KeypointTruth::of(const std::string& name) const {
    const std::string plain = std::filesystem::path(name).filename().string();
    const auto objects = boxes.by_name.find(plain);
    if (objects == boxes.by_name.end()) return std::nullopt;
    std::vector<TruePose> truth;
    const auto own = by_name.find(plain);
    for (std::size_t i = 0; i < objects->second.objects.size(); ++i) {
        TruePose pose{objects->second.objects[i], {}};
        if (own != by_name.end()) pose.points = own->second.at(i);
        pose.object.class_index = 0;
        pose.object.difficult =
            std::ranges::none_of(pose.points, [](const Keypoint& point) { return point.score > 0; });
        truth.push_back(std::move(pose));
    }
    return truth;
}

Result<std::optional<KeypointTruth>> find_keypoint_truth(const std::filesystem::path& path) {
    LATHE_TRY(auto boxes, find_detection_truth(path));
    if (!boxes || boxes->format != "COCO") return std::optional<KeypointTruth>();
    KeypointTruth truth;
    truth.boxes = *std::move(boxes);
    const std::filesystem::path& file = truth.boxes.source;
    // Its form was checked when the boxes were read.
    LATHE_TRY(const Json json, read_json_file(file));
    std::map<std::int64_t, std::string> names;
    for (const Json& image : json["images"])
        names[image["id"].get<std::int64_t>()] =
            std::filesystem::path(image["file_name"].get<std::string>()).filename().string();
    std::optional<std::int64_t> category;
    const Json& annotations = json["annotations"];
    for (std::size_t i = 0; i < annotations.size(); ++i) {
        const auto list = annotations[i].find("keypoints");
        if (list == annotations[i].end()) continue;
        const auto own = annotations[i]["category_id"].get<std::int64_t>();
        if (category && *category != own) {
            return Error{ErrorCode::unsupported,
                         "objects of the categories " + std::to_string(*category) + " and " + std::to_string(own) +
                             " have keypoints",
                         file.string(), "keep those of one category"};
        }
        category = own;
        if (!list->is_array() || list->size() % 3 != 0 || (truth.points > 0 && list->size() != 3 * truth.points))
            return malformed(file, i, "has another number of keypoints than those before it, or no three numbers each");
        truth.points = list->size() / 3;
    }
    if (!category || truth.points == 0) return std::optional<KeypointTruth>();
    // Objects of other categories are none that poses are found of.
    const auto index =
        static_cast<std::int32_t>(std::ranges::find(truth.boxes.ids, *category) - truth.boxes.ids.begin());
    for (auto& [name, picture] : truth.boxes.by_name)
        std::erase_if(picture.objects, [&](const TrueObject& object) { return object.class_index != index; });
    for (std::size_t i = 0; i < annotations.size(); ++i) {
        if (annotations[i]["category_id"].get<std::int64_t>() != *category) continue;
        const auto list = annotations[i].find("keypoints");
        std::vector<Keypoint> points(truth.points);
        if (list != annotations[i].end()) {
            LATHE_TRY(points, points_of(*list, file, i));
        }
        truth.by_name[names.at(annotations[i]["image_id"].get<std::int64_t>())].push_back(std::move(points));
    }
    return std::optional<KeypointTruth>(std::move(truth));
}

Json to_json(const Pose& pose) {
    Json json = to_json(pose.detection);
    json["points"] = Json::array();
    for (const Keypoint& point : pose.points)
        json["points"].push_back({point.x, point.y, point.score});
    return json;
}

std::vector<TruePose> as_truth(const std::vector<Pose>& poses, float least_score) {
    std::vector<TruePose> truth;
    for (const Pose& pose : poses) {
        if (pose.detection.score < least_score) continue;
        TruePose own;
        own.object.box = pose.detection.box;
        own.object.area = pose.detection.box.area();
        own.points = pose.points;
        for (Keypoint& point : own.points)
            point.score = point.score >= least_point_score ? 2.0F : 0.0F;
        own.object.difficult = std::ranges::none_of(own.points, [](const Keypoint& point) { return point.score > 0; });
        truth.push_back(std::move(own));
    }
    return truth;
}

} // namespace lathe
