#include "backends/cuda/plan/lower.hpp"

#include <algorithm>

#include "backends/cuda/plan/constant_ops.hpp"
#include "backends/cuda/plan/control_flow.hpp"
#include "backends/cuda/plan/fuse.hpp"
#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/parts.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "backends/cuda/plan/spellings.hpp"
#include "graph/subgraphs.hpp"

namespace lathe::cuda {
namespace {

std::optional<ElementType> element_type(DataType type, ElementType base) {
    switch (type) {
        case DataType::float32: return base;
        case DataType::float16: return ElementType::f16;
        case DataType::bfloat16: return ElementType::bf16;
        case DataType::int8: return ElementType::s8;
        case DataType::int32: return ElementType::s32;
        case DataType::int64: return ElementType::s64;
        case DataType::boolean: return ElementType::boolean;
        case DataType::uint8: return ElementType::u8;
        case DataType::int16: return ElementType::s16;
        case DataType::uint16: return ElementType::u16;
        case DataType::uint32: return ElementType::u32;
        case DataType::uint64: return ElementType::u64;
        case DataType::float64: return base; // see Lowering::run
        default: return std::nullopt;
    }
}

/// How the model's inputs and outputs lie in memory, whatever the precision.
std::optional<ElementType> border_type(DataType type) {
    return type == DataType::float64 ? ElementType::f64 : element_type(type, ElementType::f32);
}

/// [N,C,1,1] is the same bytes in nhwc and linear, if no channels are padded.
bool same_bytes(const Value& value, Layout layout) {
    if (value.layout == layout) return true;
    if (value.dims.size() < 3 || value.dims.size() > 5) return false;
    const std::int64_t pixels = element_count(Shape(value.dims.begin() + 2, value.dims.end()));
    return pixels == 1 && channel_stride(value.dims[1], value.type) == value.dims[1];
}

} // namespace

const LoweringTable& lowering_table() {
    static const LoweringTable table = [] {
        LoweringTable made;
        add_quantization(made);
        add_convolution(made);
        add_transposed_convolution(made);
        add_gemm(made);
        add_pooling(made);
        add_normalization(made);
        add_rotary(made);
        add_recurrent(made);
        add_movement(made);
        add_embedding(made);
        add_pointwise(made);
        add_indexed(made);
        add_borders(made);
        return made;
    }();
    return table;
}

Lowering::Lowering(Prepared& prepared, Model model, std::size_t inputs)
    : prepared_(prepared), model_(std::move(model)), inputs_(inputs), opset_(model_.opset()) {
    const std::string precision = lathe::to_string(prepared.precision);
    base_ = precision == "bf16"                          ? ElementType::bf16
            : precision == "fp16" || precision == "int8" ? ElementType::f16
                                                         : ElementType::f32;
    tf32_ = precision == "tf32";
    plan_.weights = prepared.weights;
    for (const auto* infos : {&model_.graph.inputs, &model_.graph.outputs}) {
        for (const ValueInfo& info : *infos) {
            dims_[info.name] = info.shape().value_or(Shape{});
            types_[info.name] = info.type;
        }
    }
    for (const auto& [name, info] : model_.graph.value_infos) {
        dims_[name] = info.shape().value_or(Shape{});
        types_[name] = info.type;
    }
    for (const auto& [name, tensor] : model_.graph.initializers) {
        dims_[name] = tensor.shape();
        types_[name] = tensor.type();
    }
    uses_ = std::make_unique<Uses>(model_.graph);
}

Error Lowering::cannot(const Node& node, std::string why) {
    return {ErrorCode::unsupported, std::move(why), node.op_type + " " + node.label(), ""};
}

const Shape& Lowering::dims(const std::string& value) const {
    static const Shape unknown;
    const auto found = dims_.find(value);
    return found == dims_.end() ? unknown : found->second;
}

DataType Lowering::type_of(const std::string& value) const {
    const auto found = types_.find(value);
    return found == types_.end() ? DataType::undefined : found->second;
}

std::optional<ElementType> Lowering::stored_type(DataType type) const { return element_type(type, base_); }

std::optional<Constant> Lowering::constant(const std::string& value) const {
    if (value.empty()) return std::nullopt;
    if (const Tensor* tensor = model_.graph.constant(value)) {
        return Constant{value, tensor->type(), tensor->shape(), tensor, false};
    }
    for (std::size_t i = inputs_; i < model_.graph.inputs.size(); ++i) {
        if (model_.graph.inputs[i].name != value) continue;
        const auto found = prepared_.large.find(value);
        return Constant{value, type_of(value), dims(value), found == prepared_.large.end() ? nullptr : &found->second,
                        true};
    }
    return std::nullopt;
}

std::optional<float> Lowering::scalar(const std::string& value) const {
    const auto found = constant(value);
    if (!found || found->count() != 1 || found->tensor == nullptr) return std::nullopt;
    const auto numbers = found->tensor->to_floats();
    if (numbers.size() != 1) return std::nullopt;
    return numbers[0];
}

Node* Lowering::only_reader(const std::string& value) const {
    if (uses_->use_count(value) != 1 || model_.graph.is_output(value)) return nullptr;
    Node* reader = uses_->consumers(value)[0];
    return done_.contains(reader) ? nullptr : reader;
}

ValueId Lowering::make(const std::string& value, ElementType type, Shape dims, Layout layout, float scale) {
    const auto id = static_cast<ValueId>(plan_.values.size());
    Value made;
    made.name = value;
    made.type = type;
    made.dims = std::move(dims);
    made.layout = layout;
    made.scale = scale;
    if (layout == Layout::nhwc) made.channel_stride = channel_stride(made.dims[1], type);
    plan_.values.push_back(std::move(made));
    forms_[value].push_back(id);
    return id;
}

ValueId Lowering::make_result(const std::string& value, ElementType type, Layout layout, float scale) {
    if (layout == Layout::linear && scale == 1 && model_.graph.is_output(value) && uses_->use_count(value) == 1) {
        // No operation but a conversion writes float64.
        const auto exact = border_type(type_of(value));
        if (exact && *exact != ElementType::f64) {
            const ValueId id = make(value, *exact, dims(value), layout);
            plan_.values[id].role = Role::output;
            return id;
        }
    }
    return make(value, type, dims(value), layout, scale);
}

ValueId Lowering::make_alias(const std::string& value, ValueId of, Shape dims, Layout layout, std::int64_t from) {
    const Value& source = plan_.values[of];
    const ElementType type = source.type;
    const std::int32_t zero_point = source.zero_point;
    const ValueId id = make(value, type, std::move(dims), layout, source.scale);
    plan_.values[id].alias_of = of;
    plan_.values[id].alias_from = from;
    plan_.values[id].zero_point = zero_point;
    return id;
}

bool Lowering::bring(const std::string& value) {
    if (const auto found = forms_.find(value); found != forms_.end() && !found->second.empty()) return true;
    if (constant(value)) return true;
    Node* producer = uses_->producer(value);
    if (producer == nullptr || done_.contains(producer)) return false;
    if (!producer->is("QuantizeLinear") && !producer->is("DequantizeLinear")) return false;
    if (!bring(producer->input(0))) return false;
    const auto function = lowering_table().find(producer->op_type);
    return static_cast<bool>(function->second(*this, *producer));
}

bool Lowering::ready(const std::string& value) {
    if (value.empty() || !bring(value)) return false;
    return true;
}

std::optional<ValueId> Lowering::quantised_form(const std::string& value) {
    if (!ready(value)) return std::nullopt;
    for (const ValueId id : forms_[value]) {
        if (plan_.values[id].type == ElementType::s8 && plan_.values[id].role != Role::constant) return id;
    }
    return std::nullopt;
}

Result<ValueId> Lowering::want(const std::string& value, ElementType type, Layout layout) {
    if (!ready(value)) {
        return Error{ErrorCode::internal, "the value is needed before it is made", value, "please report this"};
    }
    const auto fixed = constant(value);
    if (fixed && layout == Layout::linear) return constant_value(*fixed, type);
    auto& all = forms_[value];
    for (const ValueId id : all) {
        if (plan_.values[id].type == type && plan_.values[id].layout == layout) return id;
    }
    if (fixed) LATHE_CHECK(constant_value(*fixed, type));
    // From what is nearest: the same type in other layout, a float form, then int8.
    ValueId from = all.front();
    const auto cost = [&](ValueId id) {
        const Value& v = plan_.values[id];
        int points = v.type == type ? 0 : v.type == ElementType::s8 ? 4 : 2;
        if (!same_bytes(v, layout)) ++points;
        if (v.role == Role::output) points += 8;
        return points;
    };
    for (const ValueId id : all) {
        if (cost(id) < cost(from)) from = id;
    }
    const Value source = plan_.values[from];
    if (layout == Layout::nhwc && (source.dims.size() < 3 || source.dims.size() > 5)) {
        return Error{ErrorCode::unsupported, "only images of one to three dimensions are taken", value,
                     "run the model on the CPU"};
    }
    if (source.type == type && source.role != Role::constant && source.role != Role::output &&
        same_bytes(source, layout)) {
        return make_alias(value, from, source.dims, layout);
    }
    const ValueId made = make(value, type, source.dims, layout, type == ElementType::s8 ? source.scale : 1.0F);
    if (type == ElementType::s8) plan_.values[made].zero_point = source.zero_point;
    FusedOp op;
    op.name = "reformat " + value;
    op.detail = Reformat{};
    op.inputs = {from};
    op.outputs = {made};
    op.compute = source.type == ElementType::s8 ? type : source.type;
    plan_.ops.push_back(std::move(op));
    return made;
}

Result<ValueId> Lowering::want_any(const std::string& value) {
    if (!ready(value)) {
        return Error{ErrorCode::internal, "the value is needed before it is made", value, "please report this"};
    }
    const auto type = stored_type(type_of(value));
    if (!type) return Error{ErrorCode::unsupported, "type " + lathe::to_string(type_of(value)), value, ""};
    Layout layout = Layout::linear;
    const auto& all = forms_[value];
    for (const ValueId id : all) {
        if (plan_.values[id].type == *type) return id;
    }
    if (!all.empty()) layout = plan_.values[all.front()].layout;
    return want(value, *type, layout);
}

Result<ValueId> Lowering::want_linear(const std::string& value) {
    const auto type = stored_type(type_of(value));
    if (!type) return Error{ErrorCode::unsupported, "type " + lathe::to_string(type_of(value)), value, ""};
    return want(value, *type, Layout::linear);
}

Result<void> Lowering::reshape(const std::string& from, const std::string& to) {
    ValueId source = none;
    if (quantised_form(from)) {
        LATHE_TRY(source, want(from, ElementType::s8, Layout::linear));
    } else {
        LATHE_TRY(source, want_any(from));
        LATHE_TRY(source, want(from, plan_.values[source].type, Layout::linear));
    }
    if (plan_.values[source].role == Role::output) {
        return Error{ErrorCode::unsupported, "Reshape of an output that does not fold", from, ""};
    }
    make_alias(to, source, dims(to), Layout::linear);
    return {};
}

FusedOp& Lowering::add(const Node& main, const std::vector<Node*>& nodes, OpDetail detail, std::vector<ValueId> inputs,
                       std::vector<ValueId> outputs, ElementType compute) {
    FusedOp op;
    op.name = main.label();
    mark(&main);
    op.nodes.push_back(main.label());
    for (const Node* node : nodes) {
        mark(node);
        if (node != &main) op.nodes.push_back(node->label());
    }
    op.detail = std::move(detail);
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    op.compute = compute;
    op.tf32 = false;
    plan_.ops.push_back(std::move(op));
    return plan_.ops.back();
}

/// Lost too is what would have come out of a pattern whose last node was lost: its nodes are done, its end is not made.
bool Lowering::is_lost(const std::string& value) {
    if (lost_.contains(value)) return true;
    const Node* producer = uses_->producer(value);
    const auto found = forms_.find(value);
    const bool made = found != forms_.end() && !found->second.empty();
    return !lost_.empty() && producer != nullptr && done_.contains(producer) && !made;
}

Result<void> Lowering::emit(Node& node) {
    if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& name) { return is_lost(name); })) {
        lost_.insert(node.outputs.begin(), node.outputs.end());
        return {};
    }
    if (has_subgraph(node)) return cannot(node, control_flow_refusal(model_, node));
    const auto function = node.domain.empty() ? lowering_table().find(node.op_type) : lowering_table().end();
    if (function == lowering_table().end()) return cannot(node, "there is no GPU form of this operator");
    return function->second(*this, node);
}

