#include "cli/context.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "cli/faults.hpp"
#include "cli/interruption.hpp"
#include "cli/terminal.hpp"
#include "cli/written_files.hpp"
#include "support/log.hpp"
#include "support/memory_limit.hpp"
#include "support/printable.hpp"
#include "support/writable.hpp"

namespace lathe::cli {

namespace {

bool use_colour() {
    static const bool use = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    return use;
}

std::string colour(const char* code, const std::string& text) { return use_colour() ? coloured(code, text) : text; }

/// A bar on standard error, redrawn at most ten times a second.
class TerminalProgress final : public Progress {
public:
    explicit TerminalProgress(bool draw) : draw_(draw) {}

    void begin(std::string_view stage, std::size_t total) override {
        end();
        stage_ = one_line(stage);
        total_ = total;
        done_ = 0;
        start_ = Clock::now();
        active_ = true;
        redraw(true);
    }
    void advance(std::size_t steps) override {
        done_ += steps;
        redraw(false);
    }
    void end() override {
        if (active_ && draw_) std::fputs("\r\033[K", stderr);
        active_ = false;
    }
    bool cancelled() const override { return interrupted(); }

private:
    using Clock = std::chrono::steady_clock;

    void redraw(bool force) {
        if (!draw_ || !active_) return;
        const auto now = Clock::now();
        if (!force && now - drawn_ < std::chrono::milliseconds(100) && done_ != total_) return;
        drawn_ = now;
        const double seconds = std::chrono::duration<double>(now - start_).count();
        if (total_ == 0) {
            std::fprintf(stderr, "\r\033[K%s  %zu  %.0f s", stage_.c_str(), done_, seconds);
            return;
        }
        constexpr std::size_t width = 30;
        const std::size_t filled = std::min(width, width * done_ / total_);
        const std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
        const double left =
            done_ > 0 ? seconds * (static_cast<double>(total_) / static_cast<double>(done_) - 1.0) : 0.0;
        std::fprintf(stderr, "\r\033[K%s [%s] %zu/%zu  %.0f s left", stage_.c_str(), bar.c_str(), done_, total_,
                     std::max(0.0, left));
        std::fflush(stderr);
    }

