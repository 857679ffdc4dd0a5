#include "correct/layer.hpp"

#include <gtest/gtest.h>

#include "correct/layer_error.hpp"
#include "networks.hpp"

namespace lathe {
namespace {

struct LayerCase {
    const char* name;
    const char* node; ///< after "%y = "
    Shape input, weight;
};

class LayerOutputs : public ::testing::TestWithParam<LayerCase> {};

// Rows times weight is what the runtime computes, at every position, in the order in which positions were chosen.
TEST_P(LayerOutputs, EqualTheRuntimes) {
    const LayerCase& each = GetParam();
    Model model =
        test::model_from_text("opset 17\ninput %x: float32\n%y = " + std::string(each.node) + "\noutput %y: float32\n");
    test::add_weights(model, "w", each.weight, 9);
    const auto samples = test::noise_samples("x", each.input, 2, 5);
    const std::vector<Batches> expected = test::values_of(model, {"y"}, samples);

    std::string why;
    const auto layer = linear_layer(*model.graph.nodes.front(), each.weight, why);
    ASSERT_TRUE(layer) << why;
    const Positions positions = choose_positions(*layer, samples.at("x"), 100000);
    const auto rows = gather_rows(*layer, samples.at("x"), positions, 1);
    const auto weight = rows_of_weight(*layer, model.graph.initializer("w")->values<float>());
    LayerProduct product(1);
    const auto outputs = product(*layer, rows, positions.at.size(), weight);
    ASSERT_TRUE(outputs) << outputs.error().describe();
    ASSERT_EQ(outputs->size(), 2 * expected[0][0].as<float>().size()) << "every position is there";
    for (std::size_t n = 0; n < positions.at.size(); ++n) {
        const Positions::Position& at = positions.at[n];
        const HostTensor& given = expected[0][at.batch];
        for (std::size_t m = 0; m < layer->channels(); ++m) {
            const std::size_t place =
                layer->kind == LinearLayer::Kind::conv
                    ? ((at.sample * layer->channels() + m) * static_cast<std::size_t>(image_size(given.shape)[0]) +
                       static_cast<std::size_t>(at.y)) *
                              static_cast<std::size_t>(image_size(given.shape)[1]) +
                          static_cast<std::size_t>(at.x)
                    : (at.sample * (given.shape.size() == 3 ? 3 : 1) + static_cast<std::size_t>(at.y)) *
                              layer->channels() +
                          m;
            ASSERT_NEAR((*outputs)[m * positions.at.size() + n], given.as<float>()[place], 1e-4F)
                << "channel " << m << ", position " << n;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LayerOutputs,
    ::testing::Values(
        LayerCase{"conv", "Conv(%x, %w) {pads = [1, 1, 1, 1]}", {2, 3, 6, 5}, {4, 3, 3, 3}},
        LayerCase{"strided", "Conv(%x, %w) {strides = [2, 2], pads = [0, 1, 1, 0]}", {2, 3, 7, 6}, {4, 3, 3, 2}},
        LayerCase{"dilated", "Conv(%x, %w) {dilations = [2, 1], pads = [2, 1, 2, 1]}", {1, 2, 6, 6}, {4, 2, 3, 3}},
        LayerCase{"pointwise", "Conv(%x, %w)", {2, 6, 3, 3}, {4, 6, 1, 1}},
        LayerCase{"grouped", "Conv(%x, %w) {group = 2, pads = [1, 1, 1, 1]}", {2, 6, 4, 4}, {4, 3, 3, 3}},
        LayerCase{"depthwise", "Conv(%x, %w) {group = 6, pads = [1, 1, 1, 1]}", {2, 6, 4, 4}, {6, 1, 3, 3}},
        LayerCase{
            "same_upper", "Conv(%x, %w) {auto_pad = \"SAME_UPPER\", strides = [2, 2]}", {2, 3, 6, 7}, {4, 3, 3, 3}},
        LayerCase{
            "same_lower", "Conv(%x, %w) {auto_pad = \"SAME_LOWER\", strides = [2, 1]}", {2, 3, 6, 7}, {4, 3, 3, 2}},
        LayerCase{
            "same_wide", "Conv(%x, %w) {auto_pad = \"SAME_UPPER\", strides = [3, 3]}", {1, 3, 7, 8}, {4, 3, 1, 1}},
        LayerCase{"valid", "Conv(%x, %w) {auto_pad = \"VALID\"}", {1, 3, 6, 7}, {4, 3, 3, 3}},
        LayerCase{"signal", "Conv(%x, %w) {strides = [2], pads = [1, 2]}", {2, 3, 9}, {4, 3, 3}},
        LayerCase{"signal_depthwise", "Conv(%x, %w) {group = 6, dilations = [2], pads = [2, 2]}", {2, 6, 8}, {6, 1, 3}},
        LayerCase{"gemm", "Gemm(%x, %w)", {5, 6}, {6, 4}},
        LayerCase{"gemm_turned", "Gemm(%x, %w) {transB = 1}", {5, 6}, {4, 6}},
        LayerCase{"matmul", "MatMul(%x, %w)", {2, 3, 6}, {6, 4}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LinearLayer, SaysWhyItIsNone) {
    const Model model = test::model_from_text("opset 17\ninput %x: float32\ninput %w: float32\n"
                                              "%a = ConvTranspose(%x, %w)\n%b = Conv(%x, %w)\n"
                                              "output %a: float32\noutput %b: float32\n");
    std::string why;
    EXPECT_FALSE(linear_layer(*model.graph.nodes[0], {4, 3, 3, 3}, why));
    EXPECT_EQ(why, "ConvTranspose");
    EXPECT_FALSE(linear_layer(*model.graph.nodes[1], {4, 3, 3, 3, 3}, why));
    EXPECT_EQ(why, "a convolution in 3 dimensions");
}

TEST(Positions, AreSpreadOverTheSamplesAndEachOnce) {
    const auto samples = test::noise_samples("x", {4, 1, 8, 8}, 2, 1);
    LinearLayer layer;
    layer.outputs = 1;
    layer.depth = 1;
    const Positions positions = choose_positions(layer, samples.at("x"), 80);
    std::map<std::pair<std::size_t, std::size_t>, std::set<std::int64_t>> seen;
    for (const auto& at : positions.at)
        EXPECT_TRUE((seen[{at.batch, at.sample}].insert(at.y * 8 + at.x).second));
    ASSERT_EQ(seen.size(), 8U);
    for (const auto& [sample, places] : seen)
        EXPECT_EQ(places.size(), 10U);
}

// The tokens of one text are much alike: what is checked must be other texts.
TEST(Positions, RowsOfOneSampleStayTogether) {
    const auto samples = test::noise_samples("x", {2, 5, 4}, 4, 1);
    LinearLayer layer;
    layer.kind = LinearLayer::Kind::matmul;
    layer.outputs = 1;
    layer.depth = 4;
    const Positions all = choose_positions(layer, samples.at("x"), 1000);
    ASSERT_EQ(all.at.size(), 40U);
    EXPECT_EQ(all.at[7].sample, 1U);
    EXPECT_EQ(all.at[7].y, 2);
    const auto [fit, check] = split_by_sample(all);
    EXPECT_EQ(fit.at.size(), 30U);
    ASSERT_EQ(check.at.size(), 10U) << "the 4th and the 8th of eight samples";
    for (const auto& at : check.at)
        EXPECT_EQ((at.batch * 2 + at.sample) % 4, 3U);
}

TEST(Positions, AreSplitBySample) {
    const auto samples = test::noise_samples("x", {3, 1, 8, 8}, 3, 1);
    LinearLayer layer;
    layer.outputs = 1;
    layer.depth = 1;
    const auto [fit, check] = split_by_sample(choose_positions(layer, samples.at("x"), 90));
    EXPECT_EQ(fit.at.size(), 70U); // 9 samples, 10 positions each: the 4th and the 8th are kept apart
    ASSERT_EQ(check.at.size(), 20U);
    for (const auto& at : check.at)
        EXPECT_EQ((at.batch * 3 + at.sample) % 4, 3U);
    const auto few = split_by_sample(choose_positions(layer, test::noise_samples("x", {3, 1, 8, 8}, 1, 1).at("x"), 90));
    EXPECT_TRUE(few.second.at.empty());
}

// The covariances against sums written out in double.
TEST(LayerErrorTest, IsTheCovarianceWrittenOut) {
    LinearLayer layer;
    layer.groups = 2;
    layer.outputs = 2;
    layer.depth = 3;
    LayerRows rows;
    rows.positions = 50;
    rows.real = test::noise(2 * 50 * 3, 1);
    rows.quantized = test::noise(2 * 50 * 3, 2);
    const auto weight = test::noise(12, 3);
    const auto change = test::noise(12, 4);
    const auto error = measure_layer(layer, rows, weight, change, 0.0, 1);
    ASSERT_TRUE(error) << error.error().describe();
    for (std::size_t g = 0; g < 2; ++g) {
        const auto centred = [&](const std::vector<float>& from, std::size_t n, std::size_t k) {
            double mean = 0.0;
            for (std::size_t i = 0; i < 50; ++i)
                mean += static_cast<double>(from[(g * 50 + i) * 3 + k]) / 50;
            return static_cast<double>(from[(g * 50 + n) * 3 + k]) - mean;
        };
        for (std::size_t i = 0; i < 3; ++i) {
            for (std::size_t j = 0; j < 3; ++j) {
                double sum = 0.0;
                for (std::size_t n = 0; n < 50; ++n)
                    sum += centred(rows.quantized, n, i) * centred(rows.quantized, n, j) / 50;
                EXPECT_NEAR(static_cast<double>(error->hessian[(g * 3 + i) * 3 + j]), sum, 1e-5);
            }
            for (std::size_t m = 0; m < 2; ++m) {
                const std::size_t row = g * 2 + m;
                double pull = 0.0;
                for (std::size_t n = 0; n < 50; ++n) {
                    double e = 0.0;
                    for (std::size_t k = 0; k < 3; ++k)
                        e += static_cast<double>(weight[row * 3 + k]) *
                             (centred(rows.real, n, k) - centred(rows.quantized, n, k));
                    pull += e * centred(rows.quantized, n, i) / 50;
                }
                EXPECT_NEAR(static_cast<double>(error->pull[row * 3 + i]), pull, 1e-5);
                double gradient = -pull;
                for (std::size_t k = 0; k < 3; ++k)
                    gradient += static_cast<double>(change[row * 3 + k]) *
                                static_cast<double>(error->hessian[(g * 3 + k) * 3 + i]);
                EXPECT_NEAR(static_cast<double>(error->gradient[row * 3 + i]), gradient, 1e-5);
            }
        }
    }
}

} // namespace
} // namespace lathe
