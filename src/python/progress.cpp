#include "python/progress.hpp"

#include <string>

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace lathe::python {
namespace {

constexpr std::int64_t between_calls_ms = 50; ///< Python is called no more often

std::int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

} // namespace

template <class Call>
void PythonProgress::with_reporter(Call call) {
    if (reporter_.is_none() || stop_) return;
    const nb::gil_scoped_acquire acquire;
    try {
        call();
    } catch (nb::python_error& error) {
        error.restore();
        keep_exception();
    }
}

void PythonProgress::begin(std::string_view stage, std::size_t total) {
    steps_ = 0;
    told_ms_ = now_ms();
    with_reporter([&] { reporter_.attr("begin")(std::string(stage), total); });
}

void PythonProgress::advance(std::size_t steps) {
    steps_ += steps;
    const std::int64_t now = now_ms();
    if (now - told_ms_ < between_calls_ms) return;
    told_ms_ = now;
    with_reporter([&] { reporter_.attr("advance")(steps_.exchange(0)); });
}

void PythonProgress::end() {
    with_reporter([&] {
        if (const std::size_t left = steps_.exchange(0); left > 0) reporter_.attr("advance")(left);
        reporter_.attr("end")();
    });
}

void PythonProgress::tell(std::string_view line) {
    with_reporter([&] { reporter_.attr("tell")(std::string(line)); });
}

bool PythonProgress::cancelled() const {
    if (stop_) return true;
    const std::int64_t now = now_ms();
    if (now - asked_ms_ < between_calls_ms) return false;
    asked_ms_ = now;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) keep_exception();
    return stop_;
}

void PythonProgress::keep_exception() const {
    nb::python_error error;
    const std::scoped_lock lock(mutex_);
    if (!pending_) pending_.emplace(std::move(error));
    stop_ = true;
}

void PythonProgress::rethrow() {
    if (!pending_) return;
    nb::python_error error = std::move(*pending_);
    pending_.reset();
    throw error;
}

} // namespace lathe::python
