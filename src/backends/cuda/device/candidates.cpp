#include "backends/cuda/device/candidates.hpp"

#include <algorithm>
#include <chrono>

#include "support/thread_pool.hpp"

namespace lathe::cuda {

namespace {

/// Tasks prepared ahead of the one being timed: their kernels take memory.
constexpr std::size_t ahead = 24;

} // namespace

Preparation::Preparation(std::vector<Task>& tasks, const Device& device) : tasks_(tasks), device_(device) {
    const std::size_t count = std::clamp<std::size_t>(available_cores(), 2, 16) - 1;
    for (std::size_t i = 0; i < count; ++i)
        threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

Preparation::~Preparation() {
    for (auto& thread : threads_)
        thread.request_stop();
    wake_.notify_all();
}

void Preparation::wait(std::size_t task) {
    std::unique_lock lock(mutex_);
    wanted_ = task;
    wake_.notify_all();
    ready_.wait(lock, [&] {
        return std::all_of(tasks_[task].candidates.begin(), tasks_[task].candidates.end(),
                           [](const Candidate& candidate) { return candidate.ready; });
    });
}

void Preparation::work(const std::stop_token& stop) {
    static_cast<void>(cudaSetDevice(device_.index));
    while (!stop.stop_requested()) {
        Candidate* candidate = nullptr;
        const Task* task = nullptr;
        bool first = true;
        {
            std::unique_lock lock(mutex_);
            while (next_task_ < tasks_.size() && next_ == tasks_[next_task_].candidates.size()) {
                ++next_task_;
                next_ = 0;
            }
            if (next_task_ == tasks_.size()) return;
            if (next_task_ > wanted_ + ahead) {
                wake_.wait_for(lock, std::chrono::milliseconds(20));
                continue;
            }
            task = &tasks_[next_task_];
            candidate = &tasks_[next_task_].candidates[next_++];
            first = candidate == &task->candidates.front() || (candidate - 1)->provider != candidate->provider;
        }
        Result<std::unique_ptr<PreparedKernel>> kernel =
            Error{ErrorCode::unsupported, "not tried: the time for tuning was spent", "", ""};
        if (first || !hurried_)
            kernel = candidate->provider->prepare(candidate->id, task->fused(), *task->plan, device_);
        {
            const std::lock_guard lock(mutex_);
            if (kernel) {
                candidate->kernel = std::move(kernel).value();
            } else {
                candidate->failure = std::move(kernel).error();
            }
            candidate->ready = true;
        }
        ready_.notify_all();
    }
}

} // namespace lathe::cuda
