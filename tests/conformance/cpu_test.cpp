// ONNX's backend tests on the CPU backend: whatever it claims gives the recorded outputs. What it does not do is listed
// in cpu_unsupported.txt with the reason; a listed case that passes, or one not listed that fails, fails the test.
// `test_conformance_cpu --update-list` writes the list anew.

#include <cstring>
#include <iostream>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "conformance/backend_outputs.hpp"
#include "conformance/cases.hpp"
#include "conformance/exceptions_list.hpp"
#include "conformance/isolated.hpp"
#include "conformance/recorded.hpp"
#include "onnx/onnx.hpp"
#ifdef LATHE_HAS_PASSES
#include "passes/simplify.hpp"
#include "support_lib/places.hpp"
#endif

namespace lathe {
namespace {

using test::Case;
using test::DataSet;
using test::difference;
using test::Form;
using test::is_random;
using test::read_data;
using test::Tolerance;
using test::tolerance_of;

const test::ExceptionsList exceptions{test::source_path("tests/conformance/cpu_unsupported.txt"),
                                      "the CPU backend does not do", "test_conformance_cpu"};

/// Whether the backend says that it can do every node.
Result<void> claimed(const Backend& backend, Model model) {
    (void)infer_shapes(model).has_value(); // a node alone is judged by the types of what it reads
    for (const auto& node : model.graph.nodes) {
        const Support support = backend.supports(*node, model);
        if (!support.supported) return Error{ErrorCode::unsupported, "not claimed: " + support.reason, "", ""};
    }
    return {};
}

/// The model's outputs on one data set, by one thread.
Result<std::vector<HostTensor>> outputs_of(const Backend& backend, const Model& model, const DataSet& data,
                                           Form form = Form::compiled) {
    CompileOptions options;
    options.threads = 1;
    return test::outputs_of(backend, model, data, options, form);
}

Result<void> run_once(const Backend& backend, const Model& model, const DataSet& data, Tolerance tolerance) {
    for (const Form form : {Form::compiled, Form::saved}) {
        const std::string where = form == Form::saved ? "OpenVINO, as saved and loaded" : "OpenVINO";
        LATHE_TRY(std::vector<HostTensor> outputs, outputs_of(backend, model, data, form));
        if (form == Form::saved && outputs.empty()) continue;
        if (outputs.size() != data.outputs.size()) {
            return Error{ErrorCode::mismatch, "it has " + std::to_string(outputs.size()) + " outputs", "", ""};
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const std::string text = difference(data.outputs[i], outputs[i].view(), tolerance);
            if (text.empty()) continue;
            return Error{ErrorCode::mismatch, "wrong result in " + where + ": output " + std::to_string(i) + " " + text,
                         "", ""};
        }
    }
    return {};
}

/// All data sets of a case; `change` may rewrite the model before, given its data, and says whether there is anything
/// to run after it.
using Change = std::function<Result<bool>(Model&, const Backend&, const DataSet&)>;
Result<void> run_case(const Case& each, const Change& change = {}) {
    LATHE_TRY(Model model, load_onnx(each.model()));
    drop_initializer_inputs(model);
    LATHE_TRY(const Backend* backend, backend_for_device("cpu"));
    std::vector<DataSet> sets;
    for (int set = 0;; ++set) {
        const auto folder = each.folder / ("test_data_set_" + std::to_string(set));
        if (!std::filesystem::exists(folder)) break;
        LATHE_TRY(DataSet data, read_data(folder, model));
        sets.push_back(std::move(data));
    }
    if (sets.empty()) return Error{ErrorCode::not_found, "no inputs and outputs are recorded for it", "", ""};
    if (is_random(model.graph)) return Error{ErrorCode::unsupported, "its outputs are random", "", ""};
    if (change) {
        LATHE_TRY(const bool changed, change(model, *backend, sets.front()));
        if (!changed) return {};
    }
    for (const DataSet& data : sets) {
        auto outcome = run_once(*backend, model, data, tolerance_of(each));
        if (outcome) continue;
        if (!change) LATHE_CHECK(claimed(*backend, model)); // a refusal is a better reason than the failure
        return outcome;
    }
    return {};
}

/// One line; of a long report from OpenVINO what matters.
std::string tidy(const std::string& text) {
    std::string line;
    for (const char c : text) {
        const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
        if (blank && (line.empty() || line.back() == ' ')) continue;
        line += blank ? ' ' : c;
    }
    for (const char* start : {"No conversion rule found for operations:", "Failed operations detailed log:"}) {
        const auto at = line.find(start);
        if (at != std::string::npos) line = "not claimed: " + line.substr(at);
    }
    return line.size() > 160 ? line.substr(0, 157) + "..." : line;
}

std::vector<std::string> run_all(const std::vector<Case>& cases, const Change& change = {}) {
    return test::run_isolated(
        cases.size(),
        [&](std::size_t i) -> std::string {
            const auto outcome = run_case(cases[i], change);
            if (outcome) return "";
            // The list holds reasons; a failed rewrite also needs to say which pass.
            return tidy(change ? outcome.error().describe() : outcome.error().message);
        },
        std::chrono::seconds(60), 2);
}

TEST(CpuConformance, ClaimedModelsGiveTheRecordedOutputs) {
    const auto cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    const std::size_t passed = test::compare_with_list(exceptions, cases, run_all(cases));
    EXPECT_GT(passed, 1000U);
}

#ifdef LATHE_HAS_PASSES
TEST(CpuConformance, SimplifiedModelsAreValidAndGiveTheRecordedOutputs) {
    auto cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    const auto list = test::read_list(exceptions);
    std::erase_if(cases, [&](const Case& each) { return list.contains(each.name); });
    const auto simplified = [](Model& model, const Backend& backend, const DataSet& data) -> Result<bool> {
        const bool was_valid = static_cast<bool>(check_onnx(model));
        SimplifyOptions options;
        options.samples = 1;
        // Recorded inputs instead of random ones: they are in the range that each operator accepts.
        const Runner run = [&](const Model& candidate, std::span<const TensorSet>) -> Result<std::vector<TensorSet>> {
            LATHE_TRY(TensorSet outputs, outputs_of(backend, candidate, data));
            return std::vector<TensorSet>{std::move(outputs)};
        };
        LATHE_TRY(const SimplifyReport report, simplify(model, options, run, [](Model& m) {
                      return infer_shapes(m, {true, false});
                  }));
        if (was_valid) LATHE_CHECK(check_onnx(model));
        return report.samples > 0; // else nothing changed, and the test above has run it
    };
    const auto verdicts = run_all(cases, simplified);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        if (!verdicts[i].empty()) ADD_FAILURE() << cases[i].name << ": " << verdicts[i];
    }
    EXPECT_GT(cases.size(), 1000U);
}
#endif

int update_list() {
    const auto cases = test::all_cases();
    if (cases.empty()) {
        std::cerr << test::no_cases << '\n';
        return 1;
    }
    return test::update_list(exceptions, cases, run_all(cases));
}

} // namespace
} // namespace lathe

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc > 1 && std::strcmp(argv[1], "--update-list") == 0) return lathe::update_list();
    return RUN_ALL_TESTS();
}
