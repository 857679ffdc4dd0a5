// Giving a model another batch size. Most nodes follow their input; those with the old size built in are found by
// shape inference at another size: whatever then does not grow with the batch is either a Reshape whose constant target
// can be made to follow, or stands in the way.

#include <algorithm>
#include <unordered_map>

#include "onnx/onnx.hpp"

namespace lathe {
namespace {

constexpr std::int64_t growth =
    7; ///< the batch size tried is this many times the old; no usual size is such a multiple

bool is_initializer(const Graph& graph, const std::string& name) { return graph.initializers.contains(name); }

/// Axis 0 of every input that has the old batch there.
void set_inputs(Graph& graph, const Dimension& old, const Dimension& batch) {
    for (ValueInfo& input : graph.inputs) {
        if (is_initializer(graph, input.name) || !input.dims || input.dims->empty()) continue;
        if (input.dims->front() == old) input.dims->front() = batch;
    }
    // What outputs were declared to be holds for the old size; inference finds it anew.
    for (ValueInfo& output : graph.outputs) {
        if (!output.dims) continue;
        for (Dimension& dim : *output.dims) {
            if (old.symbol.empty()) {
                dim = Dimension{};
            } else if (dim == old) {
                dim = batch;
            }
        }
    }
}

Result<Model> at_batch(const Model& model, const Dimension& old, const Dimension& batch) {
    Model changed = model;
    set_inputs(changed.graph, old, batch);
    LATHE_CHECK(infer_shapes(changed, {true, false}));
    return changed;
}

std::optional<Shape> shape_of(const Model& model, const std::string& value) {
    const auto info = model.graph.info(value);
    auto shape = info ? info->shape() : std::nullopt;
    if (!shape || element_count(*shape) < 0) return std::nullopt;
    return shape;
}

/// Axis 0 grew with the batch and nothing else did.
bool grew(const Shape& before, const Shape& after) {
    return !before.empty() && before.size() == after.size() && after[0] == before[0] * growth && before[0] > 0 &&
           std::equal(before.begin() + 1, before.end(), after.begin() + 1);
}

const Tensor* constant_of(const Graph& graph, const std::string& value) {
    if (const Tensor* tensor = graph.constant(value)) return tensor;
    for (const auto& node : graph.nodes) {
        if (!node->is("Constant") || node->output(0) != value) continue;
        const Attribute* attribute = node->attribute("value");
        return attribute != nullptr ? std::get_if<Tensor>(&attribute->value) : nullptr;
    }
    return nullptr;
}

/// A Reshape target that follows the batch, given that the data's axis 0 does. Before: target [1, -1], data 1xCxHxW;
/// after: [0, -1]. Before: [12, -1, 64] from 1x8x768; after: [-1, 8, 64]. Rows stay with their sample, because data is
/// row-major and axis 0 is outermost on both sides. Empty if it follows already.
std::optional<std::vector<std::int64_t>> following_target(const Node& node, const std::vector<std::int64_t>& target,
                                                          const Shape& data, const Shape& result) {
    if (target.empty() || target.size() != result.size() || target[0] == -1) return std::nullopt;
    const bool zero_copies = node.int_or("allowzero", 0) == 0;
    if (target[0] == 0 && zero_copies) return std::nullopt;
    if (result[0] <= 0) return std::nullopt;
    std::vector<std::int64_t> changed = target;
    if (target[0] == data[0] && zero_copies) {
        changed[0] = 0;
    } else {
        changed.assign(result.begin(), result.end());
        changed[0] = -1;
        const auto rest = Shape(result.begin() + 1, result.end());
        if (element_count(rest) <= 0) return std::nullopt;
    }
    return changed;
}

/// One sweep over the Reshapes. Returns how many were changed.
Result<std::size_t> fix_reshapes(Model& model, const Model& before, const Model& after) {
    std::size_t fixed = 0;
    for (const auto& node : model.graph.nodes) {
        if (!node->is("Reshape")) continue;
        const Tensor* constant = constant_of(model.graph, node->input(1));
        if (constant == nullptr || constant->type() != DataType::int64) continue;
        const auto data = shape_of(before, node->input(0));
        const auto grown = shape_of(after, node->input(0));
        const auto result = shape_of(before, node->output(0));
        if (!data || !grown || !result || !grew(*data, *grown)) continue;
        const auto target = following_target(*node, constant->to_int64s(), *data, *result);
        if (!target) continue;
        const std::string name = model.graph.unique_name(node->input(1) + "_any_batch");
        const auto rank = static_cast<std::int64_t>(target->size());
        model.graph.initializers.emplace(name, Tensor::of_int64s(name, {rank}, *target));
        node->inputs[1] = name;
        ++fixed;
    }
    return fixed;
}

/// The first node that reads a value that grew but gives none that did.
std::string obstacle(const Model& before, const Model& after) {
    for (const auto& node : before.graph.nodes) {
        const auto any_grew = [&](const std::vector<std::string>& values) {
            return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
                const auto old = shape_of(before, value);
                const auto now = shape_of(after, value);
                return old && now && grew(*old, *now);
            });
        };
        if (node->is("Shape") || node->is("Size")) continue; // they give one number an axis, whatever the size
        if (any_grew(node->inputs) && !any_grew(node->outputs)) return "node " + node->label();
    }
    return "";
}

