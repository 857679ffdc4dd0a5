#include "random_cases.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace lathe::cuda::test {

using T = ElementType;

namespace {

class Draw {
public:
    explicit Draw(unsigned seed) : random_(seed) {}
    std::int64_t number(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    bool coin() { return number(0, 1) == 1; }
    template <class List>
    auto of(const List& list) {
        return list[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(list.size()) - 1))];
    }
    T type() { return of(std::array{T::f32, T::f16, T::bf16, T::s8}); }
    /// Odd sizes and round ones.
    std::int64_t size() { return of(std::array<std::int64_t, 10>{1, 2, 3, 5, 7, 8, 12, 16, 24, 33}); }
    std::int64_t channels() { return of(std::array<std::int64_t, 9>{1, 3, 8, 16, 20, 29, 32, 48, 58}); }
    Shape image() { return {number(1, 3), channels(), number(1, 7), number(1, 8)}; }
    Shape dims(std::size_t rank) {
        Shape shape(rank);
        for (auto& d : shape)
            d = size();
        while (element_count(shape) > 6000)
            *std::max_element(shape.begin(), shape.end()) = 2;
        return shape;
    }
    template <class List>
    void shuffle(List& list) {
        std::shuffle(list.begin(), list.end(), random_);
    }

private:
    std::mt19937 random_;
};

float scale_of(Draw& d) { return d.coin() ? 1.0F / 32 : 1.0F / 25; }

TestPlan pointwise_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    const bool image = d.coin();
    const bool flat = image && d.number(0, 4) == 0;
    Shape out = image ? d.image() : d.dims(static_cast<std::size_t>(d.number(1, 5)));
    if (flat) out.erase(out.begin() + 2);
    const Layout layout = image ? Layout::nhwc : Layout::linear;
    const T main = d.type();
    Pointwise program;
    std::vector<ValueId> inputs;
    const auto emit = [&](PointOp op, std::uint8_t a, std::uint8_t c, std::uint8_t e, float x, float y) {
        program.code.push_back({op, a, c, e, x, y});
        return static_cast<std::uint8_t>(program.code.size() - 1);
    };
    std::vector<std::uint8_t> names;
    const auto count = d.number(1, 3);
    for (std::int64_t i = 0; i < count; ++i) {
        const T type = d.coin() ? main : d.type();
        Shape shape = out;
        if (i > 0 || d.number(0, 5) == 0) {
            for (auto& size : shape)
                if (d.number(0, 2) == 0) size = 1;
            // vectors by channel and the like have fewer dims
            while (!image && shape.size() > 1 && d.number(0, 3) == 0)
                shape.erase(shape.begin());
            if (image && d.number(0, 2) == 0) {
                shape = Shape(out.size() - 1, 1);
                shape[0] = out[1];
            }
        }
        const bool same_rank = shape.size() == out.size();
        inputs.push_back(
            b.ready(shape, type, same_rank && (shape == out || d.coin()) ? layout : Layout::linear, scale_of(d)));
        names.push_back(emit(PointOp::input, static_cast<std::uint8_t>(i), 0, 0, 0, 0));
    }
    const std::array unary{PointOp::relu, PointOp::neg,   PointOp::abs, PointOp::sigmoid,
                           PointOp::tanh, PointOp::floor, PointOp::cos};
    const std::array binary{PointOp::add, PointOp::sub, PointOp::mul, PointOp::min, PointOp::max};
    const auto steps = d.number(1, 4);
    for (std::int64_t i = 0; i < steps && program.code.size() < 11; ++i) {
        const std::uint8_t a = d.of(names), c = d.of(names);
        if (d.coin())
            names.push_back(emit(d.of(unary), a, 0, 0, 0, 0));
        else
            names.push_back(emit(d.of(binary), a, c, 0, 0, 0));
    }
    if (d.number(0, 3) == 0) names.push_back(emit(PointOp::clip, names.back(), 0, 0, -1, 1.5F));
    if (d.number(0, 5) == 0) {
        const std::uint8_t less = emit(PointOp::less, names.front(), names.back(), 0, 0, 0);
        names.push_back(emit(PointOp::select, less, names.front(), names.back(), 0, 0));
    }
    program.results = {names.back()};
    std::vector<ValueId> outputs{b.value(out, d.coin() ? main : d.type(), layout, scale_of(d))};
    if (layout == Layout::linear && d.number(0, 3) == 0) {
        program.results.push_back(names.front());
        outputs.push_back(b.value(out, d.type(), layout, scale_of(d)));
    }
    return b.finish(program, inputs, outputs, T::f32);
}

