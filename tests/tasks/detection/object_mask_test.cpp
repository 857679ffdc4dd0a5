#include "tasks/detection/object_mask.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ObjectMask mask_of(const Json& segmentation, std::size_t height = 4, std::size_t width = 5) {
    auto mask = mask_of_segmentation(segmentation, height, width);
    EXPECT_TRUE(mask) << mask.error().describe();
    return mask ? *mask : ObjectMask(height, width);
}

TEST(ObjectMask, RunsGoDownTheColumns) {
    // Columns 1 and 2, rows 1 and 2.
    const ObjectMask square = mask_of(Json{{"size", {4, 5}}, {"counts", {5, 2, 2, 2, 9}}});
    EXPECT_EQ(square.area(), 4U);
    EXPECT_EQ(mask_of(Json::array({{1, 1, 3, 1, 3, 3, 1, 3}})), square);
    EXPECT_EQ(mask_of(to_json(square)), square);
    // Written otherwise it is the same.
    EXPECT_THAT(mask_of(Json{{"size", {4, 5}}, {"counts", {3, 0, 2, 1, 0, 1, 2, 2, 9}}}).runs(),
                ElementsAre(5, 2, 2, 2, 9));
    const ObjectMask none(4, 5);
    EXPECT_EQ(none.area(), 0U);
    EXPECT_EQ(mask_of(to_json(none)), none);
    const ObjectMask all = mask_of(Json{{"size", {4, 5}}, {"counts", {0, 20}}});
    EXPECT_THAT(all.runs(), ElementsAre(0, 20));
    EXPECT_EQ(common_area(all, square), 4U);
    EXPECT_EQ(overlap(square, all), 0.2);
    EXPECT_EQ(overlap(square, all, true), 1) << "all of it lies in the crowd";
    EXPECT_EQ(overlap(none, none), 0);
    EXPECT_EQ(overlap(square, ObjectMask(5, 4)), 0) << "of another picture";
}

TEST(ObjectMask, PartsAreUnited) {
    const Json left = Json::array({0, 0, 2, 0, 2, 4, 0, 4});
    const Json right = Json::array({1, 0, 4, 0, 4, 2, 1, 2});
    const ObjectMask both = mask_of(Json::array({left, right}));
    EXPECT_EQ(both.area(), 8U + 6U - 2U);
    // What one outline goes around twice is outside.
    const ObjectMask twice = mask_of(Json::array({{0, 0, 4, 0, 4, 4, 0, 4, 0, 0, 4, 0, 4, 4, 0, 4}}));
    EXPECT_EQ(twice.area(), 0U);
}

TEST(ObjectMask, WhatIsNoSegmentationIsRefused) {
    const auto size = [](Json counts) { return Json{{"size", {4, 5}}, {"counts", std::move(counts)}}; };
    const std::pair<Json, std::string> cases[]{
        {size({5, 2, 2}), "fewer pixels"},
        {size({5, 2, 2, 2, 10}), "more pixels"},
        {size({4'000'000'000U, 4'000'000'000U}), "more pixels"},
        {size({5, -2, 17}), "no run lengths"},
        {size({5, "2", 17}), "no run lengths"},
        {size(20), "no run lengths"},
        {size("\x01\x02"), "no run lengths"},
        {size("ooooooooooooooo"), "no run lengths"},
        {size("P"), "no run lengths"}, // goes on, but ends
        {size("N"), "no run lengths"}, // less than nothing
        {Json{{"size", {5, 4}}, {"counts", {20}}}, "size [5,4]"},
        {Json{{"size", 4}, {"counts", {20}}}, "size 4"},
        {Json{{"counts", {20}}}, "neither"},
        {Json(nullptr), "neither"},
        {Json("text"), "neither"},
        {Json::array(), "neither"},
        {Json::array({1, 2, 3}), "no list of numbers"},
        {Json::array({{1, 1, 3, 1, "3", 3}}), "no list of numbers"},
        {Json::array({{1, 1, 3, 1, 3}}), "odd number"},
        {Json::array({{1, 1}}), "three corners"},
        {Json::array({{1, 1, 3, 1, 1e12, 3}}), "no picture"},
    };
    for (const auto& [segmentation, message] : cases) {
        const auto mask = mask_of_segmentation(segmentation, 4, 5);
        ASSERT_FALSE(mask) << segmentation.dump();
        EXPECT_EQ(mask.error().code, ErrorCode::parse_error);
        EXPECT_THAT(mask.error().describe(), HasSubstr(message)) << segmentation.dump();
    }
}

} // namespace
} // namespace lathe
