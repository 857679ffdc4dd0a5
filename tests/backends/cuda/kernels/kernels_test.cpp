// Every op on the GPU: the reference kernels against the interpreter, then every candidate of every provider against
// the reference kernels, over a table of shapes and types. One line a case is printed; LATHE_KERNEL_TIMES=1 adds the
// candidates' times (one buffer, so caches are warm). Skips, with the cause, where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "plans.hpp"

namespace lathe::cuda::test {
namespace {

using T = ElementType;

struct Case {
    std::string name;
    std::function<TestPlan()> make;
    bool interpret = true; ///< false: too much work for plain loops on the CPU
};

// ---- the table ----

struct ConvCase {
    std::string name;
    Shape x; ///< N,C,H,W
    std::int64_t k, r, s, stride;
    std::array<std::int64_t, 4> pads;
    std::int64_t dilation = 1, groups = 1;
    bool interpret = true;
};

enum class Tail { none, bias, bias_relu, residual_relu, residual_s8_relu, clip, silu, gelu, leaky, hard_swish };
const char* name_of(Tail tail) {
    constexpr const char* names[] = {"none", "bias", "biasrelu", "resrelu", "res8relu",
                                     "clip", "silu", "gelu",     "leaky",   "hswish"};
    return names[static_cast<int>(tail)];
}

/// The epilogue of `channels` results y, sums of `terms` products; adds the residual to `inputs`.
Epilogue epilogue_of(PlanBuilder& b, Tail tail, T compute, ValueId y, std::int64_t channels, std::int64_t terms,
                     std::vector<ValueId>& inputs) {
    Epilogue e;
    const Value out = b.plan().values[y];
    const bool to_s8 = out.type == T::s8;
    const float root = std::sqrt(static_cast<float>(terms));
    // deviation of a sum: int8 inputs 32, weights 52
    const float one = compute == T::s8 ? 1.0F / (32 * 52 * root) : 1.0F;
    const float wanted = to_s8 ? 35.0F : 1.0F;
    if (compute == T::s8 || to_s8) e.scale = b.vector(channels, 0.6F * one * wanted, 1.4F * one * wanted);
    if (tail != Tail::none) e.bias = b.vector(channels, -0.5F * wanted, 0.5F * wanted);
    switch (tail) {
        case Tail::bias_relu: e.act = Activation::relu; break;
        case Tail::residual_relu:
        case Tail::residual_s8_relu: {
            const T type = tail == Tail::residual_s8_relu || to_s8 ? T::s8 : out.type;
            e.residual = b.ready(out.dims, type, out.layout);
            e.residual_scale = type == T::s8 ? (to_s8 ? 0.7F : 0.03F) : 1.0F;
            e.act = Activation::relu;
            inputs.push_back(e.residual);
            break;
        }
        case Tail::clip:
            e.act = Activation::clip;
            e.low = 0;
            e.high = wanted;
            break;
        case Tail::silu: e.act = Activation::silu; break;
        case Tail::gelu: e.act = Activation::gelu_erf; break;
        case Tail::leaky:
            e.act = Activation::leaky_relu;
            e.alpha = 0.1F;
            break;
        case Tail::hard_swish: e.act = Activation::hard_swish; break;
        default: break;
    }
    if (to_s8 && e.act != Activation::none && e.act != Activation::relu && e.act != Activation::clip) {
        // as the lowering does for activations that are not positively homogeneous
        e.scale = b.vector(channels, 0.6F * one, 1.4F * one);
        e.bias = b.vector(channels, -0.5F, 0.5F);
        e.output_scale_inverse = 35.0F;
    }
    return e;
}

TestPlan conv_plan(const ConvCase& c, T type, T out, Tail tail, bool tf32) {
    PlanBuilder b;
    const ValueId x = b.image(c.x, type);
    const std::int64_t p = (c.x[2] + c.pads[0] + c.pads[2] - c.dilation * (c.r - 1) - 1) / c.stride + 1;
    const std::int64_t q = (c.x[3] + c.pads[1] + c.pads[3] - c.dilation * (c.s - 1) - 1) / c.stride + 1;
    const ValueId y = b.value({c.x[0], c.k, p, q}, out, Layout::nhwc, 1.0F / 35);
    Conv conv;
    conv.window = {{c.r, c.s}, {c.stride, c.stride}, {c.dilation, c.dilation}, c.pads};
    conv.groups = c.groups;
    const std::int64_t channels = c.x[1] / c.groups, terms = channels * c.r * c.s;
    const std::int64_t padded = c.groups != 1 ? channels : b.plan().values[x].channel_stride;
    conv.weight = b.weight({c.k, c.r, c.s, padded}, type, 1 / std::sqrt(static_cast<float>(terms)), channels);
    std::vector<ValueId> inputs{x};
    conv.epilogue = epilogue_of(b, tail, type, y, c.k, terms, inputs);
    return b.finish(conv, inputs, {y}, type, tf32, c.x[0] * c.k * p * q * terms);
}

TestPlan stem_plan(const Shape& x, std::int64_t k, std::int64_t kernel, T type, T out, bool pooled) {
    PlanBuilder b;
    const ValueId in = b.input(x);
    const std::int64_t pad = kernel / 2;
    std::int64_t p = (x[2] + 2 * pad - kernel) / 2 + 1, q = (x[3] + 2 * pad - kernel) / 2 + 1;
    Conv conv;
    conv.window = {{kernel, kernel}, {2, 2}, {1, 1}, {pad, pad, pad, pad}};
    conv.reads_nchw = true;
    if (pooled) {
        conv.pooled = true;
        conv.pool = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
        p = (p + 2 - 3) / 2 + 1;
        q = (q + 2 - 3) / 2 + 1;
    }
    const ValueId y = b.value({x[0], k, p, q}, out, Layout::nhwc, 1.0F / 35);
    const std::int64_t terms = x[1] * kernel * kernel;
    conv.weight = b.weight({k, kernel, kernel, 4}, type, 1 / std::sqrt(static_cast<float>(terms)), x[1]);
    std::vector<ValueId> inputs{in};
    conv.epilogue = epilogue_of(b, Tail::bias_relu, type, y, k, terms, inputs);
    return b.finish(conv, inputs, {y}, type);
}

TestPlan depthwise_plan(const Shape& x, std::int64_t kernel, std::int64_t stride, T type, Tail tail) {
    PlanBuilder b;
    const ValueId in = b.image(x, type);
    const std::int64_t pad = kernel / 2;
    const std::int64_t p = (x[2] + 2 * pad - kernel) / stride + 1, q = (x[3] + 2 * pad - kernel) / stride + 1;
    const ValueId y = b.value({x[0], x[1], p, q}, type, Layout::nhwc, 1.0F / 35);
    Depthwise d;
    d.window = {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad, pad, pad}};
    const std::int64_t terms = kernel * kernel;
    d.weight = b.weight({kernel, kernel, b.plan().values[in].channel_stride}, type,
                        1 / std::sqrt(static_cast<float>(terms)), x[1]);
    std::vector<ValueId> inputs{in};
    d.epilogue = epilogue_of(b, tail, type, y, x[1], terms, inputs);
    return b.finish(d, inputs, {y}, type);
}

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
                        bool masked, T type) {
    PlanBuilder b;
    std::vector<ValueId> inputs;
    if (packed)
        inputs.push_back(b.ready({batch, length, 3, heads, depth}, type));
    else
        for (int i = 0; i < 3; ++i)
            inputs.push_back(b.ready({batch, length, heads, depth}, type));
    if (masked) inputs.push_back(b.ready({batch, 1, 1, length}, type));
    const ValueId y = b.value({batch, length, heads * depth}, type);
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

TestPlan pool_plan(const Shape& x, T type, bool average, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                   bool count_pad) {
    PlanBuilder b;
    const ValueId in = b.image(x, type);
    const std::int64_t p = (x[2] + 2 * pad - kernel) / stride + 1, q = (x[3] + 2 * pad - kernel) / stride + 1;
    const ValueId y = b.value({x[0], x[1], p, q}, type, Layout::nhwc, 1.0F / 32);
    Pool pool;
    pool.window = {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad, pad, pad}};
    pool.average = average;
    pool.count_pad = count_pad;
    return b.finish(pool, {in}, {y}, type);
}

