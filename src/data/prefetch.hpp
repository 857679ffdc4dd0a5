#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Makes items 0..count-1 on several threads, at most `capacity` ahead of the consumer, and hands them over in order.
/// One consumer thread. Threads start at the first next() and end with the last item, restart() or destruction.
class Prefetcher {
public:
    using Item = std::vector<std::byte>;
    /// Called from several threads at once; must not throw.
    using Produce = std::function<Result<Item>(std::size_t index)>;

    Prefetcher(std::size_t count, std::size_t threads, std::size_t capacity, Produce produce);
    ~Prefetcher();
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;

    /// Items left.
    std::size_t remaining() const { return count_ - consumed_; }
    /// The next item. There must be one left. After a failure, the following call gives the item after.
    Result<Item> next();
    /// Back to item 0.
    void restart();

private:
    void work();
    void stop();

    const std::size_t count_;
    const std::size_t threads_;
    const Produce produce_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::condition_variable ready_;
    std::vector<std::optional<Result<Item>>> slots_; ///< item i waits in slot i % capacity
    std::size_t started_ = 0;
    std::size_t consumed_ = 0;
    bool stop_ = false;
    std::vector<std::thread> workers_;
};

} // namespace lathe
