#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/tensorrt/api.hpp"

namespace lathe::tensorrt {

/// TensorRT's logger, one for the process since TensorRT keeps the first it is given. Errors and warnings go to Lathe's
/// log as warnings, the rest as debug messages; every Capture alive gets the errors and warnings too.
class Messages final : public nvinfer1::ILogger {
public:
    void log(Severity severity, char const* text) noexcept override;
};
Messages& messages();

/// Collects what TensorRT says while it is alive (on any thread).
class Capture {
public:
    Capture();
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    std::vector<std::string> errors() const;
    std::vector<std::string> warnings() const;
    /// ": " and the errors, or "" where TensorRT told none: the end of a sentence.
    std::string because() const;

private:
    friend class Messages;
    std::vector<std::string> errors_, warnings_;
};

} // namespace lathe::tensorrt
