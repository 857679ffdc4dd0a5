#include "report/process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lathe::report {

namespace {

constexpr std::size_t output_limit = std::size_t{512} << 20;

struct Pipe {
    int read = -1;
    int write = -1;
    ~Pipe() {
        close_read();
        close_write();
    }
    void close_read() {
        if (read >= 0) ::close(read);
        read = -1;
    }
    void close_write() {
        if (write >= 0) ::close(write);
        write = -1;
    }
    bool open() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
        read = ends[0];
        write = ends[1];
        return true;
    }
};

/// Takes what is there; closes the pipe at its end.
void drain(Pipe& pipe, std::string& into) {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(pipe.read, buffer.data(), buffer.size());
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) pipe.close_read();
}

[[noreturn]] void become(const std::vector<char*>& argv, const Pipe& out, const Pipe& err) {
    // Only async-signal-safe calls here. Its own process group, so that its children can be killed with it.
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out.write, STDOUT_FILENO);
    ::dup2(err.write, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
}

} // namespace

Result<ProcessOutput> run_process(const std::vector<std::string>& argv, std::chrono::milliseconds limit,
                                  const Progress& progress) {
    Pipe out;
    Pipe err;
    if (argv.empty() || !out.open() || !err.open()) {
        return Error{ErrorCode::io, std::string("cannot start a program: ") + std::strerror(errno),
                     argv.empty() ? "" : argv[0], ""};
    }
    std::vector<char*> pointers;
    pointers.reserve(argv.size() + 1);
    for (const std::string& argument : argv)
        pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    const pid_t child = ::fork();
    if (child < 0)
        return Error{ErrorCode::io, std::string("cannot start a program: ") + std::strerror(errno), argv[0], ""};
    if (child == 0) become(pointers, out, err);
    out.close_write();
    err.close_write();

    const auto deadline = std::chrono::steady_clock::now() + limit;
    ProcessOutput result;
    Result<void> outcome;
    while (out.read >= 0 || err.read >= 0) {
        outcome = progress.check();
        if (outcome && std::chrono::steady_clock::now() > deadline) {
            outcome = Error{ErrorCode::io, "did not finish within " + std::to_string(limit.count() / 1000) + " s",
                            argv[0], "is the machine overloaded? Try again, or run the program by hand"};
        }
        if (outcome && result.output.size() + result.errors.size() > output_limit) {
            outcome = Error{ErrorCode::io, "wrote more than 512 MiB", argv[0], ""};
        }
        if (!outcome) {
            ::kill(-child, SIGKILL);
            ::kill(child, SIGKILL);
            break;
        }
        // A closed pipe has descriptor -1, which poll passes over.
        std::array<pollfd, 2> waits{pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0}};
        if (::poll(waits.data(), waits.size(), 100) <= 0) continue;
        if (waits[0].revents != 0) drain(out, result.output);
        if (waits[1].revents != 0) drain(err, result.errors);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    // Helpers it may have left behind (a crash reporter, say) go too.
    ::kill(-child, SIGKILL);
    if (!outcome) return std::move(outcome).error();
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

} // namespace lathe::report
