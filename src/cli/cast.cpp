#include <filesystem>
#include <memory>
#include <string>

#include "backends/api/typed_graph.hpp"
#include "cli/commands.hpp"
#include "onnx/onnx.hpp"

namespace lathe::cli {

namespace {

struct Options {
    std::filesystem::path model;
    std::filesystem::path output;
    std::string precision = "fp16";
};

Result<void> cast(const Options& options, const Context& context) {
    LATHE_TRY(const Model model, load_onnx(options.model));
    const auto precision = precision_from_name(options.precision);
    auto typed = write_precision(model, precision.value_or(Precision::float16));
    if (!typed) return std::move(typed).error().in(options.model.string());
    LATHE_CHECK(context.progress().check());
    LATHE_CHECK(save_onnx(typed->model, options.output));
    context.print(context.bold(options.output.string()) + ": " + options.precision + " written into the graph");
    for (const std::string& note : typed->notes)
        context.print("  " + note);
    context.print_json({{"kind", "cast"},
                        {"version", 1},
                        {"input", options.model.string()},
                        {"output", options.output.string()},
                        {"precision", options.precision},
                        {"notes", typed->notes}});
    return {};
}

} // namespace

void add_cast(Commands& commands) {
    auto options = std::make_shared<Options>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"cast",
         "Write FP16 or BF16 into the graph, for runtimes that compute what the graph says (TensorRT 10 and later). "
         "Softmax, normalisations and what does not fit stay FP32; Q/DQ stays int8.",
         {"lathe cast m.onnx --precision fp16 --output m.fp16.onnx",
          "lathe cast m.int8.onnx --precision bf16 --output m.int8-bf16.onnx"}},
        [options, &context] { return cast(*options, context); });
    command.add_option("model", options->model, "ONNX model, float or with Q/DQ")->required();
    command.add_option("--precision", options->precision, "Of what is float now")
        ->check(CLI::IsMember({"fp16", "bf16"}))
        ->capture_default_str();
    command.add_option("-o,--output", options->output, "ONNX file to write")->required();
}

} // namespace lathe::cli
