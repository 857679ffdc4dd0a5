// Detectors with the program: YOLOX-nano on the COCO photos beside the checkout, and a tiny one for what goes wrong.
#include <cmath>

#include "cli/workspace.hpp"
#include "data/image.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// A convolution with strides 8, 16 and 32 as YOLOX's head has them: 84 cells of a 64 x 64 picture, two classes.
Model tiny_detector() {
    Model model = model_from_text("opset 18\n"
                                  "input %images: float32[1, 3, 64, 64]\n"
                                  "input %w8: float32[7, 3, 8, 8]\n"
                                  "input %w16: float32[7, 3, 16, 16]\n"
                                  "input %w32: float32[7, 3, 32, 32]\n"
                                  "const %shape: int64[3] = {0, 7, -1}\n"
                                  "%c8 = Conv(%images, %w8) {strides = [8, 8]}\n"
                                  "%c16 = Conv(%images, %w16) {strides = [16, 16]}\n"
                                  "%c32 = Conv(%images, %w32) {strides = [32, 32]}\n"
                                  "%r8 = Reshape(%c8, %shape)\n"
                                  "%r16 = Reshape(%c16, %shape)\n"
                                  "%r32 = Reshape(%c32, %shape)\n"
                                  "%all = Concat(%r8, %r16, %r32) {axis = 2}\n"
                                  "%scaled = Sigmoid(%all)\n"
                                  "%output = Transpose(%scaled) {perm = [0, 2, 1]}\n"
                                  "output %output: float32[1, 84, 7]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w8", {7, 3, 8, 8}, 1);
    add_weights(model, "w16", {7, 3, 16, 16}, 2);
    add_weights(model, "w32", {7, 3, 32, 32}, 3);
    model.set_metadata("lathe.preprocess", R"({"resize":{"letterbox":[64,64]},"pad":114,"scale":0.0039})");
    return model;
}

class Detector : public testing::Test {
protected:
    void SetUp() override {
        workspace_.save(tiny_detector(), "d.onnx");
        const auto built = workspace_.lathe("build d.onnx -o d.engine");
        ASSERT_EQ(built.exit_code, 0) << built.errors;
        std::filesystem::create_directory(workspace_.path("pictures"));
        for (const char* name : {"420.jpg", "rgb.png"})
            std::filesystem::copy_file(workspace_.path("photos") / name, workspace_.path("pictures") / name);
    }
    Workspace workspace_;
};

TEST_F(Detector, ABoxlessFolderNeedsAReference) {
    const auto alone = workspace_.lathe("eval d.engine --task detection --data pictures");
    EXPECT_NE(alone.exit_code, 0);
    EXPECT_THAT(alone.errors, HasSubstr("--reference"));
    const auto against = workspace_.lathe("eval d.engine --reference d.engine --task detection --data pictures --json");
    EXPECT_EQ(against.exit_code, 0) << against.errors;
}

TEST_F(Detector, WithoutBoxesTheReferencesAreTheTruth) {
    const auto json = workspace_.good_json("eval d.engine --reference d.engine --data pictures --json");
    EXPECT_EQ(json["task"], "detection");
    // Named, another task is done all the same.
    EXPECT_THAT(
        workspace_.lathe("eval d.engine --reference d.engine --task classification --data pictures --json").output,
        testing::Not(HasSubstr("detection")));
}

/// As Ultralytics exports it: any size of picture, the trained one in the metadata, nothing about preprocessing.
TEST_F(Detector, OptimizeFixesAnOpenSizeAndFindsTheHead) {
    Model model = tiny_detector();
    std::erase_if(model.metadata, [](const auto& entry) { return entry.first == "lathe.preprocess"; });
    model.set_metadata("imgsz", "[64, 64]");
    auto& image = *model.graph.inputs[0].dims;
    image[2] = Dimension::named("height");
    image[3] = Dimension::named("width");
    (*model.graph.outputs[0].dims)[1] = Dimension::named("floor(height/8)*floor(width/8) + 20");
    workspace_.save(model, "open.onnx");
    const auto done = workspace_.lathe("optimize open.onnx --calibrate pictures --evaluate pictures --output out "
                                       "--precisions fp32,int8 --duration 0.05 --against ''");
    ASSERT_EQ(done.exit_code, 0) << done.errors;
    EXPECT_THAT(done.output + done.errors, HasSubstr("pictures of 64x64"));
    EXPECT_THAT(done.output + done.errors, HasSubstr("yolox head"));
    EXPECT_THAT(workspace_.read("out/eval.json"), HasSubstr("\"task\": \"detection\""));

    // A size that is none is not taken, but one that is usual.
    model.set_metadata("imgsz", "[64, -1]");
    workspace_.save(model, "odd.onnx");
    const auto usual = workspace_.lathe("optimize odd.onnx --calibrate pictures --output odd --precisions fp32 "
                                        "--batch-sizes 1 --duration 0.05 --against ''");
    ASSERT_EQ(usual.exit_code, 0) << usual.errors;
    EXPECT_THAT(usual.output + usual.errors, HasSubstr("pictures of 640x640"));
}

