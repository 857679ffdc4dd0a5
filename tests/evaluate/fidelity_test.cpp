#include "evaluate/fidelity.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "evaluate/statistics.hpp"
#include "support/json.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
using Row = std::vector<float>;

TEST(OutputKindDetection, TellsProbabilitiesFromLogits) {
    struct Case {
        const char* name;
        Row values;
        std::size_t classes;
        OutputKind kind;
    };
    for (const auto& [name, values, classes, kind] : std::vector<Case>{
             {"probabilities", {0.2F, 0.3F, 0.5F, 1, 0, 0}, 3, OutputKind::probabilities},
             {"rounded to half precision", {0.2F, 0.3F, 0.4995F}, 3, OutputKind::probabilities},
             {"one row does not sum to 1", {0.2F, 0.3F, 0.5F, 1, 1, 0}, 3, OutputKind::logits},
             {"negative but sums to 1", {-0.5F, 0.5F, 1}, 3, OutputKind::logits},
             {"plain logits", {3, -2, 8}, 3, OutputKind::logits},
             {"one class", {1}, 1, OutputKind::logits},
             {"not a number", {nan, 0.5F, 0.5F}, 3, OutputKind::logits},
         }) {
        EXPECT_EQ(detect_output_kind(values, classes), kind) << name;
    }
}

TEST(KlDivergence, ValuesWorkedByHand) {
    // P = (1/2, 1/2), Q = (1/4, 3/4): 1/2 ln 2 + 1/2 ln 2/3.
    const double expected = 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3.0);
    EXPECT_NEAR(kl_divergence(Row{0.5F, 0.5F}, Row{0.25F, 0.75F}, OutputKind::probabilities), expected, 1e-9);
    EXPECT_NEAR(kl_divergence(Row{7, 7}, Row{0, static_cast<float>(std::log(3.0))}, OutputKind::logits), expected,
                1e-7);
    // A shift of all logits changes nothing, and great ones do not overflow.
    EXPECT_NEAR(kl_divergence(Row{1000, 1000}, Row{500, 500}, OutputKind::logits), 0, 1e-12);
    EXPECT_EQ(kl_divergence(Row{3, 1, 2}, Row{3, 1, 2}, OutputKind::logits), 0);
    // A class that the subject rules out is floored, not infinite.
    const double floored = kl_divergence(Row{0.5F, 0.5F}, Row{1, 0}, OutputKind::probabilities);
    EXPECT_TRUE(std::isfinite(floored));
    EXPECT_GT(floored, 40);
}

TEST(FidelityMeter, EqualOutputs) {
    Fidelity fidelity;
    EXPECT_EQ(fidelity.add(Row{1, 2, 3}, Row{1, 2, 3}, OutputKind::logits), 0.0);
    EXPECT_EQ(fidelity.mean_kl(), 0);
    EXPECT_TRUE(std::isinf(fidelity.sqnr_db()));
    EXPECT_NEAR(fidelity.mean_cosine(), 1, 1e-15);
    EXPECT_EQ(fidelity.max_abs_error(), 0);
}

TEST(FidelityMeter, NotANumberEntersNoFigure) {
    Fidelity fidelity;
    fidelity.add(Row{1, 2}, Row{1, 2.5F}, OutputKind::logits);
    const double kl = fidelity.mean_kl();
    EXPECT_FALSE(fidelity.add(Row{1, 2}, Row{nan, 2}, OutputKind::logits));
    EXPECT_FALSE(fidelity.add(Row{1, infinity}, Row{1, 2}, OutputKind::logits));
    EXPECT_EQ(fidelity.samples(), 1U);
    EXPECT_EQ(fidelity.nonfinite(), 2U);
    EXPECT_EQ(fidelity.mean_kl(), kl);
    EXPECT_EQ(fidelity.max_abs_error(), 0.5);
}

TEST(FidelityMeter, ZeroRows) {
    Fidelity fidelity;
    fidelity.add(Row{0, 0}, Row{0, 0}, OutputKind::logits);
    fidelity.add(Row{0, 0}, Row{1, 0}, OutputKind::logits);
    EXPECT_EQ(fidelity.mean_cosine(), 0.5);
    EXPECT_EQ(fidelity.sqnr_db(), -std::numeric_limits<double>::infinity());
}

