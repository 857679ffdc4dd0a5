#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include "graph/subgraphs.hpp"
#include "onnx/proto.hpp"

namespace lathe {
namespace {

/// Whether `inferred` says something that `known` does not.
void merge(const ValueInfo& inferred, ValueInfo& known) {
    if (known.type == DataType::undefined) known.type = inferred.type;
    if (known.opaque_type.empty()) known.opaque_type = inferred.opaque_type;
    if (!inferred.dims) return;
    if (!known.dims) {
        known.dims = inferred.dims;
        return;
    }
    if (known.dims->size() != inferred.dims->size()) return;
    for (std::size_t i = 0; i < known.dims->size(); ++i) {
        Dimension& dim = (*known.dims)[i];
        if (!dim.size && dim.symbol.empty()) dim = (*inferred.dims)[i];
    }
}

constexpr std::size_t most_axes = 64;

/// Without a shape that is none: a few bytes of a file can make inference find one of 200,000 open sizes.
Result<ValueInfo> found_by_inference(const onnx::ValueInfoProto& proto) {
    LATHE_TRY(ValueInfo info, proto::import_value_info(proto));
    if (info.dims && info.dims->size() > most_axes) info.dims.reset();
    return info;
}

/// Bring what inference wrote into the proto back to the graph it was made from.
Result<void> take_over(const onnx::GraphProto& proto, Graph& graph) {
    for (const auto& each : proto.value_info()) {
        LATHE_TRY(ValueInfo info, found_by_inference(each));
        if (info.type == DataType::undefined && info.opaque_type.empty()) continue;
        const auto [known, fresh] = graph.value_infos.try_emplace(info.name, info);
        if (!fresh) merge(info, known->second);
    }
    for (int i = 0; i < proto.output_size() && i < static_cast<int>(graph.outputs.size()); ++i) {
        LATHE_TRY(const ValueInfo info, found_by_inference(proto.output(i)));
        merge(info, graph.outputs[static_cast<std::size_t>(i)]);
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        Node& node = *graph.nodes[i];
        for (std::size_t k = 0; k < node.attributes.size(); ++k) {
            const auto& attribute = proto.node(static_cast<int>(i)).attribute(static_cast<int>(k));
            if (auto* box = std::get_if<GraphBox>(&node.attributes[k].value)) {
                LATHE_CHECK(take_over(attribute.g(), **box));
            } else if (auto* boxes = std::get_if<std::vector<GraphBox>>(&node.attributes[k].value)) {
                for (std::size_t g = 0; g < boxes->size(); ++g) {
                    LATHE_CHECK(take_over(attribute.graphs(static_cast<int>(g)), *(*boxes)[g]));
                }
            }
        }
    }
    return {};
}

/// The number in a constant of one element; nothing for others.
std::optional<double> scalar(const onnx::GraphProto& graph, const std::string& name) {
    const auto at = std::ranges::find_if(graph.initializer(), [&](const auto& each) { return each.name() == name; });
    if (at == graph.initializer().end() || at->ByteSizeLong() > 4096) return std::nullopt;
    onnx::TensorProto copy = *at;
    const auto tensor = proto::Importer{}.tensor(copy);
    if (!tensor || tensor->count() != 1) return std::nullopt;
    if (const auto integers = tensor->to_int64s(); !integers.empty()) return static_cast<double>(integers[0]);
    const auto floats = tensor->to_floats();
    return floats.empty() ? std::nullopt : std::optional<double>(floats[0]);
}

bool range_stays_small(const onnx::GraphProto& graph, const onnx::NodeProto& range) {
    if (range.input_size() != 3) return true;
    const auto start = scalar(graph, range.input(0));
    const auto limit = scalar(graph, range.input(1));
    const auto delta = scalar(graph, range.input(2));
    // Inference subtracts in 64 bits: of ends that are too far apart it makes another length.
    return !start || !limit || !delta || (std::abs(*limit - *start) < 1e15 && (*limit - *start) / *delta < 1e6);
}

/// Operators through which ONNX's inference follows values, where it knows those of all inputs.
bool passes_values_on(const std::string& op_type) {
    static const std::unordered_set<std::string> operators{"Add",     "Cast", "Concat",   "Gather",  "Identity",
                                                           "Mul",     "Neg",  "Range",    "Reshape", "Slice",
                                                           "Squeeze", "Sub",  "Unsqueeze"};
    return operators.contains(op_type);
}

constexpr std::uint64_t most_followed = 1'000'000;

/// Elements of what inference takes for a value to follow: no more than one dimension. A tensor may claim any number:
/// past the most that may be followed they are not counted.
std::optional<std::uint64_t> followed_elements(const onnx::TensorProto& tensor) {
    if (tensor.dims_size() > 1) return std::nullopt;
    if (tensor.dims_size() == 0) return 1;
    return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(0, tensor.dims(0))), most_followed + 1);
}

/// Input that holds as many elements as the result has axes; -1: none.
int shape_input(const std::string& op_type) {
    if (op_type == "ConstantOfShape") return 0;
    static const std::unordered_set<std::string> beside{"Reshape", "Expand", "Tile", "Unsqueeze"};
    return beside.contains(op_type) ? 1 : -1;
}

