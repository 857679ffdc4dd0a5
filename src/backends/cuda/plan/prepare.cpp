#include <algorithm>

#include "backends/cuda/plan/col2im.hpp"
#include "backends/cuda/plan/computed_filters.hpp"
#include "backends/cuda/plan/control_flow.hpp"
#include "backends/cuda/plan/deformed.hpp"
#include "backends/cuda/plan/determinants.hpp"
#include "backends/cuda/plan/einsum.hpp"
#include "backends/cuda/plan/empty_values.hpp"
#include "backends/cuda/plan/few_filters.hpp"
#include "backends/cuda/plan/fourier.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/mean_variance.hpp"
#include "backends/cuda/plan/pool_indices.hpp"
#include "backends/cuda/plan/powers.hpp"
#include "backends/cuda/plan/recurrent.hpp"
#include "backends/cuda/plan/response.hpp"
#include "backends/cuda/plan/rows.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "backends/cuda/plan/spellings.hpp"
#include "backends/cuda/plan/values.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "passes/block_weights.hpp"
#include "passes/passes.hpp"
#include "passes/resampled.hpp"
#include "passes/rewrite.hpp"
#include "passes/symmetric_int8.hpp"
#include "passes/written_reductions.hpp"
#include "support/log.hpp"

namespace lathe::cuda {
namespace {

/// Initializers above this leave the graph: no fold may depend on them, so that a model without its weights takes the
/// same way.
constexpr std::size_t small_bytes = std::size_t{64} << 10;

Result<void> infer_anew(Model& model) { return infer_shapes(model, {true, false}); }

/// What an integer does not hold of a constant (T5's buckets take the logarithm of distance 0) has no defined
/// conversion and does not fold. Processors give the lowest integer, and ONNX Runtime with them.
void define_conversions(Graph& graph) {
    for (const auto& node : graph.nodes) {
        const auto to = static_cast<DataType>(node->is("Cast") ? node->int_or("to", 0) : 0);
        if (to != DataType::int64 && to != DataType::int32) continue;
        const Tensor* constant = graph.constant(node->input(0));
        if (constant == nullptr || constant->type() != DataType::float32) continue;
        const float lowest = to == DataType::int64 ? -0x1p63F : -0x1p31F;
        std::vector<float> numbers = constant->to_floats();
        const auto is_lost = [&](float v) { return !(v >= lowest && v < -lowest); };
        if (std::none_of(numbers.begin(), numbers.end(), is_lost)) continue;
        std::replace_if(numbers.begin(), numbers.end(), is_lost, lowest);
        const std::string name = graph.unique_name(node->input(0) + "/held");
        graph.initializers.insert_or_assign(name, Tensor::of_floats(name, constant->shape(), numbers));
        node->inputs[0] = name;
    }
}

Result<void> run_passes(Model& model) {
    std::vector<Pass> passes;
    std::ranges::copy_if(all_passes(), std::back_inserter(passes), &Pass::pays_on_gpus);
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        define_conversions(model.graph);
        LATHE_TRY(const bool changed, apply_round(passes, model, infer_anew));
        if (!changed) break;
    }
    return {};
}

/// What other tools quantised, in the int8 that the kernels have.
Result<void> take_foreign_int8(Model& model) {
    const SymmetricInt8 done = write_symmetric_int8(model.graph, model.opset(), ZeroPoints::between_products);
    // Those whose products could not be taken with them are written out, as ONNX defines them.
    LATHE_TRY(const bool written,
              write_out_functions(model, [](const Node& node) { return node.is("DynamicQuantizeLinear"); }));
    if (written) {
        if (!infer_shapes(model, {true, false})) model.graph.value_infos.clear();
        write_symmetric_int8(model.graph, model.opset(), ZeroPoints::between_products);
    }
    if (const std::string notice = done.notice(); !notice.empty()) {
        log(LogLevel::warning,
            "the GPU multiplies int8 without zero points, so some of the model is computed otherwise (" + notice +
                "). `lathe compare` shows the difference; `lathe quantize --target cuda` of the model in floats needs "
                "none of it");
    }
    return {};
}

} // namespace

