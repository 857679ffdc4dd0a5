#include <cstdio>
#include <memory>

#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "cli/prepare.hpp"
#include "cli/task.hpp"
#include "lathe/sensitivity.hpp"
#include "report/document.hpp"
#include "report/html.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

constexpr std::size_t sensitivity_rows_shown = 20;

struct SensitivityArguments {
    SensitivityRequest request;
    std::string target;
    std::string device = "cpu";
    std::string report;
    bool all = false;
};

std::string number_or_dash(const Json& json, const char* key, const char* format, double factor = 1) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number()) return "-";
    char text[48];
    std::snprintf(text, sizeof(text), format, factor * found->get<double>());
    return text;
}

std::string pair_of(const Json& interval) {
    char text[64];
    std::snprintf(text, sizeof(text), "%+.2f..%+.2f", 100 * interval[0].get<double>(), 100 * interval[1].get<double>());
    return text;
}

std::vector<std::string> row_of(const Json& layer, const std::string& rank, bool by_task) {
    if (by_task) {
        return {rank,
                layer.value("node", "everything in INT8"),
                layer.value("role", ""),
                number_or_dash(layer, "task_delta", "%+.2f", 100),
                number_or_dash(layer, "task_agreement", "%.2f", 100),
                layer["sqnr_db"].is_null() ? "no noise" : number_or_dash(layer, "sqnr_db", "%.1f"),
                number_or_dash(layer, "damage_share", "%.1f", 100),
                number_or_dash(layer, "macs_share", "%.1f", 100)};
    }
    return {rank,
            layer.value("node", "everything in INT8"),
            layer.value("role", ""),
            layer["sqnr_db"].is_null() ? "no noise" : number_or_dash(layer, "sqnr_db", "%.1f"),
            number_or_dash(layer, "mean_kl", "%.2g"),
            number_or_dash(layer, "agreement", "%.2f", 100),
            number_or_dash(layer, "top1_delta", "%+.2f", 100),
            number_or_dash(layer, "damage_share", "%.1f", 100),
            number_or_dash(layer, "macs_share", "%.1f", 100)};
}

void print_result(const Json& document, bool all, const Context& context) {
    std::vector<std::vector<std::string>> rows{{"rank", "layer quantised alone", "role", "SQNR dB", "mean KL",
                                                "agreement %", "top-1 pt", "damage %", "work %"}};
    const bool by_task = document.contains("task");
    const std::string judged_by =
        by_task ? document["task"]["metric"].get<std::string>() : document["metric"].get<std::string>();
    if (by_task)
        rows = {{"rank", "layer quantised alone", "role", "metric pt", "FP32's answers %", "SQNR dB", "damage %",
                 "work %"}};
    std::size_t hidden = 0;
    std::size_t kept_float = 0;
    for (const Json& layer : document["layers"]) {
        if (!layer["quantized"].get<bool>()) {
            ++kept_float;
        } else if (!all && rows.size() > sensitivity_rows_shown) {
            ++hidden;
        } else {
            rows.push_back(row_of(layer, std::to_string(layer["rank"].get<std::size_t>()), by_task));
        }
    }
    rows.push_back(row_of(document["everything"], "", by_task));
    context.print(context.bold("Sensitivity by " + judged_by + " on " +
                               std::to_string(document["samples"].get<std::size_t>()) + " samples"));
    context.print(table(rows));
    if (by_task) {
        const Json& task = document["task"];
        context.print(judged_by + ": " + number_or_dash(task, "reference", "%.2f", 100) + " in float, " +
                      number_or_dash(task, "everything", "%.2f", 100) + " with everything in INT8 (" +
                      number_or_dash(task, "delta", "%+.2f", 100) + " pt, 95 % " + pair_of(task["delta_ci95"]) + ")");
    }
    if (hidden > 0) context.print("and " + std::to_string(hidden) + " less harmful layers (--all shows them)");
    if (kept_float > 0) {
        context.print(std::to_string(kept_float) + " more stay in float for this target (--json gives the reasons)");
    }
    context.print("");
    for (const Json& sentence : document["advice"])
        context.print(context.bold(sentence.get<std::string>()));
    const auto seconds = document["seconds"].get<double>();
    const auto plain = document["float_seconds"].get<double>();
    char text[160];
    std::snprintf(text, sizeof(text), "%.1f s; the float model alone takes %.1f s for as many samples (%.1f times)",
                  seconds, plain, plain > 0 ? seconds / plain : 0.0);
    context.print(text);
}

