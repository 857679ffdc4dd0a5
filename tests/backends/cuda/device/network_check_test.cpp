// The check of the finished network finds what a kernel does to itself, to its neighbours and behind its memory.
#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/device/network_check.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

using namespace lathe::cuda;

/// What a spoiled kernel does after its work, given the addresses it was bound to.
using Harm = std::function<cudaError_t(const Pointers&, cudaStream_t)>;

class HarmfulBound final : public BoundKernel {
public:
    HarmfulBound(std::unique_ptr<BoundKernel> kernel, Pointers pointers, Harm harm)
        : kernel_(std::move(kernel)), pointers_(pointers), harm_(std::move(harm)) {}
    Result<void> launch(cudaStream_t stream, bool programmatic) const override {
        LATHE_CHECK(kernel_->launch(stream, programmatic));
        if (harm_) LATHE_CUDA(harm_(pointers_, stream), "doing harm");
        return {};
    }

private:
    std::unique_ptr<BoundKernel> kernel_;
    Pointers pointers_;
    Harm harm_;
};

/// Another plan's kernel, with harm after it.
class Harmful final : public PreparedKernel {
public:
    Harmful(std::shared_ptr<const DevicePlan> source, std::size_t op, Harm harm)
        : source_(std::move(source)), op_(op), harm_(std::move(harm)) {}
    std::size_t workspace_bytes() const override { return source_->kernels[op_]->workspace_bytes(); }
    bool waits() const override { return !harm_ && source_->kernels[op_]->waits(); }
    Result<std::unique_ptr<BoundKernel>> bind(const Pointers& pointers) const override {
        LATHE_TRY(auto bound, source_->kernels[op_]->bind(pointers));
        return std::unique_ptr<BoundKernel>(std::make_unique<HarmfulBound>(std::move(bound), pointers, harm_));
    }

private:
    std::shared_ptr<const DevicePlan> source_;
    std::size_t op_;
    Harm harm_;
};

class CudaNetworkCheck : public testing::Test {
protected:
    void SetUp() override {
        const Availability available = make_cuda_backend()->availability();
        if (!available.available) GTEST_SKIP() << "SKIPPED: " << available.cause;
        auto found = device(0);
        ASSERT_TRUE(found) << found.error().describe();
        state_.devices.push_back(std::make_unique<DeviceState>(std::move(*found)));
        state_.workspace_limit = std::size_t{64} << 20;
        check_instead(residual_network());
    }

    void check_instead(const std::string& text) {
        auto prepared = prepare(network(text), Precision::float16);
        ASSERT_TRUE(prepared) << prepared.error().describe();
        state_.prepared = std::move(*prepared);
        state_.devices.front()->plans = LruCache<std::string, std::shared_ptr<const DevicePlan>>(64);
        auto plan = plan_for(state_, 0, shapes_);
        ASSERT_TRUE(plan) << plan.error().describe();
        plan_ = std::move(*plan);
    }

    std::optional<NetworkFault> check() {
        auto found = check_network(state_, shapes_, nullptr);
        if (!found) {
            ADD_FAILURE() << found.error().describe();
            return std::nullopt;
        }
        not_finite_ = found->not_finite;
        return found->fault;
    }

    /// As if the kernel of operation `op` did this.
    void spoil(std::size_t op, const Harm& harm) {
        auto made = std::make_shared<DevicePlan>();
        made->plan = plan_->plan;
        made->memory = plan_->memory;
        made->tactics = plan_->tactics;
        made->workspace = plan_->workspace;
        for (std::size_t i = 0; i < plan_->kernels.size(); ++i)
            made->kernels.push_back(std::make_unique<Harmful>(plan_, i, i == op ? harm : Harm()));
        state_.devices.front()->plans = LruCache<std::string, std::shared_ptr<const DevicePlan>>(64);
        state_.devices.front()->plans.insert(shapes_key(shapes_), made);
    }

    /// The first operation beside whose result and operands another value stands, and that value.
    std::pair<std::size_t, ValueId> bystander() const {
        const Plan& plan = plan_->plan;
        for (std::size_t i = 0; i < plan.ops.size(); ++i) {
            for (const ValueId id : standing(plan, i)) {
                const auto in = [&](const std::vector<ValueId>& list) {
                    return std::find(list.begin(), list.end(), id) != list.end();
                };
                if (!in(plan.ops[i].inputs) && !in(plan.ops[i].outputs)) return {i, id};
            }
        }
        return {plan.ops.size(), 0};
    }

    const std::vector<Shape> shapes_{{2, 3, 32, 32}};
    EngineState state_;
    std::shared_ptr<const DevicePlan> plan_;
    std::string not_finite_; ///< what the last check said of it
};

TEST_F(CudaNetworkCheck, FindsNothingWhereAllIsRight) {
    const auto fault = check();
    EXPECT_FALSE(fault) << fault->name << " by " << fault->tactic << ": " << fault->what;
    EXPECT_EQ(not_finite_, "");
}

