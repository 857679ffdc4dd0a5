#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/fields.hpp"
#include "report/sample.hpp"
#include "report/verdict.hpp"
#include "report/wording.hpp"

namespace lathe::report {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Json engine(const std::string& precision) {
    return {{"name", precision}, {"kind", "engine"}, {"precision", precision}};
}

Json latency(const std::string& subject, double median, double relative_error = 0.01, double batch = 1) {
    return {{"subject", subject},
            {"batch", batch},
            {"median_ms", median},
            {"ci95_ms", {median * (1 - relative_error), median * (1 + relative_error)}}};
}

/// fp32 10 ms, and int8 and perhaps bf16 as given; PyTorch 50 ms.
Json bench_of(double int8_ms, std::optional<double> bf16_ms = {}) {
    Json bench{{"kind", "bench"}, {"version", 1}};
    bench["subjects"] = {
        engine("fp32"), engine("int8"), {{"name", "torch"}, {"kind", "pytorch"}, {"precision", "fp32"}}};
    bench["latency"] = {latency("fp32", 10.0), latency("int8", int8_ms), latency("torch", 50.0)};
    if (bf16_ms) {
        bench["subjects"].push_back(engine("bf16"));
        bench["latency"].push_back(latency("bf16", *bf16_ms));
    }
    return bench;
}

/// A change of top-1 in points with its interval.
struct Change {
    double low;
    double point;
    double high;
};

void add_subject(Json& eval, const std::string& name, Change change) {
    eval["subjects"].push_back({{"name", name},
                                {"precision", name},
                                {"samples", 1000},
                                {"top1", 0.7 + change.point / 100},
                                {"vs_reference",
                                 {{"reference", "fp32"},
                                  {"agreement", 0.98},
                                  {"top1_delta", change.point / 100},
                                  {"top1_delta_ci95", {change.low / 100, change.high / 100}}}}});
}

Json eval_of(Change int8, std::optional<Change> bf16 = {}) {
    Json eval{{"kind", "eval"}, {"version", 1}};
    eval["subjects"] = Json::array({{{"name", "fp32"}, {"precision", "fp32"}, {"samples", 1000}, {"top1", 0.7}}});
    add_subject(eval, "int8", int8);
    if (bf16) add_subject(eval, "bf16", *bf16);
    return eval;
}

struct Case {
    const char* what;
    double int8_ms;
    std::optional<double> bf16_ms;
    std::optional<Change> int8;
    std::optional<Change> bf16;
    double limit;
    const char* recommended;
    const char* text; ///< a part of the headline
    Accuracy accuracy;
    Speed speed;
};

/// GoogleTest names a parameter by this.
void PrintTo(const Case& c, std::ostream* out) { *out << c.what; }

class VerdictRules : public testing::TestWithParam<Case> {};

TEST_P(VerdictRules, RecommendsAndSaysWhy) {
    const Case& c = GetParam();
    const Json bench = bench_of(c.int8_ms, c.bf16_ms);
    const Json eval = c.int8 ? eval_of(*c.int8, c.bf16) : Json();
    const Verdict verdict = make_verdict(&bench, c.int8 ? &eval : nullptr, {c.limit});
    EXPECT_EQ(verdict.recommended, c.recommended) << verdict.text;
    EXPECT_THAT(verdict.text, HasSubstr(c.text));
    EXPECT_THAT(verdict.reasons, Not(IsEmpty()));
    ASSERT_GE(verdict.candidates.size(), 2U);
    EXPECT_EQ(verdict.candidates[1].name, "int8");
    EXPECT_STREQ(to_string(verdict.candidates[1].accuracy), to_string(c.accuracy));
    EXPECT_STREQ(to_string(verdict.candidates[1].speed), to_string(c.speed));
}

INSTANTIATE_TEST_SUITE_P(
    Table, VerdictRules,
    testing::Values(
        Case{"clear win",
             5.5,
             {},
             Change{-0.5, -0.1, 0.3},
             {},
             1.0,
             "int8",
             "INT8: 1.82× FP32, 9.1× PyTorch eager, −0.10 pt top-1 ±0.4: use it",
             Accuracy::within,
             Speed::faster},
        Case{"a proven small loss within the limit",
             5.0,
             {},
             Change{-0.9, -0.6, -0.3},
             {},
             1.0,
             "int8",
             "use it",
             Accuracy::within,
             Speed::faster},
        Case{"no loss seen, interval a little over the limit",
             5.0,
             {},
             Change{-1.1, -0.1, 0.9},
             {},
             1.0,
             "int8",
             "use it",
             Accuracy::indistinguishable,
             Speed::faster},
        Case{"too few samples",
             5.0,
             {},
             Change{-4.0, -0.5, 3.0},
             {},
             1.0,
             "fp32",
             "1,000 samples cannot show that its accuracy holds",
             Accuracy::unproven,
             Speed::faster},
        Case{"a real loss around the limit",
             5.0,
             {},
             Change{-1.3, -0.8, -0.3},
             {},
             1.0,
             "fp32",
             "cannot show",
             Accuracy::unproven,
             Speed::faster},
        Case{"too large a loss",
             5.0,
             {},
             Change{-3.1, -2.3, -1.5},
             {},
             1.0,
             "fp32",
             "INT8: 2.0× FP32, 10× PyTorch eager, but −2.30 pt top-1 ±0.8, more than the 1 pt allowed: use FP32",
             Accuracy::worse,
             Speed::faster},
        Case{"the same loss under a wider limit",
             5.0,
             {},
             Change{-3.1, -2.3, -1.5},
             {},
             4.0,
             "int8",
             "use it",
             Accuracy::within,
             Speed::faster},
        Case{"a limit of nothing",
             5.0,
             {},
             Change{-0.2, -0.1, 0.0},
             {},
             0.0,
             "fp32",
             "cannot show",
             Accuracy::unproven,
             Speed::faster},
        Case{"slower",
             12.0,
             {},
             Change{-0.2, 0.0, 0.2},
             {},
             1.0,
             "fp32",
             "INT8: 0.83× FP32, slower on this machine: use FP32",
             Accuracy::within,
             Speed::slower},
        Case{"no faster beyond noise",
             9.95,
             {},
             Change{-0.2, 0.0, 0.2},
             {},
             1.0,
             "fp32",
             "no faster beyond noise on this machine: use FP32",
             Accuracy::within,
             Speed::same},
        Case{"bf16 wins over a lossy int8", 5.0, 7.0, Change{-3.1, -2.3, -1.5}, Change{-0.1, 0.0, 0.1}, 1.0, "bf16",
             "BF16: 1.43× FP32", Accuracy::worse, Speed::faster},
        Case{"int8 wins over bf16", 5.0, 7.0, Change{-0.2, 0.0, 0.2}, Change{-0.1, 0.0, 0.1}, 1.0, "int8", "INT8: 2.0×",
             Accuracy::within, Speed::faster},
        Case{"equal within noise: the higher precision", 5.0, 5.02, Change{-0.2, 0.0, 0.2}, Change{-0.1, 0.0, 0.1}, 1.0,
             "bf16", "BF16", Accuracy::within, Speed::faster},
        Case{"not evaluated",
             5.0,
             {},
             {},
             {},
             1.0,
             "",
             "INT8: 2.0× FP32, 10× PyTorch eager; accuracy not measured",
             Accuracy::not_measured,
             Speed::faster},
        Case{"slower needs no evaluation",
             12.0,
             {},
             {},
             {},
             1.0,
             "fp32",
             "slower on this machine: use FP32",
             Accuracy::not_measured,
             Speed::slower}),
    [](const auto& info) {
        std::string name = info.param.what;
        for (char& c : name)
            if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
        return name;
    });

TEST(Verdict, PairedRatiosComeBeforeMedians) {
    Json bench = bench_of(5.0);
    bench["ratios"] = Json::array(
        {{{"subject", "int8"}, {"reference", "fp32"}, {"batch", 1}, {"speedup", 0.9}, {"ci95", {0.88, 0.92}}}});
    const Json eval = eval_of({-0.2, 0.0, 0.2});
    const Verdict verdict = make_verdict(&bench, &eval);
    EXPECT_EQ(verdict.recommended, "fp32");
    EXPECT_THAT(verdict.text, HasSubstr("0.90× FP32, slower"));
    // The other way round: fp32's ratio against int8 says the same.
    bench["ratios"] = Json::array(
        {{{"subject", "fp32"}, {"reference", "int8"}, {"batch", 1}, {"speedup", 1.25}, {"ci95", {1.2, 1.3}}}});
    EXPECT_THAT(make_verdict(&bench, &eval).text, HasSubstr("0.80× FP32, slower"));
}

TEST(Verdict, FewPairsHaveNoInterval) {
    Json bench = bench_of(5.0);
    bench["ratios"] = Json::array({{{"subject", "int8"},
                                    {"reference", "fp32"},
                                    {"batch", 1},
                                    {"speedup", 2.0},
                                    {"ci95", {2.0, 2.0}},
                                    {"pairs", 1},
                                    {"ci95_covered", false}}});
    const Json eval = eval_of({-0.2, 0.0, 0.2});
    const Verdict verdict = make_verdict(&bench, &eval);
    EXPECT_THAT(verdict.reasons, Contains(HasSubstr("2.00× (1 pair, too few for an interval)")));
    EXPECT_THAT(verdict.reasons, Not(Contains(HasSubstr("2.00 to 2.00"))));
}

TEST(Verdict, SmallestCommonBatchDecidesAndOthersAreMentioned) {
    Json bench = bench_of(5.0);
    bench["latency"].push_back(latency("fp32", 40.0, 0.01, 8));
    bench["latency"].push_back(latency("int8", 60.0, 0.01, 8));
    const Json eval = eval_of({-0.2, 0.0, 0.2});
    const Verdict verdict = make_verdict(&bench, &eval);
    EXPECT_EQ(verdict.recommended, "int8");
    EXPECT_EQ(verdict.batch, 1.0);
    EXPECT_THAT(verdict.reasons, Contains(HasSubstr("At batch 8 INT8 is slower than FP32")));
}

TEST(Verdict, NoisyTimingsAreNamed) {
    Json bench = bench_of(5.0);
    bench["latency"][1]["noisy"] = true;
    EXPECT_THAT(make_verdict(&bench, nullptr).reasons, Contains(HasSubstr("timing of INT8 did not settle")));
    bench["latency"][0]["noisy"] = true;
    const auto reasons = make_verdict(&bench, nullptr).reasons;
    const auto both = std::ranges::find_if(reasons, [](const std::string& reason) {
        return reason.starts_with("The timing of FP32 and INT8 did not settle");
    });
    EXPECT_LT(both - reasons.begin(), 3) << "the report shows four before it folds the others";
}

TEST(Verdict, UnlabelledEvaluationIsJudgedByAgreement) {
    const Json bench = bench_of(5.0);
    Json eval{{"subjects", {{{"name", "fp32"}, {"precision", "fp32"}}}}};
    eval["subjects"].push_back(
        {{"name", "int8"},
         {"precision", "int8"},
         {"samples", 5000},
         {"vs_reference", {{"reference", "fp32"}, {"agreement", 0.997}, {"agreement_ci95", {0.995, 0.998}}}}});
    EXPECT_EQ(make_verdict(&bench, &eval).recommended, "int8");
    eval["subjects"][1]["vs_reference"]["agreement_ci95"] = {0.985, 0.998};
    EXPECT_EQ(make_verdict(&bench, &eval).recommended, "fp32");
}

// Not by how often the answers are the same, which says less.
TEST(Verdict, AnswersAreJudgedByF1) {
    const Json bench = bench_of(5.0);
    Json eval = test::squad_eval();
    const Verdict verdict = make_verdict(&bench, &eval);
    EXPECT_EQ(verdict.recommended, "int8");
    EXPECT_THAT(verdict.text, HasSubstr("pt F1 ±"));
    EXPECT_THAT(verdict.reasons, Contains(HasSubstr("INT8's F1 is 81.0")));
    EXPECT_THAT(verdict.reasons, Not(Contains(HasSubstr("same class"))));
    eval["subjects"][1]["vs_reference"]["f1_delta"] = -0.05;
    eval["subjects"][1]["vs_reference"]["f1_delta_ci95"] = {-0.06, -0.04};
    EXPECT_EQ(make_verdict(&bench, &eval).recommended, "fp32");
}

// By whatever metric the evaluation says, here a detector's.
TEST(Verdict, ATaskIsJudgedByItsMetric) {
    const Json bench = bench_of(5.0);
    Json eval = test::detection_eval();
    const Verdict verdict = make_verdict(&bench, &eval);
    EXPECT_EQ(verdict.recommended, "int8");
    EXPECT_THAT(verdict.text, HasSubstr("pt mAP ±"));
    EXPECT_THAT(verdict.reasons, Contains(HasSubstr("INT8's mAP is 29.90 % on 80 samples")));
    eval["subjects"][1]["vs_reference"]["map_delta_ci95"] = nullptr; // a difference alone proves nothing
    EXPECT_EQ(make_verdict(&bench, &eval).recommended, "fp32");
    eval["subjects"][1]["vs_reference"]["map_delta"] = -0.06;
    eval["subjects"][1]["vs_reference"]["map_delta_ci95"] = {-0.09, -0.04};
    EXPECT_EQ(make_verdict(&bench, &eval).recommended, "fp32");
}

TEST(Verdict, EvaluationAloneRecommendsNothing) {
    const Json eval = eval_of({-0.2, 0.0, 0.2});
    const Verdict verdict = make_verdict(nullptr, &eval);
    EXPECT_EQ(verdict.recommended, "");
    EXPECT_EQ(verdict.text, "INT8: 0.00 pt top-1 ±0.2, within the 1 pt allowed; speed not measured");
}

TEST(Verdict, FrameworksAloneNameTheFastest) {
    Json bench{{"subjects", {{{"name", "a"}, {"kind", "onnxruntime"}}, {{"name", "b"}, {"kind", "pytorch"}}}}};
    bench["latency"] = {latency("a", 3.3), latency("b", 11.9)};
    const Verdict verdict = make_verdict(&bench, nullptr);
    EXPECT_EQ(verdict.recommended, "");
    EXPECT_EQ(verdict.text, "Fastest: ONNX Runtime, 3.30 ms at batch 1");
}

TEST(Verdict, LoneFp32) {
    Json bench{{"subjects", Json::array({engine("fp32")})}, {"latency", Json::array({latency("fp32", 10.0)})}};
    EXPECT_EQ(make_verdict(&bench, nullptr).text, "FP32: 10.0 ms at batch 1: the only engine measured");
    EXPECT_EQ(make_verdict(&bench, nullptr).recommended, "fp32");
}

TEST(Verdict, HostileInputGivesNoVerdict) {
    for (
        const char* text :
        {"{}", "[]", "null", "3", R"({"subjects": 5, "latency": {"a": 1}})",
         R"({"subjects": [1, null, {"name": 7, "kind": "engine"}], "latency": [3, {"batch": "x"}]})",
         R"({"subjects": [{"name": "a", "kind": "engine"}], "latency": [{"subject": "a", "batch": 1, "median_ms": -1, "ci95_ms": [3, 1]}]})"}) {
        const Json json = Json::parse(text);
        const Verdict verdict = make_verdict(&json, &json);
        EXPECT_EQ(verdict.recommended, "") << text;
    }
    EXPECT_EQ(make_verdict(nullptr, nullptr).text, "");
}

TEST(Verdict, JsonHoldsEverything) {
    const Json bench = bench_of(5.0);
    const Json eval = eval_of({-0.2, 0.0, 0.2});
    const Json json = to_json(make_verdict(&bench, &eval, {0.5}), {0.5});
    EXPECT_EQ(json["recommended"], "int8");
    EXPECT_EQ(json["max_drop_points"], 0.5);
    EXPECT_EQ(json["batch"], 1.0);
    EXPECT_EQ(json["candidates"][1]["speed"], "faster");
    EXPECT_EQ(json["candidates"][0]["accuracy"], "reference");
}

TEST(Labels, AreWhatPeopleSayAndStayApart) {
    const Json subjects = Json::parse(R"([
        {"name": "a", "kind": "engine", "precision": "int8"}, {"name": "b", "kind": "engine", "precision": "fp32"},
        {"name": "b2", "kind": "engine", "precision": "fp32"}, {"name": "ort", "kind": "onnxruntime", "precision": "fp32"},
        {"name": "ort8", "kind": "onnxruntime", "precision": "int8"},
        {"name": "ov", "kind": "openvino", "precision": "int8"}, {"name": "c", "kind": "torch-compile"}])");
    EXPECT_EQ(subject_label(subjects, "a"), "INT8");
    EXPECT_EQ(subject_label(subjects, "b"), "b");
    EXPECT_EQ(subject_label(subjects, "b2"), "b2");
    EXPECT_EQ(subject_label(subjects, "ort"), "ONNX Runtime");
    EXPECT_EQ(subject_label(subjects, "ort8"), "ONNX Runtime INT8");
    EXPECT_EQ(subject_label(subjects, "ov"), "OpenVINO INT8");
    EXPECT_EQ(subject_label(subjects, "c"), "torch.compile");
    EXPECT_EQ(subject_label(subjects, "missing"), "missing");
    const Json variants = {{{"name", "m.v2.bf16"}, {"kind", "engine"}, {"precision", "bf16"}},
                           {{"name", "m.v2.int8"}, {"kind", "engine"}, {"precision", "int8"}},
                           {{"name", "m.v2.int8-bf16"}, {"kind", "engine"}, {"precision", "bf16"}},
                           {{"name", "m.v2.int8-effort2"}, {"kind", "engine"}, {"precision", "int8"}},
                           {{"name", "vit-b.16-base"}, {"kind", "engine"}, {"precision", "fp32"}}};
    EXPECT_EQ(subject_label(variants, "m.v2.bf16"), "BF16");
    EXPECT_EQ(subject_label(variants, "m.v2.int8"), "INT8");
    EXPECT_EQ(subject_label(variants, "m.v2.int8-bf16"), "INT8-BF16");
    EXPECT_EQ(subject_label(variants, "m.v2.int8-effort2"), "INT8-effort2");
    EXPECT_EQ(subject_label(variants, "vit-b.16-base"), "FP32");
}

