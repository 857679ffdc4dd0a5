#include "lathe/autocast.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/preprocess.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct AutocastArguments {
    AutocastRequest request;
    std::string format = "fp16";
    std::string io_types = "keep";
    std::string accumulators = "fp32";
    bool explain = false;
    std::vector<const CLI::Option*> of_ranges; ///< options that mean something with measured ranges alone
};

constexpr std::size_t rows_shown = 10;

std::string terms_of(const AutocastDecision& decision) {
    if (!decision.sum) return "-";
    const CastSum& sum = *decision.sum;
    if (sum.terms == 0) return "?";
    return (sum.assumed ? "~" : "") + std::to_string(sum.terms);
}

/// Every decision with the figures behind it.
void print_decisions(const AutocastResult& result, std::int64_t open_size, const Context& context) {
    std::vector<std::vector<std::string>> rows{
        {"", "node", "op", "largest |x|", "terms", "sums in", "error bound", "why"}};
    for (const AutocastDecision& decision : result.decisions) {
        rows.push_back({decision.cast ? result.format : "fp32", decision.node, decision.op, number(decision.absmax),
                        terms_of(decision),
                        !decision.sum           ? "-"
                        : decision.sum->in_fp32 ? "fp32"
                                                : "own type",
                        decision.sum ? number(decision.sum->error_bound, "%.2g") : "-",
                        decision.reason + (decision.detail.empty() ? "" : " (" + decision.detail + ")")});
    }
    context.print(table(rows));
    context.print("terms: how many a sum adds, ~ with open sizes taken as " + std::to_string(open_size) + "\n");
}

/// "12 stay FP32: 8 deep_reduction, it adds up ...".
void print_kept(const AutocastResult& result, const Context& context) {
    std::map<std::string, std::pair<std::size_t, std::string>> counts;
    for (const AutocastDecision& decision : result.decisions) {
        if (decision.cast) continue;
        ++counts.try_emplace(decision.reason, 0, decision.explanation).first->second.first;
    }
    for (const auto& [name, count] : counts)
        context.print("  fp32: " + std::to_string(count.first) + " x " + name + ", " + count.second);
}

std::string percent(const ShareBounds& share) {
    const double least = 100 * share.least;
    const double most = 100 * share.most;
    if (least == most) return number(most, "%.3g") + " %";
    return number(least, "%.3g") + " to " + number(most, "%.3g") + " %";
}

void print_overflow(const AutocastResult& result, const Context& context) {
    const auto& nodes = result.inside_overflow;
    context.print("overflow: " + std::to_string(result.overflow.size()) + " tensors above " +
                  number(result.largest, "%.6g") + "; products or sums inside " + std::to_string(nodes.size()) +
                  " nodes may pass it");
    for (std::size_t i = 0; i < std::min(result.overflow.size(), rows_shown); ++i) {
        const OverflowingTensor& row = result.overflow[i];
        context.print("  " + row.tensor + (row.constant ? " (constant)" : "") + ": reaches " + number(row.absmax) +
                      ", " + percent(row.share) + " of it");
    }
    if (nodes.empty()) return;
    const auto held = std::ranges::count_if(nodes, &OverflowingNode::held_in_fp32);
    context.print("  " + std::to_string(held) + " of these " + std::to_string(nodes.size()) +
                  " nodes hold them in FP32");
}

void print_subnormals(const std::string& kind, const Subnormals& part, double smallest_normal, const Context& context) {
    context.print("subnormal " + kind + ": " + percent(part.subnormal) + " of " + std::to_string(part.values) +
                  " values under " + number(smallest_normal) + ", " + percent(part.flushed) + " become 0");
    if (!context.verbose) return;
    for (std::size_t i = 0; i < std::min(part.tensors.size(), rows_shown); ++i) {
        const SubnormalTensor& row = part.tensors[i];
        context.print("  " + row.tensor + ": " + percent(row.subnormal) + ", " + percent(row.flushed) +
                      " become 0, error " + number(100 * row.relative_error, "%.2g") + " %");
    }
}

/// What can be told before any work.
Result<AutocastRequest> request_of(const AutocastArguments& arguments, const Context& context) {
    AutocastRequest request = arguments.request;
    const bool measured = !request.data.empty() || !request.ranges.empty();
    for (const CLI::Option* option : arguments.of_ranges) {
        if (measured || option->count() == 0) continue;
        return Error{ErrorCode::invalid_argument, "this option judges measured values, and there are none",
                     option->get_name(),
                     "--data DIR measures the model on samples; --ranges FILE takes what lathe calibrate --all-tensors "
                     "measured; both: FILE is made, or reused"};
    }
    if (request.output.empty() && !measured)
        return Error{ErrorCode::invalid_argument, "--output is needed", "", "name the model to write"};
    if (request.output.empty() && !arguments.explain) {
        return Error{ErrorCode::invalid_argument, "--output is needed", "",
                     "name the model to write, or ask for --explain to see the decisions alone"};
    }
    const auto half = [](const std::string& name) { return *precision_from_name(name); }; // checked by the options
    request.format = half(arguments.format);
    if (arguments.io_types != "keep") request.io_types = half(arguments.io_types);
    request.wide_sums = arguments.accumulators == "fp32";
    request.progress = &context.progress();
    return request;
}

