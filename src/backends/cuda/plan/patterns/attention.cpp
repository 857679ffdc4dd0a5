#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "backends/cuda/plan/patterns/head_view.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

const std::vector<std::int64_t> heads_first{0, 2, 1, 3};

} // namespace

struct Found {
    HeadOperand q, k, v;
    HeadSizes queries, keys, values;
    std::vector<std::string> masks;
    double scale = 1;
    bool causal = false, empty_is_zero = false;
    std::vector<Node*> nodes;
    std::string end;                   ///< where the result goes
    HeadView out;                      ///< how it lies there; all 0: [B, S, H, D]
    std::optional<float> output_scale; ///< `end` is then int8
    bool turned = false;               ///< the values' product gives [B, H, D, S]
    bool image = false;                ///< `end` is an image of them: its channels are heads' numbers, pixels rows
    std::string packed;                ///< name of the merged product's value; "" if q, k and v are separate
};
struct AttentionPlans {
    std::map<const Node*, Found> by_last;                   ///< by the product with the values
    std::map<const Node*, std::shared_ptr<Product>> merged; ///< by each of the merged products
};

namespace {

//  MatMul -> Quantize -> Dequantize -> Transpose -> Reshape      (the quantiser moves the pair before the Transpose)
//  MatMul -> Transpose [-> Reshape] -> Quantize                  (others leave it before the next product)
/// What follows the product with the values: where the attention ends, and in which scale if in int8.
void match_end(const Lowering& lowering, const Node& last, Found& found) {
    const auto only = [&](const std::string& value, const char* type) {
        Node* node = lowering.only_reader(value);
        return node != nullptr && node->is(type) && node->input(0) == value ? node : nullptr;
    };
    found.end = last.output(0);
    std::vector<Node*> nodes;
    std::optional<float> scale;
    std::string end = found.end;
    if (Node* quantise = only(end, "QuantizeLinear")) {
        Node* back = only(quantise->output(0), "DequantizeLinear");
        scale = lowering.symmetric_scale(*quantise);
        if (back != nullptr && scale && lowering.symmetric_scale(*back) == scale) {
            nodes = {quantise, back};
            end = back->output(0);
        } else {
            scale.reset();
        }
    }
    // As it lies without a Transpose: heads before rows.
    const HeadSizes& q = found.queries;
    const std::int64_t width = found.values.depth, head = q.rows * width;
    found.out = {0, q.heads * head, width, head};
    Node* turned = only(end, "Transpose");
    if (turned == nullptr || lowering.dims(end).size() != 4) return;
    const auto order = turned->ints_or("perm", {});
    if (order.size() != 4 || order[3] != 3) return;
    if (order != heads_first) {
        if (scale) return;
        const Shape& to = lowering.dims(turned->output(0));
        HeadView view;
        std::int64_t stride = to[3];
        for (std::size_t i = 3; i-- > 0; stride *= to[i])
            (order[i] == 0 ? view.batch : order[i] == 1 ? view.head : view.row) = stride;
        found.out = view;
        found.nodes.push_back(turned);
        found.end = turned->output(0);
        return;
    }
    found.out = {};
    found.nodes.insert(found.nodes.end(), nodes.begin(), nodes.end());
    found.nodes.push_back(turned);
    found.end = turned->output(0);
    found.output_scale = scale;
    if (scale) return;
    Node* joined = only(found.end, "Reshape");
    Node* quantise = only(joined == nullptr ? found.end : joined->output(0), "QuantizeLinear");
    if (quantise == nullptr || !lowering.symmetric_scale(*quantise)) return;
    if (joined != nullptr) found.nodes.push_back(joined);
    found.nodes.push_back(quantise);
    found.output_scale = lowering.symmetric_scale(*quantise);
    found.end = quantise->output(0);
}

//  Transpose(Softmax) \                                  MatMul [B, H, D, S] -> Reshape [B, H * D, h, w]
//  v [B, H, D, S] ------ MatMul [B, H, D, S]     or       MatMul [B, D, S]
//                                                or       MatMul [B, H, D, S] -> Transpose [B, S, H, D]
/// What follows a product that gives channels before rows: nothing is moved if its end is an image, whose channels lie
/// side by side, or what turns it. False for other ends.
bool match_turned_end(const Lowering& lowering, const Node& last, Found& found) {
    found.end = last.output(0);
    const HeadSizes& q = found.queries;
    const std::int64_t channels = q.heads * found.values.depth;
    const auto is_image = [&](const std::string& value) {
        const Shape& dims = lowering.dims(value);
        return dims.size() >= 3 && dims.size() <= 5 && dims[0] == q.batch && dims[1] == channels && q.rows > 1 &&
               channels % 16 == 0 && element_count(dims) == q.batch * channels * q.rows &&
               lowering.uses().use_count(value) == lowering.uses().consumers(value).size();
    };
    Node* next = lowering.only_reader(found.end);
    if (next != nullptr && next->is("Transpose") &&
        next->ints_or("perm", {}) == std::vector<std::int64_t>{0, 3, 1, 2}) {
        found.nodes.push_back(next);
        found.end = next->output(0);
        return true;
    }
    if (next != nullptr && next->is("Reshape") && next->input(0) == found.end && is_image(next->output(0))) {
        found.nodes.push_back(next);
        found.end = next->output(0);
        return found.image = true;
    }
    return found.image = q.heads == 1 && lowering.dims(found.end).size() == 3 && is_image(found.end);
}

/// Whether the scores of a product come this way: through sums, factors and other sizes.
bool leads_to_product(const Lowering& lowering, const std::string& value, int depth = 6) {
    const Node* node = lowering.uses().producer(value);
    if (node == nullptr || depth == 0) return false;
    if (node->is("MatMul")) return !lowering.constant(node->input(0)) && !lowering.constant(node->input(1));
    if (const auto factor = scaled_by(lowering, *node)) return leads_to_product(lowering, factor->first, depth - 1);
    if (node->is("Reshape")) return leads_to_product(lowering, node->input(0), depth - 1);
    if (!node->is("Add")) return false;
    return leads_to_product(lowering, node->input(0), depth - 1) ||
           leads_to_product(lowering, node->input(1), depth - 1);
}

/// 0 where key j <= row i + keys - rows, else so low that nothing of a score is left: a small constant that says so.
bool is_causal_mask(const Lowering& lowering, const std::string& mask, const HeadSizes& q, const HeadSizes& k) {
    const auto fixed = lowering.constant(mask);
    if (!fixed || fixed->large || fixed->tensor == nullptr || fixed->count() != q.rows * k.rows || k.rows < q.rows)
        return false;
    const auto values = fixed->tensor->to_floats();
    for (std::int64_t i = 0; i < q.rows; ++i) {
        for (std::int64_t j = 0; j < k.rows; ++j) {
            const float value = values[static_cast<std::size_t>(i * k.rows + j)];
            if (j <= i + k.rows - q.rows ? value != 0 : !(value <= -1e9F)) return false;
        }
    }
    return true;
}

/// The mask before it was repeated over heads or rows.
std::string unrepeated(const Lowering& lowering, std::string mask) {
    for (const Node* node = lowering.uses().producer(mask); node != nullptr && node->is("Expand");
         node = lowering.uses().producer(mask)) {
        if (lowering.dims(node->input(0)).size() != lowering.dims(mask).size()) break;
        mask = node->input(0);
    }
    return mask;
}

/// From the Softmax backwards to the scores' product: masks, factors.
Node* match_scores(const Lowering& lowering, const Node& softmax, std::int64_t heads, Found& found) {
    std::string value = softmax.input(0);
    const Node* reader = &softmax;
    for (int step = 0; step < 8; ++step) {
        Node* producer = lowering.uses().producer(value);
        if (producer == nullptr || lowering.only_reader(value) != reader) return nullptr;
        found.nodes.push_back(producer);
        reader = producer;
        if (producer->is("MatMul")) return producer;
        if (producer->is("Add")) {
            const bool first = leads_to_product(lowering, producer->input(0));
            if (first == leads_to_product(lowering, producer->input(1))) return nullptr;
            value = producer->input(first ? 0 : 1);
            if (lowering.dims(value) != lowering.dims(producer->output(0)) || found.masks.size() == 2) return nullptr;
            // A factor between the product and the mask is the scores' own; one behind the mask is not taken.
            const Shape& sum = lowering.dims(value);
            if (found.scale != 1 || (sum.size() > 3 ? sum[sum.size() - 3] != heads : heads != 1)) return nullptr;
            found.masks.push_back(unrepeated(lowering, producer->input(first ? 1 : 0)));
        } else if (producer->is("Reshape")) {
            value = producer->input(0); // windows apart and together again: the last two sizes stay
            const Shape& before = lowering.dims(value);
            const Shape& after = lowering.dims(producer->output(0));
            if (before.size() < 3 || after.size() < 3 || !std::equal(before.end() - 2, before.end(), after.end() - 2))
                return nullptr;
        } else if (const auto factor = scaled_by(lowering, *producer)) {
            found.scale *= factor->second;
            value = factor->first;
        } else {
            return nullptr;
        }
    }
    return nullptr;
}

/// The product with the values behind the Softmax; between them perhaps what makes NaN of empty rows 0.
Node* match_values(const Lowering& lowering, const Node& softmax, Found& found) {
    const std::string& weights = softmax.output(0);
    Node* last = lowering.only_reader(weights);
    const auto& readers = lowering.uses().consumers(weights);
    if (last == nullptr && readers.size() == 2 && lowering.uses().use_count(weights) == 2) {
        Node* test = readers[0]->is("IsNaN") ? readers[0] : readers[1];
        Node* choice = readers[0]->is("IsNaN") ? readers[1] : readers[0];
        if (!test->is("IsNaN") || !choice->is("Where") || lowering.only_reader(test->output(0)) != choice ||
            choice->input(0) != test->output(0) || lowering.scalar(choice->input(1)) != 0.0F)
            return nullptr;
        found.empty_is_zero = true;
        found.nodes.insert(found.nodes.end(), {test, choice});
        last = lowering.only_reader(choice->output(0));
        return last != nullptr && last->is("MatMul") && last->input(0) == choice->output(0) ? last : nullptr;
    }
    if (last != nullptr && last->is("Transpose")) {
        auto order = last->ints_or("perm", {});
        if (order.size() < 3) return nullptr;
        std::swap(order[order.size() - 2], order[order.size() - 1]);
        Node* product = lowering.only_reader(last->output(0));
        if (!std::ranges::is_sorted(order) || product == nullptr || !product->is("MatMul") ||
            product->input(1) != last->output(0) || product->input(0) == last->output(0))
            return nullptr;
        found.turned = true;
        found.nodes.push_back(last);
        return product;
    }
    return last != nullptr && last->is("MatMul") && last->input(0) == weights ? last : nullptr;
}

/// Kernels of f32 are few, and made for encoders.
bool fits_fp32(const Lowering& lowering, const Found& found) {
    const bool plain = !found.empty_is_zero && found.masks.size() <= 1 && found.queries.heads == found.keys.heads &&
                       (found.queries.depth == 32 || found.queries.depth == 64) && found.queries.rows >= 16 &&
                       found.values.depth == found.queries.depth;
    if (!plain) return false;
    if (found.masks.empty()) return true;
    Shape mask = lowering.dims(found.masks[0]);
    mask.insert(mask.begin(), 4 - std::min<std::size_t>(4, mask.size()), 1);
    return mask.size() == 4 && mask[1] == 1;
}

/// Of masks and sizes that were looked at: layers share them.
using CausalMasks = std::map<std::tuple<std::string, std::int64_t, std::int64_t>, bool>;

std::optional<Found> match(const Lowering& lowering, Node& softmax, Node*& last, CausalMasks& masks) {
    const Shape& scores = lowering.dims(softmax.input(0));
    const auto rank = static_cast<std::int64_t>(scores.size());
    const std::int64_t axis = softmax.int_or("axis", lowering.opset() < 13 ? 1 : -1);
    if ((rank != 3 && rank != 4) || (axis != -1 && axis != rank - 1)) return std::nullopt;
    Found found;
    found.nodes.push_back(&softmax);
    const Node* product = match_scores(lowering, softmax, rank == 4 ? scores[1] : 1, found);
    if (product == nullptr) return std::nullopt;
    last = match_values(lowering, softmax, found);
    const Shape& left = lowering.dims(product->input(0));
    if (last == nullptr || left.size() < 3 || left.size() != lowering.dims(product->input(1)).size() ||
        lowering.dims(product->output(0)) != scores || lowering.dims(last->output(0)).size() != scores.size())
        return std::nullopt;
    const std::int64_t heads = rank == 4 ? scores[1] : 1;
    found.queries = {scores[0], heads, scores[scores.size() - 2], left.back()};
    found.keys = {scores[0], heads, scores.back(), left.back()};
    found.values = found.keys;
    const Shape& result = lowering.dims(last->output(0));
    found.values.depth = found.turned ? result[result.size() - 2] : result.back();
    if (std::max(found.values.depth, left.back()) > 256 || element_count(scores) == 0 || found.values.depth == 0 ||
        element_count(left) != element_count(scores) / scores.back() * left.back())
        return std::nullopt;
    found.q = see_heads(lowering, product->input(0), *product, found.queries, HeadRole::queries, true);
    found.k = see_heads(lowering, product->input(1), *product, found.keys, HeadRole::keys, true);
    found.v = see_heads(lowering, last->input(found.turned ? 0 : 1), *last, found.values,
                        found.turned ? HeadRole::turned_values : HeadRole::values, true);
    if (found.q.places.empty() || found.k.places.empty() || found.v.places.empty()) return std::nullopt;
    found.keys.heads = found.k.places.back().heads;
    const auto type = lowering.stored_type(lowering.type_of(softmax.input(0)));
    const bool half = type == ElementType::f16 || type == ElementType::bf16;
    if (!half && (type != ElementType::f32 || !fits_fp32(lowering, found))) return std::nullopt;
    Attention detail;
    detail.batch = found.queries.batch;
    detail.heads = heads;
    detail.q_len = found.queries.rows;
    detail.kv_len = found.keys.rows;
    for (const std::string& mask : found.masks) {
        if (!is_floating(lowering.type_of(mask)) || !mask_view(detail, lowering.dims(mask))) return std::nullopt;
    }
    const auto causal = std::find_if(found.masks.begin(), found.masks.end(), [&](const std::string& mask) {
        if (!half) return false;
        const auto [known, added] = masks.try_emplace({mask, found.queries.rows, found.keys.rows}, false);
        if (added) known->second = is_causal_mask(lowering, mask, found.queries, found.keys);
        return known->second;
    });
    if (causal != found.masks.end()) {
        found.causal = true;
        found.masks.erase(causal);
    }
    // Without a mask every row reads a key.
    if (found.masks.empty()) found.empty_is_zero = false;
    if (!found.turned)
        match_end(lowering, *last, found);
    else if (!match_turned_end(lowering, *last, found))
        return std::nullopt;
    return found;
}

/// What makes an operand: MatMul(x, w) [-> Add(bias)] [-> Mul by a number] -> Reshape [B, S, H, D], each read once.
struct Projection {
    Node* product = nullptr;
    Filter filter;
    std::optional<Constant> bias;
    double factor = 1;
    std::vector<Node*> nodes; ///< behind the product
};
std::optional<Projection> projection(const Lowering& lowering, const HeadOperand& operand, const Node& reader) {
    Projection found;
    std::string value = operand.rows;
    const Node* expected = &reader;
    Node* producer = lowering.uses().producer(value);
    const auto only = [&] { return producer != nullptr && lowering.only_reader(value) == expected; };
    if (!only() || !producer->is("Reshape")) return std::nullopt;
    found.nodes.push_back(producer);
    value = producer->input(0);
    expected = producer;
    producer = lowering.uses().producer(value);
    if (!only()) return std::nullopt;
    if (const auto scaled = scaled_by(lowering, *producer);
        scaled && lowering.dims(scaled->first) == lowering.dims(value)) {
        found.factor = scaled->second;
        found.nodes.push_back(producer);
        value = scaled->first;
        expected = producer;
        producer = lowering.uses().producer(value);
        if (!only()) return std::nullopt;
    }
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
    const Shape& after = lowering.dims(operand.rows);
    if (before.size() != 3 || before[0] != after[0] || before[1] != after[1]) return std::nullopt;
    found.product = producer;
    found.filter = *filter;
    return found;
}

//  x -> MatMul q, MatMul k, MatMul v   ==>   x -> gemm [B, S, 3, H, D]
std::shared_ptr<Product> merge(const Lowering& lowering, Found& found) {
    std::vector<Projection> parts;
    for (const HeadOperand* part : {&found.q, &found.k, &found.v}) {
        if (part->rows.empty() || part->nodes.empty()) return nullptr;
        auto made = projection(lowering, *part, *part->nodes.back());
        if (!made || (part == &found.v && made->factor != 1)) return nullptr;
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
    const Shape dims = lowering.dims(found.q.rows);
    product->k = first.values.shape[0];
    product->n = 3 * first.values.shape[1];
    product->end = found.end + "/qkv";
    product->end_dims = {dims[0], dims[1], 3, dims[2], dims[3]};
    found.packed = product->end;
    found.q.rows_factor *= parts[0].factor;
    found.k.rows_factor *= parts[1].factor;
    for (const HeadOperand* part : {&found.q, &found.k, &found.v})
        found.nodes.insert(found.nodes.end(), part->nodes.begin(), part->nodes.end());
    return product;
}

} // namespace

void find_attention(Lowering& lowering) {
    auto plans = std::make_shared<AttentionPlans>();
    CausalMasks masks;
    for (const auto& node : lowering.graph().nodes) {
        if (!node->is("Softmax")) continue;
        Node* last = nullptr;
        auto found = match(lowering, *node, last, masks);
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

//  q -> Transpose \                                     q, k, v [, masks]
//                  MatMul -> Div -> Add mask                  |
//  k -> Transpose /                   |        ==>        Attention
//                                  Softmax                    |
//  v -> Transpose ---------------- MatMul                [B, S, H, D]
//                                     |
//                                 Transpose
//
// Both exports: the scores divided by sqrt(D), or q and k each multiplied by D^-1/4. Operands are read where they lie.
Result<bool> attention(Lowering& lowering, Node& node) {
    const auto at = lowering.attentions().by_last.find(&node);
    if (at == lowering.attentions().by_last.end()) return false;
    const Found& found = at->second;
    const ElementType type = *lowering.stored_type(lowering.type_of(node.output(0)));
    Attention detail;
    detail.batch = found.queries.batch;
    detail.q_len = found.queries.rows;
    detail.kv_len = found.keys.rows;
    detail.heads = found.queries.heads;
    detail.depth = found.queries.depth;
    if (found.values.depth != detail.depth) detail.value_depth = found.values.depth;
    detail.packed = !found.packed.empty();
    detail.masks = static_cast<int>(found.masks.size());
    detail.causal = found.causal;
    detail.empty_is_zero = found.empty_is_zero;
    detail.out = found.out;
    double scale = found.scale;
    std::vector<ValueId> inputs;
    if (detail.packed) {
        inputs = lowering.forms(found.packed);
        scale *= found.q.rows_factor * found.k.rows_factor;
    } else {
        // As few heads as both can be read by.
        std::int64_t key_heads = found.keys.heads;
        if (!heads_place(lowering, found.k, key_heads, type) || !heads_place(lowering, found.v, key_heads, type))
            key_heads = found.queries.heads;
        if (key_heads != found.queries.heads) detail.kv_heads = key_heads;
        const auto take = [&](const HeadOperand& operand, std::int64_t heads, HeadView& view) -> Result<void> {
            const auto place = heads_place(lowering, operand, heads, type);
            if (!place) return Lowering::cannot(node, "an operand of attention is not made");
            LATHE_TRY(const ValueId id,
                      lowering.want(place->value, type, place->image ? Layout::nhwc : Layout::linear));
            inputs.push_back(id);
            view = view_of(*place, lowering.value(id));
            scale *= place->factor;
            return {};
        };
        LATHE_CHECK(take(found.q, found.queries.heads, detail.q));
        LATHE_CHECK(take(found.k, key_heads, detail.k));
        LATHE_CHECK(take(found.v, key_heads, detail.v));
    }
    if (inputs.empty()) return Lowering::cannot(node, "its projections are not made");
    detail.scale = static_cast<float>(scale);
    for (const std::string& mask : found.masks) {
        LATHE_TRY(const ValueId id, lowering.want(mask, type, Layout::linear));
        inputs.push_back(id);
    }
    const std::int64_t macs =
        detail.batch * detail.heads * detail.q_len * detail.kv_len * (detail.depth + detail.values_depth());
    const Shape rows{detail.batch, detail.q_len, detail.heads * detail.values_depth()};
    const ValueId out =
        found.image ? lowering.make(found.end + "/rows", type, rows, Layout::linear)
                    : lowering.make(found.end, found.output_scale ? ElementType::s8 : type, lowering.dims(found.end),
                                    Layout::linear, found.output_scale.value_or(1.0F));
    FusedOp& op = lowering.add(node, found.nodes, detail, std::move(inputs), {out}, type);
    op.macs = macs;
    op.tf32 = lowering.tf32() && type == ElementType::f32;
    if (found.image) lowering.make_alias(found.end, out, lowering.dims(found.end), Layout::nhwc);
    return true;
}

} // namespace lathe::cuda
