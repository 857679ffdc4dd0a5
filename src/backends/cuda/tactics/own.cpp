// Provider "lathe": the kernels in kernels/*.cu. Every option is a closure that prepares it; a candidate's id is its
// kernel's name and variant, "mma_s8_m64n64_s4/4" (4: CTAs that share the reduction).
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/small_gemm.hpp"
#include "backends/cuda/plan/parts.hpp"
#include "backends/cuda/tactics/own_options.hpp"
#include "backends/cuda/tactics/params.hpp"
#include "backends/cuda/tactics/shared_memory.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

class Own {
public:
    Own(const FusedOp& op, const Plan& plan, const Device& device)
        : op_(op), plan_(plan), device_(device), waits_(waits_on(device)) {}

    std::vector<Option> options() {
        if (touches_parts(op_, plan_) && !std::holds_alternative<Conv>(op_.detail) &&
            !std::holds_alternative<Depthwise>(op_.detail))
            refuse("parts of images");
        else
            std::visit(*this, op_.detail);
        std::ranges::stable_sort(options_, {}, &Option::cost);
        return std::move(options_);
    }
    const std::string& why() const { return why_; }

    void operator()(const Conv& conv) {
        if (conv.reads_nchw) return refuse(stem_options(op_, conv, plan_, device_, options_));
        implicit();
        // Tiles of the implicit GEMM are 32 results wide or more and take 64 bytes of a tap at once: most of them idle
        // where an image is made of few channels, or of many by a wide window over few.
        const Value &x = value(op_.inputs[0]), &y = value(op_.outputs[0]);
        const std::int64_t taps = conv.window.kernel[0] * conv.window.kernel[1];
        const bool few = image_dims(y)[1] <= 16 ||
                         (taps > 1 && x.stored_channels() * static_cast<std::int64_t>(bytes_of(x.type)) <= 32);
        if (options_.empty() || conv.groups > 1 || few) {
            std::string why = grouped_options(op_, conv, plan_, device_, options_);
            if (!why.empty() && options_.empty()) refuse(std::move(why));
        }
    }
    void operator()(const Gemm&) {
        const auto params = gemm_params(op_, plan_);
        if (!params) return refuse(params.error().message);
        if (small_gemm_takes(*params)) add("small_gemm", -1, *params, gemm_setter(op_, plan_), launch_small_gemm);
        if (narrow_gemm_takes(*params)) add("narrow_gemm", -1, *params, gemm_setter(op_, plan_), launch_narrow_gemm);
        for (const int split : {8, 4, 2}) {
            if (!split_gemm_takes(*params, split)) continue;
            options_.push_back(make_option(op_, waits_, "small_gemm/" + std::to_string(split), -1, *params,
                                           gemm_setter(op_, plan_),
                                           [split](const GemmParams& p, cudaStream_t stream, bool programmatic) {
                                               return launch_split_gemm(split, p, stream, programmatic);
                                           }));
        }
        implicit();
    }
    void operator()(const Depthwise& detail) { refuse(depthwise_options(op_, detail, plan_, device_, options_)); }
    void operator()(const BatchedGemm&) { refuse("no own kernel for batched gemm yet"); }
    void operator()(const Attention&) {
        const auto params = attention_params(op_, plan_);
        if (!params) return refuse(params.error().message);
        if (attention_fma_takes(*params)) return attention_fma(*params);
        if (attention_takes(*params) &&
            attention_shared_bytes(params->kv_len, params->depth) <= device_.shared_per_block)
            add("attention", 0, *params, attention_setter(op_, plan_), launch_attention);
        if (attention_short_takes(*params))
            add("attention_short", 0.5, *params, attention_setter(op_, plan_), launch_attention_short);
        attention_flash(*params);
        attention_decode(*params);
        if (options_.empty()) refuse("attention of a depth, length or type without a kernel");
    }
    void operator()(const Pool& detail) {
        const Value &x = value(op_.inputs[0]), &y = value(op_.outputs[0]);
        if (x.type != y.type || x.channel_stride != y.channel_stride) return refuse("types or strides that differ");
        if (type_number(x.type) > type_s8) return refuse("a pool of integers");
        const Shape xd = image_dims(x), yd = image_dims(y);
        PoolFastParams p{};
        p.type = type_number(x.type);
        p.n = narrow(xd[0]);
        p.c = narrow(xd[1]);
        p.h = narrow(xd[2]);
        p.w = narrow(xd[3]);
        p.c_stride = narrow(x.channel_stride);
        p.p = narrow(yd[2]);
        p.q = narrow(yd[3]);
        p.window = window_params(detail.window);
        p.average = detail.average ? 1 : 0;
        p.count_pad = detail.count_pad ? 1 : 0;
        p.rescale = detail.rescale;
        const int vec = 16 / static_cast<int>(bytes_of(x.type));
        if (p.c_stride % vec != 0 || !fits_32(element_count(yd)) || !fits_32(xd[0] * xd[2] * xd[3]))
            return refuse("a pool of strides that are not 16 bytes");
        add("pool", 0, p, xy_setter<PoolFastParams>(), launch_pool);
    }
    void operator()(const GlobalPool& detail) {
        const Value &x = value(op_.inputs[0]), &y = value(op_.outputs[0]);
        if (x.layout != Layout::nhwc || type_number(x.type) > type_s8) return refuse("a pool of integers");
        const Shape xd = image_dims(x);
        GlobalPoolFastParams p{};
        p.type = type_number(x.type);
        p.output_type = type_number(y.type);
        p.n = narrow(xd[0]);
        p.c = narrow(xd[1]);
        p.pixels = narrow(xd[2] * xd[3]);
        p.c_stride = narrow(x.channel_stride);
        p.output_stride = narrow(y.layout == Layout::nhwc ? y.channel_stride : xd[1]);
        p.average = detail.average ? 1 : 0;
        p.rescale = detail.rescale;
        const int vec = 16 / static_cast<int>(bytes_of(x.type));
        if (p.c_stride % vec != 0 || xd[0] > 65535) return refuse("a pool of strides that are not 16 bytes");
        add("global_pool", 0, p, xy_setter<GlobalPoolFastParams>(), launch_global_pool);
    }
    void operator()(const Softmax&) {
        const SoftmaxParams p = softmax_params(op_, plan_);
        if (!softmax_takes(p)) return refuse("softmax over more than 1024 columns");
        add("softmax", 0, p, softmax_setter(op_, plan_), launch_softmax);
    }
    void operator()(const LayerNorm& detail) {
        if (!detail.centred) return refuse("a kernel is generated for RMS normalisation");
        const LayerNormParams p = layer_norm_params(op_, plan_);
        if (!layer_norm_takes(p))
            return refuse("layer normalisation of columns that are not a multiple of 8 up to 8192");
        add("layer_norm", 0, p, layer_norm_setter(op_, plan_), launch_layer_norm);
    }
    void operator()(const Gather&) {
        const auto p = gather_params(op_, plan_);
        if (!p) return refuse(p.error().message);
        if (!gather_takes(*p)) return refuse("a gather along an inner axis or of rows not a multiple of 8");
        add("gather", 0, *p, gather_setter(op_, plan_), launch_gather);
    }
    void operator()(const Reformat&) {
        const Value &x = value(op_.inputs[0]), &y = value(op_.outputs[0]);
        const TensorDesc xd = desc_of(x), yd = desc_of(y);
        if (xd.type > type_s8 || yd.type > type_s8 || x.dims != y.dims) return refuse("a change of integers");
        const float factor = xd.scale / yd.scale;
        const Shape d = x.layout == Layout::nhwc ? image_dims(x) : image_dims(y);
        const std::int64_t pixels =
            d.size() < 3 ? 0 : element_count(Shape(d.begin() + 2, d.end())); // of an image or a volume
        const bool both_orders = pixels == 1;
        const auto dense = [&](const Value& v) { return v.layout == Layout::linear || v.channel_stride == v.dims[1]; };
        const bool same =
            (x.layout == y.layout && (x.layout == Layout::linear || x.channel_stride == y.channel_stride)) ||
            (both_orders && dense(x) && dense(y));
        if (same) {
            ConvertParams p{};
            p.x_type = xd.type;
            p.y_type = yd.type;
            p.factor = factor;
            p.lowest = yd.type == type_f16 ? -65504.0F : -std::numeric_limits<float>::infinity();
            p.count = static_cast<std::int64_t>(x.byte_size() / bytes_of(x.type));
            return add(
                "convert", 0, p,
                [x_at = place(op_.inputs[0]), y_at = place(op_.outputs[0])](ConvertParams& q,
                                                                            const Pointers& pointers) {
                    q.x = x_at.in(pointers);
                    q.y = y_at.in(pointers);
                },
                launch_convert);
        }
        if (x.layout == y.layout) return refuse("a change of padding alone");
        TransposeParams p{};
        p.x_type = xd.type;
        p.y_type = yd.type;
        p.factor = factor;
        p.batch = d[0];
        if (x.layout == Layout::linear) {
            p.rows = d[1];
            p.columns = pixels;
            p.x_row = pixels;
            p.x_batch = d[1] * pixels;
            p.y_row = p.y_columns = y.channel_stride;
            p.y_batch = pixels * y.channel_stride;
        } else {
            p.rows = pixels;
            p.columns = d[1];
            p.x_row = x.channel_stride;
            p.x_batch = pixels * x.channel_stride;
            p.y_row = p.y_columns = pixels;
            p.y_batch = d[1] * pixels;
        }
        add_transpose(p);
    }
    void operator()(const Transpose& detail) {
        const Value &x = value(op_.inputs[0]), &y = value(op_.outputs[0]);
        if (x.layout != Layout::linear || y.layout != Layout::linear) return refuse("a transposition of an image");
        if (type_number(x.type) > type_s8 || type_number(y.type) > type_s8)
            return refuse("a transposition of integers");
        const std::size_t rank = detail.order.size();
        for (std::size_t d = 0; d + 2 < rank; ++d)
            if (detail.order[d] != static_cast<std::int64_t>(d))
                return refuse("a transposition of other than the last two");
        if (rank < 2 || detail.order[rank - 1] != static_cast<std::int64_t>(rank) - 2)
            return refuse("a transposition of other than the last two");
        TransposeParams p{};
        p.x_type = type_number(x.type);
        p.y_type = type_number(y.type);
        p.factor = desc_of(x).scale / desc_of(y).scale;
        p.rows = x.dims[rank - 2];
        p.columns = x.dims[rank - 1];
        p.batch = element_count(x.dims) / std::max<std::int64_t>(1, p.rows * p.columns);
        p.x_row = p.columns;
        p.y_row = p.y_columns = p.rows;
        p.x_batch = p.y_batch = p.rows * p.columns;
        add_transpose(p);
    }
    void operator()(const Pointwise& detail) {
        if (!detail.views.empty()) return refuse("operands that are parts of values"); // loads may not be aligned
        auto made = pointwise_params(op_, plan_);
        if (!made) return refuse(made.error().message);
        PointwiseParams& p = *made;
        const TensorDesc& out = p.outputs[0];
        for (int o = 0; o < p.output_count; ++o)
            if (p.outputs[o].type > type_s8 && p.outputs[o].type != type_boolean) return refuse("integer results");
        for (int i = 0; i < p.input_count; ++i)
            if (p.inputs[i].type > type_boolean) return refuse("inputs of other types than networks compute in");
        for (const ValueId id : op_.outputs) {
            const Value& v = value(id);
            if (v.layout == Layout::nhwc && v.channel_stride != v.dims[1]) return refuse("padded channels");
            if (v.layout != value(op_.outputs[0]).layout) return refuse("results of several layouts");
        }
        // dims in the order they lie in memory
        std::vector<int> order;
        for (int d = 0; d < out.rank; ++d)
            if (!(p.nhwc_order != 0 && d == 1)) order.push_back(d);
        if (p.nhwc_order != 0) order.push_back(1);
        for (int i = 0; i < p.input_count; ++i)
            if (!classify(p, i, order)) return refuse("an input broadcast in a way without a kernel");
        add("pointwise", 0, p, pointwise_setter(op_, plan_), launch_pointwise);
    }
    void operator()(const Reduce&) { refuse("the general kernel does reductions"); }
    void operator()(const Concat&) { refuse("the general kernel does concatenations"); }
    void operator()(const Slice&) { refuse("the general kernel does slices"); }
    void operator()(const Resize&) { refuse("the general kernel resizes"); }
    void operator()(const Indexed& detail) {
        if (detail.kind == IndexedKind::depth_taps) return refuse(depth_taps_options(op_, plan_, options_, waits_));
        refuse(indexed_options(op_, plan_, device_, options_));
    }
    void operator()(const GroupFactors&) { refuse("a kernel is generated for group normalisation"); }
    void operator()(const Rotary&) { refuse("a kernel is generated for rotary positions"); }
    void operator()(const Recurrent&) { refuse(recurrent_options(op_, plan_, device_, options_)); }
    void operator()(const Chain& chain) {
        if (!chain.squeeze) return refuse("chains of convolutions have kernels on Hopper alone");
        refuse(squeeze_options(op_, chain, plan_, device_, options_));
    }

private:
    const Value& value(ValueId id) const { return plan_.values[id]; }
    Place place(ValueId id) const { return place_of(plan_, id); }
    void refuse(std::string why) {
        if (why_.empty()) why_ = std::move(why);
    }

