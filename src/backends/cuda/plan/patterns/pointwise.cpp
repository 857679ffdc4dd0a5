#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "support/score_mask.hpp"

namespace lathe::cuda {
namespace {

constexpr std::size_t max_code = 24;
constexpr std::size_t registers = 12;
constexpr std::size_t max_inputs = 8;

bool integer(DataType type) {
    return type == DataType::int64 || type == DataType::int32 || type == DataType::boolean || type == DataType::int8;
}

/// A register program being written. Functions give the instruction's number, or nothing where the program has no room.
class Program {
public:
    explicit Program(Lowering& lowering) : lowering_(lowering) {}

    std::optional<std::size_t> emit(PointOp op, std::vector<std::size_t> operands = {}, float x = 0, float y = 0) {
        if (code_.size() == max_code) return std::nullopt;
        PointInstruction made;
        made.op = op;
        made.x = x;
        made.y = y;
        std::array<std::uint8_t*, 3> places{&made.a, &made.b, &made.c};
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (!alive(operands[i])) return std::nullopt;
            *places[i] = static_cast<std::uint8_t>(operands[i] % registers);
        }
        code_.push_back(made);
        return code_.size() - 1;
    }
    std::optional<std::size_t> constant(float value) { return emit(PointOp::constant, {}, value); }

