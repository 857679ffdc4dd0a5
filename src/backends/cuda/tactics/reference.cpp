// Provider "reference": the general kernels, for every op that the lowering makes.
#include "backends/cuda/tactics/params.hpp"

#include <algorithm>

#include "backends/cuda/kernels/indexed.hpp"
#include "backends/cuda/kernels/reference_norm.hpp"
#include "backends/cuda/kernels/reference_rotary.hpp"
#include "backends/cuda/tactics/sequence.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

using Prepared_ = Result<std::unique_ptr<PreparedKernel>>;

class Reference {
public:
    Reference(const FusedOp& op, const Plan& plan, const Device& device) : Reference(op, plan, waits_on(device)) {}
    Reference(const FusedOp& op, const Plan& plan, bool waits) : op_(op), plan_(plan), waits_(waits) {}

    Prepared_ operator()(const Conv& conv) const { return convolution(conv.window, conv.weight, conv.epilogue, &conv); }
    Prepared_ operator()(const Depthwise& depthwise) const {
        return convolution(depthwise.window, depthwise.weight, depthwise.epilogue, nullptr, depthwise.depths);
    }
    Prepared_ operator()(const Gemm&) const {
        LATHE_TRY(const GemmParams params, gemm_params(op_, plan_));
        LATHE_CHECK(check_product(params.input_type, params.weight_type));
        return make_kernel(name(), waits_, params, gemm_setter(op_, plan_), launch_gemm_general);
    }
    Prepared_ operator()(const BatchedGemm& detail) const {
        BatchedGemmParams p{};
        const TensorDesc a = desc(op_.inputs[0]), b = desc(op_.inputs[1]), c = desc(op_.outputs[0]);
        p.a_type = a.type;
        p.b_type = b.type;
        p.c_type = c.type;
        p.a_scale = a.scale;
        p.b_scale = b.scale;
        p.c_scale = c.scale;
        p.transpose_a = detail.transpose_a ? 1 : 0;
        p.transpose_b = detail.transpose_b ? 1 : 0;
        p.m = detail.m;
        p.n = detail.n;
        p.k = detail.k;
        p.a_pitch = detail.pitch_of_a();
        p.alpha = detail.alpha;
        p.outer_rank = std::max(0, c.rank - 2);
        p.batch = 1;
        for (int d = 0; d < p.outer_rank; ++d) {
            p.outer_dims[d] = c.dims[d];
            p.batch *= c.dims[d];
            p.a_strides[d] = broadcast_stride(a, d - (c.rank - a.rank));
            p.b_strides[d] = broadcast_stride(b, d - (c.rank - b.rank));
        }
        if (p.batch != detail.batch) return cannot(op_, "batch of a batched gemm unlike its result's dims");
        return make_kernel(
            name(), waits_, p,
            [a_at = place(op_.inputs[0]), b_at = place(op_.inputs[1]),
             c_at = place(op_.outputs[0])](BatchedGemmParams& q, const Pointers& pointers) {
                q.a = a_at.in(pointers);
                q.b = b_at.in(pointers);
                q.c = c_at.in(pointers);
            },
            launch_batched_gemm_general);
    }
    Prepared_ operator()(const Attention& detail) const {
        if (std::max(detail.depth, detail.values_depth()) > 256)
            return cannot(op_, "attention heads of depth over 256");
        LATHE_TRY(const AttentionParams params, attention_params(op_, plan_));
        return make_kernel(name(), waits_, params, attention_setter(op_, plan_), launch_attention_general);
    }
    Prepared_ operator()(const Pool& detail) const {
        PoolParams p{};
        p.x = desc(op_.inputs[0]);
        p.y = desc(op_.outputs[0]);
        p.window = window_params(detail.window);
        p.average = detail.average ? 1 : 0;
        p.count_pad = detail.count_pad ? 1 : 0;
        p.rescale = detail.rescale;
        return make_kernel(name(), waits_, p, xy_setter<PoolParams>(), launch_pool_general);
    }
    Prepared_ operator()(const GlobalPool& detail) const {
        GlobalPoolParams p{};
        p.x = desc(op_.inputs[0]);
        p.y = desc(op_.outputs[0]);
        p.average = detail.average ? 1 : 0;
        p.rescale = detail.rescale;
        return make_kernel(name(), waits_, p, xy_setter<GlobalPoolParams>(), launch_global_pool_general);
    }
    Prepared_ operator()(const Softmax&) const {
        return make_kernel(name(), waits_, softmax_params(op_, plan_), softmax_setter(op_, plan_),
                           launch_softmax_general);
    }
    Prepared_ operator()(const LayerNorm& detail) const {
        return make_kernel(name(), waits_, layer_norm_params(op_, plan_), layer_norm_setter(op_, plan_),
                           detail.centred ? launch_layer_norm_general : launch_rms_norm_general);
    }
    Prepared_ operator()(const GroupFactors& detail) const {
        GroupFactorsParams p{};
        p.x = desc(op_.inputs[0]);
        p.channel_stride = value(op_.outputs[0]).channel_stride;
        p.groups = detail.groups;
        p.epsilon = detail.epsilon;
        return make_kernel(
            name(), waits_, p,
            [x = place(op_.inputs[0]), factor = place(op_.outputs[0]),
             shift = place(op_.outputs[1])](GroupFactorsParams& q, const Pointers& pointers) {
                q.x.data = x.in(pointers);
                q.factor = static_cast<float*>(factor.in(pointers));
                q.shift = static_cast<float*>(shift.in(pointers));
            },
            launch_group_factors_general);
    }
    Prepared_ operator()(const Rotary& detail) const {
        const RotaryTable table(value(op_.inputs[1]).dims);
        const Shape& dims = value(op_.outputs[0]).dims;
        RotaryParams p{};
        p.x_type = desc(op_.inputs[0]).type;
        p.table_type = desc(op_.inputs[1]).type;
        p.y_type = desc(op_.outputs[0]).type;
        p.interleaved = detail.interleaved ? 1 : 0;
        p.offset = detail.x.offset, p.batch = detail.x.batch, p.head = detail.x.head, p.row = detail.x.row;
        p.table_batch = table.strides[0], p.table_head = table.strides[1], p.table_row = table.strides[2];
        p.width = table.width;
        p.batches = dims[0], p.heads = dims[1], p.rows = dims[2], p.depth = dims[3];
        p.turned = detail.turned_of(dims[3]);
        return make_kernel(
            name(), waits_, p,
            [x = place(op_.inputs[0]), cosines = place(op_.inputs[1]), sines = place(op_.inputs[2]),
             y = place(op_.outputs[0])](RotaryParams& q, const Pointers& pointers) {
                q.x = x.in(pointers);
                q.cosines = cosines.in(pointers);
                q.sines = sines.in(pointers);
                q.y = y.in(pointers);
            },
            launch_rotary_general);
    }
    Prepared_ operator()(const Recurrent&) const {
        const RecurrentParams params = recurrent_params(op_, plan_);
        if (!recurrent_takes(params)) return cannot(op_, "a recurrent state that is too wide");
        return make_kernel(name(), waits_, params, recurrent_setter(op_, plan_), launch_recurrent);
    }
    Prepared_ operator()(const Reduce& detail) const {
        ReduceParams p{};
        p.x = desc(op_.inputs[0]);
        p.y = desc(op_.outputs[0]);
        if (plan_.values[op_.inputs[0]].layout != Layout::linear) return cannot(op_, "a reduction over an image");
        p.x.rank = 3;
        p.x.dims[0] = detail.outer;
        p.x.dims[1] = detail.reduced;
        p.x.dims[2] = detail.inner;
        p.kind = static_cast<std::int32_t>(detail.kind);
        return make_kernel(name(), waits_, p, xy_setter<ReduceParams>(), launch_reduce_general);
    }
    Prepared_ operator()(const Gather&) const {
        LATHE_TRY(const GatherParams params, gather_params(op_, plan_));
        return make_kernel(name(), waits_, params, gather_setter(op_, plan_), launch_gather_general);
    }
    Prepared_ operator()(const Concat& detail) const {
        const ValueId result = detail.joined != none ? detail.joined : op_.outputs[0];
        const TensorDesc y = desc(result);
        const std::int64_t bytes = size(result);
        std::vector<Part> parts;
        std::int64_t at = 0;
        // a rank-3 image has a height of 1 put in front of its last dimension
        const bool flat = value(op_.outputs[0]).layout == Layout::nhwc && value(op_.outputs[0]).dims.size() == 3;
        std::int64_t axis_number =
            detail.axis < 0 ? detail.axis + static_cast<std::int64_t>(value(op_.outputs[0]).dims.size()) : detail.axis;
        if (flat && axis_number == 2) axis_number = 3;
        const auto axis = static_cast<std::size_t>(axis_number);
        const std::size_t count = op_.inputs.size() - detail.operands;
        for (std::size_t i = 0; i < count; ++i) {
            Part part;
            part.params.x = desc(op_.inputs[i]);
            part.params.y = y;
            part.params.y.channel_stride = 0;
            for (int d = 0; d < y.rank; ++d)
                part.params.y.dims[d] = part.params.x.dims[d];
            part.params.nhwc_order = value(op_.outputs[0]).layout == Layout::nhwc ? 1 : 0;
            if (detail.interleaved) {
                // its share of the padding too
                const auto parts_count = static_cast<std::int64_t>(count);
                part.params.y.strides[axis] = y.strides[axis] * parts_count;
                part.params.y.channel_stride = (y.channel_stride - at + parts_count - 1) / parts_count;
                if (axis != 1 || y.channel_stride == 0) part.params.y.channel_stride = y.channel_stride;
            } else if (axis != 1)
                part.params.y.channel_stride = y.channel_stride;
            else if (i + 1 == count && y.channel_stride != 0)
                part.params.y.channel_stride = y.channel_stride - at;
            part.x = place(op_.inputs[i]);
            part.y = place(result);
            part.y.offset = at * y.strides[axis] * bytes;
            at += detail.interleaved ? 1 : part.params.x.dims[axis];
            if (element_count(value(op_.inputs[i]).dims) > 0) parts.push_back(part);
        }
        LATHE_TRY(auto joined, copies(std::move(parts)));
        if (detail.program.code.empty()) return joined;
        // The program in place, or out of the workspace.
        FusedOp point = op_;
        point.detail = detail.program;
        point.inputs.assign(op_.inputs.end() - static_cast<std::ptrdiff_t>(detail.operands), op_.inputs.end());
        point.inputs.insert(point.inputs.begin(), result);
        LATHE_TRY(auto made, Reference(point, plan_, waits_)(detail.program));
        std::vector<std::unique_ptr<PreparedKernel>> kernels;
        kernels.push_back(std::move(joined));
        kernels.push_back(std::move(made));
        std::vector<Placeless> placeless;
        if (detail.joined != none) placeless.push_back({result, value(result).byte_size()});
        return make_sequence(std::move(kernels), std::move(placeless));
    }
    Prepared_ operator()(const Slice& detail) const {
        Part part = whole();
        const TensorDesc x = part.params.x;
        const bool flat = value(op_.inputs[0]).layout == Layout::nhwc && value(op_.inputs[0]).dims.size() == 3;
        for (std::size_t i = 0; i < detail.starts.size(); ++i) {
            const std::size_t d = flat && i == 2 ? 3 : i;
            const std::int64_t step = i < detail.steps.size() ? detail.steps[i] : 1;
            part.x.offset += detail.starts[i] * x.strides[d] * size(op_.inputs[0]);
            part.params.x.strides[d] = x.strides[d] * step;
        }
        return copies({part});
    }
    Prepared_ operator()(const Transpose& detail) const {
        Part part = whole();
        const TensorDesc x = part.params.x;
        if (static_cast<std::size_t>(x.rank) != detail.order.size() || x.rank != part.params.y.rank)
            return cannot(op_, "a transposition of an image of rank 3");
        for (std::size_t d = 0; d < detail.order.size(); ++d)
            part.params.x.strides[d] = x.strides[static_cast<std::size_t>(detail.order[d])];
        return copies({part});
    }
    Prepared_ operator()(const Reformat&) const {
        Part part = whole();
        const Value& x = value(op_.inputs[0]);
        const Value& y = value(op_.outputs[0]);
        if (x.dims != y.dims) return cannot(op_, "a change of layout between unlike dims");
        if (x.dims.size() == 3 && x.layout != y.layout) { // one side has rank 4: give the other its height of 1
            TensorDesc& linear = x.layout == Layout::nhwc ? part.params.y : part.params.x;
            linear.rank = 4;
            linear.dims[3] = linear.dims[2];
            linear.strides[3] = 1;
            linear.dims[2] = 1;
            linear.strides[2] = linear.dims[3];
        }
        return copies({part});
    }
    Prepared_ operator()(const Resize& detail) const {
        ResizeParams p{};
        p.x = desc(op_.inputs[0]);
        p.y = desc(op_.outputs[0]);
        if (p.x.rank < 3) return cannot(op_, "a resize of rank below 3");
        p.mode = static_cast<std::int32_t>(detail.mode);
        const std::string& c = detail.coordinates;
        if (c.empty() || c == "half_pixel")
            p.coordinates = 0;
        else if (c == "asymmetric")
            p.coordinates = 1;
        else if (c == "align_corners")
            p.coordinates = 2;
        else if (c == "pytorch_half_pixel")
            p.coordinates = 3;
        else
            return cannot(op_, "coordinate_transformation_mode " + c);
        const std::string& n = detail.nearest;
        if (n.empty() || n == "round_prefer_floor")
            p.nearest = 0;
        else if (n == "round_prefer_ceil")
            p.nearest = 1;
        else if (n == "floor")
            p.nearest = 2;
        else if (n == "ceil")
            p.nearest = 3;
        else
            return cannot(op_, "nearest_mode " + n);
        p.cubic_a = detail.cubic_a;
        const std::size_t rank = value(op_.inputs[0]).dims.size();
        const bool flat = value(op_.inputs[0]).layout == Layout::nhwc && rank == 3;
        for (int d = 0; d < p.x.rank; ++d) {
            p.scales[d] = static_cast<float>(p.y.dims[d]) / static_cast<float>(p.x.dims[d]);
            if (d < p.x.rank - 2 && p.x.dims[d] != p.y.dims[d])
                return cannot(op_, "a resize of more than the last two dimensions");
        }
        if (!flat && detail.scales.size() == rank)
            for (std::size_t d = 0; d < rank; ++d)
                if (detail.scales[d] > 0) p.scales[d] = detail.scales[d];
        return make_kernel(name(), waits_, p, xy_setter<ResizeParams>(), launch_resize_general);
    }
    Prepared_ operator()(const Pointwise&) const {
        LATHE_TRY(const PointwiseParams params, pointwise_params(op_, plan_));
        return make_kernel(name(), waits_, params, pointwise_setter(op_, plan_), launch_pointwise_general);
    }

