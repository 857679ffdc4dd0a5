#include "cli/interruption.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <semaphore.h>
#include <string_view>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/json.hpp"
#include "support/unfinished.hpp"

namespace lathe::cli {

namespace {

constexpr std::int64_t patience_ms = 1200; ///< what is left of two seconds is for ending on a busy machine

std::atomic<int> first_signal{0};
std::atomic<bool> at_once{false};
std::atomic<bool> ending{false};
sem_t arrived; ///< posted by the handler: sem_post is one of the few calls that a handler may make

std::int64_t now_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void handle_interrupt(int signal) {
    // Wrappers such as timeout(1) deliver one interruption twice (to the process and to its group): that counts once.
    static std::atomic<std::int64_t> first_ms{0};
    const int before_errno = errno;
    int none = 0;
    if (first_signal.compare_exchange_strong(none, signal)) {
        first_ms = now_ms();
        ::sem_post(&arrived);
    } else if (now_ms() - first_ms > 300) {
        at_once = true;
        ::sem_post(&arrived);
    }
    errno = before_errno;
}

/// The process and its parent, of every process that runs.
std::vector<std::pair<pid_t, pid_t>> processes() {
    std::vector<std::pair<pid_t, pid_t>> found;
    std::error_code failed;
    for (std::filesystem::directory_iterator it("/proc", failed), end; !failed && it != end; it.increment(failed)) {
        const std::string name = it->path().filename().string();
        if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream file(it->path() / "stat");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const auto behind_name = text.rfind(')'); // PID (NAME) STATE PARENT; a name may hold anything
        if (behind_name == std::string::npos || behind_name + 4 >= text.size() || text[behind_name + 2] == 'Z')
            continue;
        found.emplace_back(std::atoi(name.c_str()), std::atoi(text.c_str() + behind_name + 4));
    }
    return found;
}

void write_all(int fd, std::string_view text) {
    // Short enough for a pipe to take at once, if it takes anything; one that is full is not waited for.
    pollfd ready{fd, POLLOUT, 0};
    if (::poll(&ready, 1, 100) <= 0) return;
    if (::write(fd, text.data(), text.size()) < 0) return; // nobody is left to tell
}

[[noreturn]] void end_process(bool json) {
    ending = true;
    end_children();
    remove_unfinished();
    if (::isatty(STDERR_FILENO) == 1) write_all(STDERR_FILENO, "\r\033[K");
    write_all(STDERR_FILENO, "lathe: interrupted: no file is half written\n");
    if (json) {
        const Json document{
            {"error",
             {{"code", "cancelled"}, {"message", "interrupted"}, {"where", ""}, {"hint", "no file is half written"}}}};
        write_all(STDOUT_FILENO, document.dump(2) + "\n");
    }
    std::_Exit(interrupted_exit_code());
}

void watch(const bool* json) {
    while (::sem_wait(&arrived) != 0) {
    }
    const std::int64_t until = now_ms() + patience_ms;
    while (!at_once && now_ms() < until)
        ::poll(nullptr, 0, 10);
    end_process(*json);
}

} // namespace

void answer_interruptions(const bool& json) {
    // What a killed child leaves running becomes ours, and is found.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::sem_init(&arrived, 0, 0);
    std::thread(watch, &json).detach();
    struct sigaction action {};
    action.sa_handler = handle_interrupt;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return first_signal != 0; }

int interrupted_exit_code() {
    const int signal = first_signal;
    return 128 + (signal == 0 ? SIGINT : signal);
}

void wait_if_ending() {
    while (ending)
        ::poll(nullptr, 0, 1000);
}

void end_children() {
    // A child may start another between the look and the kill, so until a look finds none; not for ever.
    for (int round = 0; round < 20; ++round) {
        const auto all = processes();
        std::vector<pid_t> family{::getpid()};
        for (std::size_t i = 0; i < family.size(); ++i) {
            for (const auto& [process, parent] : all) {
                if (parent == family[i]) family.push_back(process);
            }
        }
        if (family.size() == 1) return;
        for (std::size_t i = 1; i < family.size(); ++i)
            ::kill(family[i], SIGKILL);
        ::poll(nullptr, 0, 10);
    }
}

} // namespace lathe::cli
