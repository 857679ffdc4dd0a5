// What moves numbers and is no operation of its own: parts in place, programs and products that read through movements,
// and the spellings behind which such movements stood.

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

struct MovedCase {
    const char* name;
    std::string graph;
    std::vector<Shape> shapes;
    std::map<std::string, int> kinds; ///< of the operations of its plan, and how many
};

/// Without conversions of inputs and outputs.
std::string begin(const std::string& more) {
    return "opset 18\nconst %zero: int64[1] = {0}\nconst %one: int64[1] = {1}\nconst %two: int64[1] = {2}\n"
           "const %three: int64[1] = {3}\nconst %four: int64[1] = {4}\nconst %eight: int64[1] = {8}\n"
           "const %all: int64[1] = {9223372036854775807}\n" +
           more;
}

/// x of [2, 4, 8, 16] with rotary positions in turns, its first `prefix` rows without.
std::string turned_in_pairs(int prefix) {
    const std::string rows = std::to_string(8 - prefix);
    std::string text =
        begin("input %x: float32[2, 4, 8, 16]\ninput %w_c: float32[" + rows + ", 16]\ninput %w_s: float32[" + rows +
              ", 16]\nconst %pairs: int64[4] = {2, 4, " + rows + ", 16}\n");
    text += prefix == 0 ? "%p = Relu(%x)\n"
                        : "%r = Relu(%x)\n%first = Slice(%r, %zero, %one, %two)\n%p = Slice(%r, %one, %eight, %two)\n";
    text += "%odd = Slice(%p, %one, %all, %three, %two)\n%even = Slice(%p, %zero, %all, %three, %two)\n"
            "%minus = Neg(%odd)\n%a = Unsqueeze(%minus, %four)\n%b = Unsqueeze(%even, %four)\n"
            "%c = Concat(%a, %b) {axis = 4}\n%t = Reshape(%c, %pairs)\n"
            "%s = Mul(%t, %w_s)\n%k = Mul(%p, %w_c)\n%y = Add(%k, %s)\n";
    text += prefix == 0 ? "output %y: float32[2, 4, 8, 16]\n"
                        : "%z = Concat(%first, %y) {axis = 2}\noutput %z: float32[2, 4, 8, 16]\n";
    return text;
}

/// x of [2, 4, 8, 16] with rotary positions on the first 8 numbers of each head, as halves.
std::string turned_in_part() {
    return begin("input %x: float32[2, 4, 8, 16]\ninput %w_c: float32[8, 8]\ninput %w_s: float32[8, 8]\n"
                 "%r = Relu(%x)\n%p = Slice(%r, %zero, %eight, %three)\n%rest = Slice(%r, %eight, %all, %three)\n"
                 "%a = Slice(%p, %zero, %four, %three)\n%b = Slice(%p, %four, %all, %three)\n%minus = Neg(%b)\n"
                 "%t = Concat(%minus, %a) {axis = 3}\n%s = Mul(%t, %w_s)\n%k = Mul(%p, %w_c)\n%y = Add(%k, %s)\n"
                 "%z = Concat(%y, %rest) {axis = 3}\noutput %z: float32[2, 4, 8, 16]\n");
}

std::string attention(const std::string& keys, const std::string& scores) {
    return begin("input %q: float32[2, 2, 8, 16]\ninput %k: float32[2, 2, 8, 16]\ninput %v: float32[2, 2, 8, 16]\n"
                 "input %w_h: float32[2, 1, 1]\n" +
                 keys + "%t = Transpose(%n) {perm = [0, 1, 3, 2]}\n%m = MatMul(%q, %t)\n" + scores +
                 "%p = Softmax(%s)\n%y = MatMul(%p, %v)\noutput %y: float32[2, 2, 8, 16]\n");
}

const std::vector<Shape> heads(3, {2, 2, 8, 16});

