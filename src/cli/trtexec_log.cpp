#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "lathe/trtexec.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct TrtexecLogArguments {
    std::vector<std::string> logs;
    std::string output;
};

std::string measured(const std::optional<double>& value) { return value ? cli::number(*value) : "-"; }

std::string text_or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string times_table(const TrtexecLogs& logs) {
    std::vector<std::vector<std::string>> cells{{"run", "TensorRT", "GPU", "batch", "samples/s", "median ms", "p99",
                                                 "min", "max", "copy in", "compute", "copy out", "enqueue"}};
    for (const TrtexecMeasurement& run : logs.measured) {
        cells.push_back({text_or_dash(run.name), text_or_dash(run.version), text_or_dash(run.device),
                         std::to_string(run.batch), cli::number(run.samples_per_second, "%.5g"),
                         measured(run.median_ms), measured(run.p99_ms), measured(run.min_ms), measured(run.max_ms),
                         measured(run.copy_in_ms), measured(run.compute_ms), measured(run.copy_out_ms),
                         measured(run.enqueue_ms)});
    }
    return table(cells);
}

void print_settings(const TrtexecMeasurement& run, const Context& context) {
    for (const TrtexecSettings& settings : run.settings) {
        context.print("  " + settings.heading);
        for (const auto& [key, value] : settings.entries) {
            if (!value.empty()) context.print("    " + key + ": " + value);
        }
    }
}

Result<void> run(const TrtexecLogArguments& options, const Context& context) {
    const TrtexecLogsRequest request{{options.logs.begin(), options.logs.end()}, context.command_line()};
    LATHE_TRY(const TrtexecLogs logs, read_trtexec_logs(request));
    LATHE_TRY(Json document, parse_json(logs.document, "trtexec-log"));
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print(times_table(logs));
    for (const TrtexecMeasurement& measured : logs.measured) {
        for (const std::string& warning : measured.warnings)
            context.warn(measured.name + ": " + warning);
        if (context.verbose) {
            context.print(context.bold(measured.name));
            print_settings(measured, context);
        }
    }
    for (const TrtexecGap& gap : logs.unavailable)
        context.warn(gap.name + ": " + gap.reason);
    context.print("median: copy in + compute + copy out of a query, as trtexec counts it, without waiting");
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_trtexec_log(Commands& commands) {
    auto options = std::make_shared<TrtexecLogArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"trtexec-log",
         "Read what trtexec of TensorRT 8 to 11 printed: throughput, latency and its parts, settings, and the "
         "warnings that matter; as JSON in the form of lathe bench, which lathe report takes",
         {"lathe trtexec-log run.log", "lathe trtexec-log fp16.log int8.log --output trtexec.json",
          "lathe trtexec-log run.log --verbose", "lathe report bench.json trtexec.json --output report.html"}},
        [options, &context] { return run(*options, context); });
    command.add_option("logs", options->logs, "What trtexec printed; a file may hold several runs")->required();
    command.add_option("-o,--output", options->output, "Also write the JSON to this file");
}

} // namespace lathe::cli
