#include "backends/cuda/plan/text.hpp"

#include <charconv>

#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/overloaded.hpp"

namespace lathe::cuda {

const char* to_string(Activation act) {
    switch (act) {
        case Activation::none: return "none";
        case Activation::relu: return "relu";
        case Activation::clip: return "clip";
        case Activation::leaky_relu: return "leaky_relu";
        case Activation::gelu_erf: return "gelu_erf";
        case Activation::gelu_tanh: return "gelu_tanh";
        case Activation::sigmoid: return "sigmoid";
        case Activation::silu: return "silu";
        case Activation::hard_sigmoid: return "hard_sigmoid";
        case Activation::hard_swish: return "hard_swish";
        case Activation::tanh: return "tanh";
    }
    return "unknown";
}

const char* to_string(PointOp op) {
    static constexpr std::array names{"input",   "constant", "add",   "sub",  "mul",    "div",   "min", "max",   "pow",
                                      "neg",     "abs",      "exp",   "log",  "sqrt",   "recip", "erf", "tanh",  "sigm",
                                      "relu",    "clip",     "floor", "ceil", "round",  "sin",   "cos", "equal", "less",
                                      "greater", "not",      "and",   "or",   "select", "cast",  "atan"};
    static_assert(names.size() == static_cast<std::size_t>(PointOp::atan) + 1);
    return names[static_cast<std::size_t>(op)];
}

int arity(PointOp op) {
    switch (op) {
        case PointOp::input:
        case PointOp::constant: return 0;
        case PointOp::add:
        case PointOp::sub:
        case PointOp::mul:
        case PointOp::div:
        case PointOp::min:
        case PointOp::max:
        case PointOp::pow:
        case PointOp::equal:
        case PointOp::less:
        case PointOp::greater:
        case PointOp::logical_and:
        case PointOp::logical_or: return 2;
        case PointOp::select: return 3;
        default: return 1;
    }
}

namespace {

std::string number(double value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<float>(value)).ptr;
    return {buffer.data(), end};
}

template <class List>
std::string list(const List& values) {
    std::string text;
    for (const auto& value : values)
        text += (text.empty() ? "" : ",") + std::to_string(value);
    return text;
}

std::string window_text(const Window& w) {
    std::string text = " kernel=" + list(w.kernel) + " stride=" + list(w.stride) + " pads=" + list(w.pads);
    if (w.dilation[0] != 1 || w.dilation[1] != 1) text += " dilation=" + list(w.dilation);
    return text;
}

std::string program_text(const Pointwise& d) {
    std::string text = " {";
    for (std::size_t i = 0; i < d.code.size(); ++i) {
        const PointInstruction& c = d.code[i];
        text += (i == 0 ? "" : "; ") + std::string("r") + std::to_string(i % 12) + "=" + to_string(c.op);
        if (c.op == PointOp::input) text += "#" + std::to_string(c.a);
        if (c.op == PointOp::constant) text += " " + number(static_cast<double>(c.x));
        const std::array<std::uint8_t, 3> registers{c.a, c.b, c.c};
        for (int k = 0; k < arity(c.op); ++k)
            text += " r" + std::to_string(registers[static_cast<std::size_t>(k)]);
        if (c.op == PointOp::clip) {
            text += " " + number(static_cast<double>(c.x)) + " " + number(static_cast<double>(c.y));
        }
    }
    text += "} -> r" + list(d.results);
    for (std::size_t i = 0; i < d.views.size(); ++i) {
        if (d.view(i) == nullptr) continue;
        text += " #" + std::to_string(i) + " at [";
        for (const ViewAxis& axis : d.views[i].axes) {
            text += (text.ends_with("[") ? "" : ", ") + std::to_string(axis.start);
            if (axis.step != 0) text += "+" + std::to_string(axis.step) + "*i" + std::to_string(axis.axis);
        }
        text += "]";
    }
    return text;
}

/// Nothing where it is the usual one.
std::string view(const char* name, const HeadView& v) {
    if (v == HeadView{}) return "";
    return std::string(" ") + name + "=" + std::to_string(v.offset) + "+" + std::to_string(v.batch) + "," +
           std::to_string(v.row) + "," + std::to_string(v.head);
}

class Printer {
public:
    explicit Printer(const Plan& plan) : plan_(plan) {}