    Prepared_ operator()(const Indexed&) const {
        return make_kernel(name(), waits_, indexed_params(op_, plan_), indexed_setter(op_, plan_), launch_indexed);
    }

    Prepared_ operator()(const Chain& chain) const {
        std::vector<std::unique_ptr<PreparedKernel>> kernels;
        for (const FusedOp& part : chain.parts) {
            LATHE_TRY(auto kernel, std::visit(Reference(part, plan_, waits_), part.detail));
            kernels.push_back(std::move(kernel));
        }
        std::vector<Placeless> placeless;
        for (std::size_t i = 0; i < chain.placeless(); ++i) {
            const ValueId inside = chain.parts[i].outputs[0];
            placeless.push_back({inside, value(inside).byte_size()});
        }
        return make_sequence(std::move(kernels), std::move(placeless));
    }

private:
    struct Part {
        CopyParams params{};
        Place x, y;
    };

    std::string name() const { return std::string("reference ") + kind_of(op_) + " " + op_.name; }
    const Value& value(ValueId id) const { return plan_.values[id]; }
    TensorDesc desc(ValueId id) const { return desc_of(value(id)); }
    Place place(ValueId id) const { return place_of(plan_, id); }
    std::int64_t size(ValueId id) const { return static_cast<std::int64_t>(bytes_of(value(id).type)); }