    template <class Params, class Set>
    void add(std::string id, double cost, const Params& params, Set set,
             cudaError_t (*launch)(const Params&, cudaStream_t, bool)) {
        options_.push_back(make_option(op_, waits_, std::move(id), cost, params, set, launch));
    }
    template <class Params>
    std::function<void(Params&, const Pointers&)> xy_setter() const {
        return [x = place(op_.inputs[0]), y = place(op_.outputs[0])](Params& p, const Pointers& pointers) {
            p.input = x.in(pointers);
            p.output = y.in(pointers);
        };
    }

    void attention_flash(const AttentionParams& p) {
        if (!attention_flash_takes(p)) return;
        for (const FlashTile tile : {FlashTile{4}, FlashTile{2}, FlashTile{1}, FlashTile{4, true}}) {
            if (attention_flash_shared_bytes(p, tile) > device_.shared_per_block) continue;
            // Blocks side by side, and that each reads all keys.
            const double blocks =
                std::ceil(static_cast<double>(p.q_len) / tile.rows()) * static_cast<double>(p.heads * p.batch);
            const double waves = std::ceil(blocks / (device_.multiprocessors * 8.0 / tile.warps));
            options_.push_back(
                make_option(op_, waits_, "attention_flash/" + std::to_string(tile.warps) + (tile.split ? "split" : ""),
                            tile.split ? 0.5 + waves : 1 + waves, p, attention_setter(op_, plan_),
                            [tile](const AttentionParams& q, cudaStream_t stream, bool programmatic) {
                                return launch_attention_flash(q, tile, stream, programmatic);
                            }));
        }
    }
    /// One part, and as many as keep all multiprocessors busy once, twice or four times.
    void attention_decode(const AttentionParams& p) {
        if (!attention_decode_takes(p)) return;
        const std::int64_t heads = p.batch * p.kv_heads, most = std::max<std::int64_t>(1, p.kv_len / 32);
        std::vector<int> splits;
        for (const std::int64_t blocks :
             {heads, std::int64_t{device_.multiprocessors}, std::int64_t{2} * device_.multiprocessors,
              std::int64_t{4} * device_.multiprocessors}) {
            const int split = narrow(std::clamp<std::int64_t>((blocks + heads - 1) / heads, 1, most));
            if (std::ranges::find(splits, split) == splits.end()) splits.push_back(split);
        }
        for (const int split : splits) {
            const std::string id = "attention_decode/" + std::to_string(split);
            options_.push_back(
                {id, -static_cast<double>(split),
                 [=, set = attention_setter(op_, plan_), waits = waits_, name = "lathe " + id + " for " + op_.name] {
                     return make_kernel(name, attention_decode_workspace(p, split), waits,
                                        [=](const Pointers& pointers) -> Result<Launch> {
                                            AttentionParams bound = p;
                                            set(bound, pointers);
                                            return Launch([bound, split, workspace = pointers.workspace](
                                                              cudaStream_t stream, bool programmatic) {
                                                return launch_attention_decode(bound, split, workspace, stream,
                                                                               programmatic);
                                            });
                                        });
                 }});
        }
    }
    void attention_fma(const AttentionParams& p) {
        for (const int rows : {64, 32, 16}) {
            if (attention_fma_shared_bytes(p.depth, rows) > device_.shared_per_block) continue;
            const auto blocks = static_cast<double>(p.batch * p.heads * ((p.q_len + rows - 1) / rows));
            const double waves = std::ceil(blocks / (3.0 * std::max(1, device_.multiprocessors)));
            options_.push_back(make_option(op_, waits_, "attention_fma/" + std::to_string(rows), waves * (rows + 24), p,
                                           attention_setter(op_, plan_),
                                           [rows](const AttentionParams& q, cudaStream_t stream, bool programmatic) {
                                               return launch_attention_fma(rows, q, stream, programmatic);
                                           }));
        }
        if (options_.empty()) refuse("attention in f32 whose tiles exceed a block's shared memory");
    }