    /// An operand of a node: computed before, a scalar constant, or an input that is loaded.
    std::optional<std::size_t> operand(const std::string& name) {
        if (const auto found = at_.find(name); found != at_.end()) {
            if (alive(found->second)) return found->second;
            if (computed_.contains(name)) return std::nullopt;
        }
        std::optional<std::size_t> made;
        if (const auto scalar = lowering_.scalar(name)) {
            // Additive masks as exporters write them; FP16 has nothing below -65504, and this vanishes as well.
            const bool mask = lowering_.base() == ElementType::f16 && *scalar < -65504 && std::isfinite(*scalar);
            made = constant(mask ? narrow_mask : *scalar);
            if (mask) clamped_.push_back(clamped_constant(name, std::span(&*scalar, 1), DataType::float16));
        } else {
            made = load(name);
        }
        if (made) at_[name] = *made;
        return made;
    }
    std::optional<std::size_t> load(const std::string& name) {
        auto found = std::find(inputs_.begin(), inputs_.end(), name);
        if (found == inputs_.end()) {
            if (inputs_.size() == max_inputs) return std::nullopt;
            inputs_.push_back(name);
            found = inputs_.end() - 1;
        }
        const auto made = emit(PointOp::input);
        if (made) code_[*made].a = static_cast<std::uint8_t>(found - inputs_.begin());
        return made;
    }
    void define(const std::string& name, std::size_t at) {
        at_[name] = at;
        computed_.insert(name);
    }
    bool alive(std::size_t at) const { return at + registers >= code_.size() + 1; }
    std::optional<std::size_t> find(const std::string& name) const {
        const auto found = at_.find(name);
        if (found == at_.end() || found->second + registers < code_.size()) return std::nullopt;
        return found->second;
    }
    const std::vector<PointInstruction>& code() const { return code_; }
    const std::vector<std::string>& inputs() const { return inputs_; }
    const std::vector<ClampedConstant>& clamped() const { return clamped_; }

private:
    Lowering& lowering_;
    std::vector<PointInstruction> code_;
    std::vector<std::string> inputs_;
    std::vector<ClampedConstant> clamped_;
    std::map<std::string, std::size_t> at_;
    std::unordered_set<std::string> computed_;
};

using At = std::optional<std::size_t>;

const std::map<std::string_view, PointOp>& plain_ops() {
    static const std::map<std::string_view, PointOp> table{
        {"Add", PointOp::add},         {"Sub", PointOp::sub},
        {"Mul", PointOp::mul},         {"Div", PointOp::div},
        {"Min", PointOp::min},         {"Max", PointOp::max},
        {"Pow", PointOp::pow},         {"Neg", PointOp::neg},
        {"Abs", PointOp::abs},         {"Exp", PointOp::exp},
        {"Log", PointOp::log},         {"Sqrt", PointOp::sqrt},
        {"Erf", PointOp::erf},         {"Tanh", PointOp::tanh},
        {"Relu", PointOp::relu},       {"Sigmoid", PointOp::sigmoid},
        {"Floor", PointOp::floor},     {"Ceil", PointOp::ceil},
        {"Round", PointOp::round},     {"Sin", PointOp::sin},
        {"Cos", PointOp::cos},         {"Reciprocal", PointOp::reciprocal},
        {"Equal", PointOp::equal},     {"Less", PointOp::less},
        {"Greater", PointOp::greater}, {"Not", PointOp::logical_not},
        {"And", PointOp::logical_and}, {"Or", PointOp::logical_or},
        {"Where", PointOp::select},    {"Sum", PointOp::add}};
    return table;
}

constexpr std::array other_ops{"Clip",   "LeakyRelu", "HardSigmoid", "HardSwish", "Gelu",        "Swish",
                               "Elu",    "Softplus",  "Cast",        "PRelu",     "LessOrEqual", "GreaterOrEqual",
                               "Expand", "Mean",      "IsNaN"};

bool is_pointwise(const Node& node) {
    if (!node.domain.empty()) return false;
    return plain_ops().contains(node.op_type) ||
           std::find(other_ops.begin(), other_ops.end(), node.op_type) != other_ops.end();
}

At write_cast(Lowering& lowering, Program& p, const Node& node) {
    const auto to = static_cast<DataType>(node.int_or("to", 1));
    const At x = p.operand(node.input(0));
    if (!x) return x;
    if (to == DataType::boolean) {
        const At zero = p.constant(0);
        if (!zero) return zero;
        const At equal = p.emit(PointOp::equal, {*x, *zero});
        return equal ? p.emit(PointOp::logical_not, {*equal}) : equal;
    }
    if (!integer(to) || integer(lowering.type_of(node.input(0)))) return p.emit(PointOp::cast, {*x});
    const At zero = p.constant(0);
    if (!zero) return zero;
    const At below = p.emit(PointOp::less, {*x, *zero});
    const At up = p.emit(PointOp::ceil, {*x});
    const At down = p.emit(PointOp::floor, {*x});
    return below && up && down ? p.emit(PointOp::select, {*below, *up, *down}) : At{};
}

/// a * x + b, by constants
At affine(Program& p, At x, float a, float b) {
    const At ca = p.constant(a);
    if (!x || !ca) return {};
    const At product = p.emit(PointOp::mul, {*x, *ca});
    const At cb = p.constant(b);
    return product && cb ? p.emit(PointOp::add, {*product, *cb}) : At{};
}

At write_activation(Lowering& lowering, Program& p, const Node& node) {
    const At x = p.operand(node.input(0));
    if (!x) return x;
    const std::string& type = node.op_type;
    const auto twice = [&](PointOp op, At a, At b) { return a && b ? p.emit(op, {*a, *b}) : At{}; };
    if (type == "Clip") {
        const auto bound = [&](std::size_t index, const char* attribute, float otherwise) {
            if (lowering.opset() < 11) return std::optional(node.float_or(attribute, otherwise));
            return node.input(index).empty() ? std::optional(otherwise) : lowering.scalar(node.input(index));
        };
        const auto low = bound(1, "min", -INFINITY);
        const auto high = bound(2, "max", INFINITY);
        return low && high ? p.emit(PointOp::clip, {*x}, *low, *high) : At{};
    }
    if (type == "LeakyRelu") {
        const float alpha = node.float_or("alpha", 0.01F);
        const At slope = p.constant(alpha);
        return twice(alpha <= 1 ? PointOp::max : PointOp::min, x, twice(PointOp::mul, x, slope));
    }
    if (type == "HardSigmoid" || type == "HardSwish") {
        const bool swish = type == "HardSwish";
        const At line =
            affine(p, x, swish ? 1.0F / 6 : node.float_or("alpha", 0.2F), swish ? 0.5F : node.float_or("beta", 0.5F));
        const At gate = line ? p.emit(PointOp::clip, {*line}, 0, 1) : At{};
        return swish ? twice(PointOp::mul, x, gate) : gate;
    }
    if (type == "Swish") {
        const At scaled = affine(p, x, node.float_or("alpha", 1), 0);
        return twice(PointOp::mul, x, scaled ? p.emit(PointOp::sigmoid, {*scaled}) : At{});
    }
    if (type == "Gelu") {
        if (node.string_or("approximate", "none") == "tanh") { // (1 + tanh(u)) / 2 = sigmoid(2 u)
            const At cubic = affine(p, twice(PointOp::mul, x, x), 2 * 0.044715F * 0.79788456F, 2 * 0.79788456F);
            const At argument = twice(PointOp::mul, cubic, x);
            return twice(PointOp::mul, x, argument ? p.emit(PointOp::sigmoid, {*argument}) : At{});
        }
        const At scaled = affine(p, x, 0.70710678F, 0);
        const At inner = scaled ? p.emit(PointOp::erf, {*scaled}) : At{};
        return twice(PointOp::mul, x, affine(p, inner, 0.5F, 0.5F));
    }
    const At zero = p.constant(0);
    if (type == "Elu") {
        const At low = twice(PointOp::min, x, zero);
        const float alpha = node.float_or("alpha", 1);
        const At curve = affine(p, low ? p.emit(PointOp::exp, {*low}) : At{}, alpha, -alpha);
        return twice(PointOp::add, twice(PointOp::max, x, zero), curve);
    }
    if (type == "Softplus") { // max(x, 0) + log(1 + exp(-|x|))
        const At size = p.emit(PointOp::abs, {*x});
        const At negative = size ? p.emit(PointOp::neg, {*size}) : At{};
        const At sum = affine(p, negative ? p.emit(PointOp::exp, {*negative}) : At{}, 1, 1);
        return twice(PointOp::add, sum ? p.emit(PointOp::log, {*sum}) : At{}, twice(PointOp::max, x, zero));
    }
    if (type == "PRelu") {
        const At slope = p.operand(node.input(1));
        return twice(PointOp::add, twice(PointOp::mul, twice(PointOp::min, x, zero), slope),
                     twice(PointOp::max, x, zero));
    }
    return {};
}

/// Appends a node's instructions; false where it does not fit, the program then being spoiled.
bool write(Lowering& lowering, Program& p, const Node& node) {
    At result;
    if (const auto plain = plain_ops().find(node.op_type); plain != plain_ops().end()) {
        const PointOp op = plain->second;
        if (op == PointOp::select) {
            const At a = p.operand(node.input(0));
            const At b = p.operand(node.input(1));
            const At c = p.operand(node.input(2));
            if (a && b && c) result = p.emit(op, {*a, *b, *c});
        } else if (node.inputs.size() == 1) {
            const At x = p.operand(node.input(0));
            if (x) result = node.is("Sum") || node.is("Min") || node.is("Max") ? x : p.emit(op, {*x});
        } else {
            result = p.operand(node.input(0));
            for (std::size_t i = 1; i < node.inputs.size() && result; ++i) {
                const At next = p.operand(node.input(i));
                result = next ? p.emit(op, {*result, *next}) : next;
            }
        }
    } else if (node.is("Cast")) {
        result = write_cast(lowering, p, node);
    } else if (node.is("Expand")) {
        result = p.operand(node.input(0));
    } else if (node.is("Mean")) {
        result = p.operand(node.input(0));
        for (std::size_t i = 1; i < node.inputs.size() && result; ++i) {
            const At next = p.operand(node.input(i));
            result = next ? p.emit(PointOp::add, {*result, *next}) : next;
        }
        if (result) result = affine(p, result, 1.0F / static_cast<float>(node.inputs.size()), 0);
    } else if (node.is("IsNaN")) {
        const At x = p.operand(node.input(0));
        const At equal = x ? p.emit(PointOp::equal, {*x, *x}) : At{};
        if (equal) result = p.emit(PointOp::logical_not, {*equal});
    } else if (node.is("LessOrEqual") || node.is("GreaterOrEqual")) {
        const At a = p.operand(node.input(0));
        const At b = p.operand(node.input(1));
        const At less = a && b ? p.emit(node.is("LessOrEqual") ? PointOp::less : PointOp::greater, {*a, *b}) : At{};
        const At equal = a && b ? p.emit(PointOp::equal, {*a, *b}) : At{};
        if (less && equal) result = p.emit(PointOp::logical_or, {*less, *equal});
    } else {
        result = write_activation(lowering, p, node);
    }
    if (result) p.define(node.output(0), *result);
    return result.has_value();
}

/// Why a node is no program in fp32, or "".
std::string refusal(const Lowering& lowering, const Node& node) {
    const DataType out = lowering.type_of(node.output(0));
    const auto takes = [&](DataType type) { return is_floating(type) ? type != DataType::float64 : integer(type); };
    if (!takes(out)) return "type " + lathe::to_string(out);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const DataType in = lowering.type_of(node.input(i));
        const bool shape_input = (node.is("Expand") && i == 1) || (node.is("Clip") && i > 0);
        if (!node.input(i).empty() && !shape_input && !takes(in)) return "type " + lathe::to_string(in);
    }
    const bool logical = out == DataType::boolean || node.is("Cast") || node.is("Where") || node.is("Expand");
    if (integer(out) && !logical) return "arithmetic on integers that does not fold";
    if (node.is("Clip") && lowering.opset() >= 11) {
        for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
            if (!node.input(i).empty() && !lowering.scalar(node.input(i))) return "bounds that are not constant";
        }
    }
    return "";
}

