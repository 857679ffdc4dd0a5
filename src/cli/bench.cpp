#include <cmath>
#include <iostream>
#include <memory>
#include <string>

#include "backends/openvino/tokenizer.hpp"
#include "bench/probe.hpp"
#include "bench/run.hpp"
#include "bench/turns.hpp"
#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "cli/preprocess.hpp"
#include "cli/trtexec_names.hpp"
#include "runtime/engine.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct BenchOptions {
    std::vector<std::string> engines;
    std::vector<std::string> against;
    std::string model;
    std::string source;
    std::vector<std::int64_t> batch_sizes;
    double duration = 3;
    double time_limit = 10;
    std::vector<int> devices;
    bool scaling = false;
    std::string data;
    std::string raw_inputs; ///< as trtexec's --loadInputs has them
    std::string columns;
    std::string preprocess;
    std::size_t samples = 0;
    std::string lengths_from;
    std::vector<std::string> buckets;
    std::string output;
    std::string via;
    double warm_up_ms = 0;
    double pause_ms = 0;
    std::size_t iterations = 0;
    std::vector<double> percentiles;
    std::string profile;
    std::string layer_info;
    bool probe = false;
    bool turns = false;
};

/// Four significant digits or so: 0.0123, 1.234, 12.34, 123.4.
std::string milliseconds(const Json& value) {
    if (!value.is_number()) return "-";
    const double ms = value.get<double>();
    return fixed(ms, ms >= 100 ? 1 : ms >= 10 ? 2 : ms >= 0.1 ? 3 : 4);
}

std::string mebibytes(const Json& value) {
    return value.is_number() && value.get<double>() > 0 ? fixed(value.get<double>() / (1 << 20), 1) : "-";
}

std::string latency_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{{"batch", "subject", "median ms", "95 % of median", "mean", "std", "p90",
                                                "p95", "p99", "min", "max", "calls", ""}};
    const Json none = Json::object();
    const auto asked = [&](const Json& entry) -> const Json& {
        return entry.contains("percentiles_ms") ? entry["percentiles_ms"] : none;
    };
    for (const auto& [percent, value] : asked(document["latency"][0]).items())
        rows.front().insert(rows.front().end() - 4, "p" + percent);
    for (const auto& entry : document["latency"]) {
        const bool reliable = entry["p99_reliable"].get<bool>();
        rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                        milliseconds(entry["median_ms"]),
                        milliseconds(entry["ci95_ms"][0]) + ".." + milliseconds(entry["ci95_ms"][1]),
                        milliseconds(entry["mean_ms"]), milliseconds(entry["std_ms"]), milliseconds(entry["p90_ms"]),
                        milliseconds(entry["p95_ms"]), milliseconds(entry["p99_ms"]) + (reliable ? "" : "?"),
                        milliseconds(entry["min_ms"]), milliseconds(entry["max_ms"]),
                        std::to_string(entry["count"].get<std::size_t>()), entry["noisy"].get<bool>() ? "noisy" : ""});
        for (const auto& [percent, value] : asked(entry).items())
            rows.back().insert(rows.back().end() - 4, milliseconds(value));
    }
    return table(rows);
}

/// Empty where no pause was asked for.
std::string served_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{
        {"batch", "subject", "after", "median ms", "p90", "p99", "calls", "median over that of one after another"}};
    for (const auto& entry : document["latency"]) {
        for (const char* after : {"after_pause", "after_other_size"}) {
            if (!entry.contains(after)) continue;
            const Json& times = entry[after];
            const bool paused = times.contains("pause_ms");
            rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                            paused ? "a pause of " + milliseconds(times["pause_ms"]) + " ms" : "another batch size",
                            milliseconds(times["median_ms"]), milliseconds(times["p90_ms"]),
                            milliseconds(times["p99_ms"]), times["count"].dump(),
                            fixed(times["median_ms"].get<double>() / entry["median_ms"].get<double>(), 2)});
        }
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string copies_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{
        {"batch", "subject", "copy in ms", "kernels ms", "copy out ms", "preprocessing ms"}};
    for (const auto& entry : document["latency"]) {
        if (entry["copy_in_ms"].is_null() && entry["preprocess_ms"].is_null()) continue;
        rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                        milliseconds(entry["copy_in_ms"]), milliseconds(entry["device_ms"]),
                        milliseconds(entry["copy_out_ms"]), milliseconds(entry["preprocess_ms"])});
    }
    return rows.size() > 1 ? table(rows) : "";
}