const std::vector<MovedCase>& moved_cases() {
    static const std::vector<MovedCase> list{
        {"rows of a batch are a place",
         begin("input %x: float32[4, 8, 16]\n%r = Relu(%x)\n%a = Slice(%r, %two, %three, %zero)\n%y = Softmax(%a)\n"
               "output %y: float32[1, 8, 16]\n"),
         {{4, 8, 16}},
         {{"pointwise", 1}, {"softmax", 1}}},
        {"a picked index is a place",
         begin("input %x: float32[4, 8, 16]\nconst %last: int64[] = {-1}\n%r = Relu(%x)\n%a = Gather(%r, %last)\n"
               "%y = Softmax(%a)\noutput %y: float32[8, 16]\n"),
         {{4, 8, 16}},
         {{"pointwise", 1}, {"softmax", 1}}},
        {"a part that begins between vectors is copied",
         begin("input %x: float32[4, 3, 5]\n%r = Relu(%x)\n%a = Slice(%r, %one, %three, %zero)\n%y = Softmax(%a)\n"
               "output %y: float32[2, 3, 5]\n"),
         {{4, 3, 5}},
         {{"pointwise", 1}, {"slice", 1}, {"softmax", 1}}},
        {"a gate reads both halves where they lie",
         begin("input %x: float32[2, 5, 16]\n%r = Softmax(%x)\n%a = Slice(%r, %zero, %eight, %two)\n"
               "%b = Slice(%r, %eight, %all, %two)\n%s = Sigmoid(%a)\n%y = Mul(%s, %b)\noutput %y: float32[2, 5, 8]\n"),
         {{2, 5, 16}},
         {{"softmax", 1}, {"pointwise", 1}}},
        {"a shift that is cut only before it is added",
         begin("input %x: float32[2, 5, 8]\ninput %c: float32[2, 16]\n%n = Softmax(%x)\n%m = Softmax(%c)\n"
               "%a = Slice(%m, %zero, %eight, %one)\n%f = Unsqueeze(%a, %one)\n%p = Mul(%n, %f)\n"
               "%b = Slice(%m, %eight, %all, %one)\n%g = Unsqueeze(%b, %one)\n%y = Add(%p, %g)\n"
               "output %y: float32[2, 5, 8]\n"),
         {{2, 5, 8}, {2, 16}},
         {{"softmax", 2}, {"pointwise", 1}}},
        {"both sides of a sum are one pass",
         begin("input %x: float32[2, 5, 16]\ninput %z: float32[2, 5, 16]\n%a = Softmax(%x)\n%b = Softmax(%z)\n"
               "%s = Sigmoid(%a)\n%t = Tanh(%b)\n%p = Mul(%s, %a)\n%q = Mul(%t, %b)\n%y = Add(%p, %q)\n"
               "output %y: float32[2, 5, 16]\n"),
         {{2, 5, 16}, {2, 5, 16}},
         {{"softmax", 2}, {"pointwise", 2}}},
        {"one side of a sum is taken along",
         begin("input %x: float32[2, 5, 16]\ninput %z: float32[2, 5, 16]\n%a = Softmax(%x)\n%b = Softmax(%z)\n"
               "%s = Sigmoid(%a)\n%t = Tanh(%b)\n%y = Mul(%s, %t)\noutput %y: float32[2, 5, 16]\n"),
         {{2, 5, 16}, {2, 5, 16}},
         {{"softmax", 2}, {"pointwise", 1}}},
        {"channels of an image too",
         begin("input %x: float32[1, 16, 5, 4]\ninput %w_c: float32[32, 16, 1, 1]\nconst %half: int64[1] = {16}\n"
               "input %w_d: float32[16, 16, 3, 3]\n"
               "%c = Conv(%x, %w_c)\n%a = Slice(%c, %zero, %half, %one)\n%b = Slice(%c, %half, %all, %one)\n"
               "%m = Mul(%a, %b)\n%y = Conv(%m, %w_d)\noutput %y: float32[1, 16, 3, 2]\n"),
         {{1, 16, 5, 4}},
         {{"conv", 2}, {"pointwise", 1}}},
        {"a permutation that keeps neighbours",
         begin("input %x: float32[2, 3, 5, 16]\ninput %w_a: float32[3, 1]\n%r = Softmax(%x)\n"
               "%t = Transpose(%r) {perm = [0, 2, 1, 3]}\n%y = Mul(%t, %w_a)\noutput %y: float32[2, 5, 3, 16]\n"),
         {{2, 3, 5, 16}},
         {{"softmax", 1}, {"pointwise", 1}}},
        {"a transposition has its own kernel",
         begin("input %x: float32[2, 16, 32]\ninput %w_a: float32[16]\n%r = Softmax(%x)\n"
               "%t = Transpose(%r) {perm = [0, 2, 1]}\n%y = Mul(%t, %w_a)\noutput %y: float32[2, 32, 16]\n"),
         {{2, 16, 32}},
         {{"softmax", 1}, {"transpose", 1}, {"pointwise", 1}}},
        {"products read transposed operands",
         begin("input %a: float32[2, 5, 7]\ninput %b: float32[2, 6, 7]\n%p = Softmax(%a)\n%q = Softmax(%b)\n"
               "%t = Transpose(%q) {perm = [0, 2, 1]}\n%y = MatMul(%p, %t)\noutput %y: float32[2, 5, 6]\n"),
         {{2, 5, 7}, {2, 6, 7}},
         {{"softmax", 2}, {"batched_gemm", 1}}},
        {"heads that share their keys are rows",
         begin("input %a: float32[2, 3, 5, 7]\ninput %b: float32[2, 1, 7, 6]\n%p = Softmax(%a)\n%q = Softmax(%b)\n"
               "%y = MatMul(%p, %q)\noutput %y: float32[2, 3, 5, 6]\n"),
         {{2, 3, 5, 7}, {2, 1, 7, 6}},
         {{"softmax", 2}, {"batched_gemm", 1}}},
        {"products of a batch that is repeated in part",
         begin("input %a: float32[2, 3, 5, 7]\ninput %b: float32[1, 3, 7, 6]\n%p = Softmax(%a)\n%q = Softmax(%b)\n"
               "%y = MatMul(%p, %q)\noutput %y: float32[2, 3, 5, 6]\n"),
         {{2, 3, 5, 7}, {1, 3, 7, 6}},
         {{"softmax", 2}, {"pointwise", 1}, {"batched_gemm", 1}}},
        {"heads that share their keys in a batch that is repeated in part",
         begin("input %a: float32[2, 3, 4, 5, 7]\ninput %b: float32[1, 3, 1, 7, 6]\n%p = Softmax(%a)\n"
               "%q = Softmax(%b)\n%y = MatMul(%p, %q)\noutput %y: float32[2, 3, 4, 5, 6]\n"),
         {{2, 3, 4, 5, 7}, {1, 3, 1, 7, 6}},
         {{"softmax", 2}, {"pointwise", 1}, {"batched_gemm", 1}}},
        {"heads that share turned keys",
         begin("input %a: float32[2, 3, 5, 7]\ninput %b: float32[2, 1, 6, 7]\n%p = Softmax(%a)\n%q = Softmax(%b)\n"
               "%t = Transpose(%q) {perm = [0, 1, 3, 2]}\n%y = MatMul(%p, %t)\noutput %y: float32[2, 3, 5, 6]\n"),
         {{2, 3, 5, 7}, {2, 1, 6, 7}},
         {{"softmax", 2}, {"batched_gemm", 1}}},
        {"positions in turns", turned_in_pairs(0), {{2, 4, 8, 16}}, {{"pointwise", 1}, {"rotary", 1}}},
        {"positions behind a class token", turned_in_pairs(1), {{2, 4, 8, 16}}, {{"pointwise", 1}, {"rotary", 1}}},
        {"positions on a part of each head", turned_in_part(), {{2, 4, 8, 16}}, {{"pointwise", 1}, {"rotary", 1}}},
        {"a concatenation with nothing",
         begin("input %x: float32[2, 4, 8, 16]\n%r = Relu(%x)\n%n = Slice(%r, %all, %all, %three)\n"
               "%c = Concat(%r, %n) {axis = 3}\n%y = Softmax(%c)\noutput %y: float32[2, 4, 8, 16]\n"),
         {{2, 4, 8, 16}},
         {{"pointwise", 1}, {"softmax", 1}}},
        {"queries normalised head by head",
         begin("input %q: float32[2, 8, 2, 16]\ninput %k: float32[2, 8, 2, 16]\ninput %v: float32[2, 8, 2, 16]\n"
               "input %w_g: float32[16]\n%a = Transpose(%q) {perm = [0, 2, 1, 3]}\n%n = LayerNormalization(%a, %w_g)\n"
               "%b = Transpose(%k) {perm = [0, 2, 3, 1]}\n%m = MatMul(%n, %b)\n%p = Softmax(%m)\n"
               "%c = Transpose(%v) {perm = [0, 2, 1, 3]}\n%y = MatMul(%p, %c)\noutput %y: float32[2, 2, 8, 16]\n"),
         {{2, 8, 2, 16}, {2, 8, 2, 16}, {2, 8, 2, 16}},
         {{"layer_norm", 1}, {"attention", 1}}},
        {"keys of length 1",
         attention("%l = ReduceL2(%k, %three)\nconst %e: float32[] = {1e-12}\n%c = Clip(%l, %e)\n%n = Div(%k, %c)\n",
                   "%s = Mul(%m, %w_h)\n"),
         heads,
         {{"layer_norm", 1}, {"pointwise", 1}, {"attention", 1}}},
        {"masks of windows that are added twice", // Swin V2 of Hugging Face
         begin("input %q: float32[4, 2, 8, 16]\ninput %k: float32[4, 2, 8, 16]\ninput %v: float32[4, 2, 8, 16]\n"
               "input %w_b: float32[1, 2, 8, 8]\ninput %w_m: float32[1, 2, 1, 8, 8]\n"
               "const %apart: int64[5] = {2, 2, 2, 8, 8}\nconst %together: int64[4] = {4, 2, 8, 8}\n"
               "%t = Transpose(%k) {perm = [0, 1, 3, 2]}\n%m = MatMul(%q, %t)\n%s = Add(%m, %w_b)\n"
               "%a = Reshape(%s, %apart)\n%b = Add(%a, %w_m)\n%c = Add(%b, %w_m)\n%d = Reshape(%c, %together)\n"
               "%p = Softmax(%d)\n%y = MatMul(%p, %v)\noutput %y: float32[4, 2, 8, 16]\n"),
         {{4, 2, 8, 16}, {4, 2, 8, 16}, {4, 2, 8, 16}},
         {{"attention", 1}}},
        {"heads that are samples only in products", // BLOOM, with a slope of each head and a mask of each sample
         begin("input %q: float32[6, 8, 16]\ninput %k: float32[6, 8, 16]\ninput %v: float32[6, 8, 16]\n"
               "input %w_a: float32[6, 1, 8]\ninput %m: float32[2, 1, 8, 8]\n"
               "const %apart: int64[4] = {2, 3, 8, 8}\nconst %together: int64[3] = {6, 8, 8}\n"
               "const %f: float32[] = {0.25}\n%t = Transpose(%k) {perm = [0, 2, 1]}\n%s = MatMul(%q, %t)\n%c = Mul(%s, "
               "%f)\n%a = Add(%c, %w_a)\n"
               "%b = Reshape(%a, %apart)\n%d = Add(%b, %m)\n%p = Softmax(%d)\n%e = Reshape(%p, %together)\n"
               "%y = MatMul(%e, %v)\noutput %y: float32[6, 8, 16]\n"),
         {{6, 8, 16}, {6, 8, 16}, {6, 8, 16}, {2, 1, 8, 8}},
         {{"attention", 1}}},
        {"masked scores that are scaled and kept above the lowest number", // CodeGen, XGLM
         begin("input %q: float32[2, 2, 8, 16]\ninput %k: float32[2, 2, 8, 16]\ninput %v: float32[2, 2, 8, 16]\n"
               "input %w_m: float32[1, 1, 8, 8]\nconst %f: float32[] = {4.0}\nconst %low: float32[] = {-3.4e38}\n"
               "%t = Transpose(%k) {perm = [0, 1, 3, 2]}\n%m = MatMul(%q, %t)\n%s = Add(%m, %w_m)\n%d = Div(%s, %f)\n"
               "%b = Max(%d, %low)\n%p = Softmax(%b)\n%y = MatMul(%p, %v)\noutput %y: float32[2, 2, 8, 16]\n"),
         heads,
         {{"attention", 1}}},
        {"rows and columns that go round", // Swin's windows
         begin("input %x: float32[2, 5, 6, 8]\n%r = Relu(%x)\n%a = Slice(%r, %two, %all, %one)\n"
               "%b = Slice(%r, %zero, %two, %one)\n%c = Concat(%a, %b) {axis = 1}\nconst %last: int64[1] = {-3}\n"
               "%d = Slice(%c, %last, %all, %two)\n%e = Slice(%c, %zero, %last, %two)\n%f = Concat(%d, %e) {axis = 2}\n"
               "%y = Softmax(%f)\noutput %y: float32[2, 5, 6, 8]\n"),
         {{2, 5, 6, 8}},
         {{"pointwise", 1}, {"indexed", 2}, {"softmax", 1}}},
        {"indices that are the same for all heads", // DeBERTa
         begin("input %x: float32[6, 8, 20]\nconst %i: int64[1, 1, 4] = {3, -1, 0, 19}\n"
               "const %to: int64[3] = {6, 8, 4}\n%r = Relu(%x)\n%e = Expand(%i, %to)\n"
               "%y = GatherElements(%r, %e) {axis = 2}\noutput %y: float32[6, 8, 4]\n"),
         {{6, 8, 20}},
         {{"pointwise", 1}, {"indexed", 1}}},
        {"pixels out of channels",
         begin("input %x: float32[1, 8, 5, 4]\ninput %w_c: float32[64, 8, 3, 3]\ninput %w_d: float32[8, 16, 1, 1]\n"
               "%c = Conv(%x, %w_c) {pads = [1, 1, 1, 1]}\n%s = DepthToSpace(%c) {blocksize = 2, mode = \"CRD\"}\n"
               "%y = Conv(%s, %w_d)\noutput %y: float32[1, 8, 10, 8]\n"),
         {{1, 8, 5, 4}},
         {{"conv", 2}, {"transpose", 1}}},
        {"pixels into channels",
         begin("input %x: float32[1, 8, 4, 6]\ninput %w_c: float32[16, 8, 1, 1]\ninput %w_d: float32[8, 64, 1, 1]\n"
               "%c = Conv(%x, %w_c)\n%s = SpaceToDepth(%c) {blocksize = 2}\n%y = Conv(%s, %w_d)\n"
               "output %y: float32[1, 8, 2, 3]\n"),
         {{1, 8, 4, 6}},
         {{"conv", 2}}},
        {"pixels into channels of groups",
         begin("input %x: float32[1, 8, 4, 6]\ninput %w_c: float32[16, 8, 1, 1]\ninput %w_d: float32[8, 32, 1, 1]\n"
               "%c = Conv(%x, %w_c)\n%s = SpaceToDepth(%c) {blocksize = 2}\n%y = Conv(%s, %w_d) {group = 2}\n"
               "output %y: float32[1, 8, 2, 3]\n"),
         {{1, 8, 4, 6}},
         {{"conv", 2}, {"transpose", 1}}},
        {"means over axes apart",
         begin("input %x: float32[2, 3, 4, 5, 6]\nconst %axes: int64[2] = {2, -1}\n"
               "%y = ReduceMean(%x, %axes) {keepdims = 0}\noutput %y: float32[2, 3, 5]\n"),
         {{2, 3, 4, 5, 6}},
         {{"reduce", 2}}},
    };
    return list;
}

