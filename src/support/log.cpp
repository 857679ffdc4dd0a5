#include "support/log.hpp"

#include <mutex>

namespace lathe {

namespace {

struct SinkState {
    std::mutex mutex;
    LogSink sink;
};

SinkState& state() {
    static SinkState instance;
    return instance;
}

} // namespace

void set_log_sink(LogSink sink) {
    const std::lock_guard lock(state().mutex);
    state().sink = std::move(sink);
}

void log(LogLevel level, std::string_view message) {
    const std::lock_guard lock(state().mutex);
    if (state().sink) state().sink(level, message);
}

} // namespace lathe
