#include <algorithm>
#include <cmath>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/patterns/point_program.hpp"

namespace lathe::cuda {
namespace {

/// What gives a number that an operand's type holds, whatever the operands.
bool stays_within(const Node& node) {
    return node.is("Relu") || node.is("Min") || node.is("Max") || node.is("Clip") || node.is("Sign");
}

/// Why a node is no program in fp32, or "".
std::string refusal(const Lowering& lowering, const Node& node) {
    const DataType out = lowering.type_of(node.output(0));
    const auto takes = [&](DataType type) { return lowering.stored_type(type).has_value(); };
    if (!takes(out)) return "type " + lathe::to_string(out);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const DataType in = lowering.type_of(node.input(i));
        const bool shape_input = (node.is("Expand") && i == 1) || (node.is("Clip") && i > 0);
        if (!node.input(i).empty() && !shape_input && !takes(in)) return "type " + lathe::to_string(in);
    }
    const bool logical = out == DataType::boolean || node.is("Cast") || node.is("Where") || node.is("Expand") ||
                         (is_narrow(out) && stays_within(node));
    if (is_integer(out) && !logical) return "arithmetic on integers that does not fold";
    if (node.is("BatchNormalization")) {
        if (node.int_or("training_mode", 0) != 0) return "in training mode";
        if (lowering.dims(node.input(0)).size() < 2) return "of a value without channels";
        for (std::size_t i = 1; i < 5; ++i)
            if (!lowering.constant(node.input(i))) return "its statistics are not constant";
    }
    if (node.is("Clip") && lowering.opset() >= 11) {
        for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
            if (!node.input(i).empty() && !lowering.scalar(node.input(i))) return "bounds that are not constant";
        }
    }
    return "";
}

std::vector<std::string> operands_of(const Node& node) {
    if (node.is("Expand") || node.is("Clip") || node.is("BatchNormalization")) return {node.input(0)};
    return node.inputs;
}

/// Nodes that make up one program, and the value it gives.
struct Region {
    std::vector<Node*> nodes;
    std::string end;
};

/// The one value that is read outside the nodes; nothing if there are several.
std::optional<std::string> open_value(const Lowering& lowering, const std::vector<Node*>& nodes) {
    std::optional<std::string> found;
    for (const Node* node : nodes) {
        const std::string& value = node->output(0);
        const auto& readers = lowering.uses().consumers(value);
        const bool outside = lowering.uses().use_count(value) != readers.size() ||
                             std::any_of(readers.begin(), readers.end(), [&](const Node* reader) {
                                 return std::find(nodes.begin(), nodes.end(), reader) == nodes.end();
                             });
        if (!outside) continue;
        if (found) return std::nullopt;
        found = value;
    }
    return found;
}

bool writes(Lowering& lowering, const std::vector<Node*>& nodes, const std::string& end) {
    PointProgram program(lowering);
    for (const Node* node : nodes) {
        if (!write_node(lowering, program, *node)) return false;
    }
    return program.find(end).has_value();
}

/// What has to be computed first for `reader` to follow `nodes`: at most one node each operand that is not there, which
/// nothing else reads. Nothing if that is not enough.
std::optional<std::vector<Node*>> side_branches(Lowering& lowering, const std::vector<Node*>& nodes,
                                                const Node& reader) {
    const auto there = [&](const std::string& name) {
        return lowering.ready(name) ||
               std::ranges::any_of(nodes, [&](const Node* node) { return node->output(0) == name; });
    };
    std::vector<Node*> first;
    for (const std::string& name : operands_of(reader)) {
        if (there(name)) continue;
        Node* node = lowering.uses().producer(name);
        // A sum may end in a normalisation, which takes it along.
        if (node == nullptr || lowering.is_done(node) || !is_pointwise(*node) || node->is("Add") ||
            lowering.only_reader(name) != &reader || lowering.dims(name) != lowering.dims(reader.output(0)) ||
            !refusal(lowering, *node).empty() || !std::ranges::all_of(operands_of(*node), there))
            return std::nullopt;
        first.push_back(node);
    }
    return first;
}

//  x                         x
//  |                         |
//  Sub -> Mul -> Sqrt  ==>   one program (registers, one pass over memory)
//
// Grown forward while the sizes stay, what else is read is there already or one step away, and one value alone is read
// outside.
Region grow(Lowering& lowering, Node& start) {
    Region best{{&start}, start.output(0)};
    std::vector<Node*> nodes{&start};
    const Shape dims = lowering.dims(start.output(0));
    bool grew = true;
    while (grew && nodes.size() < 16) {
        grew = false;
        for (std::size_t i = 0; i < nodes.size() && !grew; ++i) {
            for (Node* reader : lowering.uses().consumers(nodes[i]->output(0))) {
                const bool inside = std::find(nodes.begin(), nodes.end(), reader) != nodes.end();
                if (inside || lowering.is_done(reader) || !is_pointwise(*reader) ||
                    lowering.dims(reader->output(0)) != dims || !refusal(lowering, *reader).empty()) {
                    continue;
                }
                const auto branches = side_branches(lowering, nodes, *reader);
                if (!branches) continue;
                const std::size_t before = nodes.size();
                nodes.insert(nodes.end(), branches->begin(), branches->end());
                nodes.push_back(reader);
                if (!writes(lowering, nodes, reader->output(0))) {
                    nodes.resize(before);
                    continue;
                }
                const auto end = open_value(lowering, nodes);
                if (end && writes(lowering, nodes, *end)) best = {nodes, *end};
                grew = true;
                break;
            }
        }
    }
    return best;
}

