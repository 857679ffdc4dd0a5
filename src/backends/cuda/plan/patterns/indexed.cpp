// Operators whose places are computed, and arithmetic on integers that does not fold.

#include <algorithm>
#include <cmath>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/patterns/point_program.hpp"

namespace lathe::cuda {
namespace {

std::optional<std::int64_t> axis_of(const Node& node, std::int64_t absent, std::size_t rank) {
    const std::int64_t given = node.int_or("axis", absent);
    const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(rank) : given;
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
    return axis;
}

/// The node's inputs as they are stored, row by row.
Result<std::vector<ValueId>> linear(Lowering& lowering, const Node& node, std::size_t count) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < count; ++i) {
        if (lowering.dims(node.input(i)).size() > 8) return Lowering::cannot(node, "more than 8 dimensions");
        if (!lowering.ready(node.input(i))) return Lowering::cannot(node, "an input is not made");
        LATHE_TRY(const ValueId id, lowering.want_linear(node.input(i)));
        inputs.push_back(id);
    }
    return inputs;
}

Result<void> emit(Lowering& lowering, Node& node, const Indexed& detail, std::vector<ValueId> inputs) {
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.output(0))));
    for (const ValueId id : inputs) {
        if (element_count(lowering.value(id).dims) == 0) return Lowering::cannot(node, "of nothing");
    }
    std::vector<ValueId> outputs;
    // Moved numbers keep their type; what it is as an output is another step.
    for (const std::string& output : node.outputs) {
        const auto own = lowering.stored_type(lowering.type_of(output));
        if (!own) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(output)));
        outputs.push_back(lowering.make(output, *own, lowering.dims(output), Layout::linear));
    }
    lowering.add(node, {}, detail, std::move(inputs), std::move(outputs), *type);
    return {};
}

std::optional<Scatter> reduction(const Node& node) {
    const std::string name = node.string_or("reduction", "none");
    if (name == "none") return Scatter::replace;
    if (name == "add") return Scatter::add;
    if (name == "mul") return Scatter::multiply;
    if (name == "max") return Scatter::largest;
    if (name == "min") return Scatter::smallest;
    return std::nullopt;
}

Result<void> place(Lowering& lowering, Node& node) {
    Indexed detail;
    const bool scatters = !node.is("GatherElements") && !node.is("GatherND");
    if (node.is("GatherElements")) detail.kind = IndexedKind::gather_elements;
    if (node.is("GatherND")) detail.kind = IndexedKind::gather_nd;
    if (node.is("ScatterElements") || node.is("Scatter")) detail.kind = IndexedKind::scatter_elements;
    if (node.is("ScatterND")) detail.kind = IndexedKind::scatter_nd;
    const bool tuples = node.is("GatherND") || node.is("ScatterND");
    if (tuples) {
        detail.axis = node.int_or("batch_dims", 0);
    } else {
        const auto axis = axis_of(node, 0, lowering.dims(node.input(0)).size());
        if (!axis) return Lowering::cannot(node, "its axis");
        detail.axis = *axis;
    }
    const auto how = reduction(node);
    if (!how) return Lowering::cannot(node, "its reduction");
    detail.mode = static_cast<std::int32_t>(*how);
    LATHE_TRY(auto inputs, linear(lowering, node, scatters ? 3 : 2));
    if (node.is("GatherElements")) {
        // Indices that repeat (DeBERTa's positions, for all samples and heads) are read where they are once.
        const Node* repeats = lowering.uses().producer(node.input(1));
        if (repeats != nullptr && repeats->is("Expand") && lowering.ready(repeats->input(0))) {
            Shape dims = lowering.dims(repeats->input(0));
            const std::size_t rank = lowering.dims(node.input(1)).size();
            LATHE_TRY(ValueId once, lowering.want_linear(repeats->input(0)));
            if (dims.size() < rank) {
                dims.insert(dims.begin(), rank - dims.size(), 1);
                once = lowering.make_alias(node.output(0) + "/indices", once, dims, Layout::linear);
            }
            if (dims.size() == rank) inputs[1] = once;
        }
    }
    return emit(lowering, node, detail, std::move(inputs));
}

