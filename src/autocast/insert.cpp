#include "autocast/insert.hpp"

#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autocast/neighbours.hpp"
#include "graph/subgraphs.hpp"
#include "onnx/op_types.hpp"
#include "support/half.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

Tensor narrowed(const Tensor& tensor, const std::string& name, const HalfFormat& format) {
    std::vector<std::uint16_t> bits;
    std::span<const float> values = tensor.values<float>();
    const auto masks = clamped_masks(values, format.type);
    if (masks) values = *masks;
    bits.reserve(values.size());
    for (const float value : values)
        bits.push_back(format.type == DataType::float16 ? half_from_float(value) : bfloat16_from_float(value));
    return Tensor::of<std::uint16_t>(name, format.type, tensor.shape(), bits);
}

/// The two names a float32 value may have, and which of them its producer writes.
struct Forms {
    std::string full; ///< in FP32
    std::string half;
    bool home_is_half = false;
    bool full_read = false;
    bool half_read = false;
};

class Inserter {
public:
    Inserter(const Model& model, const AutocastPlan& plan, const AutocastOptions& options)
        : options_(options), format_(options.format), opset_(model.opset()) {
        result_.model = model;
        for (const CastDecision& decision : plan.decisions) {
            if (decision.is_cast()) cast_.insert(decision.index);
        }
    }

    Result<CastModel> run() {
        name_values();
        LATHE_CHECK(keep_captured());
        rewire();
        declare_types();
        place_casts();
        for (const std::string& name : replaced_)
            graph().initializers.erase(name);
        return std::move(result_);
    }

private:
    Graph& graph() { return result_.model.graph; }

    /// Every float32 value of the top graph gets its two names.
    void name_values() {
        for (const ValueInfo& input : graph().inputs) {
            if (input.type == DataType::float32) declare(input.name, asked_for_half());
        }
        for (const auto& [name, tensor] : graph().initializers) {
            if (tensor.type() == DataType::float32 && !forms_.contains(name)) declare(name, false);
        }
        for (std::size_t i = 0; i < graph().nodes.size(); ++i) {
            const Node& node = *graph().nodes[i];
            for (const std::string& output : node.outputs) {
                if (is_float32(graph(), output)) declare(output, cast_.contains(i));
            }
        }
    }
    bool asked_for_half() const { return options_.io_type == format_.type; }
    void declare(const std::string& name, bool home_is_half) {
        Forms forms;
        const bool at_edge = graph().find_input(name) != nullptr || graph().is_output(name);
        const std::string suffix = "_" + std::string(format_.name);
        const bool half_has_the_name = at_edge && asked_for_half();
        forms.half = half_has_the_name ? name : graph().unique_name(name + suffix);
        forms.full = half_has_the_name ? graph().unique_name(name + "_fp32") : name;
        forms.home_is_half = home_is_half;
        forms_.emplace(name, std::move(forms));
    }

    /// Bodies read the FP32 form under its old name.
    Result<void> keep_captured() {
        for (const auto& node : graph().nodes) {
            for (const std::string& name : captured_names(*node)) {
                const auto found = forms_.find(name);
                if (found == forms_.end()) continue;
                if (found->second.full != name) {
                    return Error{ErrorCode::unsupported,
                                 "the body of a control-flow node reads a value whose type would change",
                                 node->label() + ", " + name, "keep the types of inputs and outputs: --io-types keep"};
                }
                found->second.full_read = true;
            }
        }
        return {};
    }

    std::string read(const std::string& value, bool half) {
        const auto found = forms_.find(value);
        if (found == forms_.end()) return value;
        (half ? found->second.half_read : found->second.full_read) = true;
        return half ? found->second.half : found->second.full;
    }

    void rewire() {
        for (std::size_t i = 0; i < graph().nodes.size(); ++i) {
            Node& node = *graph().nodes[i];
            const bool half = cast_.contains(i);
            const Node before = node;
            for (std::size_t k = 0; k < node.inputs.size(); ++k) {
                if (!forms_.contains(before.inputs[k])) continue;
                const auto formal = half ? formal_input(before, opset_, k, format_.type) : std::nullopt;
                node.inputs[k] = read(before.inputs[k], formal && formal->allowed);
            }
            for (std::string& output : node.outputs) {
                const auto found = forms_.find(output);
                if (found != forms_.end()) output = half ? found->second.half : found->second.full;
            }
            if (half && node.is("Cast") && forms_.contains(before.output(0))) {
                node.set("to", static_cast<std::int64_t>(format_.type));
            }
        }
        for (const ValueInfo& output : graph().outputs) {
            const auto found = forms_.find(output.name);
            if (found == forms_.end()) continue;
            (found->second.half == output.name ? found->second.half_read : found->second.full_read) = true;
        }
    }

