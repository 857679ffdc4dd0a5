#include "cli/faults.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace lathe::cli {

namespace {

/// Only what a signal handler may do: no allocation, no locks.
void write_error(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

extern "C" void answer(int signal) {
    switch (signal) {
        case SIGBUS:
            write_error("lathe: a file was cut short, or its disk failed, while it was being read: do not change files "
                        "that a command uses\n");
            break;
        case SIGFPE:
            write_error("lathe: a library stopped at an integer division that has no result: the model divides by 0, "
                        "or the least integer by -1; nothing was written\n");
            break;
        case SIGABRT:
            write_error("lathe: a library gave up, perhaps for lack of memory; nothing was written. Please report it "
                        "with the model and the command line\n");
            break;
        default:
            write_error("lathe: a library failed on this input (a fault of the processor); nothing was written. Please "
                        "report it with the model and the command line\n");
            break;
    }
    std::_Exit(1);
}

} // namespace

void answer_faults() {
    // A stack of its own: an overflow of the thread's stack is one of the faults.
    static std::array<std::byte, 64 * 1024> stack;
    stack_t other{};
    other.ss_sp = stack.data();
    other.ss_size = stack.size();
    ::sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_handler = answer;
    action.sa_flags = SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        ::sigaction(signal, &action, nullptr);
}

} // namespace lathe::cli
