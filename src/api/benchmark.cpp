#include "lathe/bench.hpp"

#include <utility>

#include "api/optimized_rows.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "bench/run.hpp"
#include "report/fields.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

using report::find_item;
using report::items;
using report::number;
using report::text;

Result<BenchRequest> inner(const BenchmarkRequest& given) {
    if (given.engines.empty())
        return Error{ErrorCode::invalid_argument, "there is no engine to measure", "engines", "give an engine file"};
    BenchRequest request;
    request.engines = given.engines;
    for (const auto& name : given.against) {
        LATHE_TRY(PeerRequest peer, parse_peer(name));
        request.against.push_back(std::move(peer));
    }
    LATHE_CHECK(check_source(given.source));
    request.code = given.source;
    request.model = given.model;
    request.batch_sizes = given.batch_sizes;
    request.duration_s = given.duration_s;
    request.time_limit_s = given.time_limit_s;
    request.data = given.data;
    request.columns = given.columns;
    request.make_tokenizer = openvino::make_tokenizer;
    request.preprocess = PreprocessChoice(given.preprocess);
    request.samples = given.samples;
    if (!given.program.empty()) {
        request.probe_command = given.program;
        request.probe_command.insert(request.probe_command.end(), {"bench", "--probe"});
    }
    request.command_line = given.command_line;
    return request;
}

std::size_t count(const Json& object, const char* key) {
    return static_cast<std::size_t>(number(object, key).value_or(0));
}

std::int64_t batch_of(const Json& object) { return static_cast<std::int64_t>(number(object, "batch").value_or(0)); }

std::optional<double> throughput_of(const Json& document, const std::string& name, std::int64_t batch) {
    for (const Json& entry : items(document, "throughput")) {
        if (text(entry, "subject") == name && batch_of(entry) == batch) return number(entry, "samples_per_second");
    }
    return std::nullopt;
}

BenchmarkResult benchmark_result_of(const Json& document) {
    BenchmarkResult result;
    for (const Json& latency : items(document, "latency")) {
        BenchmarkRow row;
        row.name = text(latency, "subject");
        row.batch = batch_of(latency);
        row.latency_ms = measured(latency, "median_ms", "ci95_ms").value_or(Measured{});
        row.p99_ms = number(latency, "p99_ms").value_or(0);
        row.calls = count(latency, "count");
        row.samples_per_second = throughput_of(document, row.name, row.batch);
        if (const Json* subject = find_item(items(document, "subjects"), "name", row.name); subject != nullptr) {
            row.kind = text(*subject, "kind");
            row.precision = text(*subject, "precision");
        }
        result.rows.push_back(std::move(row));
    }
    for (const Json& ratio : items(document, "ratios")) {
        result.ratios.push_back({text(ratio, "subject"), text(ratio, "reference"), batch_of(ratio),
                                 measured(ratio, "speedup", "ci95").value_or(Measured{}), count(ratio, "pairs")});
    }
    for (const Json& gap : items(document, "unavailable"))
        result.gaps.push_back({text(gap, "subject"), batch_of(gap), text(gap, "reason"), text(gap, "cure")});
    for (const Json& note : items(document, "notes")) {
        if (note.is_string()) result.notes.push_back(note.get<std::string>());
    }
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace

Result<BenchmarkResult> benchmark(const BenchmarkRequest& request) {
    LATHE_TRY(const BenchRequest asked, inner(request));
    LATHE_TRY(const Json document, bench(asked, request.progress != nullptr ? *request.progress : no_progress()));
    return benchmark_result_of(document);
}

} // namespace lathe