Result<void> top_k(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::top_k;
    const auto axis = axis_of(node, -1, lowering.dims(node.input(0)).size());
    if (!axis || node.outputs.size() != 2 || node.output(0).empty() || node.output(1).empty())
        return Lowering::cannot(node, "its axis, or an omitted output");
    detail.axis = *axis;
    detail.mode = node.int_or("largest", 1) != 0 ? 1 : 0;
    LATHE_TRY(auto inputs, linear(lowering, node, 1));
    return emit(lowering, node, detail, std::move(inputs));
}

Result<void> arg_extreme(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::arg_extreme;
    const auto axis = axis_of(node, 0, lowering.dims(node.input(0)).size());
    if (!axis) return Lowering::cannot(node, "its axis");
    detail.axis = *axis;
    detail.mode = node.is("ArgMax") ? 1 : 0;
    detail.first = node.int_or("select_last_index", 0) != 0;
    LATHE_TRY(auto inputs, linear(lowering, node, 1));
    return emit(lowering, node, detail, std::move(inputs));
}

Result<void> cumulate(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::cumulate;
    const auto axis = lowering.constant(node.input(1));
    if (!axis || axis->tensor == nullptr || axis->count() != 1)
        return Lowering::cannot(node, "an axis that is computed");
    const auto rank = static_cast<std::int64_t>(lowering.dims(node.input(0)).size());
    const std::int64_t given = axis->tensor->to_int64s().at(0);
    detail.axis = given < 0 ? given + rank : given;
    if (detail.axis < 0 || detail.axis >= rank) return Lowering::cannot(node, "its axis");
    detail.first = node.int_or("exclusive", 0) != 0;
    detail.second = node.int_or("reverse", 0) != 0;
    LATHE_TRY(auto inputs, linear(lowering, node, 1));
    return emit(lowering, node, detail, std::move(inputs));
}

Result<void> triangle(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::triangle;
    detail.first = node.int_or("upper", 1) != 0;
    if (!node.input(1).empty()) {
        const auto diagonal = lowering.constant(node.input(1));
        if (!diagonal || diagonal->tensor == nullptr || diagonal->count() != 1)
            return Lowering::cannot(node, "a diagonal that is computed");
        detail.number = diagonal->tensor->to_int64s().at(0);
    }
    LATHE_TRY(auto inputs, linear(lowering, node, 1));
    return emit(lowering, node, detail, std::move(inputs));
}

Result<void> one_hot(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::one_hot;
    const auto axis = axis_of(node, -1, lowering.dims(node.output(0)).size());
    if (!axis || !lowering.constant(node.input(1)))
        return Lowering::cannot(node, "its axis, or a depth that is computed");
    detail.axis = *axis;
    if (!lowering.ready(node.input(0)) || !lowering.ready(node.input(2)))
        return Lowering::cannot(node, "an input is not made");
    LATHE_TRY(const ValueId indices, lowering.want_linear(node.input(0)));
    LATHE_TRY(const ValueId values, lowering.want_linear(node.input(2)));
    return emit(lowering, node, detail, {indices, values});
}

