#include "api/simplify.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/commands.hpp"
#include "graph/text.hpp"
#include "onnx/input_value.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"
#include "passes/passes.hpp"
#include "support/files.hpp"

namespace lathe::cli {
namespace {

std::string scientific(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2g", value);
    return text;
}

void print_report(const SimplifyReport& report, const std::filesystem::path& output, const Context& context) {
    std::vector<std::vector<std::string>> rows{{"pass", "changes"}};
    for (const PassCount& pass : report.passes)
        rows.push_back({pass.name, std::to_string(pass.changes)});
    context.print(table(rows));
    context.print("nodes        " + std::to_string(report.before_nodes) + " -> " + std::to_string(report.after_nodes));
    context.print("initializers " + std::to_string(report.before_initializers) + " -> " +
                  std::to_string(report.after_initializers));
    context.print(report.samples == 0 ? std::string("nothing changed, so nothing had to be verified")
                                      : "verified on " + std::to_string(report.samples) +
                                            " random inputs, largest relative error " + scientific(report.max_error));
    context.print("written to " + output.string());
}

void list_passes(const Context& context) {
    std::vector<std::vector<std::string>> rows{{"pass", "what it does"}};
    Json names = Json::array();
    for (const Pass& pass : all_passes()) {
        rows.push_back({pass.name, pass.summary});
        names.push_back({{"name", pass.name}, {"summary", pass.summary}});
    }
    context.print(table(rows));
    context.print_json({{"kind", "passes"}, {"version", 1}, {"passes", names}});
}

/// One text file a step: "03-fold-batch-norm.txt".
std::function<Result<void>(std::size_t, std::string_view, const Model&)> dump_to(const std::filesystem::path& folder) {
    return [folder](std::size_t step, std::string_view pass, const Model& model) -> Result<void> {
        const std::string number = std::to_string(step);
        const std::string name = std::string(number.size() < 2 ? "0" : "") + number + "-" + std::string(pass) + ".txt";
        return write_file(folder / name, print(model, {.value_infos = true}));
    };
}

Result<void> make_folder(const std::filesystem::path& folder) {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) {
        return Error{ErrorCode::io, "cannot make the folder: " + failure.message(), folder.string(),
                     "name a folder that can be written"};
    }
    return {};
}

} // namespace

void add_simplify(Commands& commands) {
    struct Options {
        std::string model;
        std::string output;
        std::string dump;
        std::vector<std::string> shapes;
        std::vector<std::string> constants;
        std::string device = "cpu";
        bool list = false;
        SimplifyOptions simplify;
    };
    auto options = std::make_shared<Options>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"simplify",
         "Fold constants, BatchNormalization and shape arithmetic, remove what does nothing; verified before writing",
         {"lathe simplify m.onnx --output simple.onnx",
          "lathe simplify m.onnx --output simple.onnx --disable fold-affine --dump steps/",
          "lathe simplify bert.onnx --shape ids:?x128 --shape mask:?x128 --output bert128.onnx",
          "lathe simplify vad.onnx --shape input:1x576 --constant sr=16000 --output vad16.onnx",
          "lathe simplify unet.onnx --device cuda --output unet.gpu.onnx", "lathe simplify --list-passes"}},
        [options, &context]() -> Result<void> {
            if (options->list) {
                list_passes(context);
                return {};
            }
            if (options->model.empty() || options->output.empty()) {
                return Error{ErrorCode::invalid_argument, "a model and --output are needed", "lathe simplify",
                             "lathe simplify m.onnx --output simple.onnx"};
            }
            SimplifyOptions& simplify = options->simplify;
            simplify.progress = &context.progress();
            LATHE_TRY(simplify.for_gpus, simplifies_for_gpus(options->device));
            if (!options->dump.empty()) {
                LATHE_CHECK(make_folder(options->dump));
                simplify.dump = dump_to(options->dump);
            }
            LATHE_TRY(Model model, load_onnx(options->model));
            warn_about_nonfinite(model);
            if (!options->shapes.empty()) LATHE_CHECK(set_input_shapes(model, options->shapes));
            if (!options->constants.empty()) LATHE_CHECK(set_input_constants(model, options->constants));
            auto report = simplify_model(model, simplify);
            if (!report) return std::move(report).error().in(options->model);
            for (const std::string& warning : report->warnings)
                context.warn(warning);
            LATHE_CHECK(save_onnx(model, options->output));
            print_report(*report, options->output, context);
            Json json = to_json(*report);
            json["input"] = options->model;
            json["output"] = options->output;
            context.print_json(json);
            return {};
        });
    command.add_option("model", options->model, "ONNX model");
    command.add_option("-o,--output", options->output, "Simplified ONNX model");
    command.add_option("--shape", options->shapes,
                       "[INPUT:]SIZES to fix where the model leaves them open, repeatable; ? keeps an axis: ids:?x128");
    command.add_option(
        "--constant", options->constants,
        "INPUT=VALUE to make an input a constant, repeatable; an If that asks for it is then its branch");
    command
        .add_option("--device", options->device, "What it is for: cpu, cuda or tensorrt; some passes pay on CPUs alone")
        ->capture_default_str();
    command.add_option("--disable", options->simplify.disabled, "Pass to leave out; may be given several times");
    command.add_flag("--list-passes", options->list, "Name all passes, in the order they run");
    command.add_option("--dump", options->dump, "Folder for the graph as text after each pass that changed it");
    command.add_option("--seed", options->simplify.seed, "Seed of the random inputs used to verify")
        ->capture_default_str();
}

} // namespace lathe::cli
