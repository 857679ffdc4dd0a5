#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/detection/head.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostTensor holding(const Shape& shape, std::initializer_list<float> values) {
    HostTensor made("out", DataType::float32, shape);
    std::ranges::copy(values, made.as<float>().begin());
    return made;
}

DetectionHead named(HeadForm form, const std::vector<OutputShape>& outputs) {
    const auto head = make_head(form, outputs, 100, 200);
    EXPECT_TRUE(head) << head.error().describe();
    return head ? *head : DetectionHead{};
}

TEST(ReadyDetections, MmdeployOfTwoSamples) {
    const DetectionHead head = named(HeadForm::mmdeploy, {{"labels", {-1, 2}}, {"dets", {-1, 2, 5}}});
    EXPECT_FALSE(head.one_sample);
    const std::vector<HostTensor> outputs{
        holding({2, 2}, {3, 0, 1, 5}),
        holding({2, 2, 5}, {10, 20, 30, 60, 0.5F, 0, 0, 0, 0, 0, 1, 1, 2, 3, 0.25F, 1, 1, 2, 3, 0.75F})};
    EXPECT_THAT(*decode(head, outputs, 0, {}), ElementsAre(Detection{{10, 20, 20, 40}, 0.5F, 3}));
    // No suppression: the graph has done it. And small boxes are no shares of the input.
    EXPECT_THAT(*decode(head, outputs, 1, {}),
                ElementsAre(Detection{{1, 1, 1, 2}, 0.75F, 5}, Detection{{1, 1, 1, 2}, 0.25F, 1}));
    EXPECT_FALSE(decode(head, outputs, 2, {}));
    EXPECT_THAT(parts_of(head),
                ElementsAre(OutputPart{1, 2, 0, 4, Meaning::box_edges}, OutputPart{1, 2, 4, 5, Meaning::class_score}));
}

TEST(ReadyDetections, MmdeployOfOneSample) {
    // Named, so that the labels may be called anything.
    const DetectionHead head = named(HeadForm::mmdeploy, {{"0", {-1, 5}}, {"1", {-1}}});
    EXPECT_TRUE(head.one_sample);
    EXPECT_THAT(parts_of(head), IsEmpty());
    std::vector<HostTensor> outputs{holding({1, 5}, {10, 20, 30, 60, 0.5F}), holding({1}, {7})};
    EXPECT_THAT(*decode(head, outputs, 0, {}), ElementsAre(Detection{{10, 20, 20, 40}, 0.5F, 7}));
    outputs[1] = holding({2}, {7, 7});
    const auto found = decode(head, outputs, 0, {});
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().describe(), HasSubstr("1 detections"));
    outputs = {holding({0, 5}, {}), holding({0}, {})};
    EXPECT_THAT(*decode(head, outputs, 0, {}), IsEmpty());
}

TEST(ReadyDetections, PaddlesRowsBeginWithTheClass) {
    const DetectionHead head = named(HeadForm::paddle, {{"rows", {-1, 6}}});
    EXPECT_TRUE(head.one_sample);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const HostTensor rows =
        holding({4, 6}, {2, 0.5F, 10, 20, 30, 60, -1, 0.9F, 0, 0, 5, 5, nan, 0.9F, 0, 0, 5, 5, 1, 0.75F, 0, 0, 5, nan});
    EXPECT_THAT(*decode(head, {&rows, 1}, 0, {}), ElementsAre(Detection{{10, 20, 20, 40}, 0.5F, 2}));
}

TEST(ReadyDetections, Yolov7sRowsBeginWithTheSample) {
    const DetectionHead head = named(HeadForm::yolov7_nms, {{"output", {-1, 7}}});
    const HostTensor rows =
        holding({3, 7}, {0, 10, 20, 30, 60, 2, 0.5F, 1, 0, 0, 9, 9, 2, 0.5F, 0, 1, 2, 4, 6, 1, 0.75F});
    EXPECT_THAT(*decode(head, {&rows, 1}, 0, {}),
                ElementsAre(Detection{{1, 2, 3, 4}, 0.75F, 1}, Detection{{10, 20, 20, 40}, 0.5F, 2}));
    const HostTensor six = holding({1, 6}, {0, 1, 2, 3, 4, 5});
    const auto found = decode(head, {&six, 1}, 0, {});
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().describe(), HasSubstr("7 values a detection"));
}

/// ONNX's NonMaxSuppression: boxes are top, left, bottom, right, and indices say sample, class and anchor.
TEST(ReadyDetections, NmsIndicesNameWhatIsLeft) {
    const DetectionHead head = named(HeadForm::nms_indices, {{"a", {-1, 2, 4}}, {"b", {-1, 3, 2}}, {"c", {-1, 3}}});
    EXPECT_EQ(head.classes, 3U);
    EXPECT_TRUE(head.one_sample);
    EXPECT_THAT(parts_of(head), IsEmpty());
    std::vector<HostTensor> outputs{holding({1, 2, 4}, {20, 10, 60, 30, 0, 0, 5, 9}),
                                    holding({1, 3, 2}, {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.75F}),
                                    holding({5, 3}, {0, 2, 0, 0, 2, 1, 1, 0, 0, -1, -1, -1, 0, 3, 0})};
    const auto wanted = ElementsAre(Detection{{0, 0, 9, 5}, 0.75F, 2}, Detection{{10, 20, 20, 40}, 0.5F, 2});
    EXPECT_THAT(*decode(head, outputs, 0, {}), wanted);
    outputs[2].shape = {1, 5, 3};
    EXPECT_THAT(*decode(head, outputs, 0, {}), wanted);
    EXPECT_EQ(decode_rows(head, outputs, 0, {})->front().row, 1U);
    EXPECT_THAT(*decode(head, outputs, 0, {0.6F, 0.65F, 300}), testing::SizeIs(1));
    for (const std::size_t broken : {0U, 1U, 2U}) {
        std::vector<HostTensor> others = outputs;
        others[broken] = holding({1, 7}, {});
        EXPECT_FALSE(decode(head, others, 0, {})) << broken;
    }
    EXPECT_FALSE(decode(head, outputs, 1, {}));
    EXPECT_FALSE(decode(head, std::span(outputs).first(2), 0, {}));
}

TEST(ReadyDetections, OthersAreRefusedWithWhatWouldFit) {
    const std::vector<OutputShape> logits{{"logits", {-1, 1000}}};
    for (const auto& [form, wanted] : std::vector<std::pair<HeadForm, const char*>>{
             {HeadForm::mmdeploy, "K x 5"}, {HeadForm::paddle, "Kx6"}, {HeadForm::yolov7_nms, "Kx7"}}) {
        const auto head = make_head(form, logits, 100, 100);
        ASSERT_FALSE(head);
        EXPECT_EQ(head.error().code, ErrorCode::mismatch);
        EXPECT_THAT(head.error().describe(), HasSubstr(wanted));
        EXPECT_THAT(head.error().describe(), HasSubstr("logits ?x1000"));
    }
}

} // namespace
} // namespace lathe
