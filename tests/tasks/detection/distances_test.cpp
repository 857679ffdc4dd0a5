#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/detection/head.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostTensor filled(const Shape& shape, float fill = 0) {
    HostTensor made("out", DataType::float32, shape);
    for (float& value : made.as<float>())
        value = fill;
    return made;
}

struct GridCase {
    const char* name;
    std::vector<OutputShape> outputs;
    std::size_t height, width;
    std::vector<std::size_t> wanted; ///< outputs of the head; empty: it is none
    std::size_t classes;
    std::vector<std::size_t> strides;
    DistanceHead distances;
};

void PrintTo(const GridCase& c, std::ostream* out) { *out << c.name; }

class RecogniseDistances : public testing::TestWithParam<GridCase> {};

TEST_P(RecogniseDistances, ByShapes) {
    const GridCase& c = GetParam();
    const auto head = recognise_head(c.outputs, c.height, c.width);
    ASSERT_EQ(head.has_value(), !c.wanted.empty());
    const auto named = make_head(HeadForm::distances, c.outputs, c.height, c.width);
    ASSERT_EQ(named.has_value(), head.has_value());
    if (!head) {
        EXPECT_THAT(named.error().describe(), HasSubstr("NxAxclasses and NxAx4, 32, 64 or 68"));
        return;
    }
    EXPECT_EQ(*named, *head);
    EXPECT_EQ(head->form, HeadForm::distances);
    EXPECT_EQ(head->outputs, c.wanted);
    EXPECT_EQ(head->classes, c.classes);
    EXPECT_EQ(head->strides, c.strides);
    EXPECT_EQ(head->distances, c.distances);
}

/// Four grids of 800 x 608, of which the last is not whole: 12.5 x 9.5 cells are 13 x 10.
std::vector<OutputShape> picodet(std::int64_t scores, std::int64_t distances) {
    return {{"a", {1, 7600, scores}},   {"c", {1, 1900, scores}},    {"e", {1, 475, scores}},
            {"g", {1, 130, scores}},    {"b", {1, 7600, distances}}, {"d", {1, 1900, distances}},
            {"f", {1, 475, distances}}, {"h", {1, 130, distances}}};
}

