#include "compare/compare.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "correct/run.hpp"
#include "onnx/onnx.hpp"
#include "passes/verification.hpp"
#include "quantize/given.hpp"
#include "runtime/engine_file.hpp"

namespace lathe {
namespace {

using Values = std::map<std::string, HostTensor>;

const HostTensor* find(const std::vector<HostTensor>& tensors, const std::string& name) {
    const auto found = std::ranges::find(tensors, name, &HostTensor::name);
    return found == tensors.end() ? nullptr : &*found;
}

Error lacks(const Comparand& subject, const std::string& input) {
    return {ErrorCode::mismatch, "there is no value for input " + input, subject.file.string(),
            "both must have the same inputs; --data gives arrays by their names"};
}

Result<Values> run_engine(const Comparand& subject, const std::vector<HostTensor>& inputs) {
    std::vector<const HostTensor*> given;
    for (const IoInfo& input : subject.engine->info().inputs) {
        given.push_back(find(inputs, input.name));
        if (given.back() == nullptr) return lacks(subject, input.name);
    }
    auto outputs = outputs_of(*subject.engine, given);
    if (!outputs) return std::move(outputs).error().in(subject.file.string());
    Values values;
    for (HostTensor& tensor : *outputs) {
        const std::string name = tensor.name;
        values.emplace(name, std::move(tensor));
    }
    return values;
}

Result<Values> run_runner(const Comparand& subject, const std::vector<HostTensor>& inputs, std::size_t threads) {
    std::vector<const HostTensor*> given;
    for (const std::string& name : needed_inputs(subject.model)) {
        given.push_back(find(inputs, name));
        if (given.back() == nullptr) return lacks(subject, name);
    }
    LATHE_TRY(std::vector<HostTensor> outputs, subject.runner(given, threads));
    Values values;
    for (HostTensor& tensor : outputs) {
        const std::string name = tensor.name;
        values.emplace(name, std::move(tensor));
    }
    return values;
}

/// All outputs of the model, by the comparand's interpreter.
Result<std::vector<HostTensor>> interpret(const Comparand& subject, Model model, const std::vector<std::string>& names,
                                          const std::vector<HostTensor>& inputs, std::size_t threads) {
    std::vector<HostTensor> given;
    for (const std::string& name : names) {
        given.push_back(*find(inputs, name));
        declare_input(model, given.back());
    }
    return subject.interpreter(model, given, threads);
}

Result<std::vector<HostTensor>> run_on_backend(Model model, const std::vector<std::string>& names,
                                               const std::vector<Given>& given, std::size_t threads) {
    std::erase_if(model.graph.inputs,
                  [&](const ValueInfo& input) { return std::ranges::find(names, input.name) != names.end(); });
    LATHE_TRY(std::vector<Batches> results, run_batches(std::move(model), given, {.threads = threads}));
    std::vector<HostTensor> outputs;
    for (Batches& each : results)
        outputs.push_back(std::move(each.front()));
    return outputs;
}

/// The outputs and the `seen` values of an ONNX model.
Result<Values> run_model(const Comparand& subject, const std::vector<HostTensor>& inputs,
                         const std::vector<std::string>& seen, std::size_t threads) {
    Model model = subject.model;
    std::vector<Given> given;
    const std::vector<std::string> names = needed_inputs(model);
    for (const std::string& name : names) {
        const HostTensor* tensor = find(inputs, name);
        if (tensor == nullptr) return lacks(subject, name);
        given.emplace_back(name, std::span(tensor, 1));
    }
    std::unordered_set<std::string> asked;
    for (const ValueInfo& output : model.graph.outputs)
        asked.insert(output.name);
    for (const std::string& name : seen) {
        if (!asked.insert(name).second) continue;
        ValueInfo info;
        info.name = name;
        info.type = DataType::float32;
        model.graph.outputs.push_back(std::move(info));
    }
    const std::vector<ValueInfo> outputs = model.graph.outputs;
    Result<std::vector<HostTensor>> results = subject.interpreter
                                                  ? interpret(subject, std::move(model), names, inputs, threads)
                                                  : run_on_backend(std::move(model), names, given, threads);
    if (!results) return std::move(results).error().in(subject.file.string());
    Values values;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        HostTensor tensor = std::move((*results)[i]);
        tensor.name = outputs[i].name;
        values.emplace(outputs[i].name, std::move(tensor));
    }
    return values;
}

Result<Values> run(const Comparand& subject, const std::vector<HostTensor>& inputs,
                   const std::vector<std::string>& seen, std::size_t threads) {
    if (subject.runner) return run_runner(subject, inputs, threads);
    return subject.engine ? run_engine(subject, inputs) : run_model(subject, inputs, seen, threads);
}

std::vector<std::string> output_names(const Comparand& subject) {
    std::vector<std::string> names;
    if (subject.engine) {
        for (const IoInfo& output : subject.engine->info().outputs)
            names.push_back(output.name);
    } else {
        for (const ValueInfo& output : subject.model.graph.outputs)
            names.push_back(output.name);
    }
    return names;
}

/// The second model's output for each of the first's: of the same name, or, where no name is the same, at the same
/// place.
Result<std::map<std::string, std::string>> pair_outputs(const Comparand& a, const Comparand& b) {
    const std::vector<std::string> of_a = output_names(a);
    const std::vector<std::string> of_b = output_names(b);
    std::map<std::string, std::string> pairs;
    for (const std::string& name : of_a) {
        if (std::ranges::find(of_b, name) != of_b.end()) pairs[name] = name;
    }
    if (!pairs.empty()) return pairs;
    if (of_a.size() != of_b.size()) {
        return Error{ErrorCode::mismatch,
                     "the models have no output name in common, and " + std::to_string(of_a.size()) + " and " +
                         std::to_string(of_b.size()) + " outputs",
                     a.file.string() + " and " + b.file.string(), "compare models of the same outputs"};
    }
    for (std::size_t i = 0; i < of_a.size(); ++i)
        pairs[of_a[i]] = of_b[i];
    return pairs;
}

/// Float activations that nodes compute, by name; none of an engine.
std::vector<std::string> visible_values(const Comparand& subject, bool outputs_only) {
    if (subject.engine || subject.runner || outputs_only) return {};
    std::vector<std::string> names = float_activations(subject.model);
    std::erase_if(names, [&](const std::string& name) { return subject.model.graph.find_input(name) != nullptr; });
    return names;
}

/// By the graph, of an engine by the one inside it.
std::unordered_map<std::string, const Node*> producers_of(const Comparand& subject) {
    std::unordered_map<std::string, const Node*> producers;
    for (const auto& node : subject.model.graph.nodes) {
        for (const std::string& output : node->outputs)
            producers.emplace(output, node.get());
    }
    return producers;
}

/// Every value of `a` in topological order: node outputs of a model, outputs of an engine.
std::vector<std::string> order_of(const Comparand& a) {
    if (a.engine || a.runner) return output_names(a);
    std::vector<std::string> names;
    for (const auto& node : a.model.graph.nodes)
        names.insert(names.end(), node->outputs.begin(), node->outputs.end());
    return names;
}

void fix_shape(ValueInfo& input, const Shape& shape) {
    input.dims.emplace();
    for (const std::int64_t size : shape)
        input.dims->push_back(Dimension::of(size));
}

} // namespace