class ReadThrough : public testing::TestWithParam<MovedCase> {};

TEST_P(ReadThrough, GivesTheSameInFewerOperations) {
    const Model model = network(GetParam().graph);
    auto inputs = random_inputs(model, GetParam().shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, GetParam().shapes);
    EXPECT_EQ(operations_of(plan), GetParam().kinds) << cuda::print(plan);
    const auto expected = run_on_cpu(model, inputs);
    // Weights are rounded to float16, values are not.
    EXPECT_LT(relative_difference(expected[0], interpreted(plan, inputs, false)[0]), 1e-3) << cuda::print(plan);
    const cuda::Plan exact = plan_of(model, Precision::float32, GetParam().shapes);
    EXPECT_LT(relative_difference(expected[0], interpreted(exact, inputs, true)[0]), 1e-5) << cuda::print(exact);
}

INSTANTIATE_TEST_SUITE_P(Cases, ReadThrough, testing::ValuesIn(moved_cases()), [](const auto& info) {
    std::string name = info.param.name;
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
});

// Products [B * H, S, D] have a mask for each of their samples.
TEST(ReadThrough, MasksOfHeadsThatAreSamples) {
    const Model model = network("opset 18\ninput %q: float32[6, 8, 16]\ninput %k: float32[6, 8, 16]\n"
                                "input %v: float32[6, 8, 16]\ninput %m: float32[6, 8, 8]\n"
                                "%t = Transpose(%k) {perm = [0, 2, 1]}\n%s = MatMul(%q, %t)\n%a = Add(%s, %m)\n"
                                "%p = Softmax(%a)\n%y = MatMul(%p, %v)\noutput %y: float32[6, 8, 16]\n");
    const std::vector<Shape> shapes{{6, 8, 16}, {6, 8, 16}, {6, 8, 16}, {6, 8, 8}};
    auto inputs = random_inputs(model, shapes);
    const cuda::Plan plan = plan_of(model, Precision::float16, shapes);
    EXPECT_EQ(operations_of(plan)["attention"], 1) << cuda::print(plan);
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, false)[0]), 1e-5);
}

