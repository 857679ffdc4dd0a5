#include <algorithm>
#include <numeric>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

bool arithmetic(std::optional<ElementType> type) { return type && (is_real(*type) || *type == ElementType::s8); }

std::int64_t columns(const Filter& filter, bool transposed) {
    const Shape& shape = filter.values.shape;
    return shape.size() == 1 ? 1 : transposed ? shape[0] : shape[1];
}

/// To [N][K], int8 as stored or dequantised; rows of `pitch` numbers, if that is given, with zeros behind.
Result<WeightId> pack_gemm(Lowering& lowering, const Product& product, ElementType type,
                           std::optional<std::int64_t> pitch = std::nullopt) {
    const bool raw = type == ElementType::s8;
    std::string key;
    for (const Filter& filter : product.filters)
        key +=
            (key.empty() ? "" : "+") + filter.values.key() + (filter.scales && !raw ? "*" + filter.scales->key() : "");
    key += std::string("|nk|") + (product.transposed ? "" : "t|") + to_string(type);
    const std::int64_t k = product.k, row = pitch.value_or(k);
    if (pitch) key += "|k" + std::to_string(row);
    return lowering.store(key, type, {product.n, row}, [&]() -> Result<std::vector<std::byte>> {
        std::vector<float> packed;
        packed.reserve(static_cast<std::size_t>(product.n * row));
        for (const Filter& filter : product.filters) {
            LATHE_TRY(const auto values, lowering.floats(filter.values));
            std::vector<float> scales;
            if (filter.scales && !raw) {
                LATHE_TRY(scales, lowering.floats(*filter.scales));
            }
            const std::int64_t n = columns(filter, product.transposed);
            const bool along_n = filter.axis == (product.transposed ? 0 : 1);
            for (std::int64_t in = 0; in < n; ++in) {
                for (std::int64_t ik = 0; ik < k; ++ik) {
                    float value = values[static_cast<std::size_t>(product.transposed ? in * k + ik : ik * n + in)];
                    if (!scales.empty()) {
                        value *= scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(along_n ? in : ik)];
                    }
                    packed.push_back(value);
                }
                packed.resize(packed.size() + static_cast<std::size_t>(row - k));
            }
        }
        return converted(packed, type, product.filters[0].values.name);
    });
}

/// The sum of the weights of each of a filter's columns, as stored.
Result<std::vector<double>> column_sums(const Lowering& lowering, const Product& product, const Filter& filter) {
    LATHE_TRY(const auto values, lowering.floats(filter.values));
    const auto n = static_cast<std::size_t>(columns(filter, product.transposed));
    const auto k = static_cast<std::size_t>(product.k);
    std::vector<double> sums(n, 0.0);
    for (std::size_t i = 0; i < n * k; ++i)
        sums[product.transposed ? i / k : i % n] += static_cast<double>(values[i]);
    return sums;
}

/// Scales along n for int8 products, if that is how the filter has them.
bool scales_along_n(const Filter& filter, bool transposed) {
    return filter.scales && (filter.scales->count() == 1 || filter.axis == (transposed ? 0 : 1));
}

} // namespace