Result<void> grid_sample(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::grid_sample;
    const std::size_t rank = lowering.dims(node.input(0)).size();
    if (rank != 4 && rank != 5) return Lowering::cannot(node, "only images and volumes are taken");
    const std::string mode = node.string_or("mode", "linear"), outside = node.string_or("padding_mode", "zeros");
    const bool linear_mode = mode == "linear" || mode == "bilinear", cubic = mode == "cubic" || mode == "bicubic";
    if (!linear_mode && !cubic && mode != "nearest") return Lowering::cannot(node, "mode " + mode);
    if (cubic && rank == 5) return Lowering::cannot(node, "mode cubic of a volume");
    if (outside != "zeros" && outside != "border" && outside != "reflection")
        return Lowering::cannot(node, "padding_mode " + outside);
    detail.mode = static_cast<std::int32_t>(linear_mode ? Sampling::linear
                                            : cubic     ? Sampling::cubic
                                                        : Sampling::nearest);
    detail.number = static_cast<std::int64_t>(outside == "zeros"    ? Outside::zeros
                                              : outside == "border" ? Outside::border
                                                                    : Outside::reflection);
    detail.first = node.int_or("align_corners", 0) != 0;
    // Places that are there in float32 are read so.
    LATHE_TRY(std::vector<ValueId> inputs, linear(lowering, node, 1));
    if (!lowering.ready(node.input(1))) return Lowering::cannot(node, "an input is not made");
    const auto exact = std::ranges::find_if(lowering.forms(node.input(1)), [&](ValueId id) {
        const Value& value = lowering.value(id);
        return value.type == ElementType::f32 && value.layout == Layout::linear && value.role != Role::output;
    });
    if (exact != lowering.forms(node.input(1)).end()) {
        inputs.push_back(*exact);
    } else {
        LATHE_TRY(const ValueId places, lowering.want_linear(node.input(1)));
        inputs.push_back(places);
    }
    if (!is_real(lowering.value(inputs[0]).type) || !is_real(lowering.value(inputs[1]).type))
        return Lowering::cannot(node, "of numbers that are not floating point");
    return emit(lowering, node, detail, std::move(inputs));
}

//  X, rois, batch_indices -> RoiAlign: images whose channels lie innermost stay so
Result<void> roi_align(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::roi_align;
    const std::string mode = node.string_or("mode", "avg");
    const std::string pixels =
        node.string_or("coordinate_transformation_mode", lowering.opset() >= 16 ? "half_pixel" : "output_half_pixel");
    if (mode != "avg" && mode != "max") return Lowering::cannot(node, "mode " + mode);
    if (pixels != "half_pixel" && pixels != "output_half_pixel")
        return Lowering::cannot(node, "coordinate_transformation_mode " + pixels);
    detail.mode = mode == "max" ? 1 : 0;
    detail.first = pixels == "half_pixel";
    detail.number = node.int_or("sampling_ratio", 0);
    detail.factor = node.float_or("spatial_scale", 1);
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type || !is_real(*type)) return Lowering::cannot(node, "of numbers that are not floating point");
    if (lowering.dims(node.input(0)).size() != 4) return Lowering::cannot(node, "of what is no image");
    for (std::size_t i = 0; i < 3; ++i) {
        if (!lowering.ready(node.input(i))) return Lowering::cannot(node, "an input is not made");
        if (element_count(lowering.dims(node.input(i))) == 0) return Lowering::cannot(node, "of nothing");
    }
    Layout layout = Layout::linear;
    for (const ValueId id : lowering.forms(node.input(0)))
        if (lowering.value(id).layout == Layout::nhwc) layout = Layout::nhwc;
    LATHE_TRY(const ValueId x, lowering.want(node.input(0), *type, layout));
    LATHE_TRY(const ValueId boxes, lowering.want(node.input(1), ElementType::f32, Layout::linear));
    LATHE_TRY(const ValueId images, lowering.want_linear(node.input(2)));
    const ValueId made = lowering.make(node.output(0), *type, lowering.dims(node.output(0)), layout);
    lowering.add(node, {}, detail, {x, boxes, images}, {made}, *type);
    return {};
}

/// What was found, with room for the most, and how many there are.
Result<void> listed(Lowering& lowering, Node& node, IndexedKind kind, ValueId from, Shape most) {
    Indexed detail;
    detail.kind = kind;
    const ValueId rows = lowering.make(node.output(0), ElementType::s64, std::move(most), Layout::linear);
    const ValueId count = lowering.make(count_of_rows(node.output(0)), ElementType::s64, {1}, Layout::linear);
    lowering.add(node, {}, detail, {from}, {rows, count}, ElementType::s64);
    return {};
}

