#include "calibrate/model_key.hpp"

#include <algorithm>
#include <bit>

#include "support/hash.hpp"

namespace lathe {

namespace {

/// Writes everything with its length or width before it, so that no two models run together to one text.
class KeyWriter {
public:
    void number(std::int64_t value) { hasher_.update(value); }
    void text(std::string_view value) {
        number(static_cast<std::int64_t>(value.size()));
        hasher_.update(value);
    }
    template <class List, class Write>
    void list(const List& items, Write write) {
        number(static_cast<std::int64_t>(items.size()));
        for (const auto& item : items)
            write(item);
    }
    void texts(const std::vector<std::string>& items) {
        list(items, [&](const std::string& item) { text(item); });
    }

    void tensor(const Tensor& tensor) {
        number(static_cast<std::int64_t>(tensor.type()));
        list(tensor.shape(), [&](std::int64_t size) { number(size); });
        if (tensor.type() == DataType::string) {
            texts(tensor.strings());
        } else {
            number(static_cast<std::int64_t>(tensor.bytes().size()));
            hasher_.update(tensor.bytes());
        }
    }

    void input(const ValueInfo& info) {
        text(info.name);
        number(static_cast<std::int64_t>(info.type));
        number(info.dims ? 1 : 0);
        if (!info.dims) return;
        list(*info.dims, [&](const Dimension& dimension) { number(dimension.size.value_or(-1)); });
    }

    void graph(const Graph& graph) {
        list(graph.inputs, [&](const ValueInfo& info) { input(info); });
        list(graph.outputs, [&](const ValueInfo& info) { text(info.name); });
        list(graph.initializers, [&](const auto& entry) {
            text(entry.first);
            tensor(entry.second);
        });
        texts(graph.opaque_sparse_initializers);
        list(graph.nodes, [&](const std::unique_ptr<Node>& item) { node(*item); });
    }

    std::string hex() const { return hasher_.hex(); }

private:
    void node(const Node& node) {
        text(node.domain);
        text(node.op_type);
        text(node.overload);
        texts(node.inputs);
        texts(node.outputs);
        // ONNX gives the order of attributes no meaning, and exporters differ in it.
        std::vector<const Attribute*> attributes;
        for (const Attribute& attribute : node.attributes)
            attributes.push_back(&attribute);
        std::sort(attributes.begin(), attributes.end(),
                  [](const Attribute* a, const Attribute* b) { return a->name < b->name; });
        list(attributes, [&](const Attribute* attribute) {
            text(attribute->name);
            number(static_cast<std::int64_t>(attribute->value.index()));
            std::visit([&](const auto& value) { this->value(value); }, attribute->value);
        });
    }

    void value(std::int64_t value) { number(value); }
    void value(float value) { number(std::bit_cast<std::int32_t>(value)); }
    void value(const std::string& value) { text(value); }
    void value(const Tensor& value) { tensor(value); }
    void value(const GraphBox& value) { graph(*value); }
    void value(const OpaqueAttribute& value) { text(value.bytes); }
    void value(const AttributeReference& value) {
        text(value.name);
        number(value.onnx_type);
    }
    template <class T>
    void value(const std::vector<T>& values) {
        list(values, [&](const T& item) { this->value(item); });
    }

    Hasher hasher_;
};

} // namespace

std::string calibration_key(const Model& model) {
    KeyWriter key;
    key.text("lathe calibration key 1");
    key.list(model.opsets, [&](const auto& opset) {
        key.text(opset.first);
        key.number(opset.second);
    });
    key.texts(model.opaque_functions);
    key.graph(model.graph);
    return key.hex();
}

} // namespace lathe
