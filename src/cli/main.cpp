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
    add_quantize(commands);
    add_build(commands);
    add_run(commands);
    add_bench(commands);
    add_eval(commands);
    add_report(commands);
    add_doctor(commands);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    return commands.run();
}
