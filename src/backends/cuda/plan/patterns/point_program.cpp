#include "backends/cuda/plan/patterns/point_program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "support/score_mask.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t max_code = 24;
constexpr std::size_t max_inputs = 8;

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
        {"Where", PointOp::select},    {"Sum", PointOp::add},
        {"Atan", PointOp::atan}};
    return table;
}

constexpr std::array other_ops{"Clip",   "LeakyRelu", "HardSigmoid", "HardSwish",
                               "Gelu",   "Swish",     "Elu",         "Softplus",
                               "Cast",   "PRelu",     "LessOrEqual", "GreaterOrEqual",
                               "Expand", "Mean",      "IsNaN",       "IsInf",
                               "Xor",    "Sign",      "Tan",         "Sinh",
                               "Cosh",   "Asinh",     "Acosh",       "Atanh",
                               "Asin",   "Acos",      "Selu",        "BatchNormalization",
                               "Shrink", "Softsign",  "Celu",        "ThresholdedRelu"};

At write_cast(Lowering& lowering, PointProgram& p, const Node& node) {
    const auto to = static_cast<DataType>(node.int_or("to", 1));
    const At x = p.operand(node.input(0));
    if (!x) return x;
    if (to == DataType::boolean) {
        const At zero = p.constant(0);
        if (!zero) return zero;
        const At equal = p.emit(PointOp::equal, {*x, *zero});
        return equal ? p.emit(PointOp::logical_not, {*equal}) : equal;
    }
    if (!is_integer(to) || is_integer(lowering.type_of(node.input(0)))) return p.emit(PointOp::cast, {*x});
    const At zero = p.constant(0);
    if (!zero) return zero;
    const At below = p.emit(PointOp::less, {*x, *zero});
    const At up = p.emit(PointOp::ceil, {*x});
    const At down = p.emit(PointOp::floor, {*x});
    return below && up && down ? p.emit(PointOp::select, {*below, *up, *down}) : At{};
}

/// BatchNormalization that no weights before it could take: x * factor + shift by channel, in fp32 whatever the
/// precision.
At write_batch_norm(Lowering& lowering, PointProgram& p, const Node& node) {
    std::vector<Constant> parts;
    for (std::size_t i = 1; i < 5; ++i) {
        const auto part = lowering.constant(node.input(i));
        if (!part) return {};
        parts.push_back(*part);
    }
    const Shape dims = lowering.dims(node.input(0));
    if (dims.size() < 2) return {};
    Shape shape(dims.size() - 1, 1);
    shape[0] = dims[1];
    const float epsilon = node.float_or("epsilon", 1e-5F);
    const auto numbers = [&](bool factors) -> Result<std::vector<float>> {
        LATHE_TRY(const auto gamma, lowering.floats(parts[0]));
        LATHE_TRY(const auto beta, lowering.floats(parts[1]));
        LATHE_TRY(const auto mean, lowering.floats(parts[2]));
        LATHE_TRY(const auto variance, lowering.floats(parts[3]));
        std::vector<float> values(gamma.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double factor = static_cast<double>(gamma[i]) /
                                  std::sqrt(static_cast<double>(variance[i]) + static_cast<double>(epsilon));
            values[i] = static_cast<float>(
                factors ? factor : static_cast<double>(beta[i]) - static_cast<double>(mean[i]) * factor);
        }
        return values;
    };
    const std::string key = parts[0].key() + "+" + parts[1].key() + "+" + parts[2].key() + "+" + parts[3].key() + "+" +
                            std::to_string(std::bit_cast<std::uint32_t>(epsilon)) + "+" + std::to_string(dims.size());
    const auto brought = [&](const char* which, bool factors) {
        const std::string name = key + which;
        if (lowering.forms(name).empty()) {
            const auto id = lowering.vector_value(name, shape, [&] { return numbers(factors); });
            if (!id) return At{};
            lowering.add_form(name, *id);
        }
        return p.operand(name);
    };
    const At x = p.operand(node.input(0)), factor = brought("|factor", true);
    const At product = x && factor ? p.emit(PointOp::mul, {*x, *factor}) : At{};
    const At shift = brought("|shift", false);
    return product && shift ? p.emit(PointOp::add, {*product, *shift}) : At{};
}

/// a * x + b, by constants
At affine(PointProgram& p, At x, float a, float b) {
    const At ca = p.constant(a);
    if (!x || !ca) return {};
    const At product = p.emit(PointOp::mul, {*x, *ca});
    const At cb = p.constant(b);
    return product && cb ? p.emit(PointOp::add, {*product, *cb}) : At{};
}

