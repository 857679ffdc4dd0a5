#include "backends/cuda/plan/cut.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "backends/cuda/plan/lines.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "graph/subgraphs.hpp"

namespace lathe::cuda {
namespace {

/// Lowering a part may find what lowering the whole did not: patterns reach over what was cut.
constexpr int max_rounds = 12;

bool all_fixed(const Graph& graph, const std::string& value) {
    const auto shape = graph.info_or_name(value).shape();
    return shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size >= 0; });
}

std::vector<std::string> read_by(const Node& node) {
    std::vector<std::string> names = node.inputs;
    for (std::string& name : captured_names(node))
        names.push_back(std::move(name));
    std::erase(names, "");
    return names;
}

bool is_worth_the_device(const Node& node) {
    static const std::unordered_set<std::string_view> types{"Conv", "ConvTranspose", "Gemm",   "MatMul", "Attention",
                                                            "LSTM", "GRU",           "Einsum", "RNN"};
    return node.domain.empty() && types.contains(node.op_type);
}

/// The model with all sizes that can be known, weights inside.
Result<Model> specialised_whole(const Prepared& prepared, Model model) {
    LATHE_TRY(const std::size_t inputs, input_count(model));
    Graph& graph = model.graph;
    for (std::size_t i = inputs; i < graph.inputs.size(); ++i) {
        const auto found = prepared.large.find(graph.inputs[i].name);
        if (found != prepared.large.end()) graph.initializers.insert_or_assign(found->first, found->second);
    }
    graph.inputs.resize(inputs);
    // Outputs that no node makes come from a node of their own, so that each belongs to a part.
    for (ValueInfo& output : graph.outputs) {
        const bool made = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
            return std::find(node->outputs.begin(), node->outputs.end(), output.name) != node->outputs.end();
        });
        if (made) continue;
        if (const Tensor* constant = graph.initializer(output.name)) {
            const std::string held = graph.unique_name(output.name + "_constant");
            graph.initializers.emplace(held, *constant);
            graph.initializers.erase(output.name);
            graph.replace_uses(output.name, held);
            Node identity;
            identity.op_type = "Identity";
            identity.inputs = {held};
            identity.outputs = {output.name};
            graph.add(std::move(identity));
        } else {
            return Error{ErrorCode::unsupported, "the output is an input", output.name, "leave it out of the model"};
        }
    }
    return model;
}

class Cutter {
public:
    explicit Cutter(Model model) : model_(std::move(model)) { index(); }

    /// Takes over what a survey of this model, or of a part of it, refused.
    bool take_over(const Survey& survey) {
        const std::size_t before = reasons_.size();
        for (const Refusal& refusal : survey.refusals) {
            bool found = false;
            for (const std::string& output : refusal.outputs) {
                const auto node = producer_of(output);
                if (node == producers_.end()) continue;
                put_on_cpu(node->second, refusal.reason);
                found = true;
            }
            if (!found) take_over_rewritten(survey, refusal);
        }
        return reasons_.size() > before;
    }

    /// Parts of nodes as they are placed now.
    Result<Cut> parts() {
        place();
        if (std::none_of(model_.graph.nodes.begin(), model_.graph.nodes.end(),
                         [&](const auto& node) { return on_gpu(node.get()) && is_worth_the_device(*node); })) {
            std::string why;
            for (const auto& node : model_.graph.nodes)
                if (const auto reason = reasons_.find(node.get()); reason != reasons_.end())
                    why += "\n" + node->op_type + " " + node->label() + ": " + reason->second;
            return Error{ErrorCode::unsupported, "no product or convolution is left for the GPU:" + why, "",
                         "build for the CPU"};
        }
        Cut made;
        std::set<int> stages;
        for (const auto& [node, stage] : stages_)
            stages.insert(stage);
        for (const int stage : stages)
            made.parts.push_back(part(stage));
        std::set<std::string> own;
        for (const ValueInfo& input : model_.graph.inputs)
            own.insert(input.name);
        std::set<std::string> copied;
        for (const Part& part : made.parts)
            for (const ValueInfo& input : part.model.graph.inputs)
                if (!own.contains(input.name)) copied.insert(input.name);
        made.copied.assign(copied.begin(), copied.end());
        return made;
    }

private:
    void index() {
        for (const auto& node : model_.graph.nodes)
            for (const std::string& output : node->outputs)
                if (!output.empty()) producers_[output] = node.get();
    }