/// Whether inference may follow the values of shapes. ONNX does so element by element: 36 Concat(t, t) in a row would
/// take a terabyte, and so would a long Range; a result of 600,000 axes takes seconds. Others make no more than they
/// read.
bool values_stay_small(const onnx::GraphProto& graph) {
    std::unordered_map<std::string, std::uint64_t> counts;
    for (const auto& tensor : graph.initializer()) {
        if (const auto count = followed_elements(tensor)) counts.emplace(tensor.name(), *count);
    }
    for (const auto& node : graph.node()) {
        if (node.op_type() == "Range" && !range_stays_small(graph, node)) return false;
        if (node.op_type() == "Shape" && node.output_size() == 1) counts.emplace(node.output(0), 8);
        if (node.op_type() == "Constant" && node.output_size() == 1) {
            for (const auto& attribute : node.attribute()) {
                const auto count = attribute.has_t() ? followed_elements(attribute.t()) : std::nullopt;
                if (count) counts.emplace(node.output(0), *count);
            }
        }
        if (const int at = shape_input(node.op_type()); at >= 0 && at < node.input_size()) {
            const auto found = counts.find(node.input(at));
            if (found != counts.end() && found->second > most_axes) return false;
        }
        if (!passes_values_on(node.op_type())) continue;
        std::uint64_t sum = 0;
        std::uint64_t largest = 1;
        bool known = true;
        for (const std::string& name : node.input()) {
            const auto found = counts.find(name);
            known = known && found != counts.end();
            if (!known) break;
            sum += found->second;
            largest = std::max(largest, found->second);
        }
        if (!known) continue;
        const std::uint64_t made = node.op_type() == "Concat" ? sum : largest;
        if (made > most_followed) return false;
        for (const std::string& name : node.output())
            counts.emplace(name, made);
    }
    return true;
}

/// ONNX's operators, with the rule for the sizes of pools that rounding up has since opset 22: a window that begins in
/// the padding behind the input is none. ONNX Runtime and PyTorch follow it in every opset.
class Operators final : public onnx::ISchemaRegistry {
public:
    // NOLINTNEXTLINE(google-default-arguments): as ONNX has it
    const onnx::OpSchema* GetSchema(const std::string& key, int most, const std::string& domain) const override {
        constexpr int first_that_rounds_up = 10, first_with_the_rule = 22;
        const bool is_pool = domain.empty() && (key == "MaxPool" || key == "AveragePool" || key == "LpPool");
        if (is_pool && most >= first_that_rounds_up) most = std::max(most, first_with_the_rule);
        return onnx::OpSchemaRegistry::Instance()->GetSchema(key, most, domain);
    }
};

/// Inference of MeanVarianceNormalization from opset 18 on fails where its axes are left to the default.
void write_default_axes(onnx::GraphProto& graph) {
    for (onnx::NodeProto& node : *graph.mutable_node()) {
        for (onnx::AttributeProto& attribute : *node.mutable_attribute())
            if (attribute.has_g()) write_default_axes(*attribute.mutable_g());
        if (node.op_type() != "MeanVarianceNormalization" || !node.domain().empty() || node.attribute_size() != 0)
            continue;
        onnx::AttributeProto& axes = *node.add_attribute();
        axes.set_name("axes");
        axes.set_type(onnx::AttributeProto::INTS);
        for (const std::int64_t axis : {0, 2, 3})
            axes.add_ints(axis);
    }
}

Result<void> run_inference(onnx::ModelProto& message, bool strict) {
    static const Operators operators;
    write_default_axes(*message.mutable_graph());
    return proto::guarded(ErrorCode::verification_failed, "shape inference", [&] {
        onnx::checker::check_function_call_cycles(message); // inference would follow them without end
        const onnx::ShapeInferenceOptions options(strict, strict ? 1 : 0, values_stay_small(message.graph()));
        onnx::shape_inference::InferShapes(message, &operators, options);
    });
}

Error with_hint(Error error, const char* hint) {
    if (error.hint.empty()) error.hint = hint;
    return error;
}

} // namespace

void forget_value_infos(Graph& graph) {
    graph.value_infos.clear();
    for (const auto& node : graph.nodes)
        for_each_subgraph(*node, forget_value_infos);
}

Result<void> check_onnx(const Model& model, const CheckOptions& options) {
    proto::Exporter exporter;
    exporter.data = proto::TensorData::large_emptied;
    LATHE_TRY(onnx::ModelProto message, exporter.model(model));
    // The checker refuses outputs that say nothing of their shape, which many files have and every runtime takes.
    for (onnx::ValueInfoProto& output : *message.mutable_graph()->mutable_output())
        if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->mutable_shape();
    auto verdict = proto::guarded(ErrorCode::verification_failed, "ONNX checker",
                                  [&] { onnx::checker::check_model(message, false, false, false); });
    if (!verdict) return with_hint(std::move(verdict).error(), "the model breaks a rule of the ONNX standard");
    if (!options.full) return {};
    exporter.data = proto::TensorData::large_away;
    LATHE_TRY(onnx::ModelProto inferred, exporter.model(model));
    verdict = run_inference(inferred, true);
    if (!verdict) return with_hint(std::move(verdict).error(), "types or shapes in the model contradict each other");
    return {};
}

Result<void> infer_shapes(Model& model, const InferOptions& options) {
    if (options.discard_existing) forget_value_infos(model.graph);
    proto::Exporter exporter;
    exporter.data = proto::TensorData::large_away;
    LATHE_TRY(onnx::ModelProto message, exporter.model(model));
    auto verdict = run_inference(message, options.strict);
    if (!verdict) {
        return with_hint(std::move(verdict).error(),
                         "shapes in the model contradict each other; after changing it, discard its value infos");
    }
    return take_over(message.graph(), model.graph);
}

std::int64_t latest_opset() {
    const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().LastReleaseVersionMap();
    const auto found = ranges.find(onnx::ONNX_DOMAIN);
    return found == ranges.end() ? 0 : found->second;
}

std::int64_t latest_ir_version() { return onnx::IR_VERSION; }

} // namespace lathe
