// The other operations of the kernel tests: pooling, softmax, LayerNorm, gather, copies, elementwise chains.
#include <array>

#include "cases.hpp"

namespace lathe::cuda::test {

using T = ElementType;

namespace {

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

TestPlan rms_norm_plan(std::int64_t rows, std::int64_t columns, T type) {
    TestPlan made = layer_norm_plan(rows, columns, type, true, false, true);
    std::get<LayerNorm>(made.plan.ops[made.main].detail).centred = false;
    return made;
}

/// Heads read from the second third of a product.
TestPlan rotary_plan(const Shape& dims, const Shape& table, bool interleaved, T type, std::int64_t turned = 0) {
    PlanBuilder b;
    const std::int64_t width = dims[1] * dims[3];
    const ValueId x = b.ready({dims[0], dims[2], 3 * width}, type);
    const ValueId cosines = b.input(table), sines = b.input(table), y = b.value(dims, type);
    Rotary detail;
    detail.x = {width, dims[2] * 3 * width, 3 * width, dims[3]};
    detail.interleaved = interleaved;
    detail.turned = turned;
    return b.finish(detail, {x, cosines, sines}, {y}, T::f32);
}

struct Recurrence {
    Cell cell;
    std::int64_t steps, batch, width;
    bool both = false, linear = false, initial = false, lengths = false; ///< both directions
};
TestPlan recurrent_plan(const Recurrence& r, T type) {
    PlanBuilder b;
    const std::int64_t rows = r.width * gates_of(r.cell), directions = r.both ? 2 : 1;
    const auto scaled = [&](const Shape& dims, float factor) { // noise that keeps the state near one
        std::vector<float> numbers(static_cast<std::size_t>(element_count(dims)));
        std::uint32_t seed = 5;
        for (float& number : numbers) {
            seed = seed * 1664525U + 1013904223U;
            number = factor * (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F);
        }
        return numbers;
    };
    const Shape matrix{directions, rows, r.width};
    std::vector<ValueId> inputs{b.ready({r.steps, r.batch, directions * rows}, type),
                                b.constant(matrix, type, scaled(matrix, 1.5F / std::sqrt(static_cast<float>(r.width)))),
                                b.constant({directions * rows}, T::f32, scaled({directions * rows}, 0.5F))};
    const std::size_t states = r.cell == Cell::lstm ? 2 : 1;
    for (std::size_t i = 0; r.initial && i < states; ++i)
        inputs.push_back(b.ready({directions, r.batch, r.width}, type));
    if (r.lengths) inputs.push_back(b.input({r.batch}, T::s32));
    std::vector<ValueId> outputs{b.value({r.steps, directions, r.batch, r.width}, type)};
    for (std::size_t i = 0; i < states; ++i)
        outputs.push_back(b.value({directions, r.batch, r.width}, type));
    return b.finish(Recurrent{r.cell, !r.both && r.initial, r.linear, r.initial, r.lengths}, inputs, outputs, type);
}

TestPlan grid_sample_plan(Sampling how, Outside outside, bool align, T type) {
    PlanBuilder b;
    const ValueId x = b.ready({2, 5, 9, 11}, type), places = b.input({2, 7, 6, 2}), y = b.value({2, 5, 7, 6}, type);
    return b.finish(
        Indexed{IndexedKind::grid_sample, 0, static_cast<std::int64_t>(outside), static_cast<std::int32_t>(how), align},
        {x, places}, {y}, type);
}

TestPlan pad_image_plan(std::int64_t axis, Padding how, T type) {
    PlanBuilder b;
    Shape dims{2, 20, 7, 9};
    const ValueId x = b.image(dims, type);
    dims[static_cast<std::size_t>(axis)] += 5;
    return b.finish(Indexed{IndexedKind::pad, axis, 2, static_cast<std::int32_t>(how)}, {x},
                    {b.value(dims, type, Layout::nhwc)}, type);
}

TestPlan factors_plan(const Shape& x, std::int64_t groups, T type) {
    PlanBuilder b;
    const ValueId in = b.image(x, type);
    const Shape by_channel{x[0], x[1], 1, 1};
    const ValueId factor = b.value(by_channel, T::f32, Layout::nhwc), shift = b.value(by_channel, T::f32, Layout::nhwc);
    return b.finish(GroupFactors{groups, 1e-5F}, {in}, {factor, shift}, T::f32);
}

TestPlan mixed_concat_plan() {
    PlanBuilder b;
    const ValueId past = b.ready({2, 12, 64, 64}, T::f32), step = b.ready({2, 12, 1, 64}, T::f16);
    const ValueId y = b.value({2, 12, 65, 64}, T::f16);
    return b.finish(Concat{2}, {past, step}, {y}, T::f16);
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

/// Joined, multiplied by channel, cut off at 0 and rounded to int8.
TestPlan concat_to_s8_plan() {
    PlanBuilder b;
    const ValueId x = b.ready({2, 24, 6, 5}, T::f16, Layout::nhwc), z = b.ready({2, 8, 6, 5}, T::f16, Layout::nhwc);
    const ValueId factor = b.constant({32, 1, 1}, T::f32, std::vector<float>(32, 1.25F));
    Concat detail{1};
    const auto step = [&](PointOp op, std::uint8_t first, std::uint8_t second) {
        PointInstruction made;
        made.op = op;
        made.a = first;
        made.b = second;
        detail.program.code.push_back(made);
    };
    step(PointOp::input, 0, 0);
    step(PointOp::input, 1, 0);
    step(PointOp::mul, 0, 1);
    step(PointOp::relu, 2, 0);
    detail.program.results = {3};
    detail.operands = 1;
    detail.joined = b.value({2, 32, 6, 5}, T::f16, Layout::nhwc);
    const ValueId y = b.value({2, 32, 6, 5}, T::s8, Layout::nhwc, 1.0F / 32);
    return b.finish(detail, {x, z, factor}, {y}, T::f16);
}

TestPlan slice_plan() {
    PlanBuilder b;
    const ValueId x = b.ready({2, 12, 9, 8}, T::f16);
    const ValueId y = b.value({2, 5, 9, 3}, T::f16);
    return b.finish(Slice{{0, 2, 0, 1}, {1, 2, 1, 3}}, {x}, {y}, T::f16);
}

TestPlan transpose_plan(const Shape& x, std::vector<std::int64_t> order, T type, Layout layout = Layout::linear) {
    PlanBuilder b;
    Shape out;
    for (const std::int64_t d : order)
        out.push_back(x[static_cast<std::size_t>(d)]);
    const ValueId in = b.ready(x, type, layout);
    const ValueId y = b.value(out, type, Layout::linear, b.plan().values[in].scale);
    return b.finish(Transpose{std::move(order)}, {in}, {y}, type);
}

/// A part of an image's channels, turned.
TestPlan transpose_part_plan(T type) {
    PlanBuilder b;
    const ValueId whole = b.ready({2, 48, 5, 6}, type, Layout::nhwc);
    const ValueId in = b.part_of(whole, 16, 16);
    const ValueId y = b.value({2, 6, 5, 16}, type, Layout::linear, b.plan().values[whole].scale);
    return b.finish(Transpose{{0, 3, 2, 1}}, {in}, {y}, type);
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

/// One operation with computed places: x, indices below 20, what else is read, and the sizes of the results.
struct Places {
    Indexed detail;
    Shape x, y;
    std::optional<Shape> indices = {}, updates = {};
};
TestPlan indexed_plan(const Places& p, T type) {
    PlanBuilder b;
    std::vector<ValueId> inputs, outputs;
    const bool of_indices = p.detail.kind == IndexedKind::one_hot || p.detail.kind == IndexedKind::arithmetic;
    if (!of_indices) inputs.push_back(b.ready(p.x, type));
    if (p.indices) inputs.push_back(b.input(*p.indices, T::s64));
    if (p.updates && of_indices) inputs.push_back(b.input(*p.updates, T::s64));
    if (p.updates && !of_indices) inputs.push_back(b.ready(*p.updates, type));
    if (p.detail.kind == IndexedKind::one_hot) inputs.push_back(b.constant({2}, type, {-1, 2}));
    const bool integers = p.detail.kind == IndexedKind::arg_extreme || p.detail.kind == IndexedKind::arithmetic;
    outputs.push_back(b.value(p.y, integers ? T::s64 : type));
    if (p.detail.kind == IndexedKind::top_k) outputs.push_back(b.value(p.y, T::s64));
    return b.finish(p.detail, inputs, outputs, type);
}

/// Boxes of noise: some lie beside the image, some have no width.
TestPlan roi_align_plan(Layout layout, bool largest, bool half_pixel, std::int64_t sampling, T type) {
    PlanBuilder b;
    const ValueId x = b.ready({3, 20, 9, 11}, type, layout), boxes = b.input({37, 4}), images = b.input({37}, T::s64);
    const ValueId y = b.value({37, 20, 3, 5}, type, layout);
    Indexed detail{IndexedKind::roi_align, 0, sampling, largest ? 1 : 0, half_pixel};
    detail.factor = 3.5F;
    return b.finish(detail, {x, boxes, images}, {y}, type);
}

TestPlan pick_boxes_plan(std::int64_t candidates, std::int64_t most, bool center, bool threshold) {
    PlanBuilder b;
    const ValueId boxes = b.input({2, candidates, 4}), scores = b.input({2, 3, candidates});
    const ValueId places = b.value({2, 3, most}, T::s32);
    Indexed detail{IndexedKind::pick_boxes, 0, 0, 0, center, threshold};
    detail.factor = 0.3F;
    detail.limit = 0.5F;
    return b.finish(detail, {boxes, scores}, {places}, T::f32);
}

/// Of picks below 0 there are none among noise's indices; of f32 some numbers are 0 once they are int8.
TestPlan list_boxes_plan() {
    PlanBuilder b;
    const ValueId picks = b.input({2, 3, 700}, T::s32);
    return b.finish(Indexed{IndexedKind::list_boxes}, {picks}, {b.value({4200, 3}, T::s64), b.value({1}, T::s64)},
                    T::s64);
}

TestPlan nonzero_plan(const Shape& x) {
    PlanBuilder b;
    const std::int64_t count = element_count(x);
    const ValueId numbers = b.input(x, T::s64);
    const ValueId places = b.value({static_cast<std::int64_t>(x.size()), count}, T::s64);
    return b.finish(Indexed{IndexedKind::nonzero}, {numbers}, {places, b.value({1}, T::s64)}, T::s64);
}

/// Whole numbers of a type, broadcast: x [4, 6, 9] and y [6, 1], for a truth value before them of x's sizes.
TestPlan whole_numbers_plan(Integer what, T type, T result) {
    PlanBuilder b;
    std::vector<ValueId> inputs;
    if (what == Integer::choose) inputs.push_back(b.input({4, 6, 9}, T::boolean));
    inputs.push_back(b.input({4, 6, 9}, type));
    if (what < Integer::negate || what == Integer::choose) inputs.push_back(b.input({6, 1}, type));
    Indexed detail;
    detail.kind = IndexedKind::arithmetic;
    detail.mode = static_cast<std::int32_t>(what);
    detail.first = type == T::u64;
    return b.finish(detail, inputs, {b.value({4, 6, 9}, result)}, result);
}

/// What types that only models' inputs have go through: a conversion, a transposition, a program that reads them.
TestPlan converted_plan(T from, T to) {
    PlanBuilder b;
    return b.finish(Reformat{}, {b.input({3, 7, 40}, from)}, {b.value({3, 7, 40}, to)}, T::f32);
}
TestPlan turned_plan(T type) {
    PlanBuilder b;
    return b.finish(Transpose{{0, 2, 1}}, {b.input({3, 70, 40}, type)}, {b.value({3, 40, 70}, type)}, T::f32);
}
TestPlan picture_plan(T type) { // (x - 127) / 64
    PlanBuilder b;
    Pointwise p;
    p.code = {{PointOp::input, 0, 0, 0, 0, 0},
              {PointOp::constant, 0, 0, 0, -127, 0},
              {PointOp::add, 0, 1, 0, 0, 0},
              {PointOp::constant, 0, 0, 0, 0.015625F, 0},
              {PointOp::mul, 2, 3, 0, 0, 0}};
    p.results = {4};
    return b.finish(p, {b.input({2, 9, 11, 3}, type)}, {b.value({2, 9, 11, 3}, T::f16)}, T::f32);
}
TestPlan reversed_plan(std::int64_t time, std::int64_t batch) {
    PlanBuilder b;
    const Shape dims{7, 9, 5};
    const ValueId x = b.ready(dims, T::f16), lengths = b.input({dims[static_cast<std::size_t>(batch)]}, T::s64);
    return b.finish(Indexed{IndexedKind::reverse_sequence, time, batch}, {x, lengths}, {b.value(dims, T::f16)}, T::f16);
}

TestPlan depth_taps_plan(const Shape& x, T type, std::int64_t taps, std::int64_t stride, std::int64_t dilation,
                         std::int64_t before, std::int64_t results) {
    PlanBuilder b;
    const ValueId in = b.image(x, type);
    const std::int64_t wide = b.plan().values[in].channel_stride;
    const ValueId y =
        b.value({x[0], taps == 1 ? x[1] : taps * wide, results, x[3], x[4]}, type, Layout::nhwc, 1.0F / 32);
    return b.finish(Indexed{IndexedKind::depth_taps, stride, before, static_cast<std::int32_t>(dilation)}, {in}, {y},
                    type);
}

TestPlan grid_volume_plan(Sampling how, Outside outside) {
    PlanBuilder b;
    const ValueId x = b.ready({2, 3, 4, 6, 5}, T::f16), places = b.input({2, 3, 5, 4, 3});
    return b.finish(
        Indexed{IndexedKind::grid_sample, 0, static_cast<std::int64_t>(outside), static_cast<std::int32_t>(how), true},
        {x, places}, {b.value({2, 3, 3, 5, 4}, T::f16)}, T::f16);
}

void add_volume_cases(Cases& add) {
    for (const T type : {T::f32, T::f16, T::s8}) {
        const std::string end = "_" + type_name(type);
        add("depth_taps" + end, [=] { return depth_taps_plan({2, 16, 5, 6, 7}, type, 3, 1, 1, 1, 5); });
        add("depth_taps_odd" + end, [=] { return depth_taps_plan({2, 5, 9, 3, 7}, type, 3, 2, 2, 2, 5); });
        add("depth_shift" + end, [=] { return depth_taps_plan({2, 21, 5, 6, 7}, type, 1, 1, 1, -1, 5); });
    }
    for (const Sampling how : {Sampling::linear, Sampling::nearest})
        for (const Outside outside : {Outside::zeros, Outside::border})
            add("grid_volume_" + std::to_string(static_cast<int>(how)) + "_" +
                    std::to_string(static_cast<int>(outside)),
                [=] { return grid_volume_plan(how, outside); });
}

void add_stored_cases(Cases& add) {
    const std::array whole{T::u8, T::s16, T::u16, T::s32, T::u32, T::s64, T::u64};
    for (const T type : whole) {
        const std::string end = "_" + type_name(type);
        for (const T to : {T::u8, T::s16, T::u16, T::s32, T::u32, T::s64, T::u64, T::f32, T::f16})
            if (to != type && (type != T::s16 || to != T::f16) && (type != T::u16 || to != T::f16) &&
                (type != T::u32 || to != T::f16) && (type != T::u64 || to != T::f16))
                add("convert" + end + "_" + type_name(to), [=] { return converted_plan(type, to); });
        add("turn" + end, [=] { return turned_plan(type); });
        add("picture" + end, [=] { return picture_plan(type); });
    }
    add("convert_fp64_fp32", [] { return converted_plan(T::f64, T::f32); });
    add("convert_fp64_fp16", [] { return converted_plan(T::f64, T::f16); });
    add("convert_fp32_fp64", [] { return converted_plan(T::f32, T::f64); });
    for (const T type : {T::s8, T::u8, T::s16, T::u16, T::u32, T::u64}) {
        for (const Integer what : {Integer::add, Integer::subtract, Integer::multiply, Integer::divide,
                                   Integer::remainder, Integer::largest, Integer::bits_not, Integer::negate,
                                   Integer::sign, Integer::choose, Integer::shift_left, Integer::shift_right}) {
            if (type == T::u64 && (what == Integer::subtract || what == Integer::bits_not || what == Integer::negate ||
                                   what == Integer::shift_left))
                continue; // numbers of more than 53 bits, which the interpreter's doubles do not hold
            add("whole_" + std::to_string(static_cast<int>(what)) + "_" + type_name(type),
                [=] { return whole_numbers_plan(what, type, type); });
        }
        add("whole_less_" + type_name(type), [=] { return whole_numbers_plan(Integer::less, type, T::boolean); });
    }
    add("whole_power", [] { return whole_numbers_plan(Integer::power, T::s32, T::s32); });
    add("remainder_of_reals", [] { return whole_numbers_plan(Integer::remainder_of_reals, T::f32, T::f32); });
    add("reverse_time", [] { return reversed_plan(0, 1); });
    add("reverse_batch", [] { return reversed_plan(1, 0); });
}

void add_indexed_cases(Cases& add) {
    using K = IndexedKind;
    for (const T type : {T::f32, T::f16, T::bf16}) {
        const std::string end = "_" + type_name(type);
        add("roi_align" + end, [=] { return roi_align_plan(Layout::nhwc, false, true, 0, type); });
        add("roi_align_linear" + end, [=] { return roi_align_plan(Layout::linear, false, false, 2, type); });
        add("roi_align_largest" + end, [=] { return roi_align_plan(Layout::nhwc, true, false, 3, type); });
    }
    add("pick_boxes", [] { return pick_boxes_plan(1000, 100, false, true); });
    add("pick_boxes_all", [] { return pick_boxes_plan(77, 77, false, false); });
    add("pick_boxes_centers", [] { return pick_boxes_plan(5000, 20, true, true); });
    add("list_boxes", list_boxes_plan);
    add("nonzero", [] { return nonzero_plan({7, 300, 3}); });
    add("nonzero_one", [] { return nonzero_plan({1}); });
    const auto mode = [](auto value) { return static_cast<std::int32_t>(value); };
    for (const T type : {T::f32, T::f16, T::bf16}) {
        const auto one = [&](const std::string& name, const Places& places) {
            add(name + "_" + type_name(type), [=] { return indexed_plan(places, type); });
        };
        one("gather_elements", {{K::gather_elements, 1}, {3, 25, 6}, {3, 9, 4}, Shape{3, 9, 4}});
        one("gather_elements_last", {{K::gather_elements, 2}, {6, 16, 40}, {6, 16, 24}, Shape{6, 16, 24}});
        one("gather_elements_shared", {{K::gather_elements, 2}, {6, 16, 40}, {6, 16, 24}, Shape{1, 16, 24}});
        one("gather_elements_first", {{K::gather_elements, 0}, {9, 5, 8}, {14, 5, 8}, Shape{14, 1, 8}});
        one("gather_nd", {{K::gather_nd, 0}, {20, 22, 6}, {5, 6}, Shape{5, 2}});
        one("gather_nd_samples", {{K::gather_nd, 1}, {3, 22, 6}, {3, 5, 6}, Shape{3, 5, 1}});
        one("scatter_elements_add", {{K::scatter_elements, 1, 0, mode(Scatter::add)},
                                     {3, 25, 6},
                                     {3, 25, 6},
                                     Shape{3, 40, 6},
                                     Shape{3, 40, 6}});
        one("scatter_nd", {{K::scatter_nd, 0, 0, mode(Scatter::add)}, {20, 7}, {20, 7}, Shape{30, 1}, Shape{30, 7}});
        one("scatter_nd_largest",
            {{K::scatter_nd, 0, 0, mode(Scatter::largest)}, {20, 7}, {20, 7}, Shape{30, 1}, Shape{30, 7}});
        one("top_k", {{K::top_k, 1, 0, 1}, {3, 70, 5}, {3, 8, 5}});
        one("top_k_smallest", {{K::top_k, 2, 0, 0}, {3, 5, 70}, {3, 5, 8}});
        one("top_k_long", {{K::top_k, 1, 0, 1}, {2, 8400, 1}, {2, 300, 1}});
        one("top_k_longest", {{K::top_k, 2, 0, 0}, {1, 3, 20000}, {1, 3, 4000}});
        one("top_k_all", {{K::top_k, 1, 0, 1}, {3, 100, 5}, {3, 100, 5}});
        one("top_k_first", {{K::top_k, 2, 0, 1}, {3, 50, 64}, {3, 50, 2}});
        one("top_k_wide", {{K::top_k, 1, 0, 0}, {9, 1000, 3}, {9, 32, 3}});
        one("arg_max_long", {{K::arg_extreme, 2, 0, 1}, {3, 5, 5000}, {3, 5}});
        one("arg_min_long_last", {{K::arg_extreme, 1, 0, 0, true}, {3, 700, 5}, {3, 5}});
        for (const Padding how : {Padding::constant, Padding::reflect, Padding::edge, Padding::wrap}) {
            one("pad_" + std::to_string(mode(how)), {{K::pad, 1, 3, mode(how)}, {3, 7, 5}, {3, 12, 5}});
            one("crop_" + std::to_string(mode(how)), {{K::pad, 2, -2, mode(how)}, {3, 5, 7}, {3, 5, 9}});
        }
        one("arg_max", {{K::arg_extreme, 2, 0, 1}, {3, 5, 70}, {3, 5}});
        one("arg_min_last", {{K::arg_extreme, 1, 0, 0, true}, {3, 70, 5}, {3, 5}});
        one("cumulate", {{K::cumulate, 1}, {3, 70, 5}, {3, 70, 5}});
        one("cumulate_back", {{K::cumulate, 2, 0, 0, true, true}, {3, 5, 70}, {3, 5, 70}});
        one("cumulate_long", {{K::cumulate, 1, 0, 0, false, true}, {3, 3001, 2}, {3, 3001, 2}});
        one("arg_max_rows", {{K::arg_extreme, 1, 0, 1}, {2, 21, 900}, {2, 900}});
        one("triangle", {{K::triangle, 0, 2, 0, true}, {3, 20, 30}, {3, 20, 30}});
        one("one_hot", {{K::one_hot, 1}, {}, {4, 20, 7}, Shape{4, 7}});
    }
    for (const Sampling how : {Sampling::linear, Sampling::nearest, Sampling::cubic}) {
        for (const Outside outside : {Outside::zeros, Outside::border, Outside::reflection}) {
            const std::string name = "grid_" + std::to_string(mode(how)) + "_" + std::to_string(mode(outside));
            add(name, [=] { return grid_sample_plan(how, outside, outside == Outside::border, T::f32); });
        }
    }
    add("pad_rows", [] { return pad_image_plan(2, Padding::reflect, T::f16); });
    add("pad_columns", [] { return pad_image_plan(3, Padding::constant, T::f32); });
    add("grid_f16", [] { return grid_sample_plan(Sampling::linear, Outside::zeros, false, T::f16); });
    for (const T type : {T::f32, T::f16, T::bf16}) {
        const auto one = [&](const std::string& name, const Recurrence& r) {
            add("recurrent_" + name + "_" + type_name(type), [=] { return recurrent_plan(r, type); });
        };
        one("lstm", {Cell::lstm, 9, 3, 64});
        one("lstm_wide", {Cell::lstm, 5, 2, 512, true, false, true});
        one("lstm_odd", {Cell::lstm, 7, 2, 37, false, false, true});
        one("gru", {Cell::gru, 9, 3, 96, false, false, true});
        one("gru_linear", {Cell::gru, 9, 2, 128, true, true});
        one("lstm_many", {Cell::lstm, 5, 33, 256, true});
        one("lstm_narrow", {Cell::lstm, 7, 70, 48, true, false, true, true});
        one("lstm_middle", {Cell::lstm, 6, 40, 128, true});
        one("gru_many", {Cell::gru, 6, 37, 192, false, true, true, true});
        one("rnn_many", {Cell::rnn, 6, 19, 40, true, false, true});
        one("rnn", {Cell::rnn, 9, 2, 20, true, false, true});
        one("rnn_relu", {Cell::rnn_relu, 9, 2, 20, true, false, true});
        one("lstm_lengths", {Cell::lstm, 7, 5, 64, true, false, true, true});
        one("gru_lengths", {Cell::gru, 7, 3, 40, false, false, false, true});
        one("gru_linear_lengths", {Cell::gru, 7, 9, 64, true, true, true, true});
        one("rnn_lengths", {Cell::rnn_relu, 7, 3, 16, true, false, true, true});
    }
    for (const Integer what : {Integer::add, Integer::subtract, Integer::multiply, Integer::divide, Integer::remainder,
                               Integer::smallest, Integer::less_equal, Integer::bits_xor}) {
        add("integers_" + std::to_string(mode(what)), [=] {
            return indexed_plan({{K::arithmetic, 0, 0, mode(what)}, {}, {4, 6, 9}, Shape{4, 6, 9}, Shape{6, 1}},
                                T::s64);
        });
    }
}

} // namespace

void add_other_cases(Cases& add) {
    add_stored_cases(add);
    add_volume_cases(add);
    add("concat_mixed", mixed_concat_plan);
    for (const T type : {T::f32, T::f16, T::bf16, T::s8}) {
        const std::string end = "_" + type_name(type);
        add("maxpool3s2" + end, [=] { return pool_plan({2, 64, 17, 15}, type, false, 3, 2, 1, false); });
        add("avgpool2s2" + end, [=] { return pool_plan({2, 40, 12, 10}, type, true, 2, 2, 0, false); });
        add("avgpool3pad" + end, [=] { return pool_plan({1, 32, 9, 9}, type, true, 3, 1, 1, true); });
        add("global" + end, [=] { return global_pool_plan({3, 72, 7, 7}, type, type); });
    }
    for (const T type : {T::f16, T::s8})
        add("maxpool5_" + type_name(type), [=] { return pool_plan({1, 128, 20, 20}, type, false, 5, 1, 2, false); });
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
        if (type == T::f16)
            add(
                "layernorm_many", [=] { return layer_norm_plan(3000, 768, type, true, true, true); }, false);
        add("rmsnorm" + end, [=] { return rms_norm_plan(33, 384, type); });
        add("rmsnorm_odd" + end, [=] { return rms_norm_plan(5, 2050, type); });
        add("rotary_heads" + end, [=] { return rotary_plan({2, 3, 7, 64}, {1, 1, 7, 64}, false, type); });
        add("rotary_rows" + end, [=] { return rotary_plan({2, 7, 3, 32}, {2, 7, 1, 16}, false, type); });
        add("rotary_odd" + end, [=] { return rotary_plan({1, 2, 5, 18}, {1, 1, 5, 9}, false, type); });
        add("rotary_part" + end, [=] { return rotary_plan({2, 3, 7, 64}, {1, 1, 7, 16}, false, type, 16); });
        add("rotary_part_short" + end, [=] { return rotary_plan({2, 3, 5, 40}, {2, 1, 5, 6}, false, type, 12); });
        add("rotary_part_pairs" + end, [=] { return rotary_plan({2, 3, 7, 64}, {1, 1, 7, 16}, true, type, 32); });
        add("rotary_pairs" + end, [=] { return rotary_plan({2, 3, 7, 64}, {2, 1, 7, 32}, true, type); });
        add("rotary_pairs_wide" + end, [=] { return rotary_plan({2, 3, 7, 12}, {1, 1, 7, 12}, true, type); });
        add("group_factors" + end, [=] { return factors_plan({2, 320, 17, 19}, 32, type); });
        add("group_factors_one" + end, [=] { return factors_plan({3, 48, 9, 9}, 1, type); });
        add("group_factors_one_wide" + end, [=] { return factors_plan({2, 320, 14, 14}, 1, type); });
        add("group_factors_one_large" + end, [=] { return factors_plan({1, 64, 56, 56}, 1, type); });
        add("group_factors_of_eleven" + end, [=] { return factors_plan({2, 88, 7, 5}, 8, type); });
        add("group_factors_each" + end, [=] { return factors_plan({1, 30, 40, 40}, 30, type); });
        add("layernorm_long" + end, [=] { return layer_norm_plan(5, 3072, type, false, true, false); });
        add("layernorm_longest" + end, [=] { return layer_norm_plan(3, 70000, type, true, true, true); });
    }
    add("log_softmax_1000", [] { return softmax_plan(3, 1000, T::f16, true); });
    add("log_softmax", [] { return softmax_plan(7, 100, T::f32, true); });
    for (int kind = 0; kind < 6; ++kind)
        add("reduce" + std::to_string(kind), [=] { return reduce_plan(static_cast<ReduceKind>(kind)); });
    add("gather1", [] { return gather_plan(768, T::f16, 1); });
    add("gather3", [] { return gather_plan(384, T::f32, 3); });
    add("gather_odd", [] { return gather_plan(13, T::f16, 2); });
    add("concat_f16", [] { return concat_plan(T::f16, Layout::nhwc, 1); });
    add("concat_s8", [] { return concat_plan(T::s8, Layout::nhwc, 1); });
    add("concat_to_s8", [] { return concat_to_s8_plan(); });
    add("concat_linear", [] { return concat_plan(T::f32, Layout::linear, 2); });
    add("slice", [] { return slice_plan(); });
    add("transpose_last", [] { return transpose_plan({3, 40, 70}, {0, 2, 1}, T::f16); });
    for (const T type : {T::f16, T::s8})
        add("transpose_part_" + type_name(type), [=] { return transpose_part_plan(type); });
    for (const T type : {T::f16, T::s8})
        add("transpose_image_" + type_name(type), [=] {
            return transpose_plan({2, 36, 9, 11}, {0, 2, 3, 1}, type, Layout::nhwc);
        });
    add("transpose_image_0213", [] { return transpose_plan({2, 35, 9, 11}, {0, 2, 1, 3}, T::f16, Layout::nhwc); });
    add("transpose_0213", [] { return transpose_plan({2, 5, 6, 16}, {0, 2, 1, 3}, T::f16); });
    add_indexed_cases(add);
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
        add("pointwise_line" + end, [=] { return pointwise_plan({2, 32, 9}, {32, 1}, type, Layout::nhwc); });
        add("pointwise_bias" + end, [=] { return pointwise_plan({2, 7, 48}, {48}, type, Layout::linear); });
        add("pointwise_rows" + end, [=] { return pointwise_plan({2, 7, 48}, {2, 7, 1}, type, Layout::linear); });
        add("pointwise_scalar" + end, [=] { return pointwise_plan({3, 5, 7}, {1}, type, Layout::linear); });
        add("pointwise_mid" + end, [=] { return pointwise_plan({3, 5, 7}, {5, 1}, type, Layout::linear); });
        add("pointwise_odd" + end, [=] { return pointwise_plan({2, 20, 7, 9}, {1, 20, 1, 1}, type, Layout::nhwc); });
    }
}

} // namespace lathe::cuda::test
