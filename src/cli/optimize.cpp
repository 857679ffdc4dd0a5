#include <algorithm>
#include <filesystem>
#include <memory>

#include "backends/api/backend.hpp"
#include "bench/run.hpp"
#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "cli/optimizer.hpp"
#include "cli/tune.hpp"

namespace lathe::cli {

namespace {

/// What is left open becomes what is usual for the device.
OptimizeOptions completed(OptimizeOptions options) {
    if (options.precisions.empty()) {
        options.precisions = options.on_gpu() ? std::vector<std::string>{"fp32", "fp16", "int8"}
                                              : std::vector<std::string>{"fp32", "bf16", "int8"};
    }
    if (options.against.empty()) {
        options.against = options.on_gpu() ? std::vector<std::string>{"pytorch", "torch-compile=fp16"}
                                           : std::vector<std::string>{"pytorch", "torch-compile", "onnxruntime"};
    }
    return options;
}

Result<void> optimize(const OptimizeOptions& options, const Context& context) {
    const bool quantizes =
        std::find(options.precisions.begin(), options.precisions.end(), "int8") != options.precisions.end();
    if (quantizes && options.calibrate.empty()) {
        return Error{ErrorCode::invalid_argument, "INT8 needs data to calibrate on", "--calibrate",
                     "give a folder of photos or arrays, or --precisions without int8"};
    }
    if (std::find(options.precisions.begin(), options.precisions.end(), "fp32") == options.precisions.end()) {
        return Error{ErrorCode::invalid_argument, "fp32 must be among the precisions", "--precisions",
                     "every other one is judged against it"};
    }
    for (const auto& text : options.against) {
        // Told now, not after minutes of work.
        if (auto peer = parse_peer(text); !text.empty() && !peer) return std::move(peer).error();
    }
    LATHE_CHECK(check_source(options.source));
    if (const auto backend = backend_for_device(options.device); !backend) return backend.error();
    LATHE_CHECK(look_for({options.model, options.calibrate, options.evaluate}));
    std::error_code failed;
    std::filesystem::create_directories(options.output, failed);
    if (failed) return Error{ErrorCode::io, "cannot make the output folder: " + failed.message(), options.output, ""};
    return run_optimizer(options, context);
}

} // namespace

void add_optimize(Commands& commands) {
    auto options = std::make_shared<OptimizeOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"optimize",
         "The whole job: simplify, calibrate, quantize, build, evaluate, benchmark, report, with a verdict",
         {"lathe optimize lite0.onnx --calibrate photos/ --evaluate labelled/ --output out/",
          "lathe optimize m.onnx --calibrate photos/ --evaluate labelled/ --max-drop 0.5 --batch-sizes 1,32",
          "lathe optimize m.onnx --calibrate photos/ --evaluate labelled/ --effort 2",
          "lathe optimize m.onnx --precisions fp32,bf16 --against onnxruntime",
          "lathe optimize m.onnx --device cuda --calibrate photos/ --evaluate labelled/ --batch-sizes 1,8,32"}},
        [options, &context] { return optimize(completed(*options), context); });
    command.add_option("model", options->model, "ONNX model in floating point (see lathe export)")->required();
    command.add_option("--calibrate", options->calibrate,
                       "Data to calibrate on: folder of images, .npy, .npz; texts (.tsv, .csv, .jsonl)");
    command.add_option("--evaluate", options->evaluate, "Labelled data to judge on (not the calibration data)");
    command.add_option("--columns", options->columns, columns_help);
    command.add_option("-o,--output", options->output, "Folder for engines, JSON and report")->capture_default_str();
    add_samples_option(command, options->samples, &options->samples_given);
    command.add_option("--evaluate-samples", options->evaluate_samples, "Evaluation samples; 0: all");
    command
        .add_option("--method", options->method,
                    "Range estimator; auto: for each tensor the range with the least error in what reads it, kept if "
                    "held-back samples gain")
        ->check(CLI::IsMember({"auto", "minmax", "percentile", "entropy", "mse"}))
        ->capture_default_str();
    add_correction_options(command, options->correction, false);
    add_format_options(command, options->formats);
    command
        .add_option("--exclude", options->exclude, "Leave in float: node, op type or regular expression; repeatable")
        ->allow_extra_args(false);
    command.add_option("--device", options->device, "Device to build for and to measure on (see lathe doctor)")
        ->capture_default_str();
    command.add_option("--timing-cache", options->timing_cache, "GPU: file of kernel times (see lathe build)");
    add_tune_option(command, options->tune);
    command
        .add_option("--precisions", options->precisions,
                    "Engines to build (default fp32,bf16,int8; on a GPU fp32,fp16,int8)")
        ->delimiter(',')
        ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "int8"}));
    command.add_option("--shape", options->shapes, "[INPUT:]MIN..OPT..MAX, repeatable (default: batches 1..8..32)")
        ->allow_extra_args(false);
    command
        .add_option("--against", options->against,
                    "Frameworks to compare with: pytorch, torch-compile, onnxruntime, openvino; '' for none (default "
                    "pytorch,torch-compile,onnxruntime; on a GPU pytorch,torch-compile=fp16)")
        ->delimiter(',');
    command.add_option("--source", options->source, source_help);
    command.add_option("--batch-sizes", options->batch_sizes, "Batch sizes to measure")
        ->delimiter(',')
        ->check(positive_number())
        ->capture_default_str();
    command.add_option("--max-drop", options->max_drop, "Largest acceptable loss of top-1, in points")
        ->check(not_negative_number())
        ->capture_default_str();
    command.add_option("--duration", options->duration_s, "Seconds of each throughput measurement; 0: none")
        ->check(not_negative_number())
        ->capture_default_str();
    command.add_option("--time-limit", options->time_limit_s, "Seconds for each latency measurement, at most")
        ->check(positive_number())
        ->capture_default_str();
    command.add_option("--threads", options->threads, "Threads (default: all cores)");
    command.add_option("--preprocess", options->preprocess, "JSON file that overrides the model's preprocessing");
    command.add_flag("--allow-fallback", options->allow_fallback,
                     "GPU: keep an engine of which less than 90 % of the arithmetic runs in its precision");
    command.add_flag("--force", options->force, "Do every step anew, whatever the output folder holds");
}

} // namespace lathe::cli
