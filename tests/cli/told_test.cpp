// What a model holds and is seldom meant is told by every command that goes on with it.
#include <cmath>
#include <limits>

#include "cli/workspace.hpp"
#include "data/npy.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string product = "input %x: float32[1, 2]\nconst %w: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\n"
                            "%y = MatMul(%x, %w)\noutput %y: float32[1, 2]\n";

const std::vector<std::string> commands{"inspect m.onnx", "simplify m.onnx -o s.onnx", "build m.onnx -o m.engine",
                                        "autocast m.onnx -o a.onnx --to fp16"};

TEST(Told, WeightsThatAreNoNumbers) {
    const Workspace work;
    Model model = model_from_text("opset 17\n" + product);
    const std::vector<float> broken{1, std::numeric_limits<float>::quiet_NaN(), 3,
                                    std::numeric_limits<float>::infinity()};
    model.graph.initializers.at("w") = Tensor::of<float>("w", DataType::float32, {2, 2}, broken);
    work.save(model, "m.onnx");
    for (const std::string& command : commands)
        EXPECT_THAT(work.lathe(command).errors, HasSubstr("weights of w hold 1 NaN and 1 infinities")) << command;
    work.save(model_from_text("opset 17\n" + product), "m.onnx");
    for (const std::string& command : commands)
        EXPECT_THAT(work.lathe(command).errors, Not(HasSubstr("NaN"))) << command;
}

TEST(Told, AnOperatorSetThatIsNotKnownYet) {
    const Workspace work;
    Model model = model_from_text("opset 17\n" + product);
    model.opsets[""] = 99;
    work.save(model, "m.onnx");
    for (const std::string& command : commands)
        EXPECT_THAT(work.lathe(command).errors, HasSubstr("ONNX opset 99, which is newer than the latest known here"))
            << command;
}

TEST(Told, InitialValuesOfInputsAreConstants) {
    const Workspace work;
    Model model = model_from_text("opset 17\n" + product);
    ValueInfo weight;
    weight.name = "w";
    weight.type = DataType::float32;
    weight.dims = {Dimension::of(2), Dimension::of(2)};
    model.graph.inputs.push_back(weight);
    work.save(model, "m.onnx");
    for (const std::string& command : commands)
        EXPECT_THAT(work.lathe(command).errors, HasSubstr("input w has an initial value in the model")) << command;

    // What is given for it is refused, not ignored.
    work.good("build m.onnx -o m.engine");
    HostTensor x("x", DataType::float32, {1, 2}), w("w", DataType::float32, {2, 2});
    const std::vector<TensorView> both{x.view(), w.view()};
    ASSERT_TRUE(write_npz(work.path("both.npz"), both));
    const CommandResult refused = work.lathe("run m.engine both.npz -o o.npz");
    EXPECT_EQ(refused.exit_code, 3);
    EXPECT_THAT(refused.errors, HasSubstr("no input \"w\""));

    // Before IR version 4 all weights are listed so: nothing is told, and they are calibrated and quantised.
    model.ir_version = 3;
    model.opsets[""] = 8;
    work.save(model, "m.onnx");
    ASSERT_TRUE(write_npz(work.path("x.npz"), std::vector<TensorView>{x.view()}));
    const CommandResult calibrated = work.lathe("calibrate m.onnx --data x.npz -o m.ranges");
    EXPECT_EQ(calibrated.exit_code, 0) << calibrated.errors;
    EXPECT_THAT(calibrated.errors, Not(HasSubstr("initial value")));
}

} // namespace
} // namespace lathe::test
