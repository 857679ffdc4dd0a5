#include "backends/openvino/quantised_semantics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "graph/subgraphs.hpp"
#include "passes/channel_parts.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

Node made(std::string type, std::vector<std::string> inputs, std::string output) {
    Node node = make_node(std::move(type), std::move(inputs));
    node.outputs = {std::move(output)};
    return node;
}

std::string add_integers(Graph& graph, const std::string& stem, const std::vector<std::int64_t>& numbers) {
    return add_constant(graph, stem, Tensor::of_int64s("", {static_cast<std::int64_t>(numbers.size())}, numbers));
}

const Node* producer(const Graph& graph, const std::string& value) {
    const auto found = std::ranges::find_if(
        graph.nodes, [&](const auto& node) { return std::ranges::find(node->outputs, value) != node->outputs.end(); });
    return found == graph.nodes.end() ? nullptr : found->get();
}

namespace {

using QuantisedBy = QuantisedSemantics::QuantisedBy;
using Requantised = QuantisedSemantics::Requantised;
using RequantisedConcats = QuantisedSemantics::RequantisedConcats;
using DequantisedParts = QuantisedSemantics::DequantisedParts;

QuantisedBy quantising_nodes(const Graph& graph) {
    QuantisedBy found;
    for (const auto& node : graph.nodes)
        if (node->is("QuantizeLinear") || node->is("DequantizeLinear")) found.emplace(node->output(0), node.get());
    return found;
}

/// The type of a QuantizeLinear's or DequantizeLinear's bytes that have one constant scale and zero point; undefined
/// for others.
DataType bytes_in_one_scale(const Graph& graph, const Node& node) {
    const Tensor *scale = graph.constant(node.input(1)), *zero_point = graph.constant(node.input(2));
    if (scale == nullptr || scale->count() != 1 || zero_point == nullptr || zero_point->count() != 1)
        return DataType::undefined;
    const DataType type = zero_point->type();
    return type == DataType::int8 || type == DataType::uint8 ? type : DataType::undefined;
}

/// Whether two such nodes have the same type, scale and zero point.
bool in_same_scale(const Graph& graph, const Node& a, const Node& b) {
    const DataType type = bytes_in_one_scale(graph, a);
    return type != DataType::undefined && bytes_in_one_scale(graph, b) == type &&
           graph.constant(a.input(1))->to_floats() == graph.constant(b.input(1))->to_floats() &&
           graph.constant(a.input(2))->to_int64s() == graph.constant(b.input(2))->to_int64s();
}

/// A zero point of bytes as uint8 has it.
std::uint8_t unsigned_zero(const Tensor& zero_point) {
    const std::int64_t shift = zero_point.type() == DataType::int8 ? 128 : 0;
    return static_cast<std::uint8_t>(zero_point.to_int64s()[0] + shift);
}

std::string add_unsigned_zero(Graph& graph, const std::string& stem, std::uint8_t zero, Shape shape) {
    return add_constant(graph, stem + "_zero",
                        Tensor::of<std::uint8_t>("", DataType::uint8, std::move(shape), std::span(&zero, 1)));
}

/// int8 values that only DequantizeLinear reads, all in one scale and with one zero point: what may be uint8 as well.
std::unordered_set<std::string_view> signed_bytes(const Graph& graph, const QuantisedBy& quantised) {
    const auto in_one_scale = [&](const Node& node) { return bytes_in_one_scale(graph, node) == DataType::int8; };
    std::unordered_set<std::string_view> found;
    for (const auto& [value, node] : quantised)
        if (node->is("QuantizeLinear") && in_one_scale(*node)) found.insert(value);
    for (const ValueInfo& output : graph.outputs)
        found.erase(output.name);
    for (const auto& node : graph.nodes) {
        for (std::size_t i = 0; i < node->inputs.size(); ++i)
            if (i != 0 || !node->is("DequantizeLinear") || !in_one_scale(*node)) found.erase(node->inputs[i]);
        for (const std::string& captured : captured_names(*node))
            found.erase(captured);
    }
    return found;
}

//  x ──▶ Q int8 ──▶ DQ   ==>   x ──▶ Q uint8, zero point + 128 ──▶ DQ, zero point + 128
// The same numbers. Where the pair follows a Concat, OpenVINO's passes move it before that, and then the convolution
// behind it is wrong as with joined_bytes; and its uint8 kernels are the faster ones.
Nodes unsigned_bytes(Graph& graph, const Node& node) {
    Node changed = node;
    const Tensor zero_point = *graph.constant(node.input(2));
    changed.inputs[2] = add_unsigned_zero(graph, node.output(0), unsigned_zero(zero_point), zero_point.shape());
    std::erase_if(changed.attributes, [](const auto& each) { return each.name == "output_dtype"; });
    return {std::move(changed)};
}

//  x ──▶ Q int8 ──▶ DQ ──▶ Concat   ==>   x ──▶ Q uint8, zero point + 128 ──▶ DQ ──▶ Concat
// Joined int8 reaches an int8 convolution as something else (an error of 10 to 80 % of the result), and so does what
// lies beside the image where joined values have one scale and several zero points; a scale that differs in its last
// place is another one.
Nodes joined_bytes(Graph& graph, const Node& node, const QuantisedBy& quantised) {
    struct Pair {
        std::size_t at;
        const Node *quantise, *dequantise;
        Tensor scale, zero_point;
    };
    std::vector<Pair> pairs;
    bool is_signed = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const auto back = quantised.find(node.inputs[i]);
        if (back == quantised.end() || !back->second->is("DequantizeLinear")) continue;
        const auto there = quantised.find(back->second->input(0));
        if (there == quantised.end() || !there->second->is("QuantizeLinear")) continue;
        const Node &q = *there->second, &dq = *back->second;
        if (!in_same_scale(graph, q, dq)) continue;
        const Tensor *scale = graph.constant(dq.input(1)), *zero_point = graph.constant(dq.input(2));
        if (scale->type() != DataType::float32) continue;
        is_signed = is_signed || zero_point->type() == DataType::int8;
        pairs.push_back({i, &q, &dq, *scale, *zero_point});
    }
    const bool several = std::ranges::any_of(pairs, [&](const Pair& pair) {
        return unsigned_zero(pair.zero_point) != unsigned_zero(pairs.front().zero_point);
    });
    if (!is_signed && !several) return {};
    Nodes nodes;
    Node changed = node;
    std::vector<float> used;
    for (const Pair& pair : pairs) {
        float scale = pair.scale.to_floats()[0];
        while (several && std::ranges::find(used, scale) != used.end())
            scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
        used.push_back(scale);
        const std::string& stem = pair.dequantise->output(0);
        const std::string by =
            add_constant(graph, stem + "_scale", Tensor::of_floats("", pair.scale.shape(), {{scale}}));
        const std::string from =
            add_unsigned_zero(graph, stem, unsigned_zero(pair.zero_point), pair.zero_point.shape());
        const std::string bytes = graph.unique_name(by + "_bytes"), value = graph.unique_name(by + "_joined");
        Node quantise = *pair.quantise, dequantise = *pair.dequantise;
        quantise.inputs = {pair.quantise->input(0), by, from};
        quantise.outputs = {bytes};
        quantise.attributes.clear(); // of an axis, or a type that the zero point tells
        dequantise.inputs = {bytes, by, from};
        dequantise.outputs = {value};
        dequantise.attributes.clear();
        nodes.push_back(std::move(quantise));
        nodes.push_back(std::move(dequantise));
        changed.inputs[pair.at] = value;
    }
    nodes.push_back(std::move(changed));
    return nodes;
}

