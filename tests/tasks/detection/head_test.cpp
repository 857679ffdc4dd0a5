#include "tasks/detection/head.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostTensor tensor(const Shape& shape, float fill = 0) {
    HostTensor made("out", DataType::float32, shape);
    for (float& value : made.as<float>())
        value = fill;
    return made;
}

struct ShapeCase {
    const char* name;
    std::vector<OutputShape> outputs;
    std::size_t side;
    const char* form; ///< empty: none
    std::size_t classes;
};

void PrintTo(const ShapeCase& c, std::ostream* out) { *out << c.name; }

class Recognise : public testing::TestWithParam<ShapeCase> {};

TEST_P(Recognise, ByShapes) {
    const ShapeCase& c = GetParam();
    const auto head = recognise_head(c.outputs, c.side, c.side);
    ASSERT_EQ(head.has_value(), std::string(c.form) != "");
    if (!head) return;
    EXPECT_STREQ(to_string(head->form), c.form);
    EXPECT_EQ(head->classes, c.classes);
    const auto named = make_head(head->form, c.outputs, c.side, c.side);
    ASSERT_TRUE(named) << named.error().describe();
    EXPECT_EQ(*named, *head); // told or recognised, it is the same
}

INSTANTIATE_TEST_SUITE_P(
    Heads, Recognise,
    testing::Values(
        ShapeCase{"YoloxNano", {{"output", {-1, 3549, 85}}}, 416, "yolox", 80},
        ShapeCase{"YoloxOneClass", {{"output", {1, 8400, 6}}}, 640, "yolox", 1},
        ShapeCase{"YoloxStride64", {{"output", {1, 34000, 85}}}, 1280, "yolox", 80},
        ShapeCase{"Yolov5", {{"output0", {1, 25200, 85}}}, 640, "yolov5", 80},
        ShapeCase{"Yolov8", {{"output0", {1, 84, 8400}}}, 640, "yolov8", 80},
        ShapeCase{"NudeNet", {{"output0", {-1, 22, 2100}}}, 320, "yolov8", 18},
        ShapeCase{"Yolov8Masks", {{"output0", {1, 116, 8400}}, {"output1", {1, 32, 160, 160}}}, 640, "yolov8", 80},
        ShapeCase{"Yolov10", {{"output0", {1, 300, 6}}}, 640, "end-to-end", 0},
        ShapeCase{"Detr", {{"logits", {1, 100, 92}}, {"pred_boxes", {1, 100, 4}}}, 800, "detr", 91},
        ShapeCase{"RtDetr", {{"logits", {1, 300, 80}}, {"pred_boxes", {1, 300, 4}}}, 640, "rt-detr", 80},
        ShapeCase{"RfDetrBoxesFirst", {{"dets", {1, 300, 4}}, {"labels", {1, 300, 91}}}, 560, "rt-detr", 91},
        ShapeCase{"Ssd", {{"scores", {1, 4420, 2}}, {"boxes", {1, 4420, 4}}}, 320, "ssd", 1},
        ShapeCase{"Torchvision", {{"boxes", {-1, 4}}, {"labels", {-1}}, {"scores", {-1}}}, 320, "lists", 0},
        ShapeCase{
            "RtDetrInPixels", {{"labels", {-1, 300}}, {"boxes", {-1, 300, 4}}, {"scores", {-1, 300}}}, 640, "lists", 0},
        ShapeCase{"Batched", {{"bboxes", {1, -1, 4}}, {"labels", {1, -1}}, {"scores", {1, -1}}}, 300, "lists", 0},
        ShapeCase{"YoloNas", {{"boxes", {1, 8400, 4}}, {"scores", {1, 8400, 80}}}, 640, "yolo-nas", 80},
        ShapeCase{"DamoYolo", {{"output", {1, 8400, 80}}, {"748", {1, 8400, 4}}}, 640, "yolo-nas", 80},
        ShapeCase{"YoloNasOfFour", {{"bboxes", {1, 8400, 4}}, {"scores", {1, 8400, 4}}}, 640, "yolo-nas", 4},
        ShapeCase{"TwoOfFourWithoutNames", {{"a", {1, 8400, 4}}, {"b", {1, 8400, 4}}}, 640, "", 0},
        ShapeCase{"OneMoreThanTheCells", {{"boxes", {1, 8401, 4}}, {"scores", {1, 8401, 81}}}, 640, "ssd", 80},
        ShapeCase{"Mmdeploy", {{"dets", {-1, 100, 5}}, {"labels", {-1, 100}}}, 640, "mmdeploy", 0},
        ShapeCase{"KerasYolov3", {{"b", {1, 10647, 4}}, {"s", {1, 80, 10647}}, {"i", {-1, 3}}}, 416, "nms-indices", 80},
        ShapeCase{"KerasTinyYolov3",
                  {{"i", {1, -1, 3}}, {"s", {-1, 80, 2535}}, {"b", {-1, 2535, 4}}},
                  416,
                  "nms-indices",
                  80},
        ShapeCase{"IndicesOfOthers", {{"b", {1, 100, 4}}, {"s", {1, 80, 99}}, {"i", {-1, 3}}}, 416, "", 0},
        ShapeCase{"MmdeployOne", {{"labels", {-1}}, {"dets", {-1, 5}}}, 640, "mmdeploy", 0},
        ShapeCase{"MmdeployMasks",
                  {{"dets", {-1, 100, 5}}, {"labels", {-1, 100}}, {"masks", {-1, 100, 28, 28}}},
                  640,
                  "mmdeploy",
                  0},
        ShapeCase{"FiveAndWhat", {{"dets", {-1, 100, 5}}, {"other", {-1, 100}}}, 640, "", 0},
        ShapeCase{"Paddle", {{"nms_0", {-1, 6}, false}, {"nms_1", {1}}}, 640, "paddle", 0},
        ShapeCase{"Yolov7Nms", {{"output", {-1, 7}, false}}, 640, "yolov7-nms", 0},
        ShapeCase{"ClassifierOfSeven", {{"output", {-1, 7}}}, 224, "", 0},
        ShapeCase{"ClassifierOfSixAndMore", {{"output", {-1, 6}}, {"number", {-1}}}, 224, "", 0},
        ShapeCase{"Classifier", {{"logits", {1, 1000}}}, 224, "", 0},
        ShapeCase{"Segmenter", {{"out", {1, 21, 520, 520}}}, 520, "", 0},
        ShapeCase{"Encoder", {{"last_hidden_state", {1, 197, 768}}}, 224, "", 0},
        ShapeCase{"ThreeLists", {{"a", {-1, 4}}, {"b", {-1}}, {"c", {-1}}}, 320, "", 0},
        ShapeCase{"Nothing", {}, 320, "", 0}),
    [](const auto& info) { return info.param.name; });