std::vector<std::string> operands_of(const Node& node) {
    if (node.is("Expand") || node.is("Clip")) return {node.input(0)};
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
    Program program(lowering);
    for (const Node* node : nodes) {
        if (!write(lowering, program, *node)) return false;
    }
    return program.find(end).has_value();
}

//  x                         x
//  |                         |
//  Sub -> Mul -> Sqrt  ==>   one program (registers, one pass over memory)
//
// Grown forward while the sizes stay, what else is read is there already, and one value alone is read outside.
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
                const auto operands = operands_of(*reader);
                const bool there = std::all_of(operands.begin(), operands.end(), [&](const std::string& name) {
                    const bool computed = std::any_of(nodes.begin(), nodes.end(),
                                                      [&](const Node* node) { return node->output(0) == name; });
                    return computed || lowering.ready(name);
                });
                if (!there) continue;
                nodes.push_back(reader);
                if (!writes(lowering, nodes, reader->output(0))) {
                    nodes.pop_back();
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
    const Layout wanted = rank == 3 || rank == 4 ? layout : Layout::linear;
    std::optional<ValueId> found;
    for (const ValueId id : lowering.forms(name)) {
        const Value& value = lowering.value(id);
        if (value.layout != wanted || value.role == Role::output) continue;
        if (!found || lowering.value(*found).type == ElementType::s8) found = id;
    }
    if (found) return *found;
    LATHE_TRY(const ValueId any, lowering.want_any(name));
    return lowering.want(name, lowering.value(any).type, wanted);
}

