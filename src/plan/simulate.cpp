#include "plan/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <utility>

namespace lathe {

namespace {

/// Requests under way: where each is in time, and when it first came.
struct Crowd {
    std::vector<double> now;
    std::vector<double> arrived;

    /// By time again, after a stage in which they could overtake. `columns` follow.
    void sort(std::vector<std::vector<double>>& columns) {
        if (std::ranges::is_sorted(now)) return;
        // Times beside their places, so that comparing them reads no other memory.
        std::vector<std::pair<double, std::size_t>> order(now.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            order[i] = {now[i], i};
        std::ranges::sort(order);
        const auto apply = [&](std::vector<double>& values) {
            std::vector<double> sorted(values.size());
            for (std::size_t i = 0; i < order.size(); ++i)
                sorted[i] = values[order[i].second];
            values = std::move(sorted);
        };
        apply(now);
        apply(arrived);
        for (auto& column : columns)
            apply(column);
    }
};

/// What runs batches one after another.
struct Instance {
    double free = 0;           ///< when it can begin the next
    std::size_t last_size = 0; ///< of its last batch
};

/// When each of a stage's workers is free again, the earliest on top.
using Workers = std::priority_queue<double, std::vector<double>, std::greater<>>;

class Machine {
public:
    Machine(const MachineModel& model, bool keep, std::uint64_t seed) : model_(model), keep_(keep), random_(seed) {}

    Simulation run(const std::vector<double>& arrivals, double warm_up) {
        crowd_.now = arrivals;
        crowd_.arrived = arrivals;
        for (const Stage& stage : model_.before)
            pass(stage);
        crowd_.sort(result_.spent);
        run_batches();
        for (const Stage& stage : model_.after) {
            crowd_.sort(result_.spent);
            pass(stage);
        }
        const auto skipped = static_cast<std::ptrdiff_t>(warm_up * static_cast<double>(arrivals.size()));
        for (std::size_t i = static_cast<std::size_t>(skipped); i < crowd_.now.size(); ++i)
            result_.total.push_back(crowd_.now[i] - crowd_.arrived[i]);
        for (auto& column : result_.spent)
            column.erase(column.begin(), column.begin() + skipped);
        return std::move(result_);
    }

private:
    std::vector<double>& column(const std::string& name) {
        result_.names.push_back(name);
        return result_.spent.emplace_back();
    }

    /// First come, first served by `workers`, or a delay alone.
    void pass(const Stage& stage) {
        if (stage.workers) crowd_.sort(result_.spent);
        Workers free({}, std::vector<double>(stage.workers.value_or(0), 0.0));
        std::vector<double> spent;
        for (double& now : crowd_.now) {
            double start = now;
            if (stage.workers) {
                start = std::max(start, free.top());
                free.pop();
            }
            const double end = start + stage.time.draw(random_());
            if (stage.workers) free.push(end);
            if (keep_) spent.push_back(end - now);
            now = end;
        }
        if (keep_) column(stage.name) = std::move(spent);
    }

    void run_batches() {
        std::vector<double>& now = crowd_.now;
        const std::size_t count = now.size();
        std::vector<double> queue;
        std::vector<double> copy_in;
        std::vector<double> compute;
        std::vector<double> copy_out;
        std::vector<Instance> instances(model_.instances);
        double busy = 0;
        double last = 0;
        std::size_t batches = 0;
        for (std::size_t head = 0; head < count; ++batches) {
            const std::size_t filled = head + model_.max_batch() - 1;
            const double full = filled < count ? now[filled] : std::numeric_limits<double>::infinity();
            Instance& instance = *std::ranges::min_element(instances, {}, &Instance::free);
            const double start = std::max(instance.free, std::min(full, now[head] + model_.max_wait_ms));
            std::size_t end = head;
            while (end < count && end <= filled && now[end] <= start)
                ++end;
            const BatchTime& batch = model_.batches[end - head - 1];
            const double took = batch.draw(start - instance.free, instance.last_size != end - head, random_());
            const double copies = std::min(took, batch.copy_in_ms + batch.copy_out_ms);
            for (std::size_t i = head; i < end; ++i) {
                if (keep_) {
                    queue.push_back(start - now[i]);
                    copy_in.push_back(std::min(took, batch.copy_in_ms));
                    copy_out.push_back(copies - copy_in.back());
                    compute.push_back(took - copies);
                }
                now[i] = start + took;
            }
            instance = {start + took, end - head};
            last = std::max(last, instance.free);
            busy += took;
            head = end;
        }
        result_.mean_batch = static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(1, batches));
        result_.utilisation = last > 0 ? busy / (last * static_cast<double>(model_.instances)) : 0;
        if (!keep_) return;
        column("queue") = std::move(queue);
        const bool copied = std::ranges::any_of(
            model_.batches, [](const BatchTime& batch) { return batch.copy_in_ms + batch.copy_out_ms > 0; });
        if (copied) column("copy in") = std::move(copy_in);
        column("compute") = std::move(compute);
        if (copied) column("copy out") = std::move(copy_out);
    }

    const MachineModel& model_;
    bool keep_;
    std::mt19937_64 random_;
    Crowd crowd_;
    Simulation result_;
};

double stage_capacity(const Stage& stage) {
    if (!stage.workers || stage.time.mean() <= 0) return std::numeric_limits<double>::infinity();
    return 1000 * static_cast<double>(*stage.workers) / stage.time.mean();
}

} // namespace

namespace {

/// What `of` makes of a call's distributions, put together for a pause and a change of the size.
template <class Of>
double combined(const BatchTime& batch, double idle_ms, bool other_size, const Of& of) {
    const double busy = of(batch.time);
    const double paused = batch.after_pause ? of(*batch.after_pause) : busy;
    const double changed = other_size && batch.after_other_size ? of(*batch.after_other_size) : busy;
    const double share = batch.pause_ms > 0 ? std::min(1.0, idle_ms / batch.pause_ms) : 0;
    return std::max(busy + share * (paused - busy) + (changed - busy), std::min({busy, paused, changed}));
}

} // namespace

double BatchTime::draw(double idle_ms, bool other_size, std::uint64_t random) const {
    return combined(*this, idle_ms, other_size, [random](const TimeDistribution& time) { return time.draw(random); });
}

double BatchTime::expected(double idle_ms, bool other_size) const {
    return combined(*this, idle_ms, other_size, [](const TimeDistribution& time) { return time.mean(); });
}

double MachineModel::capacity() const {
    double least = 1000 * static_cast<double>(instances * max_batch()) / batches.back().time.mean();
    for (const auto* stages : {&before, &after}) {
        for (const Stage& stage : *stages)
            least = std::min(least, stage_capacity(stage));
    }
    return least;
}

Simulation simulate(const MachineModel& machine, const std::vector<double>& arrivals, double warm_up,
                    std::uint64_t seed) {
    return Machine(machine, true, seed).run(arrivals, warm_up);
}

std::vector<double> simulate_totals(const MachineModel& machine, const std::vector<double>& arrivals, double warm_up,
                                    std::uint64_t seed) {
    return Machine(machine, false, seed).run(arrivals, warm_up).total;
}

} // namespace lathe