Result<void> nonzero(Lowering& lowering, Node& node) {
    LATHE_TRY(const auto inputs, linear(lowering, node, 1));
    const Shape x = lowering.dims(node.input(0));
    const std::int64_t size = element_count(x);
    if (x.empty() || size <= 0 || !is_bounded(node)) return Lowering::cannot(node, "its size is not known");
    return listed(lowering, node, IndexedKind::nonzero, inputs[0], {static_cast<std::int64_t>(x.size()), size});
}

//  boxes, scores -> pick_boxes -> list_boxes -> rows and their number
Result<void> suppress(Lowering& lowering, Node& node) {
    if (!is_bounded(node)) return Lowering::cannot(node, "its size is not known");
    Indexed detail;
    detail.kind = IndexedKind::pick_boxes;
    detail.first = node.int_or("center_point_box", 0) != 0;
    const auto threshold = [&](std::size_t input) -> std::optional<float> {
        return node.input(input).empty() ? std::optional(0.0F) : lowering.scalar(node.input(input));
    };
    const auto overlap = threshold(3), least = threshold(4);
    const auto most = lowering.constant(node.input(2));
    if (!overlap || !least || !most || most->tensor == nullptr)
        return Lowering::cannot(node, "a threshold that is computed");
    detail.factor = *overlap;
    detail.limit = *least;
    detail.second = !node.input(4).empty();
    for (std::size_t i = 0; i < 2; ++i)
        if (!lowering.ready(node.input(i))) return Lowering::cannot(node, "an input is not made");
    // Boxes of pixels need more than what float16 keeps of them, where there is more.
    LATHE_TRY(const ValueId boxes, lowering.want(node.input(0), ElementType::f32, Layout::linear));
    LATHE_TRY(const ValueId scores, lowering.want(node.input(1), ElementType::f32, Layout::linear));
    const Shape from = lowering.dims(node.input(0)), of = lowering.dims(node.input(1));
    const std::int64_t room = std::min(most->tensor->to_int64s().at(0), from[1]);
    const Shape picks{of[0], of[1], room};
    const ValueId places = lowering.make(node.output(0) + "/places", ElementType::s32, picks, Layout::linear);
    lowering.add(node, {}, detail, {boxes, scores}, {places}, ElementType::f32);
    return listed(lowering, node, IndexedKind::list_boxes, places, {element_count(picks), 3});
}

struct Operator {
    const char* name;
    Integer what;
};
constexpr Operator operators[] = {{"Add", Integer::add},
                                  {"Sum", Integer::add},
                                  {"Sub", Integer::subtract},
                                  {"Mul", Integer::multiply},
                                  {"Div", Integer::divide},
                                  {"Mod", Integer::remainder},
                                  {"Pow", Integer::power},
                                  {"Min", Integer::smallest},
                                  {"Max", Integer::largest},
                                  {"BitwiseAnd", Integer::bits_and},
                                  {"BitwiseOr", Integer::bits_or},
                                  {"BitwiseXor", Integer::bits_xor},
                                  {"BitwiseNot", Integer::bits_not},
                                  {"BitShift", Integer::shift_left},
                                  {"Equal", Integer::equal},
                                  {"Less", Integer::less},
                                  {"Greater", Integer::greater},
                                  {"LessOrEqual", Integer::less_equal},
                                  {"GreaterOrEqual", Integer::greater_equal},
                                  {"Neg", Integer::negate},
                                  {"Abs", Integer::absolute},
                                  {"Sign", Integer::sign},
                                  {"Cast", Integer::convert},
                                  {"Expand", Integer::convert},
                                  {"Clip", Integer::largest},
                                  {"Where", Integer::choose}};

bool counts(DataType type) { return is_integer(type) && type != DataType::boolean; }

