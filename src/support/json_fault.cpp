#include "support/json_fault.hpp"

#include <string_view>

namespace lathe {

std::string json_fault(const Json::exception& failure) {
    std::string_view text = failure.what();
    // "[json.exception.type_error.302] type must be ..."
    if (const auto tag = text.find("] "); text.starts_with("[json.exception") && tag != std::string_view::npos)
        text.remove_prefix(tag + 2);
    constexpr std::string_view missing = "key '";
    constexpr std::string_view not_found = "' not found";
    if (failure.id == 403 && text.starts_with(missing) && text.ends_with(not_found)) {
        text.remove_prefix(missing.size());
        text.remove_suffix(not_found.size());
        return "the field \"" + std::string(text) + "\" is missing";
    }
    constexpr std::string_view must_be = "type must be ";
    if (failure.id == 302 && text.starts_with(must_be))
        return "a value must be " + std::string(text.substr(must_be.size()));
    // "cannot use at() with string": a value was asked for its fields or items, and has none.
    if (text.starts_with("cannot use ")) {
        const auto with = text.rfind(" with ");
        if (with != std::string_view::npos)
            return "there is a value of kind " + std::string(text.substr(with + 6)) +
                   " where a list or an object belongs";
    }
    return std::string(text);
}

} // namespace lathe
