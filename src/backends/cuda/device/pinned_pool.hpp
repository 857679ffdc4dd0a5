#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "backends/cuda/device/cuda.hpp"

namespace lathe::cuda {

/// Page-locked memory for staging, kept between sessions: locking pages takes milliseconds. Thread-safe.
class PinnedPool {
public:
    /// The smallest kept piece that is large enough and at most twice as large as wanted, else a new one.
    Result<PinnedMemory> take(std::size_t bytes, const std::string& what) {
        {
            const std::lock_guard lock(mutex_);
            const auto found = kept_.lower_bound(bytes);
            if (bytes > 0 && found != kept_.end() && found->first / 2 <= bytes) {
                PinnedMemory memory = std::move(found->second);
                kept_bytes_ -= memory.size();
                kept_.erase(found);
                return memory;
            }
        }
        return PinnedMemory::allocate(bytes, what);
    }
    /// For the next session. What would make the pool too large is freed.
    void give(PinnedMemory memory) {
        const std::lock_guard lock(mutex_);
        if (memory.size() == 0 || kept_bytes_ + memory.size() > most_bytes) return;
        kept_bytes_ += memory.size();
        kept_.emplace(memory.size(), std::move(memory));
    }
    std::size_t kept_bytes() const {
        const std::lock_guard lock(mutex_);
        return kept_bytes_;
    }

private:
    static constexpr std::size_t most_bytes = std::size_t{1} << 30;
    mutable std::mutex mutex_;
    std::multimap<std::size_t, PinnedMemory> kept_;
    std::size_t kept_bytes_ = 0;
};

} // namespace lathe::cuda
