#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "cli/prepare.hpp"
#include "report/document.hpp"
#include "report/html.hpp"
#include "sensitivity/document.hpp"
#include "sensitivity/measure.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"

namespace lathe::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t rows_shown = 20;

struct Options {
    PrepareOptions prepare;
    SensitivityOptions measure;
    std::string metric = to_string(DamageMetric::sqnr);
    std::string target;
    std::string device = "cpu";
    std::string output;
    std::string report;
    bool force = false;
    bool all = false;
};

std::string number(const Json& json, const char* key, const char* format, double factor = 1) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number()) return "-";
    char text[48];
    std::snprintf(text, sizeof(text), format, factor * found->get<double>());
    return text;
}

std::vector<std::string> row_of(const Json& layer, const std::string& rank) {
    return {rank,
            layer.value("node", "everything in INT8"),
            layer.value("role", ""),
            layer["sqnr_db"].is_null() ? "no noise" : number(layer, "sqnr_db", "%.1f"),
            number(layer, "mean_kl", "%.2g"),
            number(layer, "agreement", "%.2f", 100),
            number(layer, "top1_delta", "%+.2f", 100),
            number(layer, "damage_share", "%.1f", 100),
            number(layer, "macs_share", "%.1f", 100)};
}

void print_result(const Json& document, bool all, const Context& context) {
    std::vector<std::vector<std::string>> rows{{"rank", "layer quantised alone", "role", "SQNR dB", "mean KL",
                                                "agreement %", "top-1 pt", "damage %", "work %"}};
    std::size_t hidden = 0;
    std::size_t kept_float = 0;
    for (const Json& layer : document["layers"]) {
        if (!layer["quantized"].get<bool>()) {
            ++kept_float;
        } else if (!all && rows.size() > rows_shown) {
            ++hidden;
        } else {
            rows.push_back(row_of(layer, std::to_string(layer["rank"].get<std::size_t>())));
        }
    }
    rows.push_back(row_of(document["everything"], ""));
    context.print(context.bold("Sensitivity by " + document["metric"].get<std::string>() + " on " +
                               std::to_string(document["samples"].get<std::size_t>()) + " samples"));
    context.print(table(rows));
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
Result<void> write_report(const Options& options, const Json& document, const Context& context) {
    if (options.report.empty()) return {};
    report::DocumentOptions page;
    page.command = context.command_line();
    page.version = LATHE_VERSION;
    LATHE_TRY(const Json whole,
              report::make_document({{options.output.empty() ? "sensitivity" : options.output, document}}, page));
    LATHE_CHECK(write_file(options.report, report::render_html(whole)));
    context.print("report: " + options.report);
    return {};
}

std::string target_of(const Options& options) {
    if (!options.target.empty()) return options.target;
    return options.device == "cpu" ? "openvino" : options.device;
}

Result<void> sensitivity(const Options& options, const Context& context) {
    LATHE_TRY(const DamageMetric metric, damage_metric_from_name(options.metric));
    LATHE_CHECK(check_writable({options.output, options.report}));
    SensitivityOptions measure = options.measure;
    LATHE_TRY(measure.target, target_from_name(target_of(options)));
    LATHE_TRY(const Backend* backend, default_backend());

    LATHE_TRY(const PreparedModel prepared, prepare_model(options.prepare, context));
    LATHE_TRY(const auto data, open_labelled(options.prepare.data, prepared, options.prepare));
    if (metric == DamageMetric::top1 && !data->has_labels()) {
        return Error{ErrorCode::invalid_argument, "--metric top1 needs labels, and the data has none",
                     options.prepare.data, "add labels.csv or class subfolders, or use --metric sqnr, kl or agreement"};
    }
    LATHE_TRY(const std::string digest, data->digest());
    measure.threads = options.prepare.threads;
    measure.length = options.prepare.length;
    Hasher hasher;
    for (const std::string& part : {prepared.key, digest, target_of(options), measure.output_name})
        hasher.update(part);
    hasher.update(static_cast<std::int64_t>(measure.batch_size));
    hasher.update(static_cast<std::int64_t>(measure.length));
    hasher.update(static_cast<std::int64_t>(data->size()));
    measure.key = hasher.hex();
    if (!options.output.empty()) {
        measure.journal = options.output + ".part";
        std::error_code ignored;
        if (options.force) fs::remove(measure.journal, ignored);
    }
    LATHE_TRY(const Sensitivity found,
              measure_sensitivity(prepared.model, prepared.ranges, *data, *backend, measure, context.progress()));
    Json document = to_json(found, metric);
    document["target"] = target_of(options);
    document["method"] = to_string(prepared.ranges.method);
    document["model"] = {{"name", fs::path(options.prepare.model).stem().string()},
                         {"file", options.prepare.model},
                         {"hash", prepared.source_hash}};
    document["data"] = {{"path", options.prepare.data}, {"digest", digest}, {"samples", found.samples}};
    document["lathe_version"] = LATHE_VERSION;
    document["machine"] = to_json(this_machine());
    document["command"] = context.command_line();
    document["time"] = utc_now();
    if (!options.output.empty()) {
        LATHE_CHECK(write_json_file(options.output, document));
        std::error_code ignored;
        fs::remove(measure.journal, ignored);
    }
    if (found.resumed_samples > 0) context.print("went on after " + std::to_string(found.resumed_samples) + " samples");
    print_result(document, options.all, context);
    LATHE_CHECK(write_report(options, document, context));
    context.print_json(document);
    return {};
}

} // namespace

void add_sensitivity(Commands& commands) {
    auto options = std::make_shared<Options>();
    options->prepare.samples = 500;
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"sensitivity",
         "Which layer hurts: quantise one layer at a time, the others in FP32, and see what becomes of the output",
         {"lathe sensitivity resnet50.onnx --data labelled/ --output sensitivity.json --report sensitivity.html",
          "lathe sensitivity m.onnx --data labelled/ --calibrate photos/ --metric top1 --samples 2000",
          "lathe sensitivity m.onnx --data photos/ --ranges m.ranges --metric kl --json",
          "lathe sensitivity m.onnx --data labelled/ --device cuda"}},
        [options, &context] { return sensitivity(*options, context); });
    add_prepare_options(command, options->prepare);
    command.add_option("--samples", options->prepare.samples, "How many samples, spread evenly over the data; 0: all")
        ->capture_default_str();
    command
        .add_option("--metric", options->metric,
                    "Rank by: sqnr (noise at the output), kl, agreement (classes changed), top1 (right answers lost)")
        ->check(CLI::IsMember({"sqnr", "kl", "agreement", "top1"}))
        ->capture_default_str();
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
        .add_option("--batch-size", options->measure.batch_size,
                    "Samples at once, where the model leaves it open (default: one a core)")
        ->check(positive_number());
    command.add_option("--output-name", options->measure.output_name, "Output to judge (default: the first)");
    command.add_option("-o,--output", options->output,
                       "JSON to write; FILE.part beside it keeps what is done, so that the same command goes on");
    command.add_option("--report", options->report, "HTML page to write: ranked table and chart");
    command.add_flag("--all", options->all, "Show every layer in the table");
    command.add_flag("--force", options->force, "Begin anew, whatever FILE.part holds");
}

} // namespace lathe::cli
