#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lathe/result.hpp"

namespace lathe {

/// Streaming 128-bit XXH3 digest. For identity and damage detection, not for security.
class Hasher {
public:
    Hasher();
    ~Hasher();
    Hasher(Hasher&&) noexcept;
    Hasher& operator=(Hasher&&) noexcept;

    void update(std::span<const std::byte> bytes);
    void update(std::string_view text);
    /// Integers are hashed with their width, so that update(1), update(2) differs from update(12).
    void update(std::int64_t value);

    /// 32 lower-case hexadecimal digits.
    std::string hex() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

std::string hash_hex(std::span<const std::byte> bytes);

/// Digest of a file's bytes.
Result<std::string> hash_file(const std::filesystem::path& path);

} // namespace lathe