    bool draw_;
    bool active_ = false;
    std::string stage_;
    std::size_t total_ = 0;
    std::size_t done_ = 0;
    Clock::time_point start_;
    Clock::time_point drawn_;
};

std::string quoted(std::string_view argument) {
    const bool plain =
        !argument.empty() && argument.find_first_of(" \t\n'\"\\$*?[](){}<>|&;") == std::string_view::npos;
    if (plain) return std::string(argument);
    std::string text = "'";
    for (const char c : argument)
        text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

} // namespace

Context::Context(int argc, const char* const* argv) {
    for (int i = 0; i < argc; ++i)
        command_line_ += (i > 0 ? " " : "") + quoted(i == 0 ? "lathe" : argv[i]);
    answer_interruptions(json);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN); // a file that grows past `ulimit -f` is then an error of write(), and is removed
    answer_faults();
    set_log_sink([this](LogLevel level, std::string_view message) {
        if (level == LogLevel::debug && !verbose) return;
        if (level == LogLevel::info && quiet) return;
        if (level >= LogLevel::warning) {
            warn(std::string(message));
        } else {
            progress().end();
            std::fprintf(stderr, "%s\n", show(message).c_str());
        }
    });
}

Progress& Context::progress() const {
    static TerminalProgress instance(::isatty(STDERR_FILENO) == 1);
    return instance;
}

void Context::print(const std::string& line) const {
    progress().end();
    if (!json && !quiet) std::printf("%s\n", show(line).c_str());
}

void Context::print_json(Json document) const {
    progress().end();
    assert(document.is_object() && document_.is_null());
    if (json) document_ = std::move(document);
}

Result<void> Context::write_output(const Error* failure) const {
    progress().end();
    if (json && failure != nullptr) {
        document_["error"] = {{"code", to_string(failure->code)},
                              {"message", failure->message},
                              {"where", failure->where},
                              {"hint", failure->hint}};
    }
    if (!document_.is_null())
        std::printf("%s\n", printable_json(document_.dump(2, ' ', false, Json::error_handler_t::replace)).c_str());
    // A full disk behind a redirected standard output shows only at the flush.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
    return Error{ErrorCode::io, "cannot write to standard output", "", "is the disk full or the pipe closed?"};
}

void Context::warn(const std::string& message) const {
    wait_if_ending();
    progress().end();
    const bool tty = ::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    std::fprintf(stderr, tty ? "\033[33mwarning:\033[0m %s\n" : "warning: %s\n", show(message).c_str());
}

std::string Context::bold(const std::string& text) const { return colour("1", text); }
std::string Context::green(const std::string& text) const { return colour("32", text); }
std::string Context::yellow(const std::string& text) const { return colour("33", text); }
std::string Context::red(const std::string& text) const { return colour("31", text); }

CLI::App& Commands::add(const CommandSpec& spec, CommandBody body) {
    CLI::App* command = app_.add_subcommand(spec.name, spec.description);
    command->add_flag("--json", context_.json, "Print the result as JSON on standard output");
    command->add_flag("-q,--quiet", context_.quiet, "Print errors only");
    command->add_flag("-v,--verbose", context_.verbose, "Print details of the work");
    command
        ->add_option_function<std::uint64_t>(
            "--memory-limit", [](const std::uint64_t& bytes) { set_memory_limit(bytes); },
            "Most memory for one value of a model, or for all that is computed from its constants, e.g. 2GB (default: "
            "three quarters of what is available; from constants, 1 GiB and four times the weights)")
        ->transform(CLI::AsSizeValue(false));
    std::string footer = "Examples:\n";
    for (const auto& example : spec.examples)
        footer += "  " + example + "\n";
    command->footer(footer);
    command->callback([this, command, body = std::move(body)] {
        chosen_ = [command, body]() -> Result<void> {
            LATHE_CHECK(refuse_lost_inputs(*command));
            return body();
        };
    });
    return *command;
}

namespace {

Error out_of_memory() {
    return {ErrorCode::out_of_memory, "out of memory", "",
            "use smaller batches or a smaller model, or raise the limit on memory (ulimit -v)"};
}

} // namespace

Result<void> Commands::run_chosen() {
    try {
        return chosen_();
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    } catch (const std::system_error& error) {
        // Threads are what fails first under a limit on memory or on processes.
        if (error.code() == std::errc::resource_unavailable_try_again) return out_of_memory();
        return Error{ErrorCode::io, "the system refuses: " + error.code().message(), "", ""};
    } catch (const std::length_error&) { // a container asked for more than there can be
        return out_of_memory();
    } catch (const Json::exception&) {
        return Error{ErrorCode::parse_error, "a JSON file lacks a field, or holds another kind of value there", "",
                     "was it written by this version of Lathe?"};
    } catch (const std::exception& error) {
        return Error{ErrorCode::internal, std::string("unexpected failure: ") + error.what(), "",
                     "this is a bug in Lathe; please report it with the command line"};
    }
}

int Commands::run() {
    if (!chosen_) return 2;
    const Result<void> result = run_chosen();
    wait_if_ending();
    const Result<void> written = context_.write_output(result ? nullptr : &result.error());
    if (result && written) return 0;
    const Error& error = result ? written.error() : result.error();
    if (error.code == ErrorCode::cancelled) end_children();
    std::fprintf(stderr, "lathe: %s\n", show(error.describe()).c_str());
    return exit_code(error.code);
}

int exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return 2;
        case ErrorCode::not_found:
        case ErrorCode::parse_error:
        case ErrorCode::corrupt:
        case ErrorCode::mismatch:
        case ErrorCode::out_of_range: return 3;
        case ErrorCode::unsupported: return 4;
        case ErrorCode::verification_failed: return 5;
        case ErrorCode::cancelled: return interrupted_exit_code();
        case ErrorCode::io:
        case ErrorCode::out_of_memory:
        case ErrorCode::internal: return 1;
    }
    return 1;
}

Result<void> check_writable(const std::vector<std::string>& paths) { return lathe::check_writable(paths); }

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    return text;
}

std::string number(double value, const char* format) {
    char text[64];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    // Width in code points: continuation bytes of UTF-8 take no column.
    const auto width_of = [](const std::string& text) {
        return static_cast<std::size_t>(std::count_if(
            text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
    };
    std::vector<std::size_t> widths;
    std::vector<std::vector<std::string>> shown(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
        std::ranges::transform(rows[i], std::back_inserter(shown[i]), one_line);
    for (const auto& row : shown) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string text;
    for (const auto& row : shown) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            if (i + 1 < row.size()) line += std::string(widths[i] - width_of(row[i]) + 2, ' ');
        }
        text += line + "\n";
    }
    if (!text.empty()) text.pop_back();
    return text;
}

} // namespace lathe::cli
