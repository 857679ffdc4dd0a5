#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

/// One table of an embedding: rows [N, H] and which to take.
struct Table {
    WeightId rows = none;
    ValueId indices = none;
};

bool is_index(DataType type) { return type == DataType::int64 || type == DataType::int32; }

/// A constant float table [rows, columns] that a Gather takes rows of.
std::optional<Constant> table_of(const Lowering& lowering, const Node& node) {
    auto table = lowering.constant(node.input(0));
    if (!node.is("Gather") || node.int_or("axis", 0) != 0 || !table || table->shape.size() != 2) return std::nullopt;
    if (table->type != DataType::float32 && table->type != DataType::float16 && table->type != DataType::bfloat16) {
        return std::nullopt;
    }
    if (!is_index(lowering.type_of(node.input(1)))) return std::nullopt;
    return table;
}

/// Whether softmaxes alone read the value, at most moved and with others added: it masks scores, or is a score.
bool is_for_softmax(const Lowering& lowering, const std::string& value) {
    constexpr std::array<std::string_view, 9> carriers{"Add",     "Where",    "Reshape",   "Unsqueeze", "Squeeze",
                                                       "Flatten", "Identity", "Transpose", "Expand"};
    std::vector<std::string> open{value};
    std::unordered_set<std::string> seen{value};
    while (!open.empty()) {
        const std::string at = open.back();
        open.pop_back();
        const auto& readers = lowering.uses().consumers(at);
        if (readers.empty() || lowering.uses().use_count(at) != readers.size()) return false;
        for (const Node* reader : readers) {
            if (!reader->domain.empty()) return false;
            if (reader->is("Softmax")) continue;
            if (std::find(carriers.begin(), carriers.end(), reader->op_type) == carriers.end()) return false;
            if (seen.insert(reader->output(0)).second) open.push_back(reader->output(0));
        }
    }
    return true;
}

/// `masks`: what `type` cannot hold may be clamped. That follows from the graph alone, as the name must: when an engine
/// is loaded there are no values.
Result<WeightId> pack_table(Lowering& lowering, const Constant& table, Shape dims, ElementType type, bool masks) {
    const std::string key = table.key() + (masks ? "|masks|" : "|table|") + to_string(type);
    return lowering.store(key, type, std::move(dims), [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, masks ? lowering.floats_with_masks(table, type) : lowering.floats(table));
        return converted(values, type, table.name);
    });
}

/// Of rows of fixed tables those that repeat may be left out.
Result<ValueId> indices_of(Lowering& lowering, const std::string& name, bool repeat) {
    if (const auto fixed = lowering.constant(name)) {
        return lowering.constant_value(repeat ? lowering.without_repeats(*fixed) : *fixed,
                                       *lowering.stored_type(fixed->type));
    }
    return lowering.want_linear(name);
}

/// Rows of a constant that repeat over the result: [H], [1, S, H] and kin.
std::optional<Constant> repeated_rows(Lowering& lowering, const std::string& name, const Shape& dims) {
    const auto fixed = lowering.constant(name);
    if (!fixed || !is_floating(fixed->type) || fixed->shape.empty()) return std::nullopt;
    Constant rows = lowering.without_repeats(*fixed);
    if (rows.shape.back() != dims.back()) return std::nullopt;
    // Leading ones, then the same sizes as the result's.
    std::size_t at = 0;
    while (at + 1 < rows.shape.size() && rows.shape[at] == 1)
        ++at;
    for (std::size_t i = at; i < rows.shape.size(); ++i) {
        if (rows.shape[i] != dims[dims.size() - rows.shape.size() + i]) return std::nullopt;
    }
    return rows;
}