bool Lowering::can_be_output(ValueId id, ElementType type) const {
    const Value& value = plan_.values[id];
    return value.role == Role::activation && value.type == type && value.layout == Layout::linear && value.scale == 1 &&
           value.zero_point == 0 && value.alias_of == none &&
           std::none_of(plan_.values.begin(), plan_.values.end(), [&](const Value& v) { return v.alias_of == id; });
}

Result<void> Lowering::finish_outputs(const std::vector<CutOutput>& cut) {
    for (const ValueInfo& info : model_.graph.outputs) {
        if (lost_.contains(info.name)) continue;
        const auto exact = border_type(type_of(info.name));
        if (!exact) {
            return Error{ErrorCode::unsupported, "outputs of type " + lathe::to_string(type_of(info.name)), info.name,
                         "let the model give floats, integers or truth values"};
        }
        if (!ready(info.name)) {
            return Error{ErrorCode::internal, "the output is never made", info.name, "please report this"};
        }
        ValueId found = none;
        for (const ValueId id : forms_[info.name]) {
            const bool taken = std::find(plan_.outputs.begin(), plan_.outputs.end(), id) != plan_.outputs.end();
            if (plan_.values[id].role == Role::output && !taken) found = id;
        }
        // What a Cast without a conversion gives is there under another name.
        for (const ValueId id : forms_[info.name]) {
            if (found != none || !can_be_output(id, *exact)) continue;
            found = id;
            plan_.values[id].role = Role::output;
            plan_.values[id].name = info.name;
        }
        if (found == none) {
            LATHE_TRY(ValueId source, want_any(info.name));
            if (plan_.values[source].role == Role::constant) {
                LATHE_TRY(source, want(info.name, *exact, Layout::linear));
            }
            const Shape sizes = plan_.values[source].dims;
            const float scale = *exact == ElementType::s8 ? plan_.values[source].scale : 1.0F;
            const std::int32_t zero_point = *exact == ElementType::s8 ? plan_.values[source].zero_point : 0;
            found = make(info.name, *exact, sizes, Layout::linear, scale);
            plan_.values[found].role = Role::output;
            plan_.values[found].zero_point = zero_point;
            FusedOp op;
            op.name = "output " + info.name;
            op.detail = Reformat{};
            op.inputs = {source};
            op.outputs = {found};
            op.compute = *exact;
            plan_.ops.push_back(std::move(op));
        }
        plan_.outputs.push_back(found);
    }
    for (const CutOutput& each : cut) {
        const auto counted = forms_.find(count_of_rows(each.source));
        if (counted == forms_.end() || counted->second.empty()) {
            return Error{ErrorCode::internal, "nothing counts its rows", model_.graph.outputs[each.output].name,
                         "please report this"};
        }
        plan_.outputs.push_back(counted->second.front());
        plan_.open.push_back({each.output, each.axis});
    }
    return {};
}

