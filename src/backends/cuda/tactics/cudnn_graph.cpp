// Provider "cudnn": convolutions with their epilogue and attention as graphs of cuDNN's. The one translation unit that
// sees the C++ frontend. A candidate's id is "PATH/NAME": which form of the graph, and cuDNN's name of the engine with
// its knobs (stable within a version of cuDNN, which is part of the timing cache's key).
#include <cudnn_frontend.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <sstream>

#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

namespace fe = cudnn_frontend;
using namespace kernels;

namespace {

enum Uid : std::int64_t { uid_x = 1, uid_w, uid_scale, uid_bias, uid_residual, uid_y, uid_q, uid_k, uid_v, uid_mask };

Error cudnn_error(fe::error_t error, const std::string& what) {
    return {ErrorCode::unsupported, "cuDNN refused " + what + ": " + error.get_message(), "", ""};
}

/// One handle a thread and device: handles may not be shared by threads at the same time.
Result<cudnnHandle_t> handle_of_thread() {
    struct Handles {
        std::map<int, cudnnHandle_t> by_device;
        ~Handles() {
            for (const auto& [device, handle] : by_device)
                cudnnDestroy(handle);
        }
    };
    thread_local Handles handles;
    int device = 0;
    LATHE_CUDA(cudaGetDevice(&device), "asking for the current device");
    if (const auto found = handles.by_device.find(device); found != handles.by_device.end()) return found->second;
    cudnnHandle_t handle = nullptr;
    if (const cudnnStatus_t status = cudnnCreate(&handle); status != CUDNN_STATUS_SUCCESS)
        return Error{ErrorCode::unsupported, std::string("cuDNN gave no handle: ") + cudnnGetErrorString(status), "",
                     "check that cuDNN fits the driver"};
    handles.by_device[device] = handle;
    return handle;
}

fe::DataType_t data_type(ElementType type) {
    switch (type) {
        case ElementType::f32: return fe::DataType_t::FLOAT;
        case ElementType::f16: return fe::DataType_t::HALF;
        case ElementType::bf16: return fe::DataType_t::BFLOAT16;
        case ElementType::s8: return fe::DataType_t::INT8;
        default: return fe::DataType_t::NOT_SET;
    }
}

/// A graph with its engine configurations; plans are built in it one by one, on demand.
struct Entry {
    std::mutex mutex;
    std::shared_ptr<fe::graph::Graph> graph;
    struct Engine {
        std::int64_t index;
        std::string name;
        bool compiles; ///< at run time
    };
    std::vector<Engine> engines;
    std::string why; ///< if there are none
};

/// fused: the whole epilogue in the graph. alone: the convolution alone, the epilogue by our kernel in place.
enum class CudnnForm { fused, alone, attention };
constexpr const char* cudnn_form_names[] = {"fused", "alone", "attention"};

std::shared_ptr<fe::graph::Tensor_attributes> channel_vector(fe::graph::Graph& graph, std::int64_t uid,
                                                             std::int64_t channels) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(uid)
                            .set_dim({1, channels, 1, 1})
                            .set_stride({channels, 1, channels, channels})
                            .set_data_type(fe::DataType_t::FLOAT));
}

fe::graph::Pointwise_attributes mode(fe::PointwiseMode_t which) {
    return fe::graph::Pointwise_attributes().set_mode(which).set_compute_data_type(fe::DataType_t::FLOAT);
}

class GraphBuilder {
public:
    GraphBuilder(const FusedOp& op, const Plan& plan, CudnnForm form) : op_(op), plan_(plan), form_(form) {}

    Result<std::shared_ptr<fe::graph::Graph>> build() const {
        return form_ == CudnnForm::attention ? attention() : convolution();
    }

private:
    using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
    const Value& value(ValueId id) const { return plan_.values[id]; }

