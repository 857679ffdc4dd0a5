#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "support/json.hpp"

namespace lathe::report {

/// The template with each {{mark}} replaced by what `value_of` gives for it. Marks inside values stay as they are.
std::string fill(std::string_view page, const std::function<std::string(std::string_view mark)>& value_of);

/// Text for HTML, also within an attribute; what is not UTF-8 is replaced.
std::string escape_html(const std::string& text);

/// JSON that may stand inside a script element: ASCII only (so no U+2028), and no '<', '>' or '&', so that neither
/// "</script" nor "<!--" can occur. These characters occur in JSON only within strings, where \u003c means the same.
std::string escape_json(const Json& document);

} // namespace lathe::report
