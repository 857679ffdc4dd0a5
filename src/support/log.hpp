#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lathe {

enum class LogLevel { debug, info, warning, error };

/// Where the library's messages go. The library itself never prints: until a sink is set, messages are dropped.
using LogSink = std::function<void(LogLevel, std::string_view)>;

void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view message);

} // namespace lathe
