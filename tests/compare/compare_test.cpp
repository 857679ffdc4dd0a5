// Two models on the same inputs: figures of one tensor, the first that differs, and small graphs that still differ.

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "compare/part.hpp"
#include "compare/reduce.hpp"
#include "correct/run.hpp"
#include "data/npy.hpp"
#include "onnx/onnx.hpp"
#include "support/progress.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using test::add_weights;
using test::model_from_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor tensor(const Shape& shape, const std::vector<float>& values) {
    HostTensor result("t", DataType::float32, shape);
    std::copy(values.begin(), values.end(), result.as<float>().begin());
    return result;
}

TEST(DifferenceOf, Figures) {
    const auto difference = difference_of(tensor({2, 2}, {3, 0, -4, 1}), tensor({2, 2}, {3, 0.5F, -3, 1}), {});
    EXPECT_DOUBLE_EQ(difference.max_abs, 1);
    EXPECT_DOUBLE_EQ(difference.max_rel, 0.25); // 1 of -4; 0.5 of 0 does not count
    EXPECT_DOUBLE_EQ(difference.magnitude, 4);
    EXPECT_NEAR(difference.sqnr_db, 10 * std::log10(26.0 / 1.25), 1e-9);
    EXPECT_NEAR(difference.cosine, (9 + 12 + 1) / std::sqrt(26.0 * 19.25), 1e-9);
    EXPECT_DOUBLE_EQ(*difference.agreement, 1);
    EXPECT_TRUE(difference.past);
    EXPECT_DOUBLE_EQ(*difference_of(tensor({2, 2}, {1, 2, 3, 4}), tensor({2, 2}, {2, 1, 3, 4}), {}).agreement, 0.5);
}

TEST(DifferenceOf, Tolerances) {
    const auto past = [](float value, const Tolerance& tolerance) {
        return difference_of(tensor({2}, {100, 0}), tensor({2}, {100, value}), tolerance).past;
    };
    EXPECT_FALSE(past(0.09F, {}));
    EXPECT_TRUE(past(0.11F, {}));
    EXPECT_FALSE(past(0.11F, {0.02, 1e-3, {}}));
    EXPECT_FALSE(past(1.0F, {0, 0, 39.9})); // 40 dB
    EXPECT_TRUE(past(1.0F, {1e9, 1e9, 40.1}));
}

TEST(DifferenceOf, WhatHasNoFigures) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(difference_of(tensor({3}, {nan, infinity, 1}), tensor({3}, {nan, infinity, 1}), {}).past);
    EXPECT_THAT(difference_of(tensor({2}, {1, 1}), tensor({2}, {1, nan}), {}).problem, HasSubstr("element 1"));
    EXPECT_TRUE(difference_of(tensor({2}, {1, 1}), tensor({2}, {1, infinity}), {}).past);
    EXPECT_THAT(difference_of(tensor({2}, {1, 1}), tensor({1, 2}, {1, 1}), {}).problem, HasSubstr("1x2"));
    HostTensor a("i", DataType::int64, {4});
    HostTensor b = a;
    EXPECT_FALSE(difference_of(a, b, {}).past);
    b.as<std::int64_t>()[2] = 7;
    const auto integers = difference_of(a, b, {});
    EXPECT_TRUE(integers.past);
    EXPECT_DOUBLE_EQ(*integers.agreement, 0.75);
}

/// A residual network of `blocks` blocks: convolution, Relu, convolution, Add, Relu.
Model network(int blocks) {
    std::string text = "opset 18\ninput %x: float32[1, 8, 6, 6]\n";
    std::string weights;
    std::string body;
    std::string last = "x";
    for (int i = 0; i < blocks; ++i) {
        const std::string n = std::to_string(i);
        weights += "input %w" + n + ": float32[8, 8, 3, 3]\ninput %v" + n + ": float32[8, 8, 1, 1]\n";
        body += "%a" + n + " = Conv(%" + last + ", %w" + n + ") {name = \"conv_a" + n + "\", pads = [1, 1, 1, 1]}\n%b" +
                n + " = Relu(%a" + n + ") {name = \"relu_b" + n + "\"}\n%c" + n + " = Conv(%b" + n + ", %v" + n +
                ") {name = \"conv_c" + n + "\"}\n%d" + n + " = Add(%c" + n + ", %" + last + ") {name = \"add" + n +
                "\"}\n%e" + n + " = Relu(%d" + n + ") {name = \"relu_e" + n + "\"}\n";
        last = "e" + n;
    }
    Model model = model_from_text(text + weights + body + "%y = GlobalAveragePool(%" + last +
                                  ") {name = \"pool\"}\noutput %y: float32[1, 8, 1, 1]\n");
    model.graph.inputs.resize(1);
    for (int i = 0; i < blocks; ++i) {
        const auto seed = static_cast<std::uint32_t>(2 * i + 1);
        add_weights(model, "w" + std::to_string(i), {8, 8, 3, 3}, seed);
        add_weights(model, "v" + std::to_string(i), {8, 8, 1, 1}, seed + 1);
    }
    return model;
}