/// "0: 1234.5, 1: 1230.1", samples a second; "-" where there is one.
std::string by_device(const Json& entry) {
    if (!entry.contains("per_device") || entry["per_device"].size() < 2) return "-";
    std::string text;
    for (const auto& share : entry["per_device"]) {
        text += (text.empty() ? "" : ", ") + share["device"].dump() + ": " +
                fixed(share["samples_per_second"].get<double>(), 1);
    }
    return text;
}

std::string throughput_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{
        {"batch", "subject", "inputs in", "requests/s", "samples/s", "streams", "by device"}};
    for (const auto& entry : document["throughput"]) {
        rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                        entry["inputs"].get<std::string>(), fixed(entry["qps"].get<double>(), 1),
                        fixed(entry["samples_per_second"].get<double>(), 1),
                        std::to_string(entry["streams"].get<std::size_t>()), by_device(entry)});
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string scaling_table(const Json& document) {
    if (!document.contains("scaling")) return "";
    std::vector<std::vector<std::string>> rows{
        {"batch", "subject", "inputs in", "devices", "samples/s", "times one device", "by device"}};
    for (const auto& entry : document["scaling"]) {
        rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                        entry["inputs"].get<std::string>(), std::to_string(entry["devices"].get<std::size_t>()),
                        fixed(entry["samples_per_second"].get<double>(), 1),
                        fixed(entry["times_one_device"].get<double>(), 3), by_device(entry)});
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string devices_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{
        {"device", "SM MHz", "memory MHz", "power W", "celsius", "memory used MiB", "samples", "slowed by"}};
    const auto range = [](const Json& device, const char* key, double unit) {
        if (!device.contains(key)) return std::string("-");
        const Json& field = device[key];
        const auto text = [&](const char* part) { return fixed(field[part].get<double>() / unit, 0); };
        return field["min"] == field["max"] ? text("median")
                                            : text("median") + " (" + text("min") + ".." + text("max") + ")";
    };
    for (const auto& device : document["devices"]) {
        std::string slowed;
        for (const auto& [reason, share] : device["slowed_by"].items())
            slowed += (slowed.empty() ? "" : ", ") + reason + " " + fixed(100 * share.get<double>(), 0) + " %";
        rows.push_back({device["device"].dump(), range(device, "sm_clock_mhz", 1), range(device, "memory_clock_mhz", 1),
                        range(device, "power_watts", 1), range(device, "temperature_celsius", 1),
                        range(device, "memory_used_bytes", 1 << 20), device["samples"].dump(),
                        slowed.empty() ? "-" : slowed});
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string memory_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "weights MiB", "activations", "workspace", "staging (host)",
                                                "own allocations, peak", "whole process"}};
    for (const auto& entry : document["subjects"]) {
        const Json& memory = entry["device_memory"];
        if (!memory.is_object()) continue;
        const auto field = [&](const char* key) { return memory.contains(key) ? mebibytes(memory[key]) : "-"; };
        rows.push_back({entry["name"].get<std::string>(), field("weights"), field("activations"), field("workspace"),
                        field("staging"), field("peak"), field("process")});
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string ratio_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{{"batch", "subject", "against", "times as fast", "95 %", "pairs"}};
    for (const auto& entry : document["ratios"]) {
        rows.push_back({std::to_string(entry["batch"].get<std::int64_t>()), entry["subject"].get<std::string>(),
                        entry["reference"].get<std::string>(), fixed(entry["speedup"].get<double>(), 3),
                        fixed(entry["ci95"][0].get<double>(), 3) + ".." + fixed(entry["ci95"][1].get<double>(), 3),
                        std::to_string(entry["pairs"].get<std::size_t>())});
    }
    return rows.size() > 1 ? table(rows) : "";
}

