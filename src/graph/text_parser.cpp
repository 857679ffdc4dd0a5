#include "graph/text.hpp"
#include "graph/text_scanner.hpp"
#include "support/half.hpp"

namespace lathe {
namespace {

constexpr std::size_t nesting_limit = 64;

template <class T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof(T));
}

class Parser : private TextScanner {
public:
    using TextScanner::TextScanner;

    Result<Model> model() {
        Model model;
        LATHE_CHECK(statements(&model, model.graph));
        if (!at_end()) return wrong("'}' without '{'");
        return model;
    }

private:
    Result<std::string> value_name() {
        LATHE_CHECK(expect("%"));
        return identifier();
    }

    /// Names separated by commas up to `end`; an empty place is an omitted value.
    Result<std::vector<std::string>> names(char end) {
        std::vector<std::string> result;
        if (peek() == end) return result;
        while (true) {
            std::string name;
            if (peek() == '%') {
                LATHE_TRY(name, value_name());
            }
            result.push_back(std::move(name));
            if (peek() == end) return result;
            LATHE_CHECK(expect(","));
        }
    }

    Result<void> statements(Model* model, Graph& graph) {
        while (!at_end() && peek() != '}') {
            if (accept_word("input")) {
                LATHE_TRY(auto info, typed_name());
                graph.inputs.push_back(std::move(info));
            } else if (accept_word("output")) {
                LATHE_TRY(auto info, typed_name());
                graph.outputs.push_back(std::move(info));
            } else if (accept_word("value")) {
                LATHE_TRY(auto info, typed_name());
                graph.value_infos[info.name] = info;
            } else if (accept_word("const")) {
                LATHE_CHECK(constant(graph));
            } else if (accept_word("sparse")) {
                LATHE_TRY(auto bytes, string());
                graph.opaque_sparse_initializers.push_back(std::move(bytes));
            } else if (accept_word("name")) {
                LATHE_TRY(graph.name, string());
            } else if (peek() == '%' || peek() == '=' || peek() == ',') {
                LATHE_CHECK(node(graph));
            } else if (model != nullptr) {
                LATHE_CHECK(model_statement(*model));
            } else {
                return wrong("expected input, output, value, const, name or a node");
            }
        }
        return {};
    }

    Result<void> model_statement(Model& model) {
        if (accept_word("opset")) {
            std::string domain;
            if (peek() == '"') {
                LATHE_TRY(domain, string());
            }
            LATHE_TRY(model.opsets[domain], number<std::int64_t>());
        } else if (accept_word("ir")) {
            LATHE_TRY(model.ir_version, number<std::int64_t>());
        } else if (accept_word("meta")) {
            LATHE_TRY(auto key, string());
            LATHE_CHECK(expect("="));
            LATHE_TRY(auto value, string());
            model.set_metadata(std::move(key), std::move(value));
        } else {
            return wrong("expected opset, ir, meta, input, output, value, const, name or a node");
        }
        return {};
    }

    Result<DataType> data_type() {
        LATHE_TRY(const auto name, identifier());
        const DataType type = data_type_from_name(name);
        if (type == DataType::undefined && name != to_string(DataType::undefined)) {
            return wrong("unknown element type '" + name + "'");
        }
        return type;
    }

    Result<ValueInfo> typed_name() {
        ValueInfo info;
        LATHE_TRY(info.name, value_name());
        LATHE_CHECK(expect(":"));
        LATHE_TRY(info.type, data_type());
        if (accept("[")) {
            info.dims.emplace();
            while (!accept("]")) {
                if (!info.dims->empty()) LATHE_CHECK(expect(","));
                if (accept("?")) {
                    info.dims->push_back({});
                } else if (is_digit(peek())) {
                    LATHE_TRY(const auto size, number<std::int64_t>());
                    info.dims->push_back(Dimension::of(size));
                } else {
                    LATHE_TRY(auto symbol, identifier());
                    info.dims->push_back(Dimension::named(std::move(symbol)));
                }
            }
        }
        if (accept_word("opaque")) {
            LATHE_TRY(info.opaque_type, string());
        }
        return info;
    }

    Result<void> constant(Graph& graph) {
        LATHE_TRY(const auto name, value_name());
        LATHE_CHECK(expect(":"));
        LATHE_TRY(const auto type, data_type());
        LATHE_TRY(auto shape, static_shape());
        LATHE_CHECK(expect("="));
        LATHE_TRY(auto tensor, elements(name, type, std::move(shape)));
        if (!graph.initializers.emplace(name, std::move(tensor)).second) {
            return wrong("constant " + name + " is given twice");
        }
        return {};
    }

    Result<Shape> static_shape() {
        LATHE_CHECK(expect("["));
        Shape shape;
        while (!accept("]")) {
            if (!shape.empty()) LATHE_CHECK(expect(","));
            LATHE_TRY(const auto size, number<std::int64_t>());
            if (size < 0) return wrong("a constant's dimensions are not negative");
            shape.push_back(size);
        }
        return shape;
    }