/// Whether it joins along another axis than the last.
bool joins_rows(const Graph& graph, const Node& concat) {
    const auto dims = graph.info_or_name(concat.output(0)).dims;
    const std::int64_t axis = concat.int_or("axis", 0);
    return axis < -1 || (axis >= 0 && dims && axis + 1 < static_cast<std::int64_t>(dims->size()));
}

/// What dequantises a value that was only moved or cut since, in one scale; nullptr for another.
const Node* dequantising(const Graph& graph, const Uses& uses, const std::string& value, int steps = 8) {
    const Node* node = uses.producer(value);
    if (node == nullptr || steps == 0) return nullptr;
    if (node->is("DequantizeLinear")) return bytes_in_one_scale(graph, *node) == DataType::undefined ? nullptr : node;
    const bool moves = node->is("Slice") || node->is("Split") || node->is("Reshape") || node->is("Transpose") ||
                       node->is("Squeeze") || node->is("Unsqueeze") || node->is("Identity");
    return moves ? dequantising(graph, uses, node->input(0), steps - 1) : nullptr;
}

/// What dequantises all that a Concat joins, where it is in one scale.
const Node* dequantising_all(const Graph& graph, const Uses& uses, const Node& concat) {
    const Node* first = dequantising(graph, uses, concat.input(0));
    const bool alike = first != nullptr && std::ranges::all_of(concat.inputs, [&](const std::string& input) {
                           const Node* other = dequantising(graph, uses, input);
                           return other != nullptr && in_same_scale(graph, *first, *other);
                       });
    return alike ? first : nullptr;
}

