// Networks that find instances and poses with the program, tiny ones.
#include "cli/workspace.hpp"
#include "data/image.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// As YOLO-seg's: 84 cells of a 64 x 64 picture with a box, a class and eight coefficients, and prototypes: fewer than
/// the hundred detections that count.
Model tiny_instances(std::uint32_t seed) {
    Model model = model_from_text("opset 18\n"
                                  "input %images: float32[1, 3, 64, 64]\n"
                                  "input %w8: float32[13, 3, 8, 8]\n"
                                  "input %w16: float32[13, 3, 16, 16]\n"
                                  "input %w32: float32[13, 3, 32, 32]\n"
                                  "input %w4: float32[8, 3, 4, 4]\n"
                                  "const %shape: int64[3] = {0, 13, -1}\n"
                                  "const %scale: float32[1, 13, 1] = {64, 64, 48, 48, 1, 9, 9, 9, 9, 9, 9, 9, 9}\n"
                                  "const %shift: float32[1, 13, 1] = {0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4}\n"
                                  "%c8 = Conv(%images, %w8) {strides = [8, 8]}\n"
                                  "%c16 = Conv(%images, %w16) {strides = [16, 16]}\n"
                                  "%c32 = Conv(%images, %w32) {strides = [32, 32]}\n"
                                  "%r8 = Reshape(%c8, %shape)\n"
                                  "%r16 = Reshape(%c16, %shape)\n"
                                  "%r32 = Reshape(%c32, %shape)\n"
                                  "%all = Concat(%r8, %r16, %r32) {axis = 2}\n"
                                  "%shares = Sigmoid(%all)\n"
                                  "%scaled = Mul(%shares, %scale)\n"
                                  "%output0 = Sub(%scaled, %shift)\n"
                                  "%output1 = Conv(%images, %w4) {strides = [4, 4]}\n"
                                  "output %output0: float32[1, 13, 84]\n"
                                  "output %output1: float32[1, 8, 16, 16]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w8", {13, 3, 8, 8}, seed);
    add_weights(model, "w16", {13, 3, 16, 16}, seed + 1);
    add_weights(model, "w32", {13, 3, 32, 32}, seed + 2);
    add_weights(model, "w4", {8, 3, 4, 4}, seed + 3);
    model.set_metadata("lathe.preprocess", R"({"resize":{"letterbox":[64,64]},"pad":114,"scale":0.0039})");
    return model;
}

/// As YOLO-pose's: a box, a score and two points of each of 16 cells, fewer than the twenty that count.
Model tiny_poses() {
    Model model = model_from_text("opset 18\n"
                                  "input %images: float32[1, 3, 64, 64]\n"
                                  "input %w16: float32[11, 3, 16, 16]\n"
                                  "const %shape: int64[3] = {0, 11, -1}\n"
                                  "const %scale: float32[1, 11, 1] = {64, 64, 48, 48, 1, 64, 64, 1, 64, 64, 1}\n"
                                  "%c16 = Conv(%images, %w16) {strides = [16, 16]}\n"
                                  "%r16 = Reshape(%c16, %shape)\n"
                                  "%shares = Sigmoid(%r16)\n"
                                  "%output0 = Mul(%shares, %scale)\n"
                                  "output %output0: float32[1, 11, 16]\n");
    model.graph.inputs.resize(1);
    add_weights(model, "w16", {11, 3, 16, 16}, 4);
    model.set_metadata("lathe.preprocess", R"({"resize":{"letterbox":[64,64]},"pad":114,"scale":0.0039})");
    return model;
}