Result<void> emit_program(Lowering& lowering, Node& node, const Region& region) {
    Program program(lowering);
    for (const Node* each : region.nodes) {
        if (!write(lowering, program, *each)) return Lowering::cannot(node, "it does not fit a program");
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
    detail.results = {static_cast<std::uint8_t>(*program.find(region.end) % registers)};

    std::vector<Node*> nodes = region.nodes;
    const auto type = lowering.stored_type(lowering.type_of(region.end));
    Node* reader = lowering.only_reader(region.end);
    const auto scale =
        reader != nullptr && reader->is("QuantizeLinear") ? lowering.symmetric_scale(*reader) : std::nullopt;
    ValueId out = none;
    if (scale) {
        nodes.push_back(reader);
        out = lowering.make(reader->output(0), ElementType::s8, dims, layout, *scale);
    } else {
        out = lowering.make_result(region.end, *type, layout);
    }
    lowering.add(node, nodes, std::move(detail), std::move(inputs), {out}, ElementType::f32);
    for (const ClampedConstant& each : program.clamped())
        lowering.plan().weights->clamped.emplace(each.name, each);
    return {};
}

Result<void> pointwise(Lowering& lowering, Node& node) {
    if (const std::string why = refusal(lowering, node); !why.empty()) return Lowering::cannot(node, why);
    for (const std::string& name : operands_of(node)) {
        if (!name.empty() && !lowering.ready(name)) return Lowering::cannot(node, "an input is not made");
    }
    if (node.is("Add")) {
        LATHE_TRY(const bool taken, add_and_normalise(lowering, node));
        if (taken) return {};
    }
    // GELU and kin by their one instruction sequence, where the chain is one.
    return emit_program(lowering, node, grow(lowering, node));
}

//  BatchNormalization (that no weights before it could take): y = x * scale + bias by channel
Result<void> batch_norm(Lowering& lowering, Node& node) {
    std::vector<Constant> parts;
    for (std::size_t i = 1; i < 5; ++i) {
        const auto part = lowering.constant(node.input(i));
        if (!part) return Lowering::cannot(node, "its statistics are not constant");
        parts.push_back(*part);
    }
    const Shape dims = lowering.dims(node.input(0));
    if (node.int_or("training_mode", 0) != 0 || dims.size() < 2) return Lowering::cannot(node, "in training mode");
    Shape shape(dims.size() - 1, 1);
    shape[0] = dims[1];
    const float epsilon = node.float_or("epsilon", 1e-5F);
    const std::string key = parts[0].key() + "+" + parts[1].key() + "+" + parts[2].key() + "+" + parts[3].key();
    const auto numbers = [&](bool scale) -> Result<std::vector<float>> {
        LATHE_TRY(const auto gamma, lowering.floats(parts[0]));
        LATHE_TRY(const auto beta, lowering.floats(parts[1]));
        LATHE_TRY(const auto mean, lowering.floats(parts[2]));
        LATHE_TRY(const auto variance, lowering.floats(parts[3]));
        std::vector<float> values(gamma.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double factor = static_cast<double>(gamma[i]) /
                                  std::sqrt(static_cast<double>(variance[i]) + static_cast<double>(epsilon));
            values[i] = static_cast<float>(
                scale ? factor : static_cast<double>(beta[i]) - static_cast<double>(mean[i]) * factor);
        }
        return values;
    };
    LATHE_TRY(const ValueId x, lowering.want_any(node.input(0)));
    LATHE_TRY(const ValueId scale, lowering.vector_value(key + "|scale", shape, [&] { return numbers(true); }));
    LATHE_TRY(const ValueId bias, lowering.vector_value(key + "|bias", shape, [&] { return numbers(false); }));
    Pointwise detail;
    const auto step = [&](PointOp op, std::uint8_t a, std::uint8_t b) {
        PointInstruction made;
        made.op = op;
        made.a = a;
        made.b = b;
        detail.code.push_back(made);
    };
    step(PointOp::input, 0, 0);
    step(PointOp::input, 1, 0);
    step(PointOp::mul, 0, 1);
    step(PointOp::input, 2, 0);
    step(PointOp::add, 2, 3);
    std::uint8_t result = 4;
    std::vector<Node*> nodes;
    std::string end = node.output(0);
    if (Node* reader = lowering.only_reader(end); reader != nullptr && reader->is("Relu")) {
        step(PointOp::relu, 4, 0);
        result = 5;
        nodes.push_back(reader);
        end = reader->output(0);
    }
    detail.results = {result};
    const Layout layout = lowering.value(x).layout;
    const ElementType type = lowering.value(x).type;
    const ValueId out = lowering.make_result(end, type, layout);
    lowering.add(node, nodes, std::move(detail), {x, scale, bias}, {out}, ElementType::f32);
    return {};
}

} // namespace

void add_pointwise(LoweringTable& table) {
    for (const auto& [name, op] : plain_ops())
        table.emplace(name, pointwise);
    for (const char* name : other_ops)
        table.emplace(name, pointwise);
    table.emplace("BatchNormalization", batch_norm);
}

} // namespace lathe::cuda
