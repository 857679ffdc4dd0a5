// Models as people have them, that say nothing of their data: the whole job goes through without an option beyond it.
#include <limits>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

constexpr const char* quick = " --precisions fp32,int8 --batch-sizes 1 --duration 0.05 --time-limit 0.1 --against ''";

Model silent_classifier() {
    Model model = tiny_classifier();
    std::erase_if(model.metadata, [](const auto& entry) { return entry.first == "lathe.preprocess"; });
    return model;
}

TEST(Strangers, PreprocessingIsGuessedAndTold) {
    const Workspace work;
    work.save(silent_classifier(), "silent.onnx");
    const CommandResult labelled =
        work.good("optimize silent.onnx --calibrate photos --evaluate photos --output a" + std::string(quick));
    EXPECT_THAT(labelled.output, HasSubstr("of 10 pictures right"));
    EXPECT_THAT(labelled.output, HasSubstr("--preprocess says otherwise"));
    EXPECT_TRUE(work.good_json("inspect a/silent.int8.engine")["preprocess"].contains("scale"));
    // Labels of classes that the network lacks are another network's.
    std::string labels = work.read("photos/labels.csv");
    labels.replace(labels.rfind(','), std::string::npos, ",77\n");
    ASSERT_TRUE(write_file(work.path("photos/labels.csv"), labels));
    const CommandResult foreign = work.good("optimize silent.onnx --calibrate photos --output c" + std::string(quick));
    EXPECT_THAT(foreign.output, HasSubstr("tells 10 pictures apart best"));
    std::filesystem::remove(work.path("photos/labels.csv"));
    const CommandResult unlabelled =
        work.good("optimize silent.onnx --calibrate photos --output b" + std::string(quick));
    EXPECT_THAT(unlabelled.output, HasSubstr("tells 10 pictures apart best"));
}

// Not `optimize` alone: whatever reads pictures takes the names, and asks the model for the size.
TEST(Strangers, EveryCommandTakesPreprocessingByName) {
    const Workspace work;
    work.save(silent_classifier(), "silent.onnx");
    const std::string by_name = " --preprocess imagenet-0..1 ";
    (void)work.good("calibrate silent.onnx --data photos -o r" + by_name);
    (void)work.good("quantize silent.onnx --ranges r -o q.onnx --data photos" + by_name);
    (void)work.good("build silent.onnx -o f.engine" + by_name);
    (void)work.good("build q.onnx -o q.engine");
    EXPECT_EQ(work.good_json("inspect f.engine")["preprocess"]["crop"], Json({8, 8}));
    (void)work.good("eval q.engine --data photos" + by_name);
    (void)work.good("run q.engine photos/rgb.png" + by_name);
    (void)work.good("bench q.engine --data photos --batch-sizes 1 --duration 0.05" + by_name);
    (void)work.good("sensitivity silent.onnx --data photos" + by_name);
    (void)work.good("autocast silent.onnx --data photos -o cast.onnx" + by_name);
    const CommandResult wrong = work.lathe("eval q.engine --data photos --preprocess imagnet");
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("is imagenet meant?"));
    const Json yolo = work.good_json("calibrate silent.onnx --data photos -o y --preprocess yolo");
    EXPECT_FALSE(yolo.empty());
    EXPECT_THAT(work.read("y"), HasSubstr("letterbox"));
}

TEST(Strangers, OpenSizesAreThoseOfTheData) {
    const Workspace work;
    Model model = silent_classifier();
    (*model.graph.inputs[0].dims)[2] = Dimension::named("height");
    (*model.graph.inputs[0].dims)[3] = Dimension::named("width");
    work.save(model, "open.onnx");
    const CommandResult arrays = work.good("optimize open.onnx --calibrate arrays.npy --output a" + std::string(quick));
    EXPECT_THAT(arrays.output, HasSubstr("input:?x?x8x8"));
    // Data of another size make other engines in the same folder.
    work.save_array("wide.npy", {24, 3, 8, 16});
    (void)work.good("optimize open.onnx --calibrate wide.npy --output a" + std::string(quick));
    EXPECT_EQ(work.good_json("inspect a/open.int8.engine")["inputs"][0]["max"], Json({32, 3, 8, 16}));
    const CommandResult pictures = work.good("optimize open.onnx --calibrate photos --output b" + std::string(quick));
    EXPECT_THAT(pictures.output, HasSubstr("pictures of 224x224"));
}

// Outputs without a batch, states and numbers among the inputs.
TEST(Strangers, StatesNumbersAndScalarOutputsRun) {
    const Workspace work;
    work.save(
        model_from_text("opset 18\ninput %x: float32[N, 4]\ninput %state: float32[2, 1, 4]\ninput %rate: int64[]\n"
                        "%f = Cast(%rate) {to = 1}\n%s = ReduceSum(%state) {keepdims = 0}\n%m = Mul(%x, %f)\n"
                        "%y = Add(%m, %s)\n%all = ReduceSum(%y) {keepdims = 0}\n"
                        "output %y: float32[N, 4]\noutput %all: float32[]\n"),
        "vad.onnx");
    (void)work.good("build vad.onnx -o vad.engine");
    HostTensor x("x", DataType::float32, {3, 4}), state("state", DataType::float32, {2, 1, 4});
    HostTensor rate("rate", DataType::int64, {});
    std::ranges::fill(x.as<float>(), 1.0F);
    std::ranges::fill(state.as<float>(), 0.5F);
    rate.as<std::int64_t>()[0] = 2;
    ASSERT_TRUE(write_npz(work.path("one.npz"), std::vector{x.view(), state.view(), rate.view()}));
    (void)work.good("run vad.engine one.npz -o one.out.npz");
    auto one = read_npz(work.path("one.out.npz"));
    ASSERT_TRUE(one) << one.error().describe();
    EXPECT_EQ((*one)[1].shape, Shape{});
    EXPECT_EQ((*one)[1].as<float>()[0], 72.0F); // 12 x (1 * 2 + 4)
    // Three samples, each with its state: a number a sample.
    HostTensor states("state", DataType::float32, {3, 2, 1, 4});
    std::ranges::fill(states.as<float>(), 0.5F);
    ASSERT_TRUE(write_npz(work.path("three.npz"), std::vector{x.view(), states.view(), rate.view()}));
    (void)work.good("run vad.engine three.npz -o three.out.npz");
    auto three = read_npz(work.path("three.out.npz"));
    ASSERT_TRUE(three) << three.error().describe();
    EXPECT_EQ((*three)[0].shape, (Shape{3, 4}));
    EXPECT_EQ((*three)[1].shape, Shape{3});
    for (const float sum : (*three)[1].as<float>())
        EXPECT_EQ(sum, 24.0F);
}

