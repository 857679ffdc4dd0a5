#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lathe {

/// What kind of failure it was. The command line maps each kind to an exit code (see `exit_code`).
enum class ErrorCode {
    invalid_argument,    ///< the caller asked for something that makes no sense
    not_found,           ///< a file, node, tensor or device that was named does not exist
    parse_error,         ///< a file is not in the format it should be in
    unsupported,         ///< valid, but this build, backend or opset cannot do it
    corrupt,             ///< a file of ours is damaged or truncated
    mismatch,            ///< two things that must belong together do not (cache and model, say)
    out_of_range,        ///< a shape or value outside the declared range
    io,                  ///< the operating system refused (disk full, permission, ...)
    out_of_memory,       ///< an allocation failed or would exceed a limit
    verification_failed, ///< a check of our own output failed; nothing was written
    cancelled,           ///< the user interrupted
    internal,            ///< a bug in Lathe or in a library beneath it
};

/// Short stable name of an error code, as used in JSON ("invalid_argument", ...).
const char* to_string(ErrorCode code);

/// A failure a caller can expect: what failed, where, and what to do about it.
struct Error {
    ErrorCode code = ErrorCode::internal;
    std::string message; ///< what failed, one sentence
    std::string where;   ///< file, node or tensor; may be empty
    std::string hint;    ///< what to do; may be empty

    /// "message (where): hint", as the command line prints it.
    std::string describe() const;

    /// The same error with `place` put in front of `where` (outermost first).
    Error in(std::string place) &&;
};

/// A value or an Error. Never both, never neither.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return state_.index() == 0; }
    bool has_value() const { return state_.index() == 0; }

    /// The value. Calling it on a failure is a bug (throws std::bad_variant_access).
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    Error& error() & { return std::get<1>(state_); }
    const Error& error() const& { return std::get<1>(state_); }
    Error&& error() && { return std::get<1>(std::move(state_)); }

private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    explicit operator bool() const { return !error_.has_value(); }
    bool has_value() const { return !error_.has_value(); }
    Error& error() & { return error_.value(); }
    const Error& error() const& { return error_.value(); }
    Error&& error() && { return std::move(error_).value(); }

private:
    std::optional<Error> error_;
};

} // namespace lathe

// LATHE_TRY(auto x, f()) declares x from a Result or returns its error; LATHE_CHECK(f()) does so for a Result without
// use of the value.
#define LATHE_CONCAT_(a, b) a##b
#define LATHE_CONCAT(a, b) LATHE_CONCAT_(a, b)
#define LATHE_TRY_(tmp, decl, ...)                                                                                     \
    auto tmp = (__VA_ARGS__);                                                                                          \
    if (!tmp) return std::move(tmp).error();                                                                           \
    decl = std::move(tmp).value()
#define LATHE_TRY(decl, ...) LATHE_TRY_(LATHE_CONCAT(lathe_result_, __LINE__), decl, __VA_ARGS__)
#define LATHE_CHECK(...)                                                                                               \
    do {                                                                                                               \
        if (auto lathe_result_ = (__VA_ARGS__); !lathe_result_) return std::move(lathe_result_).error();               \
    } while (false)
