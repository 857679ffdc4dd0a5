// Products of the kernel tests: matrix products, batched ones, attention.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

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

/// Weights whose rows are padded, from the left: W [m, k], for all samples.
TestPlan columns_plan(std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n, T type) {
    PlanBuilder b;
    BatchedGemm g;
    g.batch = batch;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a_pitch = (k + 7) / 8 * 8;
    const ValueId left = b.ready({m, g.a_pitch}, type), right = b.ready({batch, k, n}, type);
    const ValueId y = b.value({batch, m, n}, type);
    return b.finish(g, {left, right}, {y}, type, false, batch * m * n * k);
}

/// What masks hold: nothing is masked; random numbers; of every row alike the first keys -inf or, in every second
/// batch, the type's lowest number, and the last lines nothing but that number; -inf above the diagonal; random ones of
/// each head and row, alone or with one for every second sample; -inf of all keys but the last in every third row, of
/// all keys in every sixth; -inf of the first two thirds of the keys, in the last sample of all.
enum class Mask { none, random, padding, causal, heads, windows, empty, hidden };

struct Heads {
    std::int64_t batch = 1, heads = 1, length = 1, depth = 1;
    std::int64_t keys = 0; ///< 0: as many as rows
    bool packed = false;
    Mask mask = Mask::none;
    T type = T::f16;
    std::optional<T> out = {};
    bool tf32 = false;
    std::int64_t key_heads = 0;
    bool causal = false, empty_is_zero = false;
    bool heads_first = false; ///< k and v are [B,H,S,D], as a decoder keeps them
    std::int64_t value_depth = 0;
    bool image = false; ///< q, k and v of a head lie side by side in an image's channels, behind others
};

/// Random numbers of each head and row, then perhaps such of every second sample.
std::vector<ValueId> masks_of_heads(PlanBuilder& b, const Heads& h, std::int64_t keys) {
    std::vector<ValueId> masks{b.ready({1, h.heads, h.length, keys}, h.type)};
    if (h.mask == Mask::windows) masks.push_back(b.ready({2, 1, h.length, keys}, h.type));
    return masks;
}

ValueId mask_of(PlanBuilder& b, const Heads& h, std::int64_t keys) {
    constexpr float none_left = -std::numeric_limits<float>::infinity(), lowest = std::numeric_limits<float>::lowest();
    if (h.mask == Mask::random) return b.ready({h.batch, 1, 1, keys}, h.type);
    const bool causal = h.mask == Mask::causal, empty = h.mask == Mask::empty;
    const std::int64_t batches = causal || empty ? 1 : h.batch, rows = causal || empty ? h.length : 1;
    std::vector<float> numbers;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t key = 0; key < keys; ++key) {
                float number = 0;
                if (causal && key > row) number = none_left;
                if (empty) {
                    const bool hidden = row % 3 == 0 && (key + 1 < keys || row % 6 == 0);
                    numbers.push_back(hidden ? none_left : 0.25F);
                    continue;
                }
                if (h.mask == Mask::hidden) {
                    numbers.push_back(key < keys * 2 / 3 || batch + 1 == batches ? none_left : 0.25F);
                    continue;
                }
                if (!causal && key < keys * 2 / 3) number = batch % 2 == 0 ? none_left : lowest;
                if (!causal && batch + 1 == batches && batches > 1) number = lowest;
                numbers.push_back(number);
            }
        }
    }
    return b.constant({batches, 1, rows, keys}, h.type, numbers);
}