TEST(DetectionHead, NamesGoThereAndBack) {
    for (const char* name : {"yolox", "yolov5", "yolov8", "distances", "yolo-nas", "end-to-end", "detr", "rt-detr",
                             "ssd", "lists", "mmdeploy", "paddle", "yolov7-nms", "nms-indices"}) {
        const auto form = head_form_from_name(name);
        ASSERT_TRUE(form) << name;
        EXPECT_STREQ(to_string(*form), name);
        EXPECT_THAT(head_form_names(), HasSubstr(name));
    }
    EXPECT_FALSE(head_form_from_name("yolo"));
}

TEST(DetectionHead, NamedWhereNothingFitsSaysWhatWould) {
    const auto head = make_head(HeadForm::detr, std::vector<OutputShape>{{"logits", {1, 1000}}}, 224, 224);
    ASSERT_FALSE(head);
    EXPECT_EQ(head.error().code, ErrorCode::mismatch);
    EXPECT_THAT(head.error().describe(), HasSubstr("logits 1x1000"));
    EXPECT_THAT(head.error().describe(), HasSubstr("NxQx4"));
}

DetectionHead head_of(std::vector<OutputShape> outputs, std::size_t side) {
    return recognise_head(outputs, side, side).value();
}

/// Cell (x 2, y 1) of the second grid of a 64 x 64 input: 64 cells of stride 8, then row 1, column 2 of 4 x 4.
TEST(Decode, YoloxAddsTheCellAndMultipliesTheStride) {
    const DetectionHead head = head_of({{"output", {1, 84, 7}}}, 64);
    ASSERT_EQ(head.form, HeadForm::yolox);
    HostTensor output = tensor({1, 84, 7});
    const std::size_t row = 64 + 4 + 2;
    const float values[7]{0.5F, 0.25F, std::log(2.0F), std::log(1.5F), 0.5F, 0.125F, 0.75F};
    std::copy(values, values + 7, output.as<float>().begin() + static_cast<std::ptrdiff_t>(row * 7));
    const auto found = decode(head, {&output, 1}, 0, {0.2F, 0.65F, 300});
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_EQ(found->size(), 1U);
    const Detection& detection = found->front();
    EXPECT_EQ(detection.class_index, 1);
    EXPECT_FLOAT_EQ(detection.score, 0.5F * 0.75F);
    EXPECT_NEAR(detection.box.width, 32, 1e-4);
    EXPECT_NEAR(detection.box.height, 24, 1e-4);
    EXPECT_NEAR(detection.box.left, 2.5 * 16 - 16, 1e-4);
    EXPECT_NEAR(detection.box.top, 1.25 * 16 - 12, 1e-4);
}

