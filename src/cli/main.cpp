#include <algorithm>
#include <cstdio>

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/demo.hpp"
#include "cli/terminal.hpp"
#include "support/near_name.hpp"

namespace {

using namespace lathe;
using namespace lathe::cli;

/// "; NAME: did you mean ANOTHER?", or nothing where none is near. A beginning of one name alone is near too.
std::string meant(std::string_view name, const std::vector<std::string>& known) {
    std::string nearest = nearest_name(name, known);
    const auto begins = [&](const std::string& other) { return name.size() > 4 && other.starts_with(name); };
    if (nearest.empty() && std::ranges::count_if(known, begins) == 1) nearest = *std::ranges::find_if(known, begins);
    return nearest.empty() ? "" : "; " + std::string(name) + ": did you mean " + nearest + "?";
}

/// Of the options that the command does not have: which was meant.
std::string options_meant(const CLI::App& app, std::span<char* const> arguments) {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty())
        command = command->get_subcommands().front();
    std::vector<std::string> known;
    for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames())
            known.push_back("--" + name);
    }
    std::string text;
    for (const std::string_view argument : arguments) {
        const std::string_view name = argument.substr(0, argument.find('='));
        if (!name.starts_with("--") || name == "--" || std::ranges::find(known, name) != known.end()) continue;
        text += meant(name, known);
    }
    return text;
}

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
    add_demo(commands);
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
    add_show(commands);
    add_doctor(commands);
    add_completion(commands);
    add_man(commands);
    // CLI11 would only say that a command is required.
    const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(app.get_subcommands({}), named)) {
        std::vector<std::string> names;
        for (const CLI::App* command : app.get_subcommands({}))
            names.push_back(command->get_name());
        const std::string why = "there is no command \"" + std::string(argv[1]) + "\"" + meant(argv[1], names);
        std::fprintf(stderr, "lathe: %s\nlathe --help names them.\n", show(why).c_str());
        return refuse_usage(context, arguments, why);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::ostringstream out;
        std::ostringstream err;
        const bool asked = app.exit(error, out, err) == 0; // for --help or --version
        std::fputs(show(out.str()).c_str(), stdout);
        std::fputs(show(err.str()).c_str(), stderr);
        if (asked) return 0;
        const std::string guess = options_meant(app, arguments);
        if (!guess.empty()) std::fprintf(stderr, "%s\n", show(guess.substr(2)).c_str());
        return refuse_usage(context, arguments, error.what() + guess);
    }
    return commands.run();
}
