#include "plan/load.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// Where answers are gathered. It outlives the session's callbacks, since the sender waits for the last.
struct Answers {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<double> latency_ms;
    std::size_t failed = 0;
    std::size_t open = 0;
    std::vector<ServedBatch> served;
    /// The last batch of each session: callbacks come on its thread.
    struct Last {
        Clock::time_point end;
        std::int64_t samples = 0;
    };
    std::map<std::thread::id, Last> last;

    void sent() {
        const std::lock_guard lock(mutex);
        ++open;
    }
    void came(Clock::time_point planned, const Result<BatchReply>* reply) {
        const auto now = Clock::now();
        const std::lock_guard lock(mutex);
        if (reply != nullptr && reply->has_value()) {
            latency_ms.push_back(milliseconds(now - planned));
            if ((*reply)->row == 0) note_batch(now, **reply);
        } else {
            ++failed;
        }
        // Under the lock: the waiter's stack holds this.
        if (--open == 0) changed.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return open == 0; });
    }
    /// With the lock held, at a batch's first answer.
    void note_batch(Clock::time_point now, const BatchReply& reply) {
        const auto [before, first] = last.try_emplace(std::this_thread::get_id());
        const double took = reply.late_ms + reply.run_ms;
        const double idle = first ? 0 : std::max(0.0, milliseconds(now - before->second.end) - took);
        served.push_back({reply.batch, took, idle, before->second.samples});
        before->second = {now, reply.batch};
    }
};

} // namespace

Result<LoadResult> run_load(BatchingSession& session, const std::vector<double>& arrivals,
                            std::vector<std::vector<HostTensor>>& requests, Progress& progress) {
    std::vector<std::vector<TensorView>> views;
    for (auto& inputs : requests) {
        auto& set = views.emplace_back();
        for (HostTensor& tensor : inputs)
            set.push_back(tensor.view());
    }
    const BatchingStatistics before = session.statistics();
    Answers answers;
    answers.latency_ms.reserve(arrivals.size());
    LoadResult result;
    progress.begin("load", arrivals.size());
    const auto start = Clock::now();
    for (std::size_t i = 0; i < arrivals.size() && !progress.cancelled(); ++i) {
        const auto planned =
            start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(arrivals[i]));
        std::this_thread::sleep_until(planned);
        result.late_ms.push_back(milliseconds(Clock::now() - planned));
        answers.sent();
        const auto taken = session.submit_views(
            views[i % views.size()], [&answers, planned](const Result<BatchReply>& r) { answers.came(planned, &r); });
        if (!taken) answers.came(planned, nullptr);
        progress.advance();
    }
    answers.wait();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.end();
    LATHE_CHECK(progress.check());
    const BatchingStatistics after = session.statistics();
    result.latency_ms = std::move(answers.latency_ms);
    result.failed = answers.failed;
    result.served = std::move(answers.served);
    result.batches = after.batches - before.batches;
    result.samples = after.samples - before.samples;
    return result;
}

} // namespace lathe