void Lowering::remove_unread() {
    std::vector<bool> read(plan_.values.size());
    const auto reach = [&](ValueId id) {
        for (; id != none; id = plan_.values[id].alias_of)
            read[id] = true;
    };
    for (const ValueId id : plan_.outputs)
        reach(id);
    std::vector<bool> keep(plan_.ops.size());
    for (std::size_t i = plan_.ops.size(); i-- > 0;) {
        const FusedOp& op = plan_.ops[i];
        keep[i] = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId id) { return read[id]; });
        if (!keep[i]) continue;
        for (const ValueId id : op.inputs)
            reach(id);
    }
    // Values are numbered anew: those nobody reads or writes go.
    for (const ValueId id : plan_.inputs)
        read[id] = true;
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
        if (!keep[i]) continue;
        for (const ValueId id : plan_.ops[i].outputs)
            read[id] = true;
        if (const auto* concat = std::get_if<Concat>(&plan_.ops[i].detail); concat != nullptr && concat->joined != none)
            read[concat->joined] = true;
    }
    std::vector<ValueId> renamed(plan_.values.size(), none);
    std::vector<Value> values;
    for (ValueId id = 0; id < plan_.values.size(); ++id) {
        if (!read[id]) continue;
        renamed[id] = static_cast<ValueId>(values.size());
        values.push_back(std::move(plan_.values[id]));
        if (values.back().alias_of != none) values.back().alias_of = renamed[values.back().alias_of];
    }
    plan_.values = std::move(values);
    const auto rename = [&](std::vector<ValueId>& ids) {
        for (ValueId& id : ids)
            id = renamed[id];
    };
    rename(plan_.inputs);
    rename(plan_.outputs);
    std::vector<FusedOp> ops;
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
        if (!keep[i]) continue;
        FusedOp op = std::move(plan_.ops[i]);
        rename(op.inputs);
        rename(op.outputs);
        const auto residual = [&](Epilogue& e) {
            if (e.residual != none) e.residual = renamed[e.residual];
        };
        if (auto* conv = std::get_if<Conv>(&op.detail)) residual(conv->epilogue);
        if (auto* depthwise = std::get_if<Depthwise>(&op.detail)) residual(depthwise->epilogue);
        if (auto* gemm = std::get_if<Gemm>(&op.detail)) residual(gemm->epilogue);
        if (auto* concat = std::get_if<Concat>(&op.detail); concat != nullptr && concat->joined != none)
            concat->joined = renamed[concat->joined];
        ops.push_back(std::move(op));
    }
    plan_.ops = std::move(ops);
}