    void add_transpose(const TransposeParams& p) {
        if (std::max(p.rows, p.y_columns) > 65535 * 64 || !fits_32(p.columns)) return refuse("too many rows");
        add(
            "transpose", 0, p,
            [x = place(op_.inputs[0]), y = place(op_.outputs[0])](TransposeParams& q, const Pointers& pointers) {
                q.x = x.in(pointers);
                q.y = y.in(pointers);
            },
            launch_transpose);
    }

    /// How an input is read for neighbouring elements of the output; see PointwiseParams::access.
    static bool classify(PointwiseParams& p, int input, const std::vector<int>& order) {
        const TensorDesc &x = p.inputs[input], &out = p.outputs[0];
        // runs of kept and broadcast dims, from the outermost; kept dims must be dense
        struct Run {
            bool kept;
            std::int64_t size;
        };
        std::vector<Run> runs;
        std::int64_t expected = 1;
        for (auto at = order.rbegin(); at != order.rend(); ++at) {
            const auto d = static_cast<std::size_t>(*at);
            const std::int64_t size = out.dims[d];
            if (size == 1) continue;
            const bool kept = x.strides[d] != 0;
            if (kept && x.strides[d] != expected) return false;
            if (kept) expected *= size;
            if (!runs.empty() && runs.back().kept == kept)
                runs.back().size *= size;
            else
                runs.push_back({kept, size});
        }
        std::ranges::reverse(runs);
        p.inner[input] = p.period[input] = 1;
        const auto kind = [&](std::initializer_list<bool> pattern) {
            return std::ranges::equal(runs, pattern, {}, &Run::kept);
        };
        if (kind({}) || kind({false}))
            p.access[input] = 1;
        else if (kind({true}))
            p.access[input] = 0;
        else if (kind({true, false}) || kind({false, true, false}) || kind({false, true})) {
            p.access[input] = 2;
            if (!runs.back().kept) p.inner[input] = runs.back().size;
            p.period[input] = expected;
        } else if (kind({true, false, true})) {
            p.access[input] = 3;
            p.period[input] = runs[2].size;
            p.inner[input] = runs[1].size * runs[2].size;
        } else {
            return false;
        }
        return true;
    }