TestPlan global_pool_plan(const Shape& x, T type, T out) {
    PlanBuilder b;
    const ValueId in = b.image(x, type);
    const ValueId y = b.value({x[0], x[1], 1, 1}, out, Layout::nhwc, 1.0F / 128);
    GlobalPool pool;
    pool.rescale = type == T::s8 ? (out == T::s8 ? 4.0F : 1.0F / 32) : 1.0F;
    return b.finish(pool, {in}, {y}, type);
}

TestPlan softmax_plan(std::int64_t rows, std::int64_t columns, T type, bool log) {
    PlanBuilder b;
    const ValueId x = b.ready({rows, columns}, type);
    const ValueId y = b.value({rows, columns}, type);
    return b.finish(Softmax{rows, columns, log}, {x}, {y}, type);
}

TestPlan layer_norm_plan(std::int64_t rows, std::int64_t columns, T type, bool residual, bool quantized, bool sum) {
    PlanBuilder b;
    std::vector<ValueId> inputs{b.ready({rows, columns}, type)}, outputs{b.value({rows, columns}, type)};
    if (residual) inputs.push_back(b.ready({rows, columns}, type));
    if (quantized) outputs.push_back(b.value({rows, columns}, T::s8, Layout::linear, 1.0F / 30));
    if (sum) outputs.push_back(b.value({rows, columns}, type));
    LayerNorm n;
    n.rows = rows;
    n.columns = columns;
    n.gamma = b.vector(columns, 0.5F, 1.5F);
    n.beta = b.vector(columns, -0.5F, 0.5F);
    n.residual = residual;
    n.quantized_output = quantized;
    n.sum_output = sum;
    return b.finish(n, inputs, outputs, type);
}