std::string length_mix_table(const Json& document) {
    if (!document.contains("length_mix")) return "";
    std::vector<std::vector<std::string>> rows{{"subject", "filled up", "ms a sample", "median ms", "mean", "p90",
                                                "p99", "whole mix s", "tokens/s", "padding", "lengths"}};
    for (const auto& row : document["length_mix"]["rows"]) {
        rows.push_back({row["subject"].get<std::string>(), row["padding"].get<std::string>(),
                        milliseconds(row["ms_per_sample"]), milliseconds(row["median_ms"]),
                        milliseconds(row["mean_ms"]), milliseconds(row["p90_ms"]),
                        milliseconds(row["p99_ms"]) + (row["p99_reliable"].get<bool>() ? "" : "?"),
                        fixed(row["mix_ms"].get<double>() / 1000, 2), fixed(row["tokens_per_second"].get<double>(), 0),
                        fixed(100 * row["padding_share"].get<double>(), 1) + " %", row["lengths"].dump()});
    }
    return table(rows);
}

std::string length_mix_ratios(const Json& document) {
    if (!document.contains("length_mix")) return "";
    std::vector<std::vector<std::string>> rows{
        {"subject", "filled up", "against", "", "times as fast", "95 %", "turns"}};
    for (const auto& row : document["length_mix"]["ratios"]) {
        rows.push_back({row["subject"].get<std::string>(), row["padding"].get<std::string>(),
                        row["reference"].get<std::string>(), row["reference_padding"].get<std::string>(),
                        fixed(row["speedup"].get<double>(), 3),
                        fixed(row["ci95"][0].get<double>(), 3) + ".." + fixed(row["ci95"][1].get<double>(), 3),
                        row["pairs"].dump()});
    }
    return rows.size() > 1 ? table(rows) : "";
}

/// "1821 samples of test.tsv, one a request: 25.1 tokens on average, 99 % up to 51, longest 64".
std::string length_mix_title(const Json& document) {
    if (!document.contains("length_mix")) return "";
    const Json& mix = document["length_mix"];
    std::string text = mix["samples"].dump() + " samples of " + mix["data"].get<std::string>() + ", " +
                       (mix["batch"] == 1 ? std::string("one") : mix["batch"].dump()) +
                       " a request: " + fixed(mix["mean_length"].get<double>(), 1) + " tokens on average, 99 % up to " +
                       mix["p99_length"].dump() + ", longest " + mix["longest"].dump();
    if (mix["cut_samples"].is_number() && mix["cut_samples"] > 0) {
        text += "; " + mix["cut_samples"].dump() + " cut at " + mix["limit"].dump() + ", where an engine ends";
    }
    return text;
}

std::string subject_table(const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "kind", "precision", "file MiB", "load ms", "peak RSS MiB"}};
    for (const auto& entry : document["subjects"]) {
        rows.push_back({entry["name"].get<std::string>(), entry["kind"].get<std::string>(),
                        entry["precision"].get<std::string>(), mebibytes(entry["file_bytes"]),
                        entry["load_ms"].is_number() ? fixed(entry["load_ms"].get<double>(), 0) : "-",
                        mebibytes(entry["peak_rss_bytes"])});
    }
    return table(rows);
}

void print_tables(const Context& context, const Json& document) {
    const auto section = [&](const std::string& title, const std::string& text) {
        if (text.empty()) return;
        context.print(context.bold(title));
        context.print(text + "\n");
    };
    if (!document["latency"].empty()) section("Latency, one call", latency_table(document));
    section(length_mix_title(document), length_mix_table(document));
    section("Speed-up over the length mix, turn by turn", length_mix_ratios(document));
    section("Speed-up, pair by pair", ratio_table(document));
    section("Calls as a server makes them", served_table(document));
    section("Copies, kernels and preprocessing apart", copies_table(document));
    section("Throughput", throughput_table(document));
    section("Throughput by number of devices", scaling_table(document));
    section("Devices while measuring: median (least..most)", devices_table(document));
    section("Memory on the device, a fresh process", memory_table(document));
    section("Size, load time and memory of a fresh process", subject_table(document));
}

