#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "support/interval.hpp"
#include "tasks/detection/detection.hpp"

namespace lathe {

/// COCO's figures, 0..1; -1 where there is nothing to find, as pycocotools has it.
struct AveragePrecision {
    double ap = -1;   ///< mean over IoU 0.50, 0.55, .. 0.95 and over the classes that occur
    double ap50 = -1; ///< at IoU 0.50
    double ap75 = -1;
    double ap_small = -1;  ///< objects of less than 32 x 32 pixels
    double ap_medium = -1; ///< up to 96 x 96
    double ap_large = -1;  ///< above
    double recall_1 = -1;  ///< mean recall over the IoUs with 1 detection a class and picture
    double recall_10 = -1, recall_100 = -1;
    double recall_small = -1, recall_medium = -1, recall_large = -1;
    std::vector<double> class_ap; ///< by class index, -1 for those that do not occur
};

/// Over which overlaps precision is averaged.
enum class OverlapRange {
    coco, ///< IoU 0.50 .. 0.95
    half, ///< IoU 0.50 alone
};

/// The objects and detections of pictures that hold more of them than boxes: {true, found}, each with its `object` and
/// `detection`.
template <class Picture>
std::vector<DetectedPicture> plain_pictures(std::span<const Picture> pictures) {
    std::vector<DetectedPicture> plain;
    for (const auto& [truth, answers] : pictures) {
        DetectedPicture& own = plain.emplace_back();
        for (const auto& each : truth)
            own.truth.push_back(each.object);
        for (const auto& each : answers)
            own.detections.push_back(each.detection);
    }
    return plain;
}

/// What is matched by something else than boxes (pycocotools' iouType "keypoints" and "segm"). Numbers are those of the
/// pictures and of what they hold, as given.
struct MatchRules {
    std::size_t most = 100; ///< detections a class and picture
    std::function<double(std::size_t picture, std::size_t detection, std::size_t object)> overlap;
    std::function<double(std::size_t picture, std::size_t detection)> area; ///< of what was found, pixels
};

/// The detections of many pictures, matched with their truth once, so that figures over any sample of the pictures
/// are cheap.
///
/// Matching and averaging are pycocotools' (COCOeval with iouType "bbox", useCats 1, maxDets 1, 10, 100): detections
/// of a class go by falling score (equal ones in the order given, then in the order of the pictures) to the true
/// object of greatest overlap that is still free; crowds, and objects outside the sizes asked for, take detections
/// that then count neither for nor against. Precision is made to fall with recall, read at recall 0, 0.01, .. 1, and
/// averaged.
class DetectionMatches {
public:
    explicit DetectionMatches(std::span<const DetectedPicture> pictures);
    DetectionMatches(std::span<const DetectedPicture> pictures, const MatchRules& rules);

    std::size_t pictures() const { return pictures_; }
    AveragePrecision figures() const;
    /// `ap` or `ap50` with picture i counted weights[i] times; -1 where nothing is left to find.
    double average_precision(std::span<const std::uint32_t> weights, OverlapRange range) const;
    double average_precision(OverlapRange range) const;

private:
    static constexpr std::size_t overlap_count = 10;
    static constexpr std::size_t size_count = 4; ///< all, small, medium, large

    /// One detection; a bit for each overlap.
    struct Match {
        float score = 0;
        std::uint32_t picture = 0;
        std::uint16_t rank = 0; ///< among its class in its picture
        std::uint16_t right = 0;
        std::uint16_t wrong = 0; ///< neither: it counts for nothing
    };
    /// True objects that count, in one picture.
    struct Count {
        std::uint32_t picture = 0;
        std::uint32_t objects = 0;
    };
    struct ClassMatches {
        std::vector<Match> matches; ///< best score first
        std::vector<Count> truth;
    };
    struct Curve {
        double precision = -1; ///< mean over the recalls
        double recall = -1;    ///< reached
    };

    void match_picture(std::uint32_t picture, const DetectedPicture& content, const MatchRules& rules);
    static Curve curve(const ClassMatches& matches, std::size_t overlap_index, std::size_t most,
                       std::span<const std::uint32_t> weights);

    std::size_t pictures_ = 0;
    std::array<std::vector<ClassMatches>, size_count> classes_; ///< by size, then class
};

/// 95 % percentile bootstrap interval over pictures of one detector's figure.
Interval bootstrap_interval(const DetectionMatches& matches, OverlapRange range, std::size_t resamples = 1000,
                            std::uint64_t seed = 1);
/// The same of subject minus reference, both on the same drawn pictures. Both have the same pictures, in one order.
Interval bootstrap_difference(const DetectionMatches& subject, const DetectionMatches& reference, OverlapRange range,
                              std::size_t resamples = 1000, std::uint64_t seed = 1);

} // namespace lathe