TestPlan transpose_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    const bool integers = d.number(0, 5) == 0;
    const Shape x = d.number(0, 3) == 0 ? Shape{d.number(1, 2), d.number(60, 80), d.number(60, 90)}
                                        : d.dims(static_cast<std::size_t>(d.number(2, 5)));
    std::vector<std::int64_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    d.shuffle(order);
    Shape out;
    for (const std::int64_t axis : order)
        out.push_back(x[static_cast<std::size_t>(axis)]);
    const T type = d.type();
    const Layout layout = x.size() == 4 && d.coin() ? Layout::nhwc : Layout::linear;
    const ValueId in = integers ? b.input(x, d.coin() ? T::s64 : T::s32) : b.ready(x, type, layout);
    const ValueId y = b.value(out, b.plan().values[in].type, Layout::linear, 1.0F / 32);
    return b.finish(Transpose{std::move(order)}, {in}, {y}, T::f32);
}

TestPlan slice_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    const bool image = d.coin();
    const Shape x = image ? d.image() : d.dims(static_cast<std::size_t>(d.number(1, 4)));
    Slice slice;
    Shape out;
    for (const std::int64_t size : x) {
        const std::int64_t step = image && out.size() == 1 ? 1 : d.of(std::array<std::int64_t, 5>{1, 1, 1, 2, -1});
        const std::int64_t start = step > 0 ? d.number(0, size - 1) / 2 : size - 1;
        const std::int64_t room = step > 0 ? size - start : size;
        out.push_back(std::max<std::int64_t>(1, room / std::abs(step) - d.number(0, 1)));
        slice.starts.push_back(start);
        slice.steps.push_back(step);
    }
    const T type = d.type();
    const Layout layout = image ? Layout::nhwc : Layout::linear;
    const ValueId in = b.ready(x, type, layout);
    const ValueId y = b.value(out, type, layout, 1.0F / 32);
    return b.finish(slice, {in}, {y}, T::f32);
}

TestPlan reformat_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    Shape x = d.number(0, 4) == 0 ? Shape{1, d.number(60, 70), 9, 15} : d.image();
    if (d.number(0, 4) == 0) x.erase(x.begin() + 2);
    const Layout from = d.coin() ? Layout::linear : Layout::nhwc, to = d.coin() ? Layout::linear : Layout::nhwc;
    const ValueId in = b.ready(x, d.type(), from, scale_of(d));
    const ValueId y = b.value(x, d.type(), to, scale_of(d));
    return b.finish(Reformat{}, {in}, {y}, T::f32);
}

TestPlan concat_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    const bool image = d.number(0, 2) > 0;
    Shape out = image ? d.image() : d.dims(static_cast<std::size_t>(d.number(1, 4)));
    const auto axis = static_cast<std::size_t>(image && d.coin() ? 1 : d.number(0, static_cast<int>(out.size()) - 1));
    const bool round = d.coin();
    // Floats of several types are joined in linear memory: an image's padding follows its type.
    const std::array floats{T::f32, T::f16, T::bf16};
    const bool mixed = !image && d.coin();
    const T type = mixed ? d.of(floats) : d.type();
    const Layout layout = image ? Layout::nhwc : Layout::linear;
    std::vector<ValueId> inputs;
    Shape each = out;
    out[axis] = 0;
    const auto count = d.number(1, 6);
    for (std::int64_t i = 0; i < count; ++i) {
        each[axis] = image && axis == 1 ? (round ? d.number(1, 3) * 16 : d.channels()) : d.size();
        const T own = mixed && d.coin() ? d.of(floats) : type;
        inputs.push_back(b.ready(each, own, layout));
        out[axis] += each[axis];
    }
    const ValueId y = b.value(out, type, layout, 1.0F / 32);
    return b.finish(Concat{static_cast<std::int64_t>(axis)}, inputs, {y}, T::f32);
}

