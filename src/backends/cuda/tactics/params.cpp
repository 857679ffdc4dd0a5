#include "backends/cuda/tactics/params.hpp"

#include <algorithm>
#include <limits>

namespace lathe::cuda {

using namespace kernels;

namespace {

class ClosureBound final : public BoundKernel {
public:
    ClosureBound(std::string name, Launch launch) : name_(std::move(name)), launch_(std::move(launch)) {}
    Result<void> launch(cudaStream_t stream, bool programmatic) const override {
        const cudaError_t code = launch_(stream, programmatic);
        if (code != cudaSuccess) return cuda_error(code, "launch of " + name_);
        return {};
    }

private:
    std::string name_;
    Launch launch_;
};

class ClosurePrepared final : public PreparedKernel {
public:
    ClosurePrepared(std::string name, std::size_t workspace, bool waits, Bind bind)
        : name_(std::move(name)), workspace_(workspace), waits_(waits), bind_(std::move(bind)) {}
    std::size_t workspace_bytes() const override { return workspace_; }
    bool waits() const override { return waits_; }
    Result<std::unique_ptr<BoundKernel>> bind(const Pointers& pointers) const override {
        LATHE_TRY(Launch launch, bind_(pointers));
        return std::unique_ptr<BoundKernel>(std::make_unique<ClosureBound>(name_, std::move(launch)));
    }

private:
    std::string name_;
    std::size_t workspace_;
    bool waits_;
    Bind bind_;
};

std::int64_t product(const Shape& dims, std::size_t from, std::size_t to) {
    std::int64_t count = 1;
    for (std::size_t i = from; i < to && i < dims.size(); ++i)
        count *= dims[i];
    return count;
}

std::vector<Place> places(const Plan& plan, const std::vector<ValueId>& ids) {
    std::vector<Place> all;
    for (const ValueId id : ids)
        all.push_back(place_of(plan, id));
    return all;
}

} // namespace

std::unique_ptr<PreparedKernel> make_kernel(std::string name, std::size_t workspace, bool waits, Bind bind) {
    return std::make_unique<ClosurePrepared>(std::move(name), workspace, waits, std::move(bind));
}

bool waits_on(const Device& device) { return device.sm == 90; }

std::int32_t type_number(ElementType type) { return static_cast<std::int32_t>(type); }

Shape image_dims(const Value& value) {
    if (value.layout == Layout::nhwc && value.dims.size() == 3) return {value.dims[0], value.dims[1], 1, value.dims[2]};
    return value.dims;
}

TensorDesc desc_of(const Value& value) {
    TensorDesc desc;
    desc.type = type_number(value.type);
    desc.scale = value.type == ElementType::s8 ? value.scale : 1.0F;
    const Shape dims = image_dims(value);
    desc.rank = narrow(static_cast<std::int64_t>(std::min<std::size_t>(dims.size(), max_rank)));
    for (std::size_t d = 0; d < dims.size() && d < max_rank; ++d)
        desc.dims[d] = dims[d];
    if (value.layout == Layout::nhwc) {
        desc.channel_stride = value.part ? 0 : value.channel_stride;
        desc.strides[1] = 1;
        std::int64_t stride = value.channel_stride;
        for (int d = desc.rank - 1; d >= 0; --d) {
            if (d == 1) continue;
            desc.strides[d] = stride;
            stride *= desc.dims[d];
        }
    } else {
        std::int64_t stride = 1;
        for (int d = desc.rank - 1; d >= 0; --d) {
            desc.strides[d] = stride;
            stride *= desc.dims[d];
        }
    }
    return desc;
}

void* Place::in(const Pointers& pointers) const {
    const void* base = weight != none ? pointers.weights[weight] : value != none ? pointers.values[value] : nullptr;
    if (base == nullptr) return nullptr;
    return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + offset;
}

Place place_of(const Plan& plan, ValueId id) {
    const Value& root = plan.values[root_of(plan, id)]; // the constant an alias stands for
    return {id, root.role == Role::constant ? root.weight : none, 0};
}

void* address(const Pointers& pointers, const Plan& plan, ValueId id) { return place_of(plan, id).in(pointers); }

const Weight& weight_of(const Plan& plan, WeightId id) { return plan.weights->weights[id]; }

WindowParams window_params(const Window& window) {
    return {narrow(window.kernel[0]),   narrow(window.kernel[1]),   narrow(window.stride[0]), narrow(window.stride[1]),
            narrow(window.dilation[0]), narrow(window.dilation[1]), narrow(window.pads[0]),   narrow(window.pads[1]),
            narrow(window.pads[2]),     narrow(window.pads[3])};
}

DepthParams depth_params(const Depths& depths) {
    return {narrow(depths.kernel), narrow(depths.stride), narrow(depths.dilation),
            narrow(depths.before), narrow(depths.in),     narrow(depths.out)};
}

EpilogueParams epilogue_params(const Epilogue& epilogue, const Plan& plan) {
    EpilogueParams params{};
    params.residual_scale = epilogue.residual == none ? 0.0F : epilogue.residual_scale;
    params.act = static_cast<std::int32_t>(epilogue.act);
    params.low = epilogue.low;
    params.high = epilogue.high;
    params.alpha = epilogue.alpha;
    params.output_scale_inverse = epilogue.output_scale_inverse;
    params.residual_last = epilogue.residual != none && epilogue.residual_last ? 1 : 0;
    params.residual_is_s8 = epilogue.residual != none && plan.values[epilogue.residual].type == ElementType::s8 ? 1 : 0;
    return params;
}

void bind_epilogue(EpilogueParams& params, const Epilogue& epilogue, const Place& residual, const Pointers& pointers) {
    params.scale = static_cast<const float*>(weight_address(pointers, epilogue.scale));
    params.bias = static_cast<const float*>(weight_address(pointers, epilogue.bias));
    params.residual = residual.in(pointers);
}

Place residual_place(const Epilogue& epilogue, const Plan& plan) {
    return epilogue.residual == none ? Place{} : place_of(plan, epilogue.residual);
}

Error cannot(const FusedOp& op, std::string why) { return {ErrorCode::unsupported, std::move(why), op.name, ""}; }

Error no_such_tactic(const std::string& provider, const std::string& id, const FusedOp& op) {
    return {ErrorCode::mismatch, "the tactic \"" + provider + ":" + id + "\" does not exist for this operation",
            op.name, "the timing cache or engine comes from another version of Lathe or of the library; build again"};
}

bool ImplicitGemm::pointwise() const {
    return params.r == 1 && params.s == 1 && params.stride_h == 1 && params.stride_w == 1 && params.pad_h == 0 &&
           params.pad_w == 0 && params.p == params.h && params.q == params.w;
}

ImplicitGemmParams ImplicitGemm::bound(const Pointers& pointers) const {
    ImplicitGemmParams full = params;
    full.input = input.in(pointers);
    full.output = output.in(pointers);
    full.weight = weight_address(pointers, weight_id);
    bind_epilogue(full.epilogue, epilogue, residual, pointers);
    return full;
}

Result<ImplicitGemm> implicit_gemm(const FusedOp& op, const Plan& plan) {
    const auto* conv = std::get_if<Conv>(&op.detail);
    if (conv != nullptr && conv->groups != 1) return cannot(op, "a convolution in groups");
    return implicit_gemm_of_groups(op, plan);
}

Result<ImplicitGemm> implicit_gemm_of_groups(const FusedOp& op, const Plan& plan) {
    ImplicitGemm result;
    ImplicitGemmParams& p = result.params;
    p = {};
    const auto value = [&](ValueId id) -> const Value& { return plan.values[id]; };
    if (const auto* gemm = std::get_if<Gemm>(&op.detail)) {
        if (!fits_32(gemm->m) || !fits_32(gemm->n) || !fits_32(gemm->k)) return cannot(op, "more than 2^31 rows");
        p.n = 1;
        p.h = p.p = narrow(gemm->m);
        p.w = p.q = p.r = p.s = p.stride_h = p.stride_w = p.dil_h = p.dil_w = 1;
        p.c = p.c_stride = p.c_pitch = narrow(gemm->k);
        p.k = p.k_stride = p.k_pitch = narrow(gemm->n);
        result.weight_id = gemm->weight;
        result.epilogue = gemm->epilogue;
        result.gemm = true;
    } else if (const auto* conv = std::get_if<Conv>(&op.detail)) {
        if (conv->reads_nchw) return cannot(op, "the input is NCHW");
        if (conv->pooled) return cannot(op, "a pooled result");
        const Value& x = value(op.inputs[0]);
        const Value& y = value(op.outputs[0]);
        const Shape xd = image_dims(x), yd = image_dims(y);
        if (!fits_32(xd[0] * xd[2] * xd[3]) || !fits_32(yd[0] * yd[2] * yd[3])) return cannot(op, "over 2^31 pixels");
        const Weight& w = weight_of(plan, conv->weight);
        p.n = narrow(xd[0]);
        p.h = narrow(xd[2]);
        p.w = narrow(xd[3]);
        p.c = narrow(w.dims.back());
        p.c_stride = narrow(x.stored_channels());
        p.c_pitch = narrow(x.channel_stride);
        p.groups = narrow(conv->groups);
        if (p.c > p.c_stride / p.groups) return cannot(op, "the weight has more channels than a pixel of the input");
        if (p.groups > 1 && y.stored_channels() != yd[1]) return cannot(op, "groups whose channels are padded");
        p.k = narrow(yd[1] / p.groups);
        p.k_stride = p.groups > 1 ? p.k : narrow(y.stored_channels());
        p.k_pitch = narrow(y.channel_stride);
        const WindowParams window = window_params(conv->window);
        p.r = window.kernel_h;
        p.s = window.kernel_w;
        p.p = narrow(yd[2]);
        p.q = narrow(yd[3]);
        p.pad_h = window.pad_h;
        p.pad_w = window.pad_w;
        p.stride_h = window.stride_h;
        p.stride_w = window.stride_w;
        p.dil_h = window.dil_h;
        p.dil_w = window.dil_w;
        result.weight_id = conv->weight;
        result.epilogue = conv->epilogue;
    } else {
        return cannot(op, "neither a convolution nor a gemm");
    }
    result.in = value(op.inputs[0]).type;
    result.out = value(op.outputs[0]).type;
    result.weight = weight_of(plan, result.weight_id).type;
    result.input = place_of(plan, op.inputs[0]);
    result.output = place_of(plan, op.outputs[0]);
    result.residual = residual_place(result.epilogue, plan);
    p.epilogue = epilogue_params(result.epilogue, plan);
    if (result.epilogue.residual != none && value(result.epilogue.residual).layout == Layout::nhwc)
        p.epilogue.residual_stride = narrow(value(result.epilogue.residual).channel_stride);
    return result;
}

Result<GemmParams> gemm_params(const FusedOp& op, const Plan& plan) {
    const auto* gemm = std::get_if<Gemm>(&op.detail);
    if (gemm == nullptr) return cannot(op, "not a gemm");
    GemmParams p{};
    p.input_type = type_number(plan.values[op.inputs[0]].type);
    p.weight_type = type_number(weight_of(plan, gemm->weight).type);
    p.output_type = type_number(plan.values[op.outputs[0]].type);
    p.m = gemm->m;
    p.n = gemm->n;
    p.k = gemm->k;
    p.output_stride = gemm->n;
    p.epilogue = epilogue_params(gemm->epilogue, plan);
    return p;
}

std::function<void(GemmParams&, const Pointers&)> gemm_setter(const FusedOp& op, const Plan& plan) {
    const auto& gemm = std::get<Gemm>(op.detail);
    return [epilogue = gemm.epilogue, weight = gemm.weight, x = place_of(plan, op.inputs[0]),
            y = place_of(plan, op.outputs[0]),
            residual = residual_place(gemm.epilogue, plan)](GemmParams& p, const Pointers& pointers) {
        p.input = x.in(pointers);
        p.output = y.in(pointers);
        p.weight = weight_address(pointers, weight);
        bind_epilogue(p.epilogue, epilogue, residual, pointers);
    };
}

Result<AttentionParams> attention_params(const FusedOp& op, const Plan& plan) {
    const auto* a = std::get_if<Attention>(&op.detail);
    if (a == nullptr) return cannot(op, "not attention");
    AttentionParams p{};
    const Value& first = plan.values[op.inputs[0]];
    if (first.type == ElementType::s8) return cannot(op, "int8 queries");
    p.type = type_number(first.type);
    const Value& y = plan.values[op.outputs[0]];
    p.output_type = type_number(y.type);
    p.output_scale = y.type == ElementType::s8 ? y.scale : 1.0F;
    p.batch = a->batch;
    p.heads = a->heads;
    p.kv_heads = a->key_heads();
    p.q_len = a->q_len;
    p.kv_len = a->kv_len;
    p.depth = a->depth;
    p.value_depth = a->values_depth();
    p.scale = a->scale;
    p.causal = a->causal ? 1 : 0;
    p.empty_is_zero = a->empty_is_zero ? 1 : 0;
    p.masks = a->masks;
    const auto views = a->views();
    const auto fill = [&](std::int64_t* strides, std::int64_t& offset, const HeadView& view) {
        strides[0] = view.batch;
        strides[1] = view.row;
        strides[2] = view.head;
        offset = view.offset;
    };
    fill(p.q_strides, p.q_offset, views[0]);
    fill(p.k_strides, p.k_offset, views[1]);
    fill(p.v_strides, p.v_offset, views[2]);
    fill(p.o_strides, p.o_offset, views[3]);
    for (int i = 0; i < a->masks; ++i) {
        const Value& mask = plan.values[op.inputs[op.inputs.size() - static_cast<std::size_t>(a->masks - i)]];
        AttentionMask& to = i == 0 ? p.mask : p.second_mask;
        to.type = type_number(mask.type);
        if (mask.type == ElementType::s8 || mask.type == ElementType::boolean)
            return cannot(op, "a mask that is not of floats");
        const auto view = mask_view(*a, mask.dims);
        if (!view) return cannot(op, "a mask of shape " + lathe::to_string(mask.dims));
        to.batches = view->batches;
        to.batch_stride = view->batch;
        to.head_stride = view->head;
        to.row_stride = view->row;
    }
    return p;
}

std::function<void(AttentionParams&, const Pointers&)> attention_setter(const FusedOp& op, const Plan& plan) {
    const auto& a = std::get<Attention>(op.detail);
    const auto views = a.views();
    const auto operand = static_cast<std::int64_t>(bytes_of(plan.values[op.inputs[0]].type));
    const auto result = static_cast<std::int64_t>(bytes_of(plan.values[op.outputs[0]].type));
    return [packed = a.packed, masks = static_cast<std::size_t>(a.masks), inputs = places(plan, op.inputs),
            y = place_of(plan, op.outputs[0]),
            offsets = std::array{views[0].offset * operand, views[1].offset * operand, views[2].offset * operand,
                                 views[3].offset * result}](AttentionParams& p, const Pointers& pointers) {
        const auto part = [&](std::size_t i) {
            return static_cast<const std::byte*>(inputs[packed ? 0 : i].in(pointers)) + offsets[i];
        };
        p.q = part(0);
        p.k = part(1);
        p.v = part(2);
        if (masks > 0) p.mask.data = inputs[inputs.size() - masks].in(pointers);
        if (masks > 1) p.second_mask.data = inputs.back().in(pointers);
        p.output = static_cast<std::byte*>(y.in(pointers)) + offsets[3];
    };
}

Result<GatherParams> gather_params(const FusedOp& op, const Plan& plan) {
    const auto* g = std::get_if<Gather>(&op.detail);
    if (g == nullptr) return cannot(op, "not a gather");
    GatherParams p{};
    const Value& y = plan.values[op.outputs[0]];
    p.y_type = type_number(y.type);
    p.y_scale = y.type == ElementType::s8 ? y.scale : 1.0F;
    const auto index_input = [&](int t, ValueId id) -> Result<void> {
        const Value& v = plan.values[id];
        if (v.type != ElementType::s32 && v.type != ElementType::s64)
            return cannot(op, "indices that are not integers");
        p.index_types[t] = type_number(v.type);
        p.index_counts[t] = std::max<std::int64_t>(1, element_count(v.dims));
        return {};
    };
    if (!g->tables.empty()) {
        if (g->tables.size() > max_tables || op.inputs.size() != g->tables.size())
            return cannot(op, "a sum over more than 4 tables");
        p.count = narrow(static_cast<std::int64_t>(g->tables.size()));
        p.outer = 1;
        for (int t = 0; t < p.count; ++t) {
            const Weight& table = weight_of(plan, g->tables[static_cast<std::size_t>(t)]);
            p.table_types[t] = type_number(table.type);
            p.table_scales[t] = 1;
            p.table_rows[t] = table.dims[0];
            p.inner = product(table.dims, 1, table.dims.size());
            LATHE_CHECK(index_input(t, op.inputs[static_cast<std::size_t>(t)]));
        }
        p.index_count = element_count(y.dims) / std::max<std::int64_t>(1, p.inner);
    } else {
        const Value& table = plan.values[op.inputs[0]];
        if (table.layout != Layout::linear) return cannot(op, "a gather from an image");
        const std::size_t axis =
            static_cast<std::size_t>(g->axis < 0 ? g->axis + static_cast<std::int64_t>(table.dims.size()) : g->axis);
        p.count = 1;
        p.table_types[0] = type_number(table.type);
        p.table_scales[0] = table.type == ElementType::s8 ? table.scale : 1.0F;
        p.table_rows[0] = table.dims[axis];
        p.outer = product(table.dims, 0, axis);
        p.inner = product(table.dims, axis + 1, table.dims.size());
        LATHE_CHECK(index_input(0, op.inputs[1]));
        p.index_count = p.index_counts[0];
    }
    return p;
}

std::function<void(GatherParams&, const Pointers&)> gather_setter(const FusedOp& op, const Plan& plan) {
    const auto& g = std::get<Gather>(op.detail);
    return [tables = g.tables, inputs = places(plan, op.inputs),
            y = place_of(plan, op.outputs[0])](GatherParams& p, const Pointers& pointers) {
        for (int t = 0; t < p.count; ++t) {
            const auto i = static_cast<std::size_t>(t);
            p.tables[t] = tables.empty() ? inputs[0].in(pointers) : pointers.weights[tables[i]];
            p.indices[t] = inputs[tables.empty() ? 1 : i].in(pointers);
        }
        p.y = y.in(pointers);
    };
}

Result<PointwiseParams> pointwise_params(const FusedOp& op, const Plan& plan) {
    const auto* detail = std::get_if<Pointwise>(&op.detail);
    if (detail == nullptr) return cannot(op, "not a pointwise program");
    if (op.inputs.size() > max_point_inputs || op.outputs.size() > max_point_outputs ||
        detail->code.size() > max_point_code || detail->results.size() != op.outputs.size())
        return cannot(op, "a pointwise program of more than 8 inputs, 4 outputs or 24 instructions");
    PointwiseParams p{};
    const Value& y = plan.values[op.outputs[0]];
    const TensorDesc out = desc_of(y);
    p.nhwc_order = y.layout == Layout::nhwc ? 1 : 0;
    p.count = element_count(y.dims);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Value& value = plan.values[op.outputs[i]];
        if (value.dims != y.dims) return cannot(op, "outputs of several shapes");
        p.outputs[i] = desc_of(value);
        p.results[i] = static_cast<std::uint8_t>(detail->results[i] % max_point_registers);
        ++p.output_count;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        TensorDesc x = desc_of(plan.values[op.inputs[i]]);
        // [c, w] and [n, c, w] beside an image of one dimension, which is [n, c, 1, w].
        if (y.layout == Layout::nhwc && y.dims.size() == 3 && (x.rank == 2 || x.rank == 3)) {
            x.dims[x.rank] = x.dims[x.rank - 1];
            x.strides[x.rank] = x.strides[x.rank - 1];
            x.dims[x.rank - 1] = 1;
            ++x.rank;
        }
        TensorDesc view = x;
        view.rank = out.rank;
        if (const OperandView* seen = detail->view(i)) {
            const std::vector<std::int64_t> own(x.strides, x.strides + x.rank);
            const auto strides = seen->strides(own, static_cast<std::size_t>(out.rank));
            for (int d = 0; d < out.rank; ++d) {
                view.dims[d] = out.dims[d];
                view.strides[d] = strides[static_cast<std::size_t>(d)];
            }
            p.inputs[i] = view;
            ++p.input_count;
            continue;
        }
        const int missing = out.rank - x.rank;
        if (missing < 0) return cannot(op, "an input of a higher rank than the output");
        for (int d = 0; d < out.rank; ++d) {
            const std::int64_t size = d < missing ? 1 : x.dims[d - missing];
            if (size != 1 && size != out.dims[d]) return cannot(op, "an input that does not broadcast to the output");
            view.dims[d] = out.dims[d];
            view.strides[d] = size == 1 ? 0 : x.strides[d - missing];
        }
        p.inputs[i] = view;
        ++p.input_count;
    }
    for (const PointInstruction& from : detail->code) {
        p.code[p.code_count++] = {static_cast<std::uint8_t>(from.op), from.a, from.b, from.c, from.x, from.y};
    }
    return p;
}

