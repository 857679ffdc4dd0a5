#include "correct/float_layers.hpp"

#include <gtest/gtest.h>

#include "models.hpp"
#include "networks.hpp"

namespace lathe {
namespace {

std::vector<std::string> cheap(const Model& model, const FloatCost& cost = {}) {
    const auto plan = plan_quantization(model, profile_of(Target::openvino));
    if (!plan) {
        ADD_FAILURE() << plan.error().describe();
        return {};
    }
    return cheap_last_layers(model, *plan, cost);
}

TEST(FloatLayers, AreTheLastAndCheapOnes) {
    // Weights 432, 2304 and 64 of 2800; multiply-accumulates a sample 27648, 147456 and 64.
    EXPECT_EQ(cheap(test::small_head_network()), std::vector<std::string>{"head"});
    EXPECT_TRUE(cheap(test::small_head_network(), {0.005, 3.0 * 63 / 2800}).empty()) << "its bytes";
    EXPECT_TRUE(cheap(test::small_head_network(), {63.0 / 175168, 0.1}).empty()) << "its work";
    EXPECT_TRUE(cheap(test::conv_network()).empty()) << "128 weights of 2864 are over 10 % in float";
}

TEST(FloatLayers, AreNotThoseInFrontOfOthers) {
    // Every layer may be as dear as it likes: still only the last.
    EXPECT_EQ(cheap(test::conv_network(), {1.0, 10.0}), std::vector<std::string>{"head"});
    Model twice = test::conv_network();
    twice.graph.nodes[0]->name = "head"; // a name that says two layers
    EXPECT_TRUE(cheap(twice, {1.0, 10.0}).empty());
    Model kind = test::conv_network();
    kind.graph.nodes.back()->name = "Conv"; // what is left in float by that name are the convolutions
    EXPECT_TRUE(cheap(kind, {1.0, 10.0}).empty());
    kind.graph.nodes.back()->name = std::string(2000, 'x'); // no pattern is so long
    EXPECT_TRUE(cheap(kind, {1.0, 10.0}).empty());
}

} // namespace
} // namespace lathe
