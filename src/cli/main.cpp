#include <algorithm>
#include <cstdio>

#include <span>
#include <string>
#include <string_view>

#include "cli/commands.hpp"

namespace {

using namespace lathe;
using namespace lathe::cli;

/// A command line that cannot be understood has set no flags, so --json is looked for.
int refuse_usage(Context& context, std::span<char* const> arguments, std::string message) {
    context.json = std::ranges::find(arguments, std::string_view("--json")) != arguments.end();
    const Error error{ErrorCode::invalid_argument, std::move(message), "command line",
                      "lathe --help, lathe COMMAND --help"};
    (void)context.write_output(&error);
    return exit_code(error.code);
}

} // namespace

int main(int argc, char** argv) {
    const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
    Context context(argc, argv);
    CLI::App app{"Lathe turns a trained network into the fastest engine that keeps its accuracy, and proves both."};
    app.name("lathe");
    app.set_version_flag("--version", "lathe " LATHE_VERSION);
    app.require_subcommand(1);
    Commands commands(app, context);
    add_optimize(commands);
    add_export(commands);
    add_inspect(commands);
    add_simplify(commands);
    add_calibrate(commands);
    add_convert_ranges(commands);
    add_quantize(commands);
    add_autocast(commands);
    add_build(commands);
    add_run(commands);
    add_profile_data(commands);
    add_bench(commands);
    add_trtexec_log(commands);
    add_eval(commands);
    add_compare(commands);
    add_sensitivity(commands);
    add_tune(commands);
    add_plan(commands);
    add_deploy(commands);
    add_report(commands);
    add_doctor(commands);
    // CLI11 would only say that a command is required.
    const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(app.get_subcommands({}), named)) {
        std::fprintf(stderr, "lathe: there is no command \"%s\": lathe --help names them\n", argv[1]);
        return refuse_usage(context, arguments, "there is no command \"" + std::string(argv[1]) + "\"");
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : refuse_usage(context, arguments, error.what());
    }
    return commands.run();
}
