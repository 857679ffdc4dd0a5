#include "evaluate/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

/// A number of samples from `least` to `most`, and outputs whose sizes are fixed unless they are -1.
EngineInfo engine_of(std::int64_t least, std::int64_t most, const std::vector<Shape>& outputs) {
    EngineInfo info;
    const Shape input{least, 3, 64, 64};
    info.inputs.push_back({"x", DataType::float32, {input, input, {most, 3, 64, 64}}});
    for (const Shape& shape : outputs)
        info.outputs.push_back({"out", DataType::float32, {shape, shape, shape}});
    return info;
}

TEST(OutputShapes, AnAxisThatIsNotTheSamplesKeepsItsSize) {
    const EngineInfo one = engine_of(1, 1, {{1, 7}, {-1, 7}, {128, 4}});
    const std::vector<OutputShape> shapes = output_shapes(one);
    EXPECT_EQ(shapes[0].shape, (Shape{-1, 7}));
    EXPECT_TRUE(shapes[0].sampled);
    EXPECT_EQ(shapes[1].shape, (Shape{-1, 7}));
    EXPECT_FALSE(shapes[1].sampled);
    EXPECT_EQ(shapes[2].shape, (Shape{128, 4}));
    EXPECT_FALSE(shapes[2].sampled);
    for (const OutputShape& open : output_shapes(engine_of(1, 8, {{-1, 7}, {128, 4}}))) {
        EXPECT_EQ(open.shape[0], -1);
        EXPECT_TRUE(open.sampled);
    }
}

TEST(TaskOfOutputs, RowsThatAreNoSamplesAreDetections) {
    const auto name = [](const EngineInfo& engine, const char* head) {
        const EvaluationTask* const task = task_of_outputs(engine, head);
        return task == nullptr ? "" : task->name;
    };
    EXPECT_STREQ(name(engine_of(1, 1, {{-1, 7}}), ""), "detection");
    EXPECT_STREQ(name(engine_of(1, 8, {{-1, 7}}), ""), ""); // a classifier of seven classes as well
    EXPECT_STREQ(name(engine_of(1, 8, {{-1, 7}}), "yolov7-nms"), "detection");
    EXPECT_STREQ(name(engine_of(1, 8, {{-1, 7}}), "yolox"), "detection"); // which then says that they do not fit
}

} // namespace
} // namespace lathe
