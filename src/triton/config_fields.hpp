#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe::triton {

/// Of a field of Triton's configuration, as JSON: its text, "" where there is none.
inline std::string text_at(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Its entries, none where it is no list.
inline const Json& list_at(const Json& object, const char* key) {
    static const Json none = Json::array();
    const auto found = object.find(key);
    return found != object.end() && found->is_array() ? *found : none;
}

} // namespace lathe::triton
