// ONNX Runtime's attention operators, written out as products, a mask and a softmax.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/fused_operators.hpp"

namespace lathe {
namespace {

std::string transposed(NodeWriter& to, const std::string& value, std::vector<std::int64_t> order) {
    return to.op("Transpose", {value}, {{"perm", std::move(order)}});
}

std::string reshaped(NodeWriter& to, const std::string& value, std::vector<std::int64_t> sizes) {
    return to.op("Reshape", {value, to.integers(std::move(sizes))});
}

/// [batch, length, heads x width] as [batch, heads, length, width].
std::string in_heads(NodeWriter& to, const std::string& value, std::int64_t heads) {
    return transposed(to, reshaped(to, value, {0, 0, heads, -1}), {0, 2, 1, 3});
}

/// 0, 1, ... up to the size.
std::string counted(NodeWriter& to, const std::string& size) {
    return to.op("Range", {to.integer(0), size, to.integer(1)});
}

/// Who sees whom: boolean conditions over [batch, heads, length, keys], of which all must hold.
class Visible {
public:
    Visible(NodeWriter& to, const std::string& query, const std::string& key)
        : to_(to), length_(running_size(to, query, 2)), keys_(running_size(to, key, 2)) {}

    void require(const std::string& condition) { all_ = all_.empty() ? condition : to_.op("And", {all_, condition}); }

    /// No key behind the query's own place, and none `window` or more places before it (0: any).
    void only_past(std::int64_t window) {
        const std::string rows = to_.op("Add", {counted(to_, length_), to_.op("Sub", {keys_, length_})});
        const std::string own = unsqueezed(to_, rows, {1});
        const std::string columns = counted(to_, keys_);
        require(to_.op("Not", {to_.op("Greater", {columns, own})}));
        if (window > 0) require(to_.op("Greater", {columns, to_.op("Sub", {own, to_.integer(window)})}));
    }

    /// Nonzero for keys that may be seen: [batch], [batch, keys] or [batch, length, keys].
    void by_mask(const std::string& mask, std::size_t rank) {
        if (rank == 1) {
            const std::string lengths = to_.op("Cast", {mask}, {{"to", static_cast<std::int64_t>(DataType::int64)}});
            return require(to_.op("Less", {counted(to_, keys_), unsqueezed(to_, lengths, {1, 2, 3})}));
        }
        const std::string seen = to_.op("Cast", {mask}, {{"to", static_cast<std::int64_t>(DataType::boolean)}});
        require(unsqueezed(to_, seen, rank == 2 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1}));
    }