TEST_F(Detector, BoxesMakeItDetection) {
    workspace_.write("pictures/instances.json",
                     R"({"images": [{"id": 1, "file_name": "420.jpg"}, {"id": 2, "file_name": "rgb.png"}],
                         "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
                         "annotations": [{"id": 1, "image_id": 1, "category_id": 2, "bbox": [1, 1, 9, 9]}]})");
    const auto found = workspace_.lathe("eval d.engine --data pictures --json");
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    const auto json = parse_json(found.output, "output");
    ASSERT_TRUE(json);
    EXPECT_EQ((*json)["task"], "detection");
    EXPECT_EQ((*json)["head"], "yolox");
    EXPECT_EQ((*json)["metric"]["key"], "map");
    EXPECT_TRUE((*json)["subjects"][0]["map"].is_number());
    // Named, another task is done all the same.
    EXPECT_NE(workspace_.lathe("eval d.engine --task classification --data pictures").exit_code, 0);

    workspace_.write("pictures/instances.json", R"({"images": [{"id": 1}], "annotations": [], "categories": []})");
    const auto broken = workspace_.lathe("eval d.engine --data pictures");
    EXPECT_NE(broken.exit_code, 0);
    EXPECT_THAT(broken.errors, HasSubstr("images[0]"));
}

TEST_F(Detector, BoxesAreDrawnBesideThePicture) {
    const Json found = workspace_.good_json("run d.engine pictures/rgb.png --draw drawn.png --score-threshold 0.3");
    EXPECT_FALSE(found["samples"][0]["detections"].empty());
    const auto before = read_image(workspace_.path("pictures/rgb.png"));
    const auto after = read_image(workspace_.path("drawn.png"));
    ASSERT_TRUE(before && after);
    EXPECT_EQ(after->width, before->width);
    EXPECT_NE(after->pixels, before->pixels);
    (void)workspace_.good("run d.engine pictures --draw many");
    EXPECT_TRUE(std::filesystem::exists(workspace_.path("many/420.jpg")));
    // Neither the picture itself nor one file for two pictures is written.
    const std::string kept = workspace_.read("pictures/rgb.png");
    EXPECT_THAT(workspace_.lathe("run d.engine pictures/rgb.png --draw pictures").errors, HasSubstr("overwritten"));
    EXPECT_EQ(workspace_.read("pictures/rgb.png"), kept);
    EXPECT_THAT(workspace_.lathe("run d.engine pictures --draw one.png").errors, HasSubstr("several pictures"));
}

