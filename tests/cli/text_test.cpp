// Texts as data of `lathe bench` and `lathe optimize`, on a tiny classifier with a WordPiece tokenizer.
#include <cmath>

#include "backends/openvino/tokenizer.hpp"
#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

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
    const auto golden = read_json_file(test::tokenizer_file());
    EXPECT_TRUE(golden) << golden.error().describe();
    model.set_metadata("lathe.tokenizer", (*golden)["tokenizer"].dump());
    return model;
}

/// The same words, and which of the two texts they are in, into one value: how alike a pair is.
Model cross_encoder() {
    Model model = model_from_text("opset 18\n"
                                  "input %input_ids: int64[N, S]\n"
                                  "input %token_type_ids: int64[N, S]\n"
                                  "input %table: float32[64, 16]\n"
                                  "input %types: float32[2, 16]\n"
                                  "input %f: float32[16, 1]\n"
                                  "input %b: float32[1]\n"
                                  "const %axes: int64[1] = {1}\n"
                                  "%words = Gather(%table, %input_ids)\n"
                                  "%sides = Gather(%types, %token_type_ids)\n"
                                  "%both = Mul(%words, %sides)\n"
                                  "%mean = ReduceMean(%both, %axes) {keepdims = 0}\n"
                                  "%logits = Gemm(%mean, %f, %b) {name = \"head\"}\n"
                                  "output %logits: float32[N, 1]\n");
    model.graph.inputs.resize(2); // the others become constants
    add_weights(model, "table", {64, 16}, 1);
    add_weights(model, "types", {2, 16}, 2);
    add_weights(model, "f", {16, 1}, 3);
    add_weights(model, "b", {1}, 4);
    const auto golden = read_json_file(test::tokenizer_file());
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

const std::string quick_text = " --batch-sizes 2 --duration 0 --time-limit 0.2 ";

TEST_F(Texts, AreMeasuredOn) {
    work_.good("build t.onnx -o t.engine --shape 1x4..2x8..4x12");
    const Json document = work_.good_json("bench t.engine --data t.tsv --columns text=words" + quick_text);
    EXPECT_EQ(document["inputs"], "t.tsv");
    ASSERT_EQ(document["latency"].size(), 1U);
    EXPECT_GT(document["latency"][0]["median_ms"], 0);

    const CommandResult unnamed = work_.lathe("bench t.engine --data t.tsv" + quick_text);
    EXPECT_NE(unnamed.exit_code, 0);
    EXPECT_THAT(unnamed.errors, HasSubstr("no column with texts"));
}

TEST_F(Texts, ThatAreNotUtf8AreRefused) {
    work_.good("build t.onnx -o t.engine --shape 1x2..2x8..4x12");
    const auto refused = [&](const std::string& arguments, const std::string& where, const std::string& byte) {
        const CommandResult result = work_.lathe(arguments);
        EXPECT_EQ(result.exit_code, 3) << arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr("not UTF-8: " + byte)) << arguments;
        EXPECT_THAT(result.errors, HasSubstr(where)) << arguments;
        EXPECT_THAT(result.errors, HasSubstr("iconv")) << arguments;
    };
    refused("run t.engine --text 'the film' --text \"$(printf 'caf\\351')\"", "text 2 of 2", "0xE9 at byte 4");
    refused("run t.engine --text \"$(printf '\\377\\376')\"", "text 1 of 1", "0xFF at byte 1");
    work_.write("latin.tsv", "words\tlabel\nthe film\t1\ncaf\xE9\t0\n");
    refused("eval t.engine --data latin.tsv --columns text=words,label=label", "latin.tsv, row 3", "0xE9 at byte 27");
    refused("calibrate t.onnx --data latin.tsv --columns text=words", "latin.tsv, row 3", "0xE9 at byte 27");
    refused("profile-data t.onnx --data latin.tsv --columns text=words", "latin.tsv, row 3", "0xE9 at byte 27");
    // With a byte order mark the same as without.
    work_.write("plain.csv", "text,label\ncaf\xC3\xA9,1\n\"the, film\",0\n");
    work_.write("mark.csv", "\xEF\xBB\xBFtext,label\ncaf\xC3\xA9,1\n\"the, film\",0\n");
    Json plain = work_.good_json("eval t.engine --data plain.csv");
    Json mark = work_.good_json("eval t.engine --data mark.csv");
    EXPECT_EQ(plain["subjects"], mark["subjects"]);
    EXPECT_EQ(plain["data"]["samples"], 2);
    work_.write("comma.csv", "text,label\ncaf\xC3\xA9,1\nthe, film,0\n");
    const CommandResult comma = work_.lathe("eval t.engine --data comma.csv");
    EXPECT_EQ(comma.exit_code, 3);
    EXPECT_THAT(comma.errors, HasSubstr("comma.csv, row 3"));
    EXPECT_THAT(comma.errors, HasSubstr("between quotes"));
}

