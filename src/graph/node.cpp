#include <algorithm>
#include <utility>

#include "graph/graph.hpp"

namespace lathe {
namespace {

const std::string& no_name() {
    static const std::string none;
    return none;
}

template <class T>
const T* value_of(const Attribute* attribute) {
    return attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
}

} // namespace

std::optional<Shape> ValueInfo::shape() const {
    if (!dims) return std::nullopt;
    Shape shape;
    shape.reserve(dims->size());
    for (const Dimension& dim : *dims)
        shape.push_back(dim.size.value_or(-1));
    return shape;
}

GraphBox::GraphBox(Graph graph) : graph_(std::make_unique<Graph>(std::move(graph))) {}
GraphBox::GraphBox(const GraphBox& other) : graph_(other.graph_ ? std::make_unique<Graph>(*other.graph_) : nullptr) {}
GraphBox::GraphBox(GraphBox&&) noexcept = default;
GraphBox& GraphBox::operator=(GraphBox other) noexcept {
    graph_ = std::move(other.graph_);
    return *this;
}
GraphBox::~GraphBox() = default;

const Attribute* Node::attribute(std::string_view attribute_name) const {
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const Attribute& attribute) { return attribute.name == attribute_name; });
    return found == attributes.end() ? nullptr : &*found;
}

std::int64_t Node::int_or(std::string_view attribute_name, std::int64_t otherwise) const {
    const auto* value = value_of<std::int64_t>(attribute(attribute_name));
    return value == nullptr ? otherwise : *value;
}

float Node::float_or(std::string_view attribute_name, float otherwise) const {
    const auto* value = value_of<float>(attribute(attribute_name));
    return value == nullptr ? otherwise : *value;
}

std::string Node::string_or(std::string_view attribute_name, std::string otherwise) const {
    const auto* value = value_of<std::string>(attribute(attribute_name));
    if (value != nullptr) otherwise = *value;
    return otherwise;
}

std::vector<std::int64_t> Node::ints_or(std::string_view attribute_name, std::vector<std::int64_t> otherwise) const {
    const auto* value = value_of<std::vector<std::int64_t>>(attribute(attribute_name));
    if (value != nullptr) otherwise = *value;
    return otherwise;
}

std::vector<float> Node::floats_or(std::string_view attribute_name, std::vector<float> otherwise) const {
    const auto* value = value_of<std::vector<float>>(attribute(attribute_name));
    if (value != nullptr) otherwise = *value;
    return otherwise;
}

void Node::set(std::string attribute_name, AttributeValue value) {
    for (Attribute& attribute : attributes) {
        if (attribute.name == attribute_name) {
            attribute.value = std::move(value);
            return;
        }
    }
    attributes.push_back({std::move(attribute_name), std::move(value), ""});
}

void Node::erase_attribute(std::string_view attribute_name) {
    std::erase_if(attributes, [&](const Attribute& attribute) { return attribute.name == attribute_name; });
}

const std::string& Node::input(std::size_t index) const { return index < inputs.size() ? inputs[index] : no_name(); }

const std::string& Node::output(std::size_t index) const { return index < outputs.size() ? outputs[index] : no_name(); }

std::string Node::label() const {
    if (!name.empty()) return name;
    const auto first = std::find_if(outputs.begin(), outputs.end(), [](const std::string& o) { return !o.empty(); });
    return first == outputs.end() ? op_type : op_type + " -> " + *first;
}

} // namespace lathe
