#include "backends/cuda/plan/memory.hpp"

#include <algorithm>
#include <functional>

namespace lathe::cuda {
namespace {

/// A block of the arena and the ops, first to last, at which it must keep its content.
struct Interval {
    ValueId value = 0;
    std::size_t size = 0;
    std::size_t first = 0, last = 0;

    bool meets(const Interval& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Interval> intervals_of(const Plan& plan, std::size_t alignment, std::size_t overlap) {
    const std::size_t end = plan.ops.empty() ? 0 : plan.ops.size() - 1;
    const std::vector<Lifetime> lives = lifetimes(plan);
    std::vector<Interval> intervals;
    for (ValueId id = 0; id < plan.values.size(); ++id) {
        const Value& value = plan.values[id];
        if (!lives[id].used || value.role == Role::constant) continue;
        const std::size_t size = (std::max<std::size_t>(value.byte_size(), 1) + alignment - 1) / alignment * alignment;
        const std::size_t first = lives[id].first - std::min(lives[id].first, overlap);
        intervals.push_back({id, size, first, std::min(lives[id].last + overlap, end)});
    }
    return intervals;
}

/// The lowest offset with room for `size` bytes between blocks that are in use at the same time (sorted by offset).
std::size_t lowest_gap(const std::vector<std::pair<std::size_t, std::size_t>>& blocks, std::size_t size) {
    std::size_t offset = 0;
    for (const auto& [begin, end] : blocks) {
        if (begin >= offset + size) break;
        offset = std::max(offset, end);
    }
    return offset;
}

/// Gives each block, in the order they come, the lowest offset that is free all its life.
void place(const std::vector<Interval>& intervals, MemoryPlan& result) {
    result.peak = 0;
    std::vector<std::pair<std::size_t, std::size_t>> beside;
    for (std::size_t i = 0; i < intervals.size(); ++i) {
        beside.clear();
        for (std::size_t j = 0; j < i; ++j) {
            if (!intervals[i].meets(intervals[j])) continue;
            const std::size_t begin = result.offsets[intervals[j].value];
            beside.emplace_back(begin, begin + intervals[j].size);
        }
        std::sort(beside.begin(), beside.end());
        const std::size_t offset = lowest_gap(beside, intervals[i].size);
        result.offsets[intervals[i].value] = offset;
        result.peak = std::max(result.peak, offset + intervals[i].size);
    }
}

} // namespace

std::vector<Lifetime> lifetimes(const Plan& plan) {
    std::vector<Lifetime> lives(plan.values.size());
    const auto touch = [&](ValueId id, std::size_t at) {
        Lifetime& life = lives[root_of(plan, id)];
        if (!life.used) life = {at, at, true};
        life.first = std::min(life.first, at);
        life.last = std::max(life.last, at);
    };
    for (const ValueId id : plan.inputs)
        touch(id, 0);
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        for (const ValueId id : plan.ops[i].inputs)
            touch(id, i);
        for (const ValueId id : plan.ops[i].outputs)
            touch(id, i);
    }
    for (const ValueId id : plan.outputs)
        touch(id, plan.ops.empty() ? 0 : plan.ops.size() - 1);
    return lives;
}

MemoryPlan plan_memory(const Plan& plan, std::size_t alignment, std::size_t overlap) {
    MemoryPlan result;
    result.offsets.assign(plan.values.size(), 0);
    std::vector<Interval> intervals = intervals_of(plan, alignment, overlap);

    std::vector<std::size_t> live(plan.ops.size() + 1, 0);
    for (const Interval& interval : intervals) {
        for (std::size_t at = interval.first; at <= interval.last; ++at)
            live[at] += interval.size;
    }
    result.lower_bound = *std::max_element(live.begin(), live.end());

    // Largest first: small blocks fill the gaps that large ones leave. In order of time, or by size and lifetime
    // together, is better now and then; the best is kept.
    const auto length = [](const Interval& interval) { return interval.last - interval.first + 1; };
    const auto largest = [&](const Interval& a, const Interval& b) {
        return a.size != b.size ? a.size > b.size : length(a) > length(b);
    };
    const auto earliest = [&](const Interval& a, const Interval& b) {
        return a.first != b.first ? a.first < b.first : a.size > b.size;
    };
    const auto heaviest = [&](const Interval& a, const Interval& b) { return a.size * length(a) > b.size * length(b); };
    const auto latest = [](const Interval& a, const Interval& b) {
        return a.last != b.last ? a.last > b.last : a.size > b.size;
    };
    std::stable_sort(intervals.begin(), intervals.end(), largest);
    place(intervals, result);
    for (const auto& order : {std::function<bool(const Interval&, const Interval&)>(earliest),
                              std::function<bool(const Interval&, const Interval&)>(heaviest),
                              std::function<bool(const Interval&, const Interval&)>(latest)}) {
        if (result.peak == result.lower_bound) break;
        MemoryPlan other = result;
        std::stable_sort(intervals.begin(), intervals.end(), order);
        place(intervals, other);
        if (other.peak < result.peak) result = std::move(other);
    }
    for (ValueId id = 0; id < plan.values.size(); ++id) {
        const Value& value = plan.values[id];
        if (value.alias_of == none) continue;
        result.offsets[id] =
            result.offsets[value.alias_of] + static_cast<std::size_t>(value.alias_from) * bytes_of(value.type);
    }
    return result;
}

} // namespace lathe::cuda