std::function<void(PointwiseParams&, const Pointers&)> pointwise_setter(const FusedOp& op, const Plan& plan) {
    std::vector<Place> inputs = places(plan, op.inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = plan.values[op.inputs[i]];
        const TensorDesc x = desc_of(value);
        if (const OperandView* view = std::get<Pointwise>(op.detail).view(i))
            inputs[i].offset =
                view->offset({x.strides, x.strides + x.rank}) * static_cast<std::int64_t>(bytes_of(value.type));
    }
    return
        [inputs = std::move(inputs), outputs = places(plan, op.outputs)](PointwiseParams& p, const Pointers& pointers) {
            for (std::size_t i = 0; i < inputs.size(); ++i)
                p.inputs[i].data = inputs[i].in(pointers);
            for (std::size_t i = 0; i < outputs.size(); ++i)
                p.outputs[i].data = outputs[i].in(pointers);
        };
}

SoftmaxParams softmax_params(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<Softmax>(op.detail);
    const TensorDesc x = desc_of(plan.values[op.inputs[0]]), y = desc_of(plan.values[op.outputs[0]]);
    SoftmaxParams p{};
    p.x_type = x.type;
    p.y_type = y.type;
    p.x_scale = x.scale;
    p.y_scale = y.scale;
    p.rows = detail.rows;
    p.columns = detail.columns;
    p.log = detail.log ? 1 : 0;
    return p;
}

