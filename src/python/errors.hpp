#pragma once

#include <exception>
#include <utility>

#include <nanobind/nanobind.h>

#include "lathe/result.hpp"

namespace lathe::python {

/// A failure on its way to Python, where it becomes lathe.Error.
class Failure final : public std::exception {
public:
    explicit Failure(Error error) : error_(std::move(error)) {}
    const char* what() const noexcept override { return error_.message.c_str(); }
    const Error& error() const { return error_; }

private:
    Error error_;
};

/// The value, or the failure as an exception.
template <class T>
T value_of(Result<T> result) {
    if (!result) throw Failure(std::move(result).error());
    if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

/// Makes Failures lathe.Error, with code, place and cure.
void register_errors();

} // namespace lathe::python