void print_remarks(const Context& context, const Json& document) {
    bool few = false;
    bool noisy = false;
    for (const auto& entry : document["latency"]) {
        few = few || !entry["p99_reliable"].get<bool>();
        noisy = noisy || entry["noisy"].get<bool>();
    }
    if (document.contains("length_mix")) {
        for (const auto& row : document["length_mix"]["rows"])
            few = few || !row["p99_reliable"].get<bool>();
    }
    for (const auto& entry : document["unavailable"]) {
        const std::string batch =
            entry.contains("batch") ? " at batch " + std::to_string(entry["batch"].get<std::int64_t>()) : "";
        const std::string cure = entry.contains("cure") ? "; " + entry["cure"].get<std::string>() : "";
        context.warn(entry["subject"]
                         .get<std::string>()
                         .append(batch)
                         .append(" was not measured: ")
                         .append(entry["reason"].get<std::string>())
                         .append(cure));
    }
    if (few) context.warn("p99 marked '?' comes from fewer than 662 calls; raise --time-limit for a reliable one");
    if (noisy) {
        context.warn("'noisy': the median's interval is wider than 1 % at the time limit; stop other work on this "
                     "machine, or raise --time-limit");
    }
    for (const auto& note : document["notes"])
        context.warn(note.get<std::string>());
    for (const auto& subject : document["subjects"]) {
        if (subject["kind"] != "trtexec") continue; // its figures mean something else than an engine's
        for (const auto& note : subject["notes"])
            context.warn(subject["name"].get<std::string>() + ": " + note.get<std::string>());
    }
}

/// Engine files of Lathe are run by Lathe; with --via trtexec all others are plans for it.
Result<void> sort_files(const BenchOptions& options, BenchRequest& request) {
    for (const std::string& name : options.engines) {
        LATHE_CHECK(look_for({name}));
        const bool plan = !options.via.empty() && !is_engine_file(name);
        (plan ? request.plans : request.engines).emplace_back(name);
    }
    if (options.via.empty()) return {};
    if (std::filesystem::path(options.via).filename().string().find("trtexec") == std::string::npos) {
        return Error{ErrorCode::invalid_argument, "plans are run by trtexec and nothing else", "--via " + options.via,
                     "give --via trtexec, or the path of that program"};
    }
    if (request.plans.empty()) {
        return Error{ErrorCode::invalid_argument, "none of the files is a TensorRT plan", "--via",
                     "name a plan (lathe build --device tensorrt --plan FILE, or trtexec --saveEngine=FILE)"};
    }
    request.trtexec = options.via;
    return {};
}

/// Files in trtexec's forms, of the one engine that is measured.
Result<void> check_exports(const BenchOptions& options, const BenchRequest& request) {
    if ((options.profile.empty() && options.layer_info.empty()) || request.engines.size() == 1) return {};
    return Error{ErrorCode::invalid_argument, "layers are exported of one engine", "--exportProfile, --exportLayerInfo",
                 "name one of Lathe's engines; for a plan, ask trtexec itself"};
}

Result<void> export_files(const BenchOptions& options, const BenchRequest& request, const Context& context) {
    if (!options.profile.empty()) {
        LATHE_TRY(const Json profile, trtexec_profile(request.engines[0], context.progress()));
        LATHE_CHECK(write_json_file(options.profile, profile));
    }
    if (!options.layer_info.empty()) {
        LATHE_TRY(const Engine engine, Engine::load(request.engines[0]));
        LATHE_TRY(const Json layers, trtexec_layer_info(engine));
        LATHE_CHECK(write_json_file(options.layer_info, layers));
    }
    return {};
}