TEST(Decode, YoloxThatIsDecodedAlreadyIsTakenAsItIs) {
    const DetectionHead head = head_of({{"output", {1, 84, 6}}}, 64);
    HostTensor output = tensor({1, 84, 6});
    auto values = output.as<float>();
    for (std::size_t i = 0; i < 84; ++i)
        values[i * 6] = 32; // centres all over the picture
    const float row[6]{20, 30, 8, 6, 1, 0.5F};
    std::copy(row, row + 6, values.begin());
    const auto found = decode(head, {&output, 1}, 0, {0.2F, 0.65F, 300});
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().box, (Box{16, 27, 8, 6}));
}

TEST(Decode, Yolov8ReadsColumnsAndSuppressesWithinAClass) {
    const DetectionHead head = head_of({{"output0", {2, 6, 84}}}, 64);
    ASSERT_EQ(head.form, HeadForm::yolov8);
    ASSERT_TRUE(head.anchors_last);
    HostTensor output = tensor({2, 6, 84});
    const auto put = [&](std::size_t sample, std::size_t anchor, std::vector<float> values) {
        for (std::size_t i = 0; i < values.size(); ++i)
            output.as<float>()[(sample * 6 + i) * 84 + anchor] = values[i];
    };
    put(0, 3, {30, 30, 20, 20, 0.9F, 0.3F});
    put(0, 4, {31, 30, 20, 20, 0.8F, 0.0F}); // hidden by the one before, IoU 0.90
    put(0, 5, {38, 30, 20, 20, 0.7F, 0.0F}); // IoU 0.43 stays
    put(1, 0, {10, 10, 4, 4, 0.0F, 0.6F});
    const auto first = decode(head, {&output, 1}, 0, {0.25F, 0.65F, 300});
    ASSERT_TRUE(first);
    ASSERT_EQ(first->size(), 3U);
    EXPECT_EQ((*first)[0], (Detection{{20, 20, 20, 20}, 0.9F, 0}));
    EXPECT_EQ((*first)[1], (Detection{{28, 20, 20, 20}, 0.7F, 0}));
    EXPECT_EQ((*first)[2], (Detection{{20, 20, 20, 20}, 0.3F, 1})); // another class hides nothing
    const auto second = decode(head, {&output, 1}, 1, {0.25F, 0.65F, 300});
    ASSERT_TRUE(second);
    EXPECT_THAT(*second, ElementsAre(Detection{{8, 8, 4, 4}, 0.6F, 1}));
    EXPECT_THAT(*decode(head, {&output, 1}, 0, {0.25F, 0.65F, 1}), testing::SizeIs(1));
}

TEST(Decode, Yolov5MultipliesObjectness) {
    const DetectionHead head = head_of({{"output0", {1, 252, 7}}}, 64);
    ASSERT_EQ(head.form, HeadForm::yolov5);
    HostTensor output = tensor({1, 252, 7});
    const float row[7]{10, 20, 4, 8, 0.5F, 0.5F, 1};
    std::copy(row, row + 7, output.as<float>().begin() + 7 * 100);
    const auto found = decode(head, {&output, 1}, 0, {0.2F, 0.65F, 300});
    ASSERT_TRUE(found);
    EXPECT_THAT(*found, ElementsAre(Detection{{8, 16, 4, 8}, 0.5F, 1}, Detection{{8, 16, 4, 8}, 0.25F, 0}));
}

