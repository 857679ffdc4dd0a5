#include "autocast/autocast.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/api/typed_graph.hpp"
#include "cli/calibrate.hpp"
#include "cli/commands.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"

namespace lathe::cli {

namespace {

struct Arguments {
    std::string model;
    std::string ranges;
    std::string format = fp16.name;
    std::string output;
    std::string io_types = "keep";
    std::string accumulators = "fp32";
    std::string preprocess;
    CalibrateRequest calibrate;
    AutocastOptions options;
    bool explain = false;
    std::vector<const CLI::Option*> of_ranges; ///< options that mean something with measured ranges alone
};

constexpr std::size_t rows_shown = 10;

std::string depth_of(const CastDecision& decision) {
    if (!decision.reduction) return "-";
    const Reduction& reduction = *decision.reduction;
    if (reduction.depth == 0) return "?";
    return (reduction.assumed ? "~" : "") + std::to_string(reduction.depth);
}

/// Every decision with the figures behind it.
void print_decisions(const AutocastPlan& plan, const AutocastOptions& options, const Context& context) {
    std::vector<std::vector<std::string>> rows{
        {"", "node", "op", "largest |x|", "terms", "sums in", "error bound", "why"}};
    for (const CastDecision& decision : plan.decisions) {
        const bool reduces = decision.reduction.has_value();
        rows.push_back(
            {decision.is_cast() ? options.format.name : "fp32", decision.node, decision.op_type,
             number(decision.absmax), depth_of(decision),
             !reduces                   ? "-"
             : decision.reduction->wide ? "fp32"
                                        : "own type",
             reduces ? number(decision.error_bound, "%.2g") : "-",
             std::string(to_string(decision.reason)) + (decision.detail.empty() ? "" : " (" + decision.detail + ")")});
    }
    context.print(table(rows));
    context.print("terms: how many a sum adds, ~ with open sizes taken as " + std::to_string(options.open_size) + "\n");
}

/// "12 stay FP32: 8 deep_reduction, it adds up ...".
void print_kept(const AutocastOutcome& outcome, const Context& context) {
    std::map<std::string, std::pair<std::size_t, CastReason>> counts;
    for (const CastDecision& decision : outcome.plan.decisions) {
        if (decision.is_cast()) continue;
        auto& count = counts.try_emplace(to_string(decision.reason), 0, decision.reason).first->second;
        ++count.first;
    }
    for (const auto& [name, count] : counts)
        context.print("  fp32: " + std::to_string(count.first) + " x " + name + ", " + explain(count.second));
}

std::string percent(const Json& share) {
    const double least = 100 * share[0].get<double>();
    const double most = 100 * share[1].get<double>();
    if (least == most) return number(most, "%.3g") + " %";
    return number(least, "%.3g") + " to " + number(most, "%.3g") + " %";
}

void print_overflow(const Json& document, const Context& context) {
    const Json& tensors = document["overflow"]["tensors"];
    const Json& nodes = document["overflow"]["inside_nodes"];
    const std::string largest = number(document["largest"].get<double>(), "%.6g");
    context.print("overflow: " + std::to_string(tensors.size()) + " tensors above " + largest +
                  "; products or sums inside " + std::to_string(nodes.size()) + " nodes may pass it");
    for (std::size_t i = 0; i < std::min(tensors.size(), rows_shown); ++i) {
        const Json& row = tensors[i];
        context.print("  " + row["tensor"].get<std::string>() + (row["constant"].get<bool>() ? " (constant)" : "") +
                      ": reaches " + number(row["absmax"].get<double>()) + ", " + percent(row["share"]) + " of it");
    }
    std::size_t held = 0;
    for (const Json& row : nodes)
        held += row["held_in_fp32"].get<bool>() ? 1 : 0;
    if (!nodes.empty()) {
        context.print("  " + std::to_string(held) + " of these " + std::to_string(nodes.size()) +
                      " nodes hold them in FP32");
    }
}

void print_subnormals(const Json& document, const Context& context) {
    for (const char* kind : {"constants", "activations"}) {
        const Json& part = document["subnormal"][kind];
        context.print("subnormal " + std::string(kind) + ": " + percent(part["subnormal"]) + " of " +
                      std::to_string(part["values"].get<std::uint64_t>()) + " values under " +
                      number(document["smallest_normal"].get<double>()) + ", " + percent(part["flushed"]) +
                      " become 0");
        if (!context.verbose) continue;
        for (std::size_t i = 0; i < std::min(part["tensors"].size(), rows_shown); ++i) {
            const Json& row = part["tensors"][i];
            context.print("  " + row["tensor"].get<std::string>() + ": " + percent(row["subnormal"]) + ", " +
                          percent(row["flushed"]) + " become 0, error " +
                          number(100 * row["relative_error"].get<double>(), "%.2g") + " %");
        }
    }
}

Result<RangesFile> ranges_of(Arguments& arguments, const Model& model, const Context& context) {
    CalibrateRequest& request = arguments.calibrate;
    if (request.data.empty()) return load_ranges(arguments.ranges);
    request.all_activations = true;
    request.method = Method::minmax; // no clipping is asked for, so no search for it
    request.output = arguments.ranges;
    if (!arguments.preprocess.empty()) {
        LATHE_TRY(request.preprocess, Preprocess::from_file(arguments.preprocess));
    }
    LATHE_TRY(CalibrateOutcome outcome, calibrate_model(model, request, context));
    return std::move(outcome.ranges);
}

/// Without measurements: what each operation does decides, and Q/DQ stays int8.
Result<void> cast_by_operation(const Arguments& arguments, const Context& context) {
    for (const CLI::Option* option : arguments.of_ranges) {
        if (option->count() == 0) continue;
        return Error{ErrorCode::invalid_argument, "this option judges measured values, and there are none",
                     option->get_name(),
                     "--data DIR measures the model on samples; --ranges FILE takes what lathe calibrate --all-tensors "
                     "measured; both: FILE is made, or reused"};
    }
    if (arguments.output.empty()) {
        return Error{ErrorCode::invalid_argument, "--output is needed", "", "name the model to write"};
    }
    LATHE_TRY(const HalfFormat format, half_format_from_name(arguments.format));
    LATHE_TRY(const Model model, load_onnx(arguments.model));
    warn_about_nonfinite(model);
    auto typed = write_precision(model, *precision_from_name(format.name));
    if (!typed) return std::move(typed).error().in(arguments.model);
    typed->model.set_metadata("lathe.autocast", Json{{"format", format.name}, {"by", "operation"}}.dump());
    LATHE_CHECK(check_onnx(typed->model, {.full = true}));
    LATHE_CHECK(context.progress().check());
    LATHE_CHECK(save_onnx(typed->model, arguments.output));

    const NarrowReport& report = typed->report;
    std::size_t kept = 0;
    for (const auto& [op, count] : report.kept_ops)
        kept += count;
    context.print(context.bold(arguments.output) + ": " + std::to_string(report.low_nodes) + " of " +
                  std::to_string(report.low_nodes + kept) + " nodes in " + format.name + ", " +
                  std::to_string(report.casts) + " casts, by what each operation does");
    for (const std::string& note : typed->notes)
        context.print("  " + note);
    if (typed->model.opset() != model.opset()) {
        context.print("Converted from opset " + std::to_string(model.opset()) + " to " +
                      std::to_string(typed->model.opset()) + ".");
    }
    context.print_json({{"kind", "autocast"},
                        {"version", 1},
                        {"by", "operation"},
                        {"format", format.name},
                        {"opset", typed->model.opset()},
                        {"cast_nodes", report.low_nodes},
                        {"fp32_nodes", kept},
                        {"added_casts", report.casts},
                        {"kept_ops", report.kept_ops},
                        {"kept_for_range", report.kept_for_range},
                        {"file", arguments.output}});
    return {};
}

Result<void> autocast(Arguments& arguments, const Context& context) {
    if (arguments.calibrate.data.empty() && arguments.ranges.empty()) return cast_by_operation(arguments, context);
    if (arguments.output.empty() && !arguments.explain) {
        return Error{ErrorCode::invalid_argument, "--output is needed", "",
                     "name the model to write, or ask for --explain to see the decisions alone"};
    }
    AutocastOptions& options = arguments.options;
    LATHE_TRY(options.format, half_format_from_name(arguments.format));
    options.accumulators = arguments.accumulators == "own" ? Accumulators::own : Accumulators::fp32;
    if (arguments.io_types != "keep") {
        LATHE_TRY(const HalfFormat io, half_format_from_name(arguments.io_types));
        options.io_type = io.type;
    }
    LATHE_CHECK(check_writable({arguments.output}));
    LATHE_TRY(const Model model, load_onnx(arguments.model));
    warn_about_nonfinite(model);
    LATHE_TRY(const RangesFile ranges, ranges_of(arguments, model, context));
    auto outcome = autocast_model(model, ranges, options);
    if (!outcome) return std::move(outcome).error().in(arguments.model);
    LATHE_CHECK(context.progress().check());
    if (!arguments.output.empty()) LATHE_CHECK(save_onnx(outcome->model, arguments.output));

    if (arguments.explain) print_decisions(outcome->plan, options, context);
    for (const std::string& remark : outcome->remarks)
        context.warn(remark);
    if (outcome->converted_from != 0) {
        context.print("Converted from opset " + std::to_string(outcome->converted_from) + " to " +
                      std::to_string(outcome->model.opset()) + ", where convolutions know bfloat16.");
    }
    const std::string whole = std::to_string(outcome->cast_nodes + outcome->kept_nodes);
    context.print((arguments.output.empty() ? "" : context.bold(arguments.output) + ": ") +
                  std::to_string(outcome->cast_nodes) + " of " + whole + " nodes in " + options.format.name + ", " +
                  std::to_string(outcome->casts) + " casts, inputs and outputs in " + to_string(options.io_type));
    print_kept(*outcome, context);
    print_overflow(outcome->document, context);
    print_subnormals(outcome->document, context);
    if (!arguments.output.empty()) outcome->document["file"] = arguments.output;
    context.print_json(outcome->document);
    return {};
}

} // namespace

void add_autocast(Commands& commands) {
    auto arguments = std::make_shared<Arguments>();
    arguments->calibrate.samples = 100;
    Context& context = commands.context();
    CLI::App& app = commands.add(
        {"autocast",
         "Write FP16 or BF16 into a model. With --data or --ranges each node is judged by the range of its values and "
         "the depth of its sums; without, by what it does: products and what follows them are cast, softmax, "
         "normalisations and constants that do not fit stay FP32, and Q/DQ stays int8",
         {"lathe autocast m.onnx --data photos/ --output m.fp16.onnx",
          "lathe autocast m.onnx --data photos/ --ranges m.all.ranges --to bf16 --output m.bf16.onnx",
          "lathe autocast m.onnx --ranges m.all.ranges --explain --json",
          "lathe autocast m.onnx --ranges m.all.ranges --io-types fp16 --exclude Softmax --output m.fp16.onnx",
          "lathe autocast m.int8.onnx --output m.int8-fp16.onnx"}},
        [arguments, &context] { return autocast(*arguments, context); });
    app.add_option("model", arguments->model,
                   "ONNX model in FP32, best a simplified one; without measurements also one with Q/DQ")
        ->required();
    app.add_option("--data", arguments->calibrate.data,
                   "Samples to measure the model on: images, arrays or texts, as lathe calibrate takes them");
    app.add_option("--ranges", arguments->ranges,
                   "Ranges that lathe calibrate --all-tensors wrote; with --data: made here, and reused next time");
    app.add_option("--columns", arguments->calibrate.columns, columns_help);
    app.add_option("--samples", arguments->calibrate.samples, "How many samples, spread evenly over the data; 0: all")
        ->capture_default_str();
    app.add_option("--preprocess", arguments->preprocess, "JSON file that overrides the model's preprocessing");
    app.add_option(
           "--to", arguments->format,
           "The 16-bit format. Who computes so: tensorrt in the types as written; cpu (lathe build --precision "
           "fp32) BF16 as written, but FP16 in FP32 from rounded weights unless the processor has avx512_fp16 or "
           "amx_fp16; cuda does not read the casts and computes all that is not int8 in --precision, so that no "
           "node stays FP32 there")
        ->check(CLI::IsMember({"fp16", "bf16"}))
        ->capture_default_str();
    app.add_option("-o,--output", arguments->output, "Where to write the model");
    app.add_option("--io-types", arguments->io_types, "Of the model's floating-point inputs and outputs; keep: FP32")
        ->check(CLI::IsMember({"keep", "fp16", "bf16"}))
        ->capture_default_str();
    app.add_option("--headroom", arguments->options.headroom,
                   "Measured magnitudes count so many times, for data not seen")
        ->capture_default_str();
    app.add_option("--error-limit", arguments->options.error_limit,
                   "Largest bound of the relative error of a sum that is not kept in FP32")
        ->capture_default_str();
    app.add_option("--accumulate", arguments->accumulators,
                   "Sums of products (Conv, Gemm, MatMul): fp32, as matrix units do, or own for the 16-bit type")
        ->check(CLI::IsMember({"fp32", "own"}))
        ->capture_default_str();
    app.add_option("--open-size", arguments->options.open_size, "Size of open axes that are summed over")
        ->capture_default_str();
    app.add_option("--exclude", arguments->options.exclude,
                   "Leave in FP32: a node's name, an op type, or a regular expression for whole node names; repeatable")
        ->allow_extra_args(false);
    app.add_flag("--explain", arguments->explain, "Print every decision with its figures and reason");
    app.add_flag("--force", arguments->calibrate.force, "Measure anew even if the ranges file exists");
    for (const char* name : {"--columns", "--samples", "--preprocess", "--io-types", "--headroom", "--error-limit",
                             "--accumulate", "--open-size", "--exclude", "--explain", "--force"})
        arguments->of_ranges.push_back(app.get_option(name));
}

} // namespace lathe::cli