INSTANTIATE_TEST_SUITE_P(
    Grids, RecogniseDistances,
    testing::Values(
        GridCase{
            "PicoDet", picodet(10, 32), 800, 608, {0, 1, 2, 3, 4, 5, 6, 7}, 10, {8, 16, 32, 64}, {8, 1, false, false}},
        GridCase{"DistancesFirst",
                 picodet(32, 80),
                 800,
                 608,
                 {4, 5, 6, 7, 0, 1, 2, 3},
                 80,
                 {8, 16, 32, 64},
                 {8, 1, false, false}},
        // Either may be the distances: scores of all grids come first.
        GridCase{"FourClasses",
                 picodet(4, 32),
                 800,
                 608,
                 {0, 1, 2, 3, 4, 5, 6, 7},
                 4,
                 {8, 16, 32, 64},
                 {8, 1, false, false}},
        GridCase{"FcosOf32Classes",
                 picodet(32, 4),
                 800,
                 608,
                 {0, 1, 2, 3, 4, 5, 6, 7},
                 32,
                 {8, 16, 32, 64},
                 {1, 1, false, false}},
        GridCase{"Maps",
                 {{"cls_8", {1, 20, 8, 12}},
                  {"reg_8", {1, 68, 8, 12}},
                  {"cls_16", {1, 20, 4, 6}},
                  {"reg_16", {1, 68, 4, 6}}},
                 64,
                 96,
                 {0, 2, 1, 3},
                 20,
                 {8, 16},
                 {17, 1, false, true}},
        GridCase{"MapsWithSums",
                 {{"1", {1, 64, 8, 8}},
                  {"2", {1, 80, 8, 8}},
                  {"3", {1, 1, 8, 8}},
                  {"4", {1, 64, 4, 4}},
                  {"5", {1, 80, 4, 4}},
                  {"6", {1, 1, 4, 4}}},
                 64,
                 64,
                 {1, 4, 0, 3},
                 80,
                 {8, 16},
                 {16, 1, false, true}},
        GridCase{
            "NamesTellSixtyFourClasses",
            {{"box_8", {1, 32, 8, 8}}, {"cls_8", {1, 64, 8, 8}}, {"box_16", {1, 32, 4, 4}}, {"cls_16", {1, 64, 4, 4}}},
            64,
            64,
            {1, 3, 0, 2},
            64,
            {8, 16},
            {8, 1, false, true}},
        GridCase{"NothingTellsSixtyFour",
                 {{"1", {1, 32, 8, 8}}, {"2", {1, 64, 8, 8}}, {"3", {1, 32, 4, 4}}, {"4", {1, 64, 4, 4}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        GridCase{"Scrfd",
                 {{"448", {12800, 1}, false},
                  {"471", {3200, 1}, false},
                  {"494", {800, 1}, false},
                  {"451", {12800, 4}, false},
                  {"474", {3200, 4}, false},
                  {"497", {800, 4}, false},
                  {"454", {12800, 10}, false},
                  {"477", {3200, 10}, false},
                  {"500", {800, 10}, false}},
                 640,
                 640,
                 {0, 1, 2, 3, 4, 5},
                 1,
                 {8, 16, 32},
                 {1, 2, true, false}},
        GridCase{
            "ScrfdOfSamples",
            {{"score_8", {-1, 128, 1}}, {"score_16", {-1, 32, 1}}, {"bbox_8", {-1, 128, 4}}, {"bbox_16", {-1, 32, 4}}},
            64,
            64,
            {0, 1, 2, 3},
            1,
            {8, 16},
            {1, 2, true, false}},
        GridCase{"NanoDetPlus", {{"output", {1, 3598, 112}}}, 416, 416, {0}, 80, {8, 16, 32, 64}, {8, 1, true, false}},
        GridCase{"NanoDetPlusWholeCells",
                 {{"output", {1, 2125, 112}}},
                 320,
                 320,
                 {0},
                 80,
                 {8, 16, 32, 64},
                 {8, 1, true, false}},
        GridCase{"CentrenessIsAnotherScore",
                 {{"1", {1, 80, 8, 8}},
                  {"2", {1, 4, 8, 8}},
                  {"3", {1, 1, 8, 8}},
                  {"4", {1, 80, 4, 4}},
                  {"5", {1, 4, 4, 4}},
                  {"6", {1, 1, 4, 4}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        GridCase{"Fcos",
                 {{"cls_8", {1, 80, 8, 8}},
                  {"cls_16", {1, 80, 4, 4}},
                  {"box_8", {1, 4, 8, 8}},
                  {"box_16", {1, 4, 4, 4}},
                  {"centerness_8", {1, 1, 8, 8}},
                  {"centerness_16", {1, 1, 4, 4}}},
                 64,
                 64,
                 {0, 1, 2, 3, 4, 5},
                 80,
                 {8, 16},
                 {1, 1, false, true, true, false}},
        GridCase{"FcosOfOneClass",
                 {{"ctr_8", {1, 64, 1}},
                  {"cls_8", {1, 64, 1}},
                  {"reg_8", {1, 64, 4}},
                  {"ctr_16", {1, 16, 1}},
                  {"cls_16", {1, 16, 1}},
                  {"reg_16", {1, 16, 4}}},
                 64,
                 64,
                 {1, 4, 2, 5, 0, 3},
                 1,
                 {8, 16},
                 {1, 1, false, false, true, false}},
        GridCase{"CentrenessOfOneGridOnly",
                 {{"cls_8", {1, 64, 3}},
                  {"reg_8", {1, 64, 4}},
                  {"ctr_8", {1, 64, 1}},
                  {"cls_16", {1, 16, 3}},
                  {"reg_16", {1, 16, 4}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        // As YOLOX's are before they are put together: no distances.
        GridCase{"ObjectnessWithoutPoints",
                 {{"cls_8", {1, 80, 8, 8}},
                  {"reg_8", {1, 4, 8, 8}},
                  {"obj_8", {1, 1, 8, 8}},
                  {"cls_16", {1, 80, 4, 4}},
                  {"reg_16", {1, 4, 4, 4}},
                  {"obj_16", {1, 1, 4, 4}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        GridCase{"YuNet",
                 {{"cls_8", {1, 6400, 1}},
                  {"cls_16", {1, 1600, 1}},
                  {"cls_32", {1, 400, 1}},
                  {"obj_8", {1, 6400, 1}},
                  {"obj_16", {1, 1600, 1}},
                  {"obj_32", {1, 400, 1}},
                  {"bbox_8", {1, 6400, 4}},
                  {"bbox_16", {1, 1600, 4}},
                  {"bbox_32", {1, 400, 4}},
                  {"kps_8", {1, 6400, 10}},
                  {"kps_16", {1, 1600, 10}},
                  {"kps_32", {1, 400, 10}}},
                 640,
                 640,
                 {0, 1, 2, 6, 7, 8, 3, 4, 5},
                 1,
                 {8, 16, 32},
                 {1, 1, false, false, true, true}},
        GridCase{"YuNetOfUnknownPoints",
                 {{"cls_8", {1, 64, 1}},
                  {"obj_8", {1, 64, 1}},
                  {"bbox_8", {1, 64, 4}},
                  {"kps_8", {1, 64, 8}},
                  {"cls_16", {1, 16, 1}},
                  {"obj_16", {1, 16, 1}},
                  {"bbox_16", {1, 16, 4}},
                  {"kps_16", {1, 16, 8}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        GridCase{"OneGrid", {{"cls", {1, 3, 8, 8}}, {"box", {1, 4, 8, 8}}}, 64, 64, {}, 0, {}, {}},
        GridCase{"ClassesDiffer",
                 {{"1", {1, 64, 3}}, {"2", {1, 16, 2}}, {"3", {1, 64, 32}}, {"4", {1, 16, 32}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}},
        GridCase{"OneOutputTooMany",
                 {{"1", {1, 64, 3}}, {"2", {1, 16, 3}}, {"3", {1, 64, 32}}, {"4", {1, 16, 32}}, {"5", {1, 7}}},
                 64,
                 64,
                 {},
                 0,
                 {},
                 {}}),
    [](const auto& info) { return info.param.name; });

/// Two grids of 64 x 32: 8 x 4 cells of stride 8 (rows 4, columns 8 of height 32, width 64), then 4 x 2.
TEST(DecodeDistances, BinsAreExpectedFromTheCellsCentre) {
    const std::vector<OutputShape> shapes{
        {"s8", {1, 32, 2}}, {"s16", {1, 8, 2}}, {"b8", {1, 32, 32}}, {"b16", {1, 8, 32}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    std::vector<HostTensor> outputs{filled({1, 32, 2}), filled({1, 8, 2}), filled({1, 32, 32}), filled({1, 8, 32})};
    // Row 1, column 2 of the grid of stride 16: centre (40, 24).
    const std::size_t cell = 4 + 2;
    outputs[1].as<float>()[cell * 2 + 1] = 0.75F;
    const auto bins = outputs[3].as<float>().subspan(cell * 32, 32);
    bins[1] = 50;                       // left: 1 stride
    bins[8 + 0] = bins[8 + 3] = 50;     // top: half of 0 and of 3
    bins[16 + 2] = 50 + std::log(3.0F); // right: three quarters of 2 ...
    bins[16 + 6] = 50;                  // ... and a quarter of 6
    for (std::size_t i = 0; i < 8; ++i)
        bins[24 + i] = 7; // bottom: all alike, 3.5
    const auto found = decode(*head, outputs, 0, {0.5F, 0.65F, 300});
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_EQ(found->size(), 1U);
    const Detection& detection = found->front();
    EXPECT_EQ(detection.class_index, 1);
    EXPECT_EQ(detection.score, 0.75F);
    EXPECT_NEAR(detection.box.left, 40 - 16, 1e-4);
    EXPECT_NEAR(detection.box.top, 24 - 1.5 * 16, 1e-4);
    EXPECT_NEAR(detection.box.right(), 40 + 3 * 16, 1e-4);
    EXPECT_NEAR(detection.box.bottom(), 24 + 3.5 * 16, 1e-4);
    const auto rows = decode_rows(*head, outputs, 0, {0.5F, 0.65F, 300});
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows->front().row, 32 + cell);
}

/// The same box as maps of a second sample, with logits for scores.
TEST(DecodeDistances, MapsAndLogits) {
    const std::vector<OutputShape> shapes{
        {"cls_8", {-1, 3, 4, 8}}, {"box_8", {-1, 32, 4, 8}}, {"cls_16", {-1, 3, 2, 4}}, {"box_16", {-1, 32, 2, 4}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    std::vector<HostTensor> outputs{filled({2, 3, 4, 8}, -9), filled({2, 32, 4, 8}), filled({2, 3, 2, 4}, -9),
                                    filled({2, 32, 2, 4})};
    // Row 3, column 5 of the grid of stride 8: centre (44, 28).
    const std::size_t cell = 3 * 8 + 5;
    outputs[0].as<float>()[3 * 32 + 2 * 32 + cell] = 0; // class 2: probability 1/2
    for (std::size_t side = 0; side < 4; ++side)
        outputs[1].as<float>()[32 * 32 + (side * 8 + side + 1) * 32 + cell] = 60; // 1, 2, 3, 4 strides
    EXPECT_THAT(*decode(*head, outputs, 0, {0.1F, 0.65F, 300}), IsEmpty());
    const auto found = decode(*head, outputs, 1, {0.1F, 0.65F, 300});
    ASSERT_TRUE(found) << found.error().describe();
    EXPECT_THAT(*found, ElementsAre(Detection{{44 - 8, 28 - 16, 8 + 24, 16 + 32}, 0.5F, 2}));
}

TEST(DecodeDistances, NanoDetPlusMeasuresFromTheCorner) {
    // 4 x 4 and 2 x 2 and 1 x 1 and, rounded up, 1 x 1 cells.
    const auto head = recognise_head(std::vector<OutputShape>{{"output", {1, 22, 34}}}, 32, 32);
    ASSERT_TRUE(head);
    HostTensor output = filled({1, 22, 34});
    const auto row = output.as<float>().subspan((16 + 3) * 34, 34); // row 1, column 1 of stride 16
    row[1] = 0.5F;
    for (std::size_t side = 0; side < 4; ++side)
        row[2 + side * 8 + 1] = 60; // one stride each
    EXPECT_THAT(*decode(*head, {&output, 1}, 0, {0.1F, 0.65F, 300}), ElementsAre(Detection{{0, 0, 32, 32}, 0.5F, 1}));

    const auto three = make_head(HeadForm::distances, std::vector<OutputShape>{{"output", {1, 21, 34}}}, 32, 32);
    ASSERT_TRUE(three); // NanoDet's, which YOLOX's may be as well
    output = HostTensor("out", DataType::float32, {1, 21, 34});
    const auto same = output.as<float>().subspan((16 + 3) * 34, 34);
    same[1] = 0.5F;
    for (std::size_t side = 0; side < 4; ++side)
        same[2 + side * 8 + 1] = 60;
    EXPECT_THAT(*decode(*three, {&output, 1}, 0, {0.1F, 0.65F, 300}), ElementsAre(Detection{{8, 8, 32, 32}, 0.5F, 1}));
}

/// Two anchors a cell, no axis for the sample; in strides, or where the values are so large in pixels.
TEST(DecodeDistances, PlainDistancesInStridesOrPixels) {
    const std::vector<OutputShape> shapes{{"s8", {32, 1}, false}, {"s16", {8, 1}, false},  {"b8", {32, 4}, false},
                                          {"b16", {8, 4}, false}, {"k8", {32, 10}, false}, {"k16", {8, 10}, false}};
    const auto head = recognise_head(shapes, 32, 32);
    ASSERT_TRUE(head);
    EXPECT_TRUE(head->one_sample);
    std::vector<HostTensor> outputs{filled({32, 1}),   filled({8, 1}),   filled({32, 4}, 2),
                                    filled({8, 4}, 2), filled({32, 10}), filled({8, 10})};
    outputs[1].as<float>()[2 * 2 + 1] = 0.5F; // the second anchor of row 1, column 0: corner (0, 16)
    const float sides[4]{0.25F, 0.5F, 1, 0.75F};
    std::copy(sides, sides + 4, outputs[3].as<float>().begin() + 5 * 4);
    EXPECT_THAT(*decode(*head, outputs, 0, {}), ElementsAre(Detection{{-4, 8, 20, 20}, 0.5F, 0}));

    for (std::size_t i : {2, 3})
        for (float& value : outputs[i].as<float>())
            value *= i == 2 ? 8 : 16;
    EXPECT_THAT(*decode(*head, outputs, 0, {}), ElementsAre(Detection{{-4, 8, 20, 20}, 0.5F, 0}));
}

/// FCOS: the square root of class times centreness, both logits or both probabilities.
TEST(DecodeDistances, CentrenessGoesIntoTheScore) {
    const std::vector<OutputShape> shapes{{"cls_8", {1, 2, 4, 8}},  {"box_8", {1, 4, 4, 8}},  {"ctr_8", {1, 1, 4, 8}},
                                          {"cls_16", {1, 2, 2, 4}}, {"box_16", {1, 4, 2, 4}}, {"ctr_16", {1, 1, 2, 4}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    for (const bool logits : {true, false}) {
        std::vector<HostTensor> outputs;
        for (const OutputShape& shape : shapes)
            outputs.push_back(filled(shape.shape, shape.name.starts_with("box") ? 1.0F : logits ? -20.0F : 0.0F));
        const std::size_t cell = 8 + 3; // row 1, column 3 of stride 8: centre (28, 12)
        outputs[0].as<float>()[32 + cell] = logits ? std::log(4.0F) : 0.8F;
        outputs[2].as<float>()[cell] = logits ? 0.0F : 0.5F;
        const auto found = decode(*head, outputs, 0, {0.1F, 0.65F, 300});
        ASSERT_TRUE(found) << found.error().describe();
        ASSERT_EQ(found->size(), 1U);
        EXPECT_NEAR(found->front().score, std::sqrt(0.8 * 0.5), 1e-6);
        EXPECT_EQ(found->front().class_index, 1);
        EXPECT_EQ(found->front().box, (Box{20, 4, 16, 16}));
        outputs[2].as<float>()[cell] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_THAT(*decode(*head, outputs, 0, {}),
                    testing::Not(testing::Contains(testing::Field(&Detection::box, (Box{20, 4, 16, 16})))));
        EXPECT_FALSE(decode(*head, std::span(outputs).first(5), 0, {}));
    }
    EXPECT_EQ(parts_of(*head)[2], (OutputPart{2, 1, 0, 1, Meaning::objectness}));
}

/// YuNet: offsets from the cell's corner and logarithms of sizes, in strides; int8 may pass 1 by a little.
TEST(DecodeDistances, YuNetsBoxesAreCentresAndSizes) {
    const std::vector<OutputShape> shapes{{"cls_8", {1, 32, 1}},  {"cls_16", {1, 8, 1}},  {"obj_8", {1, 32, 1}},
                                          {"obj_16", {1, 8, 1}},  {"bbox_8", {1, 32, 4}}, {"bbox_16", {1, 8, 4}},
                                          {"kps_8", {1, 32, 10}}, {"kps_16", {1, 8, 10}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    std::vector<HostTensor> outputs;
    for (const OutputShape& shape : shapes)
        outputs.push_back(filled(shape.shape));
    const std::size_t cell = 4 + 2; // row 1, column 2 of stride 16
    outputs[1].as<float>()[cell] = 1.02F;
    outputs[3].as<float>()[cell] = 0.81F;
    const float box[4]{0.25F, 0.5F, std::log(2.0F), std::log(0.5F)};
    std::copy(box, box + 4, outputs[5].as<float>().begin() + cell * 4);
    const auto found = decode(*head, outputs, 0, {0.1F, 0.65F, 300});
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_EQ(found->size(), 1U);
    EXPECT_NEAR(found->front().score, 0.9, 1e-6);
    EXPECT_NEAR(found->front().box.left, 2.25 * 16 - 16, 1e-4);
    EXPECT_NEAR(found->front().box.top, 1.5 * 16 - 4, 1e-4);
    EXPECT_NEAR(found->front().box.width, 32, 1e-4);
    EXPECT_NEAR(found->front().box.height, 8, 1e-4);
    ASSERT_EQ(parts_of(*head).size(), 8U);
    EXPECT_EQ(parts_of(*head)[1], (OutputPart{4, 2, 0, 2, Meaning::box_centre}));
    EXPECT_EQ(parts_of(*head)[2], (OutputPart{4, 2, 2, 4, Meaning::box_size}));
    EXPECT_EQ(parts_of(*head)[3], (OutputPart{2, 2, 0, 1, Meaning::objectness}));
}

TEST(DecodeDistances, WhatIsNotFiniteIsNoDetection) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<OutputShape> shapes{
        {"s8", {1, 32, 2}}, {"s16", {1, 8, 2}}, {"b8", {1, 32, 32}}, {"b16", {1, 8, 32}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    std::vector<HostTensor> outputs{filled({1, 32, 2}), filled({1, 8, 2}), filled({1, 32, 32}), filled({1, 8, 32})};
    outputs[0].as<float>()[0] = nan;
    outputs[0].as<float>()[2] = infinity;
    for (std::size_t cell : {2, 3, 4}) // scores are good, a bin is not
        outputs[0].as<float>()[cell * 2] = 0.5F;
    outputs[2].as<float>()[2 * 32 + 5] = nan;
    outputs[2].as<float>()[3 * 32 + 9] = infinity;
    outputs[2].as<float>()[4 * 32 + 31] = -infinity;
    EXPECT_THAT(*decode(*head, outputs, 0, {}), IsEmpty());
}

TEST(DecodeDistances, OtherOutputsAreRefused) {
    const std::vector<OutputShape> shapes{
        {"s8", {1, 32, 2}}, {"s16", {1, 8, 2}}, {"b8", {1, 32, 32}}, {"b16", {1, 8, 32}}};
    const auto head = recognise_head(shapes, 32, 64);
    ASSERT_TRUE(head);
    const std::vector<HostTensor> good{filled({1, 32, 2}), filled({1, 8, 2}), filled({1, 32, 32}), filled({1, 8, 32})};
    ASSERT_TRUE(decode(*head, good, 0, {}));
    EXPECT_FALSE(decode(*head, good, 1, {}));
    EXPECT_FALSE(decode(*head, std::span(good).first(3), 0, {}));
    for (const Shape& shape : {Shape{1, 8, 64}, Shape{1, 9, 32}, Shape{8, 32}, Shape{}, Shape{1, 32, 2, 4}}) {
        std::vector<HostTensor> outputs = good;
        outputs[3] = filled(shape);
        const auto found = decode(*head, outputs, 0, {});
        ASSERT_FALSE(found) << to_string(shape);
        EXPECT_EQ(found.error().code, ErrorCode::mismatch);
        EXPECT_THAT(found.error().describe(), HasSubstr("not float32 8x32 for each sample"));
    }
}

TEST(DecodeDistances, PartsAreScoresAndDistances) {
    const std::vector<OutputShape> shapes{
        {"s8", {1, 32, 2}}, {"s16", {1, 8, 2}}, {"b8", {1, 32, 32}}, {"b16", {1, 8, 32}}};
    EXPECT_THAT(parts_of(recognise_head(shapes, 32, 64).value()),
                ElementsAre(OutputPart{0, 2, 0, 2, Meaning::class_score}, OutputPart{2, 2, 0, 32, Meaning::box_bins},
                            OutputPart{1, 2, 0, 2, Meaning::class_score}, OutputPart{3, 2, 0, 32, Meaning::box_bins}));
    EXPECT_THAT(parts_of(recognise_head(std::vector<OutputShape>{{"output", {1, 22, 34}}}, 32, 32).value()),
                ElementsAre(OutputPart{0, 2, 0, 2, Meaning::class_score}, OutputPart{0, 2, 2, 34, Meaning::box_bins}));
    const std::vector<OutputShape> maps{
        {"cls_8", {1, 3, 4, 8}}, {"box_8", {1, 4, 4, 8}}, {"cls_16", {1, 3, 2, 4}}, {"box_16", {1, 4, 2, 4}}};
    EXPECT_EQ(parts_of(recognise_head(maps, 32, 64).value())[1], (OutputPart{1, 1, 0, 4, Meaning::box_edges}));
}

} // namespace
} // namespace lathe
