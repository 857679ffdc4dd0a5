#include <algorithm>
#include <map>

#include "backends/cuda/plan/chains.hpp"
#include "backends/cuda/plan/lower.hpp"

namespace lathe::cuda {
namespace {

Error wrong(const std::string& where, std::string what) {
    return {ErrorCode::internal, "the plan breaks its rules: " + std::move(what), where, "please report this"};
}

class Verifier {
public:
    explicit Verifier(const Plan& plan) : plan_(plan), written_(plan.values.size()) {}

    Result<void> run() {
        if (!plan_.weights) return wrong("", "it has no weights");
        LATHE_CHECK(values());
        for (const ValueId id : plan_.inputs) {
            if (id >= plan_.values.size()) return wrong("inputs", "value out of range");
            written_[id] = true;
        }
        for (ValueId id = 0; id < plan_.values.size(); ++id) {
            if (plan_.values[id].role == Role::constant) written_[id] = true;
        }
        for (const FusedOp& op : plan_.ops) {
            if (auto fits = check(op); !fits) return std::move(fits).error().in(op.name);
        }
        for (const ValueId id : plan_.outputs) {
            if (id >= plan_.values.size() || !known(id)) return wrong("outputs", "an output is never written");
            if (plan_.values[id].layout != Layout::linear) return wrong("outputs", "an output is not linear");
        }
        if (plan_.open.size() > plan_.outputs.size()) return wrong("outputs", "counts without their values");
        for (std::size_t i = 0; i < plan_.open.size(); ++i) {
            const auto [output, axis] = plan_.open[i];
            const Value& count = plan_.values[plan_.outputs[plan_.model_outputs() + i]];
            if (output >= plan_.model_outputs() || count.type != ElementType::s64 || element_count(count.dims) != 1)
                return wrong("outputs", "a count is not one");
            const Shape& dims = plan_.values[plan_.outputs[output]].dims;
            if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) return wrong("outputs", "a count's axis");
        }
        return {};
    }

private:
    /// Written, as a whole or by all its channels' parts.
    bool known(ValueId id) const {
        const ValueId root = root_of(plan_, id);
        if (written_[root]) return true;
        const auto found = channels_.find(root);
        if (found == channels_.end()) return false;
        const Value& value = plan_.values[id];
        const std::int64_t first = value.part ? value.alias_from : 0;
        const std::int64_t count = value.part ? value.dims[1] : plan_.values[root].dims[1];
        const auto begin = found->second.begin() + static_cast<std::ptrdiff_t>(first);
        return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(count), [](bool written) { return written; });
    }
    /// Marks the channels of a part as written; false: some were.
    bool write_part(const Value& part) {
        if (written_[part.alias_of]) return false;
        std::vector<bool>& channels = channels_[part.alias_of];
        channels.resize(static_cast<std::size_t>(plan_.values[part.alias_of].dims[1]));
        for (std::int64_t c = part.alias_from; c < part.alias_from + part.dims[1]; ++c) {
            if (channels[static_cast<std::size_t>(c)]) return false;
            channels[static_cast<std::size_t>(c)] = true;
        }
        return true;
    }
    /// Channels of an image of the same sizes, in whole pieces of 16 bytes.
    Result<void> check_part(const Value& v, const std::string& where) const {
        const Value& whole = plan_.values[v.alias_of];
        const auto size = static_cast<std::int64_t>(bytes_of(v.type));
        if (!image(v) || !image(whole) || whole.alias_of != none || whole.role == Role::constant ||
            v.dims.size() != whole.dims.size() || v.type != whole.type || v.scale != whole.scale ||
            v.zero_point != whole.zero_point || v.channel_stride != whole.channel_stride)
            return wrong(where, "a part of what is no such image");
        for (std::size_t axis = 0; axis < v.dims.size(); ++axis)
            if (axis != 1 && v.dims[axis] != whole.dims[axis]) return wrong(where, "a part of an image of other sizes");
        if (v.alias_from < 0 || v.alias_from + v.dims[1] > whole.dims[1] || v.alias_from * size % 16 != 0 ||
            v.dims[1] * size % 16 != 0 || v.channel_stride * size % 16 != 0)
            return wrong(where, "a part that is not whole pieces of its image's channels");
        return {};
    }
    static bool image(const Value& v) {
        return v.layout == Layout::nhwc && v.dims.size() >= 3 && v.dims.size() <= 5 && v.channel_stride >= v.dims[1];
    }

