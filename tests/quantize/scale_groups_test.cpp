#include "quantize/scale_groups.hpp"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using test::graph;
using test::weight;
using ::testing::UnorderedElementsAre;

std::vector<float> normal(double deviation, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> distribution(0.0, deviation);
    std::vector<float> values(20000);
    for (float& value : values)
        value = static_cast<float>(distribution(random));
    return values;
}

/// A pyramid: `m` (the coarse level) is joined with `p`, and has a reader of its own; deviations of both are given.
struct Pyramid {
    Model model =
        graph("opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 16, 4, 4]\n" + weight("a", "16, 16, 1, 1", 256) +
              weight("b", "16, 16, 1, 1", 256) + weight("c", "16, 32, 1, 1", 512) + weight("d", "16, 16, 1, 1", 256) +
              "%p = Conv(%x, %a)\n%m = Conv(%x, %b)\n%j = Concat(%p, %m) {name = \"concat\", axis = 1}\n"
              "%y = Conv(%j, %c) {name = \"joined\"}\n%z = Conv(%m, %d) {name = \"alone\"}\n"
              "output %y: float32[1, 16, 4, 4]\noutput %z: float32[1, 16, 4, 4]\n");
    RangesFile ranges;

    Pyramid(double fine, double coarse) {
        ActivationStatistics statistics;
        statistics.samples = 64;
        const auto observe = [&](const char* name, std::initializer_list<std::vector<float>> values) {
            statistics.tensors.emplace_back();
            statistics.tensors.back().name = name;
            for (const auto& each : values)
                statistics.tensors.back().histogram.observe(each);
        };
        observe("x", {normal(1, 1)});
        observe("p", {normal(fine, 2)});
        observe("m", {normal(coarse, 3)});
        observe("j", {normal(fine, 2), normal(coarse, 3)});
        for (const char* output : {"y", "z"})
            observe(output, {normal(1, 4)});
        RangesKey key;
        key.model = calibration_key(model);
        ranges = make_ranges(std::move(statistics), key, Method::minmax, {}, 1);
    }

    /// Scales by quantised tensor.
    std::map<std::string, float> scales() const {
        QuantizeOptions options;
        options.target = Target::cuda;
        options.noisy_in_float = false;
        const auto outcome = quantize_model(model, ranges, options);
        EXPECT_TRUE(outcome) << outcome.error().describe();
        std::map<std::string, float> found;
        for (const auto& node : outcome->model.graph.nodes)
            if (node->is("QuantizeLinear"))
                found[node->input(0)] = outcome->model.graph.constant(node->input(1))->to_floats().front();
        return found;
    }
};

TEST(ScaleGroups, AlikeTensorsShareTheirScale) {
    const auto scales = Pyramid(1.0, 0.6).scales();
    ASSERT_TRUE(scales.contains("p") && scales.contains("m"));
    EXPECT_EQ(scales.at("p"), scales.at("m"));
    EXPECT_FALSE(scales.contains("j"));
}

TEST(ScaleGroups, UnlikeOnesKeepTheirOwn) {
    const auto scales = Pyramid(1.0, 0.02).scales();
    ASSERT_TRUE(scales.contains("m") && scales.contains("j"));
    EXPECT_NEAR(scales.at("m") / scales.at("j"), 0.02, 0.005);
    EXPECT_FALSE(scales.contains("p")) << "which nothing but the Concat reads";
}

TEST(ScaleGroups, ASmallPartThatNothingElseReadsLosesNothing) {
    Pyramid pyramid(0.02, 1.0);
    const auto scales = pyramid.scales();
    EXPECT_EQ(scales.at("p"), scales.at("m")) << "one convolution reads both: its scale is that of the larger";
}

} // namespace
} // namespace lathe
