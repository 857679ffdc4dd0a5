#include "backends/openvino/core.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <openvino/op/constant.hpp>
#include <openvino/op/maximum.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

#include "backends/openvino/body_shapes.hpp"
#include "backends/openvino/branches.hpp"
#include "backends/openvino/constant_rows.hpp"
#include "backends/openvino/known_wrong.hpp"
#include "backends/openvino/long_chains.hpp"
#include "backends/openvino/missing_operators.hpp"
#include "backends/openvino/onnx_semantics.hpp"
#include "backends/openvino/place_factors.hpp"
#include "backends/openvino/pools.hpp"
#include "backends/openvino/refusals.hpp"
#include "backends/openvino/rotary.hpp"
#include "backends/openvino/sequences.hpp"
#include "backends/openvino/top_k.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"
#include "support/log.hpp"
#include "support/thread_pool.hpp"

namespace lathe::openvino {

namespace {

struct TypePair {
    DataType ours;
    ov::element::Type theirs;
};

const std::array<TypePair, 15>& type_pairs() {
    static const std::array<TypePair, 15> pairs{{
        {DataType::float32, ov::element::f32},
        {DataType::float16, ov::element::f16},
        {DataType::bfloat16, ov::element::bf16},
        {DataType::float64, ov::element::f64},
        {DataType::int8, ov::element::i8},
        {DataType::uint8, ov::element::u8},
        {DataType::int16, ov::element::i16},
        {DataType::uint16, ov::element::u16},
        {DataType::int32, ov::element::i32},
        {DataType::uint32, ov::element::u32},
        {DataType::int64, ov::element::i64},
        {DataType::uint64, ov::element::u64},
        {DataType::boolean, ov::element::boolean},
        {DataType::float8e4m3fn, ov::element::f8e4m3},
        {DataType::float8e5m2, ov::element::f8e5m2},
    }};
    return pairs;
}

/// OpenVINO reads a constant without elements as a scalar, whatever its rank (2026.4), and then refuses what reads it.
bool misread(const Tensor& tensor) {
    return tensor.shape().size() > 1 && element_count(tensor.shape()) == 0 &&
           element_type(tensor.type()) != ov::element::dynamic;
}

bool has_misread_constant(const Graph& graph) {
    if (std::ranges::any_of(graph.initializers, [](const auto& entry) { return misread(entry.second); })) return true;
    bool found = false;
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](const Graph& body) { found = found || has_misread_constant(body); });
    return found;
}

/// Makes such constants the result of a ConstantOfShape, which OpenVINO gets right.
void compute_misread_constants(Graph& graph) {
    std::vector<Tensor> moved;
    std::erase_if(graph.initializers, [&](const auto& entry) {
        if (!misread(entry.second) || graph.find_input(entry.first) != nullptr) return false;
        moved.push_back(entry.second);
        return true;
    });
    for (const Tensor& tensor : moved) {
        const Shape& shape = tensor.shape();
        const std::string sizes = graph.unique_name(tensor.name + "_shape");
        graph.initializers.emplace(
            sizes, Tensor::of_int64s(sizes, {static_cast<std::int64_t>(shape.size())}, std::span(shape)));
        const std::vector<std::byte> zero(byte_size(tensor.type(), 1));
        Node node;
        node.op_type = "ConstantOfShape";
        node.inputs = {sizes};
        node.outputs = {tensor.name};
        node.set("value", Tensor("", tensor.type(), {1}, zero));
        graph.insert(0, std::move(node));
    }
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [](Graph& body) { compute_misread_constants(body); });
}

/// For a model too large for protobuf: makes its large weights inputs, and returns them. Nothing is copied.
std::vector<Tensor> take_large_weights(Graph& graph, const WeightLimits& limits) {
    std::size_t total = 0;
    for (const auto& [name, tensor] : graph.initializers)
        total += tensor.bytes().size();
    std::vector<Tensor> taken;
    if (total <= limits.most_serialized) return taken;
    std::erase_if(graph.initializers, [&](const auto& entry) {
        const Tensor& tensor = entry.second;
        if (tensor.bytes().size() < limits.least_taken || element_type(tensor.type()) == ov::element::dynamic)
            return false;
        if (graph.find_input(entry.first) != nullptr) return false;
        taken.push_back(tensor.renamed(entry.first));
        return true;
    });
    for (const Tensor& tensor : taken) {
        ValueInfo input;
        input.name = tensor.name;
        input.type = tensor.type();
        input.dims.emplace();
        for (const std::int64_t size : tensor.shape())
            input.dims->push_back(Dimension::of(size));
        graph.inputs.push_back(std::move(input));
    }
    return taken;
}