    Result<void> values() const {
        for (ValueId id = 0; id < plan_.values.size(); ++id) {
            const Value& v = plan_.values[id];
            const std::string where = "value %" + std::to_string(id) + " " + v.name;
            for (const std::int64_t n : v.dims) {
                if (n < 0) return wrong(where, "a size is not known");
            }
            if (v.layout == Layout::nhwc && !image(v)) return wrong(where, "nhwc needs N,C and one to three sizes");
            if (v.role == Role::constant && v.weight >= plan_.weights->weights.size()) {
                return wrong(where, "a constant without its weight");
            }
            if (v.alias_of == none) {
                if (v.part) return wrong(where, "a part of nothing");
                continue;
            }
            if (v.alias_of >= plan_.values.size() || (!v.part && v.alias_of >= id))
                return wrong(where, "an alias of a later value");
            if (v.part) {
                LATHE_CHECK(check_part(v, where));
                continue;
            }
            if (plan_.values[v.alias_of].part) return wrong(where, "an alias of a part");
            const Value& whole = plan_.values[v.alias_of];
            const bool part = v.alias_from != 0 || whole.byte_size() != v.byte_size();
            const std::size_t begin = static_cast<std::size_t>(v.alias_from) * bytes_of(v.type);
            if (v.alias_from < 0 || begin + v.byte_size() > whole.byte_size() || whole.type != v.type) {
                return wrong(where, "an alias of another size or type");
            }
            if (part && (whole.role == Role::constant || whole.layout != v.layout || begin % part_alignment != 0)) {
                return wrong(where, "a part that does not lie in one piece, or not where kernels can read it");
            }
        }
        return {};
    }

    Result<void> weight(WeightId id, const char* what, bool may_be_absent, std::int64_t least = 0) const {
        if (id == none && may_be_absent) return {};
        if (id >= plan_.weights->weights.size()) return wrong(what, "weight out of range");
        const Weight& w = plan_.weights->weights[id];
        if (w.bytes.size() != static_cast<std::size_t>(element_count(w.dims)) * bytes_of(w.type)) {
            return wrong(w.key, "a weight's bytes do not fit its sizes");
        }
        if (least != 0 && (w.type != ElementType::f32 || element_count(w.dims) < least)) {
            return wrong(w.key, std::string(what) + " is shorter than the channels");
        }
        return {};
    }

    Result<void> epilogue(const FusedOp& op, const Epilogue& e, std::int64_t channels) const {
        const Value& out = plan_.values[op.outputs[0]];
        LATHE_CHECK(weight(e.scale, "the scale", true, channels));
        LATHE_CHECK(weight(e.bias, "the bias", true, channels));
        const auto* conv = std::get_if<Conv>(&op.detail);
        if (e.residual_last && (e.residual == none || conv == nullptr || conv->pooled || conv->reads_nchw))
            return wrong("", "a residual behind an activation that no kernel adds there");
        if (e.residual == none) return {};
        if (op.inputs.back() != e.residual) return wrong("", "the residual is not the last input");
        const Value& r = plan_.values[e.residual];
        if (r.type != ElementType::s8 && r.type != out.type) return wrong("", "residual of a type not allowed");
        if (r.dims != out.dims || r.layout != out.layout) return wrong("", "residual unlike the result");
        return {};
    }