    static fe::graph::Tensor_attributes image(std::int64_t uid, const Value& v, std::int64_t channels) {
        const Shape d = image_dims(v);
        fe::graph::Tensor_attributes t;
        t.set_uid(uid).set_data_type(data_type(v.type));
        if (v.layout == Layout::nhwc) {
            const std::int64_t c = v.channel_stride;
            t.set_dim({d[0], channels, d[2], d[3]}).set_stride({c * d[2] * d[3], 1, c * d[3], c});
        } else {
            t.set_dim({d[0], d[1], d[2], d[3]}).set_stride({d[1] * d[2] * d[3], d[2] * d[3], d[3], 1});
        }
        return t;
    }

    Result<std::shared_ptr<fe::graph::Graph>> convolution() const {
        const auto& conv = std::get<Conv>(op_.detail);
        const Epilogue& e = conv.epilogue;
        const Value& x = value(op_.inputs[0]);
        const Value& y = value(op_.outputs[0]);
        const Weight& w = weight_of(plan_, conv.weight);
        const std::int64_t k = y.dims[1], r = conv.window.kernel[0], s = conv.window.kernel[1], c = w.dims.back();
        if (x.type != w.type) return cannot(op_, "cuDNN takes an input and weights of one type");
        if (image_dims(x).size() != 4 || image_dims(y).size() != 4) return cannot(op_, "cuDNN: not an image");
        if (conv.pooled) return cannot(op_, "cuDNN does not pool behind a convolution");
        if (y.layout == Layout::nhwc && y.stored_channels() != k) return cannot(op_, "cuDNN leaves padding unwritten");
        const std::int64_t channels = c * conv.groups;
        if (x.layout == Layout::nhwc ? channels > x.channel_stride : channels != x.dims[1])
            return cannot(op_, "the weight's channels are not the input's");
        const bool s8 = x.type == ElementType::s8;
        if (form_ == CudnnForm::alone && (s8 || y.type != x.type)) return cannot(op_, "int8 needs its epilogue inside");
        if (form_ == CudnnForm::alone && (y.part || (e.residual != none && value(e.residual).part)))
            return cannot(op_, "the epilogue behind cuDNN's convolution takes no parts of images");

        auto graph = std::make_shared<fe::graph::Graph>();
        graph->set_io_data_type(data_type(x.type))
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(s8 ? fe::DataType_t::INT32 : fe::DataType_t::FLOAT);
        const Tensor input = graph->tensor(image(uid_x, x, channels));
        const Tensor filter = graph->tensor(fe::graph::Tensor_attributes()
                                                .set_uid(uid_w)
                                                .set_data_type(data_type(w.type))
                                                .set_dim({k, c, r, s})
                                                .set_stride({r * s * c, 1, s * c, c}));
        const auto& p = conv.window.pads;
        Tensor last = graph->conv_fprop(input, filter,
                                        fe::graph::Conv_fprop_attributes()
                                            .set_pre_padding({p[0], p[1]})
                                            .set_post_padding({p[2], p[3]})
                                            .set_stride({conv.window.stride[0], conv.window.stride[1]})
                                            .set_dilation({conv.window.dilation[0], conv.window.dilation[1]}));
        if (s8) last->set_data_type(fe::DataType_t::INT32);
        if (form_ == CudnnForm::fused) {
            LATHE_TRY(last, epilogue(*graph, last, e, k));
        }
        const Shape yd = image_dims(y);
        const std::int64_t cs = y.channel_stride;
        last->set_output(true)
            .set_uid(uid_y)
            .set_data_type(data_type(y.type))
            .set_dim({yd[0], k, yd[2], yd[3]})
            .set_stride({cs * yd[2] * yd[3], 1, cs * yd[3], cs});
        return graph;
    }