/// Whether all that a Concat joins was dequantised, in more than one scale and not all from 0. Of several zero points
/// joined_bytes makes what OpenVINO leaves alone, where what dequantises is in front of the Concat.
bool in_several_scales(const Graph& graph, const Uses& uses, const Node& concat) {
    std::vector<const Node*> parts;
    bool moved = false;
    for (const std::string& input : concat.inputs) {
        parts.push_back(dequantising(graph, uses, input));
        if (parts.back() == nullptr) return false;
        moved = moved || uses.producer(input) != parts.back();
    }
    const auto zero = [&](const Node* part) { return unsigned_zero(*graph.constant(part->input(2))); };
    const auto any = [&](auto holds) { return std::ranges::any_of(parts, holds); };
    if (!any([&](const Node* part) { return !in_same_scale(graph, *part, *parts.front()); })) return false;
    return any([&](const Node* part) { return zero(part) != 0; }) &&
           (moved || !any([&](const Node* part) { return zero(part) != zero(parts.front()); }));
}

bool is_multiplied(const Uses& uses, const std::string& value) {
    return std::ranges::any_of(uses.consumers(value), [](const Node* reader) { return reader->is("MatMul"); });
}

RequantisedConcats scaled_concats(const Graph& graph, const Uses& uses) {
    RequantisedConcats found;
    const auto only_reader = [&](const Node& node) -> const Node* {
        const auto& readers = uses.consumers(node.output(0));
        return uses.use_count(node.output(0)) == 1 && readers.size() == 1 ? readers[0] : nullptr;
    };
    for (const auto& node : graph.nodes) {
        if (!node->is("Concat") || node->inputs.empty()) continue;
        // Of a value of unknown sizes, what is done is no loss if it joins columns.
        const bool may_join_rows = joins_rows(graph, *node) || !graph.info_or_name(node->output(0)).dims;
        if (may_join_rows && is_multiplied(uses, node->output(0))) {
            if (const Node* same = dequantising_all(graph, uses, *node)) found.rows.emplace(node->output(0), same);
            if (in_several_scales(graph, uses, *node)) found.apart.insert(node->output(0));
            continue;
        }
        Requantised behind;
        const Node* next = only_reader(*node);
        if (next != nullptr && next->is("Relu")) {
            behind.relu = next;
            next = only_reader(*next);
        }
        if (next == nullptr || !next->is("QuantizeLinear") || bytes_in_one_scale(graph, *next) == DataType::undefined)
            continue;
        behind.quantise = next;
        const Node* dequantise = only_reader(*next);
        if (dequantise == nullptr || !dequantise->is("DequantizeLinear") || graph.is_output(dequantise->output(0)))
            continue;
        const bool scaled = std::ranges::any_of(uses.consumers(dequantise->output(0)), [](const Node* reader) {
            return reader->is("BatchNormalization") || reader->is("Add") || reader->is("Sub") || reader->is("Mul") ||
                   reader->is("Div");
        });
        if (scaled) {
            found.concats.emplace(node->output(0), behind);
            found.dequantised.emplace(dequantise->output(0), node->output(0));
        } else if (behind.relu == nullptr && joins_rows(graph, *node) && is_multiplied(uses, dequantise->output(0))) {
            found.bytes.emplace(node->output(0), next);
            found.quantised.emplace(next->output(0), node->output(0));
        }
    }
    return found;
}