Result<std::vector<HostTensor>> outputs_of(const Engine& engine, const std::vector<const HostTensor*>& inputs) {
    LATHE_TRY(Session session, engine.make_session());
    std::vector<TensorView> views;
    for (const HostTensor* tensor : inputs) {
        // The session only reads it.
        auto* const bytes =
            const_cast<std::byte*>(tensor->bytes.data()); // NOLINT(cppcoreguidelines-pro-type-const-cast)
        views.push_back({tensor->name, tensor->type, tensor->shape, {bytes, tensor->bytes.size()}});
    }
    LATHE_TRY(const auto outputs, session.run(views));
    std::vector<HostTensor> copies;
    for (const TensorView& view : outputs) {
        HostTensor tensor;
        tensor.name = view.name;
        tensor.type = view.type;
        tensor.shape = view.shape;
        tensor.bytes.assign(view.bytes.begin(), view.bytes.end());
        copies.push_back(std::move(tensor));
    }
    return copies;
}

void declare_input(Model& model, const HostTensor& value) {
    const auto declared = std::ranges::find(model.graph.inputs, value.name, &ValueInfo::name);
    ValueInfo& info = declared == model.graph.inputs.end() ? model.graph.inputs.emplace_back() : *declared;
    info.name = value.name;
    info.type = value.type;
    fix_shape(info, value.shape);
}

std::vector<std::string> needed_inputs(const Model& model) {
    std::vector<std::string> names;
    for (const ValueInfo& input : model.graph.inputs) {
        if (!model.graph.initializers.contains(input.name)) names.push_back(input.name);
    }
    return names;
}

Result<Comparand> load_comparand(const std::filesystem::path& file) {
    Comparand subject;
    subject.file = file;
    if (!is_engine_file(file)) {
        LATHE_TRY(subject.model, load_onnx(file));
        return subject;
    }
    LATHE_TRY(Engine engine, Engine::load(file));
    LATHE_TRY(ModelPtr model, engine.model());
    subject.model = std::move(*model);
    subject.engine = std::move(engine);
    return subject;
}

