#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lathe {

/// Cores this process may use (affinity and cgroup quota respected), at least 1.
std::size_t available_cores();

/// A fixed set of threads for loops over independent items.
class ThreadPool {
public:
    /// `threads` workers in all, the caller included; 0 means available_cores().
    explicit ThreadPool(std::size_t threads = 0);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    std::size_t size() const { return workers_.size() + 1; }

    /// Calls body(i) once for every i < count, in any order, on all threads; returns when all are done.
    /// The body must not throw. One loop at a time.
    void for_each(std::size_t count, const std::function<void(std::size_t)>& body);

private:
    void work();
    void drain();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    const std::function<void(std::size_t)>* body_ = nullptr;
    std::size_t next_ = 0;
    std::size_t count_ = 0;
    std::size_t running_ = 0;
    std::size_t generation_ = 0;
    bool stop_ = false;
    std::vector<std::thread> workers_;
};

} // namespace lathe
