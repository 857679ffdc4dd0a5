// Convolutions of the kernel tests: epilogues, plain and grouped convolutions, stems, depthwise ones.
#include <array>
#include <cmath>

#include "cases.hpp"

namespace lathe::cuda::test {

using T = ElementType;

std::string_view name_of(Tail tail) {
    constexpr std::string_view names[] = {"none",     "bias",    "biasrelu", "res",     "resrelu",
                                          "res8relu", "clip",    "silu",     "gelu",    "leaky",
                                          "hswish",   "sigmoid", "hsigmoid", "silures", "relures"};
    return names[static_cast<int>(tail)];
}

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
        case Tail::residual:
        case Tail::residual_relu:
        case Tail::residual_s8_relu: {
            const T type = tail == Tail::residual_s8_relu || to_s8 ? T::s8 : out.type;
            e.residual = b.ready(out.dims, type, out.layout);
            e.residual_scale = type == T::s8 ? (to_s8 ? 0.7F : 0.03F) : 1.0F;
            if (tail != Tail::residual) e.act = Activation::relu;
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
        case Tail::sigmoid: e.act = Activation::sigmoid; break;
        case Tail::hard_sigmoid:
            e.act = Activation::hard_sigmoid;
            e.alpha = 1.0F / 6.0F;
            e.high = 0.5F;
            break;
        case Tail::silu_residual:
        case Tail::relu_residual: {
            const T type = to_s8 ? T::s8 : out.type;
            // as far from pixel to pixel as the result's
            e.residual = out.part
                             ? b.part_of(b.image(b.plan().values[out.alias_of].dims, type), out.alias_from, out.dims[1])
                             : b.ready(out.dims, type, out.layout);
            e.residual_last = true;
            e.act = tail == Tail::silu_residual ? Activation::silu : Activation::relu;
            // behind a relu of 0 it is the whole result, which no factor but an odd one keeps off halves
            e.residual_scale = !to_s8 ? 1.0F : tail == Tail::silu_residual ? 0.02F : 0.6789F;
            inputs.push_back(e.residual);
            break;
        }
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

namespace {

struct ConvCase {
    std::string name;
    Shape x; ///< N,C,H,W
    std::int64_t k, r, s, stride;
    std::array<std::int64_t, 4> pads;
    std::int64_t dilation = 1, groups = 1;
    bool interpret = true;
};

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

/// The same from some channels of an image to some of another one.
TestPlan parted_plan(const ConvCase& c, T type, T out, Tail tail, bool tf32) {
    PlanBuilder b;
    const std::int64_t step = static_cast<std::int64_t>(16 / bytes_of(type)), before = step;
    const std::int64_t out_step = static_cast<std::int64_t>(16 / bytes_of(out));
    Shape whole = c.x;
    whole[1] += before + 2 * step;
    const ValueId x = b.part_of(b.image(whole, type), before, c.x[1]);
    const std::int64_t p = (c.x[2] + c.pads[0] + c.pads[2] - c.r) / c.stride + 1;
    const std::int64_t q = (c.x[3] + c.pads[1] + c.pads[3] - c.s) / c.stride + 1;
    const ValueId y =
        b.part_of(b.value({c.x[0], c.k + 3 * out_step, p, q}, out, Layout::nhwc, 1.0F / 35), 2 * out_step, c.k);
    Conv conv;
    conv.window = {{c.r, c.s}, {c.stride, c.stride}, {1, 1}, c.pads};
    const std::int64_t terms = c.x[1] * c.r * c.s;
    conv.weight = b.weight({c.k, c.r, c.s, c.x[1]}, type, 1 / std::sqrt(static_cast<float>(terms)), c.x[1]);
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

TestPlan depthwise_plan(const Shape& x, std::int64_t kernel, std::int64_t stride, T type, Tail tail,
                        std::int32_t zero_point = 0) {
    PlanBuilder b;
    ValueId in = b.image(x, type);
    if (zero_point != 0) { // the same bytes, read as other numbers
        const ValueId bytes = in;
        in = b.value(x, type, Layout::nhwc, b.plan().values[bytes].scale);
        b.plan().values[in].alias_of = bytes;
        b.plan().values[in].zero_point = zero_point;
    }
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

/// The same from some channels of an image to some of another one.
TestPlan parted_depthwise_plan(std::int64_t channels, std::int64_t kernel, std::int64_t stride, T type, Tail tail) {
    PlanBuilder b;
    const std::int64_t step = static_cast<std::int64_t>(16 / bytes_of(type)), rows = 13, columns = 11;
    const ValueId x = b.part_of(b.image({2, channels + 3 * step, rows, columns}, type), step, channels);
    const std::int64_t pad = kernel / 2;
    const std::int64_t p = (rows + 2 * pad - kernel) / stride + 1, q = (columns + 2 * pad - kernel) / stride + 1;
    const ValueId y =
        b.part_of(b.value({2, channels + 3 * step, p, q}, type, Layout::nhwc, 1.0F / 35), 2 * step, channels);
    Depthwise d;
    d.window = {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad, pad, pad}};
    const std::int64_t terms = kernel * kernel;
    d.weight = b.weight({kernel, kernel, channels}, type, 1 / std::sqrt(static_cast<float>(terms)), channels);
    std::vector<ValueId> inputs{x};
    d.epilogue = epilogue_of(b, tail, type, y, channels, terms, inputs);
    return b.finish(d, inputs, {y}, type);
}

/// Of volumes: images of a sample one behind the other.
TestPlan deep_depthwise_plan(std::int64_t depths, std::int64_t kernel, std::int64_t stride, std::int64_t deep_stride,
                             T type, Tail tail) {
    PlanBuilder b;
    const std::int64_t channels = 24, rows = 13, columns = 11, samples = 2, pad = kernel / 2;
    const ValueId x = b.image({samples * depths, channels, rows, columns}, type);
    const std::int64_t p = (rows + 2 * pad - kernel) / stride + 1, q = (columns + 2 * pad - kernel) / stride + 1;
    Depthwise d;
    d.window = {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad, pad, pad}};
    d.depths = {3, deep_stride, 1, 1, depths, (depths - 1) / deep_stride + 1};
    const ValueId y = b.value({samples * d.depths.out, channels, p, q}, type, Layout::nhwc, 1.0F / 35);
    const std::int64_t terms = 3 * kernel * kernel;
    d.weight = b.weight({3 * kernel, kernel, b.plan().values[x].channel_stride}, type,
                        1 / std::sqrt(static_cast<float>(terms)), channels);
    std::vector<ValueId> inputs{x};
    d.epilogue = epilogue_of(b, tail, type, y, channels, terms, inputs);
    return b.finish(d, inputs, {y}, type);
}

} // namespace

void add_convolution_cases(Cases& add) {
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
        // several tiles in turn for each block of the kernels that stay resident
        {"expand28", {32, 128, 28, 28}, 512, 1, 1, 1, {0, 0, 0, 0}, 1, 1, false},
        {"window28", {32, 128, 28, 28}, 128, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"window56", {9, 64, 56, 56}, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"window40", {1, 48, 37, 40}, 128, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"window14", {8, 256, 14, 14}, 256, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"window14s2", {9, 192, 27, 28}, 128, 3, 3, 2, {1, 1, 1, 1}, 1, 1, false},
        {"window5", {6, 64, 19, 11}, 64, 5, 5, 1, {2, 2, 2, 2}, 1, 1, false},
    };
    const std::vector<Types>& types = product_types();
    for (const Types& t : types)
        for (const ConvCase& c : convs)
            for (const Tail tail : {Tail::bias_relu, Tail::residual_relu}) {
                if (tail == Tail::residual_relu && c.name != "c1x1" && c.name != "odd" && c.name != "deep" &&
                    c.name != "wide56" && c.name != "expand28" && c.name != "window14" && c.name != "window56" &&
                    c.name != "few40" && c.name != "few144")
                    continue;
                add(
                    "conv_" + t.name + "_" + c.name + "_" + std::string(name_of(tail)),
                    [=] { return conv_plan(c, t.type, t.out, tail, t.tf32); }, c.interpret);
            }
    for (const Tail tail : {Tail::none, Tail::bias, Tail::clip, Tail::silu, Tail::gelu, Tail::leaky, Tail::hard_swish})
        for (const Types& t : {types[0], types[1]})
            add("conv_" + t.name + "_c3x3_" + std::string(name_of(tail)),
                [=, c = convs[1]] { return conv_plan(c, t.type, t.out, tail, false); });
    for (const Tail tail : {Tail::silu, Tail::leaky, Tail::hard_swish, Tail::silu_residual, Tail::relu_residual})
        for (const Types& t : types)
            for (const ConvCase& c : convs)
                if (c.name == "c1x1" || c.name == "c3x3" || c.name == "odd" || c.name == "window28" ||
                    c.name == "window56" || c.name == "expand28" || c.name == "few16" || c.name == "few144")
                    add(
                        "curved_" + t.name + "_" + c.name + "_" + std::string(name_of(tail)),
                        [=] { return conv_plan(c, t.type, t.out, tail, t.tf32); }, c.interpret);
    const ConvCase parts[] = {
        {"c1x1", {2, 64, 9, 11}, 96, 1, 1, 1, {0, 0, 0, 0}},
        {"c1x1few", {2, 16, 12, 10}, 32, 1, 1, 1, {0, 0, 0, 0}},
        {"c3x3", {2, 32, 10, 12}, 64, 3, 3, 1, {1, 1, 1, 1}},
        {"c3x3s2", {2, 64, 13, 14}, 32, 3, 3, 2, {1, 1, 1, 1}},
        {"c3x3few", {1, 16, 20, 24}, 16, 3, 3, 1, {1, 1, 1, 1}},
        {"window56", {4, 64, 56, 56}, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"window28", {16, 128, 28, 28}, 128, 3, 3, 1, {1, 1, 1, 1}, 1, 1, false},
        {"expand28", {16, 128, 28, 28}, 512, 1, 1, 1, {0, 0, 0, 0}, 1, 1, false},
    };
    for (const Types& t : types)
        for (const ConvCase& c : parts)
            for (const Tail tail : {Tail::bias_relu, Tail::silu, Tail::silu_residual})
                add(
                    "parts_" + t.name + "_" + c.name + "_" + std::string(name_of(tail)),
                    [=] { return parted_plan(c, t.type, t.out, tail, t.tf32); }, c.interpret);
    add("parts_s8f16_c3x3_silures",
        [=, c = parts[2]] { return parted_plan(c, T::s8, T::f16, Tail::silu_residual, false); });
    for (const Tail tail : {Tail::bias_relu, Tail::residual_relu, Tail::residual_s8_relu}) {
        add("conv_s8f16_c1x1_" + std::string(name_of(tail)),
            [=, c = convs[0]] { return conv_plan(c, T::s8, T::f16, tail, false); });
        add("conv_f16s8_c1x1_" + std::string(name_of(tail)),
            [=, c = convs[0]] { return conv_plan(c, T::f16, T::s8, tail, false); });
        add("conv_s8f16_odd_" + std::string(name_of(tail)),
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
            add("stem7x7_w100" + end, [=] { return stem_plan({2, 2, 44, 100}, 48, 7, T::f16, out, pooled); });
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
    for (const T type : {T::f16, T::bf16, T::s8})
        for (const std::int64_t kernel : {5, 7})
            for (const std::int64_t stride : {1, 2}) {
                const std::string name = "depthwise_turned_" + type_name(type) + "_k" + std::to_string(kernel) + "s" +
                                         std::to_string(stride);
                add(name, [=] { return depthwise_plan({3, 72, 14, 13}, kernel, stride, type, Tail::silu); });
                add(name + "_wide", [=] {
                    return depthwise_plan({1, 32, 9, 70}, kernel, stride, type, Tail::bias_relu);
                });
                if (type != T::s8)
                    add(name + "_residual", [=] {
                        return depthwise_plan({2, 40, 15, 9}, kernel, stride, type, Tail::residual);
                    });
                add(name + "_small", [=] { return depthwise_plan({9, 40, 7, 7}, kernel, stride, type, Tail::none); });
            }
    for (const T type : {T::f32, T::f16, T::bf16, T::s8})
        for (const std::int64_t kernel : {3, 5})
            for (const std::int64_t stride : {1, 2}) {
                const std::string name =
                    "depthwise_" + type_name(type) + "_k" + std::to_string(kernel) + "s" + std::to_string(stride);
                add(name, [=] { return depthwise_plan({2, 40, 13, 11}, kernel, stride, type, Tail::clip); });
                add(name + "_high", [=] { return depthwise_plan({1, 24, 45, 6}, kernel, stride, type, Tail::none); });
            }
    for (const T type : {T::f32, T::f16, T::bf16, T::s8}) {
        add("depthwise_" + type_name(type) + "_relu", [=] {
            return depthwise_plan({1, 96, 7, 7}, 3, 1, type, Tail::bias_relu);
        });
        add("depthwise_" + type_name(type) + "_wide_residual", [=] {
            return depthwise_plan({1, 40, 8, 9}, 9, 1, type, Tail::residual_relu);
        });
        add("depthwise_" + type_name(type) + "_residual", [=] {
            return depthwise_plan({1, 32, 9, 10}, 3, 1, type, Tail::residual_relu);
        });
    }
    for (const T type : {T::f32, T::f16, T::bf16, T::s8})
        for (const std::int64_t kernel : {3, 5, 7})
            for (const std::int64_t stride : {1, 2})
                for (const Tail tail : {Tail::bias_relu, Tail::residual_relu})
                    add("depthwise_parts_" + type_name(type) + "_k" + std::to_string(kernel) + "s" +
                            std::to_string(stride) + "_" + std::string(name_of(tail)),
                        [=] { return parted_depthwise_plan(48, kernel, stride, type, tail); });
    for (const T type : {T::f32, T::f16, T::bf16})
        for (const std::int64_t kernel : {1, 3, 5})
            for (const std::int64_t stride : {1, 2, 4})
                add("depthwise_deep_" + type_name(type) + "_k" + std::to_string(kernel) + "s" + std::to_string(stride),
                    [=] {
                        return deep_depthwise_plan(kernel == 3 ? 4 : 5, kernel, stride, stride == 2 ? 2 : 1, type,
                                                   kernel == 5 ? Tail::residual_relu : Tail::bias_relu);
                    });
    for (const std::int64_t kernel : {3, 5})
        for (const std::int64_t stride : {1, 2})
            add("depthwise_int8_zero_point_k" + std::to_string(kernel) + "s" + std::to_string(stride), [=] {
                return depthwise_plan({2, 40, 13, 11}, kernel, stride, T::s8, Tail::clip, -77);
            });
    add("depthwise_fp32_silu", [] { return depthwise_plan({1, 32, 9, 9}, 3, 1, T::f32, Tail::silu); });
    add("depthwise_fp16_silu", [] { return depthwise_plan({1, 32, 9, 9}, 3, 1, T::f16, Tail::silu); });
}

} // namespace lathe::cuda::test
