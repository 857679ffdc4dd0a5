// Texts as data of `lathe bench` and `lathe optimize`, on a tiny classifier with a WordPiece tokenizer.
#include "backends/openvino/tokenizer.hpp"
#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// The mean of its tokens' embeddings into two classes, with the small tokenizer of the backends' tests inside.
Model text_classifier() {
    Model model = model_from_text("opset 18\n"
                                  "input %input_ids: int64[N, S]\n"
                                  "input %table: float32[64, 16]\n"
                                  "input %f: float32[16, 2]\n"
                                  "input %b: float32[2]\n"
                                  "const %axes: int64[1] = {1}\n"
                                  "%words = Gather(%table, %input_ids)\n"
                                  "%mean = ReduceMean(%words, %axes) {keepdims = 0}\n"
                                  "%scores = Gemm(%mean, %f, %b) {name = \"head\"}\n"
                                  "output %scores: float32[N, 2]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "table", {64, 16}, 1);
    add_weights(model, "f", {16, 2}, 2);
    add_weights(model, "b", {2}, 3);
    const auto golden = read_json_file(LATHE_TOKENIZER);
    EXPECT_TRUE(golden) << golden.error().describe();
    model.set_metadata("lathe.tokenizer", (*golden)["tokenizer"].dump());
    return model;
}

class Texts : public testing::Test {
protected:
    void SetUp() override {
        if (const auto library = openvino::tokenizers_library(); !library) {
            GTEST_SKIP() << "SKIPPED: " << library.error().describe();
        }
        work_.save(text_classifier(), "t.onnx");
        work_.write("t.tsv", "kind\twords\n1\tthe quiet film\n0\ta moving film\n1\tunrelated\n");
    }
    Workspace work_;
};

const std::string quick = " --batch-sizes 2 --duration 0 --time-limit 0.2 ";

TEST_F(Texts, AreMeasuredOn) {
    work_.good("build t.onnx -o t.engine --shape 1x4..2x8..4x12");
    const Json document = work_.good_json("bench t.engine --data t.tsv --columns text=words" + quick);
    EXPECT_EQ(document["inputs"], "t.tsv");
    ASSERT_EQ(document["latency"].size(), 1U);
    EXPECT_GT(document["latency"][0]["median_ms"], 0);

    const CommandResult unnamed = work_.lathe("bench t.engine --data t.tsv" + quick);
    EXPECT_NE(unnamed.exit_code, 0);
    EXPECT_THAT(unnamed.errors, HasSubstr("no column with texts"));
}

TEST_F(Texts, AreOptimizedOn) {
    const std::string job = "optimize t.onnx --precisions fp32 --evaluate t.tsv --shape 1x2..2x8..4x12 --against '' "
                            "--output out --columns text=words,label=";
    const Json first = work_.good_json(job + "kind" + quick);
    EXPECT_EQ(first["eval"]["data"]["samples"], 3);
    EXPECT_EQ(first["bench"]["inputs"], "t.tsv");
    EXPECT_TRUE(first["eval"]["subjects"][0]["top1"].is_number());
    const Json again = work_.good_json(job + "kind" + quick);
    for (const Json& stage : again["stages"])
        EXPECT_TRUE(stage["reused"]) << stage.dump();

    // Other columns are other data.
    const CommandResult other = work_.lathe(job + "words" + quick);
    EXPECT_NE(other.exit_code, 0);
    EXPECT_THAT(other.errors, HasSubstr("is not the index of a class"));
}

} // namespace
} // namespace lathe::test
