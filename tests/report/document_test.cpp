#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/fields.hpp"
#include "report/sample.hpp"
#include "report/validate.hpp"

namespace lathe::report {
namespace {

using test::document_of;
using test::sample;
using testing::HasSubstr;
using testing::Not;

Result<Json> document_from(std::vector<Json> parts, const DocumentOptions& options = {}) {
    std::vector<Input> inputs;
    for (std::size_t i = 0; i < parts.size(); ++i)
        inputs.push_back({"file" + std::to_string(i) + ".json", std::move(parts[i])});
    return make_document(std::move(inputs), options);
}

TEST(Document, KeepsTheVerdictItIsGiven) {
    Json json = sample();
    json["verdict"] = {{"recommended", "fp32"}, {"text", "as decided"}, {"reasons", {"because"}}};
    const auto kept = document_of(json);
    ASSERT_TRUE(kept) << kept.error().describe();
    EXPECT_EQ((*kept)["verdict"]["text"], "as decided");
    DocumentOptions strict;
    strict.max_drop_points = 1.0;
    const auto anew = document_of(json, strict);
    ASSERT_TRUE(anew);
    EXPECT_EQ((*anew)["verdict"]["recommended"], "int8");
}

TEST(Document, PartOfItsOwnFileReplacesTheOptimizeResultsPart) {
    Json optimize = sample();
    optimize["verdict"] = {{"recommended", "int8"}, {"text", "old"}};
    Json bench = optimize["bench"];
    for (Json& row : bench["latency"])
        if (row["subject"] == "int8") row["median_ms"] = row["median_ms"].get<double>() * 10;
    bench.erase("ratios");
    for (Json& row : bench["latency"])
        row.erase("ci95_ms");
    for (const bool bench_first : {false, true}) {
        const auto document = bench_first ? document_from({bench, optimize}) : document_from({optimize, bench});
        ASSERT_TRUE(document) << document.error().describe();
        EXPECT_EQ((*document)["verdict"]["recommended"], "fp32");
    }
}

TEST(Document, AnyPartAloneWorks) {
    const Json whole = sample();
    for (const char* part : {"bench", "eval", "layers", "calibration", "quantization", "simplify"}) {
        Json json = whole[part];
        // Inside an optimize result these two go without a heading.
        json["kind"] = std::string(part) == "quantization" ? "quantize" : part;
        json["version"] = 1;
        const auto document = document_from({json});
        ASSERT_TRUE(document) << document.error().describe();
        EXPECT_TRUE(document->contains(part));
        EXPECT_THAT(text(*document, "title"), testing::EndsWith(" results"));
    }
    EXPECT_EQ((*document_from({whole["bench"]}))["verdict"]["recommended"], "") << "no evaluation, no choice";
}

TEST(Document, TakesResultsOfTextModels) {
    const auto lengths = document_from({test::text_lengths()});
    ASSERT_TRUE(lengths) << lengths.error().describe();
    EXPECT_EQ((*lengths)["title"], "Lengths results");
    EXPECT_EQ((*lengths)["command"], "lathe profile-data m.onnx --data t.tsv");
    EXPECT_EQ((*lengths)["lengths"]["proposals"].size(), 2U);
    const auto together = document_from({sample()["bench"], test::text_lengths()});
    ASSERT_TRUE(together) << together.error().describe();
    EXPECT_TRUE(together->contains("lengths"));
    EXPECT_FALSE(document_from({test::text_lengths(), test::text_lengths()}));
    Json fixed = test::text_lengths(); // a model of one length has no shapes to build
    fixed["shapes"] = nullptr;
    EXPECT_TRUE(document_from({fixed}));

    const auto similarity = document_from({test::similarity_eval()});
    ASSERT_TRUE(similarity) << similarity.error().describe();
    const Json* cut = find_item((*similarity)["notes"], "name", "cut_texts");
    ASSERT_NE(cut, nullptr);
    EXPECT_THAT(text(*cut, "detail"), HasSubstr("7 of the texts evaluated have more than 64 tokens"));
    EXPECT_TRUE(document_from({test::squad_eval()}));
    EXPECT_TRUE(document_from({test::detection_eval()}));
    Json detection = test::detection_eval();
    detection["subjects"][0]["map"] = "much"; // a figure that its own columns speak of
    const auto refused = document_from({detection});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().describe(), testing::HasSubstr("map"));
}

TEST(Document, TwoBenchmarksAreRefused) {
    const Json bench = sample()["bench"];
    const auto document = document_from({bench, bench});
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(document.error().hint, HasSubstr("separate runs must not be compared"));
    EXPECT_THAT(document.error().where, HasSubstr("file0.json and file1.json"));
}

TEST(Document, EvaluationsOfTheSameDataAreJoined) {
    const Json eval = sample()["eval"];
    Json first = eval;
    Json second = eval;
    first["subjects"] = {eval["subjects"][0], eval["subjects"][1]};
    second["subjects"] = Json::array({eval["subjects"][2]});
    const auto joined = document_from({first, second});
    ASSERT_TRUE(joined) << joined.error().describe();
    EXPECT_EQ((*joined)["eval"]["subjects"].size(), 3U);
    EXPECT_FALSE(document_from({first, first})) << "the same subject twice";
    second["data"]["digest"] = "other";
    const auto refused = document_from({first, second});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::mismatch);
}