TEST(Wording, DigitsAreSensible) {
    EXPECT_EQ(times(1.854), "1.85×");
    EXPECT_EQ(times(9.04), "9.0×");
    EXPECT_EQ(times(23.4), "23×");
    EXPECT_EQ(factor(53.412), "53.4");
    EXPECT_EQ(milliseconds(1.7234), "1.72 ms");
    EXPECT_EQ(milliseconds(452.3), "452 ms");
    EXPECT_EQ(milliseconds(0.0123), "12.3 µs");
    EXPECT_EQ(points(-0.1), "−0.10");
    EXPECT_EQ(points(0.001), "0.00");
    EXPECT_EQ(count(1234567), "1,234,567");
    EXPECT_EQ(count(999), "999");
    EXPECT_EQ(percent(0.878), "87.80 %");
}

/// What lathe optimize makes where INT8 loses too much: a corrected network beside it, an engine like the others.
TEST(Verdict, ACorrectedNetworkThatKeepsItsAccuracyIsRecommended) {
    const auto judged = [](Change corrected, double corrected_ms) {
        Json bench = bench_of(5, 7);
        bench["subjects"].push_back({{"name", "int8-effort2"}, {"kind", "engine"}, {"precision", "int8"}});
        bench["latency"].push_back(latency("int8-effort2", corrected_ms));
        Json eval = eval_of({-6, -5, -4}, Change{-0.1, 0, 0.1});
        add_subject(eval, "int8-effort2", corrected);
        return make_verdict(&bench, &eval);
    };
    const Verdict good = judged({-0.6, -0.3, 0.1}, 5.2);
    EXPECT_EQ(good.recommended, "int8-effort2");
    EXPECT_THAT(good.text, HasSubstr("INT8-effort2: "));
    EXPECT_THAT(good.text, HasSubstr("use it"));
    // Neither where it still loses, nor where it is slower than BF16.
    EXPECT_EQ(judged({-4, -3, -2}, 5.2).recommended, "bf16");
    EXPECT_EQ(judged({-0.6, -0.3, 0.1}, 9).recommended, "bf16");
}

} // namespace
} // namespace lathe::report
