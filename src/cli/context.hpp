#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe::cli {

/// What every subcommand shares: where output goes, how it looks, and how the process ends.
class Context {
public:
    Context(int argc, const char* const* argv);

    /// `--json`: the result goes to standard output as one JSON document, messages to standard error.
    bool json = false;
    bool quiet = false;
    bool verbose = false;

    /// Progress bar on a terminal, silent elsewhere; cancelled after Ctrl-C or SIGTERM.
    Progress& progress() const;

    /// Line of human-readable result on standard output. Nothing with --json or --quiet.
    void print(const std::string& line) const;
    /// The result document. With --json it is printed when the command has ended, so that standard output is one
    /// document also where the command fails afterwards; otherwise ignored. At most once a command.
    void print_json(Json document) const;
    /// Ends the command: with --json prints what print_json was given, with the failure as its member "error" (alone
    /// where nothing was given). io: standard output cannot be written.
    Result<void> write_output(const Error* failure) const;
    /// A remark on standard error (yellow on a terminal).
    void warn(const std::string& message) const;

    /// Text wrapped in a colour when standard output is a terminal and NO_COLOR is unset.
    std::string bold(const std::string& text) const;
    std::string green(const std::string& text) const;
    std::string yellow(const std::string& text) const;
    std::string red(const std::string& text) const;

    /// The command line as typed, for provenance.
    const std::string& command_line() const { return command_line_; }

private:
    std::string command_line_;
    mutable Json document_; ///< null: none was given
};

/// Adds a subcommand with the options all share (--json, --quiet, --verbose), a description and examples.
/// `body` runs after parsing; its failure is printed and becomes the exit code.
struct CommandSpec {
    std::string name;
    std::string description;
    std::vector<std::string> examples; ///< command lines, shown at the end of --help
};
using CommandBody = std::function<Result<void>()>;

class Commands {
public:
    Commands(CLI::App& app, Context& context) : app_(app), context_(context) {}
    /// Returns the CLI11 subcommand to add options to; `body` runs if it is chosen.
    CLI::App& add(const CommandSpec& spec, CommandBody body);
    Context& context() { return context_; }
    /// Runs the chosen subcommand and returns the process's exit code.
    int run();

private:
    Result<void> run_chosen();

    CLI::App& app_;
    Context& context_;
    CommandBody chosen_;
};

struct ExitStatus {
    int code;
    const char* meaning;
};

/// What the process ends with, for people.
inline constexpr ExitStatus exit_statuses[] = {
    {0, "success"},
    {1, "failure of the system (disk, memory)"},
    {2, "wrong usage"},
    {3, "bad input (file, shape, value)"},
    {4, "unsupported here"},
    {5, "a check of the result failed (verification, accuracy, lint)"},
    {130, "interrupted (Ctrl-C)"},
    {143, "terminated (SIGTERM)"},
};

/// One of exit_statuses.
int exit_code(ErrorCode code);

/// What writing to them would give, for the first that cannot be written; empty ones are not tried. Before long work.
Result<void> check_writable(const std::vector<std::string>& paths);

/// "%.*f".
std::string fixed(double value, int digits);
/// As printf writes it.
std::string number(double value, const char* format = "%.4g");

/// Columns aligned for a terminal. The first row is the heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

} // namespace lathe::cli