    /// What makes a value of the model where it is surveyed, or the line that an image there is written for.
    std::unordered_map<std::string, const Node*>::const_iterator producer_of(const std::string& value) const {
        const auto found = producers_.find(value);
        return found != producers_.end() ? found : producers_.find(line_of(value));
    }

    bool on_gpu(const Node* node) const { return !reasons_.contains(node); }
    void put_on_cpu(const Node* node, const std::string& reason) { reasons_.try_emplace(node, reason); }

    /// A refused node that writing spellings as one made: the nodes that it stands for go, from the nearest result
    /// that both have back to what both have.
    void take_over_rewritten(const Survey& survey, const Refusal& refusal) {
        std::unordered_set<std::string> left;
        for (const auto& node : survey.unified.graph.nodes)
            for (const std::string& output : node->outputs)
                left.insert({output, line_of(output)});
        std::vector<std::string> open(refusal.outputs);
        std::unordered_set<std::string> seen(open.begin(), open.end());
        std::vector<const Node*> ends;
        for (std::size_t i = 0; i < open.size(); ++i) {
            for (const auto& node : survey.unified.graph.nodes) {
                if (std::find(node->inputs.begin(), node->inputs.end(), open[i]) == node->inputs.end()) continue;
                for (const std::string& output : node->outputs) {
                    const auto known = producer_of(output);
                    if (known != producers_.end())
                        ends.push_back(known->second);
                    else if (seen.insert(output).second)
                        open.push_back(output);
                }
            }
        }
        while (!ends.empty()) {
            const Node* node = ends.back();
            ends.pop_back();
            if (!on_gpu(node)) continue;
            put_on_cpu(node, refusal.reason);
            for (const std::string& input : node->inputs) {
                const auto producer = producers_.find(input);
                if (producer != producers_.end() && !left.contains(input)) ends.push_back(producer->second);
            }
        }
    }

    /// Stages: even ones on the GPU, odd ones on the CPU, each behind all that it reads.
    void number() {
        stages_.clear();
        for (const auto& node : model_.graph.nodes) {
            const bool gpu = on_gpu(node.get());
            int stage = gpu ? 0 : -1;
            for (const std::string& name : read_by(*node)) {
                const auto producer = producers_.find(name);
                if (producer == producers_.end()) continue;
                const int before = stages_.at(producer->second);
                const bool same = on_gpu(producer->second) == gpu;
                stage = std::max(stage, same ? before : before + 1);
            }
            stages_[node.get()] = stage;
        }
        // What the CPU makes for later parts of the CPU alone is made there.
        const Uses uses(model_.graph);
        for (auto at = model_.graph.nodes.rbegin(); at != model_.graph.nodes.rend(); ++at) {
            const Node* node = at->get();
            if (on_gpu(node)) continue;
            std::optional<int> latest;
            bool movable = true;
            for (const std::string& output : node->outputs) {
                if (model_.graph.is_output(output)) movable = false;
                for (const Node* reader : uses.consumers(output)) {
                    if (on_gpu(reader)) movable = false;
                    latest = std::min(latest.value_or(stages_.at(reader)), stages_.at(reader));
                }
            }
            if (movable && latest) stages_[node] = *latest;
        }
    }

    void place() {
        for (bool changed = true; changed;) {
            changed = false;
            number();
            std::map<int, bool> heavy;
            for (const auto& node : model_.graph.nodes)
                heavy[stages_.at(node.get())] |= is_worth_the_device(*node);
            int open_from = std::numeric_limits<int>::max();
            for (const auto& node : model_.graph.nodes) {
                for (const std::string& name : read_by(*node)) {
                    const auto producer = producers_.find(name);
                    if (producer == producers_.end()) continue;
                    const int before = stages_.at(producer->second);
                    if (before != stages_.at(node.get()) && !all_fixed(model_.graph, name))
                        open_from = std::min(open_from, before);
                }
            }
            for (const auto& node : model_.graph.nodes) {
                const int stage = stages_.at(node.get());
                if (!on_gpu(node.get())) continue;
                if (stage > open_from) {
                    put_on_cpu(node.get(), "sizes that the part before it computes would have to be handed on");
                    changed = true;
                } else if (!heavy.at(stage) && (stage > 0 || any_heavy_elsewhere(heavy))) {
                    put_on_cpu(node.get(), "there is too little work around it to be worth the copies");
                    changed = true;
                }
            }
        }
    }

