#include "lathe/report.hpp"

#include <utility>

#include "report/document.hpp"
#include "report/fields.hpp"
#include "report/html.hpp"
#include "report/images.hpp"
#include "support/files.hpp"
#include "support/json.hpp"
#include "support/lost_inputs.hpp"

namespace lathe {

Result<ReportResult> write_report(const ReportRequest& request) {
    if (request.results.empty())
        return Error{ErrorCode::invalid_argument, "there is nothing to report", "results", "give JSON files"};
    std::vector<report::Input> inputs;
    std::vector<std::string> files;
    for (const auto& file : request.results) {
        LATHE_TRY(Json json, read_json_file(file));
        inputs.push_back({file.string(), std::move(json)});
        files.push_back(file.string());
    }
    LATHE_CHECK(refuse_lost_inputs({request.output.string()}, files));
    report::DocumentOptions rules;
    rules.command = request.command_line;
    rules.version = LATHE_VERSION;
    rules.title = request.title;
    rules.max_drop_points = request.max_drop;
    LATHE_TRY(const Json document, report::make_document(std::move(inputs), rules));
    const std::string html = report::render_html(document);
    LATHE_CHECK(write_file(request.output, std::string_view(html)));
    ReportResult result;
    result.output = request.output;
    if (!request.charts.empty()) {
        Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
        LATHE_TRY(result.charts, report::write_images(html, request.charts, progress));
    }
    if (const Json* verdict = report::member(document, "verdict"); verdict != nullptr) {
        result.verdict = report::text(*verdict, "text");
        result.verdict_document = verdict->dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return result;
}

} // namespace lathe
