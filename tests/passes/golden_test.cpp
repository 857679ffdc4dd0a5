#include <map>
#include <string>

#include <gtest/gtest.h>

#include "graph/parsed.hpp"
#include "graph/text.hpp"
#include "passes/golden_cases.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe {
namespace {

std::string full_text(const Model& model) { return print(model, {.full_constants = true}); }

TEST(Golden, EveryCase) {
    for (const test::GoldenCase& each : test::golden_cases()) {
        SCOPED_TRACE(each.pass + ": " + each.title);
        const Pass* pass = find_pass(each.pass);
        ASSERT_NE(pass, nullptr);
        Model model = test::parsed(each.before);
        ASSERT_TRUE(verify(model)) << verify(model).error().describe();
        PassContext context{model.opset()};
        const auto changed = apply_pass(*pass, model.graph, context);
        ASSERT_TRUE(changed) << changed.error().describe();
        remove_dead(model.graph);
        EXPECT_EQ(*changed, !each.after.empty());
        EXPECT_EQ(context.rewrites != 0, *changed);
        EXPECT_EQ(full_text(model), full_text(test::parsed(each.after.empty() ? each.before : each.after)));
        const auto sound = verify(model);
        EXPECT_TRUE(sound) << sound.error().describe();
        PassContext again{model.opset()};
        const auto second = apply_pass(*pass, model.graph, again);
        EXPECT_TRUE(second && !*second) << "the pass does not come to rest";
    }
}

TEST(Golden, EveryPassHasBothKindsOfCase) {
    std::map<std::string, int> firing;
    std::map<std::string, int> refusing;
    for (const test::GoldenCase& each : test::golden_cases())
        ++(each.after.empty() ? refusing : firing)[each.pass];
    for (const Pass& pass : all_passes()) {
        EXPECT_GT(firing[pass.name], 0) << pass.name;
        EXPECT_GT(refusing[pass.name], 0) << pass.name;
    }
}

} // namespace
} // namespace lathe