//  x   w
//   \ /
//  product -> Add -> Relu -> ...   ==>   gemm [M,N] = [M,K] * [N,K]^T with epilogue
Result<void> emit_product(Lowering& lowering, Node& node, const Product& product) {
    const std::string& x = node.input(0);
    const auto storage = lowering.stored_type(lowering.type_of(x));
    if (!arithmetic(storage)) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    const bool int8 = lowering.quantised_form(x).has_value() &&
                      std::all_of(product.filters.begin(), product.filters.end(),
                                  [&](const Filter& filter) { return scales_along_n(filter, product.transposed); });
    const ElementType compute = int8 ? ElementType::s8 : *storage;
    LATHE_TRY(const ValueId in, lowering.want(x, compute, Layout::linear));

    Gemm detail;
    detail.n = product.n;
    detail.k = product.k;
    detail.m = product.k == 0 ? 0 : element_count(lowering.dims(x)) / product.k;
    Tail tail;
    tail.end = product.end;
    if (product.end.empty()) {
        const Shape& output = lowering.dims(node.output(0));
        tail = lowering.follow(node.output(0), output.empty() ? 0 : output.size() - 1);
    }
    tail.nodes.insert(tail.nodes.begin(), product.nodes.begin(), product.nodes.end());
    EpilogueRequest request;
    for (std::size_t i = 0; i < product.filters.size(); ++i) {
        EpilogueRequest::Part part;
        part.channels = columns(product.filters[i], product.transposed);
        if (int8) {
            part.scales = product.filters[i].scales;
            part.sums_key = product.filters[i].values.key() + (product.transposed ? "" : "t");
            part.sums = [&lowering, &product, i] { return column_sums(lowering, product, product.filters[i]); };
        }
        if (i < product.biases.size() && product.biases[i]) part.biases.push_back(*product.biases[i]);
        request.parts.push_back(std::move(part));
    }
    request.bias_factor = product.bias_factor;
    request.factor = product.alpha * (int8 ? lowering.value(in).scale : 1.0F);
    request.zero_point = int8 ? lowering.value(in).zero_point : 0;
    request.channels = product.n;
    request.padded = (product.n + 15) / 16 * 16;
    request.layout = Layout::linear;
    request.result = *storage;
    LATHE_TRY(const Finished finished, finish_epilogue(lowering, request, tail));
    detail.epilogue = finished.epilogue;
    LATHE_TRY(detail.weight, pack_gemm(lowering, product, compute));

    std::vector<ValueId> inputs{in};
    if (finished.residual != none) inputs.push_back(finished.residual);
    const bool free_type = finished.residual == none || lowering.value(finished.residual).type == ElementType::s8 ||
                           lowering.stored_type(lowering.type_of(tail.end)) == ElementType::f32;
    const Shape end = product.end.empty() ? lowering.dims(tail.end) : product.end_dims;
    const ValueId out =
        !tail.output_scale && free_type && product.end.empty()
            ? lowering.make_result(tail.end, finished.type, Layout::linear)
            : lowering.make(tail.end, finished.type, end, Layout::linear, tail.output_scale.value_or(1.0F));
    lowering.value(out).zero_point = tail.output_zero_point;
    const std::int64_t macs = detail.m * detail.n * detail.k;
    FusedOp& op = lowering.add(node, tail.nodes, detail, std::move(inputs), {out}, compute);
    op.macs = macs;
    op.tf32 = lowering.tf32() && compute == ElementType::f32;
    return {};
}

namespace {

Result<void> gemm(Lowering& lowering, Node& node) {
    if (node.int_or("transA", 0) != 0) return Lowering::cannot(node, "transA");
    const auto filter = lowering.filter(node.input(1));
    if (!filter || filter->values.shape.size() != 2) return Lowering::cannot(node, "its weights are not constant");
    Product product;
    product.transposed = node.int_or("transB", 0) != 0;
    product.filters = {*filter};
    product.n = columns(*filter, product.transposed);
    product.k = filter->values.count() / std::max<std::int64_t>(product.n, 1);
    product.alpha = node.float_or("alpha", 1);
    product.bias_factor = node.float_or("beta", 1);
    if (!node.input(2).empty()) {
        const auto bias = lowering.constant(node.input(2));
        const bool vector =
            bias && (bias->count() == 1 || (bias->shape.back() == product.n && bias->count() == product.n));
        if (!vector) return Lowering::cannot(node, "its third input is no constant along the columns");
        product.biases.push_back(*bias);
    }
    return emit_product(lowering, node, product);
}

/// An operand of a product of activations, in memory perhaps with its last two axes the other way round.
struct Operand {
    ValueId value = none;
    bool turned = false;
    bool image = false; ///< turned because it is an image, whose channels come last
};

/// Whether the node swaps the last two axes and no others.
bool swaps_last_axes(const Node& node, std::size_t rank) {
    if (!node.is("Transpose") || rank < 2) return false;
    std::vector<std::int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[rank - 1], order[rank - 2]);
    std::vector<std::int64_t> reversed(rank);
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return node.ints_or("perm", reversed) == order;
}