TEST(Strangers, WithoutLayersForInt8TheRestIsDone) {
    const Workspace work;
    work.save(model_from_text("opset 18\ninput %x: float32[N, 16]\n%y = Tanh(%x)\noutput %y: float32[N, 16]\n"),
              "plain.onnx");
    work.save_array("rows.npy", {24, 16});
    const CommandResult done = work.good("optimize plain.onnx --calibrate rows.npy --output out" + std::string(quick));
    EXPECT_THAT(done.errors, HasSubstr("int8 is left out"));
    EXPECT_TRUE(std::filesystem::exists(work.path("out/plain.fp32.engine")));
    EXPECT_FALSE(std::filesystem::exists(work.path("out/plain.int8.engine")));
}

TEST(Strangers, WhereAllLayersStayInFloatTheRestIsDone) {
    const Workspace work;
    // Weights from the left, and products of activations alone.
    Model model = model_from_text("opset 18\ninput %x: float32[N, 4, 4]\ninput %w: float32[4, 4]\n"
                                  "%a = MatMul(%w, %x)\n%y = MatMul(%a, %x)\noutput %y: float32[N, 4, 4]\n");
    model.graph.inputs.resize(1);
    add_weights(model, "w", {4, 4}, 1);
    work.save(model, "left.onnx");
    work.save_array("rows.npy", {24, 4, 4});
    const CommandResult done = work.good("optimize left.onnx --calibrate rows.npy --output out" + std::string(quick));
    EXPECT_THAT(done.errors, HasSubstr("int8 is left out"));
    EXPECT_TRUE(std::filesystem::exists(work.path("out/left.fp32.engine")));
    EXPECT_FALSE(std::filesystem::exists(work.path("out/left.int8.engine")));
}

/// A state whose first axis is no batch, and a number without any: samples are whole inputs.
TEST(Strangers, StatesAndNumbersAreWholeInputs) {
    const Workspace work;
    Model model = model_from_text("opset 18\n"
                                  "input %x: float32[1, 32]\n"
                                  "input %state: float32[2, 1, 32]\n"
                                  "input %gain: float32[]\n"
                                  "input %w: float32[32, 32]\n"
                                  "const %last: int64[1] = {1}\n"
                                  "%of = Gather(%state, %last) {axis = 0}\n"
                                  "%sum = Add(%x, %of)\n"
                                  "%loud = Mul(%sum, %gain)\n"
                                  "%y = MatMul(%loud, %w)\n"
                                  "output %y: float32[1, 1, 32]\n");
    model.graph.inputs.resize(3);
    add_weights(model, "w", {32, 32}, 1);
    work.save(model, "state.onnx");
    const auto filled = [](const char* name, Shape shape) {
        HostTensor tensor(name, DataType::float32, std::move(shape));
        for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
            tensor.as<float>()[i] = static_cast<float>(i % 13) * 0.1F - 0.5F;
        return tensor;
    };
    HostTensor x = filled("x", {20, 32}), state = filled("state", {20, 2, 1, 32}), gain = filled("gain", {20});
    ASSERT_TRUE(write_npz(work.path("d.npz"), std::vector{x.view(), state.view(), gain.view()}));
    const Json report =
        work.good_json("optimize state.onnx --calibrate d.npz --evaluate d.npz --output out" + std::string(quick));
    EXPECT_EQ(report["eval"]["data"]["samples"], 20);
    EXPECT_GT(report["eval"]["subjects"][1]["vs_reference"]["sqnr_db"].get<double>(), 10);
}

TEST(Strangers, InfinitiesOfAMaskAreNoBrokenWeights) {
    const Workspace work;
    Model model = model_from_text("opset 18\n"
                                  "input %x: float32[N, 32]\n"
                                  "input %w: float32[32, 32]\n"
                                  "input %none: float32[1]\n"
                                  "%m = MatMul(%x, %w)\n"
                                  "%y = Max(%m, %none)\n"
                                  "output %y: float32[N, 32]\n");
    model.graph.inputs.resize(1);
    add_weights(model, "w", {32, 32}, 1);
    const std::vector<float> least{-std::numeric_limits<float>::infinity()};
    model.graph.initializers.insert_or_assign("none", Tensor::of_floats("none", {1}, least));
    work.save(model, "mask.onnx");
    work.save_array("rows.npy", {24, 32});
    (void)work.good("calibrate mask.onnx --data rows.npy -o mask.ranges");
}

} // namespace
} // namespace lathe::test