Node& node_named(Model& model, const std::string& name) {
    for (const auto& node : model.graph.nodes) {
        if (node->name == name) return *node;
    }
    throw std::invalid_argument(name);
}

Comparand of(Model model, const std::string& file) {
    Comparand subject;
    subject.file = file;
    subject.model = std::move(model);
    return subject;
}

struct Compared {
    Comparand a, b;
    CompareOptions options;
    Comparison comparison;
};

Compared compared(Model a, Model b, const CompareOptions& options = {}) {
    Compared result{of(std::move(a), "a.onnx"), of(std::move(b), "b.onnx"), options, {}};
    const auto inputs = inputs_for(result.a, result.b, {}, 1);
    if (!inputs) {
        ADD_FAILURE() << inputs.error().describe();
        return result;
    }
    auto comparison = compare(result.a, result.b, *inputs, options);
    if (!comparison) {
        ADD_FAILURE() << comparison.error().describe();
        return result;
    }
    result.comparison = *std::move(comparison);
    return result;
}

Reduced reduced(const Compared& pair) {
    const ComparedTensor* first = pair.comparison.first_past();
    if (first == nullptr) throw std::invalid_argument("nothing differs");
    auto result = reduce(pair.a, pair.b, pair.comparison, first->difference.tensor, pair.options, no_progress());
    if (!result) throw std::runtime_error(result.error().describe());
    return *std::move(result);
}

TEST(CutPart, StopsAtGivenValues) {
    const Model model = network(3);
    const auto part = cut_part(model, "d1", {"b1", "e2"});
    ASSERT_TRUE(part) << part.error().describe();
    // d1 = c1 + e0: c1 from b1, and e0 from the input.
    EXPECT_THAT(part->inputs, ElementsAre("b1", "x"));
    EXPECT_EQ(part->model.graph.nodes.size(), 7U);
    EXPECT_TRUE(part->model.graph.initializers.contains("v1"));
    EXPECT_FALSE(part->model.graph.initializers.contains("w1"));
    EXPECT_FALSE(cut_part(model, "x", {}));
}

TEST(Compare, AModelEqualsItself) {
    const Compared pair = compared(network(2), network(2));
    EXPECT_EQ(pair.comparison.first_past(), nullptr);
    EXPECT_EQ(pair.comparison.tensors.size(), 11U);
    EXPECT_TRUE(pair.comparison.tensors.back().output);
}

TEST(Compare, FindsTheFirstThatDiffersAndItsOperation) {
    Model other = network(4);
    node_named(other, "relu_b2").op_type = "Abs";
    const Compared pair = compared(network(4), other);
    const ComparedTensor* first = pair.comparison.first_past();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->difference.tensor, "b2");
    EXPECT_EQ(first->op_a, "Relu");
    EXPECT_EQ(first->op_b, "Abs");
    EXPECT_EQ(first->node_b, "relu_b2");
    for (const ComparedTensor& tensor : pair.comparison.tensors) {
        if (tensor.difference.tensor == "b2") break;
        EXPECT_FALSE(tensor.difference.past) << tensor.difference.tensor;
    }
}

TEST(Compare, ValuesWithoutNamesakeAreCounted) {
    Model other = network(1);
    node_named(other, "conv_a0").outputs = {"renamed"};
    node_named(other, "relu_b0").inputs = {"renamed"};
    const Compared pair = compared(network(1), other);
    EXPECT_EQ(pair.comparison.first_past(), nullptr);
    EXPECT_EQ(pair.comparison.only_a, 1U);
    EXPECT_EQ(pair.comparison.only_b, 1U);
}

