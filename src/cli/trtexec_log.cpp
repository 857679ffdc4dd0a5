#include <cstdio>
#include <memory>

#include "bench/trtexec_json.hpp"
#include "cli/commands.hpp"
#include "support/files.hpp"

namespace lathe::cli {

namespace {

struct Options {
    std::vector<std::string> logs;
    std::string output;
};

std::string number(const Json& row, const char* key, const char* format = "%.4g") {
    const auto found = row.find(key);
    if (found == row.end() || !found->is_number()) return "-";
    char text[40];
    std::snprintf(text, sizeof(text), format, found->get<double>());
    return text;
}

std::string text_or_dash(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string() || found->get<std::string>().empty()) return "-";
    return found->get<std::string>();
}

std::string times_table(const Json& document) {
    std::vector<std::vector<std::string>> cells{{"run", "TensorRT", "GPU", "batch", "samples/s", "median ms", "p99",
                                                 "min", "max", "copy in", "compute", "copy out", "enqueue"}};
    const Json& subjects = document.at("subjects");
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        const Json& row = document.at("latency")[i];
        cells.push_back({text_or_dash(subjects[i], "name"), text_or_dash(subjects[i].at("trtexec"), "version"),
                         text_or_dash(subjects[i], "device"), number(row, "batch", "%.0f"),
                         number(document.at("throughput")[i], "samples_per_second", "%.5g"), number(row, "median_ms"),
                         number(row, "p99_ms"), number(row, "min_ms"), number(row, "max_ms"), number(row, "copy_in_ms"),
                         number(row, "device_ms"), number(row, "copy_out_ms"), number(row, "enqueue_ms")});
    }
    return table(cells);
}

void print_options(const Json& subject, const Context& context) {
    const Json& details = subject.at("trtexec");
    for (const auto& [section, entries] : details.at("options").items()) {
        context.print("  " + section);
        for (const auto& [key, value] : entries.items()) {
            if (!value.get<std::string>().empty()) context.print("    " + key + ": " + value.get<std::string>());
        }
    }
}

Result<std::vector<TrtexecSource>> read_all(const std::vector<std::string>& logs) {
    std::vector<TrtexecSource> sources;
    for (const std::string& log : logs) {
        LATHE_TRY(const std::string text, read_text_file(log));
        LATHE_TRY(std::vector<TrtexecRun> runs, parse_trtexec_log(text, log));
        for (TrtexecRun& run : runs)
            sources.push_back({log, std::move(run)});
    }
    return sources;
}

Result<void> run(const Options& options, const Context& context) {
    LATHE_TRY(const std::vector<TrtexecSource> sources, read_all(options.logs));
    const Json document = trtexec_document(sources, context.command_line());
    const Json& missing = document.at("unavailable");
    if (document.at("subjects").empty()) {
        return Error{ErrorCode::parse_error, missing[0].at("reason").get<std::string>(), "",
                     missing[0].at("cure").get<std::string>()};
    }
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print(times_table(document));
    for (const Json& subject : document.at("subjects")) {
        for (const Json& remark : subject.at("trtexec").at("warnings")) {
            context.warn(subject.at("name").get<std::string>() + ": " + remark.at("text").get<std::string>());
        }
        if (context.verbose) {
            context.print(context.bold(subject.at("name").get<std::string>()));
            print_options(subject, context);
        }
    }
    for (const Json& each : missing)
        context.warn(each.at("subject").get<std::string>() + ": " + each.at("reason").get<std::string>());
    context.print("median: copy in + compute + copy out of a query, as trtexec counts it, without waiting");
    context.print_json(document);
    return {};
}

} // namespace

void add_trtexec_log(Commands& commands) {
    auto options = std::make_shared<Options>();
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