TestPlan reduce_plan(ReduceKind kind) {
    PlanBuilder b;
    const ValueId x = b.ready({3, 50, 7}, T::f32);
    const ValueId y = b.value({3, 7}, T::f32);
    return b.finish(Reduce{kind, 3, 50, 7}, {x}, {y}, T::f32);
}

TestPlan gather_plan(std::int64_t inner, T type, int tables) {
    PlanBuilder b;
    Gather g;
    std::vector<ValueId> inputs;
    for (int t = 0; t < tables; ++t) {
        inputs.push_back(b.input({2, 16}, T::s64)); // the runner keeps indices below 20
        g.tables.push_back(b.weight({20, inner}, type, 1));
    }
    const ValueId y = b.value({2, 16, inner}, type);
    return b.finish(g, inputs, {y}, type);
}

TestPlan concat_plan(T type, Layout layout, std::int64_t axis) {
    PlanBuilder b;
    const Shape first{2, 24, 6, 5};
    Shape second = first, out = first;
    second[static_cast<std::size_t>(axis)] = 10;
    out[static_cast<std::size_t>(axis)] += 10;
    const ValueId x = b.ready(first, type, layout), z = b.ready(second, type, layout);
    const ValueId y = b.value(out, type, layout, 1.0F / 32);
    return b.finish(Concat{axis}, {x, z}, {y}, type);
}

TestPlan slice_plan() {
    PlanBuilder b;
    const ValueId x = b.ready({2, 12, 9, 8}, T::f16);
    const ValueId y = b.value({2, 5, 9, 3}, T::f16);
    return b.finish(Slice{{0, 2, 0, 1}, {1, 2, 1, 3}}, {x}, {y}, T::f16);
}

TestPlan transpose_plan(const Shape& x, std::vector<std::int64_t> order, T type) {
    PlanBuilder b;
    Shape out;
    for (const std::int64_t d : order)
        out.push_back(x[static_cast<std::size_t>(d)]);
    const ValueId in = b.ready(x, type);
    const ValueId y = b.value(out, type);
    return b.finish(Transpose{std::move(order)}, {in}, {y}, type);
}

TestPlan resize_plan(ResizeMode mode, const std::string& coordinates, T type) {
    PlanBuilder b;
    const ValueId x = b.image({1, 24, 7, 9}, type);
    const ValueId y = b.value({1, 24, 14, 18}, type, Layout::nhwc, 1.0F / 32);
    Resize r;
    r.mode = mode;
    r.coordinates = coordinates;
    r.nearest = coordinates == "asymmetric" ? "floor" : "round_prefer_floor";
    r.scales = {1, 1, 2, 2};
    return b.finish(r, {x}, {y}, type);
}

TestPlan reformat_plan(const Shape& dims, T from, Layout from_layout, T to, Layout to_layout) {
    PlanBuilder b;
    const ValueId x = b.ready(dims, from, from_layout);
    const ValueId y = b.value(dims, to, to_layout, 1.0F / 40);
    return b.finish(Reformat{}, {x}, {y}, to);
}

/// (a + b) * sigmoid(c) clipped, c of the given shape.
TestPlan pointwise_plan(const Shape& out, const Shape& other, T type, Layout layout) {
    PlanBuilder b;
    const ValueId x = b.ready(out, type, layout), z = b.ready(out, type, layout);
    const ValueId c =
        other.size() == out.size() && layout == Layout::nhwc ? b.ready(other, type, layout) : b.ready(other, type);
    const ValueId y = b.value(out, type, layout, 1.0F / 32);
    Pointwise p;
    p.code = {{PointOp::input, 0, 0, 0, 0, 0},   {PointOp::input, 1, 0, 0, 0, 0},   {PointOp::add, 0, 1, 0, 0, 0},
              {PointOp::input, 2, 0, 0, 0, 0},   {PointOp::sigmoid, 3, 0, 0, 0, 0}, {PointOp::mul, 2, 4, 0, 0, 0},
              {PointOp::clip, 5, 0, 0, -2, 1.5F}};
    p.results = {6};
    return b.finish(p, {x, z, c}, {y}, type);
}

std::string type_name(T type) { return to_string(type); }