TEST(Compare, OutputsOfOtherNamesAreTakenByPlace) {
    Model other = network(1);
    node_named(other, "pool").outputs = {"z"};
    other.graph.outputs[0].name = "z";
    CompareOptions options;
    options.outputs_only = true;
    const Compared pair = compared(network(1), other, options);
    ASSERT_EQ(pair.comparison.tensors.size(), 1U);
    EXPECT_FALSE(pair.comparison.tensors[0].difference.past);
}

TEST(Compare, AnEngineShowsItsOutputs) {
    const test::TemporaryFolder folder;
    const Model model = network(2);
    BuildOptions build;
    auto engine = Engine::build(model, build);
    ASSERT_TRUE(engine) << engine.error().describe();
    ASSERT_TRUE(engine->save(folder / "m.engine"));
    const auto loaded = load_comparand(folder / "m.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    const Comparand float_model = of(model, "a.onnx");
    const auto inputs = inputs_for(float_model, *loaded, {}, 3);
    ASSERT_TRUE(inputs);
    const auto same = compare(float_model, *loaded, *inputs, {});
    ASSERT_TRUE(same) << same.error().describe();
    ASSERT_EQ(same->tensors.size(), 1U);
    EXPECT_FALSE(same->tensors[0].difference.past);
    Model other = network(2);
    node_named(other, "relu_b1").op_type = "Abs";
    const auto differs = compare(of(other, "b.onnx"), *loaded, *inputs, {});
    ASSERT_TRUE(differs);
    EXPECT_NE(differs->first_past(), nullptr);
    EXPECT_EQ(differs->first_past()->op_a, "GlobalAveragePool");
    EXPECT_EQ(differs->first_past()->op_b, "GlobalAveragePool") << "of the graph inside";
}

/// The model built and read again.
Comparand built(const Model& model, const std::filesystem::path& file, const BuildOptions& options = {}) {
    auto engine = Engine::build(model, options);
    if (!engine) throw std::runtime_error(engine.error().describe());
    if (const auto saved = engine->save(file); !saved) throw std::runtime_error(saved.error().describe());
    auto loaded = load_comparand(file);
    if (!loaded) throw std::runtime_error(loaded.error().describe());
    return *std::move(loaded);
}

TEST(Compare, TwoEnginesTellTheirOperations) {
    const test::TemporaryFolder folder;
    Model other = network(2);
    node_named(other, "pool").op_type = "GlobalMaxPool";
    const Comparand a = built(network(2), folder / "a.engine");
    const Comparand b = built(other, folder / "b.engine");
    const auto comparison = compare(a, b, *inputs_for(a, b, {}, 1), {});
    ASSERT_TRUE(comparison) << comparison.error().describe();
    const ComparedTensor* first = comparison->first_past();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->op_a, "GlobalAveragePool");
    EXPECT_EQ(first->op_b, "GlobalMaxPool");
    EXPECT_EQ(first->node_b, "pool");
}

TEST(Reduce, AnEngineIsCutByItsGraph) {
    const test::TemporaryFolder folder;
    Model other = network(5);
    node_named(other, "relu_b3").op_type = "Abs";
    const Comparand model = of(network(5), "a.onnx");
    const Comparand engine = built(other, folder / "b.engine");
    for (const bool engines : {false, true}) {
        const Comparand second_engine = built(network(5), folder / "a.engine");
        const Comparand& a = engines ? second_engine : model;
        const auto comparison = compare(a, engine, *inputs_for(a, engine, {}, 1), {});
        ASSERT_TRUE(comparison) << comparison.error().describe();
        ASSERT_NE(comparison->first_past(), nullptr);
        const auto small = reduce(a, engine, *comparison, "y", {}, no_progress());
        ASSERT_TRUE(small) << small.error().describe();
        // All that an engine shows is its output, so what lies between the fault and it remains.
        EXPECT_TRUE(small->difference.past);
        EXPECT_EQ(small->inputs.front().name, "a3");
        EXPECT_LT(small->nodes_b, 12U);
        EXPECT_TRUE(std::ranges::any_of(small->b.graph.nodes, [](const auto& node) { return node->op_type == "Abs"; }));
        EXPECT_FALSE(small->build_b == std::nullopt);
        EXPECT_EQ(small->build_a.has_value(), engines);
        EXPECT_EQ(small->build_b->device, "cpu");
    }
}

