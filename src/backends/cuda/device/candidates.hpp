#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/tactics/provider.hpp"

namespace lathe::cuda {

/// A candidate, prepared by a thread beside the one that times.
struct Candidate {
    const Provider* provider = nullptr;
    std::string id;
    std::unique_ptr<PreparedKernel> kernel;
    std::optional<Error> failure;
    bool ready = false;
    std::string tactic() const { return provider->name() + ":" + id; }
};

/// An operation to be tuned: the first of its signature.
struct Task {
    const Plan* plan = nullptr;
    const FusedOp* op = nullptr; ///< of the plan, or a chain of ops of it
    std::string signature;
    std::vector<Candidate> candidates; ///< without the reference
    std::unique_ptr<PreparedKernel> reference;
    std::string reference_tactic;
    std::vector<std::pair<std::string, std::string>> refusals; ///< providers with no candidate, and why

    const FusedOp& fused() const { return *op; }
};

/// Prepares candidates on host threads, in the order in which they are wanted.
class Preparation {
public:
    Preparation(std::vector<Task>& tasks, const Device& device);
    ~Preparation();

    /// From now on only the first candidate of each provider is prepared.
    void hurry() { hurried_ = true; }
    /// Until the task's candidates are there.
    void wait(std::size_t task);

private:
    void work(const std::stop_token& stop);

    std::vector<Task>& tasks_;
    const Device& device_;
    std::mutex mutex_;
    std::condition_variable ready_, wake_;
    std::size_t next_task_ = 0, next_ = 0, wanted_ = 0;
    std::atomic<bool> hurried_ = false;
    std::vector<std::jthread> threads_;
};

} // namespace lathe::cuda
