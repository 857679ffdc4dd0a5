#include "correct/channel_classes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/subgraphs.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"

namespace lathe {
namespace {

class Classes {
public:
    explicit Classes(const Model& model) : graph_(model.graph), index_(model.graph) {}

    std::vector<ChannelClass> find() {
        for (const ValueInfo& input : graph_.inputs)
            block(input.name);
        for (const ValueInfo& output : graph_.outputs)
            block(output.name);
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
            look_at(i);
        std::map<std::string, ChannelClass> found; // by leader, in a fixed order
        for (const auto& [node, value] : writers_)
            add(found[leader(value)], found[leader(value)].writers, node, true);
        for (const auto& [node, value] : readers_)
            add(found[leader(value)], found[leader(value)].readers, node, false);
        for (auto& [name, each] : found)
            each.values.push_back(name);
        for (const auto& [value, parent] : parents_) {
            if (const auto of = found.find(leader(value)); of != found.end()) of->second.values.push_back(value);
        }
        std::vector<ChannelClass> classes;
        for (auto& [name, each] : found) {
            std::ranges::sort(each.values);
            if (blocked_.contains(name) || each.writers.empty() || each.readers.empty() || each.channels == 0) continue;
            if (const auto cap = caps_.find(name); cap != caps_.end()) {
                if (averaged_.contains(name)) continue; // a mean says nothing of what the cap cuts
                each.cap = cap->second;
            }
            classes.push_back(std::move(each));
        }
        std::ranges::sort(classes, {}, [](const ChannelClass& each) { return each.readers.front().node; });
        return classes;
    }

private:
    const Tensor* weight(const Node& node) const { return graph_.constant(node.input(1)); }

    void add(ChannelClass& to, std::vector<ChannelClass::Layer>& layers, std::size_t at, bool writes) {
        const Node& node = index_.node(at);
        std::size_t channels = 0;
        bool depthwise = false;
        if (node.is("LayerNormalization")) {
            channels = graph_.constant(node.input(1))->count();
            to.normalized = true;
        } else {
            const Shape& shape = weight(node)->shape();
            const std::int64_t group = node.int_or("group", 1);
            depthwise = node.is("Conv") && group > 1 && shape[0] == group && shape[1] == 1;
            if (node.is("Conv")) {
                channels = static_cast<std::size_t>(writes ? shape[0] : shape[1] * group);
            } else {
                const bool transposed = node.is("MatMul") || node.int_or("transB", 0) == 0;
                channels = static_cast<std::size_t>(shape[writes == transposed ? 1 : 0]);
            }
        }
        // Sizes that do not agree: something here does not mean what it seems to. Never true again.
        if (to.channels != 0 && to.channels != channels)
            blocked_.insert(leader(writes ? node.output(0) : node.input(0)));
        to.channels = channels;
        layers.push_back({at, depthwise});
    }

    void look_at(std::size_t at) {
        const Node& node = index_.node(at);
        if (index_.is_constant(node.output(0))) return;
        for (const std::string& captured : captured_names(node))
            block(captured);
        if (is_layer(node)) {
            readers_.emplace_back(at, node.input(0));
            if (node.is("MatMul")) {
                block(node.output(0)); // its bias stands apart
            } else {
                writers_.emplace_back(at, node.output(0));
            }
            return;
        }
        if (node.is("LayerNormalization") && is_last_axis(node) && graph_.constant(node.input(1)) != nullptr &&
            (node.input(2).empty() || graph_.constant(node.input(2)) != nullptr) && node.output(1).empty()) {
            block(node.input(0));
            writers_.emplace_back(at, node.output(0));
            return;
        }
        if (passes_through(node)) {
            for (const std::string& input : node.inputs) {
                if (!input.empty() && !index_.is_constant(input)) unite(input, node.output(0));
            }
            note(node);
            return;
        }
        for (const std::string& input : node.inputs)
            block(input);
        for (const std::string& output : node.outputs)
            block(output);
    }

    /// Layers with a constant weight (and bias) in float32.
    bool is_layer(const Node& node) const {
        if (!node.is("Conv") && !node.is("Gemm") && !node.is("MatMul")) return false;
        if (index_.is_constant(node.input(0))) return false;
        const Tensor* tensor = weight(node);
        if (tensor == nullptr || tensor->type() != DataType::float32) return false;
        if (!node.is("Conv") && tensor->shape().size() != 2) return false;
        if (node.is("Conv") && tensor->shape().size() != 4) return false;
        if (node.is("MatMul")) return true;
        if (node.is("Gemm") && (node.int_or("transA", 0) != 0 || node.float_or("alpha", 1.0F) != 1.0F ||
                                node.float_or("beta", 1.0F) != 1.0F)) {
            return false;
        }
        if (node.input(2).empty()) return true;
        const Tensor* bias = graph_.constant(node.input(2));
        return bias != nullptr && bias->type() == DataType::float32 && !bias->shape().empty() &&
               bias->count() == static_cast<std::size_t>(bias->shape().back());
    }

