#include "quantize/insert.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "graph/subgraphs.hpp"
#include "quantize/ops.hpp"

namespace lathe {
namespace {

Result<Range> united_range(const ScaleGroup& group, const std::map<std::string, Range>& ranges) {
    Range united;
    for (const std::string& name : group.ranges) {
        const auto found = ranges.find(name);
        if (found == ranges.end()) {
            return Error{ErrorCode::not_found, "the ranges do not cover a tensor that is to be quantised", name,
                         "calibrate this very model again: lathe calibrate MODEL --data DIR --output FILE"};
        }
        const Range& range = found->second;
        if (!std::isfinite(range.low) || !std::isfinite(range.high) || range.low > 0.0F || range.high < 0.0F) {
            return Error{ErrorCode::out_of_range,
                         "the calibrated range " + std::to_string(range.low) + " .. " + std::to_string(range.high) +
                             " is not finite around zero",
                         name, "calibrate again, on data that is not damaged; or --exclude the nodes that read it"};
        }
        united.low = std::min(united.low, range.low);
        united.high = std::max(united.high, range.high);
    }
    return united;
}

class Inserter {
public:
    Inserter(const Model& model, const QuantizationPlan& plan, const InsertOptions& options)
        : plan_(plan), options_(options), model_(model) {}

    Result<Model> run(const std::map<std::string, Range>& ranges) {
        if (model_.opset() < qdq_opset) {
            return Error{ErrorCode::unsupported,
                         "the model uses opset " + std::to_string(model_.opset()) +
                             ", but scales by channel need opset 13",
                         "", "export it again with --opset 18, or convert it first (lathe quantize does so by itself)"};
        }
        // New nodes go right behind what they read, so that the order stays topological; positions in the plan refer
        // to the graph as it was, so readers are renamed first.
        LATHE_CHECK(insert_weights());
        LATHE_CHECK(insert_activations(ranges));
        weave();
        remove_unread();
        write_metadata();
        // ONNX demands a name, and some exporters leave it out.
        if (model_.graph.name.empty()) model_.graph.name = "main_graph";
        LATHE_CHECK(verify(model_));
        return std::move(model_);
    }

private:
    Result<void> insert_weights() {
        for (const QuantizedWeight& weight : plan_.weights) {
            const Constant constant = resolve_constant(model_.graph, weight.value);
            const auto* tensor = std::get_if<Tensor>(&constant);
            if (tensor == nullptr || tensor->type() != DataType::float32) {
                return Error{ErrorCode::internal, "a planned weight is no float32 constant", weight.value,
                             "the plan was made for another model"};
            }
            const WeightForm form{weight.axis, options_.weight_range, weight.inputs, plan_.granularity};
            LATHE_TRY(const QuantizedTensorData data, quantize_weight(tensor->renamed(weight.value), form));
            const std::string name = fresh(weight.value + "_q");
            const std::string scale = fresh(weight.value + "_scale");
            const std::string zero = fresh(weight.value + "_zero_point");
            const std::string real = fresh(weight.value + "_dq");
            const auto channels = static_cast<std::int64_t>(data.scales.size());
            const bool by_channel = weight.axis && plan_.granularity == WeightGranularity::per_channel;
            const Shape shape = by_channel ? Shape{channels} : Shape{};
            const std::vector<std::int8_t> zeros(data.scales.size(), 0);
            add_constant(data.values.renamed(name));
            add_constant(Tensor::of_floats(scale, shape, data.scales));
            add_constant(Tensor::of<std::int8_t>(zero, DataType::int8, shape, zeros));
            Node node = make_node("DequantizeLinear", weight.value, {name, scale, zero}, real);
            if (by_channel) node.set("axis", *weight.axis);
            copy_info(weight.value, real, DataType::float32, tensor->shape());
            // Just before its first reader: keeps the weights of a layer beside it in every listing.
            before_[weight.readers.front().node].push_back(std::move(node));
            redirect(weight.readers, real);
        }
        return {};
    }

