#include "conformance/isolated.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lathe::test {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int fd, const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t n = ::write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) ::_exit(3);
        bytes += n;
        size -= static_cast<std::size_t>(n);
    }
}

struct PipeMessage {
    std::uint64_t index = 0;
    std::uint64_t begins = 0; ///< 1: the case begins; 0: it ended, `length` bytes of verdict follow
    std::uint64_t length = 0;
};

struct Worker {
    pid_t child = -1;
    int pipe = -1;
    std::vector<std::size_t> todo; ///< not yet begun, last first
    std::optional<std::size_t> current;
    Clock::time_point begun;
    std::string buffer;
};

void start(Worker& worker, const std::function<std::string(std::size_t)>& run) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        while (!worker.todo.empty()) {
            const std::size_t index = worker.todo.back();
            worker.todo.pop_back();
            const PipeMessage begin{index, 1, 0};
            write_all(ends[1], &begin, sizeof begin);
            const std::string verdict = run(index);
            const PipeMessage end{index, 0, verdict.size()};
            write_all(ends[1], &end, sizeof end);
            write_all(ends[1], verdict.data(), verdict.size());
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    worker.child = child;
    worker.pipe = ends[0];
    worker.buffer.clear();
    worker.current.reset();
    worker.begun = Clock::now();
}

void digest(Worker& worker, std::vector<std::string>& verdicts) {
    while (worker.buffer.size() >= sizeof(PipeMessage)) {
        PipeMessage message;
        std::memcpy(&message, worker.buffer.data(), sizeof message);
        if (worker.buffer.size() < sizeof message + message.length) return;
        if (message.begins != 0) {
            worker.current = message.index;
            worker.begun = Clock::now();
            std::erase(worker.todo, message.index);
        } else {
            verdicts[message.index] = worker.buffer.substr(sizeof message, message.length);
            worker.current.reset();
        }
        worker.buffer.erase(0, sizeof message + message.length);
    }
}

/// The child ended or was killed: blame the case it was in and go on with the rest.
void reap(Worker& worker, std::vector<std::string>& verdicts, const std::string& reason) {
    ::close(worker.pipe);
    int status = 0;
    ::waitpid(worker.child, &status, 0);
    worker.pipe = -1;
    std::string why = reason;
    if (why.empty()) {
        why = WIFSIGNALED(status) ? "crashed with signal " + std::to_string(WTERMSIG(status))
                                  : "ended the process with code " + std::to_string(WEXITSTATUS(status));
    }
    if (worker.current) {
        verdicts[*worker.current] = why;
    } else if (!worker.todo.empty()) { // died between cases: do not loop for ever
        verdicts[worker.todo.back()] = why;
        worker.todo.pop_back();
    }
}

} // namespace

std::vector<std::string> run_isolated(std::size_t count, const std::function<std::string(std::size_t)>& run,
                                      std::chrono::seconds limit, std::size_t workers) {
    std::vector<std::string> verdicts(count, "was not run");
    std::vector<Worker> pool(std::max<std::size_t>(1, workers));
    for (std::size_t i = count; i-- > 0;)
        pool[i % pool.size()].todo.push_back(i);
    for (Worker& worker : pool) {
        if (!worker.todo.empty()) start(worker, run);
    }
    while (std::any_of(pool.begin(), pool.end(), [](const Worker& w) { return w.pipe >= 0; })) {
        std::vector<pollfd> waiting;
        for (const Worker& worker : pool)
            waiting.push_back({worker.pipe, POLLIN, 0}); // poll ignores negative descriptors
        ::poll(waiting.data(), waiting.size(), 200);
        for (std::size_t i = 0; i < pool.size(); ++i) {
            Worker& worker = pool[i];
            if (worker.pipe < 0) continue;
            bool ended = false;
            std::string reason;
            if ((waiting[i].revents & (POLLIN | POLLHUP)) != 0) {
                char bytes[65536];
                const ssize_t n = ::read(worker.pipe, bytes, sizeof bytes);
                if (n > 0) worker.buffer.append(bytes, static_cast<std::size_t>(n));
                ended = n == 0;
                digest(worker, verdicts);
            }
            if (!ended && Clock::now() - worker.begun > limit) {
                ::kill(worker.child, SIGKILL);
                ended = true;
                reason = "did not end in " + std::to_string(limit.count()) + " s";
            }
            if (!ended) continue;
            const bool finished = worker.todo.empty() && !worker.current && reason.empty();
            if (finished) {
                ::close(worker.pipe);
                ::waitpid(worker.child, nullptr, 0);
                worker.pipe = -1;
                continue;
            }
            reap(worker, verdicts, reason);
            if (!worker.todo.empty()) start(worker, run);
        }
    }
    return verdicts;
}

} // namespace lathe::test
