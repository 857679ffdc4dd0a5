#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "lathe/batching.hpp"

namespace lathe {

/// A request on its way: checked, its inputs in the engine's order.
struct BatchRequest {
    std::vector<HostTensor> owned;  ///< what `inputs` view, if the request brought its own memory
    std::vector<TensorView> inputs; ///< the first size of each is `samples`
    std::int64_t samples = 0;
    BatchCallback callback;
    std::chrono::steady_clock::time_point arrived;
};

/// Requests that run together.
struct DueBatch {
    std::vector<BatchRequest> requests;        ///< in the order of arrival
    std::chrono::steady_clock::time_point due; ///< since when it could have run; after `now` if it was taken early
};

/// Requests that wait, grouped by what they can share a batch with: equal sizes but for the first axis. It decides what
/// runs next, and knows neither threads nor sessions.
class BatchQueue {
public:
    using Clock = std::chrono::steady_clock;

    BatchQueue(std::int64_t max_batch, Clock::duration max_wait) : max_batch_(max_batch), max_wait_(max_wait) {}

    void push(BatchRequest request);
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }

    /// When the next batch may run: when the first group filled a batch or its oldest request has waited long enough.
    /// The queue must not be empty.
    Clock::time_point due() const;

    /// No more samples than max_batch: of the groups that are due by `now`, the one whose oldest request is the oldest;
    /// if none is due (the queue is draining), that of the oldest request of all. Without requests only if the queue is
    /// empty.
    DueBatch take(Clock::time_point now);

    /// All that wait, in no order.
    std::vector<BatchRequest> take_all();

private:
    struct Group {
        std::deque<BatchRequest> requests; ///< never empty
        std::int64_t samples = 0;
    };
    using Key = std::vector<std::int64_t>;

    /// When the group filled a batch, or its oldest request will have waited long enough if that is before.
    Clock::time_point due_of(const Group& group) const;

    std::int64_t max_batch_;
    Clock::duration max_wait_;
    std::map<Key, Group> groups_;
    std::size_t size_ = 0;
};

} // namespace lathe
