#include <memory>

#include "cli/commands.hpp"
#include "lathe/report.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct ReportOptions {
    ReportRequest request;
    double max_drop = -1.0; ///< negative: not given
};

Result<void> run_report(const Context& context, const ReportOptions& options) {
    ReportRequest request = options.request;
    request.command_line = context.command_line();
    request.progress = &context.progress();
    if (options.max_drop >= 0.0) request.max_drop = options.max_drop;
    LATHE_TRY(const ReportResult written, write_report(request));
    if (!written.verdict.empty()) context.print(context.bold(written.verdict));
    context.print("report: " + written.output.string());
    Json files = Json::array();
    for (const auto& image : written.charts) {
        context.print("chart:  " + image.string());
        files.push_back(image.string());
    }
    Json result{{"kind", "report"}, {"version", 1}, {"output", written.output.string()}, {"images", std::move(files)}};
    if (!written.verdict_document.empty()) {
        LATHE_TRY(result["verdict"], parse_json(written.verdict_document, "verdict"));
    }
    context.print_json(result);
    return {};
}

} // namespace

void add_report(Commands& commands) {
    auto options = std::make_shared<ReportOptions>();
    CLI::App& command =
        commands.add({"report",
                      "Turn results (JSON of optimize, bench, eval, calibrate, profile-data and others) into one "
                      "self-contained HTML file",
                      {"lathe report out/results.json --output report.html",
                       "lathe report bench.json eval.json --output report.html --png charts/",
                       "lathe report out/results.json --max-drop 0.5"}},
                     [&context = commands.context(), options] { return run_report(context, *options); });
    command.add_option("results", options->request.results, "JSON files; any subset of the kinds, one of each")
        ->required();
    command.add_option("-o,--output", options->request.output, "HTML file to write")->capture_default_str();
    command.add_option("--png", options->request.charts,
                       "Also write every chart as PNG into this folder (needs Chromium)");
    command.add_option("--title", options->request.title, "Title of the report (default: the model's name)");
    command
        .add_option("--max-drop", options->max_drop,
                    "Judge afresh: the largest loss of top-1 accuracy allowed, in points (default 1)")
        ->check(CLI::Range(0.0, 100.0));
}

} // namespace lathe::cli