void print_measured(const AutocastResult& result, const AutocastArguments& arguments, const Context& context) {
    if (!result.reused.empty()) context.print(result.reused);
    if (arguments.explain) print_decisions(result, arguments.request.open_size, context);
    for (const std::string& remark : result.remarks)
        context.warn(remark);
    if (result.converted_from != 0) {
        context.print("Converted from opset " + std::to_string(result.converted_from) + " to " +
                      std::to_string(result.opset) + ", where convolutions know bfloat16.");
    }
    const std::string output = arguments.request.output.string();
    const std::string whole = std::to_string(result.cast_nodes + result.fp32_nodes);
    const std::string edges = arguments.io_types == "keep"   ? "float32"
                              : arguments.io_types == "fp16" ? "float16"
                                                             : "bfloat16";
    context.print((output.empty() ? "" : context.bold(output) + ": ") + std::to_string(result.cast_nodes) + " of " +
                  whole + " nodes in " + result.format + ", " + std::to_string(result.casts) +
                  " casts, inputs and outputs in " + edges);
    print_kept(result, context);
    print_overflow(result, context);
    print_subnormals("constants", result.constants, result.smallest_normal, context);
    print_subnormals("activations", result.activations, result.smallest_normal, context);
}

void print_unmeasured(const AutocastResult& result, const AutocastArguments& arguments, const Context& context) {
    context.print(context.bold(arguments.request.output.string()) + ": " + std::to_string(result.cast_nodes) + " of " +
                  std::to_string(result.cast_nodes + result.fp32_nodes) + " nodes in " + result.format + ", " +
                  std::to_string(result.casts) + " casts, by what each operation does");
    for (const std::string& remark : result.remarks)
        context.print("  " + remark);
    if (result.converted_from != 0) {
        context.print("Converted from opset " + std::to_string(result.converted_from) + " to " +
                      std::to_string(result.opset) + ".");
    }
}

Result<void> run_autocast(const AutocastArguments& arguments, const Context& context) {
    LATHE_TRY(const AutocastRequest request, request_of(arguments, context));
    LATHE_TRY(const AutocastResult result, autocast(request));
    if (result.measured)
        print_measured(result, arguments, context);
    else
        print_unmeasured(result, arguments, context);
    LATHE_TRY(Json document, parse_json(result.document, "autocast"));
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_autocast(Commands& commands) {
    auto arguments = std::make_shared<AutocastArguments>();
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
        [arguments, &context] { return run_autocast(*arguments, context); });
    app.add_option("model", arguments->request.model,
                   "ONNX model in FP32, best a simplified one; without measurements also one with Q/DQ")
        ->required();
    app.add_option("--data", arguments->request.data,
                   "Samples to measure the model on: images, arrays or texts, as lathe calibrate takes them");
    app.add_option("--ranges", arguments->request.ranges,
                   "Ranges that lathe calibrate --all-tensors wrote; with --data: made here, and reused next time");
    app.add_option("--columns", arguments->request.columns, columns_help);
    app.add_option("--samples", arguments->request.samples, "How many samples, spread evenly over the data; 0: all")
        ->capture_default_str();
    app.add_option("--preprocess", arguments->request.preprocess, preprocess_help());
    app.add_option(
           "--to", arguments->format,
           "The 16-bit format. Who computes so: tensorrt in the types as written; cpu (lathe build --precision "
           "fp32) BF16 as written, but FP16 in FP32 from rounded weights unless the processor has avx512_fp16 or "
           "amx_fp16; cuda does not read the casts and computes all that is not int8 in --precision, so that no "
           "node stays FP32 there")
        ->check(CLI::IsMember({"fp16", "bf16"}))
        ->capture_default_str();
    app.add_option("-o,--output", arguments->request.output, "Where to write the model");
    app.add_option("--io-types", arguments->io_types, "Of the model's floating-point inputs and outputs; keep: FP32")
        ->check(CLI::IsMember({"keep", "fp16", "bf16"}))
        ->capture_default_str();
    app.add_option("--headroom", arguments->request.headroom,
                   "Measured magnitudes count so many times, for data not seen")
        ->capture_default_str();
    app.add_option("--error-limit", arguments->request.error_limit,
                   "Largest bound of the relative error of a sum that is not kept in FP32")
        ->capture_default_str();
    app.add_option("--accumulate", arguments->accumulators,
                   "Sums of products (Conv, Gemm, MatMul): fp32, as matrix units do, or own for the 16-bit type")
        ->check(CLI::IsMember({"fp32", "own"}))
        ->capture_default_str();
    app.add_option("--open-size", arguments->request.open_size, "Size of open axes that are summed over")
        ->capture_default_str();
    app.add_option("--exclude", arguments->request.exclude,
                   "Leave in FP32: a node's name, an op type, or a regular expression for whole node names; repeatable")
        ->allow_extra_args(false);
    app.add_flag("--explain", arguments->explain, "Print every decision with its figures and reason");
    app.add_flag("--force", arguments->request.force, "Measure anew even if the ranges file exists");
    for (const char* name : {"--columns", "--samples", "--preprocess", "--io-types", "--headroom", "--error-limit",
                             "--accumulate", "--open-size", "--exclude", "--explain", "--force"})
        arguments->of_ranges.push_back(app.get_option(name));
}

} // namespace lathe::cli