TEST(Document, OnlyTheWorstTensorsKeepTheirHistogram) {
    const auto document = document_of(sample());
    ASSERT_TRUE(document);
    const Json& tensors = (*document)["calibration"]["tensors"];
    double last = -1e9;
    std::size_t histograms = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_GE(tensors[i]["sqnr_db"].get<double>(), last);
        last = tensors[i]["sqnr_db"].get<double>();
        if (!tensors[i].contains("histogram")) continue;
        EXPECT_EQ(i, histograms++) << "worst first";
        EXPECT_LE(tensors[i]["histogram"]["counts"].size(), 128U);
        EXPECT_EQ(tensors[i]["histogram"]["edges"].size(), tensors[i]["histogram"]["counts"].size() + 1);
    }
    EXPECT_EQ(histograms, 6U);
}

TEST(Document, MergingBinsKeepsTheirSumAndEnds) {
    Json calibration{{"kind", "calibration"}, {"version", 1}};
    Json edges = Json::array();
    Json counts = Json::array();
    for (int i = 0; i <= 1001; ++i)
        edges.push_back(i);
    for (int i = 0; i < 1001; ++i)
        counts.push_back(i % 7);
    calibration["tensors"] = Json::array({{{"name", "x"}, {"histogram", {{"edges", edges}, {"counts", counts}}}}});
    const auto document = document_from({calibration});
    ASSERT_TRUE(document) << document.error().describe();
    const Json& merged = (*document)["calibration"]["tensors"][0]["histogram"];
    double before = 0;
    double after = 0;
    for (const Json& value : counts)
        before += value.get<double>();
    for (const Json& value : merged["counts"])
        after += value.get<double>();
    EXPECT_EQ(before, after);
    EXPECT_EQ(merged["edges"].front(), 0);
    EXPECT_EQ(merged["edges"].back(), 1001);
    EXPECT_LE(merged["counts"].size(), 128U);
}

TEST(Document, NotesNameWhatIsUncertain) {
    const auto document = document_of(sample());
    ASSERT_TRUE(document);
    const Json& notes = (*document)["notes"];
    const Json* noisy = find_item(notes, "name", "noisy_timing");
    ASSERT_NE(noisy, nullptr);
    EXPECT_THAT(text(*noisy, "detail"), HasSubstr("PyTorch eager at batch 16"));
    EXPECT_NE(find_item(notes, "name", "duplicate_images"), nullptr);
    EXPECT_NE(find_item(notes, "name", "not_measured"), nullptr);
    const Json* benchmark = find_item(notes, "name", "benchmark");
    ASSERT_NE(benchmark, nullptr);
    EXPECT_THAT(text(*benchmark, "detail"), HasSubstr("virtual machine"));
}

struct BadCase {
    const char* name;
    const char* json;
    ErrorCode code;
    const char* where;
    const char* message;
};

/// GoogleTest names a parameter by this.
void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

class BadResults : public testing::TestWithParam<BadCase> {};

