#include "data/prefetch.hpp"

#include <algorithm>
#include <utility>

namespace lathe {

Prefetcher::Prefetcher(std::size_t count, std::size_t threads, std::size_t capacity, Produce produce)
    : count_(count), threads_(std::max<std::size_t>(1, std::min(threads, count))), produce_(std::move(produce)),
      slots_(std::max<std::size_t>(1, std::min(capacity, count))) {}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    room_.notify_all();
    for (auto& worker : workers_)
        worker.join();
    workers_.clear();
}

void Prefetcher::restart() {
    stop();
    stop_ = false;
    started_ = 0;
    consumed_ = 0;
    for (auto& slot : slots_)
        slot.reset();
}

Result<Prefetcher::Item> Prefetcher::next() {
    if (workers_.empty()) {
        for (std::size_t i = 0; i < threads_; ++i)
            workers_.emplace_back([this] { work(); });
    }
    std::unique_lock lock(mutex_);
    auto& slot = slots_[consumed_ % slots_.size()];
    ready_.wait(lock, [&] { return slot.has_value(); });
    Result<Item> item = std::move(slot.value());
    slot.reset();
    ++consumed_;
    lock.unlock();
    room_.notify_one();
    return item;
}

void Prefetcher::work() {
    for (;;) {
        std::size_t index = 0;
        {
            std::unique_lock lock(mutex_);
            room_.wait(lock, [&] { return stop_ || started_ == count_ || started_ < consumed_ + slots_.size(); });
            if (stop_ || started_ == count_) return;
            index = started_++;
            if (started_ == count_) room_.notify_all(); // the others are no longer needed
        }
        Result<Item> item = produce_(index);
        {
            const std::lock_guard lock(mutex_);
            slots_[index % slots_.size()].emplace(std::move(item));
        }
        ready_.notify_one();
    }
}

} // namespace lathe
