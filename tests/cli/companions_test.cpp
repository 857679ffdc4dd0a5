// Detectors that take their picture's size beside it, as people have them: fed from pictures like any other.
#include "cli/workspace.hpp"
#include "data/image.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* briefly = " --quick --precisions fp32,int8 --batch-sizes 1 --duration 0.05 --against ''";

/// Six places of a 64 x 64 picture, each with a score, a class of two and a box of half the picture, in shares of it:
/// %boxes [N, 6, 4], %score and %class [N, 6].
std::string six_places(const std::string& picture, const std::string& more_inputs) {
    return "opset 18\ninput %" + picture + more_inputs +
           "input %w: float32[16, 3, 8, 8]\n"
           "input %w2: float32[32, 16, 4, 4]\n"
           "input %ws: float32[2, 32, 1, 1]\n"
           "const %corners: float32[1, 6, 4] = {0.0, 0.0, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5, 0.0, 0.5, 0.5, 1.0, "
           "0.5, 0.5, 1.0, 1.0, 0.2, 0.2, 0.7, 0.7, 0.4, 0.4, 0.9, 0.9}\n"
           "const %flat: int64[3] = {0, 2, 6}\n"
           "const %axis: int64[1] = {1}\n"
           "const %last: int64[1] = {2}\n"
           "const %tenth: float32[1] = {0.01}\n";
}
std::string heads_of(const std::string& picture) {
    return "%c = Conv(%" + picture +
           ", %w) {strides = [8, 8]}\n"
           "%r = Relu(%c)\n"
           "%c2 = Conv(%r, %w2) {strides = [4, 2]}\n"
           "%r2 = Relu(%c2)\n"
           "%l = Conv(%r2, %ws)\n"
           "%p = Sigmoid(%l)\n"
           "%q = Reshape(%p, %flat)\n"
           "%score = ReduceMax(%q, %axis) {keepdims = 0}\n"
           "%class = ArgMax(%q) {axis = 1, keepdims = 0}\n"
           "%s3 = Unsqueeze(%score, %last)\n"
           "%shift = Mul(%s3, %tenth)\n"
           "%boxes = Add(%corners, %shift)\n";
}
Model weighted(const std::string& text, std::size_t inputs) {
    Model model = model_from_text(text);
    model.graph.inputs.resize(inputs);
    add_weights(model, "w", {16, 3, 8, 8}, 1);
    add_weights(model, "w2", {32, 16, 4, 4}, 2);
    add_weights(model, "ws", {2, 32, 1, 1}, 3);
    return model;
}

/// As RT-DETR, D-FINE and DEIM are exported: boxes in pixels of the size that is given.
Model transformer(const std::string& samples = "N", const std::string& sizes = "orig_target_sizes") {
    return weighted(six_places("images: float32[" + samples + ", 3, 64, 64]\n",
                               "input %" + sizes + ": int64[" + samples + ", 2]\n") +
                        heads_of("images") + "%f = Cast(%" + sizes +
                        ") {to = 1}\n"
                        "%ff = Concat(%f, %f) {axis = 1}\n"
                        "%f3 = Unsqueeze(%ff, %axis)\n"
                        "%pixels = Mul(%boxes, %f3)\n"
                        "%labels = Identity(%class)\n"
                        "%scores = Identity(%score)\n"
                        "output %labels: int64[" +
                        samples + ", 6]\noutput %pixels: float32[" + samples + ", 6, 4]\noutput %scores: float32[" +
                        samples + ", 6]\n",
                    2);
}

/// As PaddleDetection's are: rows of all samples, boxes in pixels of a picture of the size im_shape / scale_factor.
Model paddle() {
    return weighted(six_places("image: float32[N, 3, 64, 64]\n",
                               "input %im_shape: float32[M, 2]\ninput %scale_factor: float32[L, 2]\n") +
                        "const %six: int64[2] = {-1, 6}\n"
                        "const %xy: int64[4] = {1, 0, 1, 0}\n"
                        "const %one: int64[1] = {6}\n" +
                        heads_of("image") +
                        "%size = Div(%im_shape, %scale_factor)\n"
                        "%sides = Gather(%size, %xy) {axis = 1}\n"
                        "%f3 = Unsqueeze(%sides, %axis)\n"
                        "%pixels = Mul(%boxes, %f3)\n"
                        "%index = Cast(%class) {to = 1}\n"
                        "%i3 = Unsqueeze(%index, %last)\n"
                        "%all = Concat(%i3, %s3, %pixels) {axis = 2}\n"
                        "%rows = Reshape(%all, %six)\n"
                        "%six_rows = Cast(%one) {to = 6}\n"
                        "%zero = Sub(%class, %class)\n"
                        "%none = ReduceMax(%zero, %axis) {keepdims = 0}\n"
                        "%nothing = Cast(%none) {to = 6}\n"
                        "%count = Add(%nothing, %six_rows)\n"
                        "output %rows: float32[K, 6]\noutput %count: int32[N]\n",
                    3);
}