TEST(TopClass, TiesGoToTheFirstAndNanToNobody) {
    EXPECT_EQ(top_class(Row{1, 3, 3}), 1U);
    EXPECT_FALSE(top_class(Row{1, nan, 3}));
    EXPECT_FALSE(top_class(Row{}));
    EXPECT_TRUE(in_top(Row{1, 3, 3}, 1, 1));
    EXPECT_FALSE(in_top(Row{1, 3, 3}, 2, 1));
    EXPECT_TRUE(in_top(Row{1, 3, 3}, 2, 2));
    EXPECT_FALSE(in_top(Row{5, 4, 3, 2, 1, 0}, 5, 5));
    EXPECT_TRUE(in_top(Row{5, 4, 3, 2, 1, 0}, 4, 5));
    EXPECT_FALSE(in_top(Row{1, nan}, 0, 2));
    EXPECT_FALSE(in_top(Row{1, 2}, 7, 5));
}

// Every metric against tests/evaluate/reference_metrics.py, which shares no code with ours.
TEST(Metrics, MatchThePlainPythonReference) {
    if (test::run_command("python3 -c 'import math, fractions'").exit_code != 0) GTEST_SKIP() << "SKIPPED: no python3";
    constexpr unsigned seed = 5;
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<Row> reference(25, Row(40));
    std::vector<Row> subject = reference;
    Fidelity fidelity;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        for (std::size_t j = 0; j < reference[i].size(); ++j) {
            reference[i][j] = normal(random);
            subject[i][j] = reference[i][j] + 0.1F * normal(random);
        }
        fidelity.add(reference[i], subject[i], OutputKind::logits);
    }
    const std::vector<std::vector<std::size_t>> outcomes{{36, 12, 2, 0}, {3400, 40, 35, 1525}, {10, 0, 0, 0},
                                                         {0, 3, 4, 5},   {20, 1, 0, 29},       {500, 150, 90, 300}};
    const test::TemporaryFolder folder;
    std::ofstream(folder / "case.json")
        << Json{{"reference", reference}, {"subject", subject}, {"outcomes", outcomes}}.dump();
    const auto result = test::run_command("python3 " + test::source_path("tests/evaluate/reference_metrics.py") +
                                          " < " + (folder / "case.json").string());
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto expected = parse_json(result.output, "reference_metrics.py");
    ASSERT_TRUE(expected);
    EXPECT_NEAR(fidelity.mean_kl(), expected->at("mean_kl").get<double>(), 1e-12);
    EXPECT_NEAR(fidelity.sqnr_db(), expected->at("sqnr_db").get<double>(), 1e-9);
    EXPECT_NEAR(fidelity.mean_cosine(), expected->at("cosine").get<double>(), 1e-12);
    EXPECT_NEAR(fidelity.max_abs_error(), expected->at("max_abs_error").get<double>(), 1e-12);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const PairedOutcomes paired{outcomes[i][0], outcomes[i][1], outcomes[i][2], outcomes[i][3]};
        const McNemar test = mcnemar(paired);
        EXPECT_NEAR(test.p_exact, expected->at("mcnemar")[i][0].get<double>(), 1e-10) << i;
        EXPECT_NEAR(test.p_mid, expected->at("mcnemar")[i][1].get<double>(), 1e-10) << i;
        const Interval difference = paired_difference_interval(paired);
        EXPECT_NEAR(difference.low, expected->at("newcombe")[i][0].get<double>(), 1e-10) << i;
        EXPECT_NEAR(difference.high, expected->at("newcombe")[i][1].get<double>(), 1e-10) << i;
        const Interval share = wilson_interval(paired.both_right + paired.only_subject_right, paired.total());
        EXPECT_NEAR(share.low, expected->at("wilson")[i][0].get<double>(), 1e-10) << i;
        EXPECT_NEAR(share.high, expected->at("wilson")[i][1].get<double>(), 1e-10) << i;
    }
}

} // namespace
} // namespace lathe
