#include "bench/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lathe {

namespace {

constexpr std::size_t longest_line = std::size_t{256} << 20;

void close_if_open(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

Error system_error(const std::string& what, int number) {
    return Error{ErrorCode::io, what + ": " + std::strerror(number), "", ""};
}

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& extra) {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string text = *variable;
        const bool replaced = std::any_of(extra.begin(), extra.end(), [&](const auto& pair) {
            return text.starts_with(pair.first) && text[pair.first.size()] == '=';
        });
        if (!replaced) variables.push_back(text);
    }
    for (const auto& [name, value] : extra)
        variables.push_back(std::string(name).append("=").append(value));
    return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& string : strings)
        result.push_back(string.data());
    result.push_back(nullptr);
    return result;
}

/// The last lines of what the child wrote to its standard error, on one line.
std::string tail_of(int fd) {
    const off_t size = ::lseek(fd, 0, SEEK_END);
    std::array<char, 600> text{};
    const off_t start = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
    const ssize_t got = size > 0 ? ::pread(fd, text.data(), text.size(), start) : 0;
    std::string tail(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (!tail.empty() && tail.back() == '\n')
        tail.pop_back();
    if (const auto line = tail.rfind('\n'); line != std::string::npos) tail = tail.substr(line + 1);
    return tail;
}

/// Where a child's standard input, output and error go; -1: where ours go.
using Streams = std::array<int, 3>;

/// Starts argv[0], looked up on PATH. Errors: not_found.
Result<pid_t> spawn(const std::vector<std::string>& argv,
                    const std::vector<std::pair<std::string, std::string>>& extra_env, const Streams& streams) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < static_cast<int>(streams.size()); ++fd) {
        const int stream = streams[static_cast<std::size_t>(fd)];
        if (stream >= 0) ::posix_spawn_file_actions_adddup2(&actions, stream, fd);
    }
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

    std::vector<std::string> arguments = argv;
    std::vector<std::string> environment = merged_environment(extra_env);
    std::vector<char*> argument_pointers = pointers(arguments);
    std::vector<char*> environment_pointers = pointers(environment);
    pid_t pid = -1;
    const int failed = ::posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes, argument_pointers.data(),
                                      environment_pointers.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failed == 0) return pid;
    return Error{ErrorCode::not_found, std::string("cannot start the program: ") + std::strerror(failed), argv.front(),
                 ""};
}

/// Ends a child that did not end by itself: asked first, then made to.
void end(pid_t pid) {
    ::kill(pid, SIGTERM);
    for (int i = 0; i < 200; ++i) {
        if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

/// What an unnamed file holds.
std::string contents_of(int fd) {
    const off_t size = std::max<off_t>(0, ::lseek(fd, 0, SEEK_END));
    std::string text(static_cast<std::size_t>(size), '\0');
    std::size_t got = 0;
    while (got < text.size()) {
        const ssize_t n = ::pread(fd, text.data() + got, text.size() - got, static_cast<off_t>(got));
        if (n <= 0) break;
        got += static_cast<std::size_t>(n);
    }
    text.resize(got);
    return text;
}

ErrorCode code_from_name(const std::string& name) {
    for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::parse_error,
                                 ErrorCode::unsupported, ErrorCode::out_of_range, ErrorCode::out_of_memory}) {
        if (name == to_string(code)) return code;
    }
    return ErrorCode::unsupported;
}

std::string text_field(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

} // namespace

JsonProcess::JsonProcess(pid_t pid, int to_child, int from_child, int errors)
    : pid_(pid), to_child_(to_child), from_child_(from_child), errors_(errors) {}