/// As Keras' YOLOv3 of the ONNX model zoo: boxes top, left, bottom, right, and what NonMaxSuppression leaves of them.
Model keras_yolo() {
    return weighted(six_places("input_1: float32[N, 3, 64, 64]\n", "input %image_shape: float32[N, 2]\n") +
                        "const %most: int64[1] = {10}\n"
                        "const %iou: float32[1] = {0.9}\n"
                        "const %least: float32[1] = {0.0}\n" +
                        heads_of("input_1") +
                        "%ff = Concat(%image_shape, %image_shape) {axis = 1}\n"
                        "%f3 = Unsqueeze(%ff, %axis)\n"
                        "%pixels = Mul(%boxes, %f3)\n"
                        "%all = Identity(%q)\n"
                        "%left = NonMaxSuppression(%pixels, %q, %most, %iou, %least)\n"
                        "output %pixels: float32[N, 6, 4]\noutput %all: float32[N, 2, 6]\noutput %left: int64[K, 3]\n",
                    2);
}

class Companions : public testing::Test {
protected:
    void SetUp() override {
        std::filesystem::create_directory(work_.path("pictures"));
        for (const char* name : {"420.jpg", "422.jpg", "444.jpg", "rgb.png"})
            std::filesystem::copy_file(work_.path("photos") / name, work_.path("pictures") / name);
    }
    /// What was found in rgb.png, in its pixels: six boxes, each a quarter of it.
    void expect_quarters(const std::string& engine) {
        const Json found = work_.good_json("run " + engine + " pictures/rgb.png --score-threshold 0 --json");
        const Json& sample = found["samples"][0];
        ASSERT_EQ(sample["detections"].size(), 6U) << found.dump();
        const auto picture = read_image(work_.path("pictures/rgb.png"));
        ASSERT_TRUE(picture);
        for (const Json& detection : sample["detections"]) {
            const Json& box = detection["box"];
            EXPECT_NEAR(box[2].get<double>(), static_cast<double>(picture->width) / 2, 0.02 * 64) << found.dump();
            EXPECT_NEAR(box[3].get<double>(), static_cast<double>(picture->height) / 2, 0.02 * 64) << found.dump();
        }
    }
    Workspace work_;
};

TEST_F(Companions, SizesOfTransformersAreThoseOfTheInput) {
    for (const char* samples : {"N", "1"}) {
        const std::string out = std::string("out") + samples;
        work_.save(transformer(samples), "d.onnx");
        const CommandResult done =
            work_.good("optimize d.onnx --calibrate pictures --evaluate pictures --output " + out + briefly);
        EXPECT_THAT(done.output, HasSubstr("assumed, as their names say: orig_target_sizes is the width and height of "
                                           "images"));
        EXPECT_THAT(done.output, HasSubstr("--preprocess says otherwise"));
        EXPECT_THAT(work_.read(out + "/eval.json"), HasSubstr("\"head\": \"lists\""));
        const Json engine = work_.good_json("inspect " + out + "/d.int8.engine");
        ASSERT_EQ(engine["inputs"].size(), 1U);
        EXPECT_EQ(engine["inputs"][0]["max"][0], samples[0] == 'N' ? 32 : 1);
        EXPECT_TRUE(
            work_.good_json("inspect " + out + "/d.simplified.onnx")["metadata"].contains("lathe.fixed_inputs"));
        expect_quarters(out + "/d.fp32.engine");
        // What other commands go on with.
        (void)work_.good("calibrate " + out + "/d.simplified.onnx --data pictures -o " + out + "/again.ranges");
    }
}