/// Boxes, labels and scores of the one picture, as many as non-maximum suppression in the graph leaves.
TEST_F(Detector, ListsWithSuppressionInTheGraph) {
    Model model = model_from_text("opset 18\n"
                                  "input %images: float32[1, 3, 64, 64]\n"
                                  "input %w: float32[1, 3, 16, 16]\n"
                                  "const %boxes_all: float32[1, 4, 4] = {0.0, 0.0, 20.0, 20.0, 1.0, 1.0, 21.0, 21.0, "
                                  "30.0, 0.0, 60.0, 20.0, 0.0, 30.0, 20.0, 60.0}\n"
                                  "const %shape: int64[3] = {1, 1, 4}\n"
                                  "const %flat: int64[1] = {-1}\n"
                                  "const %first: int64[1] = {0}\n"
                                  "const %most: int64[1] = {100}\n"
                                  "const %iou: float32[1] = {0.5}\n"
                                  "const %least: float32[1] = {0.01}\n"
                                  "const %two: int64[] = {2}\n"
                                  "const %zero: int64[] = {0}\n"
                                  "%c = Conv(%images, %w) {strides = [32, 32], pads = [0, 0, 0, 0]}\n"
                                  "%s = Sigmoid(%c)\n"
                                  "%r = Reshape(%s, %shape)\n"
                                  "%kept = NonMaxSuppression(%boxes_all, %r, %most, %iou, %least)\n"
                                  "%index = Gather(%kept, %two) {axis = 1}\n"
                                  "%plain = Squeeze(%boxes_all, %first)\n"
                                  "%line = Reshape(%r, %flat)\n"
                                  "%boxes = Gather(%plain, %index) {axis = 0}\n"
                                  "%labels = Mul(%index, %zero)\n"
                                  "%scores = Gather(%line, %index) {axis = 0}\n"
                                  "output %boxes: float32[K, 4]\n"
                                  "output %labels: int64[K]\n"
                                  "output %scores: float32[K]\n");
    model.graph.inputs.resize(1); // the other becomes a constant
    add_weights(model, "w", {1, 3, 16, 16}, 1);
    model.set_metadata("lathe.preprocess", R"({"resize":{"letterbox":[64,64]},"scale":0.0039})");
    workspace_.save(model, "n.onnx");
    (void)workspace_.good("build n.onnx -o n.engine");
    const Json run = workspace_.good_json("run n.engine pictures");
    ASSERT_EQ(run["samples"].size(), 2U);
    EXPECT_EQ(run["samples"][0]["detections"].size(), 3U) << run.dump(); // of the two that overlap one stays
    const Json eval = workspace_.good_json("eval n.engine --reference n.engine --task detection --data pictures");
    EXPECT_EQ(eval["head"], "lists");
    EXPECT_EQ(eval["subjects"][0]["agreement"], 1.0);
}

TEST_F(Detector, AHeadThatDoesNotFitIsRefused) {
    const auto unknown =
        workspace_.lathe("eval d.engine --reference d.engine --task detection --data pictures --head yolo");
    EXPECT_NE(unknown.exit_code, 0);
    EXPECT_THAT(unknown.errors, HasSubstr("yolox"));
    const auto other =
        workspace_.lathe("eval d.engine --reference d.engine --task detection --data pictures --head detr");
    EXPECT_NE(other.exit_code, 0);
    EXPECT_THAT(other.errors, HasSubstr("NxQx4"));
    workspace_.save(tiny_classifier(), "c.onnx");
    ASSERT_EQ(workspace_.lathe("build c.onnx -o c.engine").exit_code, 0);
    const auto none = workspace_.lathe("eval c.engine --reference c.engine --task detection --data pictures");
    EXPECT_NE(none.exit_code, 0);
    EXPECT_THAT(none.errors, HasSubstr("--head"));
}

/// 29.966 and 30.947 are what pycocotools gives for onnx's own network with Pillow's and OpenCV's resize, each class of
/// a cell for itself, score 0.001, NMS of each class at 0.65.
TEST(Yolox, MeanAveragePrecisionOnCoco) {
    const std::filesystem::path shared = test::shared_data("");
    const auto model = shared / "models/yolox_nano.onnx";
    const auto photos = shared / "coco/validation";
    if (!std::filesystem::exists(model) || !std::filesystem::exists(photos))
        GTEST_SKIP() << "SKIPPED: no " << model << " and " << photos;
    const Workspace workspace;
    for (const auto& [interpolation, expected] :
         std::vector<std::pair<std::string, double>>{{"bilinear", 0.29966}, {"bilinear-opencv", 0.30947}}) {
        workspace.write("p.json",
                        R"({"resize": {"letterbox": [416, 416]}, "pad": 114, "align": "top-left", "color": "BGR",
                                      "interpolation": ")" +
                            interpolation + "\"}");
        const auto built =
            workspace.lathe("build " + model.string() + " --preprocess p.json --precision fp32 -o y.engine");
        ASSERT_EQ(built.exit_code, 0) << built.errors;
        const auto evaluated = workspace.lathe("eval y.engine --data " + photos.string() + " --json");
        ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
        const auto json = parse_json(evaluated.output, "output");
        ASSERT_TRUE(json);
        EXPECT_EQ((*json)["data"]["samples"], 80);
        EXPECT_NEAR((*json)["subjects"][0]["map"].get<double>(), expected, 0.0005) << interpolation;
    }
}

} // namespace
} // namespace lathe::test