class Instances : public testing::Test {
protected:
    void build(const Model& model, const std::string& name) {
        workspace_.save(model, name + ".onnx");
        (void)workspace_.good("build " + name + ".onnx -o " + name + ".engine");
    }
    void SetUp() override {
        build(tiny_instances(1), "a");
        std::filesystem::create_directory(workspace_.path("pictures"));
        for (const char* name : {"420.jpg", "rgb.png"})
            std::filesystem::copy_file(workspace_.path("photos") / name, workspace_.path("pictures") / name);
    }
    /// COCO's truth: what the network finds, as `lathe run` says it.
    void write_truth(bool outlines) {
        const Json found = workspace_.good_json("run a.engine pictures");
        Json truth{
            {"images", Json::array()}, {"annotations", Json::array()}, {"categories", {{{"id", 1}, {"name", "a"}}}}};
        for (const Json& sample : found["samples"]) {
            const auto name = sample["sample"].get<std::string>();
            const auto image = read_image(workspace_.path("pictures/" + name));
            ASSERT_TRUE(image) << image.error().describe();
            const std::size_t id = truth["images"].size() + 1;
            truth["images"].push_back(
                {{"id", id}, {"file_name", name}, {"height", image->height}, {"width", image->width}});
            for (const Json& each : sample["detections"]) {
                Json annotation{{"image_id", id}, {"category_id", each["class"].get<int>() + 1}, {"bbox", each["box"]}};
                if (outlines) annotation["segmentation"] = each["mask"];
                truth["annotations"].push_back(std::move(annotation));
            }
        }
        ASSERT_GT(truth["annotations"].size(), 2U);
        workspace_.write("pictures/instances.json", truth.dump());
    }
    Workspace workspace_;
};

TEST_F(Instances, RunShowsAndDrawsMasks) {
    const Json found = workspace_.good_json("run a.engine pictures/rgb.png --draw masks.png");
    const auto picture = read_image(workspace_.path("pictures/rgb.png"));
    ASSERT_TRUE(picture);
    ASSERT_FALSE(found["samples"][0]["detections"].empty());
    const Json& first = found["samples"][0]["detections"][0];
    EXPECT_EQ(first["mask"]["size"], Json::array({picture->height, picture->width}));
    EXPECT_TRUE(first["mask"]["counts"].is_string());
    EXPECT_EQ(first["box"].size(), 4U);
    const Json boxes = workspace_.good_json("run a.engine pictures/rgb.png --task detection --draw boxes.png");
    EXPECT_FALSE(boxes["samples"][0]["detections"][0].contains("mask"));
    // Among them, since boxes without pixels are there too.
    EXPECT_TRUE(std::ranges::any_of(boxes["samples"][0]["detections"],
                                    [&](const Json& each) { return each["box"] == first["box"]; }));
    EXPECT_NE(read_image(workspace_.path("masks.png"))->pixels, read_image(workspace_.path("boxes.png"))->pixels);
    const auto poses = workspace_.lathe("run a.engine pictures/rgb.png --task keypoints");
    EXPECT_EQ(poses.exit_code, 4) << poses.errors;
    EXPECT_THAT(poses.errors, HasSubstr("no pose network"));
}

