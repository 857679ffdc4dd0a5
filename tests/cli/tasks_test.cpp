// Segmentation, regression and text recognition with the program, on tiny networks.
#include "cli/workspace.hpp"
#include "data/encode.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// Scores of four classes for each of 8 x 8 pixels.
Model tiny_segmenter() {
    Model model = model_from_text("opset 18\n"
                                  "input %images: float32[N, 3, 8, 8]\n"
                                  "input %w1: float32[16, 3, 3, 3]\n"
                                  "input %w2: float32[4, 16, 1, 1]\n"
                                  "%c1 = Conv(%images, %w1) {pads = [1, 1, 1, 1]}\n"
                                  "%r1 = Relu(%c1)\n"
                                  "%scores = Conv(%r1, %w2)\n"
                                  "output %scores: float32[N, 4, 8, 8]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w1", {16, 3, 3, 3}, 1);
    add_weights(model, "w2", {4, 16, 1, 1}, 2);
    model.set_metadata("lathe.preprocess", R"({"resize":[8,8],"scale":0.0039})");
    return model;
}

// 4 x 2 pixels of the classes 0 1 2 15 / 3 2 1 0, by a palette, as Pillow writes it.
constexpr std::string_view mask =
    "89504e470d0a1a0a0000000d49484452000000040000000204030000008d86605000000030504c5445000000ff000000ff00090909090909"
    "0909090909090909090909090909090909090909090909090909090909090909095b8c85f40000000e4944415478da6364d4633012000001"
    "3d007361fbfc580000000049454e44ae426082";

class Tasks : public testing::Test {
protected:
    void build(const Model& model) {
        workspace_.save(model, "s.onnx");
        const auto built = workspace_.lathe("build s.onnx -o s.engine");
        ASSERT_EQ(built.exit_code, 0) << built.errors;
    }
    /// Pictures of 4 x 2 pixels.
    void write_pictures(const std::string& folder, std::size_t count) const {
        std::filesystem::create_directories(workspace_.path(folder));
        for (std::size_t i = 0; i < count; ++i) {
            Image image(4, 2);
            for (std::size_t k = 0; k < image.pixels.size(); ++k)
                image.pixels[k] = static_cast<std::uint8_t>((k * 37 + i * 11) % 256);
            const auto written =
                write_file(workspace_.path(folder + "/p" + std::to_string(i) + ".png"), *encode_png(image));
            ASSERT_TRUE(written);
        }
    }
    void write_masks(const std::string& folder, std::size_t count) const {
        std::filesystem::create_directories(workspace_.path(folder));
        std::string bytes;
        for (std::size_t i = 0; i + 1 < mask.size(); i += 2)
            bytes += static_cast<char>(std::stoul(std::string(mask.substr(i, 2)), nullptr, 16));
        for (std::size_t i = 0; i < count; ++i)
            workspace_.write(folder + "/p" + std::to_string(i) + ".png", bytes);
    }
    Workspace workspace_;
};

TEST_F(Tasks, ASegmenterIsJudgedByMeanIou) {
    build(tiny_segmenter());
    write_pictures("d/images", 3);
    write_masks("d/masks", 3);
    // The task is found by the masks.
    const auto refused = workspace_.lathe("eval s.engine --data d");
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.errors, HasSubstr("value 15"));
    const auto json = workspace_.good_json("eval s.engine --reference s.engine --data d --ignore-label 15");
    EXPECT_EQ(json["task"], "segmentation");
    EXPECT_EQ(json["metric"]["key"], "miou");
    EXPECT_GE(json["subjects"][0]["miou"].get<double>(), 0);
    EXPECT_EQ(json["data"]["samples"], 3);

    // Without masks the reference's classes are the truth, and the outputs' shapes tell the task.
    const auto alike = workspace_.good_json("eval s.engine --reference s.engine --data d/images");
    EXPECT_EQ(alike["task"], "segmentation");
    EXPECT_EQ(alike["subjects"][0]["miou"], 1);
    const auto alone = workspace_.lathe("eval s.engine --task segmentation --data d/images");
    EXPECT_NE(alone.exit_code, 0);
    EXPECT_THAT(alone.errors, HasSubstr("--reference"));
}