/// Parts in turns, and a program on what is joined.
TestPlan joined_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    Shape each = d.image();
    const T type = d.of(std::array{T::f32, T::f16, T::bf16});
    Concat detail;
    detail.interleaved = d.coin();
    const std::int64_t count = detail.interleaved ? d.of(std::array<std::int64_t, 2>{2, 4}) : d.number(1, 4);
    Shape out = each;
    out[1] = 0;
    std::vector<ValueId> inputs;
    for (std::int64_t i = 0; i < count; ++i) {
        if (!detail.interleaved) each[1] = d.channels();
        inputs.push_back(b.image(each, type));
        out[1] += each[1];
    }
    if (!detail.interleaved || d.coin()) {
        std::vector<float> scale(static_cast<std::size_t>(out[1]));
        for (float& v : scale)
            v = static_cast<float>(d.number(-8, 8)) / 4;
        inputs.push_back(b.constant({out[1], 1, 1}, T::f32, scale));
        inputs.push_back(b.constant({1}, T::f32, {0.25F}));
        detail.operands = 2;
        detail.program.code = {{PointOp::input, 0, 0, 0, 0, 0}, {PointOp::input, 1, 0, 0, 0, 0},
                               {PointOp::mul, 0, 1, 0, 0, 0},   {PointOp::input, 2, 0, 0, 0, 0},
                               {PointOp::add, 2, 3, 0, 0, 0},   {PointOp::relu, 4, 0, 0, 0, 0}};
        detail.program.results = {5};
    }
    const ValueId y = b.value(out, type, Layout::nhwc);
    return b.finish(detail, inputs, {y}, T::f32);
}

TestPlan reduce_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    const auto outer = d.number(1, 5), reduced = d.of(std::array<std::int64_t, 6>{1, 3, 16, 50, 130, 600}),
               inner = d.of(std::array<std::int64_t, 5>{1, 1, 3, 16, 40});
    const auto kind = static_cast<ReduceKind>(d.number(0, 5));
    const T type = kind == ReduceKind::prod ? T::f32 : d.type();
    const ValueId x = b.ready({outer, reduced, inner}, type, Layout::linear, scale_of(d));
    // int8 results of sums: steps that their size asks for
    const float scale = kind == ReduceKind::sum ? static_cast<float>(reduced) / 32 : 1.0F / 4;
    const ValueId y = b.value({outer, inner}, d.coin() ? T::f32 : type, Layout::linear, scale);
    return b.finish(Reduce{kind, outer, reduced, inner}, {x}, {y}, T::f32);
}

TestPlan global_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    Shape x = d.image();
    if (d.coin()) x[2] = d.number(10, 20);
    const T type = d.type();
    const ValueId in = b.image(x, type);
    const ValueId y = b.value({x[0], x[1], 1, 1}, type, Layout::nhwc, 1.0F / 32);
    GlobalPool pool;
    pool.average = d.coin();
    return b.finish(pool, {in}, {y}, T::f32);
}

/// Rows that no block holds in its registers.
constexpr std::int64_t long_row = 70000;

TestPlan softmax_of(Draw& d, std::int64_t rows, std::int64_t columns) {
    PlanBuilder b;
    const T type = d.of(std::array{T::f32, T::f16, T::bf16});
    const ValueId x = b.ready({rows, columns}, type);
    const ValueId y = b.value({rows, columns}, d.coin() ? type : T::f32);
    return b.finish(Softmax{rows, columns, d.number(0, 3) == 0}, {x}, {y}, type);
}