/// Puts the weights where the inputs stand that `take_large_weights` made. They stay in the memory of `taken`.
void give_large_weights(ov::Model& model, const std::vector<Tensor>& taken) {
    for (const Tensor& tensor : taken) {
        for (const auto& parameter : model.get_parameters()) {
            if (!parameter->output(0).get_names().contains(tensor.name)) continue;
            const auto owner = std::make_shared<Tensor>(tensor);
            const auto constant = std::make_shared<ov::op::v0::Constant>(
                element_type(tensor.type()), ov::Shape(tensor.shape().begin(), tensor.shape().end()),
                owner->bytes().data(), owner);
            constant->set_friendly_name(tensor.name);
            ov::replace_node(parameter, constant);
            model.remove_parameter(parameter);
            break;
        }
    }
    if (!taken.empty()) model.validate_nodes_and_infer_types();
}

void collect_domains(const Graph& graph, std::set<std::string>& domains) {
    for (const auto& node : graph.nodes) {
        domains.insert(node->domain);
        for_each_subgraph(*node, [&](const Graph& body) { collect_domains(body, domains); });
    }
}

/// OpenVINO refuses a model that imports a domain it does not know, even where no node is of it.
void drop_unused_domains(Model& model) {
    if (!model.opaque_functions.empty()) return; // their nodes are not looked at
    std::set<std::string> used{""};
    collect_domains(model.graph, used);
    std::erase_if(model.opsets, [&](const auto& entry) { return !used.contains(entry.first); });
}

/// The model as ONNX for OpenVINO to read, without the weights in `taken`.
Result<std::string> serialize(Model changed, const WeightLimits& limits, std::vector<Tensor>& taken) {
    if (changed.opset() >= 9 && has_misread_constant(changed.graph)) compute_misread_constants(changed.graph);
    // What windows read, and how some others are written, depends on types and sizes. What has none stays as it is.
    (void)infer_shapes(changed, {});
    give_shapes_to_bodies(changed);
    const bool rounds_open_up = std::ranges::any_of(changed.graph.nodes, [&](const auto& node) {
        if (node->int_or("ceil_mode", 0) == 0) return false;
        const auto shape = changed.graph.info_or_name(node->input(0)).shape();
        return !shape || shape->size() < 2 ||
               std::any_of(shape->begin() + 2, shape->end(), [](std::int64_t size) { return size < 0; });
    });
    if (rounds_open_up || !refuse_open_windows(changed.graph)) { // sizes that only a computed Reshape hides are closed
        for (const char* pass : {"fold-shapes", "fold-constants"})
            LATHE_CHECK(apply_pass(pass, changed));
        (void)infer_shapes(changed, {});
        LATHE_CHECK(refuse_open_windows(changed.graph));
    }
    write_onnx_semantics(changed.graph, changed.opset());
    drop_unused_domains(changed);
    taken = take_large_weights(changed.graph, limits);
    return serialize_onnx(changed);
}

std::size_t count_bodies(const Graph& graph) {
    std::size_t count = 0;
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, [&](const Graph& body) { count += 1 + count_bodies(body); });
    return count;
}

/// OpenVINO takes about a millisecond to read each body, and does not ask whether to go on.
Result<void> check_bodies(const Model& model) {
    constexpr std::size_t most = 4096;
    const std::size_t count = count_bodies(model.graph);
    if (count <= most) return {};
    return Error{ErrorCode::unsupported,
                 "the model holds " + std::to_string(count) + " bodies of If, Loop and Scan, one in another: at most " +
                     std::to_string(most) + " are given to OpenVINO",
                 model.graph.name, "export the model without conditions that nest"};
}

