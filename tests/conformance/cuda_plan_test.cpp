// ONNX's backend tests on the CUDA engine's plans, run by their CPU interpreter: whatever can be lowered gives the
// recorded outputs. What cannot is listed in cuda_unsupported.txt with the reason; a listed case that passes, or one
// not listed that fails, fails the test. `test_conformance_cuda_plan --update-list` writes the list anew.

#include <cstring>
#include <iostream>

#include <gtest/gtest.h>

#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "conformance/exceptions_list.hpp"
#include "conformance/isolated.hpp"
#include "conformance/recorded.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using test::Case;
using test::DataSet;

const test::ExceptionsList exceptions{LATHE_SOURCE_DIR "/tests/conformance/cuda_unsupported.txt",
                                      "the CUDA engine's plans do not do", "test_conformance_cuda_plan"};

Result<void> run_once(const Model& model, const DataSet& data, test::Tolerance tolerance) {
    LATHE_TRY(auto prepared, cuda::prepare(model, Precision::float32));
    std::vector<Shape> shapes;
    std::vector<TensorView> views;
    for (const ValueInfo& info : model.graph.inputs) {
        const auto given = std::find_if(data.inputs.begin(), data.inputs.end(),
                                        [&](const auto& pair) { return pair.first == info.name; });
        if (given == data.inputs.end()) {
            return Error{ErrorCode::mismatch, "no recorded input is called " + info.name, "", ""};
        }
        const Tensor& tensor = given->second;
        shapes.push_back(tensor.shape());
        const std::span<std::byte> bytes(const_cast<std::byte*>(tensor.bytes().data()), tensor.bytes().size());
        views.push_back({info.name, tensor.type(), tensor.shape(), bytes});
    }
    LATHE_TRY(const auto plan, cuda::lower(prepared, shapes));
    LATHE_TRY(auto outputs, cuda::interpret(plan, views));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::string text = test::difference(data.outputs[i], outputs[i].view(), tolerance);
        if (text.empty()) continue;
        return Error{ErrorCode::mismatch, "wrong result: output " + std::to_string(i) + " " + text, "", ""};
    }
    return {};
}

/// The model with all inputs but the first as constants of their recorded values.
Model with_constants(const Model& model, const DataSet& data) {
    Model fixed = model;
    std::erase_if(fixed.graph.inputs, [&](const ValueInfo& info) {
        if (info.name == model.graph.inputs[0].name) return false;
        for (const auto& [name, tensor] : data.inputs) {
            if (name == info.name) fixed.graph.initializers.insert_or_assign(name, tensor.renamed(name));
        }
        return fixed.graph.initializers.contains(info.name);
    });
    return fixed;
}

Result<void> run_case(const Case& each) {
    LATHE_TRY(Model model, load_onnx(each.model()));
    drop_initializer_inputs(model);
    if (test::is_random(model.graph)) return Error{ErrorCode::unsupported, "its outputs are random", "", ""};
    for (int set = 0;; ++set) {
        const auto folder = each.folder / ("test_data_set_" + std::to_string(set));
        if (!std::filesystem::exists(folder)) {
            if (set != 0) return {};
            return Error{ErrorCode::not_found, "no inputs and outputs are recorded for it", "", ""};
        }
        LATHE_TRY(const DataSet data, test::read_data(folder, model));
        const auto plain = run_once(model, data, test::tolerance_of(each));
        if (plain) continue;
        if (plain.error().code == ErrorCode::mismatch || model.graph.inputs.size() < 2) return plain;
        // Recorded cases give weights, axes and the like as inputs; models have them as constants.
        Model fixed = with_constants(model, data);
        const auto second = run_once(fixed, data, test::tolerance_of(each));
        if (!second) return second.error().code == ErrorCode::mismatch ? second : plain;
    }
}

/// The reason in one line.
std::string tidy(const std::string& text) {
    std::string line;
    for (const char c : text) {
        const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
        if (blank && (line.empty() || line.back() == ' ')) continue;
        line += blank ? ' ' : c;
    }
    return line.size() > 160 ? line.substr(0, 157) + "..." : line;
}

std::vector<std::string> run_all(const std::vector<Case>& cases) {
    return test::run_isolated(
        cases.size(),
        [&](std::size_t i) -> std::string {
            const auto outcome = run_case(cases[i]);
            return outcome ? "" : tidy(outcome.error().message);
        },
        std::chrono::seconds(60), 2);
}

TEST(CudaPlanConformance, LoweredModelsGiveTheRecordedOutputs) {
    const auto cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    test::compare_with_list(exceptions, cases, run_all(cases));
}

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