Error built_in(const Model& before, const Model& after, std::int64_t old, const std::string& detail) {
    return {ErrorCode::unsupported, "the batch size " + std::to_string(old) + " is built into the model" + detail,
            obstacle(before, after), "export the model with a dynamic batch (lathe export --dynamic-batch)"};
}

Result<void> from_size(Model& model, const Dimension& old, const Dimension& batch) {
    const std::int64_t size = *old.size;
    if (size <= 0) {
        return Error{ErrorCode::unsupported, "the batch size is 0", "", "export the model again"};
    }
    LATHE_TRY(const Model before, at_batch(model, old, old));
    Model candidate = model;
    const Dimension larger = Dimension::of(size * growth);
    LATHE_TRY(Model after, at_batch(candidate, old, larger));
    // Each sweep lets the growth reach further; every Reshape is changed once at most.
    for (std::size_t sweep = 0; sweep <= model.graph.nodes.size(); ++sweep) {
        LATHE_TRY(const std::size_t fixed, fix_reshapes(candidate, before, after));
        if (fixed == 0) break;
        LATHE_TRY(after, at_batch(candidate, old, larger));
    }
    for (std::size_t i = 0; i < model.graph.outputs.size(); ++i) {
        const std::string& name = model.graph.outputs[i].name;
        const auto was = shape_of(before, name);
        const auto now = shape_of(after, name);
        if (!was || !now || !grew(*was, *now)) {
            return built_in(before, after, size, ": output " + name + " does not follow it");
        }
    }
    LATHE_TRY(Model changed, at_batch(candidate, old, batch));
    for (ValueInfo& output : changed.graph.outputs) {
        // A -1 in a Reshape leaves the dimension unknown to inference; what was equal to the batch is the batch.
        const auto was = shape_of(before, output.name);
        if (!output.dims || output.dims->size() != was->size()) {
            output.dims = std::vector<Dimension>();
            for (const std::int64_t dim : *was)
                output.dims->push_back(Dimension::of(dim));
            output.dims->front() = Dimension{};
        }
        for (std::size_t axis = 1; axis < was->size(); ++axis)
            (*output.dims)[axis] = Dimension::of((*was)[axis]);
        Dimension& first = output.dims->front();
        if (was->front() == size) {
            first = batch;
        } else if (batch.size) {
            first = Dimension::of(was->front() / size * *batch.size);
        }
    }
    model = std::move(changed);
    return {};
}

} // namespace

Result<void> set_batch_size(Model& model, const Dimension& batch) {
    if (batch.size && *batch.size < 1) {
        return Error{ErrorCode::invalid_argument, "a batch size must be at least 1", "", "give a positive number"};
    }
    std::optional<Dimension> old;
    for (const ValueInfo& input : model.graph.inputs) {
        if (is_initializer(model.graph, input.name) || !input.dims || input.dims->empty()) continue;
        if (!old) old = input.dims->front();
    }
    if (!old) {
        return Error{ErrorCode::unsupported, "no input has a batch axis", "", "export the model with shaped inputs"};
    }
    if (*old == batch) return {};
    if (old->size) return from_size(model, *old, batch);
    LATHE_TRY(Model changed, at_batch(model, *old, batch));
    model = std::move(changed);
    return {};
}

std::size_t drop_initializer_inputs(Model& model) {
    const std::size_t dropped =
        std::erase_if(model.graph.inputs, [&](const ValueInfo& v) { return is_initializer(model.graph, v.name); });
    if (dropped > 0) model.ir_version = std::max<std::int64_t>(model.ir_version, 4);
    return dropped;
}

} // namespace lathe