/// Whether a program in float32 does the same: its numbers are exact, and what it gives fits.
bool program_is_exact(const Lowering& lowering, const Node& node, const std::vector<std::string>& operands) {
    const DataType out = lowering.type_of(node.output(0));
    if (node.is("Cast") || node.is("Neg") || node.is("Abs")) return out == DataType::boolean;
    const bool chooses =
        node.is("Min") || node.is("Max") || node.is("Clip") || node.is("Sign") || node.is("Where") || node.is("Expand");
    if (chooses && is_narrow(out)) {
        const bool bounded = !node.is("Clip") || lowering.opset() < 11 ||
                             ((node.input(1).empty() || lowering.scalar(node.input(1))) &&
                              (node.input(2).empty() || lowering.scalar(node.input(2))));
        return bounded;
    }
    if (out != DataType::boolean) return false;
    return std::any_of(operands.begin(), operands.end(), [&](const std::string& input) {
        // exact, too, with a constant that float32 holds and that has neighbours
        const auto number = lowering.scalar(input);
        return is_narrow(lowering.type_of(input)) || (number && std::abs(*number) < 16'000'000.0F);
    });
}

/// The shape of two operands together.
Shape broadcast(const Shape& a, const Shape& b) {
    Shape joint = a.size() < b.size() ? b : a;
    for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i)
        joint[joint.size() - i] = std::max(a[a.size() - i], b[b.size() - i]);
    return joint;
}

/// `what` of the operands, of more than it takes in turn.
Result<void> emit_arithmetic(Lowering& lowering, Node& node, Integer what, const std::vector<std::string>& operands) {
    Indexed detail;
    detail.kind = IndexedKind::arithmetic;
    detail.mode = static_cast<std::int32_t>(what);
    std::vector<ValueId> inputs;
    for (const std::string& operand : operands) {
        if (!lowering.ready(operand)) return Lowering::cannot(node, "an input is not made");
        LATHE_TRY(const ValueId id, lowering.want_linear(operand));
        inputs.push_back(id);
    }
    const std::size_t compared = what == Integer::choose ? 1 : 0;
    detail.first = lowering.value(inputs[compared]).type == ElementType::u64;
    if (what >= Integer::negate || inputs.size() == 2) return emit(lowering, node, detail, std::move(inputs));
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.output(0))));
    ValueId last = inputs[0];
    for (std::size_t i = 1; i + 1 < inputs.size(); ++i) {
        const ValueId made =
            lowering.make(node.output(0) + "/" + std::to_string(i), *type,
                          broadcast(lowering.value(last).dims, lowering.value(inputs[i]).dims), Layout::linear);
        lowering.add(node, {}, detail, {last, inputs[i]}, {made}, *type);
        last = made;
    }
    return emit(lowering, node, detail, {last, inputs.back()});
}

/// Clip: the largest of x and the lower bound, then the smallest of that and the upper one.
Result<void> clip(Lowering& lowering, Node& node) {
    const bool low = !node.input(1).empty(), high = !node.input(2).empty();
    if (!low && !high) return emit_arithmetic(lowering, node, Integer::convert, {node.input(0)});
    if (!low || !high)
        return emit_arithmetic(lowering, node, low ? Integer::largest : Integer::smallest,
                               {node.input(0), node.input(low ? 1 : 2)});
    LATHE_TRY(auto inputs, linear(lowering, node, 3));
    Indexed detail;
    detail.kind = IndexedKind::arithmetic;
    detail.mode = static_cast<std::int32_t>(Integer::largest);
    const ElementType type = lowering.value(inputs[0]).type;
    detail.first = type == ElementType::u64;
    const ValueId raised =
        lowering.make(node.output(0) + "/raised", type, lowering.dims(node.output(0)), Layout::linear);
    lowering.add(node, {}, detail, {inputs[0], inputs[1]}, {raised}, type);
    detail.mode = static_cast<std::int32_t>(Integer::smallest);
    return emit(lowering, node, detail, {raised, inputs[2]});
}