    bool is_last_axis(const Node& node) const {
        const std::int64_t axis = node.int_or("axis", -1);
        const auto info = graph_.info(node.input(0));
        const auto shape = info ? info->shape() : std::nullopt;
        return axis == -1 || (shape && axis == static_cast<std::int64_t>(shape->size()) - 1);
    }

    std::optional<Shape> shape_of(const std::string& value) const {
        const auto info = graph_.info(value);
        return info ? info->shape() : std::nullopt;
    }

    bool passes_through(const Node& node) const {
        if (node.is("Relu") || node.is("LeakyRelu") || node.is("Identity") || node.is("GlobalAveragePool") ||
            node.is("AveragePool") || node.is("GlobalMaxPool")) {
            return true;
        }
        if (node.is("MaxPool") || node.is("Dropout")) return node.output(1).empty();
        if (node.is("Pad")) return is_pass_through(graph_, node) && is_image(node.input(0));
        if (node.is("Clip")) return cap_of(node).has_value();
        if (node.is("Add")) {
            const auto left = shape_of(node.input(0));
            const auto right = shape_of(node.input(1));
            return !index_.is_constant(node.input(0)) && !index_.is_constant(node.input(1)) && left && left == right;
        }
        if (node.is("Flatten") || node.is("Reshape") || node.is("Squeeze")) {
            const auto from = shape_of(node.input(0));
            const auto to = shape_of(node.output(0));
            return from && to && from->size() == 4 && to->size() == 2 && (*from)[2] == 1 && (*from)[3] == 1 &&
                   (*from)[1] > 0 && (*from)[1] == (*to)[1];
        }
        return false;
    }

    bool is_image(const std::string& value) const {
        const auto shape = shape_of(value);
        return shape && shape->size() == 4;
    }

    /// Of a Clip from 0 to a constant.
    std::optional<float> cap_of(const Node& node) const {
        const auto bound = [&](std::size_t input) -> std::optional<float> {
            const Tensor* tensor = graph_.constant(node.input(input));
            if (tensor == nullptr || tensor->type() != DataType::float32 || tensor->count() != 1) return std::nullopt;
            return tensor->values<float>()[0];
        };
        const auto low = bound(1);
        const auto high = bound(2);
        if (!low || !high || *low != 0.0F || !(*high > 0.0F)) return std::nullopt;
        return high;
    }

    void note(const Node& node) {
        const std::string name = leader(node.output(0));
        if (node.is("Clip")) {
            const float cap = *cap_of(node);
            const auto known = caps_.find(name);
            caps_[name] = known == caps_.end() ? cap : std::min(cap, known->second);
        }
        if (node.is("AveragePool") || node.is("GlobalAveragePool")) averaged_.insert(name);
    }

    void block(const std::string& value) {
        if (!value.empty()) blocked_.insert(leader(value));
    }

    std::string leader(const std::string& value) const {
        std::string at = value;
        for (auto next = parents_.find(at); next != parents_.end(); next = parents_.find(at))
            at = next->second;
        return at;
    }

    void unite(const std::string& a, const std::string& b) {
        const std::string keep = leader(a);
        const std::string gone = leader(b);
        if (keep == gone) return;
        parents_[gone] = keep;
        if (blocked_.contains(gone)) blocked_.insert(keep);
        if (averaged_.contains(gone)) averaged_.insert(keep);
        if (const auto cap = caps_.find(gone); cap != caps_.end()) {
            const auto known = caps_.find(keep);
            caps_[keep] = known == caps_.end() ? cap->second : std::min(cap->second, known->second);
        }
    }

    const Graph& graph_;
    EdgeIndex index_;
    std::unordered_map<std::string, std::string> parents_;
    std::set<std::string> blocked_;  // leaders; a leader united later passes it on
    std::set<std::string> averaged_; // likewise
    std::map<std::string, float> caps_;
    std::vector<std::pair<std::size_t, std::string>> writers_;
    std::vector<std::pair<std::size_t, std::string>> readers_;
};

} // namespace

std::vector<ChannelClass> channel_classes(const Model& model) { return Classes(model).find(); }

} // namespace lathe