TEST_F(Tasks, OptimizeSpeaksOfMeanIou) {
    workspace_.save(tiny_segmenter(), "s.onnx");
    write_pictures("d/images", 40);
    const auto done = workspace_.lathe("optimize s.onnx --calibrate d/images --evaluate d/images --output out "
                                       "--precisions fp32,int8 --batch-sizes 1 --duration 0.05 --against ''");
    ASSERT_EQ(done.exit_code, 0) << done.errors;
    EXPECT_THAT(workspace_.read("out/report.json"), HasSubstr("mean IoU"));
    EXPECT_THAT(workspace_.read("out/report.html"), HasSubstr("Segmentation of 40 pictures"));
}

constexpr const char* quick_job =
    "optimize s.onnx --output out --precisions fp32,int8 --batch-sizes 1 --duration 0.05 --against '' --json ";

TEST_F(Tasks, OptimizeTakesTheTaskThatIsNamed) {
    workspace_.save(tiny_segmenter(), "s.onnx");
    write_pictures("d/images", 40);
    const std::string job = std::string(quick_job) + "--calibrate d/images --evaluate d/images ";
    const Json numbers = workspace_.as_json(workspace_.lathe(job + "--task regression").output);
    EXPECT_EQ(numbers["eval"]["task"], "regression");
    EXPECT_EQ(numbers["eval"]["metric"]["key"], "r2");
    // What was judged otherwise is judged again; what was built is not.
    const Json classes = workspace_.as_json(workspace_.lathe(job + "--task segmentation").output);
    EXPECT_EQ(classes["eval"]["metric"]["key"], "miou");

    const auto nowhere = workspace_.lathe(std::string(quick_job) + "--calibrate d/images --task segmentation");
    EXPECT_EQ(nowhere.exit_code, 2);
    EXPECT_THAT(nowhere.errors + nowhere.output, HasSubstr("--evaluate"));
    const auto absent = workspace_.lathe(job + "--task absent.py:score");
    EXPECT_NE(absent.exit_code, 0);
    EXPECT_THAT(absent.errors + absent.output, HasSubstr("absent.py"));
}

TEST_F(Tasks, NumbersAreJudgedByTheirTargets) {
    build(tiny_segmenter());
    std::filesystem::create_directory(workspace_.path("d"));
    workspace_.save_array("d/inputs.npy", {5, 3, 8, 8});
    workspace_.save_array("d/targets.npy", {5, 4, 8, 8});
    const auto json = workspace_.good_json("eval s.engine --data d --peak 1");
    EXPECT_EQ(json["task"], "regression");
    EXPECT_TRUE(json["subjects"][0]["psnr"].is_number());
    EXPECT_GT(json["subjects"][0]["mae"].get<double>(), 0);
    workspace_.save_array("d/targets.npy", {5, 4, 8, 7});
    const auto refused = workspace_.lathe("eval s.engine --data d");
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.errors, HasSubstr("targets"));
}

/// Scores of five classes at eight places of a picture.
Model tiny_reader(bool steps_first = false) {
    const std::string axes = steps_first ? "2, 0, 1" : "0, 2, 1";
    const std::string shape = steps_first ? "8, N, 5" : "N, 8, 5";
    Model model = tiny_segmenter();
    Model reader = model_from_text("opset 18\n"
                                   "input %images: float32[N, 3, 8, 8]\n"
                                   "input %w1: float32[5, 3, 8, 1]\n"
                                   "const %shape: int64[3] = {0, 5, 8}\n"
                                   "%c1 = Conv(%images, %w1)\n"
                                   "%flat = Reshape(%c1, %shape)\n"
                                   "%scores = Transpose(%flat) {perm = [" +
                                   axes + "]}\noutput %scores: float32[" + shape + "]\n");
    reader.graph.inputs.resize(1);
    add_weights(reader, "w1", {5, 3, 8, 1}, 3);
    reader.metadata = model.metadata;
    return reader;
}