TEST_F(Companions, PaddlesAreOneSampleAtATime) {
    work_.save(paddle(), "p.onnx");
    const CommandResult done =
        work_.good("optimize p.onnx --calibrate pictures --evaluate pictures --output out" + std::string(briefly));
    EXPECT_THAT(done.output, HasSubstr("im_shape is the height and width of image, scale_factor is 1, 1"));
    EXPECT_THAT(done.output, HasSubstr("one sample at a time"));
    EXPECT_THAT(work_.read("out/eval.json"), HasSubstr("\"head\": \"paddle\""));
    expect_quarters("out/p.fp32.engine");

    // Shapes of the user leave the model's batch open; built for one sample it is judged all the same.
    const CommandResult shaped =
        work_.good("optimize p.onnx --calibrate pictures --evaluate pictures --output one --shape image:1x3x64x64" +
                   std::string(briefly));
    EXPECT_THAT(shaped.output, Not(HasSubstr("one sample at a time")));
    EXPECT_THAT(work_.read("one/eval.json"), HasSubstr("\"head\": \"paddle\""));
}

TEST_F(Companions, KerasYolosAreLetterboxed) {
    work_.save(keras_yolo(), "y.onnx");
    const CommandResult done =
        work_.good("optimize y.onnx --calibrate pictures --evaluate pictures --output out" + std::string(briefly));
    EXPECT_THAT(done.output, HasSubstr("image_shape is the height and width of input_1"));
    EXPECT_THAT(done.output, HasSubstr(R"("letterbox":[64,64])"));
    EXPECT_THAT(work_.read("out/eval.json"), HasSubstr("\"head\": \"nms-indices\""));
    const Json found = work_.good_json("run out/y.fp32.engine pictures --score-threshold 0 --json");
    for (const Json& sample : found["samples"])
        EXPECT_EQ(sample["detections"].size(), 12U) << found.dump(); // six places of two classes
}

/// The user's shapes may name the inputs of the file; the frameworks compared with get what the engines get.
TEST_F(Companions, ShapesAndPeersAreOfThePicture) {
    work_.save(transformer(), "d.onnx");
    const CommandResult done =
        work_.good("optimize d.onnx --calibrate pictures --output out --quick --precisions fp32 --batch-sizes 2 "
                   "--duration 0.05 --against openvino --shape images:1x3x64x64..2x3x64x64..2x3x64x64 --shape "
                   "orig_target_sizes:1x2..2x2..2x2");
    EXPECT_THAT(done.output, HasSubstr("orig_target_sizes is the width and height of images"));
    EXPECT_EQ(work_.good_json("inspect out/d.fp32.engine")["inputs"][0]["max"][0], 2);
    EXPECT_THAT(done.errors, Not(HasSubstr("not measured")));
    EXPECT_THAT(work_.read("out/bench.json"), HasSubstr("\"openvino\""));
}

TEST_F(Companions, OpenPictureSizesAreFoundFirst) {
    Model model = transformer();
    auto& image = *model.graph.inputs[0].dims;
    image[2] = Dimension::named("height");
    image[3] = Dimension::named("width");
    model.set_metadata("imgsz", "[64, 64]");
    work_.save(model, "d.onnx");
    const CommandResult done =
        work_.good("optimize d.onnx --calibrate pictures --evaluate pictures --output out" + std::string(briefly));
    EXPECT_THAT(done.output, HasSubstr("pictures of 64x64"));
    expect_quarters("out/d.fp32.engine");
}

TEST_F(Companions, WhatCannotBeToldIsRefused) {
    work_.save(transformer("N", "prompt"), "d.onnx");
    const CommandResult refused =
        work_.lathe("optimize d.onnx --calibrate pictures --output out" + std::string(briefly));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("the model has 2 inputs, this data has one"));
    EXPECT_THAT(refused.output, Not(HasSubstr("as their names say")));
}

/// Other commands leave the model's inputs alone, and say which model to go on with. Arrays for all inputs are taken.
TEST_F(Companions, OtherCommandsSayHowToGoOn) {
    work_.save(transformer(), "d.onnx");
    const CommandResult refused = work_.lathe("calibrate d.onnx --data pictures -o d.ranges");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("inputs that say how large they were: orig_target_sizes"));
    EXPECT_THAT(refused.errors, HasSubstr("simplified.onnx"));
    HostTensor images("images", DataType::float32, {8, 3, 64, 64});
    HostTensor sizes("orig_target_sizes", DataType::int64, {8, 2});
    const std::vector<TensorView> both{images.view(), sizes.view()};
    ASSERT_TRUE(write_npz(work_.path("both.npz"), both));
    const CommandResult done = work_.good("optimize d.onnx --calibrate both.npz --output out" + std::string(briefly));
    EXPECT_THAT(done.output, Not(HasSubstr("as their names say")));
    EXPECT_EQ(work_.good_json("inspect out/d.fp32.engine")["inputs"].size(), 2U);
}

} // namespace
} // namespace lathe::test