    void declare_types() {
        for (auto* infos : {&graph().inputs, &graph().outputs}) {
            for (ValueInfo& info : *infos) {
                const auto found = forms_.find(info.name);
                if (found != forms_.end() && found->second.half == info.name) info.type = format_.type;
            }
        }
        std::map<std::string, ValueInfo> infos;
        for (auto& [name, info] : graph().value_infos) {
            const auto found = forms_.find(name);
            if (found == forms_.end()) {
                infos.emplace(name, info);
                continue;
            }
            const Forms& forms = found->second;
            if (forms.home_is_half || forms.half_read) add_info(infos, info, forms.half, format_.type);
            if (!forms.home_is_half || forms.full_read) add_info(infos, info, forms.full, DataType::float32);
        }
        graph().value_infos = std::move(infos);
    }
    void add_info(std::map<std::string, ValueInfo>& infos, ValueInfo info, const std::string& name, DataType type) {
        if (graph().find_input(name) != nullptr || graph().is_output(name)) return;
        info.name = name;
        info.type = type;
        infos.insert_or_assign(name, std::move(info));
    }

    /// The Cast that makes the form the producer does not write, if anything reads it.
    std::unique_ptr<Node> join(const std::string& value) {
        const Forms& forms = forms_.at(value);
        if (!(forms.home_is_half ? forms.full_read : forms.half_read)) return nullptr;
        auto node = std::make_unique<Node>();
        node->op_type = "Cast";
        node->inputs = {forms.home_is_half ? forms.half : forms.full};
        node->outputs = {forms.home_is_half ? forms.full : forms.half};
        node->name = "autocast/" + node->outputs.front();
        node->set("to", static_cast<std::int64_t>(forms.home_is_half ? DataType::float32 : format_.type));
        ++result_.casts;
        return node;
    }

    void place_casts() {
        std::vector<std::unique_ptr<Node>> nodes;
        const auto append = [&](std::unique_ptr<Node> node) {
            if (node != nullptr) nodes.push_back(std::move(node));
        };
        for (const ValueInfo& input : graph().inputs) {
            if (forms_.contains(input.name)) append(join(input.name));
        }
        for (const auto& [name, forms] : forms_) {
            if (graph().find_input(name) == nullptr && graph().initializer(name) != nullptr) narrow(name, forms);
        }
        std::unordered_map<std::string, std::string> written; // form to value
        for (const auto& [name, forms] : forms_)
            written.emplace(forms.home_is_half ? forms.half : forms.full, name);
        for (auto& node : graph().nodes) {
            const std::vector<std::string> outputs = node->outputs;
            nodes.push_back(std::move(node));
            for (const std::string& output : outputs) {
                const auto value = written.find(output);
                if (value != written.end()) append(join(value->second));
            }
        }
        graph().nodes = std::move(nodes);
    }

    /// A constant needs no Cast: it is written in each form that is read.
    void narrow(const std::string& name, const Forms& forms) {
        const Tensor tensor = *graph().initializer(name);
        if (forms.half_read) {
            ++result_.constants;
            if (forms.half != name) graph().initializers.emplace(forms.half, narrowed(tensor, forms.half, format_));
        }
        if (forms.full != name && forms.full_read) graph().initializers.emplace(forms.full, tensor.renamed(forms.full));
        if (forms.half == name) {
            graph().initializers.insert_or_assign(name, narrowed(tensor, name, format_));
        } else if (forms.half_read && !forms.full_read) {
            replaced_.push_back(name);
        }
    }

    CastModel result_;
    const AutocastOptions& options_;
    const HalfFormat& format_;
    std::int64_t opset_;
    std::unordered_set<std::size_t> cast_;
    std::map<std::string, Forms> forms_; // in the order of names: the result does not depend on hashing
    std::vector<std::string> replaced_;
};

Result<void> check_edges(const Model& model, const AutocastPlan& plan, const AutocastOptions& options) {
    if (options.io_type == DataType::float32) return {};
    for (const TensorFacts& facts : plan.tensors) {
        const bool at_edge = model.graph.find_input(facts.tensor) != nullptr || model.graph.is_output(facts.tensor);
        if (!at_edge || facts.absmax <= options.format.largest) continue;
        return Error{ErrorCode::out_of_range,
                     "an input or output of the model reaches values above " +
                         std::to_string(static_cast<long long>(options.format.largest)),
                     facts.tensor, "keep the types of inputs and outputs: --io-types keep"};
    }
    return {};
}

} // namespace

Result<CastModel> insert_casts(const Model& model, const AutocastPlan& plan, const AutocastOptions& options) {
    if (options.io_type != DataType::float32 && options.io_type != options.format.type) {
        return Error{ErrorCode::invalid_argument,
                     "inputs and outputs can keep their type or take the one the model is cast to", "--io-types",
                     std::string("choose keep or ") + options.format.name};
    }
    LATHE_CHECK(check_edges(model, plan, options));
    return Inserter(model, plan, options).run();
}

} // namespace lathe
