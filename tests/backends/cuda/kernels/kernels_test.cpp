// Every op on the GPU: the reference kernels against the interpreter, then every candidate of every provider against
// the reference kernels, over a table of shapes and types. One line a case is printed; LATHE_KERNEL_TIMES=1 adds the
// candidates' times (one buffer, so caches are warm). Skips, with the cause, where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "cases.hpp"
#include "numbers.hpp"
#include "runner.hpp"

namespace lathe::cuda::test {
namespace {

using T = ElementType;

class CudaKernels : public ::testing::TestWithParam<Case> {};

bool is_convolution(const FusedOp& op) {
    return std::holds_alternative<Conv>(op.detail) || std::holds_alternative<Depthwise>(op.detail);
}

/// Needs no GPU: the table's plans obey the plan's rules, the reference takes every op, own kernels name their
/// candidates and prepare each of them.
TEST(CudaKernelPlans, AreValidAndHaveCandidates) {
    Device device;
    device.sm = 90;
    device.multiprocessors = 132;
    device.shared_per_block = 227 << 10;
    const auto reference = make_reference_provider(), own = make_own_provider(), wide = make_wide_provider(),
               chains = make_chain_provider(), generated = make_generated_provider();
    if (!nvrtc_library().found) std::printf("generated kernels are SKIPPED: %s\n", nvrtc_library().cause.c_str());
    for (const Case& c : table()) {
        const TestPlan test = c.make();
        const auto valid = verify(test.plan);
        EXPECT_TRUE(valid) << c.name << ": " << (valid ? "" : valid.error().describe());
        for (const FusedOp& op : test.plan.ops) {
            std::string why;
            EXPECT_FALSE(reference->candidates(op, test.plan, device, Effort::fast, why).empty())
                << c.name << ": " << why;
            for (const auto* provider : {own.get(), wide.get(), chains.get(), generated.get()}) {
                why.clear();
                // each of these is compiled by NVRTC: the first guesses of the tested op
                const bool compiled = provider == generated.get();
                if (compiled && &op != &test.plan.ops[test.main]) continue;
                const auto ids =
                    provider->candidates(op, test.plan, device, compiled ? Effort::fast : Effort::full, why);
                EXPECT_TRUE(!ids.empty() || !why.empty()) << c.name << ": refused without a reason";
                // no convolution is left to the reference, which is many times as slow
                if (provider == own.get() && is_convolution(op)) {
                    EXPECT_FALSE(ids.empty()) << c.name << ": " << why;
                }
                for (const std::string& id : ids) {
                    const auto prepared = provider->prepare(id, op, test.plan, device);
                    EXPECT_TRUE(prepared) << c.name << ": " << (prepared ? "" : prepared.error().describe());
                }
            }
        }
    }
}

/// Needs no GPU: the interpreter runs every plan that the GPU's results are compared with.
TEST(CudaKernelPlans, AreInterpreted) {
    for (const Case& c : table()) {
        if (!c.interpret) continue;
        const TestPlan test = c.make();
        std::vector<HostTensor> tensors;
        std::mt19937 random(7);
        for (const ValueId id : test.plan.inputs)
            tensors.push_back(random_input(test.plan.values[id], random));
        std::vector<TensorView> views;
        for (HostTensor& t : tensors)
            views.push_back(t.view());
        const auto found = interpret(test.plan, views);
        EXPECT_TRUE(found) << c.name << ": " << (found ? "" : found.error().describe());
    }
}

TEST(CudaKernelPlans, TacticThatDoesNotExistIsAMismatch) {
    Device device;
    device.sm = 90;
    device.multiprocessors = 132;
    device.shared_per_block = 227 << 10;
    const TestPlan test = table().front().make();
    const FusedOp& op = test.plan.ops[test.main];
    for (const auto& provider : {make_reference_provider(), make_own_provider(), make_wide_provider(),
                                 make_chain_provider(), make_generated_provider()}) {
        const auto prepared = provider->prepare("no_such_kernel", op, test.plan, device);
        ASSERT_FALSE(prepared);
        EXPECT_EQ(prepared.error().code, ErrorCode::mismatch);
    }
}

TEST_P(CudaKernels, AgreeWithReferenceAndInterpreter) {
    int devices = 0;
    if (const cudaError_t code = cudaGetDeviceCount(&devices); code != cudaSuccess || devices == 0)
        GTEST_SKIP() << "SKIPPED: no GPU answers: " << cudaGetErrorString(code);
    const auto device = cuda::device(0);
    ASSERT_TRUE(device) << device.error().describe();
    const Case& c = GetParam();
    const TestPlan test = c.make();
    const FusedOp& op = test.plan.ops[test.main];
    auto runner = Runner::make(test, *device);
    ASSERT_TRUE(runner) << runner.error().describe();
    const auto ran = (*runner)->reference();
    ASSERT_TRUE(ran) << c.name << ": reference: " << ran.error().describe();

    std::string line = c.name;
    char text[256];
    if (c.interpret) {
        std::vector<TensorView> views;
        for (const HostTensor& t : (*runner)->inputs())
            views.push_back(const_cast<HostTensor&>(t).view());
        const auto expected = interpret(test.plan, views);
        ASSERT_TRUE(expected) << c.name << ": interpreter: " << expected.error().describe();
        const auto found = (*runner)->results();
        ASSERT_TRUE(found) << found.error().describe();
        double worst = 0;
        for (std::size_t o = 0; o < found->size(); ++o) {
            const Value& v = test.plan.values[test.plan.outputs[o]];
            ASSERT_EQ((*expected)[o].bytes.size(), (*found)[o].size());
            const Comparison same = compare(v, (*expected)[o].bytes, (*found)[o]);
            // int8 results appear dequantised: one step in a hundred of 1/35
            const double limit =
                test.plan.values[op.outputs[o]].type == T::s8 ? 5e-3 : tolerance(op, test.plan.values[op.outputs[o]]);
            EXPECT_FALSE(same.bad) << c.name << ": reference against interpreter: " << same.what;
            EXPECT_LE(same.error, limit) << c.name << ": reference against interpreter";
            worst = std::max(worst, same.error);
        }
        std::snprintf(text, sizeof text, " | reference %.1e", worst);
        line += text;
    }

    const bool times = std::getenv("LATHE_KERNEL_TIMES") != nullptr;
    std::size_t own_right = 0;
    for (const auto& provider : providers()) {
        const bool ours = provider->name().starts_with("lathe") || provider->name() == "generated";
        if (provider->name() == "reference" && !times) continue;
        std::string why;
        const auto ids = provider->candidates(op, test.plan, *device, ours ? Effort::full : Effort::standard, why);
        if (ids.empty()) {
            if (!why.empty()) line += " | " + provider->name() + ": " + why.substr(0, 160);
            continue;
        }
        std::size_t right = 0, refused = 0;
        double worst = 0, best_time = std::numeric_limits<double>::infinity();
        std::string best_id, wrong;
        for (const std::string& id : ids) {
            double microseconds = 0;
            const auto result = (*runner)->candidate(*provider, id, times ? &microseconds : nullptr);
            if (!result) {
                if (result.error().code != ErrorCode::unsupported && result.error().code != ErrorCode::mismatch) {
                    ADD_FAILURE() << c.name << ": " << provider->name() << ":" << id << ": "
                                  << result.error().describe();
                    if (cudaDeviceSynchronize() != cudaSuccess) GTEST_FAIL() << "the device is lost";
                }
                ++refused;
                if (wrong.empty()) wrong = id + ": " + result.error().message.substr(0, 120);
                continue;
            }
            bool good = true;
            for (std::size_t o = 0; o < result->size(); ++o) {
                const Comparison& found = (*result)[o];
                const bool fits = !found.bad && found.error <= tolerance(op, test.plan.values[op.outputs[o]]);
                if (!fits) {
                    good = false;
                    std::snprintf(text, sizeof text, "%.2e ", found.error);
                    wrong = id + " is off by " + text + found.what;
                    if (ours) ADD_FAILURE() << c.name << ": " << provider->name() << ":" << wrong;
                } else {
                    worst = std::max(worst, found.error);
                }
            }
            if (!good) continue;
            ++right;
            if (microseconds < best_time) {
                best_time = microseconds;
                best_id = id;
            }
        }
        if (ours) own_right += right;
        std::snprintf(text, sizeof text, " | %s %zu/%zu %.1e", provider->name().c_str(), right, ids.size(), worst);
        line += text;
        if (times && right > 0) {
            std::snprintf(text, sizeof text, " %.2f us ", best_time);
            line += text + best_id.substr(0, 40);
        }
        if (!wrong.empty()) line += " (" + wrong.substr(0, 160) + ")";
        EXPECT_TRUE(right + refused > 0) << c.name << ": every candidate of " << provider->name()
                                         << " is wrong: " << wrong;
    }
    // that every provider refuses is no success
    EXPECT_TRUE(own_right > 0 || !is_convolution(op)) << c.name << ": no own kernel ran";
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

INSTANTIATE_TEST_SUITE_P(Table, CudaKernels, ::testing::ValuesIn(table()),
                         [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

} // namespace
} // namespace lathe::cuda::test