TEST_F(Texts, LabelsMayBeTheModelsClassNames) {
    Model model = text_classifier();
    model.set_metadata("lathe.labels", R"(["Negative", "positive"])");
    work_.save(model, "named.onnx");
    work_.good("build named.onnx -o named.engine --shape 1x2..2x8..4x12");
    work_.write("words.tsv", "text\tlabel\nthe quiet film\tpositive\na moving film\tnegative\nunrelated\tPositive\n");
    work_.write("numbers.tsv", "text\tlabel\nthe quiet film\t1\na moving film\t0\nunrelated\t1\n");
    const Json words = work_.good_json("eval named.engine --data words.tsv");
    const Json numbers = work_.good_json("eval named.engine --data numbers.tsv");
    EXPECT_TRUE(words["subjects"][0]["top1"].is_number());
    EXPECT_EQ(words["subjects"], numbers["subjects"]);
    work_.good("sensitivity named.onnx --data words.tsv --length 8 --metric top1");
    work_.write("wrong.tsv", "text\tlabel\nthe quiet film\tgood\n");
    const CommandResult wrong = work_.lathe("eval named.engine --data wrong.tsv");
    EXPECT_EQ(wrong.exit_code, 3);
    EXPECT_THAT(wrong.errors, HasSubstr("\"good\" is neither the index of a class nor the name of one"));
    EXPECT_THAT(wrong.errors, HasSubstr("the model knows Negative, positive"));
}

TEST_F(Texts, CutTextsAreTold) {
    work_.write("long.tsv", "text\tlabel\nthe quiet film the quiet film\t1\nfilm\t0\nthe film\t1\n");
    work_.good("build t.onnx -o t.engine --shape 1x2..2x4..4x4");
    const std::string told = "1 of 3 texts have more than the 4 tokens that the model takes here, and were cut";
    const CommandResult eval = work_.good("eval t.engine --data long.tsv --batch-size 2 --json --output eval.json");
    EXPECT_THAT(eval.errors, HasSubstr("long.tsv: " + told));
    EXPECT_EQ(Workspace::as_json(eval.output)["data"]["cut_samples"], 1);
    EXPECT_EQ(Workspace::as_json(eval.output)["data"]["token_limit"], 4);
    work_.good("report eval.json -o eval.html");
    EXPECT_THAT(work_.page("eval.html")["notes"].dump(), HasSubstr("1 of the texts evaluated"));
    const CommandResult run = work_.good("run t.engine long.tsv --json");
    EXPECT_THAT(run.errors, HasSubstr(told));
    EXPECT_EQ(Workspace::as_json(run.output)["cut_samples"], 1);
    const CommandResult text = work_.good("run t.engine --text 'the quiet film the film' --json");
    EXPECT_THAT(text.errors, HasSubstr("1 of 1 texts"));
    // Two words and the special tokens just fit.
    const CommandResult fits = work_.good("run t.engine --text 'the film' --json");
    EXPECT_THAT(fits.errors, Not(HasSubstr("were cut")));
    EXPECT_EQ(Workspace::as_json(fits.output)["cut_samples"], 0);
    EXPECT_FALSE(work_.good_json("run t.engine --text film")["samples"].empty());
    // Beyond the tokenizer's own 12.
    work_.write("longer.txt", "the the the the the the the the the the the the\nfilm\n");
    const CommandResult calibrated = work_.good("calibrate t.onnx --data longer.txt --json");
    EXPECT_THAT(calibrated.errors, HasSubstr("cut_texts: 1 of 2 texts have more than the 12 tokens"));
    EXPECT_THAT(Workspace::as_json(calibrated.output)["findings"].dump(), HasSubstr("cut_texts"));
}

