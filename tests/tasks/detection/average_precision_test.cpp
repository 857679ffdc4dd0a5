#include "tasks/detection/average_precision.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tasks/detection/pycocotools.hpp"

namespace lathe {
namespace {

using test::box_of;

std::vector<DetectedPicture> pictures_of(const Json& json) {
    std::vector<DetectedPicture> pictures;
    for (const Json& each : json) {
        DetectedPicture picture;
        for (const Json& object : each["truth"]) {
            picture.truth.push_back({box_of(object["box"]), object["class"].get<std::int32_t>(),
                                     object["area"].get<double>(), object["crowd"].get<bool>()});
        }
        for (const Json& detection : each["detections"]) {
            picture.detections.push_back(
                {box_of(detection["box"]), detection["score"].get<float>(), detection["class"].get<std::int32_t>()});
        }
        pictures.push_back(std::move(picture));
    }
    return pictures;
}

/// All twelve figures and every class's, of 200 random cases and the degenerate ones, against pycocotools.
TEST(AveragePrecision, EqualsPycocotools) {
    test::compare_with_pycocotools("coco_cases.py", [](const Json& each) {
        const auto pictures = pictures_of(each["pictures"]);
        const DetectionMatches matches(pictures);
        const AveragePrecision figures = matches.figures();
        const double ours[12]{figures.ap,         figures.ap50,         figures.ap75,          figures.ap_small,
                              figures.ap_medium,  figures.ap_large,     figures.recall_1,      figures.recall_10,
                              figures.recall_100, figures.recall_small, figures.recall_medium, figures.recall_large};
        for (std::size_t i = 0; i < 12; ++i)
            EXPECT_NEAR(ours[i], each["figures"][i].get<double>(), 1e-6) << "figure " << i;
        for (const auto& [name, expected] : each["classes"].items()) {
            const auto index = std::stoul(name);
            const double mine = index < figures.class_ap.size() ? figures.class_ap[index] : -1;
            EXPECT_NEAR(mine, expected.get<double>(), 1e-6) << "class " << name;
        }
        EXPECT_NEAR(matches.average_precision(OverlapRange::coco), figures.ap, 1e-12);
        EXPECT_NEAR(matches.average_precision(OverlapRange::half), figures.ap50, 1e-12);
    });
}

/// Pictures with `found` of 10 objects each detected, and as many wrong ones below them.
std::vector<DetectedPicture> pictures_with(std::size_t count, std::size_t found, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::vector<DetectedPicture> pictures(count);
    for (DetectedPicture& picture : pictures) {
        for (std::size_t i = 0; i < 10; ++i) {
            const Box box{static_cast<double>(i) * 50, 10, 40, 40};
            picture.truth.push_back({box, 0, box.area(), false});
            const auto score = static_cast<float>(generator() % 1000) / 1000.0F;
            const bool right = generator() % 10 < found;
            picture.detections.push_back({right ? box : Box{box.left, 300, 40, 40}, score, 0});
        }
    }
    return pictures;
}

TEST(AveragePrecision, WeightsCountPicturesAgain) {
    const auto few = pictures_with(5, 6, 7);
    std::vector<DetectedPicture> repeated;
    const std::vector<std::uint32_t> weights{2, 0, 1, 3, 0};
    for (std::size_t i = 0; i < few.size(); ++i)
        for (std::uint32_t copy = 0; copy < weights[i]; ++copy)
            repeated.push_back(few[i]);
    // Repeated pictures have equal scores, whose order inside the curve differs: a hundredth at most.
    EXPECT_NEAR(DetectionMatches(few).average_precision(weights, OverlapRange::coco),
                DetectionMatches(repeated).average_precision(OverlapRange::coco), 0.01);
    EXPECT_EQ(DetectionMatches(few).average_precision(std::vector<std::uint32_t>(5, 0), OverlapRange::coco), -1);
}

TEST(AveragePrecision, BootstrapKnowsChanceFromLoss) {
    const DetectionMatches good(pictures_with(60, 8, 1));
    const DetectionMatches alike(pictures_with(60, 8, 2));
    const DetectionMatches worse(pictures_with(60, 4, 3));
    EXPECT_TRUE(bootstrap_difference(alike, good, OverlapRange::half).contains(0));
    EXPECT_LT(bootstrap_difference(worse, good, OverlapRange::half).high, 0);
    EXPECT_GT(bootstrap_difference(good, worse, OverlapRange::half).low, 0);
    const Interval same = bootstrap_difference(good, good, OverlapRange::half);
    EXPECT_EQ(same.low, 0);
    EXPECT_EQ(same.high, 0);
    EXPECT_TRUE(bootstrap_interval(good, OverlapRange::coco).contains(good.average_precision(OverlapRange::coco)));
    // One seed, one interval.
    EXPECT_EQ(bootstrap_interval(good, OverlapRange::coco, 200, 5).low,
              bootstrap_interval(good, OverlapRange::coco, 200, 5).low);
    // Of one picture nothing can be drawn.
    EXPECT_EQ(bootstrap_interval(DetectionMatches(pictures_with(1, 8, 1)), OverlapRange::coco).width(), 0);
}

TEST(AveragePrecision, ClassesThatTheModelLacksAreLeftOut) {
    std::vector<DetectedPicture> pictures = pictures_with(2, 10, 1);
    pictures[0].truth.push_back({{0, 0, 5, 5}, -1, 25, false});
    EXPECT_DOUBLE_EQ(DetectionMatches(pictures).average_precision(OverlapRange::coco), 1);
}

} // namespace
} // namespace lathe
