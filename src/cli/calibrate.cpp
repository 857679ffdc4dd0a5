#include "cli/calibrate.hpp"

#include <algorithm>
#include <memory>

#include "api/ranges_export.hpp"
#include "calibrate/report.hpp"
#include "calibrate/settle.hpp"
#include "cli/commands.hpp"
#include "cli/given_format.hpp"
#include "cli/preprocess.hpp"
#include "onnx/onnx.hpp"

namespace lathe::cli {

namespace {

constexpr std::size_t calibrate_rows_shown = 15;

std::string plural(std::size_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "entropy (mse for 1 tensor)".
std::string methods_of(const RangesFile& ranges) {
    const auto replaced =
        std::count_if(ranges.tensors.begin(), ranges.tensors.end(), [](const auto& tensor) { return tensor.fallback; });
    const std::string method = to_string(ranges.method);
    return replaced == 0 ? method : method + " (mse for " + plural(static_cast<std::size_t>(replaced), "tensor") + ")";
}

/// The tensors that lose most, worst first.
std::string worst_table(const RangesFile& ranges, const NumberFormat& format) {
    std::vector<JudgedTensor> rows = judge_all(ranges, format);
    std::stable_sort(rows.begin(), rows.end(), [](const JudgedTensor& a, const JudgedTensor& b) {
        return a.quality.clipped_fraction > b.quality.clipped_fraction;
    });
    std::vector<std::vector<std::string>> cells{{"tensor", "min", "max", "low", "high", "clipped %", "SQNR dB"}};
    for (std::size_t i = 0; i < std::min(rows.size(), calibrate_rows_shown); ++i) {
        const auto& [tensor, range, quality] = rows[i];
        cells.push_back({tensor->name, number(static_cast<double>(tensor->histogram.min())),
                         number(static_cast<double>(tensor->histogram.max())), number(static_cast<double>(range.low)),
                         number(static_cast<double>(range.high)), number(quality.clipped_fraction * 100, "%.4f"),
                         number(quality.sqnr_db, "%.1f")});
    }
    return table(cells);
}

void print_outcome(const CalibrateOutcome& outcome, const CalibrateRequest& request, const Context& context) {
    for (const CalibrationFinding& finding : outcome.ranges.findings) {
        const std::string text =
            finding.name + (finding.tensor.empty() ? "" : " (" + finding.tensor + ")") + ": " + finding.detail;
        if (finding.severity == FindingSeverity::information) {
            context.print(text);
        } else {
            context.warn(text);
        }
    }
    const RangesFile& ranges = outcome.ranges;
    if (context.verbose) {
        context.print("\nMost clipped tensors, as uint8:");
        context.print(worst_table(ranges, NumberFormat::uint8()));
    }
    if (outcome.reused) return;
    context.print(context.bold(request.output.string()) + ": ranges of " + plural(ranges.tensors.size(), "tensor") +
                  " by " + methods_of(ranges) + " from " + plural(ranges.samples_seen, "sample") + " in " +
                  number(outcome.seconds, "%.1f") + " s (" + number(outcome.inference_seconds, "%.1f") +
                  " s of it running the model)");
    if (ranges.convergence) context.print("Read " + describe(*ranges.convergence) + ".");
}

/// A round a line.
std::string rounds_table(const CalibrationConvergence& convergence) {
    std::vector<std::vector<std::string>> cells{{"samples", "of them new", "noise changed by", "at most by", "in"}};
    for (const CalibrationRound& round : convergence.rounds) {
        cells.push_back({std::to_string(round.samples), std::to_string(round.fresh),
                         number(round.noise_change * 100, "%.2f %%"), number(round.worst_change * 100, "%.2f %%"),
                         round.worst_tensor});
    }
    return table(cells);
}

void explain(const CalibrateOutcome& outcome, const Context& context) {
    const SettleRule rule;
    if (!outcome.ranges.convergence) {
        context.print("The number of samples was given, so nothing was judged while they were read (--samples auto).");
        return;
    }
    context.print("Read until the new samples of a round change their quantisation noise by " +
                  number(rule.noise_tolerance * 100, "%g %%") + " at most, and of no tensor by over " +
                  number(rule.worst_tolerance * 100, "%g %%") + ":");
    context.print(rounds_table(*outcome.ranges.convergence));
}

} // namespace

void add_samples_option(CLI::App& command, SampleCount& count, bool* given) {
    command
        .add_option_function<std::string>(
            "--samples",
            [&count, given](const std::string& text) {
                count.until_settled = text == "auto";
                count.samples = count.until_settled ? SampleCount{}.samples : std::stoul(text);
                if (given != nullptr) *given = true;
            },
            "How many samples to calibrate on, spread evenly over the data; 0: all; auto: at most 300, until more of "
            "them no longer change the ranges")
        ->check(CLI::IsMember({"auto"}) | CLI::Range(std::size_t{0}, std::size_t{1} << 40))
        ->default_str("auto");
}

Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, const Context& context) {
    LATHE_TRY(CalibrateOutcome outcome, lathe::calibrate_model(model, request, context.progress()));
    if (outcome.reused) context.print(outcome.reuse);
    return outcome;
}

void add_calibrate(Commands& commands) {
    struct Options {
        std::string model;
        std::string preprocess;
        std::string method = to_string(Method::mse);
        std::string output;
        GivenFormatArguments format;
        SampleCount samples;
        bool samples_given = false;
        bool explain = false;
        CalibrateRequest request;
    };
    auto options = std::make_shared<Options>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"calibrate",
         "Run a model on sample data and record the range of every tensor that quantisation may need",
         {"lathe calibrate m.onnx --data photos/ --output m.ranges",
          "lathe calibrate m.onnx --data photos/ --samples 300 --method entropy --output m.ranges",
          "lathe calibrate m.onnx --data photos/ --explain --output m.ranges",
          "lathe calibrate m.onnx --data inputs.npz --method percentile --percentile 99.9 --force",
          "lathe calibrate m.onnx --data photos/ --format tensorrt-cache --tensorrt 8.6.1 -o m.cache",
          "lathe calibrate minilm.onnx --data texts.tsv --columns text=sentence"}},
        [options, &context]() -> Result<void> {
            CalibrateRequest& request = options->request;
            LATHE_TRY(request.method, method_from_name(options->method));
            request.samples = options->samples.samples;
            // What asks for every activation is after its extremes, which go on growing when the ranges stand still.
            request.until_settled =
                options->samples.until_settled && (options->samples_given || !request.all_activations);
            request.preprocess = PreprocessChoice(options->preprocess);
            const bool ours = options->format.name == "ranges";
            if (!ours) LATHE_CHECK(check(format_of(options->format)));
            if (options->output.empty()) {
                options->output =
                    std::filesystem::path(options->model).replace_extension(extension_of(options->format)).string();
            }
            LATHE_CHECK(check_writable({options->output}));
            if (ours) request.output = options->output;
            request.all_activations = request.all_activations || !ours;
            LATHE_TRY(const Model model, load_onnx(options->model));
            LATHE_TRY(const CalibrateOutcome outcome, calibrate_model(model, request, context));
            if (!ours) {
                LATHE_CHECK(write_given(given_of(outcome.ranges), format_of(options->format), options->output));
                request.output = options->output;
            }
            if (options->explain) explain(outcome, context);
            print_outcome(outcome, request, context);
            Json json = calibration_to_json(outcome.ranges, NumberFormat::uint8(), outcome.seconds);
            json["file"] = request.output.string();
            json["reused"] = outcome.reused;
            json["inference_seconds"] = outcome.inference_seconds;
            context.print_json(json);
            return {};
        });
    std::string methods;
    for (const Estimator& estimator : estimators())
        methods += (methods.empty() ? "" : "; ") + std::string(estimator.name) + ": " + estimator.summary;
    command.add_option("model", options->model, "ONNX model in floating point, simplified")->required();
    command
        .add_option("--data", options->request.data,
                    "Images, arrays or texts: folder, .npy, .npz, list of files, .tsv, .csv, .jsonl")
        ->required();
    command.add_option("--columns", options->request.columns, columns_help);
    add_samples_option(command, options->samples, &options->samples_given);
    command.add_option("--method", options->method, methods)->capture_default_str();
    command.add_option("--percentile", options->request.options.percentile, "For --method percentile")
        ->capture_default_str();
    command.add_flag("!--no-guard", options->request.options.guard,
                     "Keep what entropy or percentile choose for a tensor even where that clips the signal away "
                     "(without it such a tensor gets mse's range)");
    command.add_option("--batch-size", options->request.batch_size, "Samples a run; does not change the result");
    command.add_option("--threads", options->request.threads, "Threads; does not change the result (default: all)");
    command.add_option("--preprocess", options->preprocess, preprocess_help());
    command.add_option("-o,--output", options->output,
                       "File to write (default: the model's name with .ranges, .cache or .json)");
    command.add_flag("--all-tensors", options->request.all_activations,
                     "Measure every float32 activation, as lathe autocast asks, not only what quantisation needs");
    add_given_format(command, options->format, true);
    command.add_flag("--explain", options->explain, "Show how the ranges came to rest while samples were read");
    command.add_flag("--force", options->request.force, "Calibrate even if the ranges file exists");
}

} // namespace lathe::cli