    Result<Tensor> elements(const std::string& name, DataType type, Shape shape) {
        if (accept_word("digest")) {
            return wrong("the constant was printed as a digest; print with full constants to read it back");
        }
        LATHE_CHECK(expect("{"));
        const std::int64_t count = element_count(shape);
        std::vector<std::string> strings;
        std::vector<std::byte> bytes;
        std::int64_t found = 0;
        const bool as_hex = next_is("0x");
        if (as_hex) {
            LATHE_CHECK(hex_bytes(bytes));
            LATHE_CHECK(expect("}"));
        }
        while (!as_hex && !accept("}")) {
            if (found != 0) LATHE_CHECK(expect(","));
            if (accept("...")) {
                LATHE_CHECK(repeated(bytes, found, count));
                found = count;
                LATHE_CHECK(expect("}"));
                break;
            }
            if (type == DataType::string) {
                LATHE_TRY(auto text, string());
                strings.push_back(std::move(text));
            } else {
                LATHE_CHECK(element(type, static_cast<std::size_t>(found), bytes));
            }
            ++found;
        }
        const bool whole =
            as_hex ? count >= 0 && bytes.size() == byte_size(type, static_cast<std::size_t>(count)) : found == count;
        if (!whole) {
            return wrong("constant " + name + " has " + std::to_string(found) + " elements, its shape says " +
                         std::to_string(count));
        }
        if (type == DataType::string) return Tensor(name, std::move(shape), std::move(strings));
        return Tensor(name, type, std::move(shape), bytes);
    }

    /// What was read, over and over up to `count` elements.
    Result<void> repeated(std::vector<std::byte>& bytes, std::int64_t found, std::int64_t count) {
        constexpr std::int64_t most = std::int64_t{1} << 24;
        if (bytes.empty() || found < 1 || count > most || count % found != 0)
            return wrong("... repeats numbers up to a multiple of theirs, at most " + std::to_string(most));
        const std::vector<std::byte> once = bytes;
        for (std::int64_t i = found; i < count; i += found)
            bytes.insert(bytes.end(), once.begin(), once.end());
        return {};
    }

    Result<void> hex_bytes(std::vector<std::byte>& bytes) {
        const std::string_view digits = number_text().substr(2);
        if (digits.size() % 2 != 0) return wrong("odd number of hexadecimal digits");
        for (std::size_t i = 0; i < digits.size(); i += 2) {
            const int high = hex_value(digits[i]);
            const int low = hex_value(digits[i + 1]);
            if (high < 0 || low < 0) return wrong("expected hexadecimal digits");
            bytes.push_back(static_cast<std::byte>(high * 16 + low));
        }
        return {};
    }

    template <class T>
    Result<void> integer(std::vector<std::byte>& bytes) {
        LATHE_TRY(const auto value, number<T>());
        append_bytes(bytes, value);
        return {};
    }

    Result<void> element(DataType type, std::size_t index, std::vector<std::byte>& bytes) {
        switch (type) {
            case DataType::float32: return integer<float>(bytes);
            case DataType::float64: return integer<double>(bytes);
            case DataType::float16:
            case DataType::bfloat16: {
                LATHE_TRY(const auto value, number<float>());
                append_bytes(bytes, type == DataType::float16 ? half_from_float(value) : bfloat16_from_float(value));
                return {};
            }
            case DataType::boolean:
                if (accept_word("true")) {
                    bytes.push_back(std::byte{1});
                } else if (accept_word("false")) {
                    bytes.push_back(std::byte{0});
                } else {
                    return wrong("expected true or false");
                }
                return {};
            case DataType::int8: return integer<std::int8_t>(bytes);
            case DataType::uint8: return integer<std::uint8_t>(bytes);
            case DataType::int16: return integer<std::int16_t>(bytes);
            case DataType::uint16: return integer<std::uint16_t>(bytes);
            case DataType::int32: return integer<std::int32_t>(bytes);
            case DataType::uint32: return integer<std::uint32_t>(bytes);
            case DataType::int64: return integer<std::int64_t>(bytes);
            case DataType::uint64: return integer<std::uint64_t>(bytes);
            case DataType::int4:
            case DataType::uint4: return packed(index, 4, type == DataType::int4, bytes);
            case DataType::int2:
            case DataType::uint2: return packed(index, 2, type == DataType::int2, bytes);
            default: return wrong("elements of type " + to_string(type) + " are written as 0x...");
        }
    }