TEST_P(BadResults, AreRefusedWithPlaceAndReason) {
    const auto result = document_from({Json::parse(GetParam().json)});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, GetParam().code) << result.error().describe();
    EXPECT_THAT(result.error().where, HasSubstr(GetParam().where));
    EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
    EXPECT_FALSE(result.error().hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadResults,
    testing::Values(
        BadCase{"NotAnObject", "[1, 2]", ErrorCode::parse_error, "file0.json", "not a result of Lathe"},
        BadCase{"NoKind", "{}", ErrorCode::parse_error, "file0.json", "no \"kind\""},
        BadCase{"KindIsNumber", R"({"kind": 3})", ErrorCode::parse_error, "file0.json", "no \"kind\""},
        BadCase{"OtherKind", R"({"kind": "package", "version": 1})", ErrorCode::unsupported, "file0.json",
                "\"package\""},
        BadCase{"NoVersion", R"({"kind": "eval", "subjects": []})", ErrorCode::unsupported, "file0.json", "version 1"},
        BadCase{"NewVersion", R"({"kind": "bench", "version": 2})", ErrorCode::unsupported, "file0.json", "version 1"},
        BadCase{"NoSubjects", R"({"kind": "bench", "version": 1})", ErrorCode::parse_error, "file0.json: subjects",
                "missing"},
        BadCase{"SubjectsIsObject", R"({"kind": "eval", "version": 1, "subjects": {}})", ErrorCode::parse_error,
                "subjects", "must be an array, is object"},
        BadCase{
            "MedianIsText",
            R"({"kind": "bench", "version": 1, "subjects": [{"name": "a", "kind": "engine"}], "latency": [{"subject": "a", "batch": 1, "median_ms": "fast"}]})",
            ErrorCode::parse_error, "latency[0].median_ms", "must be a number, is string"},
        BadCase{
            "IntervalOfText",
            R"({"kind": "bench", "version": 1, "subjects": [], "latency": [{"subject": "a", "batch": 1, "median_ms": 1, "ci95_ms": ["a", "b"]}]})",
            ErrorCode::parse_error, "latency[0].ci95_ms", "array of numbers"},
        BadCase{
            "MixCostIsMissing",
            R"({"kind": "bench", "version": 1, "subjects": [], "length_mix": {"rows": [{"subject": "a", "padding": "own length"}]}})",
            ErrorCode::parse_error, "length_mix.rows[0].ms_per_sample", "missing"},
        BadCase{"LengthsWithoutHistogram", R"({"kind": "lengths", "version": 1, "samples": 3})", ErrorCode::parse_error,
                "histogram", "missing"},
        BadCase{"LengthIsText", R"({"kind": "lengths", "version": 1, "samples": 3, "histogram": [[3, 1], ["a", 2]]})",
                ErrorCode::parse_error, "histogram[1]", "a length and its number"},
        BadCase{
            "ProposalWithoutBuckets",
            R"({"kind": "lengths", "version": 1, "samples": 3, "histogram": [], "proposals": [{"computed_tokens": 3}]})",
            ErrorCode::parse_error, "proposals[0].buckets", "missing"},
        BadCase{"F1IsText", R"({"kind": "eval", "version": 1, "subjects": [{"name": "a", "f1": "good"}]})",
                ErrorCode::parse_error, "subjects[0].f1", "must be a number"},
        BadCase{"HasAnswerIsNumber", R"({"kind": "eval", "version": 1, "subjects": [{"name": "a", "has_answer": 1}]})",
                ErrorCode::parse_error, "subjects[0].has_answer", "must be an object"},
        BadCase{"RowIsNumber", R"({"kind": "bench", "version": 1, "subjects": [7]})", ErrorCode::parse_error,
                "subjects[0]", "must be an object, is number"},
        BadCase{"NestedPart", R"({"kind": "optimize", "version": 1, "bench": {"subjects": [{"name": 1}]}})",
                ErrorCode::parse_error, "bench.subjects[0].name", "must be a string"},
        BadCase{"PartIsText", R"({"kind": "optimize", "version": 1, "eval": "none"})", ErrorCode::parse_error, "eval",
                "must be an object"},
        BadCase{
            "HistogramEdges",
            R"({"kind": "calibration", "version": 1, "tensors": [{"name": "x", "histogram": {"edges": [0, 1], "counts": [1, 2]}}]})",
            ErrorCode::parse_error, "tensors[0].histogram", "one edge more"},
        BadCase{"StageWithoutTime", R"({"kind": "optimize", "version": 1, "stages": [{"name": "build"}]})",
                ErrorCode::parse_error, "stages[0].seconds", "missing"}),
    [](const auto& info) { return info.param.name; });

