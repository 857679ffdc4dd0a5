#include <algorithm>
#include <cstdio>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
    using namespace lathe::cli;
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
        return 2;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    return commands.run();
}