// What T5 makes its buckets of: the logarithm of distance 0 is no integer, and nothing reads what becomes of it.
TEST(ReadThrough, IntegersOfInfinitiesFold) {
    const Model model = network("opset 18\ninput %x: float32[1, 4]\nconst %d: float32[1, 4] = {0, 1, 8, 64}\n"
                                "const %far: int64[] = {2}\nconst %small: bool[1, 4] = {true, true, false, false}\n"
                                "const %own: int64[1, 4] = {0, 1, 2, 3}\n%l = Log(%d)\n%i = Cast(%l) {to = 7}\n"
                                "%m = Min(%i, %far)\n%w = Where(%small, %own, %m)\n%f = Cast(%w) {to = 1}\n"
                                "%y = Mul(%x, %f)\noutput %y: float32[1, 4]\n");
    auto inputs = random_inputs(model, {{1, 4}});
    const cuda::Plan plan = plan_of(model, Precision::float32, {{1, 4}});
    EXPECT_EQ(operations_of(plan), (std::map<std::string, int>{{"pointwise", 1}})) << cuda::print(plan);
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, true)[0]), 1e-6);
}

// The positions' table is picked from and turned once, when the plan is made.
TEST(ReadThrough, WhatDependsOnConstantsIsStored) {
    const Model model = network("opset 18\ninput %x: float32[2, 4, n]\ninput %w_t: float32[20000, 4]\n"
                                "const %last: int64[] = {2}\nconst %none: int64[] = {0}\nconst %one: int64[] = {1}\n"
                                "%shape = Shape(%x)\n%count = Gather(%shape, %last)\n%i = Range(%none, %count, %one)\n"
                                "%g = Gather(%w_t, %i)\n%t = Transpose(%g) {perm = [1, 0]}\n%e = Exp(%t)\n"
                                "%s = Softmax(%x)\n%y = Add(%s, %e)\noutput %y: float32[2, 4, n]\n");
    auto inputs = random_inputs(model, {{2, 4, 8}});
    const cuda::Plan plan = plan_of(model, Precision::float32, {{2, 4, 8}});
    EXPECT_EQ(operations_of(plan), (std::map<std::string, int>{{"pointwise", 1}, {"softmax", 1}})) << cuda::print(plan);
    EXPECT_THAT(cuda::print(plan), testing::HasSubstr("computed|"));
    EXPECT_LT(relative_difference(run_on_cpu(model, inputs)[0], interpreted(plan, inputs, true)[0]), 1e-6);
}

