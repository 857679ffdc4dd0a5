#include "quantize/quantize.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/correction.hpp"
#include "cli/number_formats.hpp"
#include "onnx/onnx.hpp"
#include "quantize/given.hpp"
#include "quantize/lint.hpp"

namespace lathe::cli {
namespace {

struct QuantizeArguments {
    std::string model;
    std::string ranges;
    std::string target; ///< empty: openvino, but tensorrt for a calibration cache of TensorRT
    std::string output;
    std::string method;
    double percentile = EstimateOptions{}.percentile;
    std::string weight_range = "auto";
    FormatArguments formats;
    std::vector<std::string> exclude;
    std::vector<std::string> ranges_given;
    CorrectionArguments correction;
    bool explain = false;
    bool lint = false;
};

std::string describe(const EdgeDecision& decision, const Context& context) {
    std::string line = decision.quantized() ? context.green("int8 ") : context.yellow("float");
    line += "  " + decision.node + " (" + decision.op_type + ")  <- " + decision.tensor;
    if (decision.role == EdgeRole::weight) line += " [weight]";
    if (decision.role == EdgeRole::bias) line += " [bias]";
    line += ": " + std::string(to_string(decision.reason)) + ", " + explain(decision.reason);
    if (!decision.detail.empty()) line += " (" + decision.detail + ")";
    if (decision.whole_range) line += "; its whole range is kept, whatever the method: a term of a residual sum";
    return line;
}

void print_decisions(const QuantizationPlan& plan, const Context& context) {
    for (const EdgeDecision& decision : plan.decisions)
        context.print(describe(decision, context));
}

/// The target that was asked for, or the default one.
std::string target_name(const QuantizeArguments& arguments, bool tensorrt_cache = false) {
    if (!arguments.target.empty()) return arguments.target;
    return tensorrt_cache ? "tensorrt" : "openvino";
}

Result<void> lint(const QuantizeArguments& arguments, const Context& context) {
    LATHE_TRY(const Target target, target_from_name(target_name(arguments)));
    LATHE_TRY(Model model, load_onnx(arguments.model));
    if (Model inferred = model; infer_shapes(inferred)) model = std::move(inferred);
    const std::vector<LintFinding> findings = lint_quantization(model, profile_of(target));
    std::size_t errors = 0;
    for (const LintFinding& finding : findings) {
        const bool error = finding.severity == LintSeverity::error;
        if (error) ++errors;
        const std::string severity = error ? context.red("error") : context.yellow(to_string(finding.severity));
        context.print(severity + "  " + finding.rule + "  " + finding.where + ": " + finding.why);
        context.print("       cure: " + finding.cure);
    }
    context.print_json({{"kind", "lint"},
                        {"version", 1},
                        {"model", arguments.model},
                        {"target", target_name(arguments)},
                        {"errors", errors},
                        {"findings", to_json(findings)}});
    if (errors > 0) {
        return Error{ErrorCode::verification_failed,
                     std::to_string(errors) + (errors == 1 ? " error" : " errors") + " for target " +
                         target_name(arguments),
                     arguments.model, "each finding above names its cure"};
    }
    context.print(findings.empty() ? context.green("nothing to object to for target " + target_name(arguments))
                                   : "no errors, " + std::to_string(findings.size()) + " remarks");
    return {};
}

/// --explain without --ranges: the decisions need no calibration.
Result<void> explain_only(const QuantizeArguments& arguments, const Context& context) {
    LATHE_TRY(const Target target, target_from_name(target_name(arguments)));
    LATHE_TRY(Model model, load_onnx(arguments.model));
    if (Model inferred = model; infer_shapes(inferred)) model = std::move(inferred);
    PlacementOptions placement{arguments.exclude};
    LATHE_CHECK(choose_formats(arguments.formats, placement));
    LATHE_TRY(const QuantizationPlan plan, plan_quantization(model, profile_of(target), placement));
    print_decisions(plan, context);
    for (const std::string& remark : plan.remarks)
        context.warn(remark);
    context.print_json({{"kind", "quantize"},
                        {"version", 1},
                        {"target", target_name(arguments)},
                        {"weight_granularity", to_string(plan.granularity)},
                        {"activation_scheme", to_string(scheme_of(plan.activations))},
                        {"quantized_nodes", plan.quantized_nodes},
                        {"total_nodes", plan.heavy_nodes},
                        {"remarks", plan.remarks},
                        {"decisions", to_json(plan.decisions)}});
    return {};
}

/// "TENSOR=LOW,HIGH"; names may hold '='.
Result<std::pair<std::string, Range>> parse_range(const std::string& text) {
    const std::size_t equals = text.rfind('=');
    const std::size_t comma = text.find(',', equals == std::string::npos ? 0 : equals);
    const Error malformed{ErrorCode::invalid_argument, "'" + text + "' is no range", "--range",
                          "give it as TENSOR=LOW,HIGH, for example --range input=-1,1"};
    if (equals == std::string::npos || equals == 0 || comma == std::string::npos) return malformed;
    const auto number = [](const std::string& digits) -> std::optional<float> {
        float value = 0.0F;
        const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
        return value;
    };
    const auto low = number(text.substr(equals + 1, comma - equals - 1));
    const auto high = number(text.substr(comma + 1));
    if (!low || !high) return malformed;
    return std::pair(text.substr(0, equals), Range{*low, *high});
}

Result<QuantizeOptions> options_of(const QuantizeArguments& arguments, const std::string& target) {
    QuantizeOptions options;
    LATHE_TRY(options.target, target_from_name(target));
    options.placement.exclude = arguments.exclude;
    options.noisy_in_float = noisy_in_float(arguments.correction);
    LATHE_CHECK(choose_formats(arguments.formats, options.placement));
    options.estimate.percentile = arguments.percentile;
    LATHE_CHECK(check(options.estimate));
    if (!arguments.method.empty() && arguments.method != "auto") {
        LATHE_TRY(options.method, method_from_name(arguments.method));
    }
    for (const std::string& text : arguments.ranges_given) {
        LATHE_TRY(const auto range, parse_range(text));
        options.overrides.insert_or_assign(range.first, range.second);
    }
    if (arguments.weight_range != "auto") {
        LATHE_TRY(options.weight_range, weight_range_from_name(arguments.weight_range));
    }
    return options;
}

/// Names that did not match, both ways.
void tell_match(const GivenMatch& match, const std::vector<MissingRange>& missing, const GivenRanges& given,
                const Context& context) {
    constexpr std::size_t most = 20;
    if (!match.unknown.empty()) {
        std::string text = std::to_string(match.unknown.size()) + " of " + std::to_string(given.tensors.size()) +
                           " tensors of " + given.source + " are not in the model:";
        for (std::size_t i = 0; i < std::min(most, match.unknown.size()); ++i) {
            const UnknownTensor& each = match.unknown[i];
            text += "\n  " + each.name + (each.line == 0 ? "" : " (line " + std::to_string(each.line) + ")") +
                    (each.nearest.empty() ? "" : "; is " + each.nearest + " meant?");
        }
        if (match.unknown.size() > most) text += "\n  and " + std::to_string(match.unknown.size() - most) + " more";
        context.warn(text);
    }
    if (match.internal > 0) {
        context.print(std::to_string(match.internal) +
                      " entries are of layers that TensorRT made itself; the ONNX has no name for them");
    }
    if (missing.empty()) return;
    std::string text = std::to_string(missing.size()) + " tensors have no range in " + given.source +
                       "; what reads them stays in float (--range TENSOR=LOW,HIGH gives one):";
    for (std::size_t i = 0; i < std::min(most, missing.size()); ++i) {
        text += "\n  " + missing[i].tensor + ", read by";
        for (const std::string& node : missing[i].nodes)
            text += " " + node;
    }
    if (missing.size() > most) text += "\n  and " + std::to_string(missing.size() - most) + " more";
    context.warn(text);
}

Result<void> quantize(const QuantizeArguments& arguments, const Context& context) {
    if (arguments.lint) return lint(arguments, context);
    if (arguments.ranges.empty() && arguments.output.empty() && arguments.explain) {
        return explain_only(arguments, context);
    }
    if (arguments.ranges.empty() || arguments.output.empty()) {
        return Error{ErrorCode::invalid_argument, "--ranges and --output are needed", "",
                     "make the ranges with: lathe calibrate MODEL --data DIR --output FILE; --explain alone shows the "
                     "decisions without them, --lint judges a quantised model"};
    }
    LATHE_CHECK(check_writable({arguments.output}));
    LATHE_TRY(const Model model, load_onnx(arguments.model));
    LATHE_TRY(const auto given, load_given_ranges(arguments.ranges));
    const std::string target = target_name(arguments, given && !given->cache_header.empty());
    LATHE_TRY(const QuantizeOptions options, options_of(arguments, target));
    std::optional<GivenMatch> match;
    RangesFile ranges;
    if (given) {
        auto matched = match_given(model, *given);
        if (!matched) return std::move(matched).error().in(arguments.ranges);
        match = std::move(matched->match);
        ranges = std::move(matched->ranges);
    } else {
        LATHE_TRY(ranges, load_ranges(arguments.ranges));
    }
    const CorrectOptions correcting = options_of(arguments.correction, arguments.method);
    LATHE_TRY(const CorrectData data, data_of(arguments.correction, model));
    auto corrected = quantize_on_data(model, ranges, options, correcting, data, context.progress());
    if (!corrected) return std::move(corrected).error().in(arguments.model);
    QuantizeOutcome* const outcome = &corrected->quantized;
    LATHE_CHECK(context.progress().check());
    LATHE_CHECK(save_onnx(outcome->model, arguments.output));

    if (arguments.explain) print_decisions(outcome->plan, context);
    for (const std::string& remark : outcome->plan.remarks)
        context.warn(remark);
    if (outcome->converted_from != 0) {
        context.print("Converted from opset " + std::to_string(outcome->converted_from) + " to " +
                      std::to_string(outcome->model.opset()) + ", for scales by channel.");
    }
    if (outcome->weight_range != WeightRange::full) {
        const bool pairs = outcome->weight_range == WeightRange::pairs;
        context.print(
            std::string(pairs ? "Weights in 8 bits that leave room for a neighbour" : "Weights in 7 bits") +
            ": a CPU without VNNI adds two products in 16 bits. --weight-range full is for machines with VNNI.");
    }
    if (match) {
        tell_match(*match, outcome->missing, *given, context);
        outcome->document["given"] = to_json(*match);
    }
    print_noisy_layers(*outcome, context);
    print_corrections(*corrected, context);
    context.print(context.bold(arguments.output) + ": " + std::to_string(outcome->plan.quantized_nodes) + " of " +
                  std::to_string(outcome->plan.heavy_nodes) + " Conv, ConvTranspose, Gemm and MatMul in int8 for " +
                  target + ", " + std::to_string(outcome->plan.tensors.size()) + " activations, ranges " +
                  (match ? "of " + given->source : "by " + std::string(to_string(outcome->method))));
    outcome->document["file"] = arguments.output;
    context.print_json(outcome->document);
    return {};
}

} // namespace

void add_quantize(Commands& commands) {
    auto arguments = std::make_shared<QuantizeArguments>();
    Context& context = commands.context();
    CLI::App& app = commands.add(
        {"quantize",
         "Write a model with explicit QuantizeLinear/DequantizeLinear for one target, or judge such a model.",
         {"lathe quantize m.onnx --ranges m.ranges --target tensorrt --output m.int8.onnx",
          "lathe quantize m.onnx --ranges m.ranges --exclude Softmax --exclude '/layer4/.*' --output m.int8.onnx",
          "lathe quantize m.onnx --ranges m.ranges --effort 2 --data photos/ --output m.int8.onnx",
          "lathe quantize m.onnx --ranges m.ranges --range pooled=0,6.5 --output m.int8.onnx",
          "lathe quantize m.onnx --ranges m.ranges --weights per-tensor --activations symmetric --output m.int8.onnx",
          "lathe quantize m.onnx --ranges calibration.cache --target tensorrt --output m.int8.onnx",
          "lathe quantize m.onnx --target openvino --explain", "lathe quantize --lint theirs.onnx --target tensorrt"}},
        [arguments, &context] { return quantize(*arguments, context); });
    app.add_option("model", arguments->model, "ONNX model: float, or quantised with --lint")->required();
    app.add_option("--ranges", arguments->ranges,
                   "Ranges file that lathe calibrate wrote for this model; or a calibration cache of TensorRT; or "
                   "dynamic ranges as JSON ({\"tensor\": 2.5, ...} or {\"tensor\": {\"min\": -1, \"max\": 2.5}, ...})");
    app.add_option("--target", arguments->target,
                   "Who will run it (default: openvino; tensorrt where --ranges is a calibration cache of TensorRT)")
        ->check(CLI::IsMember({"openvino", "onnxruntime", "tensorrt", "cuda"}));
    app.add_option("--output,-o", arguments->output, "Where to write the quantised model");
    app.add_option(
           "--exclude", arguments->exclude,
           "Leave in float: a node's name, an op type, or a regular expression for whole node names; repeatable")
        ->allow_extra_args(false);
    app.add_option(
           "--method", arguments->method,
           "Range estimator instead of the one in the ranges file; auto: for each tensor the range with the least "
           "error in what reads it (needs --data)")
        ->check(CLI::IsMember({"auto", "minmax", "percentile", "entropy", "mse"}));
    app.add_option("--percentile", arguments->percentile, "Of --method percentile")->capture_default_str();
    app.add_option("--range", arguments->ranges_given,
                   "TENSOR=LOW,HIGH: a tensor's range in place of the calibrated one; repeatable")
        ->allow_extra_args(false);
    add_format_options(app, arguments->formats);
    app.add_option("--weight-range", arguments->weight_range,
                   "Steps of int8 weights. full: -127..127. A CPU without VNNI adds the products of two weights in 16 "
                   "bits, which overflow; there pairs keeps what two add up to small enough, and seven-bits every "
                   "weight. auto: what the target needs on this CPU")
        ->check(CLI::IsMember({"auto", "full", "pairs", "seven-bits"}))
        ->capture_default_str();
    add_correction_options(app, arguments->correction, "0");
    app.add_flag("--explain", arguments->explain, "Print every decision with its reason, an edge a line");
    app.add_flag("--lint", arguments->lint, "Judge a quantised model for the target; exit code 5 on errors");
}

} // namespace lathe::cli