//  x ──▶ Concat ──▶ Relu ──▶ Q ──▶ DQ ──▶ Mul, Add   ==>   x ──▶ Relu ──▶ Q ──▶ DQ ──▶ Concat ──▶ Mul, Add
// OpenVINO moves the pair itself, and reads through a null pointer where what follows has gone into the next
// QuantizeLinear.
Nodes quantised_before(Graph& graph, const Node& concat, const Requantised& behind) {
    Nodes nodes;
    Node joined = concat;
    const std::string& scale = behind.quantise->input(1);
    const std::uint8_t zero = unsigned_zero(*graph.constant(behind.quantise->input(2)));
    const std::string from = add_unsigned_zero(graph, concat.output(0), zero, {});
    for (std::string& input : joined.inputs) {
        const auto give = [&](std::string type, std::vector<std::string> inputs) {
            std::string name = graph.unique_name(input + "_" + type);
            nodes.push_back(made(std::move(type), std::move(inputs), name));
            return name;
        };
        std::string value = behind.relu == nullptr ? input : give("Relu", {input});
        value = give("QuantizeLinear", {value, scale, from});
        input = give("DequantizeLinear", {value, scale, from});
    }
    nodes.push_back(std::move(joined));
    return nodes;
}

/// Bytes of all that a Concat joins, in the scale of a QuantizeLinear or DequantizeLinear, joined as `to`.
Nodes joined_in_scale(Graph& graph, const Node& concat, const Node& like, std::string to, std::string& zero_point) {
    Nodes nodes;
    Node joined = concat;
    const std::uint8_t zero = unsigned_zero(*graph.constant(like.input(2)));
    zero_point = add_unsigned_zero(graph, concat.output(0), zero, {});
    for (std::string& input : joined.inputs) {
        const std::string bytes = graph.unique_name(input + "_bytes");
        nodes.push_back(made("QuantizeLinear", {input, like.input(1), zero_point}, bytes));
        input = bytes;
    }
    joined.outputs = {std::move(to)};
    nodes.push_back(std::move(joined));
    return nodes;
}

//  x ──▶ Concat ──▶ Q   ==>   x ──▶ Q ──▶ Concat, of bytes
// OpenVINO moves the pair itself, and then has a zero point for each joined row, which a MatMul behind cannot take.
Nodes quantised_rows(Graph& graph, const Node& concat, const Node& quantise) {
    std::string zero_point;
    Nodes nodes = joined_in_scale(graph, concat, quantise, concat.output(0), zero_point);
    graph.value_infos.erase(concat.output(0)); // which are bytes now
    return nodes;
}

//  DQ ──▶ Slice ──▶ Concat   ==>   DQ ──▶ Slice ──▶ Q ──▶ Concat ──▶ DQ
// The same of what is dequantised already: the numbers are on the grid, and stay there.
Nodes requantised_rows(Graph& graph, const Node& concat, const Node& dequantise) {
    std::string zero_point;
    const std::string bytes = graph.unique_name(concat.output(0) + "_bytes");
    Nodes nodes = joined_in_scale(graph, concat, dequantise, bytes, zero_point);
    nodes.push_back(made("DequantizeLinear", {bytes, dequantise.input(1), zero_point}, concat.output(0)));
    return nodes;
}

//  DQ, DQ ──▶ Concat ──▶ MatMul   ==>   DQ, DQ ──▶ Concat ──▶ Max(x, x) ──▶ MatMul
// OpenVINO gives each row its zero point, and then fails to give them to the MatMul.
Nodes rows_apart(Graph& graph, const Node& concat, Nodes nodes) {
    if (nodes.empty()) nodes.push_back(concat);
    const std::string joined = graph.unique_name(concat.output(0) + "_joined");
    nodes.back().outputs = {joined};
    nodes.push_back(made("Max", {joined, joined}, concat.output(0)));
    return nodes;
}

