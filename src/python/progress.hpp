#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <nanobind/nanobind.h>

#include "lathe/progress.hpp"
#include "python/errors.hpp"

namespace lathe::python {

/// Hands progress to a Python object with begin, advance, end and tell (None: to nobody), and stops the work on Ctrl-C
/// or when such a call raises. Called without the GIL, from any thread.
class PythonProgress final : public Progress {
public:
    explicit PythonProgress(nanobind::object reporter) : reporter_(std::move(reporter)) {}

    void begin(std::string_view stage, std::size_t total) override;
    void advance(std::size_t steps) override;
    void end() override;
    bool cancelled() const override;
    void tell(std::string_view line);

    /// Raises what ended the work from Python's side, if anything did. With the GIL.
    void rethrow();

private:
    template <class Call>
    void with_reporter(Call call);
    /// Keeps Python's pending exception and stops the work. With the GIL.
    void keep_exception() const;

    nanobind::object reporter_;
    std::atomic<std::size_t> steps_{0}; ///< not handed over yet
    std::atomic<std::int64_t> told_ms_{0};
    mutable std::atomic<std::int64_t> asked_ms_{0};
    mutable std::atomic<bool> stop_{false};
    mutable std::mutex mutex_;
    mutable std::optional<nanobind::python_error> pending_;
};

/// Runs long work without the GIL.
template <class Call>
auto with_progress(nanobind::object reporter, Call call) {
    PythonProgress progress(std::move(reporter));
    auto result = [&] {
        const nanobind::gil_scoped_release release;
        return call(progress);
    }();
    progress.rethrow();
    return value_of(std::move(result));
}

} // namespace lathe::python
