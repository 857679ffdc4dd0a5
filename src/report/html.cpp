#include "report/html.hpp"

#include <string_view>

#include "report/assets.hpp"
#include "report/fields.hpp"
#include "report/page.hpp"

namespace lathe::report {

namespace {

std::string value_of(std::string_view mark, const Json& document) {
    if (mark == "title") return escape_html(text(document, "title"));
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
    return fill(asset("report.html"), [&](std::string_view mark) { return value_of(mark, document); });
}

} // namespace lathe::report