std::function<void(SoftmaxParams&, const Pointers&)> softmax_setter(const FusedOp& op, const Plan& plan) {
    return [x = place_of(plan, op.inputs[0]), y = place_of(plan, op.outputs[0])](SoftmaxParams& p,
                                                                                 const Pointers& pointers) {
        p.x = x.in(pointers);
        p.y = y.in(pointers);
    };
}

LayerNormParams layer_norm_params(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<LayerNorm>(op.detail);
    LayerNormParams p{};
    const TensorDesc x = desc_of(plan.values[op.inputs[0]]);
    p.x_type = x.type;
    p.x_scale = x.scale;
    if (detail.residual) {
        const TensorDesc r = desc_of(plan.values[op.inputs[1]]);
        p.residual_type = r.type;
        p.residual_scale = r.scale;
    }
    std::size_t next = 0;
    const TensorDesc y = desc_of(plan.values[op.outputs[next++]]);
    p.y_type = y.type;
    p.y_scale = y.scale;
    if (detail.quantized_output) p.quantized_scale = desc_of(plan.values[op.outputs[next++]]).scale;
    if (detail.sum_output) {
        const TensorDesc sum = desc_of(plan.values[op.outputs[next]]);
        p.sum_type = sum.type;
        p.sum_scale = sum.scale;
    }
    p.rows = detail.rows;
    p.columns = detail.columns;
    p.epsilon = detail.epsilon;
    return p;
}

