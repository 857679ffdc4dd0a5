#include <memory>

#include "cli/calibrate.hpp"
#include "cli/commands.hpp"
#include "cli/correction.hpp"
#include "cli/number_formats.hpp"
#include "cli/numbers.hpp"
#include "cli/optimize.hpp"
#include "cli/preprocess.hpp"
#include "cli/task.hpp"
#include "cli/tune.hpp"

namespace lathe::cli {

namespace {

/// What the command line says in words; the rest goes straight into the request.
struct OptimizeArguments {
    OptimizeRequest request;
    std::string method = to_string(Method::mse);
    CorrectionArguments correction;
    FormatArguments formats;
    SampleCount samples;
    bool samples_given = false;
    std::vector<std::string> shapes;
    std::string tune = "default";
    std::vector<std::string> precisions;
    std::vector<std::string> against;
};

Result<OptimizeRequest> request_of(const OptimizeArguments& arguments, const Context& context) {
    OptimizeRequest request = arguments.request;
    request.ranges_by_error = arguments.method == "auto";
    if (!request.ranges_by_error) {
        LATHE_TRY(request.method, method_from_name(arguments.method));
    }
    request.effort = arguments.correction.effort;
    request.corrections = choice_of(arguments.correction);
    PlacementOptions formats;
    LATHE_CHECK(choose_formats(arguments.formats, formats));
    request.weights = formats.weights;
    request.activations = formats.activations;
    request.samples = arguments.samples.samples;
    if (arguments.samples_given) request.until_settled = arguments.samples.until_settled;
    for (const auto& text : arguments.shapes) {
        LATHE_TRY(auto shape, parse_shape_range(text));
        request.shapes.insert(std::move(shape));
    }
    request.tune = tune_effort(arguments.tune);
    for (const auto& name : arguments.precisions)
        request.precisions.push_back(precision_from_name(name).value());
    if (!arguments.against.empty()) {
        request.against.emplace();
        for (const auto& name : arguments.against) {
            if (!name.empty()) request.against->push_back(name); // --against '' compares with nothing
        }
    }
    request.program = {"/proc/self/exe"};
    request.command_line = context.command_line();
    request.progress = &context.progress();
    request.tell = [&context](std::string_view line) { context.print(std::string(line)); };
    return request;
}

Result<void> run_optimize(const OptimizeArguments& arguments, const Context& context) {
    LATHE_TRY(const OptimizeRequest request, request_of(arguments, context));
    LATHE_TRY(const OptimizeResult result, optimize(request));
    print_optimized(result, context);
    LATHE_TRY(Json document, parse_json(result.document, "report.json"));
    context.print_json(std::move(document));
    return {};
}

} // namespace

void print_optimized(const OptimizeResult& result, const Context& context) {
    context.print("");
    context.print(context.bold(result.verdict));
    for (const auto& reason : result.reasons)
        context.print("  " + reason);
    if (!result.engine.empty()) context.print("Engine: " + result.engine.string());
    context.print("Report: " + result.report.string());
}

void add_optimize(Commands& commands) {
    auto options = std::make_shared<OptimizeArguments>();
    OptimizeRequest& request = options->request;
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"optimize",
         "The whole job: simplify, calibrate, quantize, build, evaluate, benchmark, report, with a verdict",
         {"lathe optimize lite0.onnx --calibrate photos/ --evaluate labelled/ --output out/",
          "lathe optimize m.onnx --calibrate photos/ --evaluate labelled/ --max-drop 0.5 --batch-sizes 1,32",
          "lathe optimize m.onnx --calibrate photos/ --evaluate labelled/ --quick",
          "lathe optimize m.onnx --calibrate photos/ --evaluate labelled/ --effort 2",
          "lathe optimize depth.onnx --calibrate inputs/ --evaluate data/ --task regression",
          "lathe optimize m.onnx --calibrate arrays/ --evaluate arrays/ --task mine.py:score",
          "lathe optimize m.onnx --precisions fp32,bf16 --against onnxruntime",
          "lathe optimize m.onnx --device cuda --calibrate photos/ --evaluate labelled/ --batch-sizes 1,8,32"}},
        [options, &context] { return run_optimize(*options, context); });
    command.add_option("model", request.model, "ONNX model in floating point (see lathe export)")->required();
    command.add_option("--calibrate", request.calibrate,
                       "Data to calibrate on: folder of images, .npy, .npz; texts (.tsv, .csv, .jsonl)");
    command.add_option(
        "--evaluate", request.evaluate,
        "Data to judge on, not the calibration data: with labels, boxes, masks, targets or texts (see lathe "
        "eval --data), or without, against the float network's own answers");
    command.add_option("--columns", request.columns, columns_help);
    add_task_options(command, request.task);
    command.add_option("-o,--output", request.output, "Folder for engines, JSON and report")->capture_default_str();
    add_samples_option(command, options->samples, &options->samples_given);
    command.add_option("--evaluate-samples", request.evaluate_samples,
                       "Evaluation samples; 0: all (default; with --quick 200)");
    command
        .add_option("--method", options->method,
                    "Range estimator; auto: for each tensor the range with the least error in what reads it, kept if "
                    "held-back samples gain")
        ->check(CLI::IsMember({"auto", "minmax", "percentile", "entropy", "mse"}))
        ->capture_default_str();
    add_correction_options(command, options->correction,
                           "1, or 0 where the samples are too few or it takes longer than --answer-limit", false);
    command.add_flag("!--no-answer", request.answer_loss,
                     "Where INT8 loses more than --max-drop, do not make a network of --effort 2 beside it");
    command
        .add_option("--answer-limit", request.answer_limit_s,
                    "Seconds that correcting such a network may take, at most; else it is left out (default 90, with "
                    "--quick 15)")
        ->check(positive_number());
    add_format_options(command, options->formats);
    command.add_option("--exclude", request.exclude, "Leave in float: node, op type or regular expression; repeatable")
        ->allow_extra_args(false);
    command.add_option("--device", request.device, "Device to build for and to measure on (see lathe doctor)")
        ->capture_default_str();
    command.add_option("--timing-cache", request.timing_cache, "GPU: file of kernel times (see lathe build)");
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
                    "pytorch,torch-compile,onnxruntime, and torch-compile=bf16 where the processor has BF16; on a GPU "
                    "pytorch,torch-compile=fp16)")
        ->delimiter(',');
    command.add_option("--source", request.source, source_help);
    command
        .add_option("--batch-sizes", request.batch_sizes,
                    "Batch sizes to measure (default: those of 1, 8, 16 that the model takes)")
        ->delimiter(',')
        ->check(positive_number());
    command
        .add_option("--max-drop", request.max_drop,
                    "Largest acceptable loss of the task's metric (top-1, mAP, ...), in points")
        ->check(not_negative_number())
        ->capture_default_str();
    command
        .add_option("--duration", request.duration_s,
                    "Seconds of each throughput measurement; 0: none (default 1.5, with --quick 0.3)")
        ->check(not_negative_number());
    command
        .add_option("--time-limit", request.time_limit_s,
                    "Seconds for each latency measurement, at most (default 4, with --quick 1)")
        ->check(positive_number());
    command.add_flag("--quick", request.quick,
                     "A verdict in a minute on two cores, with wider intervals: what would pass it is cut or left out, "
                     "and that is told");
    command.add_option("--threads", request.threads, "Threads (default: all cores)");
    command.add_option("--preprocess", request.preprocess, preprocess_help());
    command.add_flag(
        "--allow-fallback", request.allow_fallback,
        "GPU: keep an engine of which less than 90 % of the arithmetic runs in its precision; what has no GPU "
        "form runs on the CPU");
    command.add_flag("--force", request.force, "Do every step anew, whatever the output folder holds");
}

} // namespace lathe::cli
