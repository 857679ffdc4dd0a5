#include "deploy/yaml.hpp"

namespace lathe {

namespace {

bool is_plain_key(const std::string& key) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./-_";
    return !key.empty() && key.find_first_not_of(allowed) == std::string::npos &&
           key.find_first_of("0123456789") != 0 && key != "no" && key != "yes" && key != "on" && key != "off" &&
           key != "true" && key != "false" && key != "null";
}

/// JSON's quoted text is YAML's as well.
std::string scalar(const Json& value) {
    if (value.is_object()) return "{}";
    if (value.is_array()) return "[]";
    return value.dump();
}

/// The lines of a value, each with its indentation and line end.
void write(const Json& value, std::size_t depth, std::string& out) {
    const std::string indent(2 * depth, ' ');
    if (value.is_object()) {
        for (const auto& [key, member] : value.items()) {
            out += indent + (is_plain_key(key) ? key : Json(key).dump()) + ":";
            if (!member.is_structured() || member.empty()) {
                out += " " + scalar(member) + "\n";
                continue;
            }
            out += "\n";
            write(member, depth + 1, out);
        }
        return;
    }
    for (const Json& item : value) {
        if (!item.is_structured() || item.empty()) {
            out += indent + "- " + scalar(item) + "\n";
            continue;
        }
        std::string lines;
        write(item, depth + 1, lines);
        lines.replace(2 * depth, 2, "- "); // in the place of the first line's indentation
        out += lines;
    }
}

} // namespace

std::string to_yaml(const Json& document) {
    if (!document.is_structured() || document.empty()) return scalar(document) + "\n";
    std::string out;
    write(document, 0, out);
    return out;
}

} // namespace lathe
