#include "passes/write_casts.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "graph/subgraphs.hpp"
#include "support/half.hpp"
#include "support/score_mask.hpp"

namespace lathe {

namespace {

/// The two names a float32 value may have, and which of them its producer writes.
struct Forms {
    std::string full; ///< in FP32
    std::string half;
    bool home_is_half = false;
    bool full_read = false;
    bool half_read = false;
};

class Writer {
public:
    Writer(Model model, const CastRequest& request) : request_(request) { result_.model = std::move(model); }

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
                if (is_float32(graph(), output)) declare(output, request_.forms[i] == FloatForm::half);
            }
        }
    }
    bool asked_for_half() const { return request_.io_type == request_.half; }
    const char* half_name() const { return request_.half == DataType::float16 ? "_fp16" : "_bf16"; }
    void declare(const std::string& name, bool home_is_half) {
        Forms forms;
        const bool at_edge = graph().find_input(name) != nullptr || graph().is_output(name);
        const bool half_has_the_name = at_edge && asked_for_half();
        forms.half = half_has_the_name ? name : graph().unique_name(name + half_name());
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

    /// Name under which a node reads the value.
    std::string read(const std::string& value, FloatForm form) {
        const auto found = forms_.find(value);
        if (found == forms_.end()) return value;
        Forms& forms = found->second;
        const bool half = form == FloatForm::half || (form == FloatForm::as_written && forms.home_is_half);
        (half ? forms.half_read : forms.full_read) = true;
        return half ? forms.half : forms.full;
    }

    void rewire() {
        for (std::size_t i = 0; i < graph().nodes.size(); ++i) {
            Node& node = *graph().nodes[i];
            const FloatForm form = request_.forms[i];
            const bool half = form == FloatForm::half;
            const Node before = node;
            for (std::size_t k = 0; k < node.inputs.size(); ++k) {
                if (!forms_.contains(before.inputs[k])) continue;
                const bool kept = half && !request_.follows(before, k);
                node.inputs[k] = read(before.inputs[k], kept ? FloatForm::full : form);
            }
            for (std::string& output : node.outputs) {
                const auto found = forms_.find(output);
                if (found != forms_.end()) output = half ? found->second.half : found->second.full;
            }
            if (!half || !forms_.contains(before.output(0))) continue;
            if (node.is("Cast")) node.set("to", static_cast<std::int64_t>(request_.half));
            if (node.is("DequantizeLinear")) node.set("output_dtype", static_cast<std::int64_t>(request_.half));
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
                if (found != forms_.end() && found->second.half == info.name) info.type = request_.half;
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
            if (forms.home_is_half || forms.half_read) add_info(infos, info, forms.half, request_.half);
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
        node->set("to", static_cast<std::int64_t>(forms.home_is_half ? DataType::float32 : request_.half));
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

    Tensor narrowed(const Tensor& tensor, const std::string& name) {
        std::span<const float> values = tensor.values<float>();
        const auto masks = clamped_masks(values, request_.half);
        if (masks) {
            values = *masks;
            result_.clamped.push_back(tensor.name);
        }
        std::vector<std::uint16_t> bits;
        bits.reserve(values.size());
        for (const float value : values)
            bits.push_back(request_.half == DataType::float16 ? half_from_float(value) : bfloat16_from_float(value));
        return Tensor::of<std::uint16_t>(name, request_.half, tensor.shape(), bits);
    }

    /// A constant needs no Cast: it is written in each form that is read.
    void narrow(const std::string& name, const Forms& forms) {
        const Tensor tensor = *graph().initializer(name);
        if (forms.half_read) {
            ++result_.constants;
            if (forms.half != name) graph().initializers.emplace(forms.half, narrowed(tensor, forms.half));
        }
        if (forms.full != name && forms.full_read) graph().initializers.emplace(forms.full, tensor.renamed(forms.full));
        if (forms.half == name) {
            graph().initializers.insert_or_assign(name, narrowed(tensor, name));
        } else if (forms.half_read && !forms.full_read) {
            replaced_.push_back(name);
        }
    }

    CastModel result_;
    const CastRequest& request_;
    std::map<std::string, Forms> forms_; // in the order of names: the result does not depend on hashing
    std::vector<std::string> replaced_;
};

} // namespace

bool is_float32(const Graph& graph, const std::string& value) {
    if (value.empty()) return false;
    if (const Tensor* tensor = graph.initializer(value)) return tensor->type() == DataType::float32;
    const auto info = graph.info(value);
    return info && info->type == DataType::float32;
}

Result<CastModel> write_casts(Model model, const CastRequest& request) {
    return Writer(std::move(model), request).run();
}

} // namespace lathe
