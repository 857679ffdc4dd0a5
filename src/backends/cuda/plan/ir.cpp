#include "backends/cuda/plan/ir.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "backends/cuda/plan/overloaded.hpp"
#include "backends/cuda/plan/text.hpp"

namespace lathe::cuda {
namespace {

std::string number(double value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}
std::string number(std::int64_t value) { return std::to_string(value); }

std::string sizes(const Shape& dims) { return lathe::to_string(dims); }

/// "n32 h56 w56 c64" of an image value.
std::string image_sizes(const Value& value) {
    const Shape& d = value.dims;
    const bool flat = d.size() == 3;
    return "n" + number(d[0]) + " h" + number(flat ? 1 : d[2]) + " w" + number(flat ? d[2] : d[3]) + " c" +
           number(d[1]);
}

/// " r3 s3 p1 st2 d2": what is 1 (dilation) or symmetric is left out or written once.
std::string window(const Window& w) {
    std::string text = " r" + number(w.kernel[0]) + " s" + number(w.kernel[1]) + " p" + number(w.pads[0]);
    const auto& p = w.pads;
    if (p[0] != p[1] || p[0] != p[2] || p[0] != p[3]) {
        text += "," + number(p[1]) + "," + number(p[2]) + "," + number(p[3]);
    }
    text += " st" + number(w.stride[0]);
    if (w.stride[0] != w.stride[1]) text += "," + number(w.stride[1]);
    if (w.dilation[0] != 1 || w.dilation[1] != 1) text += " d" + number(w.dilation[0]) + "," + number(w.dilation[1]);
    return text;
}

std::string epilogue(const Epilogue& e, const Plan& plan) {
    std::string text;
    if (e.scale != none) text += "+scale";
    if (e.bias != none) text += "+bias";
    std::string residual =
        e.residual == none ? std::string() : std::string("+res:") + to_string(plan.values[e.residual].type);
    if (e.residual != none && plan.values[e.residual].part)
        residual += "/" + number(plan.values[e.residual].channel_stride);
    if (!e.residual_last) text += residual;
    if (e.act != Activation::none) text += std::string("+") + to_string(e.act);
    if (e.residual_last) text += residual;
    return text.empty() ? text : " " + text;
}

/// " >int8": the stored type and, where it is not the kind's usual one, the layout of the result.
std::string stored(const Value& value) {
    std::string text = std::string(" >") + to_string(value.type);
    if (value.layout == Layout::nhwc) text += " cs" + number(value.channel_stride);
    return text;
}

std::string operands(const FusedOp& op, const Plan& plan) {
    std::string text;
    for (const ValueId id : op.inputs) {
        const Value& value = plan.values[id];
        text += std::string(" ") + to_string(value.type) + ":" + sizes(value.dims);
        if (value.layout == Layout::nhwc) text += "/" + number(value.channel_stride);
    }
    text += " >";
    for (const ValueId id : op.outputs) {
        const Value& value = plan.values[id];
        text += std::string(" ") + to_string(value.type) + ":" + sizes(value.dims);
        if (value.layout == Layout::nhwc) text += "/" + number(value.channel_stride);
    }
    return text;
}

std::string program(const Pointwise& d) {
    std::string text = " code";
    for (const PointInstruction& i : d.code) {
        text += " " + number(std::int64_t{static_cast<std::uint8_t>(i.op)}) + "." + number(std::int64_t{i.a}) + "." +
                number(std::int64_t{i.b}) + "." + number(std::int64_t{i.c});
    }
    for (std::size_t i = 0; i < d.views.size(); ++i) {
        const OperandView* view = d.view(i);
        if (view == nullptr) continue;
        text += " view" + number(static_cast<std::int64_t>(i));
        for (const ViewAxis& axis : view->axes)
            text +=
                " " + number(axis.start) + "+" + number(axis.step) + "*" + number(static_cast<std::int64_t>(axis.axis));
    }
    return text;
}

} // namespace

std::int64_t OperandView::offset(const std::vector<std::int64_t>& strides) const {
    std::int64_t sum = 0;
    for (std::size_t a = 0; a < axes.size(); ++a)
        sum += axes[a].start * strides[a];
    return sum;
}

std::vector<std::int64_t> OperandView::strides(const std::vector<std::int64_t>& strides, std::size_t rank) const {
    std::vector<std::int64_t> all(rank, 0);
    for (std::size_t a = 0; a < axes.size(); ++a) {
        if (axes[a].step != 0) all[axes[a].axis] += axes[a].step * strides[a];
    }
    return all;
}

std::size_t bytes_of(ElementType type) {
    switch (type) {
        case ElementType::f32:
        case ElementType::u32:
        case ElementType::s32: return 4;
        case ElementType::f16:
        case ElementType::s16:
        case ElementType::u16:
        case ElementType::bf16: return 2;
        case ElementType::s8:
        case ElementType::u8:
        case ElementType::boolean: return 1;
        case ElementType::u64:
        case ElementType::f64:
        case ElementType::s64: return 8;
    }
    return 0;
}

const char* to_string(ElementType type) {
    switch (type) {
        case ElementType::f32: return "fp32";
        case ElementType::f16: return "fp16";
        case ElementType::bf16: return "bf16";
        case ElementType::s8: return "int8";
        case ElementType::s32: return "int32";
        case ElementType::s64: return "int64";
        case ElementType::boolean: return "bool";
        case ElementType::u8: return "uint8";
        case ElementType::s16: return "int16";
        case ElementType::u16: return "uint16";
        case ElementType::u32: return "uint32";
        case ElementType::u64: return "uint64";
        case ElementType::f64: return "fp64";
    }
    return "unknown";
}

std::array<HeadView, 4> Attention::views() const {
    const auto whole = [&](const HeadView& view, std::int64_t length, std::int64_t head_count, std::int64_t part) {
        if (view != HeadView{}) return view;
        const std::int64_t own = part == 2 || part < 0 ? values_depth() : depth, width = head_count * own;
        const std::int64_t row_stride = packed && part >= 0 ? 3 * width : width;
        return HeadView{packed && part > 0 ? part * width : 0, length * row_stride, row_stride, own};
    };
    return {whole(q, q_len, heads, 0), whole(k, kv_len, key_heads(), 1), whole(v, kv_len, key_heads(), 2),
            whole(out, q_len, heads, -1)};
}

PadLine pad_line(const Value& x, const Value& y, std::int64_t axis) {
    const auto at = static_cast<std::size_t>(axis);
    PadLine line;
    line.size = x.dims[at];
    line.wide = y.dims[at];
    for (std::size_t i = 0; i < x.dims.size(); ++i) {
        if (i == at || (x.layout == Layout::nhwc && i == 1)) continue;
        (i < at ? line.outer : line.inner) *= x.dims[i];
    }
    if (x.layout == Layout::nhwc) line.inner *= x.channel_stride;
    return line;
}

RotaryTable::RotaryTable(const Shape& dims) : width(dims[3]) {
    std::int64_t step = width;
    for (std::size_t i = 3; i-- > 0; step *= dims[i])
        strides[i] = dims[i] == 1 ? 0 : step;
}

std::optional<MaskView> mask_view(const Attention& attention, const Shape& dims) {
    Shape sizes(std::max<std::size_t>(4, dims.size()) - dims.size(), 1);
    sizes.insert(sizes.end(), dims.begin(), dims.end());
    const std::size_t rank = sizes.size();
    std::int64_t heads = sizes[rank - 3];
    const std::int64_t rows = sizes[rank - 2], keys = sizes[rank - 1];
    MaskView view;
    // Heads that are samples: of the products [B * H, S, D] that some networks write, each has its own mask.
    if (attention.heads == 1) view.batches = std::exchange(heads, 1);
    for (std::size_t i = 0; i + 3 < rank; ++i)
        view.batches *= sizes[i];
    const bool fits = keys == attention.kv_len && (rows == 1 || rows == attention.q_len) &&
                      (heads == 1 || heads == attention.heads) && view.batches > 0 &&
                      attention.batch % view.batches == 0;
    if (!fits) return std::nullopt;
    view.row = rows == 1 ? 0 : keys;
    view.head = heads == 1 ? 0 : rows * keys;
    view.batch = view.batches == 1 ? 0 : heads * rows * keys;
    return view;
}

ValueId root_of(const Plan& plan, ValueId id) {
    while (plan.values[id].alias_of != none)
        id = plan.values[id].alias_of;
    return id;
}

std::size_t alignment_of(const Plan& plan, ValueId id) {
    std::size_t begin = value_alignment;
    for (; plan.values[id].alias_of != none; id = plan.values[id].alias_of)
        begin += static_cast<std::size_t>(plan.values[id].alias_from) * bytes_of(plan.values[id].type);
    return std::min(begin & (~begin + 1), value_alignment);
}

std::size_t Value::byte_size() const {
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
        count *= layout == Layout::nhwc && axis == 1 ? channel_stride : dims[axis];
    if (part && count > 0) count -= channel_stride - dims[1];
    return static_cast<std::size_t>(count) * bytes_of(type);
}

const char* kind_of(const FusedOp& op) {
    return std::visit(Overloaded{[](const Conv&) { return "conv"; },
                                 [](const Depthwise&) { return "depthwise"; },
                                 [](const Gemm&) { return "gemm"; },
                                 [](const BatchedGemm&) { return "batched_gemm"; },
                                 [](const Attention&) { return "attention"; },
                                 [](const Pool&) { return "pool"; },
                                 [](const GlobalPool&) { return "global_pool"; },
                                 [](const Softmax&) { return "softmax"; },
                                 [](const LayerNorm&) { return "layer_norm"; },
                                 [](const Reduce&) { return "reduce"; },
                                 [](const Gather&) { return "gather"; },
                                 [](const Concat&) { return "concat"; },
                                 [](const Slice&) { return "slice"; },
                                 [](const Transpose&) { return "transpose"; },
                                 [](const Resize&) { return "resize"; },
                                 [](const Reformat&) { return "reformat"; },
                                 [](const Pointwise&) { return "pointwise"; },
                                 [](const Chain&) { return "chain"; },
                                 [](const Indexed&) { return "indexed"; },
                                 [](const GroupFactors&) { return "group_factors"; },
                                 [](const Rotary&) { return "rotary"; },
                                 [](const Recurrent&) { return "recurrent"; }},
                      op.detail);
}

namespace {

std::string text_of(const Depths& depths) {
    if (depths == Depths{}) return "";
    return " d" + number(depths.kernel) + "s" + number(depths.stride) + "x" + number(depths.dilation) + "p" +
           number(depths.before) + "of" + number(depths.in) + "to" + number(depths.out);
}

} // namespace

std::string signature(const FusedOp& op, const Plan& plan) {
    const Value& out = plan.values[op.outputs[0]];
    std::string head = std::string(kind_of(op)) + " " + (op.tf32 ? "tf32" : to_string(op.compute));
    const auto early = [&](ValueId id) { return !plan.values[id].part && alignment_of(plan, id) < value_alignment; };
    if (std::ranges::any_of(op.inputs, early)) head += " early"; // libraries have other kernels for it
    const auto in = [&](std::size_t i) -> const Value& { return plan.values[op.inputs[i]]; };
    return head +
           std::visit(
               Overloaded{[&](const Conv& d) {
                              std::string text =
                                  " " + image_sizes(in(0)) + " k" + number(out.dims[1]) + window(d.window);
                              if (d.groups != 1) text += " g" + number(d.groups);
                              if (d.reads_nchw) text += " nchw";
                              if (in(0).layout == Layout::nhwc) text += " ics" + number(in(0).channel_stride);
                              text += epilogue(d.epilogue, plan);
                              if (d.pooled) text += " pooled" + window(d.pool);
                              return text + stored(out);
                          },
                          [&](const Depthwise& d) {
                              return " " + image_sizes(in(0)) + window(d.window) + text_of(d.depths) +
                                     (in(0).part ? " ics" + number(in(0).channel_stride) : "") +
                                     epilogue(d.epilogue, plan) + stored(out);
                          },
                          [&](const Gemm& d) {
                              return " m" + number(d.m) + " n" + number(d.n) + " k" + number(d.k) +
                                     epilogue(d.epilogue, plan) + stored(out);
                          },
                          [&](const BatchedGemm& d) {
                              return " b" + number(d.batch) + " m" + number(d.m) + " n" + number(d.n) + " k" +
                                     number(d.k) + (d.transpose_a ? " ta" : "") + (d.transpose_b ? " tb" : "") +
                                     (d.a_pitch != 0 ? " pitch" + number(d.a_pitch) : "") + operands(op, plan);
                          },
                          [&](const Attention& d) {
                              std::string text = " b" + number(d.batch) + " heads" + number(d.heads) + " q" +
                                                 number(d.q_len) + " kv" + number(d.kv_len) + " d" + number(d.depth) +
                                                 (d.packed ? " packed" : "");
                              if (d.key_heads() != d.heads) text += " kvheads" + number(d.kv_heads);
                              if (d.values_depth() != d.depth) text += " v" + number(d.value_depth);
                              if (d.causal) text += " causal";
                              if (d.empty_is_zero) text += " zero";
                              for (std::size_t i = op.inputs.size() - static_cast<std::size_t>(d.masks);
                                   i < op.inputs.size(); ++i)
                                  text += std::string(" mask:") + sizes(in(i).dims);
                              for (const HeadView& view : {d.q, d.k, d.v, d.out}) {
                                  if (view == HeadView{}) continue;
                                  text += " view" + number(view.offset) + "," + number(view.batch) + "," +
                                          number(view.row) + "," + number(view.head);
                              }
                              return text + stored(out);
                          },
                          [&](const Pool& d) {
                              return " " + image_sizes(in(0)) + window(d.window) + (d.average ? " average" : " max") +
                                     (d.count_pad ? " count_pad" : "") + operands(op, plan);
                          },
                          [&](const GlobalPool& d) { return (d.average ? " average" : " max") + operands(op, plan); },
                          [&](const Softmax& d) {
                              return " rows" + number(d.rows) + " columns" + number(d.columns) + (d.log ? " log" : "") +
                                     operands(op, plan);
                          },
                          [&](const LayerNorm& d) {
                              return " rows" + number(d.rows) + " columns" + number(d.columns) +
                                     (d.residual ? " +res" : "") + (d.quantized_output ? " +quantised" : "") +
                                     (d.sum_output ? " +sum" : "") + (d.centred ? "" : " rms") + operands(op, plan);
                          },
                          [&](const GroupFactors& d) { return " groups" + number(d.groups) + operands(op, plan); },
                          [&](const Rotary& d) {
                              return " view" + number(d.x.offset) + "," + number(d.x.batch) + "," + number(d.x.row) +
                                     "," + number(d.x.head) + (d.interleaved ? " interleaved" : "") +
                                     (d.turned != 0 ? " turned" + number(d.turned) : "") + operands(op, plan);
                          },
                          [&](const Recurrent& d) {
                              return " cell" + number(static_cast<std::int64_t>(d.cell)) +
                                     (d.linear_before_reset ? " linear" : "") + (d.lengths ? " lengths" : "") +
                                     operands(op, plan);
                          },
                          [&](const Reduce& d) {
                              return " kind" + number(static_cast<std::int64_t>(d.kind)) + " o" + number(d.outer) +
                                     " r" + number(d.reduced) + " i" + number(d.inner) + operands(op, plan);
                          },
                          [&](const Gather& d) {
                              std::string text = " axis" + number(d.axis);
                              for (const WeightId id : d.tables)
                                  text += " table:" + sizes(plan.weights->weights[id].dims);
                              return text + operands(op, plan);
                          },
                          [&](const Concat& d) {
                              return " axis" + number(d.axis) + (d.interleaved ? " interleaved" : "") +
                                     (d.program.code.empty() ? "" : program(d.program)) + operands(op, plan);
                          },
                          [&](const Slice& d) {
                              std::string text;
                              for (std::size_t i = 0; i < d.starts.size(); ++i)
                                  text += " " + number(d.starts[i]) + ":" + number(d.steps[i]);
                              return text + operands(op, plan);
                          },
                          [&](const Transpose& d) { return " order" + sizes(d.order) + operands(op, plan); },
                          [&](const Resize& d) {
                              std::string text = " mode" + number(static_cast<std::int64_t>(d.mode)) + " " +
                                                 d.coordinates + " " + d.nearest;
                              for (const float scale : d.scales)
                                  text += " " + number(static_cast<double>(scale));
                              return text + operands(op, plan);
                          },
                          [&](const Reformat&) { return operands(op, plan); },
                          [&](const Pointwise& d) { return program(d) + operands(op, plan); },
                          [&](const Chain& d) {
                              std::string text = d.shortcut ? " shortcut" : d.squeeze ? " squeeze" : "";
                              for (const FusedOp& part : d.parts)
                                  text += " {" + signature(part, plan) + "}";
                              return text;
                          },
                          [&](const Indexed& d) { return describe(d) + operands(op, plan); }},
               op.detail);
}

} // namespace lathe::cuda
