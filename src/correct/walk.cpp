#include "correct/walk.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "graph/subgraphs.hpp"

namespace lathe {
namespace {

std::vector<std::string> read_by(const Node& node) {
    std::vector<std::string> names;
    for (const std::string& input : node.inputs) {
        if (!input.empty()) names.push_back(input);
    }
    for (std::string& captured : captured_names(node))
        names.push_back(std::move(captured));
    return names;
}

} // namespace

Walk::Walk(Model model, std::size_t threads, Progress& progress, std::shared_ptr<SpareMemory> spare)
    : model_(std::make_unique<Model>(std::move(model))), index_(std::make_unique<EdgeIndex>(model_->graph)),
      threads_(threads), progress_(&progress), spare_(std::move(spare)) {
    const auto& nodes = model_->graph.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (const std::string& name : read_by(*nodes[i]))
            last_use_[name] = i;
    }
}

Walk::~Walk() {
    if (!spare_) return;
    for (auto& [name, batches] : values_)
        keep_memory(batches);
}

void Walk::keep_memory(Batches& batches) {
    for (HostTensor& each : batches)
        spare_->push_back(std::move(each.bytes));
}

Result<Walk> Walk::start(Model model, std::map<std::string, Batches> inputs, std::size_t threads, Progress& progress,
                         std::shared_ptr<SpareMemory> spare) {
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        const auto given = inputs.find(input.name);
        if (given == inputs.end() || given->second.empty()) {
            return Error{ErrorCode::not_found, "there are no samples for an input", input.name, ""};
        }
    }
    if (!spare) spare = std::make_shared<SpareMemory>();
    Walk walk(std::move(model), threads, progress, std::move(spare));
    walk.values_ = std::move(inputs);
    return walk;
}

bool Walk::is_constant(const std::string& name) const {
    return model_->graph.initializer(name) != nullptr || index_->is_constant(name);
}

const Batches* Walk::value(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
}

void Walk::set_constant(Tensor tensor) {
    std::string name = tensor.name;
    model_->graph.initializers.insert_or_assign(std::move(name), std::move(tensor));
}

void Walk::set_input(const std::string& output, std::size_t input, std::string value) {
    auto& inputs = model_->graph.nodes.at(index_->producer(output).value())->inputs;
    if (inputs.size() <= input) inputs.resize(input + 1);
    inputs[input] = std::move(value);
}

// Nodes that read constants alone run (are folded) in the piece that needs them, not in the one in which they stand:
// a weight's DequantizeLinear often stands in front of the stop at which the weight changes.
Model Walk::piece(std::size_t end, const std::set<std::string>& also, std::vector<std::string>& reads) const {
    const Graph& graph = model_->graph;
    std::set<std::size_t> taken;
    std::unordered_set<std::string> computed;
    std::vector<std::size_t> stack;
    Model part;
    for (std::size_t i = next_; i < end; ++i) {
        const Node& node = *graph.nodes[i];
        if (std::ranges::all_of(node.outputs, [&](const auto& output) { return is_constant(output); })) continue;
        stack.push_back(i);
        for (const std::string& output : node.outputs) {
            computed.insert(output);
            const auto last = last_use_.find(output);
            if ((last == last_use_.end() || last->second < end) && !also.contains(output)) continue;
            part.graph.outputs.push_back(graph.info_or_name(output));
        }
    }
    std::set<std::string> from_before;
    while (!stack.empty()) {
        const std::size_t at = stack.back();
        stack.pop_back();
        if (!taken.insert(at).second) continue;
        for (const std::string& name : read_by(*graph.nodes[at])) {
            if (const Tensor* constant = graph.initializer(name)) {
                part.graph.initializers.insert_or_assign(name, *constant);
            } else if (is_constant(name)) {
                stack.push_back(index_->producer(name).value());
            } else if (!computed.contains(name)) {
                from_before.insert(name);
            }
        }
    }
    for (const std::size_t at : taken)
        part.graph.add(*graph.nodes[at]);
    part.ir_version = model_->ir_version;
    part.opsets = model_->opsets;
    part.opaque_functions = model_->opaque_functions;
    part.graph.name = "piece";
    reads.assign(from_before.begin(), from_before.end());
    return part;
}

Result<void> Walk::stop_before(const std::string& output, const std::set<std::string>& also) {
    const auto found = index_->producer(output);
    if (!found) return Error{ErrorCode::not_found, "the network computes no such value", output, ""};
    const std::size_t end = *found;
    if (end <= next_) return {};
    std::vector<std::string> reads;
    Model part = piece(end, also, reads);
    if (!part.graph.outputs.empty()) {
        std::vector<Given> given;
        for (const std::string& name : reads) {
            const Batches* batches = value(name);
            if (batches == nullptr) {
                return Error{ErrorCode::internal, "a piece of the network reads what was not computed", name, ""};
            }
            given.emplace_back(name, *batches);
        }
        const std::vector<ValueInfo> outputs = part.graph.outputs;
        LATHE_TRY(std::vector<Batches> computed,
                  run_batches(std::move(part), given, {threads_, Precision::float32, spare_.get(), *progress_}));
        for (std::size_t i = 0; i < outputs.size(); ++i)
            values_[outputs[i].name] = std::move(computed[i]);
    }
    next_ = end;
    drop_before(end, also);
    return {};
}

/// Forgets what no node from `end` on reads, and keeps its memory for what comes.
void Walk::drop_before(std::size_t end, const std::set<std::string>& also) {
    for (auto entry = values_.begin(); entry != values_.end();) {
        const auto last = last_use_.find(entry->first);
        if ((last != last_use_.end() && last->second >= end) || also.contains(entry->first)) {
            ++entry;
            continue;
        }
        keep_memory(entry->second);
        entry = values_.erase(entry);
    }
}

} // namespace lathe
