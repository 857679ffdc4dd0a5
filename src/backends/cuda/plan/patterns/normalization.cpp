#include <algorithm>
#include <numeric>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

bool real(std::optional<ElementType> type) { return type && is_real(*type); }

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::int64_t product(const Shape& dims, std::size_t begin, std::size_t end) {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                           dims.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

Result<void> softmax(Lowering& lowering, Node& node) {
    const std::string& x = node.input(0);
    const Shape dims = lowering.dims(x);
    if (!real(lowering.stored_type(lowering.type_of(x))) || dims.empty()) return Lowering::cannot(node, "its type");
    // Before opset 13 all dimensions from the axis on are one row.
    const bool flattens = lowering.opset() < 13;
    const std::size_t axis = axis_of(node.int_or("axis", flattens ? 1 : -1), dims.size());
    if (axis >= dims.size()) return Lowering::cannot(node, "its axis");
    Softmax detail;
    detail.log = node.is("LogSoftmax");
    LATHE_TRY(ValueId from, lowering.want_linear(x));
    const ElementType type = lowering.value(from).type;
    const bool last = flattens || product(dims, axis + 1, dims.size()) == 1;
    detail.columns = flattens ? product(dims, axis, dims.size()) : dims[axis];
    detail.rows = element_count(dims) / std::max<std::int64_t>(detail.columns, 1);
    if (last) {
        const ValueId made = lowering.make_result(node.output(0), type, Layout::linear);
        lowering.add(node, {}, detail, {from}, {made}, ElementType::f32);
        return {};
    }
    // The axis is brought to the end and back.
    std::vector<std::int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[axis], order.back());
    Shape turned = dims;
    std::swap(turned[axis], turned.back());
    const std::string name = node.output(0) + "/turned";
    const ValueId before = lowering.make(name, type, turned, Layout::linear);
    const ValueId after = lowering.make(name, type, turned, Layout::linear);
    lowering.add(node, {}, Transpose{order}, {from}, {before}, type);
    lowering.add(node, {}, detail, {before}, {after}, ElementType::f32);
    const ValueId made = lowering.make_result(node.output(0), type, Layout::linear);
    lowering.add(node, {}, Transpose{order}, {after}, {made}, type);
    return {};
}

/// A LayerNormalization or RMSNormalization over the last dimension with constant factors.
struct Norm {
    Constant gamma;
    std::optional<Constant> beta;
    float epsilon = 1e-5F;
    std::int64_t columns = 0;
    bool centred = true;
};
std::optional<Norm> norm_of(const Lowering& lowering, const Node& node) {
    const Shape& dims = lowering.dims(node.input(0));
    const bool centred = node.is("LayerNormalization");
    if ((!centred && !node.is("RMSNormalization")) || dims.empty() || node.outputs.size() > 1) return std::nullopt;
    if (axis_of(node.int_or("axis", -1), dims.size()) != dims.size() - 1) return std::nullopt;
    const auto gamma = lowering.constant(node.input(1));
    const auto beta = lowering.constant(node.input(2));
    if (!gamma || gamma->count() != dims.back() || (!node.input(2).empty() && !beta)) return std::nullopt;
    if (beta && beta->count() != dims.back()) return std::nullopt;
    return Norm{*gamma, beta, node.float_or("epsilon", 1e-5F), dims.back(), centred};
}

//  x   skip
//   \ /
//   Add ------> others    ==>   y, int8, sum = LayerNorm {residual, quantised, sum}
//    |
//  LayerNormalization -> y -> others
//    |
//  QuantizeLinear
Result<void> emit_norm(Lowering& lowering, Node& node, const Norm& norm, ValueId x, ValueId residual,
                       std::vector<Node*> nodes, const std::string& sum) {
    LayerNorm detail;
    detail.columns = norm.columns;
    detail.rows = element_count(lowering.dims(node.output(0))) / std::max<std::int64_t>(norm.columns, 1);
    detail.epsilon = norm.epsilon;
    detail.residual = residual != none;
    detail.centred = norm.centred;
    const std::int64_t padded = (norm.columns + 15) / 16 * 16;
    const std::string tail = "|vector|" + std::to_string(padded);
    LATHE_TRY(detail.gamma,
              lowering.store_vector(norm.gamma.key() + tail, padded, [&] { return lowering.floats(norm.gamma); }));
    if (norm.beta) {
        LATHE_TRY(detail.beta,
                  lowering.store_vector(norm.beta->key() + tail, padded, [&] { return lowering.floats(*norm.beta); }));
    }
    const ElementType type = *lowering.stored_type(lowering.type_of(node.output(0)));
    // A quantised copy beside the result, which others read in floating point.
    Node* quantise = nullptr;
    for (Node* reader : lowering.uses().consumers(node.output(0))) {
        if (reader->is("QuantizeLinear") && reader->input(0) == node.output(0) && lowering.symmetric_scale(*reader)) {
            quantise = reader;
            break;
        }
    }
    std::vector<ValueId> inputs{x};
    if (residual != none) inputs.push_back(residual);
    std::vector<ValueId> outputs{lowering.make_result(node.output(0), type, Layout::linear)};
    if (quantise != nullptr) {
        detail.quantized_output = true;
        nodes.push_back(quantise);
        outputs.push_back(lowering.make(quantise->output(0), ElementType::s8, lowering.dims(node.output(0)),
                                        Layout::linear, *lowering.symmetric_scale(*quantise)));
    }
    if (!sum.empty()) {
        detail.sum_output = true;
        outputs.push_back(lowering.make(sum, type, lowering.dims(sum), Layout::linear));
    }
    lowering.add(node, nodes, detail, std::move(inputs), std::move(outputs), ElementType::f32);
    return {};
}