/// The page, if one was asked for. Its folder is tried before the work.
Result<void> write_report(const SensitivityArguments& options, const Json& document, const Context& context) {
    if (options.report.empty()) return {};
    report::DocumentOptions page;
    page.command = context.command_line();
    page.version = LATHE_VERSION;
    LATHE_TRY(
        const Json whole,
        report::make_document(
            {{options.request.output.empty() ? "sensitivity" : options.request.output.string(), document}}, page));
    LATHE_CHECK(write_file(options.report, report::render_html(whole)));
    context.print("report: " + options.report);
    return {};
}

std::string target_of(const SensitivityArguments& options) {
    if (!options.target.empty()) return options.target;
    return options.device == "cpu" ? "openvino" : options.device;
}

SensitivityRequest request_of(const SensitivityArguments& options, const Context& context) {
    SensitivityRequest request = options.request;
    request.target = target_of(options);
    request.command_line = context.command_line();
    request.progress = &context.progress();
    return request;
}

Result<void> run_sensitivity(const SensitivityArguments& options, const Context& context) {
    LATHE_CHECK(check_writable({options.report}));
    LATHE_TRY(const SensitivityResult found, sensitivity(request_of(options, context)));
    for (const std::string& notice : found.notices)
        context.warn(notice);
    LATHE_TRY(const Json document, parse_json(found.document, "sensitivity"));
    if (found.resumed_samples > 0) context.print("went on after " + std::to_string(found.resumed_samples) + " samples");
    print_result(document, options.all, context);
    LATHE_CHECK(write_report(options, document, context));
    context.print_json(document);
    return {};
}

} // namespace

void add_sensitivity(Commands& commands) {
    auto options = std::make_shared<SensitivityArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"sensitivity",
         "Which layer hurts: quantise one layer at a time, the others in FP32, and see what becomes of the output",
         {"lathe sensitivity resnet50.onnx --data labelled/ --output sensitivity.json --report sensitivity.html",
          "lathe sensitivity m.onnx --data labelled/ --calibrate photos/ --metric top1 --samples 2000",
          "lathe sensitivity m.onnx --data photos/ --ranges m.ranges --metric kl --json",
          "lathe sensitivity yolox.onnx --data coco/ --calibrate photos/ --task detection",
          "lathe sensitivity m.onnx --data labelled/ --device cuda"}},
        [options, &context] { return run_sensitivity(*options, context); });
    add_prepare_options(command, options->request);
    command.add_option("--samples", options->request.samples, "How many samples, spread evenly over the data; 0: all")
        ->capture_default_str();
    command
        .add_option("--metric", options->request.metric,
                    "Rank by: sqnr (noise at the outputs), kl, agreement (classes changed), top1 (right answers lost), "
                    "task (what --task's metric loses; default where a task is named or told, else sqnr)")
        ->check(CLI::IsMember({"sqnr", "kl", "agreement", "top1", "task"}));
    add_task_options(command, options->request.task);
    command
        .add_option("--device", options->device,
                    "Quantise as engines of this device want it; the CPU computes in any case (see --target)")
        ->check(CLI::IsMember({"cpu", "cuda", "tensorrt"}))
        ->capture_default_str();
    command
        .add_option("--target", options->target,
                    "The same by the runtime's name: openvino, onnxruntime, tensorrt, cuda")
        ->check(CLI::IsMember({"openvino", "onnxruntime", "tensorrt", "cuda"}));
    command
        .add_option("--batch-size", options->request.batch_size,
                    "Samples at once, where the model leaves it open (default: one a core)")
        ->check(positive_number());
    command.add_option("-o,--output", options->request.output,
                       "JSON to write; FILE.part beside it keeps what is done, so that the same command goes on");
    command.add_option("--report", options->report, "HTML page to write: ranked table and chart");
    command.add_flag("--all", options->all, "Show every layer in the table");
    command.add_flag("--force", options->request.force, "Begin anew, whatever FILE.part holds");
}

} // namespace lathe::cli
