#include "deploy/text_proto.hpp"

#include <array>
#include <cstdio>

namespace lathe {

namespace {

/// In double quotes; control characters as octal escapes, other bytes (UTF-8) as they are.
std::string quoted(std::string_view value) {
    std::string text = "\"";
    for (const char c : value) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (c == '\n') {
            text += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\%03o", static_cast<unsigned>(static_cast<unsigned char>(c)));
            text += escape.data();
        } else {
            text += c;
        }
    }
    return text + '"';
}

} // namespace

std::string& TextProto::line() { return text_.append(2 * depth_, ' '); }

void TextProto::comment(std::string_view text) { line().append("# ").append(text).append("\n"); }
void TextProto::text(std::string_view field, std::string_view value) { name(field, quoted(value)); }
void TextProto::name(std::string_view field, std::string_view value) {
    line().append(field).append(": ").append(value).append("\n");
}
void TextProto::number(std::string_view field, std::int64_t value) { name(field, std::to_string(value)); }

void TextProto::numbers(std::string_view field, const std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    std::string list;
    for (const std::int64_t value : values)
        list += (list.empty() ? "[" : ", ") + std::to_string(value);
    name(field, list + "]");
}

void TextProto::open(std::string_view field) {
    line().append(field).append(" {\n");
    ++depth_;
}

void TextProto::close() {
    --depth_;
    line().append("}\n");
}

} // namespace lathe