Result<Prepared> prepare(const Model& model, Precision precision) {
    Prepared prepared;
    prepared.model = model;
    prepared.precision = precision;
    prepared.weights = std::make_shared<WeightStore>();
    Graph& graph = prepared.model.graph;
    drop_initializer_inputs(prepared.model);
    const std::vector<ValueInfo> outputs = graph.outputs;
    LATHE_CHECK(apply_pass("constant-nodes", prepared.model));
    write_block_weights_as_floats(graph);
    LATHE_CHECK(run_passes(prepared.model));
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        LATHE_TRY(const bool written, write_out_control_flow(prepared.model, OpenConditions::left));
        if (!written) break;
        LATHE_CHECK(run_passes(prepared.model));
    }
    LATHE_CHECK(take_foreign_int8(prepared.model));
    lift_large_constants(graph, small_bytes);
    graph.outputs = outputs;
    prepared.model.set_metadata(inputs_key, std::to_string(graph.inputs.size()));
    for (auto at = graph.initializers.begin(); at != graph.initializers.end();) {
        if (at->second.bytes().size() <= small_bytes || graph.is_output(at->first)) {
            ++at;
            continue;
        }
        ValueInfo info;
        info.name = at->first;
        info.type = at->second.type();
        info.dims.emplace();
        for (const std::int64_t n : at->second.shape())
            info.dims->push_back(Dimension::of(n));
        graph.inputs.push_back(std::move(info));
        if (const std::size_t axes = repeated_axes(at->second); axes > 0)
            prepared.model.set_metadata(repeats_prefix + at->first, std::to_string(axes));
        prepared.large.emplace(at->first, at->second);
        at = graph.initializers.erase(at);
    }
    graph.value_infos.clear();
    return prepared;
}

Result<std::size_t> input_count(const Model& model) {
    const std::string* text = model.find_metadata(inputs_key);
    if (text != nullptr && !text->empty() && text->size() < 9 &&
        std::all_of(text->begin(), text->end(), [](char c) { return c >= '0' && c <= '9'; })) {
        const auto count = static_cast<std::size_t>(std::stoul(*text));
        if (count <= model.graph.inputs.size()) return count;
    }
    return Error{ErrorCode::corrupt, "the prepared model does not tell its number of inputs", "",
                 "build the engine again"};
}

namespace {

bool all_known(const Graph& graph, const std::string& value) {
    const auto info = graph.info(value);
    const auto shape = info ? info->shape() : std::nullopt;
    return shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t n) { return n >= 0; });
}

Result<bool> fold(Model& model) {
    static constexpr const char* names[] = {"constant-nodes",   "fold-shapes",      "fold-constants",
                                            "remove-no-ops",    "join-assignments", "merge-reshapes",
                                            "merge-transposes", "remove-dead-code"};
    bool changed = false;
    for (const char* name : names) {
        LATHE_TRY(const bool applied, apply_pass(name, model));
        changed = applied || changed;
    }
    return changed;
}

/// Shapes are inferred and what then is constant folded, until nothing changes.
Result<void> settle(Model& model) {
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        if (auto inferred = infer_shapes(model, {true, true}); !inferred) {
            Error error = std::move(inferred).error();
            error.code = ErrorCode::out_of_range;
            error.hint = "the model does not allow these input shapes together";
            return error;
        }
        define_conversions(model.graph);
        LATHE_TRY(const bool changed, fold(model));
        if (!changed) break;
        for (ValueInfo& info : model.graph.outputs)
            info.dims.reset();
    }
    return {};
}

/// The same where sizes of outputs that were inferred before, or symbols of the open model, would stay.
Result<void> settle_anew(Model& model) {
    for (ValueInfo& info : model.graph.outputs)
        info.dims.reset();
    return settle(model);
}

/// Operators without a GPU form that ONNX itself defines by simpler ones (Selu, Mish, AffineGrid, losses, ...).
bool needs_writing_out(const Graph& graph, const Node& node) {
    if (node.is("Attention")) return !attention_is_written_out(graph, node);
    if (has_subgraph(node)) return !node.is("If") && !node.is("Loop") && !node.is("Scan");
    return !lowering_support(node, Model{}).supported;
}

/// Functions and control flow are written out until neither is left that can be. Of an If that only running decides
/// both branches are taken last: what is written out before may settle its condition. Whether there was any.
Result<bool> write_out(Model& model) {
    bool any = false;
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        LATHE_TRY(bool written,
                  write_out_functions(model, [&](const Node& node) { return needs_writing_out(model.graph, node); }));
        if (!written) {
            LATHE_TRY(written, write_out_control_flow(model, OpenConditions::left));
        }
        if (!written) {
            LATHE_TRY(written, write_out_control_flow(model, OpenConditions::selected));
        }
        if (!written) break;
        any = true;
        LATHE_CHECK(settle_anew(model));
    }
    return any;
}