    Result<void> insert_activations(const std::map<std::string, Range>& ranges) {
        std::vector<QuantizationParameters> parameters;
        for (const ScaleGroup& group : plan_.groups) {
            LATHE_TRY(const Range range, united_range(group, ranges));
            parameters.push_back(group.from_zero ? parameters_from_zero(range)
                                                 : parameters_of(range, plan_.activations));
        }
        const bool is_signed = plan_.activations.symmetric;
        std::unordered_map<std::string, std::size_t> producers;
        for (std::size_t i = 0; i < model_.graph.nodes.size(); ++i) {
            for (const std::string& output : model_.graph.nodes[i]->outputs)
                producers[output] = i;
        }
        for (const QuantizedTensor& tensor : plan_.tensors) {
            const QuantizationParameters& use = parameters.at(tensor.group);
            const std::string scale = fresh(tensor.name + "_scale");
            const std::string zero = fresh(tensor.name + "_zero_point");
            const std::string quantized = fresh(tensor.name + "_q");
            const std::string real = fresh(tensor.name + "_dq");
            add_constant(Tensor::of_floats(scale, {}, std::array{use.scale}));
            if (is_signed) {
                const std::array value{static_cast<std::int8_t>(use.zero_point)};
                add_constant(Tensor::of<std::int8_t>(zero, DataType::int8, {}, value));
            } else {
                const std::array value{static_cast<std::uint8_t>(use.zero_point)};
                add_constant(Tensor::of<std::uint8_t>(zero, DataType::uint8, {}, value));
            }
            const auto producer = producers.find(tensor.name);
            auto& place = producer == producers.end() ? at_start_ : after_[producer->second];
            place.push_back(make_node("QuantizeLinear", tensor.name, {tensor.name, scale, zero}, quantized));
            place.push_back(make_node("DequantizeLinear", tensor.name, {quantized, scale, zero}, real));
            if (const auto info = model_.graph.info(tensor.name)) {
                ValueInfo narrow = *info;
                narrow.opaque_type.clear();
                narrow.name = quantized;
                narrow.type = is_signed ? DataType::int8 : DataType::uint8;
                ValueInfo wide = narrow;
                wide.name = real;
                wide.type = DataType::float32;
                model_.graph.value_infos[quantized] = std::move(narrow);
                model_.graph.value_infos[real] = std::move(wide);
            }
            redirect(tensor.readers, real);
        }
        return {};
    }

    /// Put the new nodes between the old ones.
    void weave() {
        std::vector<std::unique_ptr<Node>> nodes;
        const auto append = [&](std::vector<Node>& some) {
            for (Node& node : some)
                nodes.push_back(std::make_unique<Node>(std::move(node)));
        };
        append(at_start_);
        for (std::size_t i = 0; i < model_.graph.nodes.size(); ++i) {
            if (const auto found = before_.find(i); found != before_.end()) append(found->second);
            nodes.push_back(std::move(model_.graph.nodes[i]));
            if (const auto found = after_.find(i); found != after_.end()) append(found->second);
        }
        model_.graph.nodes = std::move(nodes);
    }

    /// Float weights (and the reshaping of constants) that nobody reads any more.
    void remove_unread() {
        Graph& graph = model_.graph;
        std::unordered_map<std::string, std::size_t> uses;
        const auto count = [&](const Node& node, std::ptrdiff_t step) {
            for (const std::string& input : node.inputs)
                uses[input] += static_cast<std::size_t>(step);
            for (const std::string& captured : captured_names(node))
                uses[captured] += static_cast<std::size_t>(step);
        };
        for (const auto& node : graph.nodes)
            count(*node, 1);
        for (const ValueInfo& output : graph.outputs)
            ++uses[output.name];
        std::vector<std::string> unread;
        for (const QuantizedWeight& weight : plan_.weights)
            unread.push_back(weight.value);
        while (!unread.empty()) {
            const std::string value = std::move(unread.back());
            unread.pop_back();
            if (uses[value] > 0) continue;
            if (graph.find_input(value) == nullptr) graph.initializers.erase(value);
            graph.value_infos.erase(value);
            const auto producer = std::ranges::find_if(
                graph.nodes, [&](const auto& node) { return node->outputs.size() == 1 && node->outputs[0] == value; });
            if (producer == graph.nodes.end()) continue;
            count(**producer, -1);
            unread.insert(unread.end(), (*producer)->inputs.begin(), (*producer)->inputs.end());
            graph.nodes.erase(producer);
        }
    }

