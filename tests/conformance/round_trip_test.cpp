// Every model of ONNX's backend tests survives import and export: ONNX's checker accepts the result where it accepted
// the original, and nothing of it changed but form.

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "conformance/canonical.hpp"
#include "conformance/cases.hpp"
#include "conformance/isolated.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using test::Case;

std::string contents(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

std::string checker_verdict(const onnx::ModelProto& model) {
    try {
        onnx::checker::check_model(model);
        return "";
    } catch (const std::exception& failure) {
        return failure.what();
    }
}

/// Inputs with initial values, which before IR version 4 all weights are, are constants alone.
void drop_listed_weights(onnx::ModelProto& model) {
    std::set<std::string> weights;
    for (const onnx::TensorProto& tensor : model.graph().initializer())
        weights.insert(tensor.name());
    auto& inputs = *model.mutable_graph()->mutable_input();
    const auto from = std::remove_if(inputs.begin(), inputs.end(),
                                     [&](const onnx::ValueInfoProto& input) { return weights.contains(input.name()); });
    if (from == inputs.end()) return;
    inputs.erase(from, inputs.end());
    model.set_ir_version(std::max<std::int64_t>(4, model.ir_version()));
}

std::string round_trip(const Case& each) {
    const std::string file = contents(each.model());
    auto model = parse_onnx(std::as_bytes(std::span(file)), each.model().parent_path());
    if (!model) return "import: " + model.error().describe();
    drop_initializer_inputs(*model);
    const auto written = serialize_onnx(*model);
    if (!written) return "export: " + written.error().describe();

    onnx::ModelProto original;
    onnx::ModelProto exported;
    if (!original.ParseFromString(contents(each.model()))) return "the case itself cannot be parsed";
    if (!exported.ParseFromString(*written)) return "protobuf cannot parse what was exported";

    const bool was_valid = checker_verdict(original).empty();
    drop_listed_weights(original);
    if (was_valid) {
        if (const std::string verdict = checker_verdict(exported); !verdict.empty()) return "checker: " + verdict;
        if (const auto verdict = check_onnx(*model); !verdict) return "check_onnx: " + verdict.error().describe();
        const auto loaded = load_onnx(each.model()); // with operators on quantised tensors written out
        if (!loaded) return "load: " + loaded.error().describe();
        if (const auto verdict = check_onnx(*loaded); !verdict) return "loaded: " + verdict.error().describe();
    }
    test::canonicalize(original);
    test::canonicalize(exported);
    if (const std::string difference = test::first_difference(original, exported); !difference.empty()) {
        return "changed: " + difference;
    }
    Model inferred = *model;
    if (const auto verdict = infer_shapes(inferred); !verdict && was_valid) {
        return "infer_shapes: " + verdict.error().describe();
    }
    return "";
}

TEST(OnnxConformance, EveryModelSurvivesImportAndExport) {
    const auto cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    ASSERT_GT(cases.size(), 1800U) << "the folder " << test::case_folder() << " is incomplete";
    const auto verdicts = test::run_isolated(
        cases.size(), [&](std::size_t i) { return round_trip(cases[i]); }, std::chrono::seconds(30), 2);
    std::size_t failures = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        if (verdicts[i].empty()) continue;
        ++failures;
        ADD_FAILURE() << cases[i].name << ": " << verdicts[i];
    }
    RecordProperty("models", std::to_string(cases.size()));
    EXPECT_EQ(failures, 0U) << "of " << cases.size();
}

} // namespace
} // namespace lathe
