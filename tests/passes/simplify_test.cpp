#include "passes/simplify.hpp"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graph/parsed.hpp"
#include "graph/text.hpp"
#include "passes/evaluate.hpp"
#include "passes/passes.hpp"
#include "passes/verification.hpp"

namespace lathe {
namespace {

/// Runs a model of operators the reference evaluator knows.
Result<TensorSet> run_set(const Model& model, const TensorSet& inputs) {
    std::map<std::string, Tensor> values = model.graph.initializers;
    for (const HostTensor& input : inputs) {
        values.insert_or_assign(input.name, Tensor(input.name, input.type, input.shape, input.bytes));
    }
    for (const auto& node : model.graph.nodes) {
        std::vector<const Tensor*> arguments;
        for (const std::string& name : node->inputs)
            arguments.push_back(name.empty() ? nullptr : &values.at(name));
        LATHE_TRY(const auto results, evaluate(*node, arguments, {model.opset()}));
        for (std::size_t i = 0; i < results.size(); ++i)
            values.insert_or_assign(node->outputs[i], results[i]);
    }
    std::vector<HostTensor> outputs;
    for (const ValueInfo& output : model.graph.outputs) {
        const Tensor& value = values.at(output.name);
        HostTensor host(output.name, value.type(), value.shape());
        host.bytes.assign(value.bytes().begin(), value.bytes().end());
        outputs.push_back(std::move(host));
    }
    return outputs;
}

Result<std::vector<TensorSet>> run_reference(const Model& model, std::span<const TensorSet> sets) {
    std::vector<TensorSet> outputs;
    for (const TensorSet& inputs : sets) {
        LATHE_TRY(TensorSet results, run_set(model, inputs));
        outputs.push_back(std::move(results));
    }
    return outputs;
}

const char* const chain = R"(opset 18
input %x: float32[N, 3]
const %a: float32[] = {2.0}
%k = Sqrt(%a)
%i = Identity(%x)
%m = Mul(%i, %k)
%r = Relu(%m)
%s = Relu(%r)
%y = Identity(%s)
value %m: float32[N, 3]
value %r: float32[N, 3]
output %y: float32[N, 3]
)";

TEST(Simplify, NodesHaveNamesOfTheirOwn) {
    // The factor goes into the weights, the shift is a node beside the product's.
    Model model = test::parsed("opset 18\ninput %x: float32[N, 3]\nconst %w: float32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
                               "const %a: float32[2] = {2, 3}\nconst %b: float32[2] = {1, -1}\n"
                               "%p = MatMul(%x, %w)\n%q = Sub(%p, %b)\n%y = Mul(%q, %a)\noutput %y: float32[N, 2]\n");
    for (const auto& node : model.graph.nodes)
        node->name = "layer";
    ASSERT_TRUE(simplify(model, {}, run_reference, {}));
    std::set<std::string> names;
    for (const auto& node : model.graph.nodes)
        EXPECT_TRUE(names.insert(node->name).second) << node->name;
    EXPECT_TRUE(names.contains("layer"));
    EXPECT_GT(model.graph.nodes.size(), 1U);
}

TEST(Simplify, ComparesAsManySetsAsThereIsTimeFor) {
    for (const auto& [limit_s, compared] : {std::pair{1e-9, 1U}, std::pair{1e6, 3U}, std::pair{0.0, 3U}}) {
        Model model = test::parsed(chain);
        SimplifyOptions options;
        options.time_limit_s = limit_s;
        std::size_t runs = 0;
        const Runner counted = [&](const Model& each, std::span<const TensorSet> sets) {
            runs += sets.size();
            return run_reference(each, sets);
        };
        const auto report = simplify(model, options, counted, {});
        ASSERT_TRUE(report) << report.error().describe();
        EXPECT_EQ(report->samples, compared) << limit_s;
        EXPECT_EQ(runs, 2 * compared) << "each set by both models";
    }
}

TEST(Simplify, RunsToAFixedPointAndVerifies) {
    Model model = test::parsed(chain);
    std::vector<std::string> dumped;
    SimplifyOptions options;
    options.dump = [&](std::size_t step, std::string_view pass, const Model&) -> Result<void> {
        EXPECT_EQ(step, dumped.size() + 1);
        dumped.emplace_back(pass);
        return {};
    };
    const auto report = simplify(model, options, run_reference, {});
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_EQ(report->before_nodes, 6U);
    EXPECT_EQ(report->after_nodes, 2U);
    EXPECT_EQ(report->samples, 3U);
    EXPECT_LE(report->max_error, 1e-6);
    EXPECT_FALSE(dumped.empty());
    EXPECT_EQ(report->passes.size(), all_passes().size());
    std::string types;
    for (const auto& node : model.graph.nodes)
        types += node->op_type;
    EXPECT_EQ(types, "MulRelu");
    EXPECT_EQ(model.graph.outputs[0].name, "y");
    Model again = model;
    const auto second = simplify(again, {}, run_reference, {});
    ASSERT_TRUE(second);
    EXPECT_EQ(second->samples, 0U) << "nothing changed, so nothing to verify";
    EXPECT_EQ(print(again), print(model));
}

TEST(Simplify, DisabledPassesDoNotRun) {
    Model model = test::parsed(chain);
    SimplifyOptions options;
    options.disabled = {"remove-no-ops", "merge-activations"};
    const auto report = simplify(model, options, run_reference, {});
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_EQ(report->after_nodes, 5U); // Sqrt is folded
    options.disabled = {"no-such-pass"};
    const auto unknown = simplify(model, options, run_reference, {});
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
}

TEST(Simplify, WhatPaysOnCpusAloneIsNotForGpus) {
    const auto ran = [](bool for_gpus) {
        Model model = test::parsed(chain);
        SimplifyOptions options;
        options.for_gpus = for_gpus;
        const SimplifyReport report = simplify(model, options, run_reference, {}).value();
        std::set<std::string> names;
        for (const PassCount& pass : report.passes)
            names.insert(pass.name);
        return names;
    };
    const auto on_cpus = ran(false), on_gpus = ran(true);
    for (const Pass& pass : all_passes()) {
        EXPECT_TRUE(on_cpus.contains(pass.name)) << pass.name;
        EXPECT_EQ(on_gpus.contains(pass.name), pass.pays_on_gpus) << pass.name;
    }
    EXPECT_FALSE(on_gpus.contains("convolve-apart"));
}

Result<bool> break_relu(Graph& graph, PassContext& context) {
    for (const auto& node : graph.nodes) {
        if (!node->is("Relu")) continue;
        node->op_type = "Neg";
        ++context.rewrites;
        return true;
    }
    return false;
}

Result<bool> break_structure(Graph& graph, PassContext&) {
    const bool first = graph.nodes.back()->inputs[0] != "nowhere";
    graph.nodes.back()->inputs[0] = "nowhere";
    return first;
}

const char* const branches = R"(opset 18
input %x: float32[2]
const %no: bool[] = {false}
%y = If(%no) {then_branch = graph {
    %t = NonZero(%x)
    output %t: float32[2]
}, else_branch = graph {
    %i = Identity(%x)
    %e = Relu(%i)
    output %e: float32[2]
}}
%z = Identity(%y)
output %z: float32[2]
)";