    static std::int64_t broadcast_stride(const TensorDesc& t, int d) {
        return d < 0 || t.dims[d] == 1 ? 0 : t.strides[d];
    }

    Result<void> check_product(std::int32_t x, std::int32_t w) const {
        const bool same = x == w && x <= type_s8;
        if (same || (x == type_f32 && (w == type_f16 || w == type_bf16))) return {};
        return cannot(op_, "an input and a weight of types that are not multiplied");
    }

    Prepared_ convolution(const Window& window, WeightId weight, const Epilogue& epilogue, const Conv* conv,
                          const Depths& depths = {}) const {
        ConvGeneralParams p{};
        p.x = desc(op_.inputs[0]);
        p.y = desc(op_.outputs[0]);
        if (p.x.rank == 3) return cannot(op_, "a one-dimensional convolution of a linear input");
        if (epilogue.residual != none) p.residual = desc(epilogue.residual);
        const Weight& w = weight_of(plan_, weight);
        p.weight_type = type_number(w.type);
        LATHE_CHECK(check_product(p.x.type, p.weight_type));
        p.weight_c = narrow(w.dims.back());
        p.groups = conv != nullptr ? narrow(conv->groups) : 1;
        p.depthwise = conv == nullptr ? 1 : 0;
        p.window = window_params(window);
        p.depths = depth_params(depths);
        p.pad_value = value(op_.inputs[0]).zero_point;
        p.conv_h = narrow(p.y.dims[2]);
        p.conv_w = narrow(p.y.dims[3]);
        if (conv != nullptr && conv->pooled) {
            p.pooled = 1;
            p.pool = window_params(conv->pool);
            const WindowParams& v = p.window;
            p.conv_h = narrow((p.x.dims[2] + v.pad_h + v.pad_bottom - v.dil_h * (v.kernel_h - 1) - 1) / v.stride_h + 1);
            p.conv_w = narrow((p.x.dims[3] + v.pad_w + v.pad_right - v.dil_w * (v.kernel_w - 1) - 1) / v.stride_w + 1);
        }
        p.epilogue = epilogue_params(epilogue, plan_);
        return make_kernel(
            name(), waits_, p,
            [x = place(op_.inputs[0]), y = place(op_.outputs[0]), residual = residual_place(epilogue, plan_), epilogue,
             weight](ConvGeneralParams& q, const Pointers& pointers) {
                q.x.data = x.in(pointers);
                q.y.data = y.in(pointers);
                q.weight = weight_address(pointers, weight);
                bind_epilogue(q.epilogue, epilogue, residual, pointers);
            },
            launch_conv_general);
    }

