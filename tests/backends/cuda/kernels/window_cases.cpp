// Convolutions of the kernel tests whose windows are out of the ordinary: stems of any window, depthwise ones of any
// window, stride, dilation and padding, those in groups.
#include <array>
#include <cmath>

#include "cases.hpp"

namespace lathe::cuda::test {

using T = ElementType;

namespace {

struct WindowCase {
    std::string name;
    Shape x; ///< N,C,H,W
    std::int64_t k;
    std::array<std::int64_t, 2> kernel{3, 3}, stride{1, 1};
    std::array<std::int64_t, 4> pads{0, 0, 0, 0}; ///< top, left, bottom, right
    std::array<std::int64_t, 2> dilation{1, 1};
    std::int64_t groups = 1;
    bool interpret = true;
    Window window() const { return {kernel, stride, dilation, pads}; }
    Shape result() const {
        Shape y{x[0], k};
        for (std::size_t d = 0; d < 2; ++d)
            y.push_back((x[d + 2] + pads[d] + pads[d + 2] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1);
        return y;
    }
};

/// A convolution that reads the model's image as it is; filters packed to `packed` channels.
TestPlan stem_plan(const WindowCase& c, T type, T out, Tail tail, std::int64_t packed) {
    PlanBuilder b;
    const ValueId in = b.input(c.x);
    const ValueId y = b.value(c.result(), out, Layout::nhwc, 1.0F / 35);
    Conv conv;
    conv.window = c.window();
    conv.reads_nchw = true;
    const std::int64_t terms = c.x[1] * c.kernel[0] * c.kernel[1];
    conv.weight = b.weight({c.k, c.kernel[0], c.kernel[1], packed}, type, 1 / std::sqrt(static_cast<float>(terms)),
                           packed == c.x[1] ? -1 : c.x[1]);
    std::vector<ValueId> inputs{in};
    conv.epilogue = epilogue_of(b, tail, type, y, c.k, terms, inputs);
    return b.finish(conv, inputs, {y}, type);
}

TestPlan depthwise_plan(const WindowCase& c, T type, T out, Tail tail, std::int32_t zero_point) {
    PlanBuilder b;
    ValueId in = b.image(c.x, type);
    if (zero_point != 0) { // the same bytes, read as other numbers
        const ValueId bytes = in;
        in = b.value(c.x, type, Layout::nhwc, b.plan().values[bytes].scale);
        b.plan().values[in].alias_of = bytes;
        b.plan().values[in].zero_point = zero_point;
    }
    const ValueId y = b.value(c.result(), out, Layout::nhwc, 1.0F / 35);
    Depthwise d;
    d.window = c.window();
    const std::int64_t terms = c.kernel[0] * c.kernel[1];
    d.weight = b.weight({c.kernel[0], c.kernel[1], b.plan().values[in].channel_stride}, type,
                        1 / std::sqrt(static_cast<float>(terms)), c.x[1]);
    std::vector<ValueId> inputs{in};
    d.epilogue = epilogue_of(b, tail, type, y, c.k, terms, inputs);
    return b.finish(d, inputs, {y}, type);
}

TestPlan grouped_plan(const WindowCase& c, T type, T out, Tail tail, bool tf32) {
    PlanBuilder b;
    const ValueId x = b.image(c.x, type);
    const Shape result = c.result();
    const ValueId y = b.value(result, out, Layout::nhwc, 1.0F / 35);
    Conv conv;
    conv.window = c.window();
    conv.groups = c.groups;
    const std::int64_t channels = c.x[1] / c.groups, terms = channels * c.kernel[0] * c.kernel[1];
    conv.weight = b.weight({c.k, c.kernel[0], c.kernel[1], channels}, type, 1 / std::sqrt(static_cast<float>(terms)));
    std::vector<ValueId> inputs{x};
    conv.epilogue = epilogue_of(b, tail, type, y, c.k, terms, inputs);
    return b.finish(conv, inputs, {y}, type, tf32, element_count(result) * terms);
}

void add_stems(Cases& add) {
    struct Stem {
        WindowCase c;
        std::int64_t packed = 4;
    };
    const std::vector<Stem> stems{
        {{"vgg", {2, 3, 37, 50}, 64, {3, 3}, {1, 1}, {1, 1, 1, 1}}},
        {{"vgg_224", {2, 3, 224, 224}, 64, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, false}},
        {{"inception", {1, 3, 39, 43}, 32, {3, 3}, {2, 2}, {0, 0, 0, 0}}},
        {{"convnext", {2, 3, 32, 48}, 96, {4, 4}, {4, 4}}, 3},
        {{"convnext_tiny_odd", {1, 3, 29, 35}, 40, {4, 4}, {4, 4}}, 3},
        {{"vit16", {2, 3, 64, 80}, 192, {16, 16}, {16, 16}}, 3},
        {{"vit32", {1, 3, 96, 64}, 72, {32, 32}, {32, 32}}, 3},
        {{"vit14", {1, 3, 42, 56}, 64, {14, 14}, {14, 14}}, 4},
        {{"pit", {2, 3, 48, 56}, 144, {16, 16}, {8, 8}}},
        {{"convmixer", {2, 3, 35, 42}, 64, {7, 7}, {7, 7}}},
        {{"segformer", {1, 3, 40, 44}, 32, {7, 7}, {4, 4}, {3, 3, 3, 3}}},
        {{"alexnet", {1, 3, 67, 67}, 64, {11, 11}, {4, 4}, {2, 2, 2, 2}}},
        {{"yolo6", {1, 3, 40, 36}, 48, {6, 6}, {2, 2}, {2, 2, 2, 2}}},
        {{"unet", {2, 4, 17, 19}, 320, {3, 3}, {1, 1}, {1, 1, 1, 1}}},
        {{"grey5", {1, 1, 28, 28}, 6, {5, 5}, {1, 1}, {0, 0, 0, 0}}},
        {{"same", {1, 3, 33, 30}, 24, {3, 3}, {2, 2}, {0, 0, 1, 1}}},
        {{"dilated", {1, 3, 31, 29}, 33, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}}},
        {{"rows", {1, 2, 20, 44}, 16, {1, 9}, {1, 2}, {0, 4, 0, 4}}},
        {{"down", {1, 3, 44, 20}, 130, {7, 2}, {3, 1}, {3, 0, 2, 1}}},
    };
    for (const Stem& s : stems) {
        add(
            "stem_" + s.c.name + "_f16", [=] { return stem_plan(s.c, T::f16, T::f16, Tail::bias_relu, s.packed); },
            s.c.interpret);
        if (!s.c.interpret) continue;
        add("stem_" + s.c.name + "_s8", [=] { return stem_plan(s.c, T::f16, T::s8, Tail::bias, s.packed); });
        add("stem_" + s.c.name + "_bf16", [=] { return stem_plan(s.c, T::bf16, T::bf16, Tail::silu, s.packed); });
    }
    for (const Tail tail : {Tail::none, Tail::clip, Tail::silu, Tail::gelu, Tail::hard_swish, Tail::leaky})
        for (const T out : {T::f16, T::s8})
            add("stem_tail_" + std::string(name_of(tail)) + "_" + type_name(out), [=] {
                return stem_plan({"", {1, 3, 18, 22}, 40, {3, 3}, {2, 2}, {1, 1, 1, 1}}, T::f16, out, tail, 4);
            });
}

void add_depthwise(Cases& add) {
    const std::vector<WindowCase> cases{
        {"k7", {2, 40, 15, 17}, 40, {7, 7}, {1, 1}, {3, 3, 3, 3}},
        {"k7_14", {1, 96, 14, 14}, 96, {7, 7}, {1, 1}, {3, 3, 3, 3}},
        {"k7s2", {1, 24, 19, 16}, 24, {7, 7}, {2, 2}, {3, 3, 3, 3}},
        {"k4", {1, 16, 11, 13}, 16, {4, 4}, {1, 1}, {1, 1, 2, 2}},
        {"k9", {1, 8, 13, 21}, 8, {9, 9}, {1, 1}, {4, 4, 4, 4}},
        {"k11s2", {1, 8, 23, 31}, 8, {11, 11}, {2, 2}, {5, 5, 5, 5}},
        {"k13", {1, 36, 15, 15}, 36, {13, 13}, {1, 1}, {6, 6, 6, 6}},
        {"k31", {1, 12, 20, 33}, 12, {31, 31}, {1, 1}, {15, 15, 15, 15}},
        {"k3dil2", {1, 24, 17, 12}, 24, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
        {"k3dil12", {1, 16, 26, 25}, 16, {3, 3}, {1, 1}, {12, 12, 12, 12}, {12, 12}},
        {"k3s2same", {2, 32, 14, 14}, 32, {3, 3}, {2, 2}, {0, 0, 1, 1}},
        {"k3s3", {1, 20, 17, 18}, 20, {3, 3}, {3, 3}, {1, 1, 1, 1}},
        {"r1s7", {1, 16, 9, 15}, 16, {1, 7}, {1, 1}, {0, 3, 0, 3}},
        {"r5s1", {1, 16, 15, 9}, 16, {5, 1}, {1, 1}, {2, 0, 2, 0}},
        {"r3s5_stride12", {1, 16, 12, 15}, 16, {3, 5}, {1, 2}, {1, 2, 1, 2}},
        {"k3_hdil", {1, 16, 15, 15}, 16, {3, 3}, {1, 1}, {3, 1, 3, 1}, {3, 1}},
        {"k2", {1, 16, 8, 8}, 16, {2, 2}, {2, 2}},
        {"k1", {1, 16, 8, 9}, 16, {1, 1}, {1, 1}},
    };
    for (const T type : {T::f32, T::f16, T::bf16, T::s8})
        for (const WindowCase& c : cases) {
            add("depthwise_any_" + type_name(type) + "_" + c.name,
                [=] { return depthwise_plan(c, type, type, Tail::bias_relu, 0); });
            if (type == T::s8) {
                add("depthwise_any_zero_point_" + c.name,
                    [=] { return depthwise_plan(c, T::s8, T::s8, Tail::bias, -101); });
            }
        }
    // results of another type, whose pixels have another stride
    const WindowCase odd{"", {2, 20, 9, 11}, 20, {3, 3}, {1, 1}, {1, 1, 1, 1}};
    for (const T to : {T::f16, T::bf16, T::f32})
        for (const Tail tail : {Tail::bias, Tail::silu, Tail::residual_relu})
            add("depthwise_s8_to_" + type_name(to) + "_" + std::string(name_of(tail)),
                [=] { return depthwise_plan(odd, T::s8, to, tail, 0); });
    // those of mobile networks, whose squeeze-and-excite reads more than bytes
    const std::vector<std::pair<T, T>> mobile{{T::f16, T::f16}, {T::bf16, T::bf16}, {T::s8, T::s8}, {T::s8, T::f16}};
    for (const std::int64_t kernel : {3, 5})
        for (const std::int64_t stride : {1, 2})
            for (const auto& [from, to] : mobile)
                for (const Tail tail : {Tail::bias_relu, Tail::silu, Tail::hard_swish, Tail::leaky}) {
                    const std::int64_t pad = kernel / 2;
                    const WindowCase c{
                        "", {2, 72, 13, 17}, 72, {kernel, kernel}, {stride, stride}, {pad, pad, pad, pad}};
                    add("depthwise_mobile_" + type_name(from) + "_to_" + type_name(to) + "_k" + std::to_string(kernel) +
                            "s" + std::to_string(stride) + "_" + std::string(name_of(tail)),
                        [=, from = from, to = to] { return depthwise_plan(c, from, to, tail, 0); });
                }
    for (const T from : {T::f16, T::bf16, T::f32})
        for (const Tail tail : {Tail::bias_relu, Tail::hard_swish})
            add("depthwise_" + type_name(from) + "_to_s8_" + std::string(name_of(tail)),
                [=] { return depthwise_plan(odd, from, T::s8, tail, 0); });
    for (const Tail tail : {Tail::gelu, Tail::hard_swish, Tail::leaky, Tail::residual_relu})
        for (const T type : {T::f16, T::s8})
            add("depthwise_k7_" + type_name(type) + "_" + std::string(name_of(tail)),
                [=, c = cases[0]] { return depthwise_plan(c, type, type, tail, 0); });
    add(
        "depthwise_convnext",
        [=] {
            return depthwise_plan({"", {8, 96, 56, 56}, 96, {7, 7}, {1, 1}, {3, 3, 3, 3}}, T::f16, T::f16, Tail::bias,
                                  0);
        },
        false);
}

void add_grouped(Cases& add) {
    const std::array<std::int64_t, 4> one{1, 1, 1, 1};
    const std::vector<WindowCase> cases{
        {"resnext4", {2, 128, 14, 14}, 128, {3, 3}, {1, 1}, one, {1, 1}, 32},
        {"resnext8", {1, 64, 15, 13}, 64, {3, 3}, {2, 2}, one, {1, 1}, 8},
        {"resnext16", {1, 64, 9, 10}, 64, {3, 3}, {1, 1}, one, {1, 1}, 4},
        {"resnext32", {1, 96, 9, 10}, 96, {3, 3}, {1, 1}, one, {1, 1}, 3},
        {"regnet24", {2, 120, 14, 14}, 120, {3, 3}, {2, 2}, one, {1, 1}, 5},
        {"regnet24_56", {4, 48, 56, 56}, 48, {3, 3}, {1, 1}, one, {1, 1}, 2, false},
        {"visformer48", {2, 96, 14, 14}, 96, {3, 3}, {1, 1}, one, {1, 1}, 2},
        {"regnet40", {3, 80, 7, 7}, 80, {3, 3}, {1, 1}, one, {1, 1}, 2},
        {"regnet56", {1, 112, 15, 13}, 112, {3, 3}, {2, 2}, one, {1, 1}, 2},
        {"regnet16", {5, 144, 7, 7}, 144, {3, 3}, {1, 1}, one, {1, 1}, 9},
        {"dilated32", {1, 64, 20, 17}, 64, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 2},
        {"wide64", {1, 128, 7, 9}, 128, {3, 3}, {1, 1}, one, {1, 1}, 2},
        {"wide112", {1, 224, 8, 8}, 224, {3, 3}, {1, 1}, one, {1, 1}, 2},
        {"odd12to20", {1, 36, 9, 11}, 60, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 3},
        {"multiplier", {1, 20, 9, 9}, 40, {3, 3}, {1, 1}, one, {1, 1}, 20},
        {"shuffle1x1", {2, 240, 7, 7}, 60, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 3},
        {"asymmetric", {1, 64, 10, 11}, 32, {3, 5}, {2, 1}, {0, 1, 1, 3}, {1, 1}, 4},
    };
    for (const Types& t : product_types())
        for (const WindowCase& c : cases)
            add(
                "grouped_" + t.name + "_" + c.name,
                [=] { return grouped_plan(c, t.type, t.out, Tail::bias_relu, t.tf32); }, c.interpret);
    for (const Tail tail : {Tail::none, Tail::residual_relu, Tail::silu, Tail::hard_swish, Tail::clip})
        for (const Types& t : {product_types()[0], product_types()[1]})
            add("grouped_" + t.name + "_tail_" + std::string(name_of(tail)),
                [=, c = cases[4]] { return grouped_plan(c, t.type, t.out, tail, false); });
    for (const Tail tail : {Tail::gelu, Tail::residual_relu, Tail::silu_residual})
        for (const Types& t : product_types())
            for (const std::size_t index : {6U, 7U, 3U}) // of even and odd widths
                add("grouped_" + t.name + "_" + cases[index].name + "_" + std::string(name_of(tail)),
                    [=, c = cases[index]] { return grouped_plan(c, t.type, t.out, tail, t.tf32); });
    for (const Tail tail : {Tail::bias, Tail::silu, Tail::residual_s8_relu})
        add("grouped_s8_to_fp16_" + std::string(name_of(tail)),
            [=, c = cases[4]] { return grouped_plan(c, T::s8, T::f16, tail, false); });
    add("grouped_fp16_to_s8", [c = cases[1]] { return grouped_plan(c, T::f16, T::s8, Tail::bias_relu, false); });
    // what the implicit GEMM refuses: results of other types
    WindowCase plain = cases[2];
    plain.groups = 1;
    add("plain_f32_to_s8", [=] { return grouped_plan(plain, T::f32, T::s8, Tail::bias_relu, false); });
    add("plain_bf16_to_s8", [=] { return grouped_plan(plain, T::bf16, T::s8, Tail::silu, false); });
    add("plain_s8_to_bf16", [=] { return grouped_plan(plain, T::s8, T::bf16, Tail::silu, false); });
}

} // namespace

void add_window_cases(Cases& add) {
    add_stems(add);
    add_depthwise(add);
    add_grouped(add);
}

} // namespace lathe::cuda::test
