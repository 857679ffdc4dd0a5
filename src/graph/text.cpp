#include "graph/text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "support/hash.hpp"

namespace lathe {
namespace {

bool is_identifier(std::string_view text) {
    if (text.empty() || text.back() == ':' || text.find("::") != std::string_view::npos) return false;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                           c == '.' || c == '/' || c == ':' || c == '-';
        if (!plain) return false;
    }
    return true;
}

std::string in_quotes(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (c == '\n') {
            result += "\\n";
        } else if (byte < 0x20 || byte == 0x7F) {
            result += "\\x";
            result += digits[byte >> 4U];
            result += digits[byte & 15U];
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string identifier(std::string_view text) { return is_identifier(text) ? std::string(text) : in_quotes(text); }
std::string value_name(std::string_view name) { return name.empty() ? "" : "%" + identifier(name); }
/// A dimension's symbol; one that begins with a digit would read as a size.
std::string symbol(std::string_view text) {
    const bool digit_first = text.front() >= '0' && text.front() <= '9';
    return digit_first ? in_quotes(text) : identifier(text);
}

/// Shortest text that reads back as the same number, always with a point, an exponent or letters.
template <class Float>
std::string number(Float value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    std::string text(buffer.data(), end);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class Values, class Format>
std::string joined(const Values& values, Format format) {
    std::string text;
    for (const auto& value : values) {
        if (!text.empty()) text += ", ";
        text += format(value);
    }
    return text;
}

std::string tensor_type(const Tensor& tensor) {
    return to_string(tensor.type()) + "[" + joined(tensor.shape(), [](std::int64_t n) { return std::to_string(n); }) +
           "]";
}

std::string hex_of(std::span<const std::byte> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "0x";
    for (const std::byte byte : bytes) {
        text += digits[std::to_integer<unsigned>(byte) >> 4U];
        text += digits[std::to_integer<unsigned>(byte) & 15U];
    }
    return text;
}

std::string elements(const Tensor& tensor) {
    if (tensor.type() == DataType::string) return joined(tensor.strings(), in_quotes);
    if (tensor.type() == DataType::float64) return joined(tensor.values<double>(), number<double>);
    if (is_floating(tensor.type())) return joined(tensor.to_floats(), number<float>);
    if (tensor.type() == DataType::uint64) {
        return joined(tensor.values<std::uint64_t>(), [](std::uint64_t n) { return std::to_string(n); });
    }
    const auto integers = tensor.to_int64s();
    if (integers.size() != tensor.count()) return hex_of(tensor.bytes());
    const bool boolean = tensor.type() == DataType::boolean;
    return joined(integers, [boolean](std::int64_t n) {
        if (boolean) return std::string(n != 0 ? "true" : "false");
        return std::to_string(n);
    });
}

std::string digest(const Tensor& tensor) {
    if (tensor.type() != DataType::string) return hash_hex(tensor.bytes()).substr(0, 16);
    Hasher hasher;
    for (const std::string& text : tensor.strings()) {
        hasher.update(static_cast<std::int64_t>(text.size()));
        hasher.update(text);
    }
    return hasher.hex().substr(0, 16);
}

std::string content(const Tensor& tensor, const PrintOptions& options) {
    if (options.full_constants || tensor.count() <= options.small_constant) return "{" + elements(tensor) + "}";
    return "digest " + in_quotes(digest(tensor));
}

std::string type_of(const ValueInfo& value) {
    std::string text = to_string(value.type);
    if (value.dims) {
        text += "[" +
                joined(*value.dims,
                       [](const Dimension& dim) {
                           if (dim.size) return std::to_string(*dim.size);
                           return dim.symbol.empty() ? std::string("?") : symbol(dim.symbol);
                       }) +
                "]";
    }
    if (!value.opaque_type.empty()) text += " opaque " + in_quotes(value.opaque_type);
    return text;
}

class Printer {
public:
    explicit Printer(const PrintOptions& options) : options_(options) {}

    std::string model(const Model& model) {
        for (const auto& [domain, version] : model.opsets) {
            out_ << "opset " << (domain.empty() ? "" : in_quotes(domain) + " ") << version << '\n';
        }
        if (model.ir_version != 0) out_ << "ir " << model.ir_version << '\n';
        for (const auto& [key, value] : model.metadata)
            out_ << "meta " << in_quotes(key) << " = " << in_quotes(value) << '\n';
        graph(model.graph, "");
        return out_.str();
    }

private:
    void graph(const Graph& graph, const std::string& indent) {
        if (!graph.name.empty()) out_ << indent << "name " << in_quotes(graph.name) << '\n';
        for (const ValueInfo& input : graph.inputs)
            value(indent, "input", input);
        for (const auto& [name, tensor] : graph.initializers) {
            out_ << indent << "const " << value_name(name) << ": " << tensor_type(tensor) << " = "
                 << content(tensor, options_) << '\n';
        }
        for (const std::string& sparse : graph.opaque_sparse_initializers) {
            out_ << indent << "sparse " << in_quotes(sparse) << '\n';
        }
        if (options_.value_infos) {
            for (const auto& [name, info] : graph.value_infos)
                value(indent, "value", info);
        }
        for (const auto& each : graph.nodes)
            node(*each, indent);
        for (const ValueInfo& output : graph.outputs)
            value(indent, "output", output);
    }

    void value(const std::string& indent, const char* what, const ValueInfo& info) {
        out_ << indent << what << ' ' << value_name(info.name) << ": " << type_of(info) << '\n';
    }

    void node(const Node& node, const std::string& indent) {
        out_ << indent << joined_names(node.outputs) << (node.outputs.empty() ? "= " : " = ");
        if (!node.domain.empty()) out_ << identifier_of_domain(node.domain) << "::";
        out_ << identifier(node.op_type) << '(' << joined_names(node.inputs) << ')';
        std::string separator = " {";
        const auto next = [&] { return std::exchange(separator, ", "); };
        if (!node.name.empty()) out_ << next() << "name = " << in_quotes(node.name);
        if (!node.overload.empty()) out_ << next() << "overload = " << in_quotes(node.overload);
        for (const Attribute& each : node.attributes) {
            // Quoted, an attribute called "name" is told from the node's name.
            const bool reserved = each.name == "name" || each.name == "overload";
            out_ << next() << (reserved ? in_quotes(each.name) : identifier(each.name)) << " = ";
            attribute(each.value, indent);
        }
        out_ << (separator == ", " ? "}\n" : "\n");
    }

    static std::string joined_names(const std::vector<std::string>& names) {
        std::string text;
        for (std::size_t i = 0; i < names.size(); ++i)
            text += (i == 0 ? "" : ", ") + value_name(names[i]);
        return text;
    }

    static std::string identifier_of_domain(const std::string& domain) {
        return domain.find(':') == std::string::npos ? identifier(domain) : in_quotes(domain);
    }

    void tensor(const Tensor& tensor) { out_ << tensor_type(tensor) << ' ' << content(tensor, options_); }

    void attribute(const AttributeValue& value, const std::string& indent) {
        if (const auto* integer = std::get_if<std::int64_t>(&value)) out_ << *integer;
        if (const auto* real = std::get_if<float>(&value)) out_ << number(*real);
        if (const auto* text = std::get_if<std::string>(&value)) out_ << in_quotes(*text);
        if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
            out_ << '[' << joined(*integers, [](std::int64_t n) { return std::to_string(n); }) << ']';
        }
        if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
            out_ << (reals->empty() ? "floats [" : "[") << joined(*reals, number<float>) << ']';
        }
        if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
            out_ << (texts->empty() ? "strings [" : "[") << joined(*texts, in_quotes) << ']';
        }
        if (const auto* one = std::get_if<Tensor>(&value)) tensor(*one);
        if (const auto* many = std::get_if<std::vector<Tensor>>(&value)) {
            out_ << "tensors [";
            for (std::size_t i = 0; i < many->size(); ++i) {
                out_ << (i == 0 ? "" : ", ");
                tensor((*many)[i]);
            }
            out_ << ']';
        }
        if (const auto* box = std::get_if<GraphBox>(&value)) subgraph(**box, indent);
        if (const auto* boxes = std::get_if<std::vector<GraphBox>>(&value)) {
            out_ << "graphs [";
            for (std::size_t i = 0; i < boxes->size(); ++i) {
                out_ << (i == 0 ? "" : ", ");
                subgraph(*(*boxes)[i], indent);
            }
            out_ << ']';
        }
        if (const auto* opaque = std::get_if<OpaqueAttribute>(&value)) out_ << "opaque " << in_quotes(opaque->bytes);
        if (const auto* reference = std::get_if<AttributeReference>(&value)) {
            out_ << "ref " << in_quotes(reference->name) << ' ' << reference->onnx_type;
        }
    }

    void subgraph(const Graph& inner, const std::string& indent) {
        out_ << "graph {\n";
        graph(inner, indent + "    ");
        out_ << indent << '}';
    }

    const PrintOptions& options_;
    std::ostringstream out_;
};

} // namespace

std::string print(const Model& model, const PrintOptions& options) { return Printer(options).model(model); }

} // namespace lathe