    Result<Tensor> epilogue(fe::graph::Graph& graph, Tensor last, const Epilogue& e, std::int64_t k) const {
        const auto scalar = [&](float v) { return graph.tensor(v, fe::graph::ScalarType::RUNTIME_PARAM); };
        if (e.scale != none)
            last = graph.pointwise(last, channel_vector(graph, uid_scale, k), mode(fe::PointwiseMode_t::MUL));
        if (e.bias != none)
            last = graph.pointwise(last, channel_vector(graph, uid_bias, k), mode(fe::PointwiseMode_t::ADD));
        const auto add_residual = [&] {
            Tensor residual = graph.tensor(image(uid_residual, value(e.residual), k));
            if (e.residual_scale != 1)
                residual = graph.pointwise(residual, scalar(e.residual_scale), mode(fe::PointwiseMode_t::MUL));
            last = graph.pointwise(last, residual, mode(fe::PointwiseMode_t::ADD));
        };
        if (e.residual != none && !e.residual_last) add_residual();
        switch (e.act) {
            case Activation::none: break;
            case Activation::relu: last = graph.pointwise(last, mode(fe::PointwiseMode_t::RELU_FWD)); break;
            case Activation::clip:
                last = graph.pointwise(
                    last, mode(fe::PointwiseMode_t::RELU_FWD).set_relu_lower_clip(e.low).set_relu_upper_clip(e.high));
                break;
            case Activation::leaky_relu:
                last = graph.pointwise(last, mode(fe::PointwiseMode_t::RELU_FWD).set_relu_lower_clip_slope(e.alpha));
                break;
            case Activation::gelu_erf: last = graph.pointwise(last, mode(fe::PointwiseMode_t::GELU_FWD)); break;
            case Activation::gelu_tanh:
                last = graph.pointwise(last, mode(fe::PointwiseMode_t::GELU_APPROX_TANH_FWD));
                break;
            case Activation::sigmoid: last = graph.pointwise(last, mode(fe::PointwiseMode_t::SIGMOID_FWD)); break;
            case Activation::silu: last = graph.pointwise(last, mode(fe::PointwiseMode_t::SWISH_FWD)); break;
            case Activation::tanh: last = graph.pointwise(last, mode(fe::PointwiseMode_t::TANH_FWD)); break;
            default: return cannot(op_, "cuDNN has no hard sigmoid");
        }
        if (e.residual != none && e.residual_last) add_residual();
        if (e.output_scale_inverse != 1)
            last = graph.pointwise(last, scalar(e.output_scale_inverse), mode(fe::PointwiseMode_t::MUL));
        return last;
    }

    Result<std::shared_ptr<fe::graph::Graph>> attention() const {
        const auto& a = std::get<Attention>(op_.detail);
        LATHE_TRY(const AttentionParams p, attention_params(op_, plan_));
        const Value& x = value(op_.inputs[0]);
        if (x.type != ElementType::f16 && x.type != ElementType::bf16) return cannot(op_, "cuDNN: f16 or bf16 alone");
        if (value(op_.outputs[0]).type != x.type) return cannot(op_, "cuDNN: a result of another type");
        const std::int64_t values = a.values_depth();
        if (a.depth % 8 != 0 || values % 8 != 0 || std::max(a.depth, values) > 256)
            return cannot(op_, "cuDNN: depth not a multiple of 8 up to 256");
        auto graph = std::make_shared<fe::graph::Graph>();
        graph->set_io_data_type(data_type(x.type))
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
        if (a.empty_is_zero || a.masks > 1) return cannot(op_, "cuDNN: rows without scores, or two masks");
        const auto tensor = [&](std::int64_t uid, std::int64_t length, const std::int64_t* strides) {
            return graph->tensor(
                fe::graph::Tensor_attributes()
                    .set_uid(uid)
                    .set_dim({a.batch, uid == uid_q ? a.heads : a.key_heads(), length, uid == uid_v ? values : a.depth})
                    .set_stride({strides[0], strides[2], strides[1], 1}));
        };
        const Tensor q = tensor(uid_q, a.q_len, p.q_strides), k = tensor(uid_k, a.kv_len, p.k_strides),
                     v = tensor(uid_v, a.kv_len, p.v_strides);
        auto attributes = fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(a.scale);
        if (a.causal && a.q_len == a.kv_len) attributes.set_causal_mask(true);
        if (a.causal && a.q_len != a.kv_len) attributes.set_causal_mask_bottom_right(true);
        if (a.masks == 1) {
            const Value& mask = value(op_.inputs.back());
            if (mask.type != x.type) return cannot(op_, "cuDNN: a mask of another type");
            if (p.mask.batches != 1 && p.mask.batches != a.batch) return cannot(op_, "cuDNN: masks that repeat");
            const std::int64_t heads = p.mask.head_stride != 0 ? a.heads : 1;
            const std::int64_t rows = p.mask.row_stride != 0 ? a.q_len : 1;
            attributes.set_bias(
                graph->tensor(fe::graph::Tensor_attributes()
                                  .set_uid(uid_mask)
                                  .set_dim({p.mask.batches, heads, rows, a.kv_len})
                                  .set_stride({heads * rows * a.kv_len, rows * a.kv_len, a.kv_len, 1})));
        }
        auto [output, statistics] = graph->sdpa(q, k, v, attributes);
        (void)statistics;
        output->set_output(true)
            .set_uid(uid_y)
            .set_dim({a.batch, a.heads, a.q_len, values})
            .set_stride({p.o_strides[0], p.o_strides[2], p.o_strides[1], 1});
        return graph;
    }

