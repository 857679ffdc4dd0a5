#include "report/html.hpp"

#include <string_view>

#include "report/assets.hpp"
#include "report/fields.hpp"

namespace lathe::report {

namespace {

std::string escape_html(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
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

/// JSON that may stand inside a script element: ASCII only (so no U+2028), and no '<', '>' or '&', so that neither
/// "</script" nor "<!--" can occur. These characters occur in JSON only within strings, where \u003c means the same.
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

/// UTF-8 with what is not UTF-8 replaced, as a string of the document may hold anything.
std::string valid_utf8(const std::string& text) {
    return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::string value_of(std::string_view mark, const Json& document) {
    if (mark == "title") return escape_html(valid_utf8(text(document, "title")));
    if (mark == "style") return std::string(asset("report.css"));
    if (mark == "chart.js") return std::string(asset("chart.min.js"));
    if (mark == "data") return escape_json(document);
    if (mark == "script") {
        std::string script;
        for (const char* name :
             {"format.js", "tables.js", "charts.js", "figures.js", "mix.js", "sections.js", "main.js"})
            script += asset(name);
        return script;
    }
    return {};
}

} // namespace

std::string render_html(const Json& document) {
    // One pass over the template, so that a mark inside a value is not taken for one of ours.
    constexpr std::string_view open = "{{";
    constexpr std::string_view close = "}}";
    std::string_view rest = asset("report.html");
    std::string page;
    for (;;) {
        const std::size_t start = rest.find(open);
        const std::size_t end = start == std::string_view::npos ? start : rest.find(close, start);
        if (end == std::string_view::npos) break;
        page += rest.substr(0, start);
        page += value_of(rest.substr(start + open.size(), end - start - open.size()), document);
        rest = rest.substr(end + close.size());
    }
    page += rest;
    return page;
}

} // namespace lathe::report