std::vector<Case> table() {
    std::vector<Case> cases;
    const auto add = [&](std::string name, std::function<TestPlan()> make, bool interpret = true) {
        std::ranges::replace_if(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
        cases.push_back({std::move(name), std::move(make), interpret});
    };
    const std::vector<ConvCase> convs{
        {"c1x1", {2, 64, 14, 14}, 256, 1, 1, 1, {0, 0, 0, 0}},
        {"c3x3", {2, 64, 14, 14}, 64, 3, 3, 1, {1, 1, 1, 1}},
        {"c3x3s2", {1, 128, 15, 13}, 128, 3, 3, 2, {1, 1, 1, 1}},
        {"c1x1s2", {2, 256, 14, 14}, 96, 1, 1, 2, {0, 0, 0, 0}},
        {"odd", {1, 24, 11, 9}, 37, 3, 3, 1, {1, 1, 1, 1}},
        {"dil2", {1, 32, 17, 12}, 48, 3, 3, 1, {2, 2, 2, 2}, 2},
        {"r1s7", {1, 48, 9, 16}, 64, 1, 7, 1, {0, 3, 0, 3}},
        {"asym", {1, 32, 12, 12}, 32, 3, 3, 2, {0, 0, 1, 1}},
        {"deep", {1, 512, 7, 7}, 512, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"wide56", {4, 64, 56, 56}, 256, 1, 1, 1, {0, 0, 0, 0}, 1, 1, false},
        {"c3pad", {1, 3, 20, 20}, 32, 3, 3, 2, {1, 1, 1, 1}},
        {"few16", {2, 16, 9, 11}, 96, 1, 1, 1, {0, 0, 0, 0}},
        {"few40", {1, 40, 12, 10}, 24, 1, 1, 1, {0, 0, 0, 0}},
        {"few144", {3, 144, 5, 7}, 77, 1, 1, 1, {0, 0, 0, 0}},
    };
    struct Types {
        std::string name;
        T type, out;
        bool tf32;
    };
    const std::vector<Types> types{{"f16", T::f16, T::f16, false},
                                   {"s8", T::s8, T::s8, false},
                                   {"bf16", T::bf16, T::bf16, false},
                                   {"f32", T::f32, T::f32, false},
                                   {"tf32", T::f32, T::f32, true}};
    for (const Types& t : types)
        for (const ConvCase& c : convs)
            for (const Tail tail : {Tail::bias_relu, Tail::residual_relu}) {
                if (tail == Tail::residual_relu && c.name != "c1x1" && c.name != "odd" && c.name != "deep" &&
                    c.name != "wide56" && c.name != "few40" && c.name != "few144")
                    continue;
                add(
                    "conv_" + t.name + "_" + c.name + "_" + name_of(tail),
                    [=] { return conv_plan(c, t.type, t.out, tail, t.tf32); }, c.interpret);
            }
    for (const Tail tail : {Tail::none, Tail::bias, Tail::clip, Tail::silu, Tail::gelu, Tail::leaky, Tail::hard_swish})
        for (const Types& t : {types[0], types[1]})
            add("conv_" + t.name + "_c3x3_" + name_of(tail),
                [=, c = convs[1]] { return conv_plan(c, t.type, t.out, tail, false); });
    for (const Tail tail : {Tail::bias_relu, Tail::residual_relu, Tail::residual_s8_relu}) {
        add(std::string("conv_s8f16_c1x1_") + name_of(tail),
            [=, c = convs[0]] { return conv_plan(c, T::s8, T::f16, tail, false); });
        add(std::string("conv_f16s8_c1x1_") + name_of(tail),
            [=, c = convs[0]] { return conv_plan(c, T::f16, T::s8, tail, false); });
        add(std::string("conv_s8f16_odd_") + name_of(tail),
            [=, c = convs[4]] { return conv_plan(c, T::s8, T::f16, tail, false); });
    }
    add("conv_f16_grouped", [] {
        return conv_plan({"", {1, 64, 10, 10}, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 4}, T::f16, T::f16, Tail::bias_relu,
                         false);
    });

    for (const bool pooled : {false, true})
        for (const T out : {T::f16, T::s8}) {
            const std::string end = std::string(pooled ? "_pooled_" : "_") + type_name(out);
            add("stem7x7_64" + end, [=] { return stem_plan({1, 3, 64, 64}, 64, 7, T::f16, out, pooled); });
            add("stem7x7_odd" + end, [=] { return stem_plan({2, 3, 77, 51}, 32, 7, T::f16, out, pooled); });
            add(
                "stem7x7_224" + end,
                [=] {
                    return stem_plan({2, 3, 224, 224}, 64, 7, T::f16, out, pooled);
                },
                false);
            add("stem3x3" + end, [=] { return stem_plan({1, 3, 40, 60}, 48, 3, T::f16, out, pooled); });
            add("stem3x3_k24" + end, [=] { return stem_plan({2, 3, 33, 46}, 24, 3, T::f16, out, pooled); });
        }
    for (const T type : {T::f16, T::s8})
        for (const std::int64_t kernel : {3, 5})
            for (const std::int64_t stride : {1, 2}) {
                const std::string name =
                    "depthwise_" + type_name(type) + "_k" + std::to_string(kernel) + "s" + std::to_string(stride);
                add(name, [=] { return depthwise_plan({2, 40, 13, 11}, kernel, stride, type, Tail::clip); });
                add(name + "_high", [=] { return depthwise_plan({1, 24, 45, 6}, kernel, stride, type, Tail::none); });
            }
    for (const T type : {T::f16, T::s8}) {
        add("depthwise_" + type_name(type) + "_relu", [=] {
            return depthwise_plan({1, 96, 7, 7}, 3, 1, type, Tail::bias_relu);
        });
        add("depthwise_" + type_name(type) + "_residual", [=] {
            return depthwise_plan({1, 32, 9, 10}, 3, 1, type, Tail::residual_relu);
        });
    }
    add("depthwise_fp16_silu", [] { return depthwise_plan({1, 32, 9, 9}, 3, 1, T::f16, Tail::silu); });

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
    add("gemm_s8f16_residual", [] { return gemm_plan(128, 256, 64, T::s8, T::f16, Tail::residual_relu, false); });

    for (const T type : {T::f16, T::f32}) {
        const std::string end = "_" + type_name(type);
        add("batched_nn" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 16, 24}, false, false, type); });
        add("batched_nt" + end, [=] { return batched_plan({2, 3, 20, 16}, {2, 3, 24, 16}, false, true, type); });
        add("batched_tn" + end, [=] { return batched_plan({4, 16, 20}, {1, 16, 24}, true, false, type); });
    }
    add("attention_packed", [] { return attention_plan(2, 3, 48, 64, true, true, T::f16); });
    add("attention_apart", [] { return attention_plan(1, 4, 33, 32, false, false, T::f16); });
    add("attention_f32", [] { return attention_plan(1, 2, 20, 40, true, true, T::f32); });

    for (const T type : {T::f32, T::f16, T::bf16, T::s8}) {
        const std::string end = "_" + type_name(type);
        add("maxpool3s2" + end, [=] { return pool_plan({2, 64, 17, 15}, type, false, 3, 2, 1, false); });
        add("avgpool2s2" + end, [=] { return pool_plan({2, 40, 12, 10}, type, true, 2, 2, 0, false); });
        add("avgpool3pad" + end, [=] { return pool_plan({1, 32, 9, 9}, type, true, 3, 1, 1, true); });
        add("global" + end, [=] { return global_pool_plan({3, 72, 7, 7}, type, type); });
    }
    add("maxpool5", [] { return pool_plan({1, 32, 13, 13}, T::f16, false, 5, 1, 2, false); });
    add("global_s8f16", [] { return global_pool_plan({2, 2048, 7, 7}, T::s8, T::f16); });

    for (const T type : {T::f32, T::f16}) {
        const std::string end = "_" + type_name(type);
        add("softmax" + end, [=] { return softmax_plan(37, 128, type, false); });
        add("softmax_1000" + end, [=] { return softmax_plan(5, 1000, type, false); });
        add("softmax_odd" + end, [=] { return softmax_plan(5, 999, type, false); });
        add("softmax_long" + end, [=] { return softmax_plan(3, 3000, type, false); });
        add("layernorm" + end, [=] { return layer_norm_plan(33, 384, type, true, false, false); });
        add("layernorm_768" + end, [=] { return layer_norm_plan(17, 768, type, true, true, true); });
        add("layernorm_long" + end, [=] { return layer_norm_plan(5, 3072, type, false, true, false); });
    }
    add("log_softmax", [] { return softmax_plan(7, 100, T::f32, true); });
    add("log_softmax_1000", [] { return softmax_plan(3, 1000, T::f16, true); });
    for (int kind = 0; kind < 6; ++kind)
        add("reduce" + std::to_string(kind), [=] { return reduce_plan(static_cast<ReduceKind>(kind)); });
    add("gather1", [] { return gather_plan(768, T::f16, 1); });
    add("gather3", [] { return gather_plan(384, T::f32, 3); });
    add("gather_odd", [] { return gather_plan(13, T::f16, 2); });
    add("concat_f16", [] { return concat_plan(T::f16, Layout::nhwc, 1); });
    add("concat_s8", [] { return concat_plan(T::s8, Layout::nhwc, 1); });
    add("concat_linear", [] { return concat_plan(T::f32, Layout::linear, 2); });
    add("slice", [] { return slice_plan(); });
    add("transpose_last", [] { return transpose_plan({3, 40, 70}, {0, 2, 1}, T::f16); });
    add("transpose_0213", [] { return transpose_plan({2, 5, 6, 16}, {0, 2, 1, 3}, T::f16); });
    add("resize_nearest", [] { return resize_plan(ResizeMode::nearest, "asymmetric", T::f16); });
    add("resize_linear", [] { return resize_plan(ResizeMode::linear, "half_pixel", T::f16); });
    add("resize_cubic", [] { return resize_plan(ResizeMode::cubic, "half_pixel", T::f32); });
    for (const T to : {T::f16, T::s8, T::f32}) {
        add("reformat_in_" + type_name(to), [=] {
            return reformat_plan({2, 35, 9, 11}, T::f32, Layout::linear, to, Layout::nhwc);
        });
        add("reformat_out_" + type_name(to), [=] {
            return reformat_plan({2, 35, 9, 11}, to, Layout::nhwc, T::f32, Layout::linear);
        });
        add("convert_" + type_name(to), [=] {
            return reformat_plan({2, 35, 9, 11}, T::f16, Layout::linear, to, Layout::linear);
        });
    }
    add("quantize_nhwc", [] { return reformat_plan({2, 64, 9, 11}, T::f16, Layout::nhwc, T::s8, Layout::nhwc); });
    for (const T type : {T::f32, T::f16, T::s8}) {
        const std::string end = "_" + type_name(type);
        add("pointwise_same" + end, [=] { return pointwise_plan({2, 32, 7, 9}, {2, 32, 7, 9}, type, Layout::nhwc); });
        add("pointwise_se" + end, [=] { return pointwise_plan({2, 32, 7, 9}, {2, 32, 1, 1}, type, Layout::nhwc); });
        add("pointwise_bias" + end, [=] { return pointwise_plan({2, 7, 48}, {48}, type, Layout::linear); });
        add("pointwise_rows" + end, [=] { return pointwise_plan({2, 7, 48}, {2, 7, 1}, type, Layout::linear); });
        add("pointwise_scalar" + end, [=] { return pointwise_plan({3, 5, 7}, {1}, type, Layout::linear); });
        add("pointwise_mid" + end, [=] { return pointwise_plan({3, 5, 7}, {5, 1}, type, Layout::linear); });
        add("pointwise_odd" + end, [=] { return pointwise_plan({2, 20, 7, 9}, {1, 20, 1, 1}, type, Layout::nhwc); });
    }
    return cases;
}