/// The form of an input: as it lies if its layout is the wanted one, whatever its type.
Result<ValueId> input_form(Lowering& lowering, const std::string& name, Layout layout) {
    if (const auto fixed = lowering.constant(name)) {
        const Constant small = lowering.without_repeats(*fixed);
        const auto type = lowering.stored_type(small.type);
        if (!type) return Error{ErrorCode::unsupported, "type " + lathe::to_string(small.type), name, ""};
        return lowering.constant_value(small, is_floating(small.type) ? ElementType::f32 : *type);
    }
    const std::size_t rank = lowering.dims(name).size();
    const Layout wanted = rank >= 3 && rank <= 5 ? layout : Layout::linear;
    std::optional<ValueId> found;
    for (const ValueId id : lowering.forms(name)) {
        const Value& value = lowering.value(id);
        if (value.layout != wanted || value.role == Role::output || value.type == ElementType::f64) continue;
        if (!found || lowering.value(*found).type == ElementType::s8) found = id;
    }
    if (found) return *found;
    LATHE_TRY(const ValueId any, lowering.want_any(name));
    return lowering.want(name, lowering.value(any).type, wanted);
}

Result<void> emit_program(Lowering& lowering, Node& node, const Region& region) {
    PointProgram program(lowering);
    for (const Node* each : region.nodes) {
        if (!write_node(lowering, program, *each)) return Lowering::cannot(node, "it does not fit a program");
    }
    const Shape dims = lowering.dims(region.end);
    Layout layout = Layout::linear;
    for (const std::string& name : program.inputs()) {
        if (!lowering.ready(name)) return Lowering::cannot(node, "an input is not made");
        if (lowering.dims(name).size() != dims.size()) continue;
        for (const ValueId id : lowering.forms(name)) {
            if (lowering.value(id).layout == Layout::nhwc && lowering.dims(name) == dims) layout = Layout::nhwc;
        }
    }
    std::vector<ValueId> inputs;
    for (const std::string& name : program.inputs()) {
        LATHE_TRY(const ValueId id, input_form(lowering, name, layout));
        inputs.push_back(id);
    }
    Pointwise detail;
    detail.code = program.code();
    detail.results = {static_cast<std::uint8_t>(*program.find(region.end) % PointProgram::registers)};

    std::vector<Node*> nodes = region.nodes;
    const auto type = lowering.stored_type(lowering.type_of(region.end));
    Node* reader = lowering.only_reader(region.end);
    const auto scale =
        reader != nullptr && reader->is("QuantizeLinear") ? lowering.symmetric_scale(*reader) : std::nullopt;
    ValueId out = none;
    if (scale) {
        nodes.push_back(reader);
        out = lowering.make(reader->output(0), ElementType::s8, dims, layout, *scale);
    } else if (is_real(*type) && layout == Layout::linear && reader != nullptr && reader->is("GridSample") &&
               reader->input(1) == region.end) {
        // 16 bits would place pixels of a large image to a fraction of their width.
        out = lowering.make(region.end, ElementType::f32, dims, layout);
    } else {
        out = lowering.make_result(region.end, *type, layout);
    }
    lowering.add(node, nodes, std::move(detail), std::move(inputs), {out}, ElementType::f32);
    for (const ClampedConstant& each : program.clamped())
        lowering.plan().weights->clamped.emplace(each.name, each);
    return {};
}

/// A Cast between types that are stored alike: float32 and float16 in an FP16 engine, as models have them that were
/// made for mixed precision or whose inputs and outputs are FP16.
bool is_no_conversion(const Lowering& lowering, const Node& node) {
    if (!node.is("Cast") || lowering.constant(node.input(0))) return false;
    const DataType from = lowering.type_of(node.input(0)), to = lowering.type_of(node.output(0));
    return is_floating(from) && is_floating(to) && lowering.stored_type(from) == lowering.stored_type(to);
}

Result<void> pointwise(Lowering& lowering, Node& node) {
    LATHE_TRY(const bool whole, integer_arithmetic(lowering, node));
    if (whole) return {};
    if (const std::string why = refusal(lowering, node); !why.empty()) return Lowering::cannot(node, why);
    for (const std::string& name : operands_of(node)) {
        if (!name.empty() && !lowering.ready(name)) return Lowering::cannot(node, "an input is not made");
    }
    if (is_no_conversion(lowering, node)) {
        const std::vector<ValueId> forms = lowering.forms(node.input(0));
        for (const ValueId id : forms)
            lowering.add_form(node.output(0), id);
        lowering.mark(&node);
        return {};
    }
    if (node.is("Add")) {
        LATHE_TRY(const bool taken, add_and_normalise(lowering, node));
        if (taken) return {};
    }
    // GELU and kin by their one instruction sequence, where the chain is one.
    return emit_program(lowering, node, grow(lowering, node));
}

} // namespace

void add_pointwise(LoweringTable& table) {
    for (const std::string_view name : pointwise_ops())
        table.emplace(name, pointwise);
}

} // namespace lathe::cuda