/// The hidden mode that answers for load time and memory from a fresh process.
Result<void> serve_probe() {
    std::string line;
    std::getline(std::cin, line);
    LATHE_TRY(const Json request, parse_json(line, "standard input"));
    std::cout << answer_probe(request).dump() << std::endl;
    return {};
}

Result<void> run_bench(const BenchOptions& options, const Context& context) {
    if (options.probe) return serve_probe();
    if (options.turns) {
        if (options.engines.size() != 1)
            return Error{ErrorCode::invalid_argument, "turns are served with one engine", "", "name one engine file"};
        return serve_turns(options.engines[0], std::cin, std::cout);
    }
    BenchRequest request;
    LATHE_CHECK(sort_files(options, request));
    request.warm_up_ms = options.warm_up_ms;
    request.pause_ms = options.pause_ms;
    request.min_calls = options.iterations;
    request.percentiles = options.percentiles;
    for (const auto& text : options.against) {
        if (text.empty()) continue; // --against '' compares with nothing
        LATHE_TRY(PeerRequest peer, parse_peer(text));
        request.against.push_back(std::move(peer));
    }
    request.model = options.model;
    request.batch_sizes = options.batch_sizes;
    request.duration_s = options.duration;
    request.time_limit_s = options.time_limit;
    request.devices = options.devices;
    request.scaling = options.scaling;
    request.data = options.data;
    if (!options.raw_inputs.empty()) {
        request.raw_inputs = {options.raw_inputs, [list = options.raw_inputs](const std::vector<IoInfo>& inputs) {
                                  return load_raw_inputs(list, inputs);
                              }};
    }
    request.columns = options.columns;
    request.make_tokenizer = openvino::make_tokenizer;
    request.preprocess = PreprocessChoice(options.preprocess);
    request.samples = options.samples;
    request.lengths_from = options.lengths_from;
    for (const auto& text : options.buckets) {
        LATHE_TRY(Padding padding, parse_padding(text));
        request.paddings.push_back(std::move(padding));
    }
    LATHE_CHECK(check_source(options.source));
    request.code = options.source;
    request.probe_command = {"/proc/self/exe", "bench", "--probe"};
    request.command_line = context.command_line();
    LATHE_CHECK(check_writable({options.output}));
    LATHE_CHECK(check_exports(options, request));
    LATHE_TRY(const Json document, bench(request, context.progress()));
    LATHE_CHECK(export_files(options, request, context));
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    print_tables(context, document);
    print_remarks(context, document);
    if (!options.output.empty()) context.print("results: " + options.output);
    context.print_json(document);
    return {};
}

} // namespace

