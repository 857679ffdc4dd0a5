#include <algorithm>
#include <cmath>
#include <map>

#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

const std::vector<std::int64_t> heads_first{0, 2, 1, 3};
const std::vector<std::int64_t> keys_last{0, 2, 3, 1};

/// One operand of an attention: a value [B, S, H, D] behind Transpose and perhaps a factor.
struct Operand {
    std::string value; ///< [B, S, H, D]
    double factor = 1;
    std::vector<Node*> nodes; ///< that the attention stands for
    bool shared = false;      ///< others read it turned, too: their Transpose stays
};

} // namespace

struct Found {
    Operand q, k, v;
    std::string mask;
    double scale = 1;
    std::vector<Node*> nodes;
    std::string end;                   ///< [B, S, H, D], or the same numbers under other sizes
    std::optional<float> output_scale; ///< `end` is then int8
    std::string packed;                ///< name of the merged product's value; "" if q, k and v are separate
};
struct AttentionPlans {
    std::map<const Node*, Found> by_last;                   ///< by the product with the values
    std::map<const Node*, std::shared_ptr<Product>> merged; ///< by each of the merged products
};

namespace {

/// The other operand of an operation with a scalar constant, and that constant.
std::optional<std::pair<std::string, double>> scaled(const Lowering& lowering, const Node& node) {
    if (node.is("Mul") || node.is("Div")) {
        if (const auto right = lowering.scalar(node.input(1)); right && *right != 0) {
            const auto factor = static_cast<double>(*right);
            return std::pair{node.input(0), node.is("Mul") ? factor : 1 / factor};
        }
        if (const auto left = lowering.scalar(node.input(0)); left && node.is("Mul")) {
            return std::pair{node.input(1), static_cast<double>(*left)};
        }
    }
    return std::nullopt;
}

/// Looks back from an operand of a product: [Mul const] <- Transposes that make `order`. A Transpose may have other
/// readers: a decoder's keys and values are outputs as well.
std::optional<Operand> operand(const Lowering& lowering, std::string value, const Node& reader,
                               const std::vector<std::int64_t>& order) {
    Operand found;
    const Node* expected = &reader;
    std::vector<std::int64_t> turned{0, 1, 2, 3};
    for (int step = 0; step < 3; ++step) {
        Node* producer = lowering.uses().producer(value);
        if (producer == nullptr) return std::nullopt;
        found.shared |= lowering.only_reader(value) != expected;
        if (!found.shared) found.nodes.push_back(producer);
        expected = producer;
        if (producer->is("Transpose")) {
            const auto perm = producer->ints_or("perm", {});
            if (perm.size() != 4) return std::nullopt;
            for (std::int64_t& axis : turned)
                axis = perm[static_cast<std::size_t>(axis)];
            value = producer->input(0);
            if (turned != order) continue;
            found.value = value;
            return found;
        }
        const auto factor = scaled(lowering, *producer);
        if (!factor || found.shared) return std::nullopt;
        found.factor *= factor->second;
        value = factor->first;
    }
    return std::nullopt;
}

//  MatMul -> Quantize -> Dequantize -> Transpose -> Reshape      (the quantiser moves the pair before the Transpose)
//  MatMul -> Transpose [-> Reshape] -> Quantize                  (others leave it before the next product)
/// What follows the product with the values: where the attention ends, and in which scale if in int8.
bool match_end(const Lowering& lowering, const Node& last, Found& found) {
    const auto only = [&](const std::string& value, const char* type) {
        Node* node = lowering.only_reader(value);
        return node != nullptr && node->is(type) && node->input(0) == value ? node : nullptr;
    };
    std::string end = last.output(0);
    if (Node* quantise = only(end, "QuantizeLinear")) {
        Node* back = only(quantise->output(0), "DequantizeLinear");
        found.output_scale = lowering.symmetric_scale(*quantise);
        if (back == nullptr || !found.output_scale || lowering.symmetric_scale(*back) != found.output_scale) {
            return false;
        }
        found.nodes.insert(found.nodes.end(), {quantise, back});
        end = back->output(0);
    }
    Node* turned = only(end, "Transpose");
    if (turned == nullptr || turned->ints_or("perm", {}) != heads_first) return false;
    found.nodes.push_back(turned);
    found.end = turned->output(0);
    if (found.output_scale) return true;
    Node* joined = only(found.end, "Reshape");
    Node* quantise = only(joined == nullptr ? found.end : joined->output(0), "QuantizeLinear");
    if (quantise == nullptr || !lowering.symmetric_scale(*quantise)) return true;
    if (joined != nullptr) found.nodes.push_back(joined);
    found.nodes.push_back(quantise);
    found.output_scale = lowering.symmetric_scale(*quantise);
    found.end = quantise->output(0);
    return true;
}

/// From the Softmax backwards to the scores' product, and forwards to the end.
std::optional<Found> match(const Lowering& lowering, Node& softmax, Node*& last) {
    const Shape scores = lowering.dims(softmax.input(0));
    const std::int64_t axis = softmax.int_or("axis", lowering.opset() < 13 ? 1 : -1);
    if (scores.size() != 4 || (axis != -1 && axis != 3)) return std::nullopt;
    Found found;
    found.nodes.push_back(&softmax);
    std::string value = softmax.input(0);
    const Node* reader = &softmax;
    Node* producer = lowering.uses().producer(value);
    const auto only = [&] { return producer != nullptr && lowering.only_reader(value) == reader; };
    if (!only()) return std::nullopt;
    if (producer->is("Add")) {
        // The scores come from a product, the mask does not.
        const auto from_product = [&](const std::string& name) {
            const Node* node = lowering.uses().producer(name);
            if (node != nullptr) {
                if (const auto factor = scaled(lowering, *node)) node = lowering.uses().producer(factor->first);
            }
            return node != nullptr && node->is("MatMul");
        };
        const bool first = from_product(producer->input(0));
        if (!first && !from_product(producer->input(1))) return std::nullopt;
        found.mask = producer->input(first ? 1 : 0);
        found.nodes.push_back(producer);
        value = producer->input(first ? 0 : 1);
        reader = producer;
        producer = lowering.uses().producer(value);
        if (!only()) return std::nullopt;
    }
    if (const auto factor = scaled(lowering, *producer)) {
        found.scale = factor->second;
        found.nodes.push_back(producer);
        value = factor->first;
        reader = producer;
        producer = lowering.uses().producer(value);
        if (!only()) return std::nullopt;
    }
    if (!producer->is("MatMul")) return std::nullopt;
    Node& product = *producer;
    found.nodes.push_back(&product);
    auto q = operand(lowering, product.input(0), product, heads_first);
    auto k = operand(lowering, product.input(1), product, keys_last);
    last = lowering.only_reader(softmax.output(0));
    if (!q || !k || last == nullptr || !last->is("MatMul") || last->input(0) != softmax.output(0)) return std::nullopt;
    auto v = operand(lowering, last->input(1), *last, heads_first);
    if (!v || v->factor != 1 || !match_end(lowering, *last, found)) return std::nullopt;
    found.q = std::move(*q);
    found.k = std::move(*k);
    found.v = std::move(*v);
    found.scale *= found.q.factor * found.k.factor;
    for (const Operand* part : {&found.q, &found.k, &found.v})
        found.nodes.insert(found.nodes.end(), part->nodes.begin(), part->nodes.end());
    // Sizes as kernels take them.
    const Shape a = lowering.dims(found.q.value);
    const Shape b = lowering.dims(found.k.value);
    if (b != lowering.dims(found.v.value) || a[0] != b[0] || a[2] != b[2] || a[3] != b[3] || a[3] > 256) {
        return std::nullopt;
    }
    const auto type = lowering.stored_type(lowering.type_of(found.q.value));
    // In f32 few kernels are as fast as two products and a softmax, and none for a few rows.
    const bool exact = type == ElementType::f32 && (a[3] == 32 || a[3] == 64) && a[1] >= 16;
    if (type != ElementType::f16 && type != ElementType::bf16 && !exact) return std::nullopt;
    if (!found.mask.empty()) {
        Shape mask = lowering.dims(found.mask);
        if (mask.size() > 4 || !is_floating(lowering.type_of(found.mask))) return std::nullopt;
        mask.insert(mask.begin(), 4 - mask.size(), 1);
        const bool fits =
            (mask[0] == 1 || mask[0] == a[0]) && mask[1] == 1 && (mask[2] == 1 || mask[2] == a[1]) && mask[3] == b[1];
        if (!fits) return std::nullopt;
    }
    return found;
}

/// What makes an operand: MatMul(x, w) [-> Add(bias)] -> Reshape [B, S, H, D], each read once.
struct Projection {
    Node* product = nullptr;
    Filter filter;
    std::optional<Constant> bias;
    std::vector<Node*> nodes; ///< behind the product
};
std::optional<Projection> projection(const Lowering& lowering, const Operand& operand, const Node& reader) {
    Projection found;
    std::string value = operand.value;
    const Node* expected = &reader;
    Node* producer = lowering.uses().producer(value);
    const auto only = [&] { return producer != nullptr && lowering.only_reader(value) == expected; };
    if (!only() || !producer->is("Reshape")) return std::nullopt;
    found.nodes.push_back(producer);
    value = producer->input(0);
    expected = producer;
    producer = lowering.uses().producer(value);
    if (!only()) return std::nullopt;
    if (producer->is("Add")) {
        const auto right = lowering.constant(producer->input(1));
        const auto left = lowering.constant(producer->input(0));
        if (!right && !left) return std::nullopt;
        found.bias = right ? right : left;
        found.nodes.push_back(producer);
        value = producer->input(right ? 0 : 1);
        expected = producer;
        producer = lowering.uses().producer(value);
        if (!only()) return std::nullopt;
    }
    if (!producer->is("MatMul")) return std::nullopt;
    const auto filter = lowering.filter(producer->input(1));
    if (!filter || filter->values.shape.size() != 2) return std::nullopt;
    const std::int64_t n = filter->values.shape[1];
    if (found.bias && found.bias->count() != n && found.bias->count() != 1) return std::nullopt;
    // [B, S, H*D] to [B, S, H, D]
    const Shape& before = lowering.dims(value);
    const Shape& after = lowering.dims(operand.value);
    if (before.size() != 3 || before[0] != after[0] || before[1] != after[1]) return std::nullopt;
    found.product = producer;
    found.filter = *filter;
    return found;
}

//  x -> MatMul q, MatMul k, MatMul v   ==>   x -> gemm [B, S, 3, H, D]
std::shared_ptr<Product> merge(const Lowering& lowering, Found& found) {
    std::vector<Projection> parts;
    for (const Operand* part : {&found.q, &found.k, &found.v}) {
        if (part->shared) return nullptr;
        auto made = projection(lowering, *part, *part->nodes.back());
        if (!made) return nullptr;
        parts.push_back(std::move(*made));
    }
    const Filter& first = parts[0].filter;
    auto product = std::make_shared<Product>();
    for (const Projection& part : parts) {
        const bool alike =
            part.product->input(0) == parts[0].product->input(0) && part.filter.values.shape == first.values.shape &&
            part.filter.scales.has_value() == first.scales.has_value() && part.filter.values.type == first.values.type;
        if (!alike) return nullptr;
        product->filters.push_back(part.filter);
        product->biases.push_back(part.bias);
        product->nodes.push_back(part.product);
        product->nodes.insert(product->nodes.end(), part.nodes.begin(), part.nodes.end());
    }
    // A copy: values move as others are added.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const Shape dims = lowering.dims(found.q.value);
    product->k = first.values.shape[0];
    product->n = 3 * first.values.shape[1];
    product->end = found.end + "/qkv";
    product->end_dims = {dims[0], dims[1], 3, dims[2], dims[3]};
    found.packed = product->end;
    return product;
}

} // namespace