    /// The scores, with `hidden` added where a condition does not hold.
    std::string masked(const std::string& scores, double hidden, const std::string& like) {
        if (all_.empty()) return scores;
        return to_.op("Add", {scores, to_.op("Where", {all_, to_.number(0, like), to_.number(hidden, like)})});
    }

private:
    NodeWriter& to_;
    std::string length_, keys_, all_;
};

/// Queries, keys and values as [batch, heads, length, width].
struct Heads {
    std::string query, key, value;
};

struct Scores {
    double scale = 0; ///< 0: one over the root of the width
    double softcap = 0;
    double hidden = -10000; ///< what a masked score gets
    std::string bias;
};

/// `like`: a value of the attention's type that was there before.
std::string attended(NodeWriter& to, const Heads& heads, const Scores& how, Visible& visible, const std::string& like) {
    std::string scores = to.op("MatMul", {heads.query, transposed(to, heads.key, {0, 1, 3, 2})});
    if (how.scale != 0) {
        scores = to.op("Mul", {scores, to.number(how.scale, like)});
    } else {
        const std::string width =
            to.op("Cast", {running_size(to, heads.query, 3)}, {{"to", static_cast<std::int64_t>(DataType::float32)}});
        std::string root = to.op("Sqrt", {width});
        if (const DataType type = to.type(like); type != DataType::float32 && type != DataType::undefined)
            root = to.op("Cast", {root}, {{"to", static_cast<std::int64_t>(type)}});
        scores = to.op("Div", {scores, root});
    }
    if (how.softcap != 0) {
        const std::string cap = to.number(how.softcap, like);
        scores = to.op("Mul", {to.op("Tanh", {to.op("Div", {scores, cap})}), cap});
    }
    scores = added(to, scores, how.bias);
    const std::string shares =
        to.op("Softmax", {visible.masked(scores, how.hidden, like)}, {{"axis", std::int64_t{-1}}});
    return reshaped(to, transposed(to, to.op("MatMul", {shares, heads.value}), {0, 2, 1, 3}), {0, 0, -1});
}

double scale_of(const Node& node, std::optional<std::int64_t> width) {
    const float given = node.float_or("scale", 0);
    if (given != 0) return double{given};
    return width && *width > 0 ? 1 / std::sqrt(static_cast<double>(*width)) : 0;
}

/// A mask's number of dimensions, if it is a form that is known here: lengths need as many numbers as the batch has
/// rows, which two sizes of one name tell, or two equal ones.
std::optional<std::size_t> mask_rank(NodeWriter& to, const std::string& mask, const std::string& batch_of) {
    const auto rank = to.rank(mask);
    if (!rank || *rank == 0 || *rank > 3) return std::nullopt;
    if (*rank != 1) return rank;
    const ValueInfo lengths = to.graph().info_or_name(mask), input = to.graph().info_or_name(batch_of);
    if (!input.dims || input.dims->empty()) return std::nullopt;
    const Dimension &count = (*lengths.dims)[0], &batch = (*input.dims)[0];
    const bool known = count.size.has_value() || !count.symbol.empty();
    return known && count == batch ? rank : std::nullopt;
}

/// What Attention and QAttention read beside the input and the weights; empty names: nothing.
struct SelfAttention {
    std::string bias, mask, past, score_bias;
    std::vector<std::int64_t> sizes; ///< of queries, keys and values
    std::optional<std::size_t> mask_dimensions;
};

/// Nothing: not in a form that is known here.
std::optional<SelfAttention> self_attention(NodeWriter& to, std::size_t mask, std::size_t past) {
    const Node& node = to.node();
    SelfAttention with{node.input(2), node.input(mask), node.input(past), "", node.ints_or("qkv_hidden_sizes", {}), {}};
    const std::int64_t count = node.int_or("num_heads", 0);
    if (with.sizes.empty()) {
        const auto columns = to.size(node.input(1), 1);
        if (!columns || *columns % 3 != 0) return std::nullopt;
        with.sizes.assign(3, *columns / 3);
    }
    const bool other = node.int_or("do_rotary", 0) != 0 || node.int_or("past_present_share_buffer", 0) != 0;
    const auto fits = [&](std::int64_t size) { return size > 0 && size % count == 0; };
    if (count <= 0 || other || with.sizes.size() != 3 || !std::ranges::all_of(with.sizes, fits)) return std::nullopt;
    if (!with.mask.empty() && !(with.mask_dimensions = mask_rank(to, with.mask, node.input(0)))) return std::nullopt;
    return with;
}

void write(NodeWriter& to, const SelfAttention& with, const std::string& input, const std::string& weights,
           const std::string& like) {
    const Node& node = to.node();
    const std::int64_t count = node.int_or("num_heads", 0);
    const auto parts = split(to, added(to, to.op("MatMul", {input, weights}), with.bias), with.sizes);
    Heads heads{in_heads(to, parts[0], count), in_heads(to, parts[1], count), in_heads(to, parts[2], count)};
    if (!with.past.empty()) {
        const auto before = [&](std::int64_t index) {
            return to.op("Gather", {with.past, to.integer(index)}, {{"axis", std::int64_t{0}}});
        };
        heads.key = to.op("Concat", {before(0), heads.key}, {{"axis", std::int64_t{2}}});
        heads.value = to.op("Concat", {before(1), heads.value}, {{"axis", std::int64_t{2}}});
    }
    if (to.wants(1)) {
        to.result(1, to.op("Concat", {unsqueezed(to, heads.key, {0}), unsqueezed(to, heads.value, {0})},
                           {{"axis", std::int64_t{0}}}));
    }
    Visible visible(to, heads.query, heads.key);
    if (node.int_or("unidirectional", 0) != 0) visible.only_past(0);
    if (with.mask_dimensions) visible.by_mask(with.mask, *with.mask_dimensions);
    Scores how;
    how.scale = scale_of(node, with.sizes[0] / count);
    how.hidden = double{node.float_or("mask_filter_value", -10000)};
    how.bias = with.score_bias;
    to.result(0, attended(to, heads, how, visible, like));
}

// input, weights of all three, bias, mask, past, bias of the scores, length of the past in a shared buffer
bool attention(NodeWriter& to) {
    const Node& node = to.node();
    auto with = node.input(6).empty() ? self_attention(to, 3, 4) : std::nullopt;
    if (!with) return false;
    with->score_bias = node.input(5);
    write(to, *with, node.input(0), node.input(1), node.input(1));
    return true;
}

// input, weights of all three, bias, scales of both, mask, zero points of both, past
bool quantised_attention(NodeWriter& to) {
    constexpr std::int64_t first_opset_by_axis = 13;
    const Node& node = to.node();
    const auto with = self_attention(to, 5, 8);
    const auto dimensions = to.rank(node.input(4)); // of the weights' scales
    if (!with || !dimensions || *dimensions > 1) return false;
    const bool one = *dimensions == 0 || to.size(node.input(4), 0) == 1;
    if (!one && to.opset() < first_opset_by_axis) return false;
    const auto dequantised = [&](std::size_t value, std::size_t scale, std::size_t zero, bool scalar) {
        const auto number = [&](const std::string& name) {
            return scalar && to.rank(name) == 1 ? to.op("Reshape", {name, to.integers({})}) : name;
        };
        std::vector<std::string> inputs{node.input(value), number(node.input(scale))};
        if (!node.input(zero).empty()) inputs.push_back(number(node.input(zero)));
        if (scalar) return to.op("DequantizeLinear", std::move(inputs));
        return to.op("DequantizeLinear", std::move(inputs), {{"axis", std::int64_t{1}}});
    };
    write(to, *with, dequantised(0, 3, 6, true), dequantised(1, 4, 7, one), node.input(2));
    return true;
}

// query, key, value, bias, mask of keys, bias of the scores, past of keys and values, length of the past, beams
bool multi_head_attention(NodeWriter& to) {
    const Node& node = to.node();
    const std::int64_t count = node.int_or("num_heads", 0);
    const std::string &query = node.input(0), &key = node.input(1), &value = node.input(2), &bias = node.input(3);
    const std::string& mask = node.input(4);
    const auto rank = to.rank(query), key_rank = to.rank(key);
    const bool packed = key.empty() && rank == 5, packed_keys = !key.empty() && value.empty() && key_rank == 5;
    const bool apart = !key.empty() && !value.empty() && rank == 3 && (key_rank == 3 || key_rank == 4);
    if (count <= 0 || !(packed || packed_keys || apart) || !node.input(8).empty() || !node.input(9).empty() ||
        to.wants(3) || node.input(6).empty() != node.input(7).empty())
        return false;
    const std::int64_t bias_size = bias.empty() ? 0 : to.size(bias, 0).value_or(0);
    const auto width = to.size(query, -1);
    std::vector<std::int64_t> sizes;
    if (!bias.empty()) {
        if (!apart || key_rank != 3 || bias_size == 0) return false;
        const std::int64_t hidden = width ? *width : bias_size / 3;
        sizes = {hidden, hidden, bias_size - 2 * hidden};
        if (sizes[2] <= 0) return false;
    }
    std::optional<std::size_t> seen_by;
    if (!mask.empty() && !(seen_by = mask_rank(to, mask, query))) return false;

    std::vector<std::string> biases(3);
    if (!bias.empty()) biases = split(to, bias, sizes);
    const auto part = [&](const std::string& of, std::int64_t index) {
        return transposed(to, to.op("Gather", {of, to.integer(index)}, {{"axis", std::int64_t{3}}}), {0, 2, 1, 3});
    };
    Heads heads;
    heads.query = packed ? part(query, 0) : in_heads(to, added(to, query, biases[0]), count);
    if (packed) {
        heads.key = part(query, 1);
        heads.value = part(query, 2);
    } else if (packed_keys) {
        heads.key = part(key, 0);
        heads.value = part(key, 1);
    } else {
        heads.key = key_rank == 4 ? key : in_heads(to, added(to, key, biases[1]), count);
        heads.value = key_rank == 4 ? value : in_heads(to, added(to, value, biases[2]), count);
    }
    if (!node.input(6).empty()) {
        heads.key = to.op("Concat", {node.input(6), heads.key}, {{"axis", std::int64_t{2}}});
        heads.value = to.op("Concat", {node.input(7), heads.value}, {{"axis", std::int64_t{2}}});
    }
    to.result(1, heads.key);
    to.result(2, heads.value);
    if (to.wants(1)) heads.key = node.output(1);
    if (to.wants(2)) heads.value = node.output(2);
    Visible visible(to, heads.query, heads.key);
    if (node.int_or("unidirectional", 0) != 0) visible.only_past(0);
    if (seen_by) visible.by_mask(mask, *seen_by);
    std::optional<std::int64_t> head_width;
    if (width) head_width = packed ? *width : *width / count;
    Scores how;
    how.scale = scale_of(node, head_width);
    how.hidden = double{node.float_or("mask_filter_value", -10000)};
    how.bias = node.input(5);
    to.result(0, attended(to, heads, how, visible, query));
    return true;
}

/// The first `rotated` numbers of each head turned by the angles of its place (RoFormer, Su et al. 2021). `heads`:
/// [batch, length, heads, width]; `positions`: [batch, length].
std::string turned_by_place(NodeWriter& to, const std::string& heads, const std::string& positions,
                            const std::string& cosines, const std::string& sines, std::int64_t rotated,
                            std::optional<std::int64_t> width, bool interleaved) {
    const auto angle = [&](const std::string& table) {
        return unsqueezed(to, to.op("Gather", {table, positions}, {{"axis", std::int64_t{0}}}), {2});
    };
    const auto slice = [&](const std::string& value, std::int64_t from, std::int64_t until, std::int64_t step) {
        return to.op("Slice",
                     {value, to.integers({from}), to.integers({until}), to.integers({-1}), to.integers({step})});
    };
    const std::string cosine = angle(cosines), sine = angle(sines);
    const bool partial = width && *width > rotated;
    const std::string all = partial ? slice(heads, 0, rotated, 1) : heads;
    std::string result;
    if (interleaved) {
        const std::string even = slice(all, 0, rotated, 2), odd = slice(all, 1, rotated, 2);
        const std::string first = to.op("Sub", {to.op("Mul", {even, cosine}), to.op("Mul", {odd, sine})});
        const std::string second = to.op("Add", {to.op("Mul", {even, sine}), to.op("Mul", {odd, cosine})});
        const std::string pairs =
            to.op("Concat", {unsqueezed(to, first, {4}), unsqueezed(to, second, {4})}, {{"axis", std::int64_t{-1}}});
        result = reshaped(to, pairs, {0, 0, 0, rotated});
    } else {
        const std::string left = slice(all, 0, rotated / 2, 1), right = slice(all, rotated / 2, rotated, 1);
        const std::string half = to.op("Concat", {to.op("Neg", {right}), left}, {{"axis", std::int64_t{-1}}});
        const auto doubled = [&](const std::string& of) {
            return to.op("Concat", {of, of}, {{"axis", std::int64_t{-1}}});
        };
        result = to.op("Add", {to.op("Mul", {all, doubled(cosine)}), to.op("Mul", {half, doubled(sine)})});
    }
    if (!partial) return result;
    return to.op("Concat", {result, slice(heads, rotated, *width, 1)}, {{"axis", std::int64_t{-1}}});
}

// input, positions, cosines, sines
bool rotary(NodeWriter& to) {
    const Node& node = to.node();
    const std::string &input = node.input(0), &positions = node.input(1);
    const auto rank = to.rank(input), places = to.rank(positions);
    const auto half = to.size(node.input(2), -1);
    if (!half || (rank != 3 && rank != 4) || (places != 1 && places != 2) ||
        node.int_or("is_packed_batching", 0) != 0 || node.float_or("scale", 1) != 1)
        return false;
    const std::int64_t rotated = 2 * *half, given = node.int_or("rotary_embedding_dim", 0);
    const std::int64_t count = node.int_or("num_heads", 0);
    auto width = to.size(input, -1);
    if (rank == 3)
        width = given == 0 ? std::optional(rotated) : width && count > 0 ? std::optional(*width / count) : std::nullopt;
    if (!width || *width < rotated || (given != 0 && given != rotated)) return false;
    std::string heads = rank == 3 ? reshaped(to, input, {0, 0, -1, *width}) : transposed(to, input, {0, 2, 1, 3});
    std::string at = positions;
    if (places == 1) { // the first place, the same for all rows
        const std::string length = running_size(to, heads, 1);
        at = unsqueezed(to, to.op("Add", {counted(to, length), positions}), {0});
    }
    const std::string turned = turned_by_place(to, heads, at, node.input(2), node.input(3), rotated, width,
                                               node.int_or("interleaved", 0) != 0);
    to.result(0, rank == 3 ? reshaped(to, turned, {0, 0, -1}) : transposed(to, turned, {0, 2, 1, 3}));
    return true;
}

/// [batch, key heads, keys, width] with each head for the queries that share it.
std::string repeated(NodeWriter& to, const std::string& heads, std::int64_t times, std::int64_t count,
                     std::int64_t width) {
    if (times == 1) return heads;
    const std::string wide = to.op("Expand", {unsqueezed(to, heads, {2}), to.integers({1, 1, times, 1, 1})});
    return reshaped(to, wide, {0, count, -1, width});
}

// query, key, value, past of keys and values, last places of the keys, total length, cosines, sines, positions, bias of
// the scores, sinks, scales of the past (2), scales of normalisation (2), lengths of queries
bool group_query_attention(NodeWriter& to) {
    const Node& node = to.node();
    const std::int64_t count = node.int_or("num_heads", 0), key_count = node.int_or("kv_num_heads", 0);
    const std::string &query = node.input(0), &key = node.input(1), &past = node.input(3);
    const bool rotates = node.int_or("do_rotary", 0) != 0, packed = key.empty();
    bool other = node.int_or("smooth_softmax", 0) > 0 || node.int_or("causal", 1) != 1 ||
                 node.int_or("sliding_window_cache", 0) != 0 || node.string_or("k_quant_type", "NONE") != "NONE" ||
                 node.string_or("v_quant_type", "NONE") != "NONE" || to.wants(3);
    for (const std::size_t index : std::array<std::size_t, 4>{11, 12, 13, 16})
        other = other || !node.input(index).empty();
    const auto width = to.size(query, -1);
    if (other || node.input(5).empty() || key.empty() != node.input(2).empty() || count <= 0 || key_count <= 0 ||
        count % key_count != 0 || !width || past.empty() != node.input(4).empty())
        return false;
    const std::int64_t parts = packed ? count + 2 * key_count : count;
    if (*width % parts != 0) return false;
    const std::int64_t head = *width / parts;
    const auto half = rotates ? to.size(node.input(7), -1) : std::optional<std::int64_t>(0);
    if (!half || 2 * *half > head) return false;

    std::vector<std::string> three{query, key, node.input(2)};
    if (packed) three = split(to, query, {count * head, key_count * head, key_count * head});
    std::vector<std::string> heads;
    for (std::size_t i = 0; i < 3; ++i)
        heads.push_back(reshaped(to, three[i], {0, 0, i == 0 ? count : key_count, head}));
    for (std::size_t i = 0; i < 2; ++i) {
        const std::string& scale = node.input(14 + i);
        const float epsilon =
            node.float_or(i == 0 ? "q_norm_epsilon" : "k_norm_epsilon", node.float_or("qk_norm_epsilon", 1e-6F));
        if (!scale.empty()) heads[i] = rms_normalised(to, heads[i], scale, double{epsilon});
    }
    // Keys stand in their places without a gap, so places follow from the past's length.
    const std::string length = running_size(to, query, 1);
    const std::string before = past.empty() ? to.integer(0) : running_size(to, past, 2);
    if (rotates) {
        std::string positions = node.input(9);
        if (positions.empty()) positions = unsqueezed(to, to.op("Add", {counted(to, length), before}), {0});
        for (std::size_t i = 0; i < 2; ++i)
            heads[i] = turned_by_place(to, heads[i], positions, node.input(7), node.input(8), 2 * *half, head,
                                       node.int_or("rotary_interleaved", 0) != 0);
    }
    for (std::string& each : heads)
        each = transposed(to, each, {0, 2, 1, 3});
    for (std::size_t i = 1; i < 3; ++i) {
        if (!past.empty()) heads[i] = to.op("Concat", {node.input(2 + i), heads[i]}, {{"axis", std::int64_t{2}}});
        to.result(i, heads[i]);
        if (to.wants(i)) heads[i] = node.output(i);
    }
    Visible visible(to, heads[0], heads[1]);
    visible.only_past(std::max<std::int64_t>(node.int_or("local_window_size", -1), 0));
    Scores how;
    how.scale = scale_of(node, head);
    how.softcap = double{node.float_or("softcap", 0)};
    how.hidden = -65504; // the least of FP16, as good as nothing in all types
    how.bias = node.input(10);
    const Heads shared{heads[0], repeated(to, heads[1], count / key_count, count, head),
                       repeated(to, heads[2], count / key_count, count, head)};
    const std::string answer = attended(to, shared, how, visible, query);
    // A row of another length has its keys elsewhere: divided by zero it has no answer here, and no wrong one either.
    const std::string lasts = to.op("Cast", {node.input(5)}, {{"to", static_cast<std::int64_t>(DataType::int64)}});
    const std::string full = to.op("Equal", {lasts, to.op("Sub", {to.op("Add", {before, length}), to.integer(1)})});
    const std::string first = to.op("Equal", {before, to.integer(0)});
    const std::string right = unsqueezed(to, to.op("Or", {full, first}), {1, 2});
    const DataType type = to.type(query) == DataType::undefined ? DataType::float32 : to.type(query);
    to.result(0, to.op("Div", {answer, to.op("Cast", {right}, {{"to", static_cast<std::int64_t>(type)}})}));
    return true;
}

} // namespace

const FusedForms& fused_attention_forms() {
    static const FusedForms forms{
        {"Attention", {attention, 2}},
        {"GroupQueryAttention", {group_query_attention}},
        {"QAttention", {quantised_attention, 5}},
        {"MultiHeadAttention", {multi_head_attention}},
        {"RotaryEmbedding", {rotary, 4}},
    };
    return forms;
}

} // namespace lathe
