#include "report/graph_page.hpp"

#include <string_view>

#include "report/assets.hpp"
#include "report/fields.hpp"
#include "report/page.hpp"

namespace lathe::report {

std::string render_graph_html(const Json& graph) {
    return fill(asset("graph.html"), [&](std::string_view mark) -> std::string {
        if (mark == "title") return escape_html(text(graph, "title"));
        if (mark == "style") return std::string(asset("graph.css"));
        if (mark == "data") return escape_json(graph);
        if (mark == "script") return std::string(asset("graph_layout.js")) + std::string(asset("graph.js"));
        return {};
    });
}

} // namespace lathe::report