Result<void> layer_norm(Lowering& lowering, Node& node) {
    const auto norm = norm_of(lowering, node);
    if (!norm) return Lowering::cannot(node, "only the last dimension, with constant factors and one output, is taken");
    if (!real(lowering.stored_type(lowering.type_of(node.input(0))))) return Lowering::cannot(node, "its type");
    LATHE_TRY(const ValueId x, lowering.want_linear(node.input(0)));
    return emit_norm(lowering, node, *norm, x, none, {}, "");
}

bool all_equal(const Lowering& lowering, const std::string& value, float number) {
    const auto constant = lowering.constant(value);
    if (!constant) return false;
    const auto numbers = lowering.floats(*constant);
    return numbers && std::ranges::all_of(*numbers, [number](float each) { return each == number; });
}

//  x [N, C, L] -> InstanceNormalization(ones, zeros)   ==>   LayerNorm over L, gamma of ones
//
// So PyTorch writes GroupNorm: the groups as channels, its own factors behind.
Result<void> instance_norm(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.input(0));
    const bool plain = all_equal(lowering, node.input(1), 1) && all_equal(lowering, node.input(2), 0);
    if (dims.size() != 3 || !plain) {
        return Lowering::cannot(node, "only three dimensions with factors 1 and 0 are taken, as GroupNorm is exported");
    }
    const auto type = lowering.stored_type(lowering.type_of(node.input(0)));
    if (!real(type)) return Lowering::cannot(node, "its type");
    LayerNorm detail;
    detail.columns = dims[2];
    detail.rows = dims[0] * dims[1];
    detail.epsilon = node.float_or("epsilon", 1e-5F);
    const std::int64_t padded = (detail.columns + 15) / 16 * 16;
    const auto ones = [&]() -> Result<std::vector<float>> {
        return std::vector<float>(static_cast<std::size_t>(detail.columns), 1.0F);
    };
    LATHE_TRY(detail.gamma,
              lowering.store_vector("ones|" + std::to_string(detail.columns) + "|vector|" + std::to_string(padded),
                                    padded, ones));
    LATHE_TRY(const ValueId from, lowering.want_linear(node.input(0)));
    const ValueId made = lowering.make_result(node.output(0), *type, Layout::linear);
    lowering.add(node, {}, detail, {from}, {made}, ElementType::f32);
    return {};
}

/// What is written out of a GroupNorm (spellings.cpp).
Result<void> group_factors(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.input(0));
    const auto type = lowering.stored_type(lowering.type_of(node.input(0)));
    const bool volume = dims.size() == 5;
    if (!real(type) || (dims.size() != 4 && !volume))
        return Lowering::cannot(node, "only images and volumes of floating point are taken");
    LATHE_TRY(ValueId x, lowering.want(node.input(0), *type, Layout::nhwc));
    const GroupFactors detail{node.int_or("groups", 1), node.float_or("epsilon", 1e-5F)};
    std::vector<ValueId> made;
    if (volume) // its images one behind the other
        x = lowering.make_alias(node.output(0) + "/images", x, {dims[0], dims[1], dims[2] * dims[3], dims[4]},
                                Layout::nhwc);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        made.push_back(lowering.make(volume ? node.output(i) + "/image" : node.output(i), ElementType::f32,
                                     {dims[0], dims[1], 1, 1}, Layout::nhwc));
    lowering.add(node, {}, detail, {x}, made, ElementType::f32);
    for (std::size_t i = 0; volume && i < made.size(); ++i)
        lowering.make_alias(node.output(i), made[i], {dims[0], dims[1], 1, 1, 1}, Layout::nhwc);
    return {};
}