// Every field of the sample replaced by other values, one at a time: a clear refusal or a document, never a crash.
TEST(Document, SurvivesAnyFieldOfAnotherType) {
    const Json original = sample();
    const Json flat = original.flatten();
    std::size_t refused = 0;
    std::size_t tried = 0;
    const Json replacements = Json::parse(R"([null, "text", 7, -1e308, [], {}, true])");
    for (auto field = flat.begin(); field != flat.end(); ++field) {
        // One in 29 keeps the test short; 29 shares no factor with the rows' number of fields.
        if (tried++ % 29 != 0) continue;
        for (const Json& replacement : replacements) {
            Json changed = original;
            changed[Json::json_pointer(field.key())] = replacement;
            const auto result = document_of(std::move(changed));
            if (!result) {
                ++refused;
                EXPECT_FALSE(result.error().where.empty());
            }
        }
    }
    EXPECT_GT(refused, 50U);
}

Json log_bench(const std::string& name) {
    return {
        {"kind", "bench"},
        {"version", 1},
        {"source", "trtexec"},
        {"libraries", {{"tensorrt", "8.6.1"}}},
        {"notes", {"runs of their own"}},
        {"subjects", {{{"name", name}, {"kind", "trtexec"}, {"precision", "fp16"}, {"notes", {"without waiting"}}}}},
        {"latency", {{{"subject", name}, {"batch", 1}, {"median_ms", 0.01}, {"p95_ms", nullptr}}}},
        {"throughput", {{{"subject", name}, {"batch", 1}, {"samples_per_second", 1070.7}}}},
        {"ratios", Json::array()}};
}

// Logs of trtexec stand beside a benchmark of Lathe, whichever comes first, and beside each other, without a ratio.
TEST(Document, LogsOfTrtexecJoinABenchmark) {
    Json bench = sample()["bench"];
    bench["kind"] = "bench";
    bench["version"] = 1;
    const std::size_t subjects = bench["subjects"].size();
    const std::size_t ratios = bench["ratios"].size();
    const auto alone = document_from({bench});
    ASSERT_TRUE(alone);
    for (const bool logs_first : {false, true}) {
        const auto document = logs_first ? document_from({log_bench("a"), bench, log_bench("b")})
                                         : document_from({bench, log_bench("a"), log_bench("b")});
        ASSERT_TRUE(document) << document.error().describe();
        const Json& together = document->at("bench");
        EXPECT_EQ(together.at("subjects").size(), subjects + 2);
        EXPECT_EQ(together.at("ratios").size(), ratios);
        EXPECT_FALSE(together.contains("source"));
        EXPECT_EQ(together.at("libraries").at("tensorrt"), "8.6.1");
        EXPECT_EQ(document->at("machine"), bench.at("machine"));
        // Neither recommended nor compared with, though its figure is the least.
        EXPECT_EQ(document->at("verdict"), alone->at("verdict"));
        EXPECT_THAT(document->at("verdict").dump(), Not(HasSubstr("trtexec")));
        EXPECT_THAT(document->at("notes").dump(), HasSubstr("runs of their own"));
    }
    const auto optimized = document_from({sample(), log_bench("a")});
    ASSERT_TRUE(optimized) << optimized.error().describe();
    EXPECT_EQ(optimized->at("bench").at("subjects").size(), subjects + 1);
    const auto twice = document_from({log_bench("a"), log_bench("a")});
    ASSERT_FALSE(twice);
    EXPECT_THAT(twice.error().describe(), HasSubstr("both benchmarks have a subject \"a\""));
    EXPECT_FALSE(document_from({bench, bench}));
    EXPECT_TRUE(document_from({log_bench("a")}));
}

} // namespace
} // namespace lathe::report