/// The value, read as it lies where that saves a transposition.
Result<Operand> operand(Lowering& lowering, const std::string& name) {
    const auto type = lowering.stored_type(lowering.type_of(name));
    if (!lowering.ready(name) || !type) {
        LATHE_TRY(const ValueId id, lowering.want_linear(name));
        return Operand{id};
    }
    const auto form = [&](const std::string& value, Layout layout) {
        const auto& all = lowering.forms(value);
        const auto found = std::find_if(all.begin(), all.end(), [&](ValueId id) {
            const Value& each = lowering.value(id);
            return each.type == *type && each.layout == layout && each.role != Role::output;
        });
        return found == all.end() ? none : *found;
    };
    const Node* producer = lowering.uses().producer(name);
    if (producer != nullptr && swaps_last_axes(*producer, lowering.dims(name).size()) &&
        lowering.ready(producer->input(0))) {
        if (const ValueId id = form(producer->input(0), Layout::linear); id != none) return Operand{id, true};
    }
    const Shape dims = lowering.dims(name);
    if (const ValueId id = form(name, Layout::nhwc); dims.size() == 3 && form(name, Layout::linear) == none &&
                                                     id != none && lowering.value(id).channel_stride == dims[1]) {
        const ValueId rows = lowering.make_alias(name + "/rows", id, {dims[0], dims[2], dims[1]}, Layout::linear);
        return Operand{rows, true, true};
    }
    LATHE_TRY(const ValueId id, lowering.want_linear(name));
    return Operand{id};
}

/// How many of the innermost axes of the batch have one right operand for all: [.., H, m, k] times [.., 1, k, n].
std::size_t axes_that_share(const Shape& a, const Shape& b) {
    if (a.size() != b.size()) return 0;
    std::size_t axes = 0;
    std::int64_t products = 1;
    for (std::size_t d = a.size() - 2; d-- > 0 && b[d] == 1; ++axes)
        products *= a[d];
    return products == 1 ? 0 : axes;
}

/// Matrices whose innermost `axes` of the batch are rows.
Shape with_rows(const Shape& dims, std::size_t axes) {
    const std::size_t outer = dims.size() - 2 - axes;
    Shape joined(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(outer));
    joined.push_back(element_count(Shape(dims.begin() + static_cast<std::ptrdiff_t>(outer), dims.end() - 1)));
    joined.push_back(dims.back());
    return joined;
}

/// An operand with as many matrices as the result, where it has some of them and not one for all: products walk over
/// their operands by one stride.
ValueId with_whole_batch(Lowering& lowering, const Node& node, ValueId id, const Shape& out, const char* side) {
    const Value from = lowering.value(id);
    const std::int64_t matrix = from.dims[from.dims.size() - 2] * from.dims.back();
    const std::int64_t batch = element_count(Shape(out.begin(), out.end() - 2));
    const std::int64_t own = matrix == 0 ? batch : element_count(from.dims) / matrix;
    if (own == batch || own == 1) return id;
    Shape dims(out.begin(), out.end() - 2);
    dims.insert(dims.end(), from.dims.end() - 2, from.dims.end());
    const ValueId whole = lowering.make(node.output(0) + side, from.type, std::move(dims), Layout::linear, from.scale);
    Pointwise copy;
    copy.code = {{PointOp::input}};
    copy.results = {0};
    lowering.add(node, {}, std::move(copy), {id}, {whole}, ElementType::f32);
    return whole;
}

//  MatMul of two activations. What a Transpose or an image's layout has turned is read as it lies. A product from the
//  left with an image of one dimension, [N, C, L], is an image again and gets its layout: its transposed is computed.
//  Queries of several heads times keys or values of one: the heads are further rows.
Result<void> batched(Lowering& lowering, Node& node) {
    Shape a = lowering.dims(node.input(0));
    const Shape b = lowering.dims(node.input(1));
    Shape out = lowering.dims(node.output(0));
    if (a.size() < 2 || b.size() < 2) return Lowering::cannot(node, "a vector times a matrix, neither constant");
    if (!arithmetic(lowering.stored_type(lowering.type_of(node.input(0))))) {
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.input(0))));
    }
    const std::size_t shared = axes_that_share(a, b);
    Operand left;
    if (shared == 0) {
        LATHE_TRY(left, operand(lowering, node.input(0)));
    } else {
        LATHE_TRY(left.value, lowering.want_linear(node.input(0)));
    }
    LATHE_TRY(Operand right, operand(lowering, node.input(1)));
    if (shared != 0) {
        a = with_rows(a, shared);
        out = with_rows(out, shared);
        left.value = lowering.make_alias(node.output(0) + "/a", left.value, a, Layout::linear);
        // Its axes that are shared have one element.
        Shape own = with_rows(lowering.value(right.value).dims, shared);
        right.value = lowering.make_alias(node.output(0) + "/b", right.value, std::move(own), Layout::linear);
    }
    BatchedGemm detail;
    detail.m = a[a.size() - 2];
    detail.k = a.back();
    detail.n = b.back();
    detail.batch = element_count(Shape(out.begin(), out.end() - 2));
    detail.transpose_a = left.turned;
    detail.transpose_b = right.turned;
    const ElementType type = lowering.value(left.value).type;
    const std::int64_t macs = detail.batch * detail.m * detail.n * detail.k;
    std::vector<ValueId> inputs{with_whole_batch(lowering, node, left.value, out, "/left"),
                                with_whole_batch(lowering, node, right.value, out, "/right")};
    const bool image = left.image && a.size() == 3 && b.size() == 3 && !lowering.graph().is_output(node.output(0)) &&
                       channel_stride(detail.m, type) == detail.m;
    if (image) {
        std::swap(inputs[0], inputs[1]);
        std::swap(detail.m, detail.n);
        detail.transpose_a = !right.turned;
        detail.transpose_b = !left.turned;
        std::swap(out[1], out[2]);
    }
    const bool seen_otherwise = image || shared != 0;
    const ValueId made = seen_otherwise ? lowering.make(node.output(0) + "/rows", type, out, Layout::linear)
                                        : lowering.make_result(node.output(0), type, Layout::linear);
    FusedOp& op = lowering.add(node, {}, detail, std::move(inputs), {made}, type);
    op.macs = macs;
    op.tf32 = lowering.tf32() && type == ElementType::f32;
    if (seen_otherwise) {
        lowering.make_alias(node.output(0), made, lowering.dims(node.output(0)), image ? Layout::nhwc : Layout::linear);
    }
    return {};
}

