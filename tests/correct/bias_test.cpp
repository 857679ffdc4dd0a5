#include "correct/bias.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "models.hpp"

namespace lathe {
namespace {

double error_of(const std::vector<float>& y, const std::vector<float>& z, const Clamp& clamp, double shift) {
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) {
        const auto d = static_cast<double>(std::clamp(y[i], clamp.low, clamp.high)) -
                       std::clamp(static_cast<double>(z[i]) + shift, static_cast<double>(clamp.low),
                                  static_cast<double>(clamp.high));
        sum += d * d;
    }
    return sum;
}

TEST(BiasShift, IsTheMeanErrorWithoutAClamp) {
    const std::vector<float> y{1.0F, -2.0F, 3.0F, 4.0F};
    const std::vector<float> z{0.5F, -2.25F, 3.0F, 3.0F};
    EXPECT_NEAR(bias_shift(y, z, {}), (0.5 + 0.25 + 0.0 + 1.0) / 4, 1e-6);
}

// Outputs far below zero err by 1, those that pass by 0.1: behind a Relu only the latter count.
TEST(BiasShift, CountsWhatPassesTheRelu) {
    std::vector<float> y(100, -5.0F);
    std::vector<float> z(100, -4.0F);
    for (std::size_t i = 0; i < 20; ++i) {
        y[i] = 1.0F + static_cast<float>(i);
        z[i] = y[i] - 0.1F;
    }
    EXPECT_NEAR(bias_shift(y, z, {}), -0.78, 1e-4);
    EXPECT_NEAR(bias_shift(y, z, {0.0F, std::numeric_limits<float>::infinity()}), 0.1, 1e-4);
}

TEST(BiasShift, ComesCloseToTheBestOfAGrid) {
    for (const Clamp clamp : {Clamp{}, Clamp{0.0F, std::numeric_limits<float>::infinity()}, Clamp{0.0F, 0.6F}}) {
        for (std::uint32_t seed = 1; seed <= 10; ++seed) {
            const auto y = test::noise(400, seed);
            auto z = test::noise(400, seed + 100);
            for (std::size_t i = 0; i < z.size(); ++i)
                z[i] = y[i] + 0.1F * z[i] + 0.05F;
            double best = error_of(y, z, clamp, 0.0);
            for (double shift = -0.2; shift <= 0.2; shift += 0.001)
                best = std::min(best, error_of(y, z, clamp, shift));
            const double shift = bias_shift(y, z, clamp);
            EXPECT_LE(error_of(y, z, clamp, shift), best * 1.02) << "seed " << seed;
        }
    }
}

TEST(BiasShift, IsZeroWhereNothingIsWrong) {
    const auto y = test::noise(100, 1);
    EXPECT_EQ(bias_shift(y, y, {}), 0.0);
    const std::vector<float> below(100, -1.0F); // nothing passes
    const std::vector<float> other(100, -2.0F);
    EXPECT_EQ(bias_shift(below, other, {0.0F, 6.0F}), 0.0);
}

Behind behind_of(const std::string& rest) {
    const Model model = test::model_from_text("opset 17\ninput %x: float32[1, 2, 4, 4]\ninput %z: float32[1, 2, 4, 4]\n"
                                              "const %w: float32[2, 2, 1, 1] = {1.0, 2.0, 3.0, 4.0}\n"
                                              "const %low: float32[] = {0.0}\nconst %six: float32[] = {6.0}\n"
                                              "%c = Conv(%x, %w)\n" +
                                              rest + "output %y: float32[1, 2, 4, 4]\n");
    return behind(EdgeIndex(model.graph), *model.graph.nodes.front());
}

TEST(BehindALayer, SeesWhatFollows) {
    EXPECT_EQ(behind_of("%y = Relu(%c)\n").clamp.low, 0.0F);
    EXPECT_TRUE(std::isinf(behind_of("%y = Relu(%c)\n").clamp.high));
    EXPECT_EQ(behind_of("%y = Clip(%c, %low, %six)\n").clamp.high, 6.0F);
    EXPECT_TRUE(std::isinf(behind_of("%y = Sigmoid(%c)\n").clamp.low));
    EXPECT_TRUE(std::isinf(behind_of("%y = Add(%c, %z)\n").clamp.low)) << "a linear bottleneck";
    EXPECT_EQ(behind_of("%y = Add(%c, %z)\n").other, "");
    const Behind sum = behind_of("%s = Add(%z, %c)\n%y = Relu(%s)\n");
    EXPECT_EQ(sum.clamp.low, 0.0F);
    EXPECT_EQ(sum.other, "z") << "the other term decides what passes";
    EXPECT_TRUE(std::isinf(behind_of("%s = Add(%low, %c)\n%y = Relu(%s)\n").clamp.low))
        << "a constant behind the bias moves what the Relu cuts off";
}

// MatMul + bias + Relu: a transformer's feed-forward layer.
TEST(BehindALayer, AMatMulsBiasIsNoOtherTerm) {
    const Model model = test::model_from_text("opset 17\ninput %x: float32[1, 3, 2]\n"
                                              "const %w: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}\n"
                                              "const %b: float32[2] = {1.0, 2.0}\n"
                                              "%c = MatMul(%x, %w)\n%s = Add(%b, %c)\n%y = Relu(%s)\n"
                                              "output %y: float32[1, 3, 2]\n");
    const Behind found = behind(EdgeIndex(model.graph), *model.graph.nodes.front());
    EXPECT_EQ(found.clamp.low, 0.0F);
    EXPECT_EQ(found.other, "");
}

} // namespace
} // namespace lathe