TEST_F(Tasks, TextIsReadWithTheModelsCharacters) {
    write_pictures("d", 3);
    workspace_.write("d/texts.csv", "file,text\np0.png,ab\np1.png,\np2.png,dc\n");
    build(tiny_reader());
    const auto unknown = workspace_.lathe("eval s.engine --data d");
    EXPECT_NE(unknown.exit_code, 0);
    EXPECT_THAT(unknown.errors, HasSubstr("--characters"));
    workspace_.write("characters.txt", "a\nb\nc\nd\n");
    const auto json = workspace_.good_json("eval s.engine --data d --characters characters.txt");
    EXPECT_EQ(json["task"], "text-recognition");
    EXPECT_TRUE(json["subjects"][0]["cer"].is_number());

    // As PaddleOCR's networks carry them.
    Model reader = tiny_reader();
    reader.set_metadata("character", "a\nb\nc\nd");
    build(reader);
    const auto same = workspace_.good_json("eval s.engine --data d");
    EXPECT_EQ(same["subjects"][0]["cer"], json["subjects"][0]["cer"]);

    // Scores first by step, as PyTorch's CTC loss takes them. Of eight pictures there are as many as steps.
    for (const int pictures : {3, 8}) {
        const std::string folder = "d" + std::to_string(pictures);
        write_pictures(folder, pictures);
        std::string texts = "file,text\n";
        for (int i = 0; i < pictures; ++i)
            texts += "p" + std::to_string(i) + ".png," + (i % 2 == 0 ? "ab" : "dc") + "\n";
        workspace_.write(folder + "/texts.csv", texts);
        build(reader);
        const auto wanted = workspace_.good_json("eval s.engine --data " + folder);
        Model by_step = tiny_reader(true);
        by_step.set_metadata("character", "a\nb\nc\nd");
        build(by_step);
        const auto given = workspace_.good_json("eval s.engine --data " + folder);
        EXPECT_EQ(given["subjects"][0]["cer"], wanted["subjects"][0]["cer"]) << pictures;
    }
    build(reader);
    workspace_.write("characters.txt", "a\nb\n");
    const auto few = workspace_.lathe("eval s.engine --data d --characters characters.txt");
    EXPECT_NE(few.exit_code, 0);
    EXPECT_THAT(few.errors, HasSubstr("2 characters"));
}

/// The share of the four classes' scores that are positive, and what is wrong with other functions.
constexpr const char* metrics = "def share(outputs, samples):\n"
                                "    scores = outputs['scores']\n"
                                "    assert scores.shape[0] == len(samples) and samples[0]['label'] is None\n"
                                "    return [(each > 0).mean() for each in scores]\n"
                                "def one(outputs, samples):\n    return 0.5\n"
                                "def few(outputs, samples):\n    return [1]\n"
                                "def nothing(outputs, samples):\n    return [float('nan')] * len(samples)\n"
                                "def broken(outputs, samples):\n    raise ValueError('no such thing')\n";

TEST_F(Tasks, AMetricOfTheUsersOwnJudges) {
    if (run_command("${LATHE_PYTHON:-python3} -c 'import numpy'").exit_code != 0)
        GTEST_SKIP() << "SKIPPED: Python has no NumPy here";
    build(tiny_segmenter());
    workspace_.save_array("a.npy", {7, 3, 8, 8});
    workspace_.write("mine.py", metrics);
    const auto json =
        workspace_.good_json("eval s.engine --reference s.engine --data a.npy --batch-size 3 --task mine.py:share");
    EXPECT_EQ(json["data"]["samples"], 7);
    const double score = json["subjects"][0]["score"].get<double>();
    EXPECT_GT(score, 0);
    EXPECT_LT(score, 1);
    EXPECT_EQ(json["metric"]["name"], "share");
    workspace_.save(tiny_segmenter(), "s.onnx");
    workspace_.save_array("many.npy", {40, 3, 8, 8});
    const Json whole = workspace_.as_json(
        workspace_.lathe(std::string(quick_job) + "--calibrate many.npy --evaluate a.npy --task mine.py:share").output);
    EXPECT_NEAR(whole["eval"]["subjects"][0]["score"].get<double>(), score, 1e-6);
    EXPECT_EQ(whole["eval"]["metric"]["name"], "share");
    struct Case {
        const char* task;
        const char* words;
    };
    for (const Case& c : {Case{"mine.py:one", "no list of numbers"}, Case{"mine.py:few", "1 numbers for"},
                          Case{"mine.py:nothing", "nan for sample"}, Case{"mine.py:broken", "no such thing"},
                          Case{"mine.py:absent", "no function absent"}, Case{"other.py:share", "other.py"},
                          Case{"mine.py:", "--task"}, Case{"mine.txt:share", "--task"}}) {
        const auto refused = workspace_.lathe(std::string("eval s.engine --data a.npy --task ") + c.task);
        EXPECT_NE(refused.exit_code, 0) << c.task;
        EXPECT_THAT(refused.errors, HasSubstr(c.words)) << c.task;
    }
}

} // namespace
} // namespace lathe::test