TEST(Reduce, ADifferenceThatOnlyTheEnginesPrecisionMakes) {
    // The same graph in bfloat16: the parts must be built in it, or there is no difference at all.
    const test::TemporaryFolder folder;
    BuildOptions build;
    build.precision = Precision::bfloat16;
    const Comparand model = of(network(4), "a.onnx");
    Comparand engine;
    try {
        engine = built(network(4), folder / "b.engine", build);
    } catch (const std::runtime_error& refused) {
        GTEST_SKIP() << "SKIPPED: no bfloat16 here: " << refused.what();
    }
    CompareOptions options;
    options.tolerance = {1e-9, 1e-5, {}};
    const auto comparison = compare(model, engine, *inputs_for(model, engine, {}, 1), options);
    ASSERT_TRUE(comparison);
    if (comparison->first_past() == nullptr) GTEST_SKIP() << "SKIPPED: this processor computes bfloat16 in float32";
    const auto small = reduce(model, engine, *comparison, "y", options, no_progress());
    ASSERT_TRUE(small) << small.error().describe();
    EXPECT_EQ(small->build_b->precision, Precision::bfloat16);
    EXPECT_TRUE(small->difference.past);
    EXPECT_LT(small->nodes_b, network(4).graph.nodes.size());
}

TEST(Reduce, APartThatCannotRunIsAnError) {
    const test::TemporaryFolder folder;
    Model other = network(1);
    node_named(other, "pool").outputs = {"z"};
    other.graph.outputs[0].name = "z";
    node_named(other, "relu_b0").op_type = "Abs";
    const Comparand a = of(network(1), "a.onnx");
    const Comparand b = built(other, folder / "b.engine");
    const auto comparison = compare(a, b, *inputs_for(a, b, {}, 1), {});
    ASSERT_TRUE(comparison);
    ASSERT_NE(comparison->first_past(), nullptr);
    const auto small = reduce(a, b, *comparison, "y", {}, no_progress());
    ASSERT_FALSE(small);
    EXPECT_THAT(small.error().describe(), HasSubstr("no node computes the value"));
}

TEST(Compare, MissingInputsAreAnError) {
    const auto result = compare(of(network(1), "a.onnx"), of(network(1), "b.onnx"), {}, {});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().describe(), HasSubstr("no value for input x"));
}

TEST(Reduce, OneDifferentNodeInManyRemains) {
    Model other = network(8);
    node_named(other, "relu_b5").op_type = "Abs";
    const Reduced small = reduced(compared(network(8), other));
    EXPECT_EQ(small.difference.tensor, "b5");
    EXPECT_TRUE(small.difference.past);
    EXPECT_EQ(small.nodes_a, 1U);
    EXPECT_EQ(small.nodes_b, 1U);
    EXPECT_EQ(small.b.graph.nodes[0]->op_type, "Abs");
    ASSERT_EQ(small.inputs.size(), 1U);
    EXPECT_EQ(small.inputs[0].name, "a5");
}

