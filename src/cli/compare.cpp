#include <cmath>
#include <cstdio>
#include <memory>

#include "api/compare_models.hpp"
#include "cli/commands.hpp"
#include "cli/task.hpp"
#include "compare/reduce.hpp"
#include "support/files.hpp"

namespace lathe::cli {

namespace {

struct CompareArguments {
    CompareModelsRequest request;
    std::string reduce;
    std::size_t rows = 20;
};

std::string number(double value, const char* format = "%.3g") {
    if (std::isinf(value)) return "equal";
    char text[40];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

std::string operations(const ComparedTensor& tensor) {
    if (tensor.op_a.empty() && tensor.op_b.empty()) return "-";
    if (tensor.op_a == tensor.op_b || tensor.op_b.empty()) return tensor.op_a;
    return (tensor.op_a.empty() ? "-" : tensor.op_a) + " / " + tensor.op_b;
}

std::vector<std::string> row_of(const ComparedTensor& tensor, const Context& context) {
    const TensorDifference& difference = tensor.difference;
    const std::string name = difference.tensor + (tensor.output ? " (output)" : "");
    const std::string verdict = difference.past ? context.red("past") : context.green("ok");
    if (!difference.problem.empty()) return {name, operations(tensor), difference.problem, "", "", "", "", verdict};
    return {name,
            operations(tensor),
            number(difference.max_abs),
            number(difference.max_rel),
            number(difference.sqnr_db, "%.1f"),
            number(difference.cosine, "%.6f"),
            difference.agreement ? number(*difference.agreement * 100, "%.1f %%") : "-",
            verdict};
}

/// Outputs, the first past tolerance, and the worst; all with --verbose.
void print_comparison(const Comparison& comparison, const CompareArguments& options, const Context& context) {
    std::vector<std::vector<std::string>> rows{
        {"tensor", "op", "max abs", "max rel", "SQNR dB", "cosine", "argmax", ""}};
    std::size_t past = 0;
    std::size_t left_out = 0;
    for (const ComparedTensor& tensor : comparison.tensors) {
        if (tensor.difference.past) ++past;
        const bool interesting = tensor.output || (tensor.difference.past && past <= options.rows) || context.verbose;
        if (interesting) {
            rows.push_back(row_of(tensor, context));
        } else {
            ++left_out;
        }
    }
    context.print(table(rows));
    if (left_out > 0) context.print(std::to_string(left_out) + " more tensors; --verbose shows all");
    if (comparison.only_a + comparison.only_b > 0) {
        context.print("no namesake: " + std::to_string(comparison.only_a) + " tensors of the first model, " +
                      std::to_string(comparison.only_b) + " of the second");
    }
}

/// What to compare: the small graph, or the engine of it, with the command that builds it.
std::string built(const std::optional<BuildOptions>& build, const std::filesystem::path& graph,
                  const Context& context) {
    if (!build) return graph.string();
    std::string engine = std::filesystem::path(graph).replace_extension(".engine").string();
    const std::string precision = build->precision ? " --precision " + to_string(*build->precision) : "";
    context.print("  lathe build " + graph.string() + " --device " + build->device + precision + " --output " + engine);
    return engine;
}

Result<Json> reduce_and_save(const ModelComparison& made, const CompareArguments& options, const Context& context) {
    const std::string& target = made.comparison.first_past()->difference.tensor;
    LATHE_TRY(const Reduced reduced, reduce(made.a, made.b, made.comparison, target, made.options, context.progress()));
    LATHE_TRY(const auto files, save_reduced(reduced, options.reduce));
    context.print("reduced to " + std::to_string(reduced.nodes_a) + " and " + std::to_string(reduced.nodes_b) +
                  " nodes, still past tolerance (max abs " + number(reduced.difference.max_abs) + "), in " +
                  std::to_string(reduced.trials) + " trials:");
    context.print("  second " + context.bold(files[0].string()) + ", first " + files[1].string() + ", inputs " +
                  files[2].string());
    const std::string first = built(reduced.build_a, files[1], context);
    const std::string second = built(reduced.build_b, files[0], context);
    const std::string& against = options.request.against;
    context.print("  lathe compare " + first + " " + second + " --data " + files[2].string() +
                  (against.empty() ? "" : " --against " + against));
    Json inputs = Json::array();
    for (const HostTensor& input : reduced.inputs)
        inputs.push_back({{"name", input.name}, {"shape", input.shape}});
    return Json{{"file", files[0].string()},
                {"reference", files[1].string()},
                {"data", files[2].string()},
                {"nodes_first", reduced.nodes_a},
                {"nodes_second", reduced.nodes_b},
                {"inputs", std::move(inputs)},
                {"difference", to_json(reduced.difference)},
                {"trials", reduced.trials}};
}

Result<void> run(const CompareArguments& options, const Context& context) {
    CompareModelsRequest request = options.request;
    request.progress = &context.progress();
    LATHE_TRY(const ModelComparison made, run_comparison(request));
    const Comparison& comparison = made.comparison;
    if (!made.interpreter.empty()) {
        context.print("the first runs in " + made.interpreter +
                      (request.second.empty() ? "; the second is the same file in Lathe" : ""));
    }
    print_comparison(comparison, options, context);
    if (made.answers) {
        const ComparedAnswers& answers = *made.answers;
        context.print(answers.metric + ": " + number(100 * answers.value, "%.2f") + " % on " +
                      std::to_string(answers.samples) + " samples (change " + number(100 * answers.low, "%+.2f") +
                      ".." + number(100 * answers.high, "%+.2f") + " pt)");
    }

    const ComparedTensor* first = comparison.first_past();
    Json document = comparison_document(request, made);
    if (first == nullptr) {
        context.print(context.green("within tolerance: " + std::to_string(comparison.tensors.size()) + " tensors"));
        if (!options.reduce.empty()) context.warn("nothing is past tolerance, so there is nothing to reduce");
        context.print_json(std::move(document));
        return {};
    }
    if (!options.reduce.empty()) {
        auto reduced = reduce_and_save(made, options, context);
        if (!reduced) { // the difference is told all the same
            context.print_json(std::move(document));
            return std::move(reduced).error();
        }
        document["reduced"] = *std::move(reduced);
    }
    context.print_json(std::move(document));
    const std::string op = first->op_b.empty() ? first->op_a : first->op_b;
    const std::string node = first->node_b.empty() ? first->node_a : first->node_b;
    return Error{ErrorCode::verification_failed,
                 "the first tensor past tolerance is " + first->difference.tensor +
                     (op.empty() ? "" : ", made by " + op + " " + node),
                 "",
                 options.reduce.empty() ? "--reduce OUT.onnx cuts the graphs down to where they differ; --rtol, --atol "
                                          "and --min-sqnr set what is allowed"
                                        : ""};
}

} // namespace

void add_compare(Commands& commands) {
    auto options = std::make_shared<CompareArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"compare",
         "Run two models or engines on the same inputs, compare outputs and all values of one name, and find the first "
         "that differs; exit code 5 if one is past tolerance",
         {"lathe compare m.onnx m.simple.onnx", "lathe compare m.onnx m.int8.onnx --min-sqnr 20",
          "lathe compare m.onnx m.int8.engine --min-sqnr 15 --data inputs.npz",
          "lathe compare m.onnx --against onnxruntime", "lathe compare m.onnx m.engine --against onnxruntime",
          "lathe compare old.onnx new.onnx --shape input:1x3x224x224 --reduce small.onnx",
          "lathe compare yolox.onnx yolox.int8.onnx --data pictures.npz --task detection --min-sqnr 10",
          "lathe compare m.onnx m.engine --data inputs.npz --reduce small.onnx"}},
        [options, &context] { return run(*options, context); });
    command
        .add_option("first", options->request.first, "ONNX model, Lathe engine or OpenVINO IR (.xml): the reference")
        ->required();
    command.add_option(
        "second", options->request.second,
        "ONNX model, Lathe engine or OpenVINO IR (.xml); may be left out with --against: the first, run by "
        "Lathe");
    command.add_option("--against", options->request.against,
                       "What computes the first model, of an engine the graph inside: onnxruntime (ONNX Runtime, each "
                       "node as written), or reference (ONNX's own, slow); both in Python");
    command.add_option("--data", options->request.data,
                       ".npz with an array for each input, or .npy for the only one (default: random)");
    command.add_option("--seed", options->request.seed, "Of random inputs")->capture_default_str();
    command
        .add_option("--shape", options->request.shapes,
                    "NAME:1x3x224x224: an input's sizes, for random inputs; repeatable")
        ->allow_extra_args(false);
    command
        .add_option("--rtol", options->request.rtol, "A tensor may differ by atol + rtol times its largest magnitude")
        ->capture_default_str();
    command.add_option("--atol", options->request.atol, "See --rtol")->capture_default_str();
    command.add_option("--min-sqnr", options->request.min_sqnr_db,
                       "Instead: the least signal to noise in dB, for quantised models");
    add_task_options(command, options->request.task);
    command.add_flag("--outputs-only", options->request.outputs_only, "Do not look inside");
    command.add_option(
        "--reduce", options->reduce,
        "Cut both graphs down to a few nodes that still differ; writes OUT.onnx (the second), "
        "OUT.reference.onnx (the first) and OUT.npz (their inputs). Of an engine, the graph inside; each "
        "trial builds it for the same device and precision");
    command.add_option("--threads", options->request.threads, "Threads (default: all)");
}

} // namespace lathe::cli
