#include "backends/cuda/plan/work.hpp"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

Value value(ElementType type, Shape dims, Role role = Role::activation) {
    Value made;
    made.role = role;
    made.type = type;
    made.dims = std::move(dims);
    return made;
}

Plan product() {
    Plan plan;
    plan.weights = std::make_shared<WeightStore>();
    plan.weights->weights.push_back({"w", ElementType::f16, {64, 32}, {}, nullptr});
    plan.weights->weights.push_back({"bias", ElementType::f32, {64}, {}, nullptr});
    plan.values = {value(ElementType::f16, {128, 32}), value(ElementType::f16, {128, 64})};
    FusedOp op;
    Gemm gemm{128, 64, 32, 0, {}};
    gemm.epilogue.bias = 1;
    op.detail = gemm;
    op.inputs = {0};
    op.outputs = {1};
    op.macs = 128 * 64 * 32;
    plan.ops.push_back(op);
    return plan;
}

TEST(Work, CountsEveryByteOnce) {
    Plan plan = product();
    Work work = work_of(plan.ops[0], plan);
    EXPECT_EQ(work.activation_bytes, 2 * 128 * 32 + 2 * 128 * 64);
    EXPECT_EQ(work.weight_bytes, 2 * 64 * 32 + 4 * 64);
    EXPECT_EQ(work.operations, 2.0 * 128 * 64 * 32);
    // A residual that is the input as well is read once.
    plan.ops[0].inputs = {0, 0};
    EXPECT_EQ(work_of(plan.ops[0], plan).activation_bytes, work.activation_bytes);
}

TEST(Work, OfATableOrASliceOnlyWhatIsTaken) {
    Plan plan;
    plan.weights = std::make_shared<WeightStore>();
    plan.weights->weights.push_back({"table", ElementType::f16, {30000, 64}, {}, nullptr});
    plan.values = {value(ElementType::s64, {8}), value(ElementType::f16, {8, 64}), value(ElementType::f16, {100, 64})};
    FusedOp gather;
    gather.detail = Gather{0, {0}};
    gather.inputs = {0};
    gather.outputs = {1};
    EXPECT_EQ(work_of(gather, plan).activation_bytes, 64 + 2 * 8 * 64 * 2);
    FusedOp slice;
    slice.detail = Slice{{0, 0}, {1, 1}};
    slice.inputs = {2};
    slice.outputs = {1};
    EXPECT_EQ(work_of(slice, plan).activation_bytes, 2 * 8 * 64 * 2);
}

TEST(LimitUs, IsTheLongerOfMovingAndComputing) {
    MachineLimits machine;
    machine.memory_bytes_per_second = 1e12;
    machine.cache_bytes_per_second = 4e12;
    machine.cache_bytes = 1000;
    machine.operations_per_second["fp16"] = 1e14;
    EXPECT_DOUBLE_EQ(limit_us({4e6, 2e6, 0}, "fp16", machine), 6);
    EXPECT_DOUBLE_EQ(limit_us({4e6, 2e6, 1e9}, "fp16", machine), 10);
    EXPECT_DOUBLE_EQ(limit_us({400, 0, 0}, "fp16", machine), 1e-4);  // stays in the cache
    EXPECT_DOUBLE_EQ(limit_us({4e6, 2e6, 1e9}, "int8", machine), 6); // that product's rate is not known
    EXPECT_EQ(limit_us({4e6, 2e6, 1e9}, "fp16", MachineLimits{}), 0);
}

} // namespace
} // namespace lathe::cuda