//  W^T x of each sample: x [B, S, C] -> [B, T, C] with weights [S, T]. Their rows are padded to what kernels load at
//  once.
Result<void> product_of_columns(Lowering& lowering, Node& node) {
    const auto filter = lowering.filter(node.input(1));
    const Shape dims = lowering.dims(node.input(0));
    if (!filter || filter->values.shape.size() != 2) return Lowering::cannot(node, "its weights are not constant");
    LATHE_TRY(const ValueId x, lowering.want_linear(node.input(0)));
    const ElementType type = lowering.value(x).type;
    Product product;
    product.filters = {*filter};
    product.k = filter->values.shape[0];
    product.n = filter->values.shape[1];
    BatchedGemm detail;
    detail.batch = dims[0];
    detail.m = product.n;
    detail.n = dims[2];
    detail.k = product.k;
    detail.a_pitch = (product.k + 7) / 8 * 8;
    LATHE_TRY(const WeightId weight, pack_gemm(lowering, product, type, detail.a_pitch));
    const ValueId left = lowering.stored_value(weight);
    const ValueId made = lowering.make_result(node.output(0), type, Layout::linear);
    FusedOp& op = lowering.add(node, {}, detail, {left, x}, {made}, type);
    op.macs = detail.batch * detail.m * detail.n * detail.k;
    op.tf32 = lowering.tf32() && type == ElementType::f32;
    return {};
}

/// What spelled_attention.cpp makes of products of one input: weights side by side, then biases if there are any.
Result<void> joined_products(Lowering& lowering, Node& node) {
    const auto count = static_cast<std::size_t>(node.int_or("products", 0));
    Product product;
    for (std::size_t i = 1; i <= count; ++i) {
        const auto filter = lowering.filter(node.input(i));
        if (!filter) return Lowering::cannot(node, "its weights are not constant");
        product.filters.push_back(*filter);
        product.k = filter->values.shape[0];
        product.n += columns(*filter, false);
        if (node.inputs.size() > count + 1) product.biases.push_back(lowering.constant(node.input(count + i)));
    }
    return emit_product(lowering, node, product);
}

Result<void> matmul(Lowering& lowering, Node& node) {
    LATHE_TRY(const bool taken, attention(lowering, node));
    if (taken) return {};
    LATHE_TRY(const bool merged, merged_product(lowering, node));
    if (merged) return {};
    const auto filter = lowering.filter(node.input(1));
    const Shape a = lowering.dims(node.input(0));
    if (!filter || filter->values.shape.size() > 2 || filter->values.shape.empty() || a.empty()) {
        return batched(lowering, node);
    }
    Product product;
    product.filters = {*filter};
    product.k = filter->values.shape[0];
    product.n = columns(*filter, false);
    return emit_product(lowering, node, product);
}

} // namespace

void add_gemm(LoweringTable& table) {
    table.emplace("ColumnsProduct", product_of_columns);
    table.emplace("JoinedProducts", joined_products);
    table.emplace("Gemm", gemm);
    table.emplace("MatMul", matmul);
}

} // namespace lathe::cuda
