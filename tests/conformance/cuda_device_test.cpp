// ONNX's backend tests on a GPU: every case whose plan the interpreter runs (that is, all but those listed in
// cuda_unsupported.txt) is compiled, tuned and run in fp32, and gives the recorded outputs. Skips, with the cause,
// where there is no GPU. What of it needs none: every operation has a reference kernel.

#include <iostream>

#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "conformance/backend_outputs.hpp"
#include "conformance/cuda_cases.hpp"
#include "conformance/isolated.hpp"

namespace lathe {
namespace {

using test::Case;
using test::DataSet;

/// Made where it is first used: a GPU's context does not survive a fork.
const Backend& backend() {
    static const std::unique_ptr<Backend> made = make_cuda_backend();
    return *made;
}

Result<void> run_once(const Model& model, const DataSet& data, test::Tolerance tolerance) {
    CompileOptions options;
    options.tune = TuneEffort::fast;
    options.allow_fallback = true;
    options.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-conformance-timings.json";
    LATHE_TRY(const auto outputs, test::outputs_of(backend(), model, data, options));
    if (outputs.size() != data.outputs.size())
        return Error{ErrorCode::mismatch, "wrong result: it has " + std::to_string(outputs.size()) + " outputs", "",
                     ""};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const HostTensor& output = outputs[i];
        const TensorView view = const_cast<HostTensor&>(output).view();
        const std::string text = test::difference(data.outputs[i], view, tolerance);
        if (!text.empty())
            return Error{ErrorCode::mismatch, "wrong result: output " + std::to_string(i) + " " + text, "", ""};
    }
    return {};
}

TEST(CudaConformance, CompiledModelsGiveTheRecordedOutputs) {
    std::vector<Case> cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    const auto limit = std::chrono::seconds(60);
    const auto cause = test::run_isolated(
        1, [](std::size_t) { return backend().availability().available ? "" : backend().availability().cause; }, limit,
        1);
    if (!cause[0].empty()) GTEST_SKIP() << "SKIPPED: " << cause[0];
    const auto listed = test::read_list(test::cuda_exceptions);
    ASSERT_FALSE(listed.empty()) << test::cuda_exceptions.path;
    std::erase_if(cases, [&](const Case& each) { return listed.contains(each.name); });
    const auto verdicts = test::run_isolated(
        cases.size(),
        [&](std::size_t i) -> std::string { return test::verdict(test::run_with_constants(cases[i], run_once)); },
        limit, 8);
    std::size_t passed = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        if (verdicts[i].empty())
            ++passed;
        else
            ADD_FAILURE() << cases[i].name << ": " << verdicts[i];
    }
    std::cout << passed << " of " << cases.size() << " models give the recorded outputs on the GPU; " << listed.size()
              << " more are listed with a reason\n";
    EXPECT_GT(passed, 500U);
}

/// Tuning compares every kernel with the reference and cannot do without one. Needs no GPU.
Result<void> prepare_references(const Model& model, const std::vector<Shape>& shapes) {
    static const auto reference = cuda::make_reference_provider();
    cuda::Device device;
    device.sm = 90;
    LATHE_TRY(auto prepared, cuda::prepare(model, Precision::float16));
    const auto plan = cuda::lower(prepared, shapes);
    if (!plan) return {}; // a number that FP16 does not hold
    for (const cuda::FusedOp& op : plan->ops) {
        std::string why;
        const auto ids = reference->candidates(op, *plan, device, cuda::Effort::fast, why);
        if (ids.empty()) return Error{ErrorCode::unsupported, "wrong result: no reference kernel: " + why, op.name, ""};
        if (const auto made = reference->prepare(ids.front(), op, *plan, device); !made)
            return Error{ErrorCode::unsupported, "wrong result: " + made.error().describe(), op.name, ""};
    }
    return {};
}

TEST(CudaConformance, EveryOperationHasAReferenceKernel) {
    std::vector<Case> cases = test::all_cases();
    if (cases.empty()) GTEST_SKIP() << test::no_cases;
    const auto listed = test::read_list(test::cuda_exceptions);
    std::erase_if(cases, [&](const Case& each) { return listed.contains(each.name); });
    const auto run_once = [](const Model& model, const DataSet& data, test::Tolerance) -> Result<void> {
        std::vector<Shape> shapes;
        for (const ValueInfo& info : model.graph.inputs)
            for (const auto& [name, tensor] : data.inputs)
                if (name == info.name) shapes.push_back(tensor.shape());
        return prepare_references(model, shapes);
    };
    const auto verdicts = test::run_isolated(
        cases.size(),
        [&](std::size_t i) -> std::string { return test::verdict(test::run_with_constants(cases[i], run_once)); },
        std::chrono::seconds(60), 2);
    for (std::size_t i = 0; i < cases.size(); ++i)
        EXPECT_EQ(verdicts[i], "") << cases[i].name;
}

} // namespace
} // namespace lathe
