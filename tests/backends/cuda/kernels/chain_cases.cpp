// Chains of the kernel tests: 1x1 convolutions behind one another, with and without a shortcut; squeeze and excite.
#include <cmath>

#include "cases.hpp"

namespace lathe::cuda::test {

using T = ElementType;

namespace {

struct ChainCase {
    std::string name;
    T type;
    Shape x;             ///< N, channels that the convolution which adds reads, and its result's H and W
    std::int64_t middle; ///< its channels
    std::int64_t behind = 0, shortcut = 0; ///< channels of the one behind; those that the shortcut reads; 0: none
    std::int64_t stride = 1, shortcut_stride = 1;
    Tail tail = Tail::bias_relu;
    bool interpret = true;
};

TestPlan chain_plan(const ChainCase& c) {
    PlanBuilder b;
    const auto pointwise = [&](ValueId x, std::int64_t stride, std::int64_t k, Tail tail, bool adds, ValueId residual) {
        const Shape in = b.plan().values[x].dims;
        FusedOp op;
        op.inputs = {x};
        op.outputs = {
            b.value({in[0], k, (in[2] - 1) / stride + 1, (in[3] - 1) / stride + 1}, c.type, Layout::nhwc, 1.0F / 35)};
        op.compute = c.type;
        Conv conv;
        conv.window.stride = {stride, stride};
        conv.weight = b.weight({k, 1, 1, in[1]}, c.type, 1 / std::sqrt(static_cast<float>(in[1])));
        conv.epilogue = epilogue_of(b, tail, c.type, op.outputs[0], k, in[1], op.inputs);
        if (adds) {
            conv.epilogue.residual = residual == none ? b.image(b.plan().values[op.outputs[0]].dims, c.type) : residual;
            conv.epilogue.residual_scale = c.type == T::s8 ? 0.7F : 1.0F;
            op.inputs.push_back(conv.epilogue.residual);
        }
        op.detail = conv;
        return op;
    };
    const auto image_of = [&](std::int64_t channels, std::int64_t stride) {
        return Shape{c.x[0], channels, (c.x[2] - 1) * stride + 1, (c.x[3] - 1) * stride + 1};
    };
    Chain chain;
    std::vector<ValueId> inputs, outputs;
    ValueId residual = none;
    if (c.shortcut > 0) {
        chain.parts.push_back(pointwise(b.image(image_of(c.shortcut, c.shortcut_stride), c.type), c.shortcut_stride,
                                        c.middle, Tail::bias, false, none));
        chain.shortcut = true;
        residual = chain.parts[0].outputs[0];
        inputs.push_back(chain.parts[0].inputs[0]);
    }
    chain.parts.push_back(
        pointwise(b.image(image_of(c.x[1], c.stride), c.type), c.stride, c.middle, c.tail, true, residual));
    const FusedOp adding = chain.parts.back();
    inputs.push_back(adding.inputs[0]);
    if (residual == none) inputs.push_back(adding.inputs[1]);
    outputs.push_back(adding.outputs[0]);
    if (c.behind > 0) {
        chain.parts.push_back(pointwise(adding.outputs[0], 1, c.behind, c.tail, false, none));
        outputs.push_back(chain.parts.back().outputs[0]);
    }
    const std::int64_t pixels = c.x[0] * c.x[2] * c.x[3];
    const std::int64_t macs = pixels * c.middle * (c.x[1] + c.shortcut + c.behind);
    return b.finish(std::move(chain), inputs, outputs, c.type, false, macs);
}

TestPlan squeeze_plan(const Shape& x, std::int64_t hidden, std::int64_t k, T type, Tail inner, Tail outer) {
    PlanBuilder b;
    const ValueId image = b.image(x, type);
    Chain chain;
    chain.squeeze = true;
    FusedOp average;
    average.inputs = {image};
    average.outputs = {b.value({x[0], x[1], 1, 1}, type, Layout::nhwc)};
    average.compute = type;
    average.detail = GlobalPool{true, 8.0F}; // so that what follows is of the size of one
    chain.parts.push_back(average);
    const auto add = [&](std::int64_t channels, std::int64_t results, Tail tail) {
        FusedOp op;
        op.inputs = chain.parts.back().outputs;
        op.outputs = {b.value({x[0], results, 1, 1}, type, Layout::nhwc)};
        op.compute = type;
        Conv conv;
        conv.weight = b.weight({results, 1, 1, b.plan().values[op.inputs[0]].channel_stride}, type,
                               1 / std::sqrt(static_cast<float>(channels)), channels);
        conv.epilogue = epilogue_of(b, tail, type, op.outputs[0], results, channels, op.inputs);
        op.detail = conv;
        chain.parts.push_back(std::move(op));
    };
    add(x[1], hidden, inner);
    add(hidden, k, outer);
    const ValueId result = chain.parts.back().outputs[0];
    const std::int64_t macs = x[0] * hidden * (x[1] + k);
    return b.finish(std::move(chain), {image}, {result}, type, false, macs);
}

} // namespace

void add_chain_cases(Cases& add) {
    const std::vector<ChainCase> cases{
        {"s8_sum", T::s8, {2, 64, 9, 9}, 256, 64},
        {"s8_sum_none", T::s8, {1, 64, 9, 7}, 256, 64, 0, 1, 1, Tail::bias},
        {"s8_sum_clip", T::s8, {1, 64, 8, 8}, 256, 64, 0, 1, 1, Tail::clip},
        {"s8_sum_wide", T::s8, {2, 64, 9, 9}, 256, 128},
        {"s8_shortcut", T::s8, {2, 64, 9, 9}, 256, 64, 64},
        {"s8_shortcut_none", T::s8, {1, 64, 9, 7}, 256, 64, 64, 1, 1, Tail::bias},
        {"s8_shortcut_alone", T::s8, {2, 64, 9, 9}, 256, 0, 64},
        {"s8_sum_512", T::s8, {1, 128, 9, 9}, 512, 128},
        {"s8_shortcut_stride", T::s8, {2, 256, 9, 9}, 512, 0, 128, 2, 1},
        {"s8_shortcut_other_stride", T::s8, {2, 128, 9, 9}, 512, 0, 256, 1, 2},
        {"f16_sum", T::f16, {2, 64, 9, 9}, 256, 64},
        {"f16_sum_wide", T::f16, {1, 64, 9, 9}, 256, 128},
        {"f16_sum_clip", T::f16, {1, 64, 8, 8}, 256, 64, 0, 1, 1, Tail::clip},
        {"f16_shortcut", T::f16, {2, 64, 9, 9}, 256, 64, 64},
        {"f16_shortcut_alone", T::f16, {2, 64, 9, 9}, 256, 0, 64},
        // More tiles than all blocks take at once, the last one not full.
        {"s8_sum_many", T::s8, {9, 64, 55, 55}, 256, 64, 0, 1, 1, Tail::bias_relu, false},
        {"s8_shortcut_many", T::s8, {9, 64, 55, 55}, 256, 64, 64, 1, 1, Tail::bias_relu, false},
        {"s8_sum_512_many", T::s8, {33, 128, 27, 27}, 512, 128, 0, 1, 1, Tail::bias_relu, false},
        {"s8_shortcut_stride_many", T::s8, {33, 256, 27, 27}, 512, 0, 128, 2, 1, Tail::bias_relu, false},
        {"f16_sum_many", T::f16, {9, 64, 55, 55}, 256, 64, 0, 1, 1, Tail::bias_relu, false},
    };
    for (const ChainCase& c : cases)
        add(
            "chain_" + c.name, [c] { return chain_plan(c); }, c.interpret);
    for (const T type : {T::f16, T::bf16, T::f32}) {
        const auto squeeze = [&](const std::string& name, const Shape& x, std::int64_t hidden, std::int64_t k,
                                 Tail inner, Tail outer) {
            add("squeeze_" + type_name(type) + "_" + name,
                [=] { return squeeze_plan(x, hidden, k, type, inner, outer); });
        };
        squeeze("few", {2, 32, 21, 19}, 8, 32, Tail::silu, Tail::sigmoid);
        squeeze("many", {3, 1152, 7, 7}, 48, 1152, Tail::silu, Tail::sigmoid);
        squeeze("odd", {1, 37, 5, 9}, 11, 53, Tail::bias_relu, Tail::hard_sigmoid);
        squeeze("pixels", {2, 24, 3, 1}, 6, 24, Tail::bias_relu, Tail::hard_sigmoid);
        squeeze("wide", {1, 4104, 2, 3}, 9, 40, Tail::none, Tail::bias);
        squeeze("none", {1, 16, 64, 64}, 4, 16, Tail::gelu, Tail::clip);
    }
}

} // namespace lathe::cuda::test
