#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/mix_print.hpp"
#include "cli/numbers.hpp"
#include "cli/prepare.hpp"
#include "cli/task.hpp"
#include "cli/tune.hpp"
#include "lathe/tune.hpp"
#include "support/json.hpp"

// `lathe tune`: the best mix of precisions. (cli/tune.hpp is the option --tune, about the time of GPU kernels.)
namespace lathe::cli {

namespace {

struct MixArguments {
    TuneRequest request;
    std::string budget = "10m";
    std::vector<std::string> shapes;
    std::string tune = "default";
};

/// "10m", "90s", "2h", or seconds.
Result<double> parse_duration(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string unit(end, text.data() + text.size());
    const double factor = unit == "h" ? 3600 : unit == "m" || unit == "min" ? 60 : unit == "s" || unit.empty() ? 1 : 0;
    if (error != std::errc{} || factor == 0 || !(value >= 0)) {
        return Error{ErrorCode::invalid_argument, "\"" + text + "\" is no duration", "--time-budget",
                     "write 10m, 90s or 1h"};
    }
    return value * factor;
}

Result<TuneRequest> request_of(const MixArguments& options, const Context& context) {
    TuneRequest request = options.request;
    LATHE_TRY(request.budget_s, parse_duration(options.budget));
    for (const std::string& text : options.shapes) {
        LATHE_TRY(auto shape, parse_shape_range(text));
        request.shapes.insert(std::move(shape));
    }
    request.kernels = tune_effort(options.tune);
    request.command_line = context.command_line();
    request.progress = &context.progress();
    request.tell = [&context](std::string_view line) { context.print(std::string(line)); };
    request.tried = [&context](const TuneTrial& trial, bool best) { print_trial(trial, best, context); };
    return request;
}

Result<void> run_tune(const MixArguments& options, const Context& context) {
    LATHE_TRY(const TuneRequest request, request_of(options, context));
    LATHE_TRY(const TuneResult result, tune(request));
    for (const std::string& notice : result.notices)
        context.warn(notice);
    print_mix(result, context);
    LATHE_TRY(Json document, parse_json(result.document, "tune"));
    context.print_json(std::move(document));
    if (result.good) return {};
    return Error{ErrorCode::verification_failed, result.text, request.output.string(),
                 result.reasons.empty() ? std::string() : result.reasons.front()};
}

} // namespace

void add_tune(Commands& commands) {
    auto options = std::make_shared<MixArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"tune",
         "The best mix: search a precision for every layer, by accuracy on real data and latency of built engines. "
         "Exit "
         "code 5 where the engine misses a limit or a plainer one is faster",
         {"lathe tune resnet50.onnx --data labelled/ --calibrate photos/ --max-drop 0.3 --output best.engine",
          "lathe tune m.onnx --data labelled/ --max-drop 0.5 --min-speedup 1.5 --time-budget 30m --report tune.html "
          "--output best.engine",
          "lathe tune m.onnx --data photos/ --metric agreement --max-drop 2 --judge others/ --output best.engine",
          "lathe tune yolox.onnx --data coco/ --calibrate photos/ --max-drop 0.5 --output best.engine",
          "lathe tune m.onnx --data labelled/ --max-drop 0.1 --device cuda --output best.engine"}},
        [options, &context] { return run_tune(*options, context); });
    add_prepare_options(command, options->request);
    command
        .add_option("--samples", options->request.samples,
                    "How many samples of --data, spread evenly; 0: all. Every second one is kept from the search")
        ->capture_default_str();
    command.add_option("--judge", options->request.judge,
                       "Other data to judge the winner on; --data is then all searched on");
    command
        .add_option(
            "--metric", options->request.metric,
            "What --max-drop limits: top1 and agreement (points), kl (nats), sqnr (noise in % of the signal), task "
            "(points of --task's metric; default where a task is named or told, else top1)")
        ->check(CLI::IsMember({"top1", "agreement", "kl", "sqnr", "task"}));
    add_task_options(command, options->request.task);
    command.add_option("--max-drop", options->request.max_drop, "Largest loss against FP32")
        ->check(not_negative_number())
        ->capture_default_str();
    command.add_option("--min-speedup", options->request.min_speedup, "Least speed-up over FP32")
        ->check(not_negative_number());
    command.add_option("--time-budget", options->budget, "For the trials: 10m, 90s, 1h; interruptions do not count")
        ->capture_default_str();
    command
        .add_option("--slack", options->request.slack,
                    "Share of the best speed that may be given for more accuracy, within --max-drop")
        ->check(CLI::Range(0.0, 0.5))
        ->capture_default_str();
    command
        .add_option(
            "--device", options->request.device,
            "Device to build for and to measure on (see lathe doctor). In an engine each layer is in INT8 or in "
            "one other precision, FP32, BF16 or FP16 as the device offers, the same for all that is not INT8: "
            "FP16 here and FP32 there is not searched (see lathe autocast)")
        ->capture_default_str();
    command.add_option("--batch-size", options->request.batch_size, "That latency is measured at")
        ->check(positive_number())
        ->capture_default_str();
    command
        .add_option("--time-limit", options->request.time_limit_s,
                    "Seconds an engine is timed in a trial; the best one is timed again, for longer")
        ->check(CLI::Range(0.1, 86400.0))
        ->capture_default_str();
    command.add_option("--shape", options->shapes, "[INPUT:]MIN..OPT..MAX, repeatable (default: batches 1..8..32)")
        ->allow_extra_args(false);
    command.add_option("--sensitivity", options->request.sensitivity,
                       "Result of lathe sensitivity, instead of measuring it");
    command
        .add_option("--sensitivity-samples", options->request.sensitivity_samples, "How many samples to measure it on")
        ->check(positive_number())
        ->capture_default_str();
    command
        .add_option("--effort", options->request.effort,
                    "How much to correct what INT8 costs before the search, as for lathe quantize, on the calibration "
                    "samples (default: 2, or 0 where there are too few of them)")
        ->check(CLI::Range(0, 3));
    command.add_option("--timing-cache", options->request.timing_cache, "GPU: file of kernel times (see lathe build)");
    add_tune_option(command, options->tune);
    command
        .add_option("-o,--output", options->request.output,
                    "Engine file: the best so far at every moment. FILE.journal beside it keeps what is known, so that "
                    "the same command goes on after an interruption")
        ->required();
    command.add_option("--results", options->request.results, "JSON to write, for lathe report");
    command.add_option("--report", options->request.report, "HTML page to write: Pareto front, table and chart");
    command.add_flag("--force", options->request.force, "Begin anew, whatever FILE.journal holds");
}

} // namespace lathe::cli