TestPlan softmax_case(unsigned seed) {
    Draw d(seed);
    const auto rows = d.number(1, 40), columns = d.of(std::array<std::int64_t, 8>{1, 5, 49, 64, 197, 513, 1000, 2048});
    return softmax_of(d, rows, columns);
}

TestPlan long_softmax_case(unsigned seed) {
    Draw d(seed);
    return softmax_of(d, 2, long_row + 1);
}

TestPlan norm_of(Draw& d, std::int64_t rows, std::int64_t columns) {
    PlanBuilder b;
    const T type = d.of(std::array{T::f32, T::f16, T::bf16});
    LayerNorm n;
    n.rows = rows;
    n.columns = columns;
    if (d.coin()) n.gamma = b.vector(columns, 0.5F, 1.5F);
    if (d.coin()) n.beta = b.vector(columns, -0.5F, 0.5F);
    n.residual = d.coin();
    n.centred = d.number(0, 2) > 0;
    n.quantized_output = d.coin();
    n.sum_output = d.coin();
    std::vector<ValueId> inputs{b.ready({rows, columns}, type)}, outputs{b.value({rows, columns}, type)};
    if (n.residual) inputs.push_back(b.ready({rows, columns}, type));
    if (n.quantized_output) outputs.push_back(b.value({rows, columns}, T::s8, Layout::linear, 1.0F / 30));
    if (n.sum_output) outputs.push_back(b.value({rows, columns}, type));
    return b.finish(n, inputs, outputs, type);
}

TestPlan factors_case(unsigned seed) {
    Draw d(seed);
    PlanBuilder b;
    Shape x = d.image();
    x[1] = d.of(std::array<std::int64_t, 8>{1, 6, 16, 24, 30, 32, 96, 320});
    if (d.coin()) x[2] = d.number(10, 40);
    std::vector<std::int64_t> divisors;
    for (std::int64_t g = 1; g <= x[1]; ++g)
        if (x[1] % g == 0) divisors.push_back(g);
    const ValueId in = b.image(x, d.of(std::array{T::f32, T::f16, T::bf16}));
    const Shape by_channel{x[0], x[1], 1, 1};
    const ValueId factor = b.value(by_channel, T::f32, Layout::nhwc), shift = b.value(by_channel, T::f32, Layout::nhwc);
    return b.finish(GroupFactors{d.of(divisors), 1e-3F}, {in}, {factor, shift}, T::f32);
}

TestPlan norm_case(unsigned seed) {
    Draw d(seed);
    const auto rows = d.number(1, 20), columns = d.of(std::array<std::int64_t, 6>{6, 49, 96, 384, 768, 1280});
    return norm_of(d, rows, columns);
}

TestPlan long_norm_case(unsigned seed) {
    Draw d(seed);
    return norm_of(d, 2, long_row);
}

} // namespace

std::vector<Case> random_cases(unsigned seed) {
    Cases cases;
    const auto some = [&](const char* name, TestPlan (*make)(unsigned), unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            const unsigned own = seed * 1000 + i;
            cases(name + std::to_string(i), [=] { return make(own); });
        }
    };
    some("pointwise", pointwise_case, 50);
    some("transpose", transpose_case, 25);
    some("slice", slice_case, 25);
    some("reformat", reformat_case, 30);
    some("concat", concat_case, 45);
    some("joined", joined_case, 30);
    some("reduce", reduce_case, 20);
    some("global", global_case, 16);
    some("softmax", softmax_case, 12);
    some("factors", factors_case, 24);
    some("norm", norm_case, 16);
    some("long_softmax", long_softmax_case, 4);
    some("long_norm", long_norm_case, 4);
    return cases.take();
}

} // namespace lathe::cuda::test