Result<std::unique_ptr<JsonProcess>>
JsonProcess::start(const std::vector<std::string>& argv,
                   const std::vector<std::pair<std::string, std::string>>& extra_env) {
    // Writing to a child that died must be an error of ours, not a signal that ends us.
    std::signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> down{-1, -1};
    std::array<int, 2> up{-1, -1};
    if (::pipe2(down.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe", errno);
    if (::pipe2(up.data(), O_CLOEXEC) != 0) {
        const int number = errno;
        close_if_open(down[0]);
        close_if_open(down[1]);
        return system_error("cannot make a pipe", number);
    }
    int errors = ::memfd_create("lathe-worker-errors", MFD_CLOEXEC);
    // Ctrl-C is ours to handle: the child gets its end by the closed pipe.
    const auto pid = spawn(argv, extra_env, {down[0], up[1], errors});
    close_if_open(down[0]);
    close_if_open(up[1]);
    if (!pid) {
        close_if_open(down[1]);
        close_if_open(up[0]);
        close_if_open(errors);
        return pid.error();
    }
    return std::unique_ptr<JsonProcess>(new JsonProcess(*pid, down[1], up[0], errors));
}

JsonProcess::~JsonProcess() {
    close_if_open(to_child_);
    close_if_open(from_child_);
    // A worker in the middle of a call does not see the closed pipe; give it a moment, then end it.
    for (int i = 0; i < 20; ++i) {
        if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
            pid_ = -1;
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    close_if_open(errors_);
}

Error JsonProcess::ended(const std::string& what) {
    const std::string tail = errors_ >= 0 ? tail_of(errors_) : "";
    return Error{ErrorCode::internal, what + (tail.empty() ? "" : "; it wrote: " + tail), "", ""};
}

Result<std::string> JsonProcess::read_line(std::chrono::seconds limit, Progress& progress) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
        if (const auto end = buffer_.find('\n'); end != std::string::npos) {
            std::string line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            return line;
        }
        if (buffer_.size() > longest_line) return ended("the worker's answer is too long");
        LATHE_CHECK(progress.check());
        if (std::chrono::steady_clock::now() >= deadline) {
            return ended("the worker did not answer within " + std::to_string(limit.count()) + " s");
        }
        pollfd waiting{from_child_, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, 200);
        if (ready < 0 && errno != EINTR) return system_error("cannot wait for the worker", errno);
        if (ready <= 0) continue;
        std::array<char, 65536> chunk{};
        const ssize_t got = ::read(from_child_, chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error("cannot read from the worker", errno);
        if (got == 0) return ended("the worker ended unexpectedly");
        buffer_.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

Result<ProgramOutput> run_program(const std::vector<std::string>& argv, std::chrono::seconds limit,
                                  Progress& progress) {
    int words = ::memfd_create("lathe-program-output", MFD_CLOEXEC);
    if (words < 0) return system_error("cannot keep a program's output", errno);
    int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const auto pid = spawn(argv, {}, {nothing, words, words});
    close_if_open(nothing);
    if (!pid) {
        close_if_open(words);
        return pid.error();
    }
    const auto deadline = std::chrono::steady_clock::now() + limit;
    Result<void> stopped;
    int status = 0;
    while (::waitpid(*pid, &status, WNOHANG) == 0) {
        stopped = progress.check();
        if (stopped && std::chrono::steady_clock::now() >= deadline) {
            stopped = Error{ErrorCode::internal, "it did not end within " + std::to_string(limit.count()) + " s",
                            argv.front(), ""};
        }
        if (!stopped) {
            end(*pid);
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ProgramOutput output{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents_of(words)};
    close_if_open(words);
    if (!stopped) return std::move(stopped).error();
    return output;
}

Result<Json> JsonProcess::ask(const Json& request, std::chrono::seconds limit, Progress& progress) {
    const std::string line = request.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (std::size_t written = 0; written < line.size();) {
        const ssize_t n = ::write(to_child_, line.data() + written, line.size() - written);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ended("the worker ended unexpectedly");
        written += static_cast<std::size_t>(n);
    }
    LATHE_TRY(const std::string text, read_line(limit, progress));
    LATHE_TRY(Json answer, parse_json(text, "the worker's answer"));
    if (!answer.is_object()) return ended("the worker answered something else than an object");
    if (const auto error = answer.find("error"); error != answer.end()) {
        return Error{code_from_name(text_field(*error, "code")), text_field(*error, "message"), "",
                     text_field(*error, "hint")};
    }
    return answer;
}

} // namespace lathe