TestPlan attention_plan(const Heads& h) {
    PlanBuilder b;
    std::vector<ValueId> inputs;
    const std::int64_t keys = h.keys == 0 ? h.length : h.keys;
    const std::int64_t key_heads = h.key_heads == 0 ? h.heads : h.key_heads;
    const std::int64_t values = h.value_depth == 0 ? h.depth : h.value_depth, head = 2 * h.depth + values;
    if (h.image) {
        inputs.assign(3, b.ready({h.batch, 24 + h.heads * head, h.length}, h.type, Layout::nhwc));
    } else if (h.packed) {
        inputs.push_back(b.ready({h.batch, h.length, 3, h.heads, h.depth}, h.type));
    } else {
        inputs.push_back(b.ready({h.batch, h.length, h.heads, h.depth}, h.type));
        for (int i = 0; i < 2; ++i)
            inputs.push_back(b.ready(h.heads_first ? Shape{h.batch, key_heads, keys, h.depth}
                                                   : Shape{h.batch, keys, key_heads, i == 0 ? h.depth : values},
                                     h.type));
    }
    const std::size_t operands = inputs.size();
    if (h.mask == Mask::heads || h.mask == Mask::windows) {
        for (const ValueId mask : masks_of_heads(b, h, keys))
            inputs.push_back(mask);
    } else if (h.mask != Mask::none) {
        inputs.push_back(mask_of(b, h, keys));
    }
    const ValueId y = b.value({h.batch, h.length, h.heads * values}, h.out.value_or(h.type), Layout::linear, 1.0F / 60);
    Attention a;
    a.batch = h.batch;
    a.heads = h.heads;
    a.q_len = h.length;
    a.kv_len = keys;
    a.depth = h.depth;
    a.scale = 1 / std::sqrt(static_cast<float>(h.depth));
    a.packed = h.packed;
    a.masks = static_cast<int>(inputs.size() - operands);
    a.kv_heads = h.key_heads;
    a.causal = h.causal;
    a.empty_is_zero = h.empty_is_zero;
    a.value_depth = h.value_depth;
    if (h.image) {
        const std::int64_t row = b.plan().values[inputs[0]].channel_stride;
        a.q = {24, h.length * row, row, head};
        a.k = {24 + h.depth, h.length * row, row, head};
        a.v = {24 + 2 * h.depth, h.length * row, row, head};
    }
    if (h.heads_first) a.k = a.v = {0, key_heads * keys * h.depth, h.depth, keys * h.depth};
    return b.finish(a, inputs, {y}, h.type, h.tf32);
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
        add("gemm_" + t.name + "_k888", [=] { return gemm_plan(32, 100, 888, t.type, t.out, Tail::bias, t.tf32); });
        add("gemm_" + t.name + "_odd", [=] { return gemm_plan(19, 37, 45, t.type, t.out, Tail::bias, t.tf32); });
    }
    // Few numbers and few results a row: heads that are mixed, coordinates.
    for (const T type : {T::f16, T::bf16, T::f32}) {
        const auto narrow = [&](std::int64_t n, std::int64_t k, Tail tail) {
            add("gemm_narrow" + std::to_string(n) + "x" + std::to_string(k) + "_" + type_name(type),
                [=] { return gemm_plan(1000, n, k, type, type, tail, false); });
        };
        narrow(4, 4, Tail::bias);
        narrow(7, 13, Tail::residual_relu);
        narrow(16, 64, Tail::bias_relu);
        narrow(1, 3, Tail::none);
    }
    // A decoder's step: few rows, shared out over warps.
    for (const T type : {T::f16, T::bf16}) {
        for (const std::int64_t rows : {1, 3, 8})
            add("gemm_step" + std::to_string(rows) + "_" + type_name(type),
                [=] { return gemm_plan(rows, 769, 3072, type, type, Tail::residual_relu, false); });
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
        add("columns" + end, [=] { return columns_plan(3, 40, 49, 64, type); });
        add("columns_one" + end, [=] { return columns_plan(1, 52, 52, 24, type); });
        add("batched_nn" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 16, 24}, false, false, type); });
        add("batched_nt" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 24, 16}, false, true, type); });
        add("batched_tn" + end, [=] { return batched_plan({4, 16, 20}, {1, 16, 24}, true, false, type); });
    }
    const auto attention = [&](const char* name, const Heads& h) { add(name, [h] { return attention_plan(h); }); };
    attention("attention_packed",
              {.batch = 2, .heads = 3, .length = 48, .depth = 64, .packed = true, .mask = Mask::random});
    attention("attention_apart", {.heads = 4, .length = 33, .depth = 32});
    attention("attention_long",
              {.batch = 2, .heads = 2, .length = 200, .depth = 64, .packed = true, .mask = Mask::random});
    attention("attention_s8",
              {.batch = 2, .heads = 3, .length = 130, .depth = 64, .packed = true, .mask = Mask::random, .out = T::s8});
    attention("attention_empty_is_zero", {.batch = 3,
                                          .heads = 2,
                                          .length = 70,
                                          .depth = 64,
                                          .packed = true,
                                          .mask = Mask::hidden,
                                          .empty_is_zero = true});
    attention("attention_s8_apart", {.heads = 2, .length = 65, .depth = 32, .out = T::s8});
    Heads f32{.batch = 3, .heads = 2, .length = 200, .depth = 64, .packed = true, .mask = Mask::random, .type = T::f32};
    attention("attention_f32_packed", f32);
    f32.mask = Mask::padding;
    attention("attention_f32_padding", f32);
    f32.mask = Mask::causal;
    attention("attention_f32_causal", f32);
    f32.out = T::s8;
    attention("attention_f32_s8", f32);
    attention("attention_f32_apart", {.heads = 4, .length = 33, .depth = 32, .keys = 150, .type = T::f32});
    attention("attention_tf32", {.heads = 2, .length = 70, .depth = 32, .type = T::f32, .tf32 = true});
    // Kernels for any length, width and mask (attention_flash), and for few rows over many keys (attention_decode).
    for (const T type : {T::f16, T::bf16}) {
        const auto flash = [&](const std::string& name, Heads h) {
            h.type = type;
            add(name + "_" + type_name(type), [h] { return attention_plan(h); });
        };
        // 17, 36 and 60: rows that begin at no multiple of 16 bytes.
        for (const std::int64_t depth : {17, 32, 36, 40, 60, 64, 80, 96, 128, 160, 256})
            flash("attention_depth" + std::to_string(depth),
                  {.batch = 2, .heads = 2, .length = 70, .depth = depth, .keys = 133});
        flash("attention_values_wider",
              {.batch = 2, .heads = 4, .length = 196, .depth = 16, .mask = Mask::heads, .value_depth = 32});
        flash("attention_values_narrower", {.batch = 2, .heads = 2, .length = 50, .depth = 64, .value_depth = 40});
        flash("attention_values_odd", {.batch = 2, .heads = 3, .length = 20, .depth = 24, .value_depth = 35});
        flash("attention_image", {.batch = 2, .heads = 2, .length = 49, .depth = 32, .value_depth = 64, .image = true});
        flash("attention_image_long", {.heads = 4, .length = 400, .depth = 32, .image = true});
        flash("attention_depth36_packed", {.batch = 3, .heads = 4, .length = 256, .depth = 36, .packed = true});
        flash("attention_depth35_step", {.batch = 2, .heads = 3, .length = 1, .depth = 35, .keys = 200});
        flash("attention_causal", {.batch = 2, .heads = 3, .length = 150, .depth = 64, .packed = true, .causal = true});
        flash("attention_rows_hidden",
              {.batch = 2, .heads = 3, .length = 150, .depth = 64, .packed = true, .mask = Mask::causal});
        flash("attention_rows_grouped", {.batch = 2,
                                         .heads = 4,
                                         .length = 200,
                                         .depth = 32,
                                         .mask = Mask::heads,
                                         .key_heads = 2,
                                         .heads_first = true});
        flash("attention_causal_past", {.heads = 2, .length = 20, .depth = 64, .keys = 90, .causal = true});
        flash("attention_bias", {.batch = 2, .heads = 4, .length = 49, .depth = 32, .mask = Mask::heads});
        flash("attention_windows", {.batch = 6, .heads = 2, .length = 49, .depth = 32, .mask = Mask::windows});
        flash("attention_grouped", {.batch = 2, .heads = 6, .length = 70, .depth = 64, .key_heads = 2, .causal = true});
        // Few keys: 16, 32 or 64 of them in a warp's registers.
        flash("attention_short_tokens", {.batch = 5, .heads = 4, .length = 16, .depth = 6, .packed = true});
        flash("attention_short_narrow", {.batch = 3, .heads = 3, .length = 9, .depth = 16, .packed = true});
        flash("attention_short_pairs", {.heads = 2, .length = 23, .depth = 22, .keys = 30, .value_depth = 14});
        flash("attention_short_wide", {.batch = 2, .heads = 5, .length = 35, .depth = 64, .causal = true});
        flash("attention_short_grouped",
              {.batch = 2, .heads = 6, .length = 64, .depth = 40, .mask = Mask::windows, .key_heads = 2});
        flash("attention_short_empty", {.batch = 2,
                                        .heads = 2,
                                        .length = 40,
                                        .depth = 64,
                                        .keys = 50,
                                        .mask = Mask::empty,
                                        .empty_is_zero = true});
        // Warps that share rows: keys in several rounds, of which the last gives some of them nothing.
        flash("attention_few_heads", {.heads = 4, .length = 200, .depth = 256, .key_heads = 1, .causal = true});
        flash("attention_rounds", {.heads = 2, .length = 37, .depth = 64, .keys = 541, .mask = Mask::heads});
        flash("attention_cross", {.batch = 2, .heads = 4, .length = 256, .depth = 40, .keys = 77});
        flash("attention_empty_rows", {.batch = 2,
                                       .heads = 2,
                                       .length = 40,
                                       .depth = 64,
                                       .keys = 150,
                                       .mask = Mask::empty,
                                       .empty_is_zero = true});
        flash("attention_heads_first", {.batch = 2, .heads = 3, .length = 40, .depth = 64, .heads_first = true});
        flash("attention_step", {.batch = 2, .heads = 3, .length = 1, .depth = 64, .keys = 513, .heads_first = true});
        flash("attention_step_masked",
              {.batch = 2, .heads = 3, .length = 1, .depth = 64, .keys = 300, .mask = Mask::heads});
        flash("attention_step_grouped",
              {.heads = 8, .length = 2, .depth = 128, .keys = 200, .key_heads = 2, .causal = true});
        flash("attention_step_wide", {.heads = 2, .length = 4, .depth = 256, .keys = 90, .causal = true});
        flash("attention_step_few_keys", {.heads = 2, .length = 1, .depth = 40, .keys = 3});
        flash("attention_step_empty",
              {.heads = 2, .length = 7, .depth = 80, .keys = 150, .mask = Mask::empty, .empty_is_zero = true});
    }
    attention("attention_f32_grouped",
              {.heads = 4, .length = 20, .depth = 32, .mask = Mask::heads, .type = T::f32, .key_heads = 2});
    attention("attention_f32_depth40",
              {.heads = 2, .length = 20, .depth = 40, .packed = true, .mask = Mask::random, .type = T::f32});
}

} // namespace lathe::cuda::test
