#include "sensitivity/advice.hpp"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "sensitivity/document.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Layers l0, l1, ... of equal work and this noise over signal.
Sensitivity layers_with(const std::vector<double>& noise) {
    Sensitivity sensitivity;
    for (std::size_t i = 0; i < noise.size(); ++i) {
        LayerSensitivity layer;
        layer.node = "l" + std::to_string(i);
        layer.role = i == 0 ? "first convolution" : "3x3 convolution";
        layer.macs = 100;
        layer.score.samples = 1;
        layer.score.signal = 1;
        layer.score.noise = noise[i];
        sensitivity.layers.push_back(layer);
    }
    return sensitivity;
}

TEST(Advice, RanksByDamage) {
    Sensitivity sensitivity = layers_with({0.001, 0.1, 0.01});
    sensitivity.layers.push_back({"f", "MatMul", "", 100, "stays in float", {}});
    const auto ranked = rank_layers(sensitivity, DamageMetric::sqnr);
    ASSERT_EQ(ranked.size(), 3U);
    EXPECT_EQ(ranked[0].layer, 1U);
    EXPECT_EQ(ranked[2].layer, 0U);
    EXPECT_NEAR(ranked[0].damage_share, 0.1 / 0.111, 1e-9);
    EXPECT_NEAR(ranked[0].macs_share, 0.25, 1e-9) << "of all work, that of the float layer too";
}

TEST(Advice, NamesTheLayersThatStandOut) {
    const Sensitivity sensitivity = layers_with({0.5, 0.001, 0.001, 0.3, 0.001, 0.001, 0.001});
    const auto sentences = advise(sensitivity, DamageMetric::sqnr);
    ASSERT_FALSE(sentences.empty());
    EXPECT_THAT(sentences[0], HasSubstr("l0 (first convolution) and l3 (3x3 convolution)"));
    EXPECT_THAT(sentences[0], HasSubstr("29 % of the multiply-accumulates"));
    EXPECT_THAT(sentences[1], HasSubstr("--exclude 'l0' --exclude 'l3'"));
}

TEST(Advice, IsSilentWhereNoLayerStandsOut) {
    const Sensitivity sensitivity = layers_with({0.010, 0.011, 0.012, 0.010, 0.011});
    EXPECT_TRUE(outstanding_layers(sensitivity, DamageMetric::sqnr).empty());
    const auto sentences = advise(sensitivity, DamageMetric::sqnr);
    ASSERT_EQ(sentences.size(), 1U);
    EXPECT_THAT(sentences[0], HasSubstr("INT8 throughout"));
    EXPECT_THAT(sentences[0], Not(HasSubstr("Keep")));
}

TEST(Advice, SaysThatDamageIsSpreadOverTheLayers) {
    Sensitivity sensitivity = layers_with({0.010, 0.011, 0.012, 0.010, 0.011});
    sensitivity.everything.samples = 10;
    sensitivity.everything.signal = 1;
    sensitivity.everything.noise = 0.001;
    auto sentences = advise(sensitivity, DamageMetric::sqnr);
    ASSERT_EQ(sentences.size(), 2U);
    EXPECT_THAT(sentences[0], HasSubstr("so INT8 throughout"));
    EXPECT_THAT(sentences[1], HasSubstr("leaves 30.0 dB"));
    sensitivity.everything.noise = 0.2;
    sentences = advise(sensitivity, DamageMetric::sqnr);
    ASSERT_EQ(sentences.size(), 2U);
    EXPECT_THAT(sentences[0], Not(HasSubstr("INT8 throughout")));
    EXPECT_THAT(sentences[1],
                HasSubstr("But INT8 throughout leaves 7.0 dB of signal to noise, spread over the layers"));
    sensitivity.everything.agree = 9;
    EXPECT_THAT(advise(sensitivity, DamageMetric::agreement)[1], HasSubstr("But INT8 throughout changes 10 %"));
}

TEST(Score, ALayerThatRuinsEverySampleIsTheWorst) {
    Score ruined;
    ruined.add(std::vector<float>{1, 2}, std::vector<float>{NAN, 2}, -1, OutputKind::logits);
    Score bad;
    bad.add(std::vector<float>{1, 2}, std::vector<float>{-100, 200}, -1, OutputKind::logits);
    for (const DamageMetric metric : {DamageMetric::sqnr, DamageMetric::kl, DamageMetric::agreement})
        EXPECT_GT(ruined.damage(metric), bad.damage(metric)) << to_string(metric);
    EXPECT_TRUE(std::isfinite(2 * ruined.damage(DamageMetric::sqnr)));
}

TEST(Score, SumsMeanWhatTheySay) {
    Score score;
    score.add(std::vector<float>{1, 2, 3}, std::vector<float>{1, 2, 3}, 2, OutputKind::logits);
    EXPECT_EQ(score.damage(DamageMetric::sqnr), 0);
    EXPECT_EQ(to_json(score)["sqnr_db"], nullptr) << "no noise at all";
    score.add(std::vector<float>{0, 3, 0}, std::vector<float>{0, 0, 3}, 1, OutputKind::logits);
    EXPECT_DOUBLE_EQ(score.damage(DamageMetric::sqnr), 18.0 / 23.0);
    EXPECT_DOUBLE_EQ(score.agreement(), 0.5);
    EXPECT_DOUBLE_EQ(score.top1_drop(), 0.5);
    // First sample: no change. Second: the margin falls from 3 to -3.
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    EXPECT_NEAR(score.soft_top1_drop(), (sigmoid(3) - sigmoid(-3)) / 2, 1e-12);
    score.add(std::vector<float>{1, 0, 0}, std::vector<float>{1, NAN, 0}, -1, OutputKind::logits);
    EXPECT_EQ(score.nonfinite, 1U);
    EXPECT_EQ(score.labelled, 2U);

    Score likely;
    likely.add(std::vector<float>{0.5F, 0.25F, 0.25F}, std::vector<float>{0.25F, 0.5F, 0.25F}, 0,
               OutputKind::probabilities);
    EXPECT_NEAR(likely.soft_top1_drop(), 2.0 / 3 - 1.0 / 3, 1e-6) << "odds of 2 to 1 and 1 to 2";

    const auto back = score_from_json(Json::parse(sums_to_json(score).dump()));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->kl, score.kl) << "exactly: a resumed run must not differ";
    EXPECT_EQ(back->noise, score.noise);
    EXPECT_EQ(back->part_kl, score.part_kl);
    EXPECT_EQ(back->part_noise, score.part_noise);
    EXPECT_DOUBLE_EQ(std::accumulate(score.part_kl.begin(), score.part_kl.end(), 0.0), score.kl);
    EXPECT_DOUBLE_EQ(std::accumulate(score.part_noise.begin(), score.part_noise.end(), 0.0), score.noise);
    Json damaged = sums_to_json(score);
    damaged.erase("kl");
    EXPECT_FALSE(score_from_json(damaged));
    damaged = sums_to_json(score);
    damaged["part_kl"].erase(0);
    EXPECT_FALSE(score_from_json(damaged));
    EXPECT_FALSE(score_from_json(Json::array()));
}

} // namespace
} // namespace lathe::test
