#include "bench/trtexec_json.hpp"

#include <filesystem>
#include <set>

#include "bench/statistics.hpp"

namespace lathe {
namespace {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json times_json(const TrtexecTimes& times) {
    Json percentiles = Json::object();
    for (const auto& [percent, value] : times.percentiles) {
        percentiles[percent_name(percent)] = value;
    }
    return {{"min_ms", times.min},
            {"max_ms", times.max},
            {"mean_ms", times.mean},
            {"median_ms", times.median},
            {"percentiles_ms", std::move(percentiles)}};
}

Json remark_json(const TrtexecRemark& remark) {
    Json json{{"name", remark.name}, {"text", remark.text}};
    if (remark.line != 0) json["line"] = remark.line;
    if (remark.count > 1) json["lines"] = remark.count;
    return json;
}

/// The model or engine that was run, as the options have it.
std::string model_file(const TrtexecRun& run) {
    for (const auto& [section, key] :
         {std::pair{"Build Options", "Load engine"}, std::pair{"Model Options", "Model"}}) {
        const std::string_view file = run.section(section).value(key);
        if (!file.empty() && file != "*") return std::string(file);
    }
    // A loaded engine's build options are not printed.
    for (const std::string_view option : {"--loadEngine=", "--onnx="}) {
        const std::size_t at = run.command.find(option);
        if (at == std::string::npos) continue;
        const std::size_t begin = at + option.size();
        return run.command.substr(begin, run.command.find(' ', begin) - begin);
    }
    return "";
}

std::string subject_name(const TrtexecSource& source, std::set<std::string>& taken) {
    const std::string file = model_file(source.run);
    std::string name = std::filesystem::path(file.empty() ? source.file : file).stem().string();
    if (!source.run.precision().empty()) name += " " + source.run.precision();
    if (taken.contains(name)) name += ", " + std::filesystem::path(source.file).filename().string();
    const std::string stem = name;
    for (int i = 2; !taken.insert(name).second; ++i)
        name = stem + " (" + std::to_string(i) + ")";
    return name;
}

Json details_of(const TrtexecSource& source) {
    const TrtexecRun& run = source.run;
    Json json{{"log", source.file}, {"line", run.first_line}, {"version", run.version}, {"command", run.command}};
    json["passed"] = run.passed ? Json(*run.passed) : Json(nullptr);
    json["options"] = Json::object();
    for (const TrtexecSection& section : run.sections) {
        if (section.entries.empty()) continue;
        Json& place = section.name == "Device Information" ? json["device"] : json["options"][section.name];
        for (const auto& [key, value] : section.entries)
            place[key] = value;
    }
    json["inputs"] = Json::object();
    for (const auto& [name, shape] : run.inputs)
        json["inputs"][name] = shape;
    for (const auto& [name, times] : {std::pair{"latency", &run.latency}, std::pair{"copy_in", &run.copy_in},
                                      std::pair{"compute", &run.compute}, std::pair{"copy_out", &run.copy_out},
                                      std::pair{"enqueue", &run.enqueue}, std::pair{"end_to_end", &run.end_to_end}}) {
        if (*times) json[name] = times_json(**times);
    }
    json["throughput_qps"] = or_null(run.throughput_qps);
    json["walltime_s"] = or_null(run.walltime_s);
    json["compute_total_s"] = or_null(run.compute_total_s);
    json["warm_up_ms"] = or_null(run.warm_up_ms);
    json["build_s"] = or_null(run.build_s);
    json["load_s"] = or_null(run.load_s);
    json["queries"] = run.queries ? Json(*run.queries) : Json(nullptr);
    json["random_inputs"] = run.random_inputs;
    json["warnings"] = Json::array();
    for (const TrtexecRemark& remark : run.remarks)
        json["warnings"].push_back(remark_json(remark));
    return json;
}

Json subject_json(const TrtexecSource& source, const std::string& name) {
    const TrtexecRun& run = source.run;
    Json notes = Json::array();
    notes.push_back(
        run.has_transfers()
            ? "trtexec's latency is copy in + compute + copy out of a query, without waiting for earlier ones"
            : "trtexec ran without copying inputs and outputs: its latency is the GPU's alone");
    for (const TrtexecRemark& remark : run.remarks)
        notes.push_back(remark.text);
    const std::string_view device = run.section("Device Information").value("Selected Device");
    return {{"name", name},
            {"kind", "trtexec"},
            {"precision", run.precision()},
            {"file", model_file(run)},
            {"device", device.empty() ? Json(nullptr) : Json(std::string(device))},
            {"load_ms", run.load_s ? Json(*run.load_s * 1e3) : Json(nullptr)},
            {"notes", std::move(notes)},
            {"trtexec", details_of(source)}};
}

Json latency_json(const TrtexecRun& run, const std::string& name) {
    const TrtexecTimes& whole = *run.latency;
    const bool copied = run.has_transfers();
    Json json{{"subject", name},
              {"batch", run.batch()},
              {"median_ms", whole.median},
              {"mean_ms", whole.mean},
              {"p90_ms", or_null(whole.percentile(90))},
              {"p95_ms", or_null(whole.percentile(95))},
              {"p99_ms", or_null(whole.percentile(99))},
              {"min_ms", whole.min},
              {"max_ms", whole.max},
              {"count", run.queries ? Json(*run.queries) : Json(nullptr)},
              {"p99_reliable", run.queries && *run.queries >= minimum_p99_count},
              {"copy_in_ms", copied && run.copy_in ? Json(run.copy_in->median) : Json(nullptr)},
              {"copy_out_ms", copied && run.copy_out ? Json(run.copy_out->median) : Json(nullptr)},
              {"device_ms", run.compute->median},
              {"enqueue_ms", run.enqueue ? Json(run.enqueue->median) : Json(nullptr)}};
    // As in lathe bench: the percentiles that were asked for beside those above.
    for (const auto& [percent, value] : whole.percentiles) {
        if (percent != 90 && percent != 95 && percent != 99) json["percentiles_ms"][percent_name(percent)] = value;
    }
    return json;
}

Json throughput_json(const TrtexecRun& run, const std::string& name) {
    const auto batch = static_cast<double>(run.batch());
    // With an implicit batch trtexec counts samples, else queries.
    const double queries = run.implicit_batch() ? *run.throughput_qps / batch : *run.throughput_qps;
    const TrtexecSection& options = run.section("Inference Options");
    std::string streams(options.value("Inference Streams"));
    if (streams.empty()) streams = options.value("Streams"); // TensorRT 8.0 to 8.4
    Json json{{"subject", name},
              {"batch", run.batch()},
              {"inputs", run.has_transfers() ? "host" : "device"},
              {"qps", queries},
              {"samples_per_second", queries * batch},
              {"duration_s", or_null(run.walltime_s)}};
    if (run.queries) json["requests"] = *run.queries;
    if (!streams.empty() && streams.find_first_not_of("0123456789") == std::string::npos && streams.size() < 6) {
        json["streams"] = std::stoi(streams);
    }
    return json;
}

Json unavailable_json(const TrtexecSource& source, const std::string& name) {
    const auto& error = source.run.first_error;
    Json json{{"subject", name},
              {"reason", error ? "trtexec failed: " + error->text + " (" + source.file + ", line " +
                                     std::to_string(error->line) + ")"
                               : "the log has no performance summary (" + source.file + ")"}};
    json["cure"] = error ? "mend what trtexec names and run it again"
                         : "run trtexec to its end, without --skipInference or --buildOnly";
    return json;
}

} // namespace

std::string percent_name(double percent) {
    std::string name = std::to_string(percent);
    name.erase(name.find_last_not_of('0') + 1);
    if (name.ends_with('.')) name.pop_back();
    return name;
}

Json trtexec_document(const std::vector<TrtexecSource>& sources, const std::string& command_line) {
    Json document{{"kind", "bench"},
                  {"version", 1},
                  {"source", "trtexec"},
                  {"command", command_line},
                  {"libraries", Json::object()},
                  {"notes", Json::array()},
                  {"subjects", Json::array()},
                  {"latency", Json::array()},
                  {"throughput", Json::array()},
                  {"ratios", Json::array()},
                  {"unavailable", Json::array()}};
    std::set<std::string> taken;
    std::set<std::string> versions;
    for (const TrtexecSource& source : sources) {
        const std::string name = subject_name(source, taken);
        if (!source.run.measured()) {
            document["unavailable"].push_back(unavailable_json(source, name));
            continue;
        }
        if (!source.run.version.empty()) versions.insert(source.run.version);
        document["subjects"].push_back(subject_json(source, name));
        document["latency"].push_back(latency_json(source.run, name));
        document["throughput"].push_back(throughput_json(source.run, name));
    }
    std::string all;
    for (const std::string& version : versions)
        all += (all.empty() ? "" : ", ") + version;
    if (!all.empty()) document["libraries"]["tensorrt"] = all;
    document["notes"].push_back(
        "trtexec's numbers are of runs of their own: clocks and load may have differed, and there "
        "are no ratios or intervals");
    return document;
}

} // namespace lathe
