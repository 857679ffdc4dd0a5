// ONNX's backend tests on the CUDA engine's plans, run by their CPU interpreter: whatever can be lowered gives the
// recorded outputs. What cannot is listed in cuda_unsupported.txt with the reason; a listed case that passes, or one
// not listed that fails, fails the test. `test_conformance_cuda_plan --update-list` writes the list anew.

#include <cstring>
#include <iostream>

#include <gtest/gtest.h>

#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "conformance/cuda_cases.hpp"
#include "conformance/isolated.hpp"
#include "conformance/recorded.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using test::Case;
using test::DataSet;

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

std::vector<std::string> run_all(const std::vector<Case>& cases) {
    return test::run_isolated(
        cases.size(),
        [&](std::size_t i) -> std::string { return test::verdict(test::run_with_constants(cases[i], run_once)); },
        std::chrono::seconds(60), 2);
}

TEST(CudaPlanConformance, LoweredModelsGiveTheRecordedOutputs) {
    const auto cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    test::compare_with_list(test::cuda_exceptions, cases, run_all(cases));
}

int update_list() {
    const auto cases = test::all_cases();
    if (cases.empty()) {
        std::cerr << test::no_cases << '\n';
        return 1;
    }
    return test::update_list(test::cuda_exceptions, cases, run_all(cases));
}

} // namespace
} // namespace lathe

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc > 1 && std::strcmp(argv[1], "--update-list") == 0) return lathe::update_list();
    return RUN_ALL_TESTS();
}