std::function<void(LayerNormParams&, const Pointers&)> layer_norm_setter(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<LayerNorm>(op.detail);
    return [detail, inputs = places(plan, op.inputs), outputs = places(plan, op.outputs)](LayerNormParams& p,
                                                                                          const Pointers& pointers) {
        p.x = inputs[0].in(pointers);
        p.residual = detail.residual ? inputs[1].in(pointers) : nullptr;
        p.gamma = static_cast<const float*>(weight_address(pointers, detail.gamma));
        p.beta = static_cast<const float*>(weight_address(pointers, detail.beta));
        std::size_t next = 0;
        p.y = outputs[next++].in(pointers);
        p.quantized = detail.quantized_output ? outputs[next++].in(pointers) : nullptr;
        p.sum = detail.sum_output ? outputs[next].in(pointers) : nullptr;
    };
}

RecurrentParams recurrent_params(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<Recurrent>(op.detail);
    const auto in = [&](std::size_t i) -> const Value& { return plan.values[op.inputs[i]]; };
    const auto type_out = [&](std::size_t i) { return type_number(plan.values[op.outputs[i]].type); };
    RecurrentParams p{};
    p.cell = detail.cell;
    p.reverse = detail.reverse ? 1 : 0;
    p.linear_before_reset = detail.linear_before_reset ? 1 : 0;
    p.steps = in(0).dims[0], p.batch = in(0).dims[1], p.width = in(1).dims[2], p.directions = in(1).dims[0];
    p.gates_type = type_number(in(0).type), p.weight_type = type_number(in(1).type);
    p.y_type = type_out(0), p.last_type = type_out(1);
    const std::size_t states = op.inputs.size() - (detail.lengths ? 1 : 0);
    if (states > 3) p.initial_type = type_number(in(3).type);
    if (states > 4) p.initial_cell_type = type_number(in(4).type);
    if (op.outputs.size() > 2) p.last_cell_type = type_out(2);
    return p;
}