/// OpenVINO's plugin for CPUs keeps sets of axes in 32 bits, and says no more than "bitset::test" where they are full.
Result<void> check_ranks(const ov::Model& model) {
    constexpr std::int64_t most = 32;
    for (const auto& node : model.get_ordered_ops()) {
        for (const auto& output : node->outputs()) {
            const ov::Rank rank = output.get_partial_shape().rank();
            if (rank.is_dynamic() || rank.get_length() <= most) continue;
            return Error{ErrorCode::unsupported,
                         "a value of " + std::to_string(rank.get_length()) + " dimensions: OpenVINO takes at most " +
                             std::to_string(most),
                         "node " + node->get_friendly_name(), "remove dimensions of size 1 before this node"};
        }
    }
    return {};
}

} // namespace

ov::Core& core() {
    static ov::Core instance;
    return instance;
}

std::string library_version() { return ov::get_openvino_version().buildNumber; }

ov::element::Type element_type(DataType type) {
    for (const auto& pair : type_pairs()) {
        if (pair.ours == type) return pair.theirs;
    }
    return ov::element::dynamic;
}

DataType data_type(const ov::element::Type& type) {
    for (const auto& pair : type_pairs()) {
        if (pair.theirs == type) return pair.ours;
    }
    return DataType::undefined;
}

std::string brief(const std::string& message) {
    std::string text;
    std::size_t start = 0;
    while (start < message.size()) {
        std::size_t end = message.find('\n', start);
        if (end == std::string::npos) end = message.size();
        const std::string line = message.substr(start, end - start);
        start = end + 1;
        const bool trace = line.find("Exception from ") != std::string::npos ||
                           (line.find("Check '") != std::string::npos && line.find("failed at") != std::string::npos) ||
                           line.find_first_not_of(" \t\r") == std::string::npos;
        if (trace) continue;
        text += (text.empty() ? "" : "; ") + line;
    }
    if (text.empty()) text = message;
    constexpr std::size_t limit = 600;
    if (text.size() > limit) text = text.substr(0, limit) + "...";
    return text;
}

Result<std::shared_ptr<ov::Model>> to_openvino(const Model& given, const WeightLimits& limits) {
    LATHE_CHECK(check_bodies(given));
    Model model = given; // shares the tensors
    // What looks for constants (of sizes, scales, axes) looks among initializers.
    LATHE_CHECK(apply_pass("constant-nodes", model));
    LATHE_CHECK(settle_branches(model));
    write_missing_operators(model);
    LATHE_CHECK(refuse_known_wrong(model.graph));
    LATHE_CHECK(check_preconditions(model));
    // What OpenVINO folds itself comes out wrong at times (GatherElements before two Einsum), also where it is sizes of
    // an input that make it constant (positions of a Funnel Transformer).
    const auto gathers = [](const auto& node) { return node->is("GatherElements"); };
    if (std::ranges::any_of(model.graph.nodes, gathers)) {
        if (auto inferred = infer_shapes(model); !inferred) log(LogLevel::debug, inferred.error().describe());
        LATHE_CHECK(apply_pass("fold-shapes", model));
    }
    LATHE_CHECK(apply_pass("fold-constants", model));
    write_rotations(model);
    std::vector<Tensor> taken;
    LATHE_TRY(const std::string bytes, serialize(std::move(model), limits, taken));
    auto read =
        guarded("OpenVINO cannot read the model", model.graph.name, [&]() -> Result<std::shared_ptr<ov::Model>> {
            auto result = core().read_model(bytes, ov::Tensor());
            give_large_weights(*result, taken);
            copy_shared_constants(*result);
            improve_top_k(*result);
            leave_out_windows_behind(*result);
            keep_sequence_axis(*result);
            keep_place_factors_apart(*result);
            keep_constant_rows(*result);
            keep_shared_rotations(*result);
            LATHE_CHECK(check_ranks(*result));
            return result;
        });
    if (!read) return in_our_words(std::move(read).error(), given);
    return read;
}

