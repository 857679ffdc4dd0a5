// Slices and concatenations of images as places in memory.
#include <algorithm>

#include <gtest/gtest.h>

#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/plan/networks.hpp"
#include "backends/cuda/plan/parts.hpp"

namespace lathe::test {
namespace {

std::size_t count_of(const cuda::Plan& plan, const std::string& kind) {
    return static_cast<std::size_t>(
        std::ranges::count_if(plan.ops, [&](const cuda::FusedOp& op) { return cuda::kind_of(op) == kind; }));
}

const cuda::Value& named(const cuda::Plan& plan, const std::string& name) {
    const auto found = std::ranges::find(plan.values, name, &cuda::Value::name);
    if (found == plan.values.end()) throw std::runtime_error("no value " + name + "\n" + cuda::print(plan));
    return *found;
}

TEST(Parts, NothingIsCopiedButWhatNoKernelWritesThere) {
    const auto plan = plan_of(network(parted_network()), Precision::float16, {{2, 3, 16, 16}});
    EXPECT_EQ(count_of(plan, "concat"), 0U) << print(plan);
    EXPECT_EQ(count_of(plan, "slice"), 0U) << print(plan);
    EXPECT_EQ(count_of(plan, "pointwise"), 1U) << "a relu that follows no convolution\n" << print(plan);
    // The transposed convolution's result, and the outputs.
    const auto copies = std::ranges::count_if(plan.ops, [&](const cuda::FusedOp& op) {
        return cuda::kind_of(op) == std::string("reformat") && plan.values[op.outputs[0]].part;
    });
    EXPECT_EQ(copies, 1) << print(plan);
}

// The half that is read by convolutions lies where the block's results are joined, as do they.
TEST(Parts, OfABlockLieInWhatItJoins) {
    const auto plan = plan_of(network(parted_network()), Precision::float16, {{2, 3, 16, 16}});
    const cuda::Value &right = named(plan, "right"), &pair = named(plan, "pair"), &both = named(plan, "e_a");
    EXPECT_TRUE(right.part && pair.part && both.part) << print(plan);
    EXPECT_EQ(plan.values[right.alias_of].name, "block");
    EXPECT_EQ(plan.values[pair.alias_of].name, "block");
    EXPECT_EQ(both.alias_from, 0);
    EXPECT_EQ(right.alias_from, 16);
    EXPECT_EQ(pair.alias_from, 32);
    EXPECT_EQ(right.channel_stride, 48);
    EXPECT_EQ(right.byte_size(), (2U * 256 - 1) * 48 * 2 + 16 * 2);
    const cuda::MemoryPlan memory = cuda::plan_memory(plan);
    const auto at = [&](const cuda::Value& v) {
        return memory.offsets[static_cast<std::size_t>(&v - plan.values.data())];
    };
    EXPECT_EQ(at(pair), at(right) + 16 * 2);
}

// Of concatenations that grow, the shorter is the beginning of the longer.
TEST(Parts, OfADenseBlockAreThoseOfItsLast) {
    const auto plan = plan_of(network(parted_network()), Precision::float16, {{2, 3, 16, 16}});
    const cuda::Value& two = named(plan, "two");
    EXPECT_TRUE(two.part) << print(plan);
    EXPECT_EQ(plan.values[two.alias_of].name, "three");
    EXPECT_EQ(two.alias_from, 0);
    EXPECT_EQ(two.dims[1], 48);
}

TEST(Parts, AResidualBehindAnActivationIsTheConvolutions) {
    const auto plan = plan_of(network(parted_network()), Precision::float16, {{2, 3, 16, 16}});
    const auto found = std::ranges::find_if(plan.ops, [](const cuda::FusedOp& op) {
        const auto* conv = std::get_if<cuda::Conv>(&op.detail);
        return conv != nullptr && conv->epilogue.residual_last;
    });
    ASSERT_NE(found, plan.ops.end()) << print(plan);
    EXPECT_EQ(plan.values[found->outputs[0]].name, "pair");
    EXPECT_NE(signature(*found, plan).find("+silu+res:fp16/48"), std::string::npos) << signature(*found, plan);
}

// Channels that are no whole pieces of 16 bytes, and what others than images' kernels read, are left alone.
TEST(Parts, AreNotMadeWhereKernelsCouldNotReadThem) {
    const auto slices = [](const std::string& first, const std::string& tail) {
        return network("opset 18\ninput %x: float32[1, 16, 8, 8]\ninput %w_a: float32[32, 16, 1, 1]\n"
                       "input %w_b: float32[8, " +
                       first + ", 1, 1]\ninput %w_c: float32[16, 1, 3, 3]\nconst %parts: int64[2] = {" + first + ", " +
                       std::to_string(32 - std::stoi(first)) + "}\n%a = Conv(%x, %w_a)\n" +
                       "%b, %c = Split(%a, %parts) {axis = 1}\n" + tail);
    };
    const std::string conv =
        "%y = Conv(%b, %w_b)\n%z = Relu(%c)\noutput %y: float32[1, 8, 8, 8]\noutput %z: undefined\n";
    EXPECT_EQ(count_of(plan_of(slices("16", conv), Precision::float16, {{1, 16, 8, 8}}), "slice"), 0U);
    EXPECT_EQ(count_of(plan_of(slices("12", conv), Precision::float16, {{1, 16, 8, 8}}), "slice"), 1U)
        << "the other is read by a program";
    // In FP32 12 channels are 48 bytes.
    EXPECT_EQ(count_of(plan_of(slices("12", conv), Precision::float32, {{1, 16, 8, 8}}), "slice"), 0U);
    const std::string depthwise = "%y = Conv(%b, %w_c) {group = 16}\n%z = Conv(%c, %w_c) {group = 16}\n"
                                  "output %y: undefined\noutput %z: undefined\n";
    EXPECT_EQ(count_of(plan_of(slices("16", depthwise), Precision::float16, {{1, 16, 8, 8}}), "slice"), 0U);
    const std::string norms = "const %s: float32[16] = {1.0, ...}\n%y = InstanceNormalization(%b, %s, %s)\n"
                              "%z = InstanceNormalization(%c, %s, %s)\noutput %y: undefined\noutput %z: undefined\n";
    const auto kept = plan_of(slices("16", norms), Precision::float16, {{1, 16, 8, 8}});
    EXPECT_TRUE(std::ranges::none_of(kept.values, &cuda::Value::part)) << print(kept);
}

TEST(Parts, VerifyRefusesWhatBreaksTheirRules) {
    const auto good = plan_of(network(parted_network()), Precision::float16, {{2, 3, 16, 16}});
    ASSERT_TRUE(cuda::verify(good));
    const auto broken = [&](const std::string& name, auto change) {
        cuda::Plan plan = good;
        for (cuda::Value& value : plan.values)
            if (value.name == name) change(value);
        const auto found = cuda::verify(plan);
        return found ? std::string() : found.error().describe();
    };
    using cuda::Value;
    EXPECT_NE(broken("pair", [](Value& v) { v.alias_from = 16; }).find("written twice"), std::string::npos);
    EXPECT_NE(broken("pair", [](Value& v) { v.alias_from = 40; }).find("whole pieces"), std::string::npos);
    EXPECT_NE(broken("pair", [](Value& v) { v.channel_stride = 16; }).find("no such image"), std::string::npos);
    EXPECT_NE(broken("right", [](Value& v) { v.dims[2] = 8; }), "");
    // Channels that nobody has written yet.
    EXPECT_NE(broken("right", [](Value& v) { v.alias_from = 32; }).find("before it is written"), std::string::npos);
}

} // namespace
} // namespace lathe::test