    /// The general implicit gemm, every tile and split that makes sense.
    void implicit() {
        const auto made = implicit_gemm_of_groups(op_, plan_);
        if (!made) return refuse(made.error().message);
        const ImplicitGemm& gemm = *made;
        const ImplicitGemmParams& q = gemm.params;
        if (gemm.in != gemm.weight) return refuse("an input and weights of several types");
        if (gemm.in == ElementType::f32 && gemm.out != ElementType::f32) return refuse("f32 products go to f32 alone");
        if (gemm.in == ElementType::bf16 && gemm.out != ElementType::bf16 && gemm.out != ElementType::f32)
            return refuse("bf16 products go to bf16 or f32");
        if ((gemm.in == ElementType::s8 || gemm.in == ElementType::f16) && gemm.out != ElementType::s8 &&
            gemm.out != ElementType::f16 && gemm.out != ElementType::f32)
            return refuse("a result type without a kernel");
        if (gemm.epilogue.residual != none && gemm.out == ElementType::s8 &&
            value(gemm.epilogue.residual).type != ElementType::s8)
            return refuse("a wide residual of an int8 result");
        const auto size = static_cast<std::int64_t>(bytes_of(gemm.in));
        if (q.c * size % 16 != 0 || q.c_pitch * size % 16 != 0) return refuse("channels that are not 16 bytes");
        const std::int64_t k_bytes = std::int64_t{q.r} * q.s * q.c * size;
        if (!fits_32(gemm.rows() * 2) || k_bytes > 0x3fffffff) return refuse("too many pixels");
        if (q.groups <= 1)
            pointwise_mma_options(op_, gemm, device_, options_);
        else if (q.k < 16 || q.c * size < 32)
            return refuse("narrow groups");
        for (MmaTile tile : mma_tiles_for(gemm, op_.tf32, device_)) {
            if (q.groups > 1) tile.cost /= 1755; // beside kernels of groups, whose costs are microseconds
            const std::string name = "lathe " + tile.id + " for " + op_.name;
            options_.push_back(
                {tile.id, tile.cost, [gemm, at = tile.tile, split = tile.split, name, waits = waits_] {
                     return make_kernel(name, 0, waits, [gemm, at, split](const Pointers& pointers) -> Result<Launch> {
                         return Launch([params = gemm.bound(pointers), at, split,
                                        out = type_number(gemm.out)](cudaStream_t stream, bool programmatic) {
                             return launch_implicit_gemm_mma(at, split, params, out, stream, programmatic);
                         });
                     });
                 }});
        }
    }

