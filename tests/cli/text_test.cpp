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

TEST_F(Texts, TellWhichLengthsToBuildFor) {
    const Json document = work_.good_json("profile-data t.onnx --data t.tsv --columns text=words --buckets 2");
    EXPECT_EQ(document["kind"], "lengths");
    EXPECT_EQ(document["samples"], 3);
    std::size_t samples = 0;
    std::size_t tokens = 0;
    for (const Json& bin : document["histogram"]) {
        samples += bin[1].get<std::size_t>();
        tokens += bin[0].get<std::size_t>() * bin[1].get<std::size_t>();
    }
    EXPECT_EQ(samples, 3U);
    EXPECT_EQ(document["tokens"], tokens);
    EXPECT_EQ(document["own"]["computed_tokens"], tokens);
    const Json& last = document["proposals"].back();
    EXPECT_EQ(last["computed_tokens"], tokens) << "a bucket for every length pads nothing";
    EXPECT_GT(document["proposals"][0]["computed_tokens"].get<std::size_t>(), tokens);
    // What it prints is what `build` takes.
    work_.good("build t.onnx -o d.engine " + document["shapes"]["dynamic"].get<std::string>());
    for (const Json& shape : document["shapes"]["static"])
        work_.good("build t.onnx -o f.engine " + shape.get<std::string>());
    const std::string text = work_.good("profile-data d.engine --data t.tsv --columns text=words").output;
    EXPECT_THAT(text, HasSubstr("lathe build MODEL --shape input_ids:1x1..1x"));

    // Three samples in two requests: all are as long as the longest beside them.
    work_.write("long.tsv", "words\nthe quiet film the quiet film\nfilm\nunrelated\n");
    const Json alone = work_.good_json("profile-data t.onnx --data long.tsv --columns text=words");
    const Json pairs = work_.good_json("profile-data t.onnx --data long.tsv --columns text=words --batch-size 2");
    EXPECT_EQ(pairs["tokens"], alone["tokens"]);
    EXPECT_GE(pairs["own"]["computed_tokens"].get<int>(), alone["tokens"].get<int>() + 5)
        << "\"film\" has three tokens";
    EXPECT_THAT(pairs["shapes"]["dynamic"].get<std::string>(), HasSubstr("..2x"));
}

const std::string mix = " --lengths-from t.tsv --columns text=words --time-limit 0.2 ";

TEST_F(Texts, AreMeasuredAtTheirOwnLengthsAndFilledUp) {
    work_.good("build t.onnx -o t.engine --shape 1x2..1x8..2x12");
    work_.good("build t.onnx -o fixed.engine --shape 1x12");
    const Json document = work_.good_json(
        "bench t.engine fixed.engine --buckets own --buckets longest --buckets 8,12 --output mix.json" + mix);
    EXPECT_EQ(document["kind"], "bench");
    EXPECT_TRUE(document["latency"].empty());
    const Json& about = document["length_mix"];
    EXPECT_EQ(about["samples"], 3);
    EXPECT_GE(about["passes"], 1);
    ASSERT_EQ(about["rows"].size(), 4U);
    const std::size_t real = about["real_tokens"];
    const std::size_t longest = about["longest"];
    const std::vector<std::pair<std::string, std::size_t>> wanted{
        {"own length", real}, {"to " + std::to_string(longest), 3 * longest}, {"to 8, 12", 0}, {"to 12", 36}};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Json& row = about["rows"][i];
        EXPECT_EQ(row["padding"], wanted[i].first);
        if (wanted[i].second > 0) {
            EXPECT_EQ(row["computed_tokens"], wanted[i].second);
        }
        EXPECT_NEAR(row["padding_share"].get<double>(),
                    1 - static_cast<double>(real) / row["computed_tokens"].get<double>(), 1e-9);
        EXPECT_GT(row["ms_per_sample"].get<double>(), 0);
        EXPECT_GE(row["p99_ms"].get<double>(), row["median_ms"].get<double>());
    }
    EXPECT_EQ(about["ratios"].size(), 3U);
    work_.good("report mix.json -o mix.html");
    EXPECT_EQ(work_.page("mix.html")["bench"]["length_mix"], about);

    // Batches, and samples that are cut where an engine ends.
    const Json two = work_.good_json("bench t.engine --batch-sizes 2" + mix);
    EXPECT_EQ(two["length_mix"]["samples"], 2);
    work_.good("build t.onnx -o cut.engine --shape 1x4");
    const Json cut = work_.good_json("bench cut.engine t.engine" + mix);
    EXPECT_EQ(cut["length_mix"]["longest"], 4);
    EXPECT_GT(cut["length_mix"]["cut_samples"].get<int>(), 0);
}

TEST_F(Texts, WrongLengthsAreRefused) {
    work_.good("build t.onnx -o t.engine --shape 1x2..1x8..2x12");
    work_.save(tiny_classifier(), "picture.onnx");
    const auto refused = [&](const std::string& arguments, int code, const std::string& words) {
        const CommandResult result = work_.lathe(arguments, "timeout 60");
        EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(words)) << arguments;
    };
    refused("bench t.engine --buckets 8,x" + mix, 2, "\"8,x\"");
    refused("bench t.engine --buckets 2" + mix, 2, "largest bucket 2");
    refused("bench t.engine --buckets 8", 2, "--lengths-from");
    refused("bench t.engine --data t.tsv" + mix, 2, "--data");
    refused("bench t.engine --batch-sizes 1,2" + mix, 2, "--batch-sizes");
    refused("bench t.engine --lengths-from none.tsv", 3, "none.tsv");
    refused("bench t.engine --lengths-from t.tsv", 3, "no column with texts");
    work_.make_engine();
    refused("bench m.engine --lengths-from t.tsv", 4, "no tokenizer");
    refused("profile-data picture.onnx --data t.tsv", 4, "picture.onnx");
    refused("profile-data none.onnx --data t.tsv", 3, "none.onnx");
    refused("profile-data t.onnx --data none.tsv", 3, "none.tsv");
    refused("profile-data t.onnx --data t.tsv --columns text=nothing", 3, "nothing");
    refused("profile-data t.onnx --data t.tsv --buckets 9", 2, "--buckets");
    refused("profile-data t.onnx --data t.tsv --batch-size 0", 2, "--batch-size");
    work_.write("empty.tsv", "sentence\tlabel\n");
    refused("profile-data t.onnx --data empty.tsv", 3, "empty.tsv");
    // No bucket of the engine's: told, and the rest is measured.
    const CommandResult wide = work_.good("bench t.engine --buckets own --buckets 32" + mix);
    EXPECT_THAT(wide.errors, HasSubstr("t (to 32) was not measured"));
}

} // namespace
} // namespace lathe::test
