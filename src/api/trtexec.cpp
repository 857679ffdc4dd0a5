#include "lathe/trtexec.hpp"

#include "bench/trtexec_json.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

std::optional<double> percentile(const TrtexecRun& run, double percent) { return run.latency->percentile(percent); }

std::string text_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<double> number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
}

/// Names, and figures that depend on how a query is counted, are the document's.
TrtexecMeasurement measurement_of(const TrtexecSource& source, const Json& document, std::size_t row) {
    const Json& subject = document.at("subjects")[row];
    const Json& latency = document.at("latency")[row];
    const TrtexecRun& run = source.run;
    TrtexecMeasurement measured;
    measured.name = text_at(subject, "name");
    measured.log = source.file;
    measured.model = text_at(subject, "file");
    measured.version = run.version;
    measured.device = text_at(subject, "device");
    measured.precision = run.precision();
    measured.batch = run.batch();
    measured.samples_per_second = number_at(document.at("throughput")[row], "samples_per_second").value_or(0);
    measured.median_ms = run.latency->median;
    measured.mean_ms = run.latency->mean;
    measured.min_ms = run.latency->min;
    measured.max_ms = run.latency->max;
    measured.p90_ms = percentile(run, 90);
    measured.p95_ms = percentile(run, 95);
    measured.p99_ms = percentile(run, 99);
    measured.copy_in_ms = number_at(latency, "copy_in_ms");
    measured.compute_ms = number_at(latency, "device_ms");
    measured.copy_out_ms = number_at(latency, "copy_out_ms");
    measured.enqueue_ms = number_at(latency, "enqueue_ms");
    for (const TrtexecRemark& remark : run.remarks)
        measured.warnings.push_back(remark.text);
    for (const TrtexecSection& section : run.sections) {
        if (!section.entries.empty() && section.name != "Device Information")
            measured.settings.push_back({section.name, section.entries});
    }
    return measured;
}

} // namespace

Result<TrtexecLogs> read_trtexec_logs(const TrtexecLogsRequest& request) {
    if (request.logs.empty())
        return Error{ErrorCode::invalid_argument, "there is no log to read", "", "give what trtexec printed"};
    std::vector<TrtexecSource> sources;
    for (const std::filesystem::path& log : request.logs) {
        LATHE_TRY(const std::string text, read_text_file(log));
        LATHE_TRY(std::vector<TrtexecRun> runs, parse_trtexec_log(text, log.string()));
        for (TrtexecRun& run : runs)
            sources.push_back({log.string(), std::move(run)});
    }
    const Json document = trtexec_document(sources, request.command_line);
    TrtexecLogs logs;
    for (const Json& gap : document.at("unavailable"))
        logs.unavailable.push_back({text_at(gap, "subject"), text_at(gap, "reason"), text_at(gap, "cure")});
    for (const TrtexecSource& source : sources) {
        if (source.run.measured()) logs.measured.push_back(measurement_of(source, document, logs.measured.size()));
    }
    if (logs.measured.empty()) {
        const TrtexecGap& first = logs.unavailable.front();
        return Error{ErrorCode::parse_error, first.reason, "", first.cure};
    }
    logs.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return logs;
}

} // namespace lathe