/// Mod of floats, and what is whole numbers alone.
Result<void> modulo(Lowering& lowering, Node& node) {
    LATHE_TRY(const bool taken, integer_arithmetic(lowering, node));
    if (taken) return {};
    if (!node.is("Mod") || !is_floating(lowering.type_of(node.output(0))))
        return Lowering::cannot(node, "of numbers that are no integers");
    const bool of_c = node.int_or("fmod", 0) != 0;
    return emit_arithmetic(lowering, node, of_c ? Integer::remainder_of_reals_c : Integer::remainder_of_reals,
                           node.inputs);
}

/// Numbers that are known, in any type that plans have.
Result<ValueId> known_numbers(Lowering& lowering, const std::string& name, ElementType type, const Shape& dims,
                              const std::vector<float>& numbers) {
    LATHE_TRY(const WeightId weight, lowering.store(name + "|known|" + to_string(type), type, dims,
                                                    [&] { return converted(numbers, type, name); }));
    const auto id = static_cast<ValueId>(lowering.plan().values.size());
    Value made;
    made.role = Role::constant;
    made.type = type;
    made.dims = dims;
    made.weight = weight;
    lowering.plan().values.push_back(std::move(made));
    return id;
}

//  Hardmax: ArgMax, of equal ones the first, and OneHot of it
Result<void> hardmax(Lowering& lowering, Node& node) {
    const Shape x = lowering.dims(node.input(0));
    const auto given = axis_of(node, lowering.opset() < 13 ? 1 : -1, x.size());
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!given || !type || !is_real(*type)) return Lowering::cannot(node, "its axis, or its type");
    LATHE_TRY(const auto inputs, linear(lowering, node, 1));
    // Before opset 13 all axes from this one on are one.
    Shape seen = x;
    if (lowering.opset() < 13) {
        const auto middle = x.begin() + static_cast<std::ptrdiff_t>(*given);
        seen = {element_count(Shape(x.begin(), middle)), element_count(Shape(middle, x.end()))};
    }
    const std::int64_t axis = lowering.opset() < 13 ? 1 : *given;
    Shape without = seen;
    without.erase(without.begin() + axis);
    const std::string& y = node.output(0);
    const ValueId from = seen == x ? inputs[0] : lowering.make_alias(y + "/rows", inputs[0], seen, Layout::linear);
    const ValueId places = lowering.make(y + "/places", ElementType::s64, without, Layout::linear);
    Indexed detail;
    detail.kind = IndexedKind::arg_extreme;
    detail.axis = axis;
    detail.mode = 1;
    lowering.add(node, {}, detail, {from}, {places}, *type);
    LATHE_TRY(const ValueId values, known_numbers(lowering, "off, on", *type, {2}, {0, 1}));
    detail = {};
    detail.kind = IndexedKind::one_hot;
    detail.axis = axis;
    const ValueId hot = lowering.make(seen == x ? y : y + "/hot", *type, seen, Layout::linear);
    lowering.add(node, {}, detail, {places, values}, {hot}, *type);
    if (seen != x) lowering.make_alias(y, hot, x, Layout::linear);
    return {};
}

Result<void> reverse_sequence(Lowering& lowering, Node& node) {
    Indexed detail;
    detail.kind = IndexedKind::reverse_sequence;
    detail.axis = node.int_or("time_axis", 0);
    detail.number = node.int_or("batch_axis", 1);
    const auto rank = static_cast<std::int64_t>(lowering.dims(node.input(0)).size());
    if (detail.axis < 0 || detail.axis >= rank || detail.number < 0 || detail.number >= rank ||
        detail.axis == detail.number)
        return Lowering::cannot(node, "its axes");
    LATHE_TRY(auto inputs, linear(lowering, node, 2));
    return emit(lowering, node, detail, std::move(inputs));
}

