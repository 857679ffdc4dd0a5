#include "tasks/task.hpp"

#include <gtest/gtest.h>

namespace lathe {
namespace {

constexpr std::size_t kept = 20;

/// End-to-end detections of `samples` pictures: four objects each, moved to the right by `shift` in every other.
HostTensor detections(std::size_t samples, float shift) {
    HostTensor output("output0", DataType::float32, {static_cast<std::int64_t>(samples), kept, 6});
    for (std::size_t i = 0; i < samples; ++i) {
        for (std::size_t k = 0; k < 4; ++k) {
            const float left = static_cast<float>(10 + 30 * k) + (i % 2 == 0 ? shift : 0.0F);
            const float row[6]{left, 10, left + 20, 30, 0.9F - 0.1F * static_cast<float>(k), static_cast<float>(k % 2)};
            std::copy(row, row + 6, output.as<float>().begin() + static_cast<std::ptrdiff_t>((i * kept + k) * 6));
        }
    }
    return output;
}

TEST(DetectionTask, TheFloatNetworksAnswersAreTheTruth) {
    const std::vector<OutputShape> shapes{{"output0", {-1, kept, 6}}};
    const auto task = recognise_task(shapes, 160, 160);
    ASSERT_NE(task, nullptr);
    EXPECT_EQ(task->name(), "detection");
    EXPECT_EQ(task->parts().size(), 3U);
    const auto judge = task->judge();
    const HostTensor reference = detections(12, 0);
    const HostTensor near = detections(12, 1);
    const HostTensor far = detections(12, 15);
    ASSERT_TRUE(judge->add(0, {&reference, 1}));
    ASSERT_TRUE(judge->add(1, {&near, 1}));
    ASSERT_TRUE(judge->add(2, {&far, 1}));
    EXPECT_DOUBLE_EQ(judge->metric(0), 1);
    EXPECT_DOUBLE_EQ(judge->metric(1), 1);
    EXPECT_LT(judge->metric(2), 0.9);
    EXPECT_EQ(judge->difference(1, 0).low, 0);
    EXPECT_LT(judge->difference(2, 0).high, 0);
    EXPECT_FALSE(judge->add(1, {}));
}

TEST(DetectionTask, HowSamplesAreCutIntoBatchesDoesNotMatter) {
    const auto task = recognise_task(std::vector<OutputShape>{{"output0", {-1, kept, 6}}}, 160, 160);
    const auto judge = task->judge();
    const HostTensor all = detections(4, 0);
    ASSERT_TRUE(judge->add(0, {&all, 1}));
    const HostTensor half = detections(2, 15);
    ASSERT_TRUE(judge->add(1, {&half, 1}));
    ASSERT_TRUE(judge->add(1, {&half, 1}));
    const auto whole = task->judge();
    const HostTensor moved = detections(4, 15);
    ASSERT_TRUE(whole->add(0, {&all, 1}));
    ASSERT_TRUE(whole->add(1, {&moved, 1}));
    EXPECT_DOUBLE_EQ(judge->metric(1), whole->metric(1));
}

} // namespace
} // namespace lathe
