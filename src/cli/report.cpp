#include <filesystem>
#include <memory>

#include "cli/commands.hpp"
#include "report/document.hpp"
#include "report/fields.hpp"
#include "report/html.hpp"
#include "report/images.hpp"
#include "support/files.hpp"

namespace lathe::cli {

namespace {

struct ReportOptions {
    std::vector<std::string> inputs;
    std::string output = "report.html";
    std::string images;
    std::string title;
    double max_drop = -1.0; ///< negative: not given
};

Result<void> run_report(const Context& context, const ReportOptions& options) {
    std::vector<report::Input> inputs;
    for (const std::string& file : options.inputs) {
        LATHE_TRY(Json json, read_json_file(file));
        inputs.push_back({file, std::move(json)});
    }
    report::DocumentOptions rules;
    rules.command = context.command_line();
    rules.version = LATHE_VERSION;
    rules.title = options.title;
    if (options.max_drop >= 0.0) rules.max_drop_points = options.max_drop;
    LATHE_TRY(const Json document, report::make_document(std::move(inputs), rules));
    const std::string html = report::render_html(document);
    LATHE_CHECK(write_file(options.output, std::string_view(html)));
    std::vector<std::filesystem::path> images;
    if (!options.images.empty()) {
        LATHE_TRY(images, report::write_images(html, options.images, context.progress()));
    }

    const Json* verdict = report::member(document, "verdict");
    const std::string text = verdict != nullptr ? report::text(*verdict, "text") : "";
    if (!text.empty()) context.print(context.bold(text));
    context.print("report: " + options.output);
    Json files = Json::array();
    for (const auto& image : images) {
        context.print("chart:  " + image.string());
        files.push_back(image.string());
    }
    Json result{{"kind", "report"}, {"version", 1}, {"output", options.output}, {"images", std::move(files)}};
    if (verdict != nullptr) result["verdict"] = *verdict;
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
    command.add_option("results", options->inputs, "JSON files; any subset of the kinds, one of each")->required();
    command.add_option("-o,--output", options->output, "HTML file to write")->capture_default_str();
    command.add_option("--png", options->images, "Also write every chart as PNG into this folder (needs Chromium)");
    command.add_option("--title", options->title, "Title of the report (default: the model's name)");
    command
        .add_option("--max-drop", options->max_drop,
                    "Judge afresh: the largest loss of top-1 accuracy allowed, in points (default 1)")
        ->check(CLI::Range(0.0, 100.0));
}

} // namespace lathe::cli
