#include "support/thread_pool.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sched.h>
#include <string>

namespace lathe {

std::size_t available_cores() {
    std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof(set), &set) == 0) cores = static_cast<std::size_t>(CPU_COUNT(&set));
    // cgroup v2: "max 100000" or "200000 100000" (quota and period, microseconds).
    std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (quota_file >> quota >> period && quota != "max" && period > 0) {
        const double allowed = std::ceil(std::strtod(quota.c_str(), nullptr) / period);
        if (allowed >= 1) cores = std::min(cores, static_cast<std::size_t>(allowed));
    }
    return std::max<std::size_t>(1, cores);
}

ThreadPool::ThreadPool(std::size_t threads) {
    if (threads == 0) threads = available_cores();
    for (std::size_t i = 1; i < threads; ++i)
        workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_)
        worker.join();
}

void ThreadPool::for_each(std::size_t count, const std::function<void(std::size_t)>& body) {
    {
        const std::lock_guard lock(mutex_);
        body_ = &body;
        next_ = 0;
        count_ = count;
        running_ = workers_.size() + 1;
        ++generation_;
    }
    wake_.notify_all();
    drain();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    body_ = nullptr;
}

void ThreadPool::drain() {
    for (;;) {
        std::size_t index = 0;
        {
            const std::lock_guard lock(mutex_);
            if (next_ >= count_) {
                if (--running_ == 0) done_.notify_all();
                return;
            }
            index = next_++;
        }
        (*body_)(index);
    }
}

void ThreadPool::work() {
    std::size_t seen = 0;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
            if (stop_) return;
            seen = generation_;
        }
        drain();
    }
}

} // namespace lathe
