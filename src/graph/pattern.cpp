#include "graph/pattern.hpp"

#include <algorithm>
#include <utility>

namespace lathe {

Pattern Pattern::any(std::string capture) {
    Pattern pattern;
    pattern.capture_ = std::move(capture);
    return pattern;
}

Pattern Pattern::constant(std::string capture, TensorCondition condition) {
    Pattern pattern;
    pattern.kind_ = Kind::constant;
    pattern.capture_ = std::move(capture);
    pattern.tensor_condition_ = std::move(condition);
    return pattern;
}

Pattern Pattern::op(const std::string& types, std::vector<Pattern> inputs, std::string capture) {
    Pattern pattern;
    pattern.kind_ = Kind::op;
    pattern.capture_ = std::move(capture);
    pattern.inputs_ = std::move(inputs);
    for (std::size_t start = 0; start <= types.size();) {
        const std::size_t end = std::min(types.find('|', start), types.size());
        pattern.types_.push_back(types.substr(start, end - start));
        start = end + 1;
    }
    return pattern;
}

Pattern Pattern::where(NodeCondition condition) && {
    node_condition_ = std::move(condition);
    return std::move(*this);
}

Pattern Pattern::used_once() && {
    readers_ = Readers::one;
    return std::move(*this);
}

Pattern Pattern::read_once() && {
    readers_ = Readers::one_and_shapes;
    return std::move(*this);
}

Pattern Pattern::any_order() && {
    any_order_ = true;
    return std::move(*this);
}

std::optional<Match> Pattern::match(Node& root, const Graph& graph, const Uses& uses) const {
    Match found;
    if (kind_ != Kind::op || !match_node(root, graph, uses, found)) return std::nullopt;
    return found;
}

bool Pattern::capture_value(const std::string& value, Match& found) const {
    if (capture_.empty()) return true;
    const auto [place, is_new] = found.values.emplace(capture_, value);
    return is_new || place->second == value;
}

bool Pattern::match_value(const std::string& value, const Graph& graph, const Uses& uses, Match& found) const {
    if (value.empty()) return false;
    if (readers_ != Readers::any) {
        std::size_t readers = uses.use_count(value);
        if (readers_ == Readers::one_and_shapes)
            readers -= static_cast<std::size_t>(
                std::ranges::count_if(uses.consumers(value), [](const Node* node) { return node->is("Shape"); }));
        if (readers != 1) return false;
    }
    switch (kind_) {
        case Kind::any: return capture_value(value, found);
        case Kind::constant: {
            const Tensor* tensor = graph.constant(value);
            if (tensor == nullptr || (tensor_condition_ && !tensor_condition_(*tensor))) return false;
            if (!capture_.empty()) found.constants.emplace(capture_, tensor);
            return capture_value(value, found);
        }
        case Kind::op: {
            Node* node = uses.producer(value);
            // A second output (an index, a mask) is not what the pattern means.
            return node != nullptr && node->output(0) == value && match_node(*node, graph, uses, found);
        }
    }
    return false;
}

bool Pattern::match_node(Node& node, const Graph& graph, const Uses& uses, Match& found) const {
    if (std::none_of(types_.begin(), types_.end(), [&](const std::string& type) { return node.is(type); })) {
        return false;
    }
    if (node_condition_ && !node_condition_(node)) return false;
    if (!capture_.empty()) {
        const auto [place, is_new] = found.nodes.emplace(capture_, &node);
        if (!is_new && place->second != &node) return false;
    }
    found.matched.push_back(&node);
    Match attempt = found;
    if (match_inputs(node, false, graph, uses, attempt)) {
        found = std::move(attempt);
        return true;
    }
    if (!any_order_ || inputs_.size() < 2) return false;
    return match_inputs(node, true, graph, uses, found);
}

bool Pattern::match_inputs(const Node& node, bool swapped, const Graph& graph, const Uses& uses, Match& found) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const std::size_t place = swapped && i < 2 ? 1 - i : i;
        if (!inputs_[i].match_value(node.input(place), graph, uses, found)) return false;
    }
    return true;
}

} // namespace lathe