    Result<void> packed(std::size_t index, unsigned width, bool is_signed, std::vector<std::byte>& bytes) {
        LATHE_TRY(const auto value, number<int>());
        const int levels = 1 << width;
        const int least = is_signed ? -levels / 2 : 0;
        if (value < least || value >= least + levels) return wrong("the number does not fit its type");
        const std::size_t per_byte = 8 / width;
        if (index % per_byte == 0) bytes.push_back(std::byte{0});
        const unsigned bits = static_cast<unsigned>(value + levels) & static_cast<unsigned>(levels - 1);
        bytes.back() |= static_cast<std::byte>(bits << (width * (index % per_byte)));
        return {};
    }

    Result<void> node(Graph& graph) {
        Node node;
        LATHE_TRY(node.outputs, names('='));
        LATHE_CHECK(expect("="));
        LATHE_TRY(node.op_type, identifier());
        if (accept("::")) {
            node.domain = std::move(node.op_type);
            LATHE_TRY(node.op_type, identifier());
        }
        LATHE_CHECK(expect("("));
        LATHE_TRY(node.inputs, names(')'));
        LATHE_CHECK(expect(")"));
        if (accept("{")) {
            bool first = true;
            while (!accept("}")) {
                if (!first) LATHE_CHECK(expect(","));
                first = false;
                LATHE_CHECK(attribute(node));
            }
        }
        graph.add(std::move(node));
        return {};
    }

    Result<void> attribute(Node& node) {
        const bool is_quoted = peek() == '"';
        LATHE_TRY(auto name, identifier());
        LATHE_CHECK(expect("="));
        if (!is_quoted && (name == "name" || name == "overload")) {
            LATHE_TRY((name == "name" ? node.name : node.overload), string());
            return {};
        }
        LATHE_TRY(auto value, attribute_value());
        node.attributes.push_back({std::move(name), std::move(value), ""});
        return {};
    }

    Result<AttributeValue> attribute_value() {
        const char c = peek();
        if (c == '"') {
            LATHE_TRY(auto text, string());
            return AttributeValue(std::move(text));
        }
        if (c == '[') return list();
        if (accept_word("graph")) {
            LATHE_TRY(auto inner, subgraph());
            return AttributeValue(std::move(inner));
        }
        if (accept_word("graphs"))
            return list_of<GraphBox>([this]() -> Result<GraphBox> {
                if (!accept_word("graph")) return wrong("expected 'graph'");
                return subgraph();
            });
        if (accept_word("tensors")) return list_of<Tensor>([this] { return tensor(); });
        if (accept_word("floats")) return list_of<float>([this] { return number<float>(); });
        if (accept_word("strings")) return list_of<std::string>([this] { return string(); });
        if (accept_word("opaque")) {
            LATHE_TRY(auto bytes, string());
            return AttributeValue(OpaqueAttribute{std::move(bytes)});
        }
        if (accept_word("ref")) {
            AttributeReference reference;
            LATHE_TRY(reference.name, string());
            LATHE_TRY(reference.onnx_type, number<std::int32_t>());
            return AttributeValue(std::move(reference));
        }
        if (is_digit(c) || c == '-' || next_is_float_word()) return scalar();
        LATHE_TRY(auto value, tensor());
        return AttributeValue(std::move(value));
    }

    Result<AttributeValue> scalar() {
        if (next_is_integer()) {
            LATHE_TRY(const auto integer, number<std::int64_t>());
            return AttributeValue(integer);
        }
        LATHE_TRY(const auto real, number<float>());
        return AttributeValue(real);
    }

    /// The first element tells of what the list is; an empty one is of integers.
    Result<AttributeValue> list() {
        const std::size_t start = position();
        LATHE_CHECK(expect("["));
        const char first = peek();
        const bool integers = first == ']' || next_is_integer();
        back_to(start);
        if (first == '"') return list_of<std::string>([this] { return string(); });
        if (integers) return list_of<std::int64_t>([this] { return number<std::int64_t>(); });
        return list_of<float>([this] { return number<float>(); });
    }

    template <class T, class Read>
    Result<AttributeValue> list_of(Read read) {
        LATHE_CHECK(expect("["));
        std::vector<T> values;
        while (!accept("]")) {
            if (!values.empty()) LATHE_CHECK(expect(","));
            LATHE_TRY(auto value, read());
            values.push_back(std::move(value));
        }
        return AttributeValue(std::move(values));
    }

    Result<Tensor> tensor() {
        LATHE_TRY(const auto type, data_type());
        LATHE_TRY(auto shape, static_shape());
        return elements("", type, std::move(shape));
    }

    Result<GraphBox> subgraph() {
        if (++depth_ > nesting_limit) return wrong("graphs are nested too deep");
        LATHE_CHECK(expect("{"));
        Graph inner;
        LATHE_CHECK(statements(nullptr, inner));
        LATHE_CHECK(expect("}"));
        --depth_;
        return GraphBox(std::move(inner));
    }

    std::size_t depth_ = 0;
};

} // namespace

Result<Model> parse_graph_text(std::string_view text) { return Parser(text).model(); }

} // namespace lathe