    const FusedOp& op_;
    const Plan& plan_;
    CudnnForm form_;
};

/// Validates, lowers to cuDNN's operation graph and lists its engines. `strict`: products of f32 exactly.
Result<void> list_engines(Entry& entry, bool strict) {
    LATHE_TRY(const cudnnHandle_t handle, handle_of_thread());
    fe::graph::Graph& graph = *entry.graph;
    if (const auto status = graph.validate(); status.is_bad()) return cudnn_error(status, "the graph");
    if (const auto status = graph.build_operation_graph(handle); status.is_bad())
        return cudnn_error(status, "the operation graph");
    if (const auto status =
            graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK});
        status.is_bad())
        return cudnn_error(status, "to name engines");
    if (strict)
        graph.deselect_numeric_notes({fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                      fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION});
    graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
    graph.deselect_behavior_notes(
        {fe::BehaviorNote_t::REQUIRES_FILTER_INT8x32_REORDER, fe::BehaviorNote_t::REQUIRES_BIAS_INT8x32_REORDER});
    if (const auto status = graph.check_support(); status.is_bad()) return cudnn_error(status, "every engine");
    std::vector<std::string> seen;
    for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
        std::string name;
        std::vector<fe::BehaviorNote_t> notes;
        if (graph.get_plan_name_at_index(i, name).is_bad()) continue;
        if (graph.get_behavior_notes_for_plan_at_index(i, notes).is_bad()) continue;
        if (std::ranges::find(seen, name) != seen.end()) continue;
        seen.push_back(name);
        entry.engines.push_back(
            {i, name, std::ranges::find(notes, fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end()});
    }
    return {};
}

class CudnnProvider final : public Provider {
public:
    std::string name() const override { return "cudnn"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        if (!cudnn_library().found) {
            why = cudnn_library().cause;
            return {};
        }
        std::vector<std::string> ids;
        for (const CudnnForm form : forms(op)) {
            const auto entry = entry_of(op, plan, device, form);
            if (entry->engines.empty()) {
                if (why.empty()) why = entry->why;
                continue;
            }
            // Engines compiled at run time cost up to a second each.
            const std::size_t ready = effort == Effort::fast ? 2 : effort == Effort::standard ? 6 : 24;
            const std::size_t compiled = effort == Effort::fast ? 1 : effort == Effort::standard ? 3 : 12;
            std::size_t taken[2] = {0, 0};
            for (const Entry::Engine& engine : entry->engines) {
                if (changes_from_run_to_run(op, engine.name)) continue;
                std::size_t& count = taken[engine.compiles ? 1 : 0];
                if (count++ < (engine.compiles ? compiled : ready))
                    ids.push_back(std::string(cudnn_form_names[static_cast<int>(form)]) + "/" + engine.name);
            }
        }
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        for (const CudnnForm form : forms(op)) {
            const std::string prefix = std::string(cudnn_form_names[static_cast<int>(form)]) + "/";
            if (!id.starts_with(prefix)) continue;
            const auto entry = entry_of(op, plan, device, form);
            for (const Entry::Engine& engine : entry->engines)
                if (engine.name == id.substr(prefix.size())) return prepare(entry, engine, form, op, plan);
        }
        return no_such_tactic(name(), id, op);
    }

private:
    /// Seen with cuDNN 9.19 on H200s, at 1x1 in TF32, FP16 and BF16: docs/design/cuda.md.
    static bool changes_from_run_to_run(const FusedOp& op, const std::string& engine) {
        const auto* conv = std::get_if<Conv>(&op.detail);
        return conv != nullptr && conv->epilogue.residual != none && engine.starts_with("eng4_");
    }