// The 32nd power of a normal number passes float16's range in every seventh element.
TEST_F(CudaNetworkCheck, FindsNothingWhereRandomInputsOverflow) {
    check_instead("opset 18\ninput %x: float32[N, 3, 32, 32]\ninput %w_a: float32[16, 3, 3, 3]\n"
                  "input %w_b: float32[16, 16, 3, 3]\n"
                  "%x2 = Mul(%x, %x)\n%x4 = Mul(%x2, %x2)\n%x8 = Mul(%x4, %x4)\n%x16 = Mul(%x8, %x8)\n"
                  "%x32 = Mul(%x16, %x16)\n%a = Conv(%x32, %w_a) {pads = [1, 1, 1, 1]}\n%a_r = Relu(%a)\n"
                  "%b = Conv(%a_r, %w_b) {pads = [1, 1, 1, 1]}\n%y = Relu(%b)\noutput %y: float32[N, 16, 32, 32]\n");
    const auto fault = check();
    EXPECT_FALSE(fault) << fault->name << " by " << fault->tactic << ": " << fault->what;
    EXPECT_NE(not_finite_.find("y ("), std::string::npos) << not_finite_;
    EXPECT_NE(not_finite_.find("behind Mul"), std::string::npos) << not_finite_;
}

// What overflows inside and never leaves is no concern of the user's.
TEST_F(CudaNetworkCheck, SaysNothingOfInfinitiesThatDoNotReachAnOutput) {
    check_instead("opset 18\ninput %x: float32[N, 3, 32, 32]\ninput %w_a: float32[16, 3, 3, 3]\n"
                  "%x2 = Mul(%x, %x)\n%x4 = Mul(%x2, %x2)\n%x8 = Mul(%x4, %x4)\n%x16 = Mul(%x8, %x8)\n"
                  "%x32 = Mul(%x16, %x16)\n%bounded = Tanh(%x32)\n%y = Conv(%bounded, %w_a) {pads = [1, 1, 1, 1]}\n"
                  "output %y: float32[N, 16, 32, 32]\n");
    const auto fault = check();
    EXPECT_FALSE(fault) << fault->name << " by " << fault->tactic << ": " << fault->what;
    EXPECT_EQ(not_finite_, "");
}

TEST_F(CudaNetworkCheck, NamesAWrongResult) {
    const std::size_t op = plan_->plan.ops.size() / 2;
    const ValueId output = plan_->plan.ops[op].outputs[0];
    const std::size_t half = plan_->plan.values[output].byte_size() / 2;
    spoil(op,
          [=](const Pointers& at, cudaStream_t stream) { return cudaMemsetAsync(at.values[output], 0, half, stream); });
    const auto fault = check();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->op, op);
    EXPECT_EQ(fault->tactic, plan_->tactics[op]);
    EXPECT_NE(fault->what.find("its result"), std::string::npos) << fault->what;
}

// Right in most runs: the operation that is running when it shows is not the one at fault.
TEST_F(CudaNetworkCheck, NamesAResultThatChangesFromRunToRun) {
    const std::size_t op = plan_->plan.ops.size() / 3;
    ASSERT_LT(op + 3, plan_->plan.ops.size());
    const ValueId output = plan_->plan.ops[op].outputs[0];
    const std::size_t half = plan_->plan.values[output].byte_size() / 2;
    for (const int first : {3, 40}) { // before and after the check has come to the end of the network
        auto bound = std::make_shared<int>(0);
        spoil(op, [=](const Pointers& at, cudaStream_t stream) {
            const int run = ++*bound;
            if (run < static_cast<int>(op) + first || run % 7 != 0) return cudaSuccess;
            return cudaMemsetAsync(at.values[output], 0, half, stream);
        });
        const auto fault = check();
        ASSERT_TRUE(fault) << first;
        EXPECT_EQ(fault->op, op) << first;
        EXPECT_EQ(fault->tactic, plan_->tactics[op]);
        EXPECT_NE(fault->what.find("changes from run to run"), std::string::npos) << fault->what;
    }
}

TEST_F(CudaNetworkCheck, NamesWhoChangesAnothersValue) {
    const auto [op, value] = bystander();
    ASSERT_LT(op, plan_->plan.ops.size()) << "the network has a residual";
    const std::size_t part = plan_->plan.values[value].byte_size() / 8;
    spoil(op, [value = value, part](const Pointers& at, cudaStream_t stream) {
        return cudaMemsetAsync(at.values[value], 0x11, part, stream);
    });
    const auto fault = check();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->op, op) << "not the one that reads it later";
    EXPECT_NE(fault->what.find("another operation"), std::string::npos) << fault->what;
}

TEST_F(CudaNetworkCheck, NamesWhoWritesBehindTheMemory) {
    const ValueId output = plan_->plan.ops[0].outputs[0];
    const std::size_t to_end = plan_->memory.peak - plan_->memory.offsets[output];
    spoil(0, [=](const Pointers& at, cudaStream_t stream) {
        return cudaMemsetAsync(static_cast<std::byte*>(at.values[output]) + to_end, 0, 16, stream);
    });
    const auto behind = check();
    ASSERT_TRUE(behind);
    EXPECT_EQ(behind->op, 0U);
    EXPECT_NE(behind->what.find("16 bytes behind the activations"), std::string::npos) << behind->what;
    const std::size_t size = plan_->workspace;
    spoil(1, [=](const Pointers& at, cudaStream_t stream) {
        return cudaMemsetAsync(static_cast<std::byte*>(at.workspace) + size, 0, 4, stream);
    });
    const auto workspace = check();
    ASSERT_TRUE(workspace);
    EXPECT_EQ(workspace->op, 1U);
    EXPECT_NE(workspace->what.find("4 bytes behind its workspace"), std::string::npos) << workspace->what;
}

} // namespace
} // namespace lathe::test