DequantisedParts moved_parts(const Graph& graph, const Uses& uses, const QuantisedBy& quantised,
                             const std::unordered_set<std::string_view>& as_unsigned) {
    DequantisedParts found;
    for (const auto& node : graph.nodes) {
        const Node* concat = node->is("DepthToSpace") ? uses.producer(node->input(0)) : nullptr;
        if (concat == nullptr || !passes::joins_channels(*concat, 4)) continue;
        std::vector<const Node*> parts;
        for (const std::string& input : concat->inputs) {
            const auto part = quantised.find(input);
            if (part == quantised.end() || !part->second->is("DequantizeLinear")) break;
            parts.push_back(part->second);
        }
        const auto like_first = [&](const Node* part) {
            const Node& first = *parts.front();
            return in_same_scale(graph, *part, first) &&
                   as_unsigned.contains(part->input(0)) == as_unsigned.contains(first.input(0));
        };
        if (parts.size() == concat->inputs.size() && std::ranges::all_of(parts, like_first))
            found.emplace(node->output(0), std::move(parts));
    }
    return found;
}

//  DQ, DQ ──▶ Concat ──▶ DepthToSpace   ==>   Concat ──▶ DepthToSpace ──▶ DQ
// OpenVINO's passes move what dequantises behind a DepthToSpace as well, but with a zero point for each of the channels
// before it, which it then refuses. And the bytes are a quarter of what is moved.
Nodes moved_bytes(Graph& graph, const Node& node, const std::vector<const Node*>& parts, bool as_unsigned) {
    Node joined = made("Concat", {}, graph.unique_name(node.output(0) + "_joined")), moved = node;
    joined.set("axis", std::int64_t{1});
    for (const Node* part : parts)
        joined.inputs.push_back(part->input(0));
    moved.inputs[0] = joined.output(0);
    moved.outputs[0] = graph.unique_name(node.output(0) + "_bytes");
    std::string from = parts.front()->input(2);
    if (as_unsigned) from = add_unsigned_zero(graph, node.output(0), unsigned_zero(*graph.constant(from)), {});
    Node back = made("DequantizeLinear", {moved.output(0), parts.front()->input(1), from}, node.output(0));
    return {std::move(joined), std::move(moved), std::move(back)};
}

} // namespace

QuantisedSemantics::QuantisedSemantics(const Graph& graph)
    : quantised_(quantising_nodes(graph)), as_unsigned_(signed_bytes(graph, quantised_)) {
    if (quantised_.empty()) return;
    const Uses uses(graph);
    scaled_ = scaled_concats(graph, uses);
    // Bytes that stay int8 are joined by their own rules.
    std::erase_if(scaled_.bytes, [&](const auto& found) {
        const Node& quantise = *found.second;
        const bool fits =
            bytes_in_one_scale(graph, quantise) == DataType::uint8 || as_unsigned_.contains(quantise.output(0));
        if (!fits) scaled_.quantised.erase(quantise.output(0));
        return !fits;
    });
    moved_ = moved_parts(graph, uses, quantised_, as_unsigned_);
}

Nodes QuantisedSemantics::instead_of(Graph& graph, const Node& node) const {
    if (quantised_.empty()) return {};
    if (const auto found = scaled_.concats.find(node.output(0)); found != scaled_.concats.end())
        return quantised_before(graph, node, found->second);
    if (const auto found = scaled_.rows.find(node.output(0)); found != scaled_.rows.end())
        return requantised_rows(graph, node, *found->second);
    if (const auto found = scaled_.bytes.find(node.output(0)); found != scaled_.bytes.end())
        return quantised_rows(graph, node, *found->second);
    if (const auto found = scaled_.quantised.find(node.output(0)); found != scaled_.quantised.end())
        return {made("Identity", {found->second}, node.output(0))};
    if (const auto found = scaled_.dequantised.find(node.output(0)); found != scaled_.dequantised.end())
        return {made("Identity", {found->second}, node.output(0))};
    if (const auto found = moved_.find(node.output(0)); found != moved_.end())
        return moved_bytes(graph, node, found->second, as_unsigned_.contains(found->second.front()->input(0)));
    if (node.is("QuantizeLinear") && as_unsigned_.contains(node.output(0))) return unsigned_bytes(graph, node);
    if (node.is("DequantizeLinear") && as_unsigned_.contains(node.input(0))) return unsigned_bytes(graph, node);
    Nodes nodes = node.is("Concat") ? joined_bytes(graph, node, quantised_) : Nodes{};
    return scaled_.apart.contains(node.output(0)) ? rows_apart(graph, node, std::move(nodes)) : nodes;
}

} // namespace lathe::openvino