/// As a backend that takes no If.
Result<std::vector<TensorSet>> run_without_if(const Model& model, std::span<const TensorSet> inputs) {
    for (const auto& node : model.graph.nodes) {
        if (node->is("If")) return Error{ErrorCode::unsupported, "no If here", node->label(), ""};
    }
    return run_reference(model, inputs);
}

TEST(Simplify, WithoutItsBranchesAModelIsVerifiedThatCouldNotBeRun) {
    Model model = test::parsed(branches);
    const auto report = simplify(model, {}, run_without_if, {});
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_EQ(report->after_nodes, 1U);
    EXPECT_EQ(report->samples, 3U);
    ASSERT_EQ(report->warnings.size(), 1U);
    EXPECT_NE(report->warnings[0].find("cannot be run here"), std::string::npos) << report->warnings[0];

    const Pass passes[] = {{"inline-branches", "", passes::inline_branches}, {"broken", "", break_relu}};
    SimplifyOptions options;
    options.passes = passes;
    Model broken = test::parsed(branches);
    const auto blamed = simplify(broken, options, run_without_if, {});
    ASSERT_FALSE(blamed);
    EXPECT_EQ(blamed.error().code, ErrorCode::verification_failed);
    EXPECT_NE(blamed.error().where.find("pass broken"), std::string::npos) << blamed.error().describe();

    options.disabled = {"inline-branches"};
    const auto refused = simplify(broken, options, run_without_if, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
}

TEST(Simplify, NamesThePassThatBreaksTheModel) {
    const Pass passes[] = {
        {"no-ops", "", passes::remove_no_ops}, {"broken", "", break_relu}, {"constants", "", passes::fold_constants}};
    Model model = test::parsed(chain);
    SimplifyOptions options;
    options.passes = passes;
    const auto report = simplify(model, options, run_reference, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::verification_failed);
    EXPECT_NE(report.error().where.find("pass broken"), std::string::npos) << report.error().describe();
    EXPECT_EQ(print(model), print(test::parsed(chain))) << "the model is as it was";
}

TEST(Simplify, AnUnsoundGraphIsCaughtAtThePass) {
    const Pass passes[] = {{"unsound", "", break_structure}};
    Model model = test::parsed(chain);
    SimplifyOptions options;
    options.passes = passes;
    const auto report = simplify(model, options, run_reference, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::internal);
    EXPECT_NE(report.error().where.find("pass unsound"), std::string::npos) << report.error().describe();
}

TEST(Simplify, RefusesWithoutARunner) {
    Model model = test::parsed(chain);
    const auto report = simplify(model, {}, {}, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::invalid_argument);
}

TEST(Simplify, CancelsBetweenPasses) {
    struct Stop : Progress {
        bool cancelled() const override { return true; }
    } stop;
    Model model = test::parsed(chain);
    SimplifyOptions options;
    options.progress = &stop;
    const auto report = simplify(model, options, run_reference, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::cancelled);
}

TEST(Simplify, FailedShapeInferenceIsAWarning) {
    Model model = test::parsed(chain);
    const auto report = simplify(model, {}, run_reference, [](Model&) -> Result<void> {
        return Error{ErrorCode::verification_failed, "shapes contradict", "node m", ""};
    });
    ASSERT_TRUE(report) << report.error().describe();
    ASSERT_EQ(report->warnings.size(), 1U);
    EXPECT_NE(report->warnings[0].find("shapes contradict"), std::string::npos);
}

TEST(Simplify, NamesReusedInBodiesAreToldApart) {
    Model model = test::parsed(R"(opset 18
input %b: bool[]
input %x: float32[1]
%a = Relu(%x)
%i = Identity(%a)
%y = If(%b) {then_branch = graph {
    %a = Neg(%x)
    %t = Add(%a, %i)
    output %t: float32[1]
}, else_branch = graph {
    %e = Neg(%i)
    output %e: float32[1]
}}
output %y: float32[1]
)");
    // No reference for If: the runner only tells that the function did not change.
    const Runner nothing = [](const Model&, std::span<const TensorSet> sets) -> Result<std::vector<TensorSet>> {
        return std::vector<TensorSet>(sets.size());
    };
    const auto report = simplify(model, {}, nothing, {});
    ASSERT_TRUE(report) << report.error().describe();
    const std::string text = print(model);
    EXPECT_NE(text.find("%a_1 = Neg(%x)"), std::string::npos) << text;
    EXPECT_NE(text.find("%t = Add(%a_1, %a)"), std::string::npos) << text;
}

TEST(Verification, InputsAreSeededAndPlausible) {
    const Model model = test::parsed(R"(opset 18
input %ids: int64[batch, tokens]
input %image: uint8[batch, 3, H, W]
input %mask: int64[batch, tokens]
input %scale: float32[?]
input %w: float32[1]
const %w: float32[1] = {1.0}
const %table: float32[5, 1] = {1.0, 2.0, 3.0, 4.0, 5.0}
%c = Cast(%ids) {to = 6}
%y = Gather(%table, %c)
output %y: float32[batch, tokens, 1]
)");
    const auto inputs = random_inputs(model, 1, 0);
    ASSERT_TRUE(inputs) << inputs.error().describe();
    ASSERT_EQ(inputs->size(), 4U) << "an input with a default is left to it";
    EXPECT_EQ((*inputs)[0].shape, (Shape{2, 16}));
    EXPECT_EQ((*inputs)[1].shape, (Shape{2, 3, 64, 64}));
    bool beyond_two = false;
    for (const std::int64_t id : (*inputs)[0].as<std::int64_t>()) {
        EXPECT_TRUE(id >= 0 && id < 5) << id;
        beyond_two = beyond_two || id >= 2;
    }
    EXPECT_TRUE(beyond_two);
    for (const std::int64_t bit : (*inputs)[2].as<std::int64_t>())
        EXPECT_TRUE(bit == 0 || bit == 1);
    const auto same = random_inputs(model, 1, 0);
    const auto other_set = random_inputs(model, 1, 1);
    const auto other_seed = random_inputs(model, 2, 0);
    EXPECT_EQ((*inputs)[3].bytes, (*same)[3].bytes);
    EXPECT_NE((*inputs)[3].bytes, (*other_set)[3].bytes);
    EXPECT_NE((*inputs)[3].bytes, (*other_seed)[3].bytes);
}

HostTensor floats(std::vector<float> values) {
    HostTensor tensor("y", DataType::float32, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.as<float>().begin());
    return tensor;
}

TEST(Verification, ComparesRelativeToTheOutput) {
    const struct {
        std::vector<float> expected;
        std::vector<float> actual;
        double relative;
    } cases[] = {
        {{100, 1}, {100, 2}, 0.01},
        {{0, 0}, {0, 0}, 0},
        {{NAN, 1}, {NAN, 1}, 0},
        {{NAN, 1}, {1, 1}, INFINITY},
        {{INFINITY}, {-INFINITY}, INFINITY},
        {{1, 2}, {1}, INFINITY},
    };
    for (const auto& each : cases) {
        const HostTensor expected = floats(each.expected);
        const HostTensor actual = floats(each.actual);
        const auto found = compare_outputs(std::span(&expected, 1), std::span(&actual, 1));
        if (std::isinf(each.relative)) {
            EXPECT_TRUE(std::isinf(found.relative));
            EXPECT_FALSE(found.problem.empty());
        } else {
            EXPECT_NEAR(found.relative, each.relative, 1e-9);
        }
    }
    const HostTensor nan = floats({NAN});
    EXPECT_TRUE(compare_outputs(std::span(&nan, 1), std::span(&nan, 1)).nothing_finite);
}

} // namespace
} // namespace lathe
