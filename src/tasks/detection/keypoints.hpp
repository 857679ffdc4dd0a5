#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/head.hpp"
#include "tasks/detection/truth.hpp"

namespace lathe {

/// A joint, or another named point of an object, in pixels.
struct Keypoint {
    double x = 0;
    double y = 0;
    float score = 0; ///< found: the network's; true: COCO's visibility (0 not labelled, 1 hidden, 2 visible)
};

/// One object that was found, with its points.
struct Pose {
    Detection detection;
    std::vector<Keypoint> points;
};

/// One object that is in the picture. `object.difficult`: without any labelled point, so it counts for nothing.
struct TruePose {
    TrueObject object;
    std::vector<Keypoint> points;
};

/// What is in a picture and what was found there.
struct PosedPicture {
    std::vector<TruePose> truth;
    std::vector<Pose> poses;
};

/// How far each of `count` points may be off, relative to the root of the object's area: COCO's sigmas for the 17
/// points of people, 1 / count for any other number.
std::vector<double> keypoint_sigmas(std::size_t count);

/// Object keypoint similarity (COCO; pycocotools' computeOks): the mean over the labelled points of
/// exp(-d^2 / (2 area (2 sigma)^2)). Of an object without labelled points d is the distance to its box made three times
/// as large. Points that are missing on one side are as far as can be: 0.
double keypoint_similarity(const std::vector<Keypoint>& found, const TruePose& truth,
                           const std::vector<double>& sigmas);

/// Matched by OKS, the best 20 of a picture: pycocotools' COCOeval with iouType "keypoints". Of its figures ap_small
/// and recall_small mean nothing, and the recalls at 100 are those at 20.
DetectionMatches match_poses(std::span<const PosedPicture> pictures);

/// How a pose network's output holds its poses; boxes and points in pixels of the model's input, decoded.
struct PoseHead {
    std::size_t output = 0;
    std::size_t points = 17; ///< an object
    bool end_to_end = false; ///< NxKx(6+3P): left, top, right, bottom, score, class, then x, y, score of each point
    bool anchors_last =
        false;              ///< else Nx(5+3P)xA, or NxAx(5+3P): centre x, y, width, height, score, points; NMS is due
    std::size_t height = 0; ///< of the model's input
    std::size_t width = 0;
};

/// The head of Ultralytics' pose networks (YOLOv8-pose, YOLO11-pose; end-to-end YOLO26-pose), of one class. By the
/// number of values alone it may be a detector of other classes: it is for those who know that poses are wanted.
/// Errors: unsupported, saying what the outputs are.
Result<PoseHead> pose_head(std::span<const OutputShape> outputs, std::size_t height, std::size_t width);

/// The poses in a sample, best score first. Errors: mismatch (an output of another form).
Result<std::vector<Pose>> decode_poses(const PoseHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                       const DecodeOptions& options);

/// From pixels of the model's input to the picture's own.
void map_back(std::vector<Pose>& poses, const Preprocess::Mapping& mapping);

/// COCO's truth with the points of each object, in the order of DetectionTruth's.
struct KeypointTruth {
    DetectionTruth boxes;
    std::size_t points = 0; ///< an object
    std::map<std::string, std::vector<std::vector<Keypoint>>> by_name;

    /// Nothing where the truth does not speak of the picture.
    std::optional<std::vector<TruePose>> of(const std::string& name) const;
};

/// The truth that find_detection_truth finds, if it is COCO's and its objects have keypoints (person_keypoints*.json);
/// else nothing. Errors: as there; parse_error for keypoints that are not 3 numbers each, or not of one number;
/// unsupported for points of several categories.
Result<std::optional<KeypointTruth>> find_keypoint_truth(const std::filesystem::path& path);

inline float score_of(const Pose& found) { return found.detection.score; }

/// As a detection's, with "points": x, y and score of each.
Json to_json(const Pose& pose);

/// Poses as truth for another network: those with at least this score; points of a score of at least 0.5 are labelled.
std::vector<TruePose> as_truth(const std::vector<Pose>& poses, float least_score);

} // namespace lathe