TEST_F(Instances, EvalJudgesMasks) {
    // Without truth the outputs tell the task, and the reference's own masks are the truth.
    build(tiny_instances(20), "b");
    const Json alike = workspace_.good_json("eval b.engine --reference a.engine --data pictures");
    EXPECT_EQ(alike["task"], "instances");
    EXPECT_EQ(alike["subjects"][0]["agreement"], 1);
    EXPECT_LT(alike["subjects"][1]["agreement"].get<double>(), 1);
    const Json& worst = alike["subjects"][1]["worst"][0];
    EXPECT_TRUE(worst["reference_boxes"][0].contains("mask"));
    EXPECT_TRUE(worst["picture"].is_string());
    workspace_.write("eval.json", alike.dump());
    (void)workspace_.good("report eval.json --output report.html");
    EXPECT_THAT(workspace_.read("report.html"), HasSubstr("Instances on 2 pictures without truth"));
    const auto alone = workspace_.lathe("eval a.engine --task instances --data pictures");
    EXPECT_EQ(alone.exit_code, 2);
    EXPECT_THAT(alone.errors, HasSubstr("instances.json"));

    // The truth being what the first finds, it finds all of it.
    write_truth(true);
    const std::string options = " --data pictures --score-threshold 0.25 --nms-overlap 0.45";
    const Json judged = workspace_.good_json("eval b.engine --reference a.engine" + options);
    EXPECT_EQ(judged["task"], "instances") << "by outlines and outputs";
    EXPECT_EQ(judged["metric"]["key"], "mask_map");
    EXPECT_NEAR(judged["subjects"][0]["mask_map"].get<double>(), 1, 1e-9);
    EXPECT_LT(judged["subjects"][1]["mask_map"].get<double>(), 1);
    EXPECT_LT(judged["subjects"][1]["vs_reference"]["mask_map_delta_ci95"][0].get<double>(), 0);
    const Json boxes = workspace_.good_json("eval a.engine --task detection" + options);
    EXPECT_EQ(boxes["metric"]["key"], "map");
    EXPECT_FALSE(boxes["subjects"][0].contains("mask_map"));
    workspace_.save_array("inputs.npy", {1, 3, 64, 64});
    const auto compared = workspace_.lathe("compare a.onnx b.onnx --data inputs.npy --task instances");
    EXPECT_EQ(compared.exit_code, 5) << compared.errors; // they differ
    EXPECT_THAT(compared.output, HasSubstr("mask mAP"));

    // Of boxes alone a detector's metric is all that there is.
    write_truth(false);
    EXPECT_EQ(workspace_.good_json("eval a.engine" + options)["task"], "detection");
    const auto none = workspace_.lathe("eval a.engine --task instances" + options);
    EXPECT_EQ(none.exit_code, 2);
}

TEST_F(Instances, WhatDoesNotFitIsRefused) {
    write_truth(true);
    Json truth = workspace_.json("pictures/instances.json");
    truth["annotations"][0]["segmentation"]["counts"] = "x";
    workspace_.write("pictures/instances.json", truth.dump());
    const auto damaged = workspace_.lathe("eval a.engine --task instances --data pictures");
    EXPECT_EQ(damaged.exit_code, 3) << damaged.errors;
    EXPECT_THAT(damaged.errors, HasSubstr("annotations[0]"));
    truth["annotations"] = Json::array({truth["annotations"][0]});
    const std::size_t image = truth["annotations"][0]["image_id"].get<std::size_t>() - 1;
    truth["images"][image]["height"] = 3;
    truth["images"][image]["width"] = 5;
    truth["annotations"][0]["segmentation"] = Json::array({{0, 0, 4, 0, 4, 2}});
    workspace_.write("pictures/instances.json", truth.dump());
    const auto other = workspace_.lathe("eval a.engine --task instances --data pictures");
    EXPECT_NE(other.exit_code, 0);
    EXPECT_THAT(other.errors, HasSubstr("its truth is of 5 x 3"));
    (void)workspace_.good("build m.onnx -o c.engine");
    EXPECT_EQ(workspace_.lathe("eval c.engine --task instances --data pictures").exit_code, 4);
    EXPECT_EQ(workspace_.lathe("run c.engine pictures --task instances").exit_code, 4);
}

TEST_F(Instances, SensitivityRanksLayersByMasks) {
    const Json ranked = workspace_.good_json("sensitivity a.onnx --data pictures --task instances");
    EXPECT_THAT(ranked.dump(), HasSubstr("mask mAP"));
}

TEST_F(Instances, RunDrawsPosesThatItIsToldOf) {
    build(tiny_poses(), "p");
    const Json found =
        workspace_.good_json("run p.engine pictures/rgb.png --task keypoints --draw poses.png --score-threshold 0.3");
    ASSERT_FALSE(found["samples"][0]["detections"].empty());
    const Json& first = found["samples"][0]["detections"][0];
    ASSERT_EQ(first["points"].size(), 2U);
    EXPECT_EQ(first["points"][0].size(), 3U);
    EXPECT_NE(read_image(workspace_.path("poses.png"))->pixels,
              read_image(workspace_.path("pictures/rgb.png"))->pixels);
    const Json eval = workspace_.good_json("eval p.engine --reference p.engine --task keypoints --data pictures");
    EXPECT_EQ(eval["subjects"][0]["agreement"], 1);
}

} // namespace
} // namespace lathe::test