/// Operators that are some others where their sizes are known.
Result<void> write_out_operators(Model& model, Precision precision, std::size_t inputs) {
    if (write_out_powers(model.graph, model.opset())) LATHE_CHECK(settle(model));
    // Of constants it folds as soon as it is written as products.
    if (write_out_einsum(model.graph, model.opset())) LATHE_CHECK(settle(model));
    if (write_out_batch_first(model.graph)) LATHE_CHECK(settle(model));
    if (write_out_fourier(model.graph, model.opset())) LATHE_CHECK(settle_anew(model));
    if (write_out_pool_indices(model.graph)) LATHE_CHECK(settle(model));
    if (write_out_col2im(model.graph)) LATHE_CHECK(settle(model));
    if (write_out_response_normalization(model.graph)) LATHE_CHECK(settle(model));
    if (write_out_mean_variance(model.graph, model.opset())) LATHE_CHECK(settle(model));
    if (write_out_determinants(model.graph, model.opset())) LATHE_CHECK(settle(model));
    if (write_out_deform_conv(model.graph, model.opset())) LATHE_CHECK(settle(model));
    if (write_out_computed_filters(model.graph, inputs)) LATHE_CHECK(settle(model));
    // Partial sums are stored: 8 bits of mantissa are too few for that.
    if (precision != Precision::bfloat16 && write_out_few_filters(model.graph)) LATHE_CHECK(settle(model));
    if (write_out_resize(model.graph, model.opset())) LATHE_CHECK(settle(model));
    const auto of_floats = [&](const Node& node) { return is_floating(type_of(model.graph, node.input(0))); };
    if (write_out_reductions(model.graph, model.opset(), of_floats)) LATHE_CHECK(settle(model));
    return {};
}

/// Of both, with what the bodies hold.
Result<void> write_out_all(Model& model, Precision precision, std::size_t inputs) {
    LATHE_CHECK(write_out_operators(model, precision, inputs));
    LATHE_TRY(const bool written, write_out(model));
    if (written) LATHE_CHECK(write_out_operators(model, precision, inputs));
    return {};
}

/// Inputs whose values would settle shapes, and of which the model's metadata gives none.
std::string deciding_without_value(const Model& model) {
    std::string names;
    for (const std::string& name : deciding_inputs(model.graph)) {
        if (model.find_metadata(value_prefix + name) == nullptr) names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

} // namespace

Result<Model> specialise(const Prepared& prepared, const std::vector<Shape>& shapes, OpenShapes open) {
    Model model = prepared.model;
    LATHE_TRY(const std::size_t inputs, input_count(model));
    if (shapes.size() != inputs) {
        return Error{ErrorCode::invalid_argument,
                     "the model has " + std::to_string(inputs) + " inputs, shapes are given for " +
                         std::to_string(shapes.size()),
                     "", "give one shape an input"};
    }
    for (std::size_t i = 0; i < inputs; ++i) {
        ValueInfo& info = model.graph.inputs[i];
        if (info.dims && info.dims->size() != shapes[i].size()) {
            return Error{ErrorCode::out_of_range,
                         "the input has " + std::to_string(info.dims->size()) + " dimensions, the shape given " +
                             lathe::to_string(shapes[i]),
                         info.name, "give as many sizes as the model's input has"};
        }
        std::vector<Dimension> dims;
        for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
            const auto fixed = info.dims ? (*info.dims)[axis].size : std::nullopt;
            // Nothing at all only where the model says so: a batch of none is a mistake.
            if (shapes[i][axis] < (fixed ? 0 : 1) || (fixed && *fixed != shapes[i][axis])) {
                return Error{ErrorCode::out_of_range, "the input cannot have the shape " + lathe::to_string(shapes[i]),
                             info.name, "the model fixes some of its sizes; see `lathe inspect`"};
            }
            dims.push_back(Dimension::of(shapes[i][axis]));
        }
        info.dims = std::move(dims);
    }
    LATHE_CHECK(apply_values(model));
    LATHE_CHECK(settle_anew(model));
    LATHE_CHECK(write_out_all(model, prepared.precision, inputs));
    for (std::size_t round = 0; round < max_pass_rounds && fold_empty_values(model.graph, inputs); ++round) {
        LATHE_CHECK(settle_anew(model));
    }
    if (const std::string* name = model.find_metadata(both_branches_key)) prepared.weights->both_branches = *name;
    if (open == OpenShapes::left) return model;
    for (std::size_t round = 0; round < max_pass_rounds; ++round) {
        LATHE_TRY(const bool bounded, bound_rows(model));
        if (!bounded) break;
        LATHE_CHECK(settle_anew(model));
        LATHE_CHECK(write_out_all(model, prepared.precision, inputs));
    }
    for (const auto& node : model.graph.nodes) {
        if (is_bounded(*node)) continue;
        for (const std::string& output : node->outputs) {
            if (output.empty() || all_known(model.graph, output)) continue;
            const bool read = Uses(model.graph).use_count(output) != 0;
            if (!read) continue;
            std::string why = "the shape of " + output + " is not known before the model runs (" + node->op_type + ")";
            if (has_subgraph(*node)) why += ": " + control_flow_refusal(model, *node);
            if (const std::string cause = unbounded_because(model.graph, *node); !cause.empty()) why += ": " + cause;
            if (const std::string unsaid = deciding_without_value(prepared.model); !unsaid.empty())
                why += "; the value of " + unsaid + " decides shapes";
            return Error{ErrorCode::out_of_range, std::move(why), node->label(),
                         "let what depends on it run on the CPU (--allow-fallback), or build the whole for the CPU"};
        }
    }
    return model;
}

} // namespace lathe::cuda