void find_attention(Lowering& lowering) {
    auto plans = std::make_shared<AttentionPlans>();
    for (const auto& node : lowering.graph().nodes) {
        if (!node->is("Softmax")) continue;
        Node* last = nullptr;
        auto found = match(lowering, *node, last);
        if (!found) continue;
        if (const auto product = merge(lowering, *found)) {
            for (Node* each : product->nodes) {
                if (each->is("MatMul")) plans->merged[each] = product;
            }
        }
        plans->by_last.emplace(last, std::move(*found));
    }
    // What is between is marked only now: matching looks at readers that are not taken yet.
    for (const auto& [last, found] : plans->by_last) {
        for (const Node* node : found.nodes)
            lowering.mark(node);
    }
    for (const auto& [node, product] : plans->merged) {
        for (const Node* each : product->nodes) {
            if (!each->is("MatMul")) lowering.mark(each);
        }
    }
    lowering.set_attentions(std::move(plans));
}

Result<bool> merged_product(Lowering& lowering, Node& node) {
    const auto found = lowering.attentions().merged.find(&node);
    if (found == lowering.attentions().merged.end()) return false;
    LATHE_CHECK(emit_product(lowering, node, *found->second));
    return true;
}

//  q -> Transpose \                                     q, k, v [, mask]
//                  MatMul -> Div -> Add mask                  |
//  k -> Transpose /                   |        ==>        Attention
//                                  Softmax                    |
//  v -> Transpose ---------------- MatMul                [B, S, H, D]
//                                     |
//                                 Transpose
//
// Both exports: the scores divided by sqrt(D), or q and k each multiplied by D^-1/4.
Result<bool> attention(Lowering& lowering, Node& node) {
    const auto at = lowering.attentions().by_last.find(&node);
    if (at == lowering.attentions().by_last.end()) return false;
    const Found& found = at->second;
    const Shape q = lowering.dims(found.q.value);
    const Shape k = lowering.dims(found.k.value);
    const ElementType type = *lowering.stored_type(lowering.type_of(found.q.value));
    Attention detail;
    detail.batch = q[0];
    detail.q_len = q[1];
    detail.kv_len = k[1];
    detail.heads = q[2];
    detail.depth = q[3];
    detail.scale = static_cast<float>(found.scale);
    detail.packed = !found.packed.empty();
    detail.masked = !found.mask.empty();
    std::vector<ValueId> inputs;
    if (detail.packed) {
        inputs = lowering.forms(found.packed);
    } else {
        for (const Operand* part : {&found.q, &found.k, &found.v}) {
            LATHE_TRY(const ValueId id, lowering.want(part->value, type, Layout::linear));
            inputs.push_back(id);
        }
    }
    if (inputs.empty()) return Lowering::cannot(node, "its projections are not made");
    if (detail.masked) {
        LATHE_TRY(ValueId mask, lowering.want(found.mask, type, Layout::linear));
        Shape dims = lowering.dims(found.mask);
        if (dims.size() < 4) {
            dims.insert(dims.begin(), 4 - dims.size(), 1);
            if (lowering.value(mask).role == Role::constant)
                return Lowering::cannot(node, "a constant mask of rank below 4");
            mask = lowering.make_alias(found.mask + "/rank4", mask, dims, Layout::linear);
        }
        inputs.push_back(mask);
    }
    const std::int64_t macs = 2 * detail.batch * detail.heads * detail.q_len * detail.kv_len * detail.depth;
    const ValueId out = lowering.make(found.end, found.output_scale ? ElementType::s8 : type, lowering.dims(found.end),
                                      Layout::linear, found.output_scale.value_or(1.0F));
    FusedOp& op = lowering.add(node, found.nodes, detail, std::move(inputs), {out}, type);
    op.macs = macs;
    op.tf32 = lowering.tf32() && type == ElementType::f32;
    return true;
}

} // namespace lathe::cuda
