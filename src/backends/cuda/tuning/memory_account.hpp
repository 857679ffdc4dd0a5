#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lathe/result.hpp"

namespace lathe::cuda {

/// What this process has allocated on each device through Lathe, and how much it may. Thread-safe.
class MemoryAccount {
public:
    /// `limit`: bytes a device; nothing: as much as there is.
    explicit MemoryAccount(std::optional<std::size_t> limit) : limit_(limit) {}

    /// May `bytes` more be allocated? Errors: out_of_memory, naming `what`, what is in use and the limit.
    Result<void> check(int device, std::size_t bytes, const std::string& what) const;
    void add(int device, const void* data, std::size_t bytes);
    /// Forgets memory that was added; nothing for memory that was not.
    void remove(const void* data);

    std::size_t used(int device) const;
    /// The most that was in use at once.
    std::size_t peak(int device) const;

private:
    struct Use {
        std::size_t now = 0, peak = 0;
    };
    std::optional<std::size_t> limit_;
    mutable std::mutex mutex_;
    std::map<int, Use> devices_;
    std::unordered_map<const void*, std::pair<int, std::size_t>> live_;
};

/// "1536", "512KiB", "200MiB", "1.5GiB" (K, M, G and KB, MB, GB mean the same): bytes. Nothing for what is no size.
std::optional<std::size_t> parse_bytes(std::string_view text);

} // namespace lathe::cuda