TEST(Decode, EndToEndIsTakenWithoutSuppression) {
    const DetectionHead head = head_of({{"output0", {1, 3, 6}}}, 64);
    HostTensor output = tensor({1, 3, 6});
    const float rows[18]{1, 2, 11, 22, 0.5F, 7, 1, 2, 11, 22, 0.9F, 7, 0, 0, 5, 5, 0.8F, -1};
    std::copy(rows, rows + 18, output.as<float>().begin());
    const auto found = decode(head, {&output, 1}, 0, {0.2F, 0.65F, 300});
    ASSERT_TRUE(found);
    EXPECT_THAT(*found, ElementsAre(Detection{{1, 2, 10, 20}, 0.9F, 7}, Detection{{1, 2, 10, 20}, 0.5F, 7}));
}

TEST(Decode, DetrLeavesNoObjectOutAndRtDetrJudgesEachClass) {
    std::vector<OutputShape> shapes{{"logits", {1, 100, 3}}, {"pred_boxes", {1, 100, 4}}};
    std::vector<HostTensor> outputs{tensor({1, 100, 3}, -20), tensor({1, 100, 4})};
    const auto logits = outputs[0].as<float>();
    for (std::size_t i = 0; i < 100; ++i)
        logits[i * 3 + 2] = 20; // no object
    logits[3] = 2;
    logits[4] = 1;
    logits[5] = 0;
    const float place[4]{0.5F, 0.25F, 0.5F, 0.125F};
    std::copy(place, place + 4, outputs[1].as<float>().begin() + 4);
    const DetectionHead detr = head_of(shapes, 64);
    ASSERT_EQ(detr.form, HeadForm::detr);
    const auto found = decode(detr, outputs, 0, {0.5F, 0.65F, 300});
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().box, (Box{16, 12, 32, 8}));
    EXPECT_EQ(found->front().class_index, 0);
    EXPECT_NEAR(found->front().score, std::exp(2) / (std::exp(2) + std::exp(1) + 1), 1e-6);

    const auto rt = make_head(HeadForm::rt_detr, shapes, 64, 64);
    ASSERT_TRUE(rt);
    const auto each = decode(*rt, outputs, 0, {0.7F, 0.65F, 1000});
    ASSERT_TRUE(each);
    // 99 "no object"s of certainty 1, as a class of their own, and classes 0 and 1 of query 1.
    ASSERT_EQ(each->size(), 101U);
    EXPECT_NEAR((*each)[99].score, 1 / (1 + std::exp(-2)), 1e-6);
    EXPECT_NEAR((*each)[100].score, 1 / (1 + std::exp(-1)), 1e-6);
}

TEST(Decode, SsdSkipsTheBackground) {
    std::vector<OutputShape> shapes{{"scores", {1, 1000, 2}}, {"boxes", {1, 1000, 4}}};
    const DetectionHead head = head_of(shapes, 100);
    std::vector<HostTensor> outputs{tensor({1, 1000, 2}), tensor({1, 1000, 4})};
    outputs[0].as<float>()[0] = 1;
    outputs[0].as<float>()[3] = 0.75F;
    const float place[4]{0.25F, 0.5F, 0.5F, 1};
    std::copy(place, place + 4, outputs[1].as<float>().begin() + 4);
    EXPECT_THAT(*decode(head, outputs, 0, {0.5F, 0.65F, 300}), ElementsAre(Detection{{25, 50, 25, 50}, 0.75F, 0}));
}

/// As an SSD's, but in pixels, without a background, and suppressed within a class.
TEST(Decode, YoloNasIsInPixelsAndHasNoBackground) {
    const DetectionHead head = head_of({{"boxes", {2, 84, 4}}, {"scores", {2, 84, 2}}}, 64);
    ASSERT_EQ(head.form, HeadForm::yolo_nas);
    std::vector<HostTensor> outputs{tensor({2, 84, 4}), tensor({2, 84, 2})};
    const float boxes[12]{10, 20, 30, 60, 11, 20, 31, 60, 0, 0, 1, 0.5F};
    std::copy(boxes, boxes + 12, outputs[0].as<float>().begin() + 84 * 4);
    const float scores[6]{0.75F, 0, 0.5F, 0.625F, 0, 0.25F};
    std::copy(scores, scores + 6, outputs[1].as<float>().begin() + 84 * 2);
    EXPECT_THAT(*decode(head, outputs, 0, {}), IsEmpty());
    EXPECT_THAT(*decode(head, outputs, 1, {}),
                ElementsAre(Detection{{10, 20, 20, 40}, 0.75F, 0}, Detection{{11, 20, 20, 40}, 0.625F, 1},
                            Detection{{0, 0, 1, 0.5}, 0.25F, 1})); // not a share of the input
    outputs[1] = tensor({2, 84, 3});
    const auto other = decode(head, outputs, 0, {});
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().describe(), HasSubstr("2 scores"));
}