std::function<void(RecurrentParams&, const Pointers&)> recurrent_setter(const FusedOp& op, const Plan& plan) {
    const bool lengths = std::get<Recurrent>(op.detail).lengths;
    const std::size_t states = op.inputs.size() - (lengths ? 1 : 0);
    return [in = places(plan, op.inputs), out = places(plan, op.outputs), states, lengths](RecurrentParams& p,
                                                                                           const Pointers& pointers) {
        p.gates = in[0].in(pointers);
        p.recurrence = in[1].in(pointers);
        p.bias = static_cast<const float*>(in[2].in(pointers));
        if (states > 3) p.initial = in[3].in(pointers);
        if (states > 4) p.initial_cell = in[4].in(pointers);
        if (lengths) p.lengths = static_cast<const std::int32_t*>(in.back().in(pointers));
        p.y = out[0].in(pointers);
        p.last = out[1].in(pointers);
        if (out.size() > 2) p.last_cell = out[2].in(pointers);
    };
}

IndexedParams indexed_params(const FusedOp& op, const Plan& plan) {
    const auto& detail = std::get<Indexed>(op.detail);
    IndexedParams p{};
    p.kind = detail.kind;
    p.mode = detail.mode;
    p.first = detail.first ? 1 : 0;
    p.second = detail.second ? 1 : 0;
    p.axis = detail.axis;
    p.number = detail.number;
    p.factor = detail.factor;
    p.limit = detail.limit;
    p.in_count = static_cast<std::int32_t>(op.inputs.size());
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
        p.in[i] = desc_of(plan.values[op.inputs[i]]);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
        p.out[i] = desc_of(plan.values[op.outputs[i]]);
    if (detail.kind == IndexedKind::pad) { // as it lies in memory
        const PadLine line = pad_line(plan.values[op.inputs[0]], plan.values[op.outputs[0]], detail.axis);
        for (TensorDesc* t : {&p.in[0], &p.out[0]}) {
            t->rank = 3;
            t->dims[0] = line.outer, t->dims[1] = t == &p.in[0] ? line.size : line.wide, t->dims[2] = line.inner;
        }
        p.axis = 1;
    }
    return p;
}

std::function<void(IndexedParams&, const Pointers&)> indexed_setter(const FusedOp& op, const Plan& plan) {
    return [in = places(plan, op.inputs), out = places(plan, op.outputs)](IndexedParams& p, const Pointers& pointers) {
        for (std::size_t i = 0; i < in.size(); ++i)
            p.in[i].data = in[i].in(pointers);
        for (std::size_t i = 0; i < out.size(); ++i)
            p.out[i].data = out[i].in(pointers);
    };
}

} // namespace lathe::cuda
