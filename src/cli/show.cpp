#include <memory>

#include "cli/commands.hpp"
#include "lathe/show.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

Result<void> run_show(const Context& context, ShowRequest request) {
    request.progress = &context.progress();
    LATHE_TRY(const ShowResult shown, show(request));
    std::string text = std::to_string(shown.nodes) + " nodes";
    if (shown.timed > 0) text += ", times of " + std::to_string(shown.timed);
    if (shown.explained > 0) text += ", reasons of " + std::to_string(shown.explained);
    context.print("graph: " + shown.output.string() + " (" + text + ")");
    context.print_json({{"kind", "show"},
                        {"version", 1},
                        {"output", shown.output.string()},
                        {"nodes", shown.nodes},
                        {"timed", shown.timed},
                        {"explained", shown.explained}});
    return {};
}

} // namespace

void add_show(Commands& commands) {
    auto request = std::make_shared<ShowRequest>();
    CLI::App& command = commands.add(
        {"show",
         "Draw a model or an engine as one self-contained HTML file: layers from the top down, coloured by precision, "
         "work or time; click for shapes, attributes and reasons",
         {"lathe show model.onnx", "lathe show m.simplified.onnx --with quantize.json -o graph.html",
          "lathe show int8.engine -o graph.html"}},
        [&context = commands.context(), request] { return run_show(context, *request); });
    command.add_option("model", request->model, "ONNX model, or an engine, whose layers are timed")->required();
    command
        .add_option("--with", request->results,
                    "JSON of quantize (reasons of each edge), of optimize or of profiles (times); repeatable")
        ->allow_extra_args(false);
    command.add_option("-o,--output", request->output, "HTML file to write")->capture_default_str();
}

} // namespace lathe::cli