TEST_F(Texts, CrossEncodersAreJudgedByTheirValue) {
    work_.save(cross_encoder(), "cross.onnx");
    work_.good(
        "build cross.onnx -o cross.engine --shape input_ids:1x2..2x8..4x12 --shape token_type_ids:1x2..2x8..4x12");
    work_.write("pairs.tsv", "sentence1\tsentence2\tscore\nthe film\ta film\t4\nquiet\tmoving\t1\n"
                             "the quiet film\tthe film\t3\nunrelated\tfilm\t0\nmoving film\tfilm\t5\n");
    // One pair a request: the model has no mask, so padding would count.
    work_.good("run cross.engine pairs.tsv --batch-size 1 --output scores.npz");
    const Json eval =
        work_.good_json("eval cross.engine --task similarity --data pairs.tsv --batch-size 1 --output eval.json");
    EXPECT_EQ(eval["score"], "output");
    EXPECT_EQ(eval["data"]["samples"], 5);
    const auto arrays = read_npz(work_.path("scores.npz"));
    ASSERT_TRUE(arrays) << arrays.error().describe();
    const std::vector<double> scores{4, 1, 3, 0, 5};
    const auto values = arrays->front().as<const float>();
    ASSERT_EQ(values.size(), scores.size());
    double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const double value = values[i];
        x += value / 5, y += scores[i] / 5, xx += value * value / 5, yy += scores[i] * scores[i] / 5;
        xy += value * scores[i] / 5;
    }
    EXPECT_NEAR(eval["subjects"][0]["pearson"].get<double>(), (xy - x * y) / std::sqrt((xx - x * x) * (yy - y * y)),
                1e-4);
    EXPECT_EQ(work_.good_json("eval cross.engine --task similarity --data pairs.tsv --samples 3")["data"]["samples"],
              3);
    const Json against =
        work_.good_json("eval cross.engine --reference cross.engine --task similarity --data pairs.tsv");
    EXPECT_EQ(against["subjects"].size(), 1U);
    work_.good("report eval.json -o eval.html");
    // What gives several values is still cut in two and compared.
    work_.good("build t.onnx -o t.engine --shape 1x2..2x8..4x12");
    EXPECT_EQ(work_.good_json("eval t.engine --task similarity --data pairs.tsv")["score"], "cosine");
}

TEST_F(Texts, AreOptimizedOn) {
    const std::string job = "optimize t.onnx --precisions fp32 --evaluate t.tsv --shape 1x2..2x8..4x12 --against '' "
                            "--output out --columns text=words,label=";
    const Json first = work_.good_json(job + "kind" + quick_text);
    EXPECT_EQ(first["eval"]["data"]["samples"], 3);
    EXPECT_EQ(first["bench"]["inputs"], "t.tsv");
    EXPECT_TRUE(first["eval"]["subjects"][0]["top1"].is_number());
    const Json again = work_.good_json(job + "kind" + quick_text);
    for (const Json& stage : again["stages"])
        EXPECT_TRUE(stage["reused"]) << stage.dump();

    // Other columns are other data.
    const CommandResult other = work_.lathe(job + "words" + quick_text);
    EXPECT_NE(other.exit_code, 0);
    EXPECT_THAT(other.errors, HasSubstr("is not the index of a class"));
}

TEST_F(Texts, TellWhichLengthsToBuildFor) {
    const Json document = work_.good_json("profile-data t.onnx --data t.tsv --columns text=words --buckets 2");
    EXPECT_EQ(document["kind"], "lengths");
    EXPECT_EQ(document["samples"], 3);
    work_.write("lengths.json", document.dump());
    work_.good("report lengths.json -o lengths.html");
    EXPECT_EQ(work_.page("lengths.html")["lengths"]["histogram"], document["histogram"]);
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