    void write_metadata() {
        Json json = Json::object();
        json["target"] = to_string(plan_.target);
        json["activations"] = plan_.activations.symmetric ? "int8" : "uint8";
        json["weights"] = "int8";
        if (options_.weight_range != WeightRange::full) json["weight_range"] = to_string(options_.weight_range);
        json["weight_granularity"] = to_string(plan_.granularity);
        for (const auto& [key, value] : options_.provenance.items())
            json[key] = value;
        json["quantized_nodes"] = plan_.quantized_nodes;
        json["total_nodes"] = plan_.heavy_nodes;
        json["activation_tensors"] = plan_.tensors.size();
        if (profile_of(plan_.target).zero_point_from_zero) {
            json["tensors_from_zero"] = std::ranges::count_if(
                plan_.tensors, [&](const QuantizedTensor& tensor) { return plan_.groups[tensor.group].from_zero; });
        }
        json["weight_tensors"] = plan_.weights.size();
        model_.set_metadata("lathe.quantization", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }

    std::string fresh(const std::string& stem) {
        // unique_name walks the whole graph: only where the plain name is taken.
        if (!names_ready_) {
            names_ = defined_names(model_.graph);
            for (const auto& node : model_.graph.nodes) {
                for_each_subgraph(*node, [&](const Graph& body) { collect_names(body); });
            }
            names_ready_ = true;
        }
        std::string name = stem;
        for (int i = 1; !names_.insert(name).second; ++i)
            name = stem + "_" + std::to_string(i);
        return name;
    }

    void collect_names(const Graph& body) {
        for (const std::string& name : defined_names(body))
            names_.insert(name);
        for (const auto& node : body.nodes) {
            for_each_subgraph(*node, [&](const Graph& inner) { collect_names(inner); });
        }
    }

    void add_constant(Tensor tensor) {
        std::string name = tensor.name;
        model_.graph.initializers.insert_or_assign(std::move(name), std::move(tensor));
    }

    void copy_info(const std::string& from, const std::string& to, DataType type, const Shape& shape) {
        ValueInfo info;
        if (const auto known = model_.graph.info(from)) info.doc = known->doc;
        info.name = to;
        info.type = type;
        info.dims.emplace();
        for (const std::int64_t size : shape)
            info.dims->push_back(Dimension::of(size));
        model_.graph.value_infos[to] = std::move(info);
    }

    void redirect(const std::vector<Edge>& readers, const std::string& value) {
        for (const Edge& edge : readers)
            model_.graph.nodes.at(edge.node)->inputs.at(edge.input) = value;
    }

    static Node make_node(const char* op_type, const std::string& stem, std::vector<std::string> inputs,
                          const std::string& output) {
        Node node;
        node.op_type = op_type;
        node.name = stem + "_" + op_type;
        node.inputs = std::move(inputs);
        node.outputs = {output};
        return node;
    }

    const QuantizationPlan& plan_;
    const InsertOptions& options_;
    Model model_;
    std::vector<Node> at_start_;
    std::unordered_map<std::size_t, std::vector<Node>> before_;
    std::unordered_map<std::size_t, std::vector<Node>> after_;
    std::unordered_set<std::string> names_;
    bool names_ready_ = false;
};

} // namespace

Result<Model> insert_quantization(const Model& model, const QuantizationPlan& plan,
                                  const std::map<std::string, Range>& ranges, const InsertOptions& options) {
    return Inserter(model, plan, options).run(ranges);
}

} // namespace lathe
