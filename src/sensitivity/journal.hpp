#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// What a long measurement has found so far, in a file beside its result, so that one that was stopped goes on where it
/// was. Rewritten whole each time: killed at any moment, it holds the last state or the one before.
class Journal {
public:
    /// `key`: a digest of all that the measurement depends on. An empty path keeps nothing.
    Journal(std::filesystem::path file, std::string key) : file_(std::move(file)), key_(std::move(key)) {}

    /// The state kept; nothing where there is no file. Fails now, not after minutes of work, where the file cannot be
    /// written. Errors: mismatch (it belongs to another model, data or options), corrupt, io.
    Result<std::optional<Json>> read() const;
    Result<void> write(const Json& state) const;
    /// The measurement is done and its result written.
    void remove() const;

    const std::filesystem::path& file() const { return file_; }

private:
    std::filesystem::path file_;
    std::string key_;
};

} // namespace lathe