// PyTorch writes the batch size that it saw into nn.MultiheadAttention's Reshapes.
TEST(ReadThrough, ReshapesThatHoldForOneSizeAlone) {
    const Model model = network("opset 18\ninput %x: float32[n, 4, 6]\nconst %to: int64[2] = {8, 6}\n"
                                "%r = Relu(%x)\n%y = Reshape(%r, %to)\noutput %y: float32[8, 6]\n");
    EXPECT_EQ(operations_of(plan_of(model, Precision::float16, {{2, 4, 6}}))["pointwise"], 1);
    try {
        (void)plan_of(model, Precision::float16, {{3, 4, 6}});
        FAIL() << "a plan for other sizes than the model holds for";
    } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("Reshape"));
    }
}

// Thirty convolutions, each padded by what the length before it asks for: a round of folding a layer.
TEST(ReadThrough, SizesComputedLayerByLayerAreKnown) {
    std::string text = "opset 18\ninput %x0: float32[1, 8, 300]\ninput %w: float32[8, 8, 3]\n"
                       "input %w_c: float32[8, 8, 3]\nconst %at: int64[1] = {2}\nconst %k: int64[1] = {3}\n"
                       "const %none: int64[5] = {0, 0, 0, 0, 0}\n";
    text.erase(text.find("input %w: float32[8, 8, 3]\n"), std::string("input %w: float32[8, 8, 3]\n").size());
    for (int i = 0; i < 30; ++i) {
        const std::string n = std::to_string(i), next = std::to_string(i + 1);
        text += "%s" + n + " = Shape(%x" + n + ")\n%l" + n + " = Gather(%s" + n + ", %at)\n%r" + n + " = Mod(%l" + n +
                ", %k)\n%p" + n + " = Concat(%none, %r" + n + ") {axis = 0}\n%d" + n + " = Pad(%x" + n + ", %p" + n +
                ")\n%x" + next + " = Conv(%d" + n + ", %w_c)\n";
    }
    text += "%y = Relu(%x30)\noutput %y: float32[1, 8, n]\n";
    const Model model = network(text);
    const cuda::Plan plan = plan_of(model, Precision::float16, {{1, 8, 300}});
    EXPECT_FALSE(plan.ops.empty());
}

} // namespace
} // namespace lathe::test
