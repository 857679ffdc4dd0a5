#include "runtime/batch_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lathe {

void BatchQueue::push(BatchRequest request) {
    Key key;
    for (const TensorView& input : request.inputs)
        key.insert(key.end(), input.shape.begin() + 1, input.shape.end());
    Group& group = groups_[std::move(key)];
    group.samples += request.samples;
    group.requests.push_back(std::move(request));
    ++size_;
}

BatchQueue::Clock::time_point BatchQueue::due() const {
    auto first = Clock::time_point::max();
    for (const auto& [key, group] : groups_)
        first = std::min(first, due_of(group));
    return first;
}

BatchQueue::Clock::time_point BatchQueue::due_of(const Group& group) const {
    const auto waited = group.requests.front().arrived + max_wait_;
    if (group.samples < max_batch_) return waited;
    std::int64_t samples = 0;
    const auto filling = std::ranges::find_if(
        group.requests, [&](const BatchRequest& request) { return (samples += request.samples) >= max_batch_; });
    return std::min(waited, filling->arrived);
}

DueBatch BatchQueue::take(Clock::time_point now) {
    auto chosen = groups_.end();
    bool chosen_due = false;
    for (auto entry = groups_.begin(); entry != groups_.end(); ++entry) {
        const Group& group = entry->second;
        const auto arrived = group.requests.front().arrived;
        const bool due = due_of(group) <= now;
        if (chosen != groups_.end() && (chosen_due && !due)) continue;
        if (chosen == groups_.end() || due != chosen_due || arrived < chosen->second.requests.front().arrived) {
            chosen = entry;
            chosen_due = due;
        }
    }
    if (chosen == groups_.end()) return {};
    Group& group = chosen->second;
    DueBatch batch{{}, due_of(group)};
    std::int64_t samples = 0;
    // Nobody is overtaken: a request that does not fit ends the batch, even if a smaller one behind it would.
    while (!group.requests.empty() && samples + group.requests.front().samples <= max_batch_) {
        samples += group.requests.front().samples;
        batch.requests.push_back(std::move(group.requests.front()));
        group.requests.pop_front();
    }
    group.samples -= samples;
    size_ -= batch.requests.size();
    if (group.requests.empty()) groups_.erase(chosen);
    return batch;
}

std::vector<BatchRequest> BatchQueue::take_all() {
    std::vector<BatchRequest> all;
    for (auto& [key, group] : groups_)
        std::move(group.requests.begin(), group.requests.end(), std::back_inserter(all));
    groups_.clear();
    size_ = 0;
    return all;
}

} // namespace lathe