/// Functions of one number that are written with those that kernels have.
At write_function(PointProgram& p, const Node& node) {
    const At x = p.operand(node.input(0));
    if (!x) return x;
    const std::string& type = node.op_type;
    const auto one = [&](PointOp op, At a) { return a ? p.emit(op, {*a}) : At{}; };
    const auto two = [&](PointOp op, At a, At b) { return a && b ? p.emit(op, {*a, *b}) : At{}; };
    const auto sign = [&] {
        const At zero = p.constant(0);
        return two(PointOp::sub, two(PointOp::greater, x, zero), two(PointOp::less, x, zero));
    };
    if (type == "Sign") return sign();
    if (type == "IsInf") {
        const bool below = node.int_or("detect_negative", 1) != 0, above = node.int_or("detect_positive", 1) != 0;
        const At from = below && above ? one(PointOp::abs, x) : below ? one(PointOp::neg, x) : x;
        if (!below && !above) return two(PointOp::less, x, x);
        return two(PointOp::equal, from, p.constant(INFINITY));
    }
    if (type == "Tan") return two(PointOp::div, one(PointOp::sin, x), one(PointOp::cos, x));
    if (type == "Sinh" || type == "Cosh") {
        const At up = one(PointOp::exp, x), down = one(PointOp::exp, one(PointOp::neg, x));
        return affine(p, two(type == "Sinh" ? PointOp::sub : PointOp::add, up, down), 0.5F, 0);
    }
    if (type == "Asinh") { // odd: of the size, which loses nothing by cancellation
        const At size = one(PointOp::abs, x);
        const At root = one(PointOp::sqrt, affine(p, two(PointOp::mul, size, size), 1, 1));
        return two(PointOp::mul, one(PointOp::log, two(PointOp::add, size, root)), sign());
    }
    if (type == "Acosh") {
        const At root = one(PointOp::sqrt, affine(p, two(PointOp::mul, x, x), 1, -1));
        return one(PointOp::log, two(PointOp::add, x, root));
    }
    if (type == "Atanh")
        return affine(p, one(PointOp::log, two(PointOp::div, affine(p, x, 1, 1), affine(p, x, -1, 1))), 0.5F, 0);
    if (type == "Asin" || type == "Acos") {
        const At rest = one(PointOp::sqrt, affine(p, two(PointOp::mul, x, x), -1, 1));
        const At angle = one(PointOp::atan, two(PointOp::div, x, rest));
        return type == "Asin" ? angle : affine(p, angle, -1, 1.57079633F);
    }
    return {};
}

At write_activation(Lowering& lowering, PointProgram& p, const Node& node) {
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
    if (type == "Softsign") return twice(PointOp::div, x, affine(p, p.emit(PointOp::abs, {*x}), 1, 1));
    if (type == "ThresholdedRelu") {
        const At above = twice(PointOp::greater, x, p.constant(node.float_or("alpha", 1))), nothing = p.constant(0);
        return above && nothing ? p.emit(PointOp::select, {*above, *x, *nothing}) : At{};
    }
    if (type == "Shrink") {
        const float edge = node.float_or("lambd", 0.5F), bias = node.float_or("bias", 0);
        const At high = twice(PointOp::add, x, p.constant(-bias)), low = twice(PointOp::add, x, p.constant(bias));
        const At above = twice(PointOp::greater, x, p.constant(edge)),
                 below = twice(PointOp::less, x, p.constant(-edge));
        const At nothing = p.constant(0);
        const At rest = below && low && nothing ? p.emit(PointOp::select, {*below, *low, *nothing}) : At{};
        return above && high && rest ? p.emit(PointOp::select, {*above, *high, *rest}) : At{};
    }
    const At zero = p.constant(0);
    if (type == "Elu" || type == "Celu" || type == "Selu") {
        const float alpha = node.float_or("alpha", type == "Selu" ? 1.67326319F : 1.0F);
        const At low = twice(PointOp::min, x, zero), high = twice(PointOp::max, x, zero);
        const At of = type == "Celu" ? affine(p, low, 1 / alpha, 0) : low;
        const At curve = affine(p, of ? p.emit(PointOp::exp, {*of}) : At{}, alpha, -alpha);
        const At sum = twice(PointOp::add, high, curve);
        return type == "Selu" ? affine(p, sum, node.float_or("gamma", 1.05070102F), 0) : sum;
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

} // namespace

bool is_integer(DataType type) {
    switch (type) {
        case DataType::boolean:
        case DataType::int8:
        case DataType::uint8:
        case DataType::int16:
        case DataType::uint16:
        case DataType::int32:
        case DataType::uint32:
        case DataType::int64:
        case DataType::uint64: return true;
        default: return false;
    }
}

bool is_narrow(DataType type) {
    return is_integer(type) && type != DataType::int32 && type != DataType::uint32 && type != DataType::int64 &&
           type != DataType::uint64;
}

std::optional<std::size_t> PointProgram::emit(PointOp op, std::vector<std::size_t> operands, float x, float y) {
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

std::optional<std::size_t> PointProgram::operand(const std::string& name) {
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

std::optional<std::size_t> PointProgram::load(const std::string& name) {
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

const std::vector<std::string_view>& pointwise_ops() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> all(other_ops.begin(), other_ops.end());
        for (const auto& [name, op] : plain_ops())
            all.push_back(name);
        return all;
    }();
    return names;
}

bool is_pointwise(const Node& node) {
    if (!node.domain.empty()) return false;
    return plain_ops().contains(node.op_type) ||
           std::find(other_ops.begin(), other_ops.end(), node.op_type) != other_ops.end();
}

bool write_node(Lowering& lowering, PointProgram& p, const Node& node) {
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
    } else if (node.is("BatchNormalization")) {
        result = write_batch_norm(lowering, p, node);
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
    } else if (node.is("Xor")) {
        const At a = p.operand(node.input(0));
        const At b = p.operand(node.input(1));
        const At equal = a && b ? p.emit(PointOp::equal, {*a, *b}) : At{};
        if (equal) result = p.emit(PointOp::logical_not, {*equal});
    } else if (node.is("LessOrEqual") || node.is("GreaterOrEqual")) {
        const At a = p.operand(node.input(0));
        const At b = p.operand(node.input(1));
        const At less = a && b ? p.emit(node.is("LessOrEqual") ? PointOp::less : PointOp::greater, {*a, *b}) : At{};
        const At equal = a && b ? p.emit(PointOp::equal, {*a, *b}) : At{};
        if (less && equal) result = p.emit(PointOp::logical_or, {*less, *equal});
    } else {
        result = write_activation(lowering, p, node);
        if (!result) result = write_function(p, node);
    }
    if (result) p.define(node.output(0), *result);
    return result.has_value();
}

} // namespace lathe::cuda