    Result<void> check(const FusedOp& op) {
        if (op.outputs.empty()) return wrong("", "an op without a result");
        for (const ValueId id : op.inputs) {
            if (id >= plan_.values.size()) return wrong("", "input out of range");
            if (!known(id)) return wrong("", "%" + std::to_string(id) + " is read before it is written");
        }
        if (const auto* chain = std::get_if<Chain>(&op.detail)) return check(op, *chain);
        for (const ValueId id : op.outputs) {
            if (id >= plan_.values.size()) return wrong("", "output out of range");
            const Value& made = plan_.values[id];
            if (made.alias_of != none && !made.part) return wrong("", "an op writes an alias");
            if (made.role == Role::constant || written_[id] || (!made.part && channels_.contains(id)))
                return wrong("", "a value is written twice");
            if (made.part) {
                if (!write_part(made)) return wrong("", "a part is written twice");
                continue;
            }
            written_[id] = true;
        }
        if (std::string why = zero_point_misuse(plan_, op); !why.empty()) return wrong("", std::move(why));
        if (std::string why = type_misuse(plan_, op); !why.empty()) return wrong("", std::move(why));
        const Value& out = plan_.values[op.outputs[0]];
        const auto in = [&](std::size_t i) -> const Value& { return plan_.values[op.inputs[i]]; };
        if (op.inputs.empty() && !std::holds_alternative<Pointwise>(op.detail)) return wrong("", "no input");
        if (const auto* conv = std::get_if<Conv>(&op.detail)) {
            const bool linear = conv->reads_nchw;
            if (linear ? in(0).layout != Layout::linear || in(0).type != ElementType::f32 : !image(in(0))) {
                return wrong("", "the input of a convolution is not as it says");
            }
            if (!image(out)) return wrong("", "the result of a convolution is not nhwc");
            LATHE_CHECK(weight(conv->weight, "the filters", false));
            return epilogue(op, conv->epilogue, out.dims[1]);
        }
        if (const auto* depthwise = std::get_if<Depthwise>(&op.detail)) {
            if (!image(in(0)) || !image(out) || in(0).dims[1] != out.dims[1]) return wrong("", "images do not fit");
            const Depths& depths = depthwise->depths;
            if (depths.in < 1 || depths.out < 1 || in(0).dims[0] % depths.in != 0 ||
                out.dims[0] != in(0).dims[0] / depths.in * depths.out)
                return wrong("", "a volume's depths do not fit");
            LATHE_CHECK(weight(depthwise->weight, "the filters", false));
            return epilogue(op, depthwise->epilogue, out.dims[1]);
        }
        if (const auto* gemm = std::get_if<Gemm>(&op.detail)) {
            if (element_count(in(0).dims) != gemm->m * gemm->k || element_count(out.dims) != gemm->m * gemm->n) {
                return wrong("", "sizes of a gemm do not fit");
            }
            if (in(0).layout != Layout::linear || out.layout != Layout::linear) return wrong("", "gemm not linear");
            LATHE_CHECK(weight(gemm->weight, "the weight", false));
            return epilogue(op, gemm->epilogue, gemm->n);
        }
        if (std::holds_alternative<Pool>(op.detail) || std::holds_alternative<GlobalPool>(op.detail)) {
            if (!image(in(0)) || !image(out)) return wrong("", "pooling of what is not nhwc");
        }
        if (const auto* point = std::get_if<Pointwise>(&op.detail)) {
            if (point->code.size() > 24 || point->results.size() != op.outputs.size()) return wrong("", "program");
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                const OperandView* view = point->view(i);
                if (view == nullptr) continue;
                const Value& value = in(i);
                if (view->axes.size() != value.dims.size() || value.layout != out.layout) return wrong("", "a view");
                for (std::size_t a = 0; a < view->axes.size(); ++a) {
                    const ViewAxis& axis = view->axes[a];
                    if (axis.axis >= std::max<std::size_t>(out.dims.size(), 1) || axis.start < 0 || axis.step < 0 ||
                        axis.start + (axis.step == 0 ? 0 : (out.dims[axis.axis] - 1) * axis.step) >= value.dims[a])
                        return wrong("", "a view beyond its value");
                }
            }
            for (const PointInstruction& i : point->code) {
                if (i.op == PointOp::input ? i.a >= op.inputs.size() : i.a >= 12 || i.b >= 12 || i.c >= 12) {
                    return wrong("", "a register out of range");
                }
            }
        }
        if (std::holds_alternative<Indexed>(op.detail)) {
            if (op.inputs.size() > 3 || op.outputs.size() > 2) return wrong("", "operands of what is indexed");
            if (!fits(op, std::get<Indexed>(op.detail))) return wrong("", "sizes of what is indexed");
            for (const auto* list : {&op.inputs, &op.outputs}) {
                for (const ValueId id : *list) {
                    const Value& value = plan_.values[id];
                    const IndexedKind kind = std::get<Indexed>(op.detail).kind;
                    const bool as_it_lies =
                        kind == IndexedKind::pad || kind == IndexedKind::depth_taps || kind == IndexedKind::roi_align;
                    if ((value.layout != Layout::linear && !as_it_lies) || value.dims.size() > 8)
                        return wrong("", "indexed not linear");
                }
            }
        }
        if (const auto* attention = std::get_if<Attention>(&op.detail)) return check(op, *attention);
        if (const auto* norm = std::get_if<LayerNorm>(&op.detail)) {
            LATHE_CHECK(weight(norm->gamma, "gamma", true, norm->columns));
            LATHE_CHECK(weight(norm->beta, "beta", true, norm->columns));
            const std::size_t outputs = 1U + (norm->quantized_output ? 1U : 0U) + (norm->sum_output ? 1U : 0U);
            if (op.outputs.size() != outputs) return wrong("", "results of a layer norm");
        }
        if (const auto* gather = std::get_if<Gather>(&op.detail); gather != nullptr && !fits(op, *gather))
            return wrong("", "as many indices as a gather has results");
        if (const auto* concat = std::get_if<Concat>(&op.detail); concat != nullptr && !joined_fits(op, *concat))
            return wrong("", "the joined value of a concatenation with a program");
        if (const auto* rotary = std::get_if<Rotary>(&op.detail); rotary != nullptr && !rotary_fits(op, *rotary))
            return wrong("", "the operands of rotary positions");
        if (const auto* recurrent = std::get_if<Recurrent>(&op.detail); recurrent != nullptr && !fits(op, *recurrent))
            return wrong("", "the operands of a recurrent cell");
        if (const auto* factors = std::get_if<GroupFactors>(&op.detail)) {
            const Value& x = plan_.values[op.inputs[0]];
            if (x.layout != Layout::nhwc || x.dims.size() != 4 || op.outputs.size() != 2 || factors->groups < 1 ||
                x.dims[1] % factors->groups != 0)
                return wrong("", "the groups of a group normalisation");
        }
        return {};
    }

    /// Of fixed tables the indices repeat, of a computed one there is one a result.
    bool fits(const FusedOp& op, const Gather& gather) const {
        if (!gather.tables.empty()) return op.inputs.size() == gather.tables.size();
        if (op.inputs.size() != 2) return false;
        const Shape& table = plan_.values[op.inputs[0]].dims;
        if (gather.axis < 0 || gather.axis >= static_cast<std::int64_t>(table.size())) return false;
        const std::int64_t indices = element_count(plan_.values[op.inputs[1]].dims);
        Shape rows = table;
        rows[static_cast<std::size_t>(gather.axis)] = indices;
        return element_count(rows) == element_count(plan_.values[op.outputs[0]].dims);
    }

    bool joined_fits(const FusedOp& op, const Concat& concat) const {
        if (concat.joined == none) return true;
        if (concat.program.code.empty() || concat.joined >= plan_.values.size()) return false;
        const Value &joined = plan_.values[concat.joined], &y = plan_.values[op.outputs[0]];
        return joined.dims == y.dims && joined.layout == y.layout && joined.channel_stride == y.channel_stride &&
               is_real(joined.type) && joined.type != y.type;
    }

    bool rotary_fits(const FusedOp& op, const Rotary& rotary) const {
        if (op.inputs.size() != 3 || op.outputs.size() != 1) return false;
        const Value &x = plan_.values[op.inputs[0]], &y = plan_.values[op.outputs[0]];
        const Shape &table = plan_.values[op.inputs[1]].dims, &dims = y.dims;
        if (dims.size() != 4 || dims[3] % 2 != 0 || table.size() != 4 || plan_.values[op.inputs[2]].dims != table ||
            plan_.values[op.inputs[1]].type != plan_.values[op.inputs[2]].type)
            return false;
        for (const ValueId id : {op.inputs[0], op.inputs[1], op.inputs[2], op.outputs[0]})
            if (plan_.values[id].layout != Layout::linear) return false;
        for (std::size_t i = 0; i < 3; ++i)
            if (dims[i] < 1 || (table[i] != 1 && table[i] != dims[i])) return false;
        const HeadView& view = rotary.x;
        const std::int64_t last =
            view.offset + (dims[0] - 1) * view.batch + (dims[1] - 1) * view.head + (dims[2] - 1) * view.row + dims[3];
        const std::int64_t turned = rotary.turned_of(dims[3]);
        if (turned < 2 || turned > dims[3] || turned % 2 != 0) return false;
        return (table[3] == turned || table[3] * 2 == turned) && view.offset >= 0 && view.batch >= 0 &&
               view.head >= 0 && view.row >= 0 && last <= element_count(x.dims);
    }

    /// What its kernel would read of other sizes lies outside.
    bool fits(const FusedOp& op, const Indexed& d) const {
        const auto dims = [&](ValueId id) -> const Shape& { return plan_.values[id].dims; };
        const Shape &x = dims(op.inputs[0]), &y = dims(op.outputs[0]);
        if (d.kind == IndexedKind::pad) {
            Shape same = y;
            if (d.axis < 0 || d.axis >= static_cast<std::int64_t>(x.size()) || x.size() != y.size()) return false;
            same[static_cast<std::size_t>(d.axis)] = x[static_cast<std::size_t>(d.axis)];
            const bool beside =
                op.inputs.size() < 2 || (element_count(dims(op.inputs[1])) == 1 &&
                                         plan_.values[op.inputs[1]].type == plan_.values[op.outputs[0]].type);
            const Value &from = plan_.values[op.inputs[0]], &to = plan_.values[op.outputs[0]];
            const bool image = from.layout == Layout::nhwc;
            const bool lies = from.layout == to.layout && from.channel_stride == to.channel_stride &&
                              (!image || (d.axis > 1 && x.size() >= 3 && x.size() <= 5));
            return same == x && beside && lies && element_count(x) > 0 && from.type == to.type;
        }
        if (d.kind == IndexedKind::gather_elements) {
            if (op.inputs.size() != 2 || x.size() != y.size() || d.axis < 0 ||
                d.axis >= static_cast<std::int64_t>(x.size()) || element_count(x) == 0)
                return false;
            const Shape& indices = dims(op.inputs[1]);
            for (std::size_t k = 0; k < y.size(); ++k) {
                if (indices.size() != y.size() || (indices[k] != y[k] && indices[k] != 1)) return false;
                if (k != static_cast<std::size_t>(d.axis) && y[k] > x[k]) return false;
            }
            return plan_.values[op.inputs[0]].type == plan_.values[op.outputs[0]].type;
        }
        if (d.kind == IndexedKind::grid_sample) {
            if (op.inputs.size() != 2 || (x.size() != 4 && x.size() != 5) || y.size() != x.size()) return false;
            Shape places{y[0]};
            places.insert(places.end(), y.begin() + 2, y.end());
            places.push_back(static_cast<std::int64_t>(x.size()) - 2);
            const bool cubic = d.mode == static_cast<std::int32_t>(Sampling::cubic);
            return element_count(x) > 0 && x[0] == y[0] && x[1] == y[1] && dims(op.inputs[1]) == places &&
                   !(cubic && x.size() == 5);
        }
        if (d.kind == IndexedKind::depth_taps) {
            const Value &from = plan_.values[op.inputs[0]], &to = plan_.values[op.outputs[0]];
            return op.inputs.size() == 1 && image(from) && image(to) && x.size() == 5 && y.size() == 5 &&
                   from.type == to.type && (y[1] == x[1] || y[1] % from.channel_stride == 0) && x[0] == y[0] &&
                   x[3] == y[3] && x[4] == y[4] && d.axis > 0 && d.mode > 0 && element_count(x) > 0;
        }
        if (d.kind == IndexedKind::reverse_sequence) {
            const auto rank = static_cast<std::int64_t>(x.size());
            return op.inputs.size() == 2 && x == y && d.axis >= 0 && d.axis < rank && d.number >= 0 &&
                   d.number < rank && dims(op.inputs[1]) == Shape{x[static_cast<std::size_t>(d.number)]};
        }
        if (d.kind == IndexedKind::roi_align) {
            if (op.inputs.size() != 3 || x.size() != 4 || y.size() != 4 || element_count(x) == 0) return false;
            const Value &boxes = plan_.values[op.inputs[1]], &images = plan_.values[op.inputs[2]];
            return x[1] == y[1] && plan_.values[op.inputs[0]].layout == plan_.values[op.outputs[0]].layout &&
                   boxes.dims == Shape{y[0], 4} && images.dims == Shape{y[0]} && boxes.layout == Layout::linear &&
                   images.layout == Layout::linear;
        }
        if (d.kind == IndexedKind::pick_boxes) {
            if (op.inputs.size() != 2 || x.size() != 3 || y.size() != 3 || element_count(x) == 0) return false;
            return x[0] == y[0] && x[2] == 4 && dims(op.inputs[1]) == Shape{y[0], y[1], x[1]} && y[2] <= x[1] &&
                   x[1] <= most_candidates && plan_.values[op.outputs[0]].type == ElementType::s32;
        }
        if (d.kind == IndexedKind::list_boxes || d.kind == IndexedKind::nonzero) {
            const bool boxes = d.kind == IndexedKind::list_boxes;
            if (op.inputs.size() != 1 || op.outputs.size() != 2 || (boxes && x.size() != 3)) return false;
            for (const ValueId id : op.outputs)
                if (plan_.values[id].type != ElementType::s64) return false;
            return dims(op.outputs[1]) == Shape{1} && element_count(x) > 0 &&
                   y == (boxes ? Shape{element_count(x), 3}
                               : Shape{static_cast<std::int64_t>(x.size()), element_count(x)});
        }
        return true;
    }

    bool fits(const FusedOp& op, const Recurrent& d) const {
        const bool lstm = d.cell == Cell::lstm;
        if (d.cell != Cell::rnn && d.cell != Cell::rnn_relu && d.cell != Cell::gru && !lstm) return false;
        const std::size_t states = d.initial ? (lstm ? 2U : 1U) : 0U;
        if (op.inputs.size() != 3 + states + (d.lengths ? 1U : 0U) || op.outputs.size() != (lstm ? 3U : 2U))
            return false;
        for (const auto* list : {&op.inputs, &op.outputs})
            for (const ValueId id : *list)
                if (plan_.values[id].layout != Layout::linear) return false;
        const auto dims = [&](ValueId id) -> const Shape& { return plan_.values[id].dims; };
        const Shape &gates = dims(op.inputs[0]), &matrix = dims(op.inputs[1]);
        if (gates.size() != 3 || matrix.size() != 3) return false;
        const std::int64_t steps = gates[0], batch = gates[1], directions = matrix[0], rows = matrix[1],
                           width = matrix[2];
        if (steps < 1 || batch < 1 || width < 1 || directions < 1 || directions > 2) return false;
        if (rows != width * gates_of(d.cell) || gates[2] != directions * rows) return false;
        if (plan_.values[op.inputs[2]].type != ElementType::f32 || dims(op.inputs[2]) != Shape{directions * rows})
            return false;
        for (std::size_t i = 3; i < 3 + states; ++i)
            if (dims(op.inputs[i]) != Shape{directions, batch, width}) return false;
        if (d.lengths &&
            (plan_.values[op.inputs.back()].type != ElementType::s32 || dims(op.inputs.back()) != Shape{batch}))
            return false;
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            if (dims(op.outputs[i]) !=
                (i == 0 ? Shape{steps, directions, batch, width} : Shape{directions, batch, width}))
                return false;
        return true;
    }

    /// Views stay inside their values.
    Result<void> check(const FusedOp& op, const Attention& a) const {
        const std::size_t operands = a.packed ? 1 : 3;
        if (a.masks < 0 || a.masks > 2 || op.inputs.size() != operands + static_cast<std::size_t>(a.masks)) {
            return wrong("", "operands of attention");
        }
        const bool sizes = a.batch > 0 && a.heads > 0 && a.q_len > 0 && a.kv_len > 0 && a.depth > 0;
        if (a.value_depth < 0 || (a.packed && a.values_depth() != a.depth)) return wrong("", "values of attention");
        if (!sizes || a.key_heads() <= 0 || a.heads % a.key_heads() != 0) return wrong("", "sizes of attention");
        const auto views = a.views();
        for (std::size_t i = 0; i < views.size(); ++i) {
            const HeadView& view = views[i];
            const Value& value = plan_.values[i == 3 ? op.outputs[0] : op.inputs[a.packed ? 0 : i]];
            const std::int64_t rows = i == 1 || i == 2 ? a.kv_len : a.q_len;
            const std::int64_t heads = i == 1 || i == 2 ? a.key_heads() : a.heads;
            const std::int64_t last = view.offset + (a.batch - 1) * view.batch + (rows - 1) * view.row +
                                      (heads - 1) * view.head + (i < 2 ? a.depth : a.values_depth());
            // Of an image channels lie side by side, perhaps with others behind them.
            const bool image = value.layout == Layout::nhwc && i < 3 && value.dims.size() > 2;
            const std::int64_t count =
                image ? element_count(value.dims) / value.dims[1] * value.channel_stride : element_count(value.dims);
            if (view.offset < 0 || view.batch < 0 || view.row < 0 || view.head < 0 || last > count ||
                (!image && value.layout != Layout::linear)) {
                return wrong("", "attention reads or writes beyond a value");
            }
        }
        for (std::size_t i = operands; i < op.inputs.size(); ++i) {
            if (!mask_view(a, plan_.values[op.inputs[i]].dims)) return wrong("", "a mask does not fit its attention");
        }
        return {};
    }

    /// The parts are checked like other ops; nobody else may read what has no place in memory.
    Result<void> check(const FusedOp& op, const Chain& chain) {
        const bool number = chain.squeeze ? chain.parts.size() == 3
                                          : chain.parts.size() >= 2 && chain.parts.size() <= (chain.shortcut ? 3U : 2U);
        if (!number || (chain.squeeze && chain.shortcut)) return wrong("", "a chain of another number of parts");
        for (const FusedOp& part : chain.parts) {
            if (auto fits = check(part); !fits) return std::move(fits).error().in(part.name);
        }
        for (const ValueId id : op.outputs) {
            if (id >= plan_.values.size() || !written_[id]) return wrong("", "a chain does not write its result");
        }
        if (chain.shortcut) {
            const ValueId inside = chain.parts[0].outputs[0];
            const auto* conv = std::get_if<Conv>(&chain.adding().detail);
            if (conv == nullptr || conv->epilogue.residual != inside) return wrong("", "a shortcut is not added");
        }
        if (chain.squeeze && !is_squeeze(plan_, chain.parts[0], chain.parts[1], chain.parts[2]))
            return wrong("", "parts that are not squeeze and excite");
        for (std::size_t i = 0; i < chain.placeless(); ++i)
            for (const ValueId inside : chain.parts[i].outputs)
                written_[inside] = false;
        return {};
    }

    const Plan& plan_;
    std::vector<bool> written_;
    std::map<ValueId, std::vector<bool>> channels_; ///< of images that are written in parts: which were
};

} // namespace

Result<void> verify(const Plan& plan) { return Verifier(plan).run(); }

} // namespace lathe::cuda
