#include "report/page.hpp"

namespace lathe::report {

namespace {

/// UTF-8 with what is not UTF-8 replaced, as a string of the document may hold anything.
std::string valid_utf8(const std::string& text) {
    return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

} // namespace

std::string fill(std::string_view page, const std::function<std::string(std::string_view mark)>& value_of) {
    constexpr std::string_view open = "{{";
    constexpr std::string_view close = "}}";
    std::string filled;
    for (;;) {
        const std::size_t start = page.find(open);
        const std::size_t end = start == std::string_view::npos ? start : page.find(close, start);
        if (end == std::string_view::npos) break;
        filled += page.substr(0, start);
        filled += value_of(page.substr(start + open.size(), end - start - open.size()));
        page = page.substr(end + close.size());
    }
    filled += page;
    return filled;
}

std::string escape_html(const std::string& text) {
    std::string escaped;
    for (const char c : valid_utf8(text)) {
        switch (c) {
            case '&': escaped += "&amp;"; break;
            case '<': escaped += "&lt;"; break;
            case '>': escaped += "&gt;"; break;
            case '"': escaped += "&quot;"; break;
            case '\'': escaped += "&#39;"; break;
            default: escaped += c;
        }
    }
    return escaped;
}

std::string escape_json(const Json& document) {
    std::string escaped;
    for (const char c : document.dump(-1, ' ', true, Json::error_handler_t::replace)) {
        switch (c) {
            case '<': escaped += "\\u003c"; break;
            case '>': escaped += "\\u003e"; break;
            case '&': escaped += "\\u0026"; break;
            default: escaped += c;
        }
    }
    return escaped;
}

} // namespace lathe::report