Result<void> check_scatters(const ov::Model& model) {
    for (const auto& node : model.get_ordered_ops()) {
        if (std::string_view(node->get_type_name()) != "ScatterElementsUpdate") continue;
        const ov::PartialShape data = node->get_input_partial_shape(0), indices = node->get_input_partial_shape(1);
        const auto axis = ov::as_type_ptr<ov::op::v0::Constant>(node->input_value(3).get_node_shared_ptr());
        if (data.rank().is_dynamic() || indices.rank() != data.rank() || axis == nullptr) continue;
        const std::int64_t rank = data.rank().get_length(), along = axis->cast_vector<std::int64_t>().at(0);
        for (std::int64_t d = 0; d < rank; ++d) {
            const ov::Dimension room = data[d], asked = indices[d];
            if (d == (along < 0 ? along + rank : along) || room.is_dynamic()) continue;
            if (asked.get_max_length() >= 0 && asked.get_max_length() <= room.get_length()) continue;
            return Error{ErrorCode::unsupported,
                         "ScatterElements writes indices of " + indices.to_string() + " into data of " +
                             data.to_string() + ": axis " + std::to_string(d) + " has no room for them",
                         "node " + node->get_friendly_name(),
                         "give the model's inputs sizes that fit (--shape), or export it with data that grows with "
                         "them"};
        }
    }
    return {};
}

Result<std::vector<std::size_t>> input_ports_of(const std::vector<ov::Output<ov::Node>>& ports,
                                                const std::vector<std::string>& names) {
    std::vector<std::size_t> found;
    std::vector<bool> claimed(ports.size(), false);
    for (const auto& name : names) {
        auto at = std::ranges::find_if(ports, [&](const auto& port) { return port.get_names().contains(name); });
        // Where a value is passed on unchanged, it may lose its first name.
        if (at == ports.end()) {
            at = std::ranges::find_if(ports,
                                      [&](const auto& port) { return port.get_node()->get_friendly_name() == name; });
        }
        found.push_back(at == ports.end() ? unread : static_cast<std::size_t>(at - ports.begin()));
        if (at != ports.end()) claimed[found.back()] = true;
    }
    for (std::size_t port = 0; port < ports.size(); ++port) {
        if (claimed[port]) continue;
        return Error{ErrorCode::unsupported, "OpenVINO asks for an input that the model does not have",
                     "OpenVINO's input " + std::to_string(port), "simplify the model first: lathe simplify"};
    }
    return found;
}

bool reads_constant(const ov::Node& node, std::size_t input) {
    return ov::is_type<ov::op::v0::Constant>(node.get_input_node_ptr(input));
}

std::shared_ptr<ov::Node> same_value(const ov::Output<ov::Node>& value) {
    return std::make_shared<ov::op::v1::Maximum>(value, value);
}

void set_input_apart(ov::Node& node, std::size_t input) {
    node.input(input).replace_source_output(same_value(node.input_value(input)));
}

void change_nodes(ov::Model& model, const std::function<bool(const std::shared_ptr<ov::Node>&)>& change) {
    bool changed = false;
    for (const auto& node : model.get_ops()) {
        if (const auto body = std::dynamic_pointer_cast<ov::op::util::MultiSubGraphOp>(node)) {
            for (const auto& inner : body->get_functions())
                change_nodes(*inner, change);
        }
        changed = change(node) || changed;
    }
    if (changed) model.validate_nodes_and_infer_types();
}

ov::AnyMap properties(Precision precision, std::size_t streams, std::size_t threads, bool profiling) {
    ov::element::Type type = ov::element::f32;
    if (precision == Precision::bfloat16) type = ov::element::bf16;
    if (precision == Precision::float16) type = ov::element::f16;
    ov::AnyMap map;
    map[ov::hint::performance_mode.name()] = ov::hint::PerformanceMode::LATENCY;
    map[ov::hint::inference_precision.name()] = type;
    // Beside weights of 4 and 8 bits it would round activations to 8, which no one asked for in FP32.
    if (precision == Precision::float32) map[ov::hint::dynamic_quantization_group_size.name()] = std::uint64_t{0};
    map[ov::num_streams.name()] = ov::streams::Num(static_cast<int32_t>(std::max<std::size_t>(1, streams)));
    map[ov::inference_num_threads.name()] = static_cast<int32_t>(std::max<std::size_t>(1, threads));
    // Else it binds them to the first cores, those of every other engine and process that uses fewer threads too.
    if (threads < available_cores()) map[ov::hint::enable_cpu_pinning.name()] = false;
    if (profiling) map[ov::enable_profiling.name()] = true;
    return map;
}

} // namespace lathe::openvino