// ---- the runner ----

Result<DeviceMemory> upload(std::span<const std::byte> bytes) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(std::max<std::size_t>(bytes.size(), 16), "a test"));
    LATHE_CUDA(cudaMemcpy(memory.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying");
    return memory;
}

struct Comparison {
    double error = 0; ///< relative; int8: share of values off by one
    bool bad = false; ///< NaN, unwritten, int8 off by more than one, padding not zero
    std::string what;
};

float number(const std::byte* data, T type, std::size_t i) {
    switch (type) {
        case T::f32: {
            float v = 0;
            std::memcpy(&v, data + i * 4, 4);
            return v;
        }
        case T::f16:
        case T::bf16: {
            std::uint16_t bits = 0;
            std::memcpy(&bits, data + i * 2, 2);
            return type == T::f16 ? float_from_half(bits) : float_from_bfloat16(bits);
        }
        case T::s8: return static_cast<float>(static_cast<std::int8_t>(data[i]));
        default: return 0;
    }
}

Comparison compare(const Value& v, const std::vector<std::byte>& reference, const std::vector<std::byte>& candidate) {
    Comparison result;
    double difference = 0, size = 0;
    std::size_t off = 0, count = 0;
    const std::size_t all = reference.size() / bytes_of(v.type);
    for (std::size_t i = 0; i < all; ++i) {
        const float a = number(reference.data(), v.type, i), b = number(candidate.data(), v.type, i);
        const bool padding = v.layout == Layout::nhwc && static_cast<std::int64_t>(i) % v.channel_stride >= v.dims[1];
        if (padding) {
            if (!std::isfinite(b)) {
                result.bad = true;
                result.what = "padding is not finite";
            }
            continue;
        }
        ++count;
        if (!std::isfinite(b) || !std::isfinite(a)) {
            result.bad = true;
            result.what = "not finite at " + std::to_string(i);
            continue;
        }
        if (v.type == T::s8) {
            const float d = std::abs(a - b);
            if (d > 1) {
                result.bad = true;
                result.what = std::to_string(a) + " became " + std::to_string(b) + " at " + std::to_string(i);
            }
            if (d > 0) ++off;
        } else {
            difference += static_cast<double>(a - b) * static_cast<double>(a - b);
            size += static_cast<double>(a) * static_cast<double>(a);
        }
    }
    result.error = v.type == T::s8 ? static_cast<double>(off) / static_cast<double>(std::max<std::size_t>(count, 1))
                                   : std::sqrt(difference / std::max(size, 1e-30));
    return result;
}

double tolerance(const FusedOp& op, const Value& out) {
    if (out.type == T::s8) return 0.01;
    double t = out.type == T::bf16 ? 2e-2 : out.type == T::f16 ? 3e-3 : 1e-5;
    if (op.tf32) t = std::max(t, 2e-3);
    return t;
}

class Runner {
public:
    static Result<std::unique_ptr<Runner>> make(const TestPlan& test, const Device& device) {
        auto runner = std::unique_ptr<Runner>(new Runner(test, device));
        const Plan& plan = test.plan;
        for (const Weight& w : plan.weights->weights) {
            LATHE_TRY(DeviceMemory memory, upload(w.bytes));
            runner->weight_pointers_.push_back(memory.data());
            runner->memory_.push_back(std::move(memory));
        }
        for (const Value& v : plan.values) {
            // room behind each value shows writes beyond it
            LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(v.byte_size() + 256, "a test value"));
            LATHE_CUDA(cudaMemset(memory.data(), 0xFF, memory.size()), "poisoning");
            runner->pointers_.push_back(memory.data());
            runner->memory_.push_back(std::move(memory));
        }
        LATHE_TRY(runner->workspace_, DeviceMemory::allocate(std::size_t{64} << 20, "a test's workspace"));
        LATHE_CUDA(cudaStreamCreateWithFlags(&runner->stream_, cudaStreamNonBlocking), "a stream");
        std::mt19937 random(7);
        for (const ValueId id : plan.inputs) {
            const Value& v = plan.values[id];
            HostTensor tensor(v.name, v.type == T::s64 ? DataType::int64 : DataType::float32, v.dims);
            if (v.type == T::s64) {
                std::uniform_int_distribution<std::int64_t> index(0, 19);
                for (std::int64_t& i : tensor.as<std::int64_t>())
                    i = index(random);
            } else {
                std::normal_distribution<float> normal;
                for (float& f : tensor.as<float>())
                    f = normal(random);
            }
            LATHE_CUDA(
                cudaMemcpy(runner->pointers_[id], tensor.bytes.data(), tensor.bytes.size(), cudaMemcpyHostToDevice),
                "copying an input");
            runner->inputs_.push_back(std::move(tensor));
        }
        return runner;
    }
    ~Runner() {
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
    }

    /// All ops by the reference; keeps what the op under test wrote.
    Result<void> reference() {
        const auto provider = make_reference_provider();
        for (std::size_t i = 0; i < test_.plan.ops.size(); ++i) {
            LATHE_TRY(const auto prepared, provider->prepare("general", test_.plan.ops[i], test_.plan, device_));
            LATHE_CHECK(launch(*prepared));
        }
        LATHE_TRY(reference_, outputs());
        return {};
    }
    /// The model's outputs after `reference`.
    Result<std::vector<std::vector<std::byte>>> results() { return download(test_.plan.outputs); }

    /// The op under test by a candidate, on poisoned outputs; times it if asked to.
    Result<std::vector<Comparison>> candidate(const Provider& provider, const std::string& id, double* microseconds) {
        const FusedOp& op = test_.plan.ops[test_.main];
        LATHE_TRY(const auto prepared, provider.prepare(id, op, test_.plan, device_));
        if (prepared->workspace_bytes() > workspace_.size())
            return Error{ErrorCode::unsupported, "needs more workspace", "", ""};
        for (const ValueId output : op.outputs)
            LATHE_CUDA(cudaMemsetAsync(pointers_[output], 0xFF, test_.plan.values[output].byte_size(), stream_),
                       "poison");
        LATHE_CUDA(cudaMemsetAsync(workspace_.data(), 0xFF, workspace_.size(), stream_), "poison");
        LATHE_CHECK(launch(*prepared));
        LATHE_TRY(const auto found, outputs());
        std::vector<Comparison> comparisons;
        for (std::size_t o = 0; o < op.outputs.size(); ++o)
            comparisons.push_back(compare(test_.plan.values[op.outputs[o]], reference_[o], found[o]));
        if (microseconds != nullptr) {
            LATHE_TRY(*microseconds, time(*prepared));
        }
        return comparisons;
    }
    const std::vector<HostTensor>& inputs() const { return inputs_; }

private:
    Runner(const TestPlan& test, const Device& device) : test_(test), device_(device) {}

    Pointers pointers() { return {pointers_, weight_pointers_, workspace_.data()}; }
    Result<void> launch(const PreparedKernel& prepared) {
        LATHE_TRY(const auto bound, prepared.bind(pointers()));
        LATHE_CHECK(bound->launch(stream_, false));
        LATHE_CUDA(cudaStreamSynchronize(stream_), "running a kernel");
        LATHE_CUDA(cudaGetLastError(), "running a kernel");
        return {};
    }
    Result<double> time(const PreparedKernel& prepared) {
        LATHE_TRY(const auto bound, prepared.bind(pointers()));
        cudaEvent_t events[2];
        for (cudaEvent_t& event : events)
            LATHE_CUDA(cudaEventCreate(&event), "an event");
        constexpr int runs = 20;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        LATHE_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
        for (int i = 0; i < runs; ++i)
            LATHE_CHECK(bound->launch(stream_, prepared.waits() && i > 0));
        LATHE_CUDA(cudaStreamEndCapture(stream_, &graph), "capturing");
        LATHE_CUDA(cudaGraphInstantiate(&executable, graph, 0), "a graph");
        double best = std::numeric_limits<double>::infinity();
        for (int repeat = 0; repeat < 3; ++repeat) {
            LATHE_CUDA(cudaEventRecord(events[0], stream_), "timing");
            LATHE_CUDA(cudaGraphLaunch(executable, stream_), "timing");
            LATHE_CUDA(cudaEventRecord(events[1], stream_), "timing");
            LATHE_CUDA(cudaEventSynchronize(events[1]), "timing");
            float milliseconds = 0;
            LATHE_CUDA(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "timing");
            best = std::min(best, static_cast<double>(milliseconds) * 1000 / runs);
        }
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
        for (const cudaEvent_t event : events)
            cudaEventDestroy(event);
        return best;
    }
    Result<std::vector<std::vector<std::byte>>> download(const std::vector<ValueId>& ids) {
        std::vector<std::vector<std::byte>> all;
        for (const ValueId id : ids) {
            const std::size_t size = test_.plan.values[id].byte_size();
            std::vector<std::byte> bytes(size + 256);
            LATHE_CUDA(cudaMemcpy(bytes.data(), pointers_[id], bytes.size(), cudaMemcpyDeviceToHost), "copying back");
            for (std::size_t i = size; i < bytes.size(); ++i)
                if (bytes[i] != std::byte{0xFF})
                    return Error{ErrorCode::verification_failed, "a kernel wrote behind the end of its result", "", ""};
            bytes.resize(size);
            all.push_back(std::move(bytes));
        }
        return all;
    }
    Result<std::vector<std::vector<std::byte>>> outputs() { return download(test_.plan.ops[test_.main].outputs); }

    const TestPlan& test_;
    const Device& device_;
    std::vector<DeviceMemory> memory_;
    std::vector<void*> pointers_;
    std::vector<const void*> weight_pointers_;
    DeviceMemory workspace_;
    cudaStream_t stream_ = nullptr;
    std::vector<HostTensor> inputs_;
    std::vector<std::vector<std::byte>> reference_;
};