/// What the sizes alone tell: Shape and Size of outputs of the model, which nothing folds, and EyeLike.
Result<void> known(Lowering& lowering, Node& node) {
    const Shape x = lowering.dims(node.input(0));
    std::vector<float> numbers;
    Shape dims = lowering.dims(node.output(0));
    if (node.is("Size")) {
        numbers.push_back(static_cast<float>(element_count(x)));
    } else if (node.is("Shape")) {
        const auto rank = static_cast<std::int64_t>(x.size());
        const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
        const std::int64_t start = bound(node.int_or("start", 0)), end = bound(node.int_or("end", rank));
        for (std::int64_t i = start; i < end; ++i)
            numbers.push_back(static_cast<float>(x[static_cast<std::size_t>(i)]));
        dims = {static_cast<std::int64_t>(numbers.size())};
    } else { // EyeLike
        if (x.size() != 2) return Lowering::cannot(node, "of other than a matrix");
        for (std::int64_t i = 0; i < element_count(x); ++i)
            numbers.push_back(i % x[1] - i / x[1] == node.int_or("k", 0) ? 1.0F : 0.0F);
        dims = x;
    }
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.output(0))));
    if (std::any_of(numbers.begin(), numbers.end(), [](float n) { return n >= 16'000'000.0F; }))
        return Lowering::cannot(node, "a size over 16,000,000");
    std::string name = node.output(0) + "|" + node.op_type;
    for (const std::int64_t size : x)
        name += "x" + std::to_string(size);
    LATHE_TRY(const ValueId made, known_numbers(lowering, name, *type, dims, numbers));
    lowering.add_form(node.output(0), made);
    lowering.mark(&node);
    return {};
}

} // namespace

Result<bool> integer_arithmetic(Lowering& lowering, Node& node) {
    const auto* found = std::find_if(std::begin(operators), std::end(operators),
                                     [&](const Operator& each) { return node.is(each.name); });
    if (found == std::end(operators)) return false;
    Integer what = found->what;
    const DataType out = lowering.type_of(node.output(0));
    if (!counts(out) && out != DataType::boolean) return false;
    std::vector<std::string> operands = node.inputs;
    if (node.is("Expand") || node.is("Clip")) operands.resize(1);
    for (std::size_t i = what == Integer::choose ? 1 : 0; i < operands.size(); ++i) {
        const DataType type = lowering.type_of(operands[i]);
        if (node.is("Pow") && i == 1 && is_floating(type)) what = Integer::power_of_reals;
        if (!counts(type) && what != Integer::power_of_reals) return false;
    }
    if (lowering.dims(node.output(0)).size() > 8 || operands.empty()) return false;
    if (program_is_exact(lowering, node, operands)) return false;
    if (node.is("Clip")) {
        if (lowering.opset() < 11) return false;
        LATHE_CHECK(clip(lowering, node));
        return true;
    }
    if (node.is("Mod") && node.int_or("fmod", 0) != 0) what = Integer::remainder_of_c;
    if (node.is("BitShift") && node.string_or("direction", "") == "RIGHT") what = Integer::shift_right;
    if (operands.size() == 1 && what < Integer::negate) what = Integer::convert; // Sum, Min and Max of one
    LATHE_CHECK(emit_arithmetic(lowering, node, what, operands));
    return true;
}

void add_indexed(LoweringTable& table) {
    for (const char* name : {"GatherElements", "GatherND", "ScatterElements", "Scatter", "ScatterND"})
        table.emplace(name, place);
    table.emplace("TopK", top_k);
    table.emplace("ArgMax", arg_extreme);
    table.emplace("ArgMin", arg_extreme);
    table.emplace("CumSum", cumulate);
    table.emplace("Trilu", triangle);
    table.emplace("OneHot", one_hot);
    table.emplace("GridSample", grid_sample);
    table.emplace("RoiAlign", roi_align);
    table.emplace("NonZero", nonzero);
    table.emplace("NonMaxSuppression", suppress);
    table.emplace("Hardmax", hardmax);
    table.emplace("ReverseSequence", reverse_sequence);
    for (const char* name : {"Shape", "Size", "EyeLike"})
        table.emplace(name, known);
    for (const char* name : {"Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"})
        table.emplace(name, modulo);
}

} // namespace lathe::cuda