TEST(Decode, ListsWithAndWithoutSampleInPixelsOrShares) {
    DetectionHead head = head_of({{"boxes", {-1, 4}}, {"labels", {-1}}, {"scores", {-1}}}, 200);
    EXPECT_THAT(head.outputs, ElementsAre(0, 2, 1));
    EXPECT_TRUE(head.one_sample);
    std::vector<HostTensor> outputs{tensor({2, 4}), tensor({2}), tensor({2})};
    const float boxes[8]{10, 20, 30, 60, 0, 0, 5, 5};
    std::copy(boxes, boxes + 8, outputs[0].as<float>().begin());
    outputs[1].as<float>()[0] = 3;
    outputs[2].as<float>()[0] = 0.5F;
    EXPECT_THAT(*decode(head, outputs, 0, {}), ElementsAre(Detection{{10, 20, 20, 40}, 0.5F, 3}));

    outputs[0].shape = {1, 2, 4};
    outputs[1].shape = outputs[2].shape = {1, 2};
    for (float& value : outputs[0].as<float>())
        value /= 100;
    EXPECT_THAT(decode(head, outputs, 0, {})->front().box.left, testing::DoubleNear(20, 1e-4));
    head.vertical_first = true;
    EXPECT_THAT(decode(head, outputs, 0, {})->front().box.left, testing::DoubleNear(40, 1e-4));

    outputs = {tensor({0, 4}), tensor({0}), tensor({0})};
    EXPECT_THAT(*decode(head, outputs, 0, {}), IsEmpty()); // nothing found
}

TEST(Decode, WhatIsNotFiniteIsNoDetection) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const DetectionHead head = head_of({{"output", {1, 84, 6}}}, 64);
    HostTensor output = tensor({1, 84, 6});
    const auto values = output.as<float>();
    const float rows[3][6]{{0, 0, 1, 1, nan, 1}, {nan, 0, 1, 1, 1, 1}, {0, 0, infinity, 1, 1, 1}};
    for (std::size_t i = 0; i < 3; ++i)
        std::copy(rows[i], rows[i] + 6, values.begin() + static_cast<std::ptrdiff_t>(i * 6));
    EXPECT_THAT(*decode(head, {&output, 1}, 0, {}), IsEmpty());
    for (float& value : values)
        value = nan;
    EXPECT_THAT(*decode(head, {&output, 1}, 0, {}), IsEmpty());
}

TEST(Decode, OtherOutputsAreRefused) {
    const DetectionHead head = head_of({{"output", {1, 84, 6}}}, 64);
    for (const Shape& shape : {Shape{1, 84}, Shape{1, 83, 6}, Shape{1, 84, 7}, Shape{0, 84, 6}}) {
        HostTensor output = tensor(shape);
        const auto found = decode(head, {&output, 1}, 0, {});
        ASSERT_FALSE(found) << to_string(shape);
        EXPECT_EQ(found.error().code, ErrorCode::mismatch);
    }
    EXPECT_FALSE(decode(head, {}, 0, {}));
    HostTensor output = tensor({1, 84, 6});
    EXPECT_FALSE(decode(head, {&output, 1}, 1, {})); // a second sample
}

TEST(DetectionHead, PartsCoverEveryValueOnce) {
    for (const auto& [shapes, values] : std::vector<std::pair<std::vector<OutputShape>, std::size_t>>{
             {{{"output", {1, 84, 25}}}, 25}, {{{"output", {1, 24, 84}}}, 24}, {{{"output", {1, 20, 6}}}, 6}}) {
        const auto parts = parts_of(head_of(shapes, 64));
        std::size_t next = 0;
        for (const OutputPart& part : parts) {
            EXPECT_EQ(part.begin, next);
            next = part.end;
        }
        EXPECT_EQ(next, values);
    }
}

} // namespace
} // namespace lathe