//  Gather(words, ids)   Gather(positions, ...)            ids
//            \           /                                 |
//             Add       constant row        ==>     Gather {words, positions, row}
//               \       /
//                 Add
Result<void> embedding(Lowering& lowering, Node& node, const Constant& table) {
    const ElementType type = *lowering.stored_type(table.type);
    const Shape dims = lowering.dims(node.output(0));
    Gather detail;
    std::vector<ValueId> inputs;
    std::vector<Node*> nodes;
    // A causal mask by position, say; what is added to it here is one as well.
    const bool masks = is_for_softmax(lowering, node.output(0));
    LATHE_TRY(const WeightId words, pack_table(lowering, table, table.shape, type, masks));
    LATHE_TRY(const ValueId ids, indices_of(lowering, node.input(1), true));
    detail.tables.push_back(words);
    inputs.push_back(ids);
    std::string end = node.output(0);
    while (detail.tables.size() < 4) {
        Node* add = lowering.only_reader(end);
        if (add == nullptr || !add->is("Add") || lowering.dims(add->output(0)) != dims) break;
        const std::string& other = add->input(0) == end ? add->input(1) : add->input(0);
        if (other == end) break;
        if (const auto rows = repeated_rows(lowering, other, dims)) {
            const std::int64_t count = rows->count() / rows->shape.back();
            LATHE_TRY(const WeightId packed, pack_table(lowering, *rows, {count, rows->shape.back()}, type, masks));
            const std::string key = "0.." + std::to_string(count) + "|indices";
            LATHE_TRY(const WeightId order,
                      lowering.store(key, ElementType::s32, {count}, [&]() -> Result<std::vector<std::byte>> {
                          std::vector<float> numbers(static_cast<std::size_t>(count));
                          std::iota(numbers.begin(), numbers.end(), 0.0F);
                          return converted(numbers, ElementType::s32, key);
                      }));
            const ValueId value = lowering.make(key, ElementType::s32, {count}, Layout::linear);
            lowering.value(value).role = Role::constant;
            lowering.value(value).weight = order;
            detail.tables.push_back(packed);
            inputs.push_back(value);
        } else {
            Node* gather = lowering.uses().producer(other);
            if (gather == nullptr || lowering.only_reader(other) != add || lowering.is_done(gather)) break;
            const auto second = table_of(lowering, *gather);
            if (!second || second->shape[1] != dims.back()) break;
            // Indices must repeat evenly: [S] or [1, S] under [B, S].
            const Shape own = lowering.dims(gather->output(0));
            bool ends_alike = own.size() <= dims.size();
            std::size_t lead = 0;
            while (lead + 1 < own.size() && own[lead] == 1)
                ++lead;
            for (std::size_t i = lead; ends_alike && i < own.size(); ++i)
                ends_alike = own[i] == dims[dims.size() - own.size() + i];
            const auto fixed = lowering.constant(gather->input(1));
            if (!ends_alike || (!fixed && !lowering.ready(gather->input(1)))) break;
            LATHE_TRY(const WeightId packed, pack_table(lowering, *second, second->shape, type, masks));
            LATHE_TRY(const ValueId indices, indices_of(lowering, gather->input(1), true));
            detail.tables.push_back(packed);
            inputs.push_back(indices);
            nodes.push_back(gather);
        }
        nodes.push_back(add);
        end = add->output(0);
    }
    const ValueId made = lowering.make_result(end, type, Layout::linear);
    lowering.add(node, nodes, std::move(detail), std::move(inputs), {made}, type);
    return {};
}

Result<void> gather(Lowering& lowering, Node& node) {
    if (const auto table = table_of(lowering, node)) return embedding(lowering, node, *table);
    const Shape dims = lowering.dims(node.input(0));
    if (!is_index(lowering.type_of(node.input(1)))) return Lowering::cannot(node, "indices of this type");
    std::int64_t axis = node.int_or("axis", 0);
    if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
    if (axis < 0 || static_cast<std::size_t>(axis) >= dims.size()) return Lowering::cannot(node, "its axis");
    // What is int8 stays so: the next product reads it.
    ValueId from = none;
    if (lowering.quantised_form(node.input(0))) {
        LATHE_TRY(from, lowering.want(node.input(0), ElementType::s8, Layout::linear));
    } else {
        LATHE_TRY(from, lowering.want_linear(node.input(0)));
    }
    const ElementType type = lowering.value(from).type;
    const float scale = type == ElementType::s8 ? lowering.value(from).scale : 1.0F;
    // One fixed index is a slice (the first token, say).
    const auto index = lowering.constant(node.input(1));
    if (index && index->tensor != nullptr && index->count() == 1) {
        const auto at = static_cast<std::size_t>(axis);
        Slice detail;
        detail.starts.assign(dims.size(), 0);
        detail.steps.assign(dims.size(), 1);
        const std::int64_t which = index->tensor->to_int64s()[0];
        detail.starts[at] = which < 0 ? which + dims[at] : which;
        Shape cut = dims;
        cut[at] = 1;
        const std::string name = node.output(0) + "/slice";
        if (part_in_place(lowering, name, cut, from, detail)) {
            lowering.mark(&node);
            lowering.make_alias(node.output(0), lowering.forms(name).back(), lowering.dims(node.output(0)),
                                Layout::linear);
            return {};
        }
        const ValueId made = lowering.make(name, type, cut, Layout::linear, scale);
        lowering.add(node, {}, detail, {from}, {made}, type);
        lowering.make_alias(node.output(0), made, lowering.dims(node.output(0)), Layout::linear);
        return {};
    }
    LATHE_TRY(const ValueId indices, indices_of(lowering, node.input(1), false));
    Gather detail;
    detail.axis = axis;
    const ValueId made = lowering.make_result(node.output(0), type, Layout::linear, scale);
    lowering.add(node, {}, std::move(detail), {from, indices}, {made}, type);
    return {};
}

} // namespace

void add_embedding(LoweringTable& table) { table.emplace("Gather", gather); }

} // namespace lathe::cuda