Result<void> reduce(Lowering& lowering, Node& node) {
    const std::string& x = node.input(0);
    const Shape dims = lowering.dims(x);
    const auto type = lowering.stored_type(lowering.type_of(x));
    if (!real(type)) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    Reduce detail;
    const std::string& name = node.op_type;
    detail.kind = name == "ReduceMean"   ? ReduceKind::mean
                  : name == "ReduceMax"  ? ReduceKind::max
                  : name == "ReduceMin"  ? ReduceKind::min
                  : name == "ReduceProd" ? ReduceKind::prod
                  : name == "ReduceL2"   ? ReduceKind::l2
                                         : ReduceKind::sum;
    std::vector<std::int64_t> axes;
    if (!node.input(1).empty()) {
        const auto given = lowering.constant(node.input(1));
        if (!given || given->tensor == nullptr) return Lowering::cannot(node, "its axes are not constant");
        axes = given->tensor->to_int64s();
    } else {
        axes = node.ints_or("axes", {});
    }
    if (axes.empty()) {
        if (node.int_or("noop_with_empty_axes", 0) != 0) return Lowering::cannot(node, "no axes");
        axes.resize(dims.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    std::vector<bool> gone(dims.size());
    for (const std::int64_t axis : axes) {
        const std::size_t at = axis_of(axis, dims.size());
        if (at >= dims.size()) return Lowering::cannot(node, "its axes");
        gone[at] = true;
    }
    const Shape out = lowering.dims(node.output(0));
    // The mean of an image's pixels is a pooling, in the layout that images have.
    if (dims.size() == 4 && !gone[0] && !gone[1] && gone[2] && gone[3] &&
        (detail.kind == ReduceKind::mean || detail.kind == ReduceKind::max)) {
        bool image = false;
        if (lowering.ready(x)) {
            for (const ValueId id : lowering.forms(x))
                image = image || lowering.value(id).layout == Layout::nhwc;
        }
        if (image) {
            LATHE_TRY(const ValueId from, lowering.want(x, *type, Layout::nhwc));
            GlobalPool pool;
            pool.average = detail.kind == ReduceKind::mean;
            const bool keeps = out.size() == 4;
            const std::string end = keeps ? node.output(0) : node.output(0) + "/pooled";
            const ValueId made = lowering.make(end, *type, {dims[0], dims[1], 1, 1}, Layout::nhwc);
            lowering.add(node, {}, pool, {from}, {made}, *type);
            if (!keeps) {
                LATHE_TRY(const ValueId flat, lowering.want(end, *type, Layout::linear));
                lowering.make_alias(node.output(0), flat, out, Layout::linear);
            }
            return {};
        }
    }
    // Axes of size 1 are neither here nor there; the others must lie together.
    std::size_t first = dims.size();
    std::size_t last = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (!gone[i] || dims[i] == 1) continue;
        first = std::min(first, i);
        last = i + 1;
    }
    if (first > last) first = last = dims.size();
    for (std::size_t i = first; i < last; ++i) {
        if (!gone[i] && dims[i] != 1) return Lowering::cannot(node, "axes that do not lie together");
    }
    detail.outer = product(dims, 0, first);
    detail.reduced = product(dims, first, last);
    detail.inner = product(dims, last, dims.size());
    LATHE_TRY(const ValueId from, lowering.want_linear(x));
    // Sums over many elements leave FP16's range.
    const ValueId made = lowering.make_result(node.output(0), ElementType::f32, Layout::linear);
    lowering.add(node, {}, detail, {from}, {made}, ElementType::f32);
    return {};
}

} // namespace

Result<bool> add_and_normalise(Lowering& lowering, Node& node) {
    const std::string& sum = node.output(0);
    const Shape dims = lowering.dims(sum);
    if (lowering.dims(node.input(0)) != dims || lowering.dims(node.input(1)) != dims) return false;
    if (lowering.constant(node.input(0)) || lowering.constant(node.input(1))) return false;
    if (!real(lowering.stored_type(lowering.type_of(sum)))) return false;
    for (Node* reader : lowering.uses().consumers(sum)) {
        if (lowering.is_done(reader) || reader->input(0) != sum) continue;
        const auto norm = norm_of(lowering, *reader);
        if (!norm) continue;
        LATHE_TRY(const ValueId x, lowering.want_linear(node.input(0)));
        LATHE_TRY(const ValueId residual, lowering.want_linear(node.input(1)));
        const bool others = lowering.uses().use_count(sum) > 1;
        LATHE_CHECK(emit_norm(lowering, *reader, *norm, x, residual, {&node}, others ? sum : ""));
        return true;
    }
    return false;
}

void add_normalization(LoweringTable& table) {
    table.emplace("Softmax", softmax);
    table.emplace("LogSoftmax", softmax);
    table.emplace("LayerNormalization", layer_norm);
    table.emplace("RMSNormalization", layer_norm);
    table.emplace("InstanceNormalization", instance_norm);
    table.emplace("GroupFactors", group_factors);
    for (const char* name : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"})
        table.emplace(name, reduce);
}

} // namespace lathe::cuda
