#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/demo.hpp"
#include "cli/optimize.hpp"

namespace lathe::cli {

namespace {

namespace fs = std::filesystem;

struct DemoArguments {
    std::string output = "lathe-demo";
    std::string device = "cpu";
    std::string copy;
};

/// Network and pictures, installed beside this program or in the source tree.
Result<fs::path> find_demo() {
    std::error_code ignored;
    const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
    const std::array<fs::path, 2> places{executable.parent_path().parent_path() / "share/lathe/demo",
                                         fs::path(LATHE_DEMO_SOURCE_DIR)};
    for (const fs::path& place : places) {
        if (fs::is_regular_file(place / "shapes.onnx", ignored)) return place;
    }
    return Error{ErrorCode::not_found, "the demo's network and pictures were not found", places[0].string(),
                 "install Lathe again"};
}

Result<void> run_demo(const DemoArguments& options, const Context& context) {
    LATHE_TRY(const fs::path demo, find_demo());
    if (!options.copy.empty()) {
        std::error_code failed;
        fs::copy(demo, options.copy, fs::copy_options::recursive, failed);
        if (failed) return Error{ErrorCode::io, "cannot copy the demo: " + failed.message(), options.copy, ""};
        context.print("Network and pictures are in " + options.copy + ". Try:");
        context.print("  lathe optimize " + options.copy + "/shapes.onnx --calibrate " + options.copy +
                      "/calibrate --evaluate " + options.copy + "/evaluate");
        context.print_json({{"kind", "demo"}, {"version", 1}, {"folder", options.copy}});
        return {};
    }
    context.print(
        "A network that tells ten shapes apart, 64 pictures to calibrate on and 400 others, labelled, to judge "
        "on;\nall come with Lathe. This is lathe optimize, measured for a shorter time than usual.\n");
    OptimizeRequest request;
    request.model = demo / "shapes.onnx";
    request.calibrate = demo / "calibrate";
    request.evaluate = demo / "evaluate";
    request.output = options.output;
    request.device = options.device;
    request.against = options.device == "cpu" ? std::vector<std::string>{"openvino"} : std::vector<std::string>{};
    request.batch_sizes = {1, 8};
    request.duration_s = 0.4;
    request.time_limit_s = 1.5;
    request.program = {"/proc/self/exe"};
    request.command_line = context.command_line();
    request.progress = &context.progress();
    request.tell = [&context](std::string_view line) { context.print(std::string(line)); };
    LATHE_TRY(const OptimizeResult result, optimize(request));
    print_optimized(result, context);
    LATHE_TRY(Json document, parse_json(result.document, "report.json"));
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_demo(Commands& commands) {
    auto options = std::make_shared<DemoArguments>();
    Context& context = commands.context();
    CLI::App& command =
        commands.add({"demo",
                      "lathe optimize on a small network and pictures that come with Lathe: a verdict in a minute",
                      {"lathe demo", "lathe demo --output demo/", "lathe demo --copy pictures/"}},
                     [options, &context] { return run_demo(*options, context); });
    command.add_option("-o,--output", options->output, "Folder for engines, JSON and report")->capture_default_str();
    command.add_option("--device", options->device, "Device to build for (see lathe doctor)")->capture_default_str();
    command.add_option("--copy", options->copy,
                       "Only copy network and pictures to this folder, to try other commands on them");
}

} // namespace lathe::cli
