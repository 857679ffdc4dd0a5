#include "cli/commands.hpp"

int main(int argc, char** argv) {
    using namespace lathe::cli;
    Context context(argc, argv);
    CLI::App app{"Lathe turns a trained network into the fastest engine that keeps its accuracy, and proves both."};
    app.name("lathe");
    app.set_version_flag("--version", "lathe " LATHE_VERSION);
    app.require_subcommand(1);
    Commands commands(app, context);
#ifdef LATHE_HAS_OPTIMIZE
    add_optimize(commands);
#endif
#ifdef LATHE_HAS_EXPORT
    add_export(commands);
#endif
#ifdef LATHE_HAS_INSPECT
    add_inspect(commands);
#endif
#ifdef LATHE_HAS_SIMPLIFY
    add_simplify(commands);
#endif
#ifdef LATHE_HAS_CALIBRATE
    add_calibrate(commands);
#endif
#ifdef LATHE_HAS_QUANTIZE
    add_quantize(commands);
#endif
#ifdef LATHE_HAS_BUILD
    add_build(commands);
#endif
#ifdef LATHE_HAS_RUN
    add_run(commands);
#endif
#ifdef LATHE_HAS_BENCH
    add_bench(commands);
#endif
#ifdef LATHE_HAS_EVAL
    add_eval(commands);
#endif
#ifdef LATHE_HAS_REPORT
    add_report(commands);
#endif
#ifdef LATHE_HAS_DOCTOR
    add_doctor(commands);
#endif
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    return commands.run();
}
