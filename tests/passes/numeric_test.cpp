#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "graph/text.hpp"
#include "passes/golden_cases.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"
#include "passes/verification.hpp"

namespace lathe {
namespace {

Result<std::vector<HostTensor>> run_on(const Backend& backend, const Model& model, std::span<const HostTensor> inputs) {
    CompileOptions options;
    options.threads = 1;
    for (const HostTensor& input : inputs)
        options.shapes[input.name] = {input.shape, input.shape, input.shape};
    LATHE_TRY(const auto compiled, backend.compile(model, options));
    LATHE_TRY(const auto session, compiled->make_session());
    std::vector<HostTensor> own(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < compiled->inputs().size(); ++i) {
        const auto input = std::find_if(own.begin(), own.end(), [&](const HostTensor& tensor) {
            return tensor.name == compiled->inputs()[i].name;
        });
        if (input == own.end()) return Error{ErrorCode::not_found, "no such input", compiled->inputs()[i].name, ""};
        LATHE_CHECK(session->set_input(i, input->view()));
    }
    LATHE_CHECK(session->run());
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < compiled->outputs().size(); ++i) {
        LATHE_TRY(const TensorView view, session->output(i));
        HostTensor output(compiled->outputs()[i].name, view.type, view.shape);
        output.bytes.assign(view.bytes.begin(), view.bytes.end());
        outputs.push_back(std::move(output));
    }
    return outputs;
}

// Every golden case that a backend can run gives the same numbers before and after its pass.
TEST(Numeric, GoldenCasesKeepTheirFunction) {
    const auto backend = backend_for_device("cpu");
    if (!backend) GTEST_SKIP() << "SKIPPED: " << backend.error().describe();
    std::size_t compared = 0;
    for (const test::GoldenCase& each : test::golden_cases()) {
        if (!each.runnable || each.after.empty()) continue;
        SCOPED_TRACE(each.pass + ": " + each.title);
        const auto before = parse_graph_text(each.before);
        ASSERT_TRUE(before);
        Model after = *before;
        PassContext context{after.opset()};
        ASSERT_TRUE(apply_pass(*find_pass(each.pass), after.graph, context));
        remove_dead(after.graph);
        for (std::size_t set = 0; set < 2; ++set) {
            const auto inputs = random_inputs(*before, 7, set);
            ASSERT_TRUE(inputs) << inputs.error().describe();
            const auto expected = run_on(**backend, *before, *inputs);
            EXPECT_TRUE(expected) << expected.error().describe();
            const auto actual = run_on(**backend, after, *inputs);
            EXPECT_TRUE(actual) << actual.error().describe();
            if (!expected || !actual) continue;
            const auto found = compare_outputs(*expected, *actual);
            EXPECT_LE(found.relative, 1e-5) << found.output << " " << found.problem;
        }
        ++compared;
    }
    EXPECT_GT(compared, 30U);
}

} // namespace
} // namespace lathe
