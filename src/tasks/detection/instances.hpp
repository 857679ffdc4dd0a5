#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/head.hpp"
#include "tasks/detection/object_mask.hpp"
#include "tasks/detection/truth.hpp"

namespace lathe {

/// One object that was found, with its pixels.
struct Instance {
    Detection detection;
    ObjectMask mask;
};

/// One object that is in the picture.
struct TrueInstance {
    TrueObject object;
    ObjectMask mask;
};

/// What is in a picture and what was found there.
struct InstancePicture {
    std::vector<TrueInstance> truth;
    std::vector<Instance> instances;
};

/// Matched by the overlap of masks: pycocotools' COCOeval with iouType "segm".
DetectionMatches match_instances(std::span<const InstancePicture> pictures);

/// The instances in a sample, best score first, for a head with masks. Boxes and masks are the picture's, where it is
/// known, else the model's input's. A pixel belongs to an object where its probability, interpolated between those that
/// the model gives as PyTorch does (bilinear, align_corners false), is above a half at the pixel's centre:
///  - prototypes: sigmoid of the sum of prototypes times coefficients, 0 outside the box (Ultralytics' process_mask);
///  - lists: the mask as it is where it has the input's size; else pasted into the box in the picture, whose edges are
///    made whole pixels, with a border of zeros around it (torchvision's paste_masks_in_image).
/// What has no pixel is no instance.
/// Errors: mismatch where an output is not as the head's shapes were.
Result<std::vector<Instance>> decode_instances(const DetectionHead& head, std::span<const HostTensor> outputs,
                                               std::size_t sample, const DecodeOptions& options,
                                               const std::optional<PicturePlace>& place);

/// COCO's truth with the pixels of each object, in the order of DetectionTruth's.
struct InstanceTruth {
    DetectionTruth boxes;
    std::map<std::string, std::vector<ObjectMask>> by_name;

    /// Nothing where the truth does not speak of the picture. Errors: mismatch, where its masks are of another size.
    Result<std::optional<std::vector<TrueInstance>>> of(const std::string& name, const PictureSize& size) const;
};

/// Whether the truth is COCO's and any of its objects has a segmentation.
Result<bool> has_outlines(const DetectionTruth& truth);

/// The truth that find_detection_truth finds, if it is COCO's and its objects have a segmentation (instances*.json);
/// else nothing. Errors: as there; parse_error for segmentations that are none, or missing of some objects.
Result<std::optional<InstanceTruth>> find_instance_truth(const std::filesystem::path& path);

inline float score_of(const Instance& found) { return found.detection.score; }

/// As a detection's, with "mask" in COCO's form.
Json to_json(const Instance& instance);

/// Instances as truth for another network: those with at least this score and any pixel.
std::vector<TrueInstance> as_truth(const std::vector<Instance>& instances, float least_score);

} // namespace lathe