void add_bench(Commands& commands) {
    const auto options = std::make_shared<BenchOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"bench",
         "Time engines and frameworks in one interleaved run: latency with intervals, throughput, memory",
         {"lathe bench int8.engine fp32.engine --against pytorch,onnxruntime,openvino --model lite0.onnx",
          "lathe bench int8.engine --against onnxruntime=ort.onnx,openvino=nncf.xml --batch-sizes 1,8 --output b.json",
          "lathe bench int8.engine --data photos/ --duration 0 --json",
          "lathe bench int8.engine fp32.engine --against pytorch --lengths-from texts.tsv",
          "lathe bench minilm.engine --lengths-from texts.tsv --buckets own --buckets longest --buckets 16,32,64",
          "lathe bench int8.engine --batch-sizes 1,2,3,4,6,8 --pause 2 --duration 0 --output for-plan.json",
          "lathe bench m.plan gpu.engine --via trtexec --batch-sizes 8 --time-limit 30",
          "lathe bench gpu.engine --devices 0,1,2,3 --scaling --batch-sizes 128 --output scaling.json"}},
        [options, &context] { return run_bench(*options, context); });
    command.add_option("engines", options->engines, "Engine files; with --via trtexec TensorRT plans too")
        ->type_name("ENGINE");
    command
        .add_option("--via", options->via,
                    "trtexec, or the path of it: runs the files that are TensorRT plans, in turns with the engines")
        ->type_name("PROGRAM");
    command
        .add_option(
            "--against", options->against,
            "Compare with pytorch, torch-compile, onnxruntime, openvino; the last two also NAME=MODELFILE, the "
            "first two also NAME=bf16, and beside GPU engines NAME=fp16; torch-compile=int8 (torchao, on the CPU)")
        ->delimiter(',');
    command.add_option("--model", options->model,
                       "ONNX model for the frameworks (default: the one the engines were built from)");
    command.add_option("--source", options->source, source_help);
    command
        .add_option("--batch-sizes", options->batch_sizes,
                    "Batch sizes (default 1,4,8,16,32 within the engine's range)")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
    command
        .add_option("--duration", options->duration,
                    "Seconds of each throughput measurement; 0 for none. trtexec's option of this name also says how "
                    "long latency is measured, which here is --time-limit")
        ->check(CLI::Range(0.0, 86400.0))
        ->capture_default_str();
    command
        .add_option("--warmUp", options->warm_up_ms, "Least milliseconds to warm up each subject; then until steady")
        ->check(CLI::Range(0.0, 3.6e6));
    command
        .add_option(
            "--pause", options->pause_ms,
            "Also time engines' calls as a server or a camera makes them: each after a pause of so many milliseconds, "
            "and each after a call of another batch size. lathe plan uses them")
        ->check(CLI::Range(0.0, 60000.0));
    command.add_option("--iterations", options->iterations,
                       "Least calls of each subject, within --time-limit, whatever the interval of the median");
    command
        .add_option("--percentile", options->percentiles, "Further percentiles of the latency to tell, such as 50,99.9")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 100.0));
    command.add_option("--exportProfile", options->profile,
                       "Write times by layer of the one engine as JSON, in the form of trtexec's option of this name");
    command.add_option("--exportLayerInfo", options->layer_info, "Write its layers as JSON, likewise");
    command.add_option("--time-limit", options->time_limit, "Seconds for the latency of each subject and batch size")
        ->check(CLI::Range(0.1, 86400.0))
        ->capture_default_str();
    command
        .add_option("--devices", options->devices,
                    "GPU: indices of those to serve on, separated by commas; latency is that of the first")
        ->delimiter(',')
        ->check(not_negative_number());
    command.add_flag("--scaling", options->scaling, "GPU: throughput on 1, 2, 4, ... of --devices in turns");
    command.add_option(
        "--data", options->data,
        "Real inputs: an image folder, .npy or .npz; texts (.tsv, .csv, .jsonl) (default: random numbers)");
    command.add_option("--loadInputs", options->raw_inputs,
                       "Real inputs as raw bytes, as trtexec takes them: NAME:FILE,NAME:FILE, one file an input; "
                       "without --batch-sizes at the number of samples that they are");
    command.add_option("--columns", options->columns, columns_help);
    command.add_option("--samples", options->samples, "Use that many samples of the data");
    command.add_option("--preprocess", options->preprocess, preprocess_help());
    command.add_option("--lengths-from", options->lengths_from,
                       "Texts (.tsv, .csv, .jsonl, .txt) to run one after another, each as long as it is, instead of "
                       "requests of one size; with --batch-sizes N, N in a request");
    command
        .add_option(
            "--buckets", options->buckets,
            "What engines get --lengths-from filled up to: own (nothing), longest, or lengths such as 16,32,64; "
            "may be repeated to compare. An engine of one length has only that; frameworks run own")
        ->type_name("LENGTHS")
        ->allow_extra_args(false);
    command.add_option("-o,--output", options->output, "Write the results as JSON");
    // Hidden: what benchmarks/run_gpu.py and our own fresh processes ask.
    command.add_flag("--probe", options->probe)->group("");
    command.add_flag("--turns", options->turns)->group("");
}

} // namespace lathe::cli