    static std::vector<CudnnForm> forms(const FusedOp& op) {
        if (std::holds_alternative<Attention>(op.detail)) return {CudnnForm::attention};
        if (const auto* conv = std::get_if<Conv>(&op.detail)) {
            // Exact f32 engines rarely take an epilogue.
            const Epilogue& e = conv->epilogue;
            const bool bare = e.scale == none && e.bias == none && e.residual == none && e.act == Activation::none &&
                              e.output_scale_inverse == 1;
            if (op.compute == ElementType::f32 && !bare) return {CudnnForm::fused, CudnnForm::alone};
            return {CudnnForm::fused};
        }
        return {};
    }

    static std::string key_of(const FusedOp& op, const Plan& plan, const Device& device, CudnnForm form) {
        std::ostringstream key;
        key << device.index << '|' << cudnn_form_names[static_cast<int>(form)] << '|' << signature(op, plan) << '|'
            << op.tf32;
        const auto number = [&](float v) { key << '|' << std::bit_cast<std::uint32_t>(v); };
        if (const auto* conv = std::get_if<Conv>(&op.detail)) {
            const Epilogue& e = conv->epilogue;
            for (const float v : {e.residual_scale, e.low, e.high, e.alpha, e.output_scale_inverse})
                number(v);
            for (const std::int64_t v : conv->window.pads)
                key << '|' << v;
            const Value& x = plan.values[op.inputs[0]];
            const Value& y = plan.values[op.outputs[0]];
            key << '|' << static_cast<int>(x.type) << static_cast<int>(x.layout) << x.channel_stride << '|'
                << static_cast<int>(y.type) << '|' << y.channel_stride << '|' << conv->groups << '|'
                << (e.scale != none) << (e.bias != none) << '|' << static_cast<int>(e.act);
            if (e.residual != none)
                key << "|r" << static_cast<int>(plan.values[e.residual].type) << e.residual_last
                    << plan.values[e.residual].channel_stride;
        } else if (const auto* a = std::get_if<Attention>(&op.detail)) {
            number(a->scale);
        }
        return key.str();
    }

    std::shared_ptr<Entry> entry_of(const FusedOp& op, const Plan& plan, const Device& device, CudnnForm form) const {
        const std::string key = key_of(op, plan, device, form);
        std::shared_ptr<Entry> entry;
        {
            const std::lock_guard lock(mutex_);
            if (entries_.size() > 512) entries_.clear(); // prepared kernels keep their own
            auto& slot = entries_[key];
            if (!slot) slot = std::make_shared<Entry>();
            entry = slot;
        }
        const std::lock_guard lock(entry->mutex);
        if (entry->graph != nullptr || !entry->why.empty()) return entry;
        auto graph = GraphBuilder(op, plan, form).build();
        if (!graph) {
            entry->why = graph.error().message;
            return entry;
        }
        entry->graph = std::move(*graph);
        const bool strict = op.compute == ElementType::f32 && !op.tf32;
        if (auto listed = list_engines(*entry, strict); !listed) {
            entry->why = listed.error().message;
            entry->engines.clear();
        } else if (entry->engines.empty()) {
            entry->why = "cuDNN names no engine";
        }
        return entry;
    }