    std::string print() {
        std::string text;
        for (const ValueId id : plan_.inputs)
            text += "input " + value(id) + "\n";
        for (ValueId id = 0; id < plan_.values.size(); ++id) {
            if (plan_.values[id].role == Role::constant) {
                text += "constant " + value(id) + " = " + weight(plan_.values[id].weight) + "\n";
            }
        }
        std::vector<bool> told(plan_.values.size()); // parts that are written are told by who does so
        for (const FusedOp& op : plan_.ops)
            for (const ValueId id : op.outputs)
                told[id] = true;
        const auto tell_aliases = [&](ValueId of, const auto& self) -> void {
            for (ValueId id = 0; id < plan_.values.size(); ++id) {
                if (plan_.values[id].alias_of != of || told[id]) continue;
                told[id] = true;
                text += value(id) + " = alias %" + std::to_string(of) +
                        (plan_.values[id].alias_from == 0 || plan_.values[id].part
                             ? ""
                             : " from " + std::to_string(plan_.values[id].alias_from)) +
                        "\n";
                self(id, self);
            }
        };
        for (const ValueId id : plan_.inputs)
            tell_aliases(id, tell_aliases);
        for (const FusedOp& op : plan_.ops) {
            text += line(op) + "\n";
            for (const ValueId id : op.outputs)
                tell_aliases(plan_.values[id].part ? plan_.values[id].alias_of : id, tell_aliases);
        }
        for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
            text += "output %" + std::to_string(plan_.outputs[i]);
            if (i >= plan_.model_outputs()) {
                const OpenOutput& open = plan_.open[i - plan_.model_outputs()];
                text +=
                    " counts axis " + std::to_string(open.axis) + " of %" + std::to_string(plan_.outputs[open.output]);
            }
            text += "\n";
        }
        return text;
    }

private:
    std::string value(ValueId id) const {
        const Value& v = plan_.values[id];
        std::string text = "%" + std::to_string(id) + ":" + to_string(v.type) + "[" + list(v.dims) + "]";
        if (v.layout == Layout::nhwc) text += "nhwc" + std::to_string(v.channel_stride);
        if (v.type == ElementType::s8) text += "*" + number(static_cast<double>(v.scale));
        if (v.zero_point != 0) text += "@" + std::to_string(v.zero_point);
        if (v.part) text += "(%" + std::to_string(v.alias_of) + " from " + std::to_string(v.alias_from) + ")";
        return text;
    }
    std::string weight(WeightId id) const {
        if (id == none) return "none";
        const Weight& w = plan_.weights->weights[id];
        return "\"" + w.key + "\":" + to_string(w.type) + "[" + list(w.dims) + "]";
    }
    std::string epilogue(const Epilogue& e) const {
        std::string text;
        if (e.scale != none) text += " scale=" + weight(e.scale);
        if (e.bias != none) text += " bias=" + weight(e.bias);
        if (e.residual != none) {
            text += " residual=%" + std::to_string(e.residual);
            if (e.residual_scale != 1) text += "*" + number(static_cast<double>(e.residual_scale));
        }
        if (e.act != Activation::none) text += std::string(" ") + to_string(e.act);
        if (e.act == Activation::clip) {
            text += "(" + number(static_cast<double>(e.low)) + "," + number(static_cast<double>(e.high)) + ")";
        }
        if (e.act == Activation::leaky_relu) text += "(" + number(static_cast<double>(e.alpha)) + ")";
        if (e.act == Activation::hard_sigmoid) {
            text += "(" + number(static_cast<double>(e.alpha)) + "," + number(static_cast<double>(e.high)) + ")";
        }
        if (e.residual_last) text += " residual_last";
        if (e.output_scale_inverse != 1) text += " *" + number(static_cast<double>(e.output_scale_inverse));
        return text;
    }
    std::string detail(const FusedOp& op) const {
        return std::visit(
            Overloaded{
                [&](const Conv& d) {
                    std::string text = window_text(d.window);
                    if (d.groups != 1) text += " groups=" + std::to_string(d.groups);
                    text += " weight=" + weight(d.weight) + (d.reads_nchw ? " reads_nchw" : "") + epilogue(d.epilogue);
                    if (d.pooled) text += " pooled:" + window_text(d.pool);
                    return text;
                },
                [&](const Depthwise& d) {
                    std::string deep;
                    if (d.depths != Depths{})
                        deep = " depths=" + std::to_string(d.depths.kernel) + " of " + std::to_string(d.depths.in) +
                               " stride " + std::to_string(d.depths.stride) + " dilation " +
                               std::to_string(d.depths.dilation) + " before " + std::to_string(d.depths.before);
                    return window_text(d.window) + deep + " weight=" + weight(d.weight) + epilogue(d.epilogue);
                },
                [&](const Gemm& d) {
                    return " m=" + std::to_string(d.m) + " n=" + std::to_string(d.n) + " k=" + std::to_string(d.k) +
                           " weight=" + weight(d.weight) + epilogue(d.epilogue);
                },
                [&](const BatchedGemm& d) {
                    return " batch=" + std::to_string(d.batch) + " m=" + std::to_string(d.m) +
                           " n=" + std::to_string(d.n) + " k=" + std::to_string(d.k) +
                           (d.transpose_a ? " transpose_a" : "") + (d.transpose_b ? " transpose_b" : "") +
                           (d.a_pitch != 0 ? " a_pitch=" + std::to_string(d.a_pitch) : "") +
                           " alpha=" + number(static_cast<double>(d.alpha));
                },
                [&](const Attention& d) {
                    return " batch=" + std::to_string(d.batch) + " heads=" + std::to_string(d.heads) +
                           " q=" + std::to_string(d.q_len) + " kv=" + std::to_string(d.kv_len) +
                           " depth=" + std::to_string(d.depth) + " scale=" + number(static_cast<double>(d.scale)) +
                           (d.packed ? " packed" : "") +
                           (d.key_heads() != d.heads ? " key_heads=" + std::to_string(d.kv_heads) : "") +
                           (d.values_depth() != d.depth ? " value_depth=" + std::to_string(d.value_depth) : "") +
                           (d.causal ? " causal" : "") + (d.empty_is_zero ? " empty_is_zero" : "") +
                           (d.masks == 0   ? ""
                            : d.masks == 1 ? " masked"
                                           : " masked=" + std::to_string(d.masks)) +
                           view("q", d.q) + view("k", d.k) + view("v", d.v) + view("out", d.out);
                },
                [&](const Pool& d) {
                    return window_text(d.window) + (d.average ? " average" : " max") +
                           (d.count_pad ? " count_pad" : "") +
                           (d.rescale != 1 ? " rescale=" + number(static_cast<double>(d.rescale)) : "");
                },
                [&](const GlobalPool& d) {
                    return std::string(d.average ? " average" : " max") +
                           (d.rescale != 1 ? " rescale=" + number(static_cast<double>(d.rescale)) : "");
                },
                [&](const Softmax& d) {
                    return " rows=" + std::to_string(d.rows) + " columns=" + std::to_string(d.columns) +
                           (d.log ? " log" : "");
                },
                [&](const LayerNorm& d) {
                    return " rows=" + std::to_string(d.rows) + " columns=" + std::to_string(d.columns) +
                           " epsilon=" + number(static_cast<double>(d.epsilon)) + " gamma=" + weight(d.gamma) +
                           " beta=" + weight(d.beta) + (d.residual ? " residual" : "") +
                           (d.quantized_output ? " quantised" : "") + (d.sum_output ? " sum" : "") +
                           (d.centred ? "" : " rms");
                },
                [&](const GroupFactors& d) {
                    return " groups=" + std::to_string(d.groups) + " epsilon=" + number(static_cast<double>(d.epsilon));
                },
                [&](const Rotary& d) {
                    return view("x", d.x) + (d.interleaved ? " interleaved" : "") +
                           (d.turned != 0 ? " turned=" + std::to_string(d.turned) : "");
                },
                [&](const Recurrent& d) {
                    static constexpr std::array names{"rnn", "gru", "lstm", "rnn_relu"};
                    return std::string(" ") + names[static_cast<std::size_t>(d.cell)] + (d.reverse ? " reverse" : "") +
                           (d.linear_before_reset ? " linear_before_reset" : "") + (d.initial ? " initial" : "") +
                           (d.lengths ? " lengths" : "");
                },
                [&](const Reduce& d) {
                    static constexpr std::array names{"sum", "mean", "max", "min", "prod", "l2"};
                    return std::string(" ") + names[static_cast<std::size_t>(d.kind)] +
                           " outer=" + std::to_string(d.outer) + " reduced=" + std::to_string(d.reduced) +
                           " inner=" + std::to_string(d.inner);
                },
                [&](const Gather& d) {
                    std::string text = " axis=" + std::to_string(d.axis);
                    for (const WeightId id : d.tables)
                        text += " table=" + weight(id);
                    return text;
                },
                [&](const Concat& d) {
                    return " axis=" + std::to_string(d.axis) + (d.interleaved ? " interleaved" : "") +
                           (d.program.code.empty() ? "" : program_text(d.program));
                },
                [&](const Slice& d) { return " starts=" + list(d.starts) + " steps=" + list(d.steps); },
                [&](const Transpose& d) { return " order=" + list(d.order); },
                [&](const Resize& d) {
                    static constexpr std::array names{"nearest", "linear", "cubic"};
                    std::string text = std::string(" ") + names[static_cast<std::size_t>(d.mode)] + " " +
                                       d.coordinates + (d.nearest.empty() ? "" : " " + d.nearest);
                    for (const float scale : d.scales)
                        text += " x" + number(static_cast<double>(scale));
                    return text;
                },
                [&](const Reformat&) { return std::string(); },
                [&](const Pointwise& d) { return program_text(d); },
                [&](const Chain& d) {
                    std::string text = d.shortcut ? " shortcut" : d.squeeze ? " squeeze" : "";
                    for (const FusedOp& part : d.parts)
                        text += " {" + line(part) + "}";
                    return text;
                },
                [&](const Indexed& d) { return describe(d); }},
            op.detail);
    }
    std::string line(const FusedOp& op) const {
        std::string text;
        for (const ValueId id : op.outputs)
            text += (text.empty() ? "" : ", ") + value(id);
        text += std::string(" = ") + kind_of(op) + "." + (op.tf32 ? "tf32" : to_string(op.compute)) + "(";
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            text += (i == 0 ? "%" : ", %") + std::to_string(op.inputs[i]);
        return text + ")" + detail(op);
    }

    const Plan& plan_;
};

} // namespace

std::string print(const Plan& plan) { return Printer(plan).print(); }

} // namespace lathe::cuda
