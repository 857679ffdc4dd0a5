// Products of the kernel tests: matrix products, batched ones, attention.
#include <cmath>
#include <optional>

#include "cases.hpp"

namespace lathe::cuda::test {

using T = ElementType;

namespace {

TestPlan gemm_plan(std::int64_t m, std::int64_t n, std::int64_t k, T type, T out, Tail tail, bool tf32) {
    PlanBuilder b;
    const ValueId x = b.ready({m, k}, type);
    const ValueId y = b.value({m, n}, out, Layout::linear, 1.0F / 35);
    Gemm g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.weight = b.weight({n, k}, type, 1 / std::sqrt(static_cast<float>(k)));
    std::vector<ValueId> inputs{x};
    g.epilogue = epilogue_of(b, tail, type, y, n, k, inputs);
    return b.finish(g, inputs, {y}, type, tf32, m * n * k);
}

TestPlan batched_plan(const Shape& a, const Shape& b_dims, bool ta, bool tb, T type) {
    PlanBuilder b;
    const ValueId left = b.ready(a, type), right = b.ready(b_dims, type);
    const std::size_t rank = a.size();
    BatchedGemm g;
    g.m = ta ? a[rank - 1] : a[rank - 2];
    g.k = ta ? a[rank - 2] : a[rank - 1];
    const std::size_t other = b_dims.size();
    g.n = tb ? b_dims[other - 2] : b_dims[other - 1];
    g.transpose_a = ta;
    g.transpose_b = tb;
    g.alpha = 0.125F;
    Shape out(a.begin(), a.end() - 2);
    g.batch = element_count(out);
    out.push_back(g.m);
    out.push_back(g.n);
    const ValueId y = b.value(out, type);
    return b.finish(g, {left, right}, {y}, type);
}

TestPlan attention_plan(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t depth, bool packed,
                        bool masked, T type, std::optional<T> out = {}) {
    PlanBuilder b;
    std::vector<ValueId> inputs;
    if (packed)
        inputs.push_back(b.ready({batch, length, 3, heads, depth}, type));
    else
        for (int i = 0; i < 3; ++i)
            inputs.push_back(b.ready({batch, length, heads, depth}, type));
    if (masked) inputs.push_back(b.ready({batch, 1, 1, length}, type));
    const ValueId y = b.value({batch, length, heads * depth}, out.value_or(type), Layout::linear, 1.0F / 60);
    Attention a;
    a.batch = batch;
    a.heads = heads;
    a.q_len = a.kv_len = length;
    a.depth = depth;
    a.scale = 1 / std::sqrt(static_cast<float>(depth));
    a.packed = packed;
    a.masked = masked;
    return b.finish(a, inputs, {y}, type);
}

} // namespace

void add_product_cases(Cases& add) {
    const std::vector<Types>& types = product_types();
    for (const Types& t : types) {
        add("gemm_" + t.name + "_m1", [=] { return gemm_plan(1, 1000, 512, t.type, t.out, Tail::bias, t.tf32); });
        add("gemm_" + t.name + "_m8",
            [=] { return gemm_plan(8, 100, 256, t.type, t.out, Tail::residual_relu, t.tf32); });
        add("gemm_" + t.name + "_m130",
            [=] { return gemm_plan(130, 192, 320, t.type, t.out, Tail::bias_relu, t.tf32); });
        add("gemm_" + t.name + "_odd", [=] { return gemm_plan(19, 37, 45, t.type, t.out, Tail::bias, t.tf32); });
    }
    add("gemm_s8f32_logits1", [] { return gemm_plan(1, 1000, 2048, T::s8, T::f32, Tail::bias, false); });
    add("gemm_s8f32_logits32", [] { return gemm_plan(32, 1000, 512, T::s8, T::f32, Tail::bias, false); });
    add("gemm_f16f32_logits32", [] { return gemm_plan(32, 1000, 512, T::f16, T::f32, Tail::bias, false); });
    add("gemm_f16_gelu", [] { return gemm_plan(128, 256, 64, T::f16, T::f16, Tail::gelu, false); });
    add("gemm_bf16_gelu", [] { return gemm_plan(128, 256, 64, T::bf16, T::bf16, Tail::gelu, false); });
    add("gemm_f32_gelu", [] { return gemm_plan(128, 256, 64, T::f32, T::f32, Tail::gelu, false); });
    add("gemm_tf32_gelu", [] { return gemm_plan(128, 256, 64, T::f32, T::f32, Tail::gelu, true); });
    // More tiles than multiprocessors, and edges of tiles.
    add(
        "gemm_s8_wide", [] { return gemm_plan(2100, 3072, 768, T::s8, T::s8, Tail::gelu, false); }, false);
    add(
        "gemm_s8f16_wide", [] { return gemm_plan(5000, 768, 1152, T::s8, T::f16, Tail::residual_relu, false); }, false);
    add(
        "gemm_f16_wide", [] { return gemm_plan(3000, 2304, 384, T::f16, T::f16, Tail::gelu, false); }, false);
    add("gemm_s8_gelu", [] { return gemm_plan(200, 192, 320, T::s8, T::s8, Tail::gelu, false); });
    add("gemm_s8f16_residual", [] { return gemm_plan(128, 256, 64, T::s8, T::f16, Tail::residual_relu, false); });

    for (const T type : {T::f16, T::f32}) {
        const std::string end = "_" + type_name(type);
        add("batched_nn" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 16, 24}, false, false, type); });
        add("batched_nt" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 24, 16}, false, true, type); });
        add("batched_tn" + end, [=] { return batched_plan({4, 16, 20}, {1, 16, 24}, true, false, type); });
    }
    add("attention_packed", [] { return attention_plan(2, 3, 48, 64, true, true, T::f16); });
    add("attention_apart", [] { return attention_plan(1, 4, 33, 32, false, false, T::f16); });
    add("attention_long", [] { return attention_plan(2, 2, 200, 64, true, true, T::f16); });
    add("attention_s8", [] { return attention_plan(2, 3, 130, 64, true, true, T::f16, T::s8); });
    add("attention_s8_apart", [] { return attention_plan(1, 2, 65, 32, false, false, T::f16, T::s8); });
    add("attention_f32", [] { return attention_plan(1, 2, 20, 40, true, true, T::f32); });
}

} // namespace lathe::cuda::test