const ComparedTensor* Comparison::first_past() const {
    const auto found = std::ranges::find_if(tensors, [](const auto& each) { return each.difference.past; });
    return found == tensors.end() ? nullptr : &*found;
}

Result<std::vector<HostTensor>> inputs_for(const Comparand& a, const Comparand& b,
                                           const std::map<std::string, Shape>& shapes, std::uint64_t seed) {
    Model model;
    model = a.model;
    for (const auto& [name, shape] : shapes) {
        if (model.graph.find_input(name) == nullptr) {
            return Error{ErrorCode::invalid_argument, "the model has no input of this name", name,
                         "lathe inspect names the inputs"};
        }
    }
    for (ValueInfo& input : model.graph.inputs) {
        for (const Comparand* subject : {&a, &b}) {
            if (!subject->engine) continue;
            for (const IoInfo& io : subject->engine->info().inputs) {
                if (io.name == input.name) fix_shape(input, io.range.opt);
            }
        }
        if (const auto given = shapes.find(input.name); given != shapes.end()) fix_shape(input, given->second);
    }
    return random_inputs(model, seed, 0);
}

Result<Comparison> compare(const Comparand& a, const Comparand& b, const std::vector<HostTensor>& inputs,
                           const CompareOptions& options) {
    LATHE_TRY(const auto pairs, pair_outputs(a, b));
    const std::vector<std::string> seen_a = visible_values(a, options.outputs_only);
    const std::vector<std::string> seen_b = visible_values(b, options.outputs_only);
    const std::unordered_set<std::string> names_b(seen_b.begin(), seen_b.end());
    std::vector<std::string> common;
    std::ranges::copy_if(seen_a, std::back_inserter(common), [&](const auto& name) { return names_b.contains(name); });

    Comparison result;
    result.only_a = seen_a.size() - common.size();
    result.only_b = seen_b.size() - common.size();
    LATHE_TRY(result.values_a, run(a, inputs, common, options.threads));
    LATHE_TRY(const Values values_b, run(b, inputs, common, options.threads));
    const auto makers_a = producers_of(a);
    const auto makers_b = producers_of(b);
    const std::unordered_set<std::string> compared(common.begin(), common.end());
    std::unordered_set<std::string> done;
    for (const std::string& name : order_of(a)) {
        const auto pair = pairs.find(name);
        const bool output = pair != pairs.end();
        if ((!output && !compared.contains(name)) || !done.insert(name).second) continue;
        const std::string& other = output ? pair->second : name;
        const auto of_a = result.values_a.find(name);
        const auto of_b = values_b.find(other);
        if (of_a == result.values_a.end() || of_b == values_b.end()) continue;
        ComparedTensor tensor;
        tensor.difference = difference_of(of_a->second, of_b->second, options.tolerance);
        tensor.output = output;
        if (output) {
            result.outputs_a.push_back(of_a->second);
            result.outputs_b.push_back(of_b->second);
            result.outputs_b.back().name = name;
        }
        if (const auto maker = makers_a.find(name); maker != makers_a.end()) {
            tensor.node_a = maker->second->label();
            tensor.op_a = maker->second->op_type;
        }
        if (const auto maker = makers_b.find(other); maker != makers_b.end()) {
            tensor.node_b = maker->second->label();
            tensor.op_b = maker->second->op_type;
        }
        result.tensors.push_back(std::move(tensor));
    }
    if (result.tensors.empty()) {
        return Error{ErrorCode::mismatch, "the models have no value to compare",
                     a.file.string() + " and " + b.file.string(), "compare models of the same outputs"};
    }
    // By the order of the model's outputs, not of the nodes that make them.
    std::map<std::string, std::size_t> places;
    for (const std::string& name : output_names(a))
        places.emplace(name, places.size());
    for (auto* outputs : {&result.outputs_a, &result.outputs_b})
        std::ranges::stable_sort(*outputs, {}, [&](const HostTensor& output) { return places.at(output.name); });
    for (const HostTensor& input : inputs)
        result.values_a.insert_or_assign(input.name, input);
    return result;
}

Json to_json(const ComparedTensor& tensor) {
    Json json = to_json(tensor.difference);
    json["output"] = tensor.output;
    if (!tensor.op_a.empty()) json["first"] = {{"node", tensor.node_a}, {"op_type", tensor.op_a}};
    if (!tensor.op_b.empty()) json["second"] = {{"node", tensor.node_b}, {"op_type", tensor.op_b}};
    return json;
}

} // namespace lathe