/// An exporter that wrote down the batch size it saw leaves Reshapes that hold for no other.
Result<void> Lowering::check_reshapes() const {
    for (const auto& node : model_.graph.nodes) {
        if (!node->is("Reshape")) continue;
        const Shape from = dims(node->input(0)), to = dims(node->output(0));
        if (from.empty() || to.empty() || element_count(from) == element_count(to)) continue;
        return Error{ErrorCode::out_of_range, "a Reshape of " + lathe::to_string(from) + " to " + lathe::to_string(to),
                     node->label(),
                     "the model holds for the sizes it was exported with: build it for them, or export it anew with "
                     "the sizes free"};
    }
    return {};
}

Result<Plan> Lowering::run(const std::vector<CutOutput>& cut) {
    LATHE_CHECK(check_reshapes());
    for (std::size_t i = 0; i < inputs_; ++i) {
        const ValueInfo& info = model_.graph.inputs[i];
        const auto type = border_type(info.type);
        if (!type) {
            return Error{ErrorCode::unsupported, "inputs of type " + lathe::to_string(info.type), info.name,
                         "let the model take floats, integers or truth values"};
        }
        const ValueId id = make(info.name, *type, dims(info.name), Layout::linear);
        plan_.values[id].role = Role::input;
        plan_.inputs.push_back(id);
    }
    if (plan_.weights->float64.empty()) {
        for (const auto& node : model_.graph.nodes)
            for (const std::string& output : node->outputs)
                if (type_of(output) == DataType::float64 && !node->is("Cast") && plan_.weights->float64.empty())
                    plan_.weights->float64 = output;
    }
    find_attention(*this);
    std::string reasons;
    for (const auto& node : model_.graph.nodes) {
        if (is_done(node.get())) continue;
        auto emitted = emit(*node);
        if (emitted) continue;
        if (emitted.error().code != ErrorCode::unsupported) return std::move(emitted).error().in(node->label());
        reasons += (reasons.empty() ? "" : "\n") + emitted.error().describe();
        lost_.insert(node->outputs.begin(), node->outputs.end());
    }
    if (reasons.empty()) {
        LATHE_CHECK(finish_outputs(cut));
        LATHE_CHECK(compute_constants(plan_, [this](const std::string& key, ElementType type, const Shape& dims,
                                                    const auto& make) { return store(key, type, dims, make); }));
        remove_unread();
        fuse_programs(plan_);
        read_through_movements(plan_);
        remove_unread();
        place_parts(plan_);
        for (const FusedOp& op : plan_.ops) {
            for (const std::string& why : {zero_point_misuse(plan_, op), type_misuse(plan_, op)})
                if (!why.empty()) reasons += (reasons.empty() ? "" : "\n") + op.name + ": " + why;
        }
    }
    if (!reasons.empty()) {
        return Error{ErrorCode::unsupported, "these nodes cannot run on the GPU:\n" + reasons, "",
                     "let them run on the CPU (--allow-fallback), build the whole for the CPU, or change the model"};
    }
    LATHE_CHECK(verify(plan_));
    return std::move(plan_);
}