    const FusedOp& op_;
    const Plan& plan_;
    const Device& device_;
    bool waits_;
    std::vector<Option> options_;
    std::string why_;
};

class OwnProvider final : public Provider {
public:
    std::string name() const override { return "lathe"; }
    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        Own own(op, plan, device);
        const std::vector<Option> options = own.options();
        if (options.empty()) why = own.why();
        // nobody else has kernels for depthwise convolutions and first ones, hardly anyone for those in groups
        const auto* conv = std::get_if<Conv>(&op.detail);
        const bool alone = std::holds_alternative<Depthwise>(op.detail) ||
                           (conv != nullptr && (conv->reads_nchw || conv->groups != 1));
        const std::size_t standard = alone ? 10 : 6;
        const std::size_t limit = effort == Effort::fast ? 2 : effort == Effort::standard ? standard : 64;
        std::vector<std::string> ids;
        for (const Option& option : options)
            if (ids.size() < limit) ids.push_back(option.id);
        return ids;
    }
    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        for (const Option& option : Own(op, plan, device).options())
            if (option.id == id) return option.make();
        return no_such_tactic(name(), id, op);
    }
};

} // namespace

std::unique_ptr<Provider> make_own_provider() { return std::make_unique<OwnProvider>(); }

} // namespace lathe::cuda