    static Result<std::unique_ptr<PreparedKernel>> prepare(const std::shared_ptr<Entry>& entry,
                                                           const Entry::Engine& engine, CudnnForm form,
                                                           const FusedOp& op, const Plan& plan) {
        std::int64_t workspace = 0;
        {
            const std::lock_guard lock(entry->mutex);
            if (const auto status = entry->graph->build_plan_at_index(engine.index); status.is_bad())
                return Error(cudnn_error(status, "the plan " + engine.name)).in(op.name);
            if (const auto status = entry->graph->get_workspace_size_plan_at_index(engine.index, workspace);
                status.is_bad())
                return Error(cudnn_error(status, "to name the workspace of " + engine.name)).in(op.name);
        }
        std::vector<std::pair<std::int64_t, Place>> places{{uid_y, place_of(plan, op.outputs[0])}};
        Epilogue epilogue;
        WeightId weight = none;
        std::function<void(AttentionParams&, const Pointers&)> attention;
        EpilogueInPlaceParams finish{};
        Place residual;
        if (const auto* conv = std::get_if<Conv>(&op.detail)) {
            places.emplace_back(uid_x, place_of(plan, op.inputs[0]));
            weight = conv->weight;
            epilogue = conv->epilogue;
            residual = residual_place(epilogue, plan);
            const Value& y = plan.values[op.outputs[0]];
            const Shape d = image_dims(y);
            finish.type = type_number(y.type);
            finish.rows = d[0] * d[2] * d[3];
            finish.channels = static_cast<std::int32_t>(d[1]);
            finish.epilogue = epilogue_params(epilogue, plan);
        } else {
            attention = attention_setter(op, plan);
        }
        auto bind = [entry, index = engine.index, name = engine.name, places, epilogue, weight, attention, residual,
                     form, finish](const Pointers& pointers) -> Result<Launch> {
            std::unordered_map<std::int64_t, void*> map;
            for (const auto& [uid, place] : places)
                map[uid] = place.in(pointers);
            EpilogueInPlaceParams last = finish;
            if (attention) {
                AttentionParams p{};
                attention(p, pointers);
                map[uid_q] = const_cast<void*>(p.q);
                map[uid_k] = const_cast<void*>(p.k);
                map[uid_v] = const_cast<void*>(p.v);
                if (p.mask.data != nullptr) map[uid_mask] = const_cast<void*>(p.mask.data);
            } else {
                map[uid_w] = const_cast<void*>(weight_address(pointers, weight));
                if (form == CudnnForm::fused) {
                    if (epilogue.scale != none)
                        map[uid_scale] = const_cast<void*>(weight_address(pointers, epilogue.scale));
                    if (epilogue.bias != none)
                        map[uid_bias] = const_cast<void*>(weight_address(pointers, epilogue.bias));
                    if (epilogue.residual != none) map[uid_residual] = residual.in(pointers);
                } else {
                    bind_epilogue(last.epilogue, epilogue, residual, pointers);
                    last.data = map[uid_y];
                }
            }
            return Launch([entry, index, map, workspace = pointers.workspace, form, last](cudaStream_t stream,
                                                                                          bool) mutable -> cudaError_t {
                auto handle = handle_of_thread();
                if (!handle) return cudaErrorInitializationError;
                if (cudnnSetStream(*handle, stream) != CUDNN_STATUS_SUCCESS) return cudaErrorInvalidResourceHandle;
                {
                    const std::lock_guard lock(entry->mutex);
                    if (entry->graph->execute_plan_at_index(*handle, map, workspace, index).is_bad())
                        return cudaErrorLaunchFailure;
                }
                return form == CudnnForm::alone ? launch_epilogue_in_place(last, stream, false) : cudaSuccess;
            });
        };
        return make_kernel("cudnn " + engine.name + " for " + op.name, static_cast<std::size_t>(workspace), false,
                           std::move(bind));
    }

    mutable std::mutex mutex_;
    mutable std::map<std::string, std::shared_ptr<Entry>> entries_;
};

} // namespace

std::unique_ptr<Provider> make_cudnn_provider() { return std::make_unique<CudnnProvider>(); }

} // namespace lathe::cuda