/// A value that comes from outside, if the plan can hold it.
bool Lowering::hand_over(const ValueInfo& info) {
    const auto type = border_type(info.type);
    const auto shape = info.shape();
    const bool known = shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size > 0; });
    if (!type || !known) {
        lost_.insert(info.name);
        return false;
    }
    const ValueId id = make(info.name, *type, *shape, Layout::linear);
    plan_.values[id].role = Role::input;
    plan_.inputs.push_back(id);
    return true;
}

Result<std::vector<Refusal>> Lowering::refusals() {
    std::vector<Refusal> found;
    std::unordered_map<std::string, std::string> why_lost;
    for (std::size_t i = 0; i < inputs_; ++i) {
        const ValueInfo& info = model_.graph.inputs[i];
        if (!hand_over(info))
            why_lost[info.name] = "it reads " + info.name + ", whose type the GPU engine does not have";
    }
    const auto refuse = [&](const Node& node, std::string why) {
        found.push_back({node.label(), node.op_type, node.outputs, std::move(why)});
        for (const std::string& output : node.outputs) {
            if (output.empty() || hand_over(model_.graph.info_or_name(output))) continue;
            why_lost[output] = "it reads " + output + ", whose size or type is known on the CPU alone";
        }
    };
    find_attention(*this);
    for (const auto& node : model_.graph.nodes) {
        if (is_done(node.get())) continue;
        const auto lost = std::find_if(node->inputs.begin(), node->inputs.end(),
                                       [&](const std::string& name) { return is_lost(name); });
        if (lost != node->inputs.end()) {
            const auto why = why_lost.find(*lost);
            refuse(*node, why == why_lost.end() ? "it reads " + *lost + ", which is not made on the GPU" : why->second);
            continue;
        }
        const auto open = std::find_if(node->outputs.begin(), node->outputs.end(), [&](const std::string& name) {
            if (name.empty() || uses_->use_count(name) == 0) return false;
            const auto shape = model_.graph.info_or_name(name).shape();
            return !shape || std::any_of(shape->begin(), shape->end(), [](std::int64_t size) { return size < 0; });
        });
        if (open != node->outputs.end()) {
            refuse(*node, "the size of " + *open + " is known only once it is computed");
            continue;
        }
        const auto untyped = std::find_if(node->outputs.begin(), node->outputs.end(), [&](const std::string& name) {
            return model_.graph.is_output(name) && !border_type(type_of(name));
        });
        if (untyped != node->outputs.end()) {
            refuse(*node, "the GPU engine has no outputs of type " + lathe::to_string(type_of(*untyped)));
            continue;
        }
        auto emitted = emit(*node);
        if (emitted) continue;
        if (emitted.error().code != ErrorCode::unsupported && emitted.error().code != ErrorCode::out_of_range)
            return std::move(emitted).error().in(node->label());
        refuse(*node, emitted.error().message);
    }
    return found;
}

Result<Survey> survey(Prepared& prepared, const std::vector<Shape>& input_shapes) {
    Survey found;
    LATHE_TRY(found.specialised, specialise(prepared, input_shapes, OpenShapes::left));
    Model model = found.specialised;
    LATHE_CHECK(unify_spellings(model));
    LATHE_TRY(const std::size_t inputs, input_count(model));
    found.unified = model;
    LATHE_TRY(found.refusals, Lowering(prepared, std::move(model), inputs).refusals());
    return found;
}

Result<Plan> lower(Prepared& prepared, const std::vector<Shape>& input_shapes) {
    LATHE_TRY(Model model, specialise(prepared, input_shapes));
    LATHE_TRY(const std::vector<CutOutput> cut, cut_outputs(model.graph));
    LATHE_CHECK(unify_spellings(model));
    LATHE_TRY(const std::size_t inputs, input_count(model));
    return Lowering(prepared, std::move(model), inputs).run(cut);
}

} // namespace lathe::cuda
