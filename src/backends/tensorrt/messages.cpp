#include "backends/tensorrt/messages.hpp"

#include <algorithm>
#include <mutex>

#include "support/log.hpp"

namespace lathe::tensorrt {

namespace {

std::mutex& captures_mutex() {
    static std::mutex mutex;
    return mutex;
}

std::vector<Capture*>& captures() {
    static std::vector<Capture*> list;
    return list;
}

} // namespace

void Messages::log(Severity severity, char const* text) noexcept {
    const bool error = severity == Severity::kERROR || severity == Severity::kINTERNAL_ERROR;
    const bool warning = severity == Severity::kWARNING;
    try {
        if (error || warning) {
            const std::lock_guard lock(captures_mutex());
            for (Capture* capture : captures())
                (error ? capture->errors_ : capture->warnings_).emplace_back(text);
        }
        lathe::log(error || warning ? LogLevel::warning : LogLevel::debug,
                   std::string(product_name) + (error ? " error: " : ": ") + text);
    } catch (...) {
        // Out of memory while telling something: nothing may be thrown into TensorRT.
        static_cast<void>(severity);
    }
}

Messages& messages() {
    // Never destroyed: TensorRT may still log while the process ends.
    static Messages* const instance = new Messages;
    return *instance;
}

Capture::Capture() {
    const std::lock_guard lock(captures_mutex());
    captures().push_back(this);
}

Capture::~Capture() {
    const std::lock_guard lock(captures_mutex());
    std::erase(captures(), this);
}

std::vector<std::string> Capture::errors() const {
    const std::lock_guard lock(captures_mutex());
    return errors_;
}

std::vector<std::string> Capture::warnings() const {
    const std::lock_guard lock(captures_mutex());
    return warnings_;
}

std::string Capture::because() const {
    std::string text;
    for (const auto& error : errors())
        text += (text.empty() ? ": " : "; ") + error;
    return text;
}

} // namespace lathe::tensorrt