TEST(Reduce, AnInterpreterComputesTheWholeAndTheParts) {
    // It takes a Relu for Abs, as something that computes wrongly would.
    std::size_t runs = 0;
    Compared pair{of(network(5), "a.onnx"), of(network(5), "b.onnx"), {}, {}};
    pair.a.interpreter = [&runs](const Model& model, const std::vector<HostTensor>& inputs, std::size_t threads) {
        ++runs;
        Model wrong = model;
        for (const auto& node : wrong.graph.nodes)
            if (node->name == "relu_b3") node->op_type = "Abs";
        wrong.graph.inputs.clear();
        std::vector<Given> given;
        for (const HostTensor& input : inputs) {
            EXPECT_NE(model.graph.find_input(input.name), nullptr) << input.name << " is not declared";
            given.emplace_back(input.name, std::span(&input, 1));
        }
        auto outputs = run_batches(std::move(wrong), given, {.threads = threads});
        std::vector<HostTensor> first;
        for (Batches& each : outputs.value())
            first.push_back(std::move(each.front()));
        return Result<std::vector<HostTensor>>(std::move(first));
    };
    const auto inputs = inputs_for(pair.a, pair.b, {}, 1);
    ASSERT_TRUE(inputs) << inputs.error().describe();
    auto comparison = compare(pair.a, pair.b, *inputs, pair.options);
    ASSERT_TRUE(comparison) << comparison.error().describe();
    EXPECT_EQ(runs, 1U);
    pair.comparison = *std::move(comparison);
    EXPECT_EQ(pair.comparison.only_a, 0U);
    const Reduced small = reduced(pair);
    EXPECT_EQ(small.difference.tensor, "b3");
    EXPECT_EQ(small.nodes_a, 1U);
    EXPECT_EQ(small.inputs[0].name, "a3");
    EXPECT_EQ(runs, 1 + small.trials);
}

TEST(Reduce, HiddenDifferencesKeepTheirSurroundings) {
    // Nothing inside a block has its name in the other model, so the block is the least that can be cut out.
    Model other = network(8);
    for (const auto& node : other.graph.nodes) {
        for (auto* names : {&node->inputs, &node->outputs}) {
            for (std::string& name : *names) {
                if (name.size() == 2 && std::string("abcd").find(name[0]) != std::string::npos) name += "_other";
            }
        }
    }
    node_named(other, "relu_b5").op_type = "Abs";
    const Reduced small = reduced(compared(network(8), other));
    EXPECT_EQ(small.difference.tensor, "e5");
    EXPECT_EQ(small.nodes_a, 5U);
    EXPECT_EQ(small.nodes_b, 5U);
    ASSERT_EQ(small.inputs.size(), 1U);
    EXPECT_EQ(small.inputs[0].name, "e4");
}

TEST(Reduce, ADifferenceThatGrowsIsCutToWhereItIsPast) {
    // Each first convolution is off by 0.03 %: none is past 0.1 % alone.
    Model other = network(8);
    for (auto& [name, weight] : other.graph.initializers) {
        if (name[0] != 'w') continue;
        auto values = weight.to_floats();
        for (float& value : values)
            value *= 1.0003F;
        weight = Tensor::of_floats(name, weight.shape(), values);
    }
    const Compared pair = compared(network(8), other);
    const ComparedTensor* first = pair.comparison.first_past();
    ASSERT_NE(first, nullptr);
    const auto whole = cut_part(pair.a.model, first->difference.tensor, {});
    ASSERT_TRUE(whole);
    const Reduced small = reduced(pair);
    EXPECT_TRUE(small.difference.past);
    EXPECT_GT(small.nodes_a, 5U);                              // more than one block
    EXPECT_LE(small.nodes_a, whole->model.graph.nodes.size()); // and no more than all before it
}

TEST(Reduce, WhatIsWrittenDiffersWhenReadAgain) {
    const test::TemporaryFolder folder;
    Model other = network(6);
    auto& weight = other.graph.initializers.at("v3");
    auto values = weight.to_floats();
    values[0] += 5.0F;
    weight = Tensor::of_floats("v3", weight.shape(), values);
    const Reduced small = reduced(compared(network(6), other));
    EXPECT_LE(small.nodes_b, 2U);
    const auto files = save_reduced(small, folder / "small.onnx");
    ASSERT_TRUE(files) << files.error().describe();
    const auto b = load_comparand((*files)[0]);
    const auto a = load_comparand((*files)[1]);
    const auto inputs = read_npz((*files)[2]);
    ASSERT_TRUE(a && b && inputs);
    const auto valid = check_onnx(b->model);
    EXPECT_TRUE(valid) << valid.error().describe();
    const auto again = compare(*a, *b, *inputs, {});
    ASSERT_TRUE(again) << again.error().describe();
    ASSERT_NE(again->first_past(), nullptr);
    EXPECT_EQ(again->first_past()->difference.tensor, "c3");
    EXPECT_EQ(again->first_past()->op_b, "Conv");
    EXPECT_DOUBLE_EQ(again->first_past()->difference.max_abs, small.difference.max_abs);
}

} // namespace
} // namespace lathe
