#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"

// The manual page, made from what `--help` prints, so that it cannot say anything else.
namespace lathe::cli {

namespace {

/// Text as roff takes it: no character is a request or an escape, "-" is the one that is typed.
std::string roff(std::string_view text) {
    std::string safe;
    for (const char c : text) {
        const bool at_start = safe.empty() || safe.back() == '\n';
        if (at_start && (c == '.' || c == '\'')) safe += "\\&";
        if (c == '\\') {
            safe += "\\e";
        } else if (c == '-') {
            safe += "\\-";
        } else {
            safe += c;
        }
    }
    return safe;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }

bool hidden(const CLI::Option& option) { return option.get_group().empty(); }

/// "-o, --output FILE", as the first line of an entry.
std::string names_of(const CLI::Option& option) {
    std::string text;
    for (const std::string& name : option.get_snames())
        text += (text.empty() ? "" : ", ") + bold("-" + name);
    for (const std::string& name : option.get_lnames())
        text += (text.empty() ? "" : ", ") + bold("--" + name);
    if (text.empty()) text = "\\fI" + roff(option.get_name()) + "\\fR";
    if (option.get_items_expected_max() > 0) {
        std::string value = option.get_type_name();
        if (!option.get_default_str().empty()) value += "=" + option.get_default_str();
        if (!value.empty()) text += " " + roff(value);
        if (option.get_required() && !option.nonpositional()) text += " (required)";
    }
    return text;
}

std::string entry(const CLI::Option& option) {
    return ".TP\n" + names_of(option) + "\n" + roff(option.get_description()) + "\n";
}

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
    std::vector<const CLI::App*> commands = app.get_subcommands({});
    std::erase_if(commands, [](const CLI::App* command) { return command->get_group().empty(); });
    return commands;
}

bool same(const CLI::Option& a, const CLI::Option& b) {
    return a.get_name(false, true) == b.get_name(false, true) && a.get_description() == b.get_description();
}

bool has(const CLI::App& command, const CLI::Option& wanted) {
    return std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) { return same(*option, wanted); });
}

/// `text` in lines that roff leaves as they are.
std::string verbatim(const std::string& text) { return ".nf\n" + roff(text) + ".fi\n"; }

std::string manual(const CLI::App& app, const std::string& version) {
    const std::vector<const CLI::App*> commands = visible_commands(app);
    // Options of every command are told once.
    std::vector<const CLI::Option*> shared = commands.front()->get_options();
    std::erase_if(shared, [&](const CLI::Option* option) {
        return !std::ranges::all_of(commands, [&](const CLI::App* command) { return has(*command, *option); });
    });
    std::string page = ".TH LATHE 1 \"\" \"lathe " + roff(version) + "\" \"User Commands\"\n";
    page += ".SH NAME\nlathe \\- turns a trained network into the fastest engine that keeps its accuracy\n";
    page += ".SH SYNOPSIS\n.B lathe\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n";
    page += ".SH DESCRIPTION\n" + roff(app.get_description()) + "\n";
    page += ".SH OPTIONS\n";
    for (const CLI::Option* option : app.get_options()) {
        if (!hidden(*option)) page += entry(*option);
    }
    page += ".SS Of every command\n";
    for (const CLI::Option* option : shared) {
        if (!hidden(*option)) page += entry(*option);
    }
    page += ".SH COMMANDS\n";
    for (const CLI::App* command : commands) {
        page += ".SS " + roff("lathe " + command->get_name()) + "\n" + roff(command->get_description()) + ".\n";
        for (const CLI::Option* option : command->get_options()) {
            const auto is_it = [&](const CLI::Option* other) { return same(*option, *other); };
            if (!hidden(*option) && std::ranges::none_of(shared, is_it)) page += entry(*option);
        }
        if (!command->get_footer().empty()) page += ".PP\n" + verbatim(command->get_footer());
    }
    page += ".SH EXIT STATUS\n";
    for (const ExitStatus& status : exit_statuses)
        page += ".TP\n" + bold(std::to_string(status.code)) + "\n" + roff(status.meaning) + "\n";
    return page;
}

} // namespace

void add_man(Commands& commands) {
    Context& context = commands.context();
    auto self = std::make_shared<const CLI::App*>();
    CLI::App& command = commands.add({"man",
                                      "Print the manual page: every command and option, as man reads it",
                                      {"lathe man | man -l -", "lathe man > ~/.local/share/man/man1/lathe.1"}},
                                     [&context, self]() -> Result<void> {
                                         const std::string page = manual(*(*self)->get_parent(), LATHE_VERSION);
                                         context.print(page.substr(0, page.size() - 1));
                                         context.print_json({{"kind", "man"}, {"version", 1}, {"page", page}});
                                         return {};
                                     });
    *self = &command;
}

} // namespace lathe::cli