class CudaKernels : public ::testing::TestWithParam<Case> {};

/// Needs no GPU: the table's plans obey the plan's rules, the reference takes every op, own kernels name their
/// candidates and prepare each of them.
TEST(CudaKernelPlans, AreValidAndHaveCandidates) {
    Device device;
    device.sm = 90;
    device.multiprocessors = 132;
    const auto reference = make_reference_provider(), own = make_own_provider();
    for (const Case& c : table()) {
        const TestPlan test = c.make();
        const auto valid = verify(test.plan);
        EXPECT_TRUE(valid) << c.name << ": " << (valid ? "" : valid.error().describe());
        for (const FusedOp& op : test.plan.ops) {
            std::string why;
            EXPECT_FALSE(reference->candidates(op, test.plan, device, Effort::fast, why).empty())
                << c.name << ": " << why;
            why.clear();
            const auto ids = own->candidates(op, test.plan, device, Effort::full, why);
            EXPECT_TRUE(!ids.empty() || !why.empty()) << c.name << ": refused without a reason";
            for (const std::string& id : ids) {
                const auto prepared = own->prepare(id, op, test.plan, device);
                EXPECT_TRUE(prepared) << c.name << ": " << (prepared ? "" : prepared.error().describe());
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
        for (const ValueId id : test.plan.inputs) {
            const Value& v = test.plan.values[id];
            tensors.emplace_back(v.name, v.type == T::s64 ? DataType::int64 : DataType::float32, v.dims);
            if (v.type == T::s64) {
                for (std::int64_t& i : tensors.back().as<std::int64_t>())
                    i = 3;
            } else {
                for (float& f : tensors.back().as<float>())
                    f = 0.5F;
            }
        }
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
    const TestPlan test = table().front().make();
    const FusedOp& op = test.plan.ops[test.main];
    for (const auto& provider : {make_reference_provider(), make_own_provider()}) {
        const auto prepared = provider->prepare("no_such_kernel", op, test.plan, device);
        ASSERT_FALSE(prepared);
        EXPECT_EQ(prepared.error().code, ErrorCode::mismatch);
    }
}

TEST_P(CudaKernels, AgreeWithReferenceAndInterpreter) {
    int devices = 0;
    if (const cudaError_t code = cudaGetDeviceCount(&devices); code != cudaSuccess || devices == 0)
        GTEST_SKIP() << "no GPU answers: " << cudaGetErrorString(code);
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
    for (const auto& provider : providers()) {
        const bool ours = provider->name().starts_with("lathe");
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
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

INSTANTIATE_TEST_SUITE_P(Table, CudaKernels, ::testing::ValuesIn(table()),
                         [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

} // namespace
} // namespace lathe::cuda::test