    template <class Params>
    std::function<void(Params&, const Pointers&)> xy_setter() const {
        return [x = place(op_.inputs[0]), y = place(op_.outputs[0])](Params& p, const Pointers& pointers) {
            p.x.data = x.in(pointers);
            p.y.data = y.in(pointers);
        };
    }

    /// Input 0 to output 0, dims as the output's.
    Part whole() const {
        Part part;
        part.params.x = desc(op_.inputs[0]);
        part.params.y = desc(op_.outputs[0]);
        part.params.nhwc_order = value(op_.outputs[0]).layout == Layout::nhwc ? 1 : 0;
        part.x = place(op_.inputs[0]);
        part.y = place(op_.outputs[0]);
        return part;
    }

    Prepared_ copies(std::vector<Part> parts) const {
        return make_kernel(name(), 0, waits_, [parts = std::move(parts)](const Pointers& pointers) -> Result<Launch> {
            std::vector<CopyParams> bound;
            for (const Part& part : parts) {
                bound.push_back(part.params);
                bound.back().x.data = part.x.in(pointers);
                bound.back().y.data = part.y.in(pointers);
            }
            return Launch([bound](cudaStream_t stream, bool programmatic) {
                for (const CopyParams& p : bound)
                    if (const cudaError_t code = launch_copy_general(p, stream, programmatic); code != cudaSuccess)
                        return code;
                return cudaSuccess;
            });
        });
    }

    const FusedOp& op_;
    const Plan& plan_;
    bool waits_;
};

class ReferenceProvider final : public Provider {
public:
    std::string name() const override { return "reference"; }
    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort,
                                        std::string& why) const override {
        const auto prepared = std::visit(Reference(op, plan, device), op.detail);
        if (prepared) return {"general"};
        why = prepared.error().message;
        return {};
    }
    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        if (id != "general") return no_such_tactic(name(), id, op);
        return std::visit(Reference(op, plan, device), op.detail);
    }
};

} // namespace

std::unique_ptr<Provider> make_reference_provider() { return std::make_unique<ReferenceProvider>(); }

} // namespace lathe::cuda