    static bool any_heavy_elsewhere(const std::map<int, bool>& heavy) {
        return std::any_of(heavy.begin(), heavy.end(), [](const auto& stage) { return stage.second; });
    }

    Part part(int stage) const {
        Part made;
        made.gpu = stage % 2 == 0;
        made.model.ir_version = model_.ir_version;
        made.model.opsets = model_.opsets;
        made.model.producer_name = model_.producer_name;
        made.model.opaque_functions = model_.opaque_functions;
        Graph& graph = made.model.graph;
        graph.name = model_.graph.name;
        std::unordered_set<std::string> own;
        for (const auto& node : model_.graph.nodes) {
            if (stages_.at(node.get()) != stage) continue;
            own.insert(node->outputs.begin(), node->outputs.end());
            graph.add(Node(*node));
            if (const auto reason = reasons_.find(node.get()); reason != reasons_.end())
                made.reasons.push_back(node->op_type + " " + node->label() + ": " + reason->second);
        }
        std::unordered_set<std::string> taken;
        for (const auto& node : graph.nodes) {
            for (const std::string& name : read_by(*node)) {
                if (own.contains(name) || !taken.insert(name).second) continue;
                if (const Tensor* constant = model_.graph.initializer(name)) {
                    graph.initializers.emplace(name, *constant);
                } else {
                    graph.inputs.push_back(model_.graph.info_or_name(name));
                }
            }
        }
        // In order of the model's outputs, then as they are made.
        for (const ValueInfo& output : model_.graph.outputs)
            if (own.contains(output.name)) graph.outputs.push_back(model_.graph.info_or_name(output.name));
        for (const auto& node : model_.graph.nodes) {
            if (stages_.at(node.get()) == stage) continue;
            for (const std::string& name : read_by(*node)) {
                if (!own.contains(name) || graph.is_output(name)) continue;
                graph.outputs.push_back(model_.graph.info_or_name(name));
            }
        }
        for (const auto& node : graph.nodes)
            for (const std::string& output : node->outputs)
                if (!graph.is_output(output))
                    if (auto info = model_.graph.info(output)) graph.value_infos.emplace(output, std::move(*info));
        return made;
    }

    Model model_;
    std::unordered_map<std::string, const Node*> producers_;
    std::unordered_map<const Node*, std::string> reasons_; ///< of those on the CPU
    std::unordered_map<const Node*, int> stages_;
};

} // namespace

Result<Cut> cut(const Model& model, const std::vector<Shape>& input_shapes, Precision precision) {
    LATHE_TRY(Prepared prepared, prepare(model, precision));
    LATHE_TRY(Survey whole, survey(prepared, input_shapes));
    LATHE_TRY(Model specialised, specialised_whole(prepared, whole.specialised));
    Cutter cutter(std::move(specialised));
    cutter.take_over(whole);
    for (int round = 0; round < max_rounds; ++round) {
        LATHE_TRY(Cut made, cutter.parts());
        bool refused = false;
        for (const Part& part : made.parts) {
            if (!part.gpu) continue;
            LATHE_TRY(Prepared ready, prepare(part.model, precision));
            std::vector<Shape> shapes;
            for (const ValueInfo& input : part.model.graph.inputs)
                shapes.push_back(input.shape().value_or(Shape{}));
            LATHE_TRY(const Survey again, survey(ready, shapes));
            refused |= cutter.take_over(again);
            if (!again.refusals.empty() && !refused) {
                return Error{ErrorCode::unsupported, again.refusals.front().reason,
                             again.refusals.front().op_type + " " + again.refusals.front().node, "build for the CPU"};
            }
        }
        if (!refused) return made;
    }
    return Error{ErrorCode::unsupported, "no way to cut the model between GPU and CPU was found", "",
                 "build for the CPU"};
}

} // namespace lathe::cuda
