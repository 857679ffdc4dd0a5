// BatchingSession under load. Built plain and, from its few sources alone, with ThreadSanitizer.
#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/fake_executor.hpp"

namespace lathe::test {
namespace {

constexpr std::size_t threads = 8;

/// Runs `body(number)` on `threads` threads.
template <class Body>
void on_threads(const Body& body) {
    std::vector<std::thread> running;
    for (std::size_t number = 0; number < threads; ++number)
        running.emplace_back([&body, number] { body(number); });
    for (std::thread& thread : running)
        thread.join();
}

BatchingOptions small_batches(Backpressure when_full) {
    BatchingOptions options;
    options.max_wait = std::chrono::microseconds(200);
    options.queue_capacity = 64;
    options.when_full = when_full;
    options.instances = 3;
    return options;
}

TEST(BatchingLoad, AHundredThousandRequestsNoneLostOrCrossed) {
    constexpr std::size_t requests = 100'000;
    auto session = fake_session({}, small_batches(Backpressure::block));
    ASSERT_TRUE(session) << session.error().describe();
    std::vector<std::atomic<int>> answers(requests);
    std::atomic<std::size_t> wrong{0};
    on_threads([&](std::size_t number) {
        std::minstd_rand random(static_cast<unsigned>(number + 1));
        for (std::size_t id = number; id < requests; id += threads) {
            const std::int64_t samples = 1 + random() % 3;
            const std::int64_t width = 4 + 2 * (random() % 2);
            const auto key = static_cast<std::int64_t>(id);
            const auto taken =
                session->submit(request(key, samples, width), [&, id, key, samples, width](Result<BatchReply> reply) {
                    answers[id].fetch_add(1);
                    if (!reply || !is_reply_of(*reply, key, samples, width)) wrong.fetch_add(1);
                });
            if (!taken) wrong.fetch_add(1);
        }
    });
    ASSERT_TRUE(session->shutdown(Shutdown::drain));
    EXPECT_EQ(wrong, 0U);
    for (const auto& count : answers)
        ASSERT_EQ(count, 1);
    const BatchingStatistics counts = session->statistics();
    EXPECT_EQ(counts.accepted, requests);
    EXPECT_EQ(counts.completed, requests);
    EXPECT_EQ(counts.rejected + counts.failed + counts.cancelled + counts.waiting, 0U);
    EXPECT_LT(counts.batches, requests) << "requests shared batches";
    EXPECT_GT(counts.samples, requests);
}

TEST(BatchingLoad, FuturesAndBlockingCallsSideBySide) {
    auto session = fake_session({}, small_batches(Backpressure::block));
    ASSERT_TRUE(session);
    std::atomic<std::size_t> wrong{0};
    on_threads([&](std::size_t number) {
        std::deque<std::pair<std::int64_t, std::future<Result<BatchReply>>>> pending;
        for (std::int64_t i = 0; i < 1000; ++i) {
            const std::int64_t id = i * 100 + static_cast<std::int64_t>(number);
            if (number % 2 == 0) {
                auto future = session->submit(request(id));
                if (!future)
                    wrong.fetch_add(1);
                else
                    pending.emplace_back(id, std::move(*future));
                continue;
            }
            auto inputs = request(id, 2);
            const std::vector<TensorView> views{inputs[0].view(), inputs[1].view()};
            const auto reply = session->run(views);
            if (!reply || !is_reply_of(*reply, id, 2)) wrong.fetch_add(1);
        }
        for (auto& [id, future] : pending) {
            const auto reply = future.get();
            if (!reply || !is_reply_of(*reply, id)) wrong.fetch_add(1);
        }
    });
    EXPECT_EQ(wrong, 0U);
}

TEST(BatchingLoad, FaultsReachExactlyTheRequestsOfTheirBatch) {
    // A batch fails if an id in it ends in 77; who was in such a batch is noted where it ran.
    std::mutex mutex;
    std::set<std::int64_t> in_failed_batches;
    std::size_t failed_batches = 0;
    FakeExecutor::Behaviour behaviour;
    behaviour.before = [&](std::span<const std::int64_t> ids) -> Result<void> {
        for (const std::int64_t id : ids) {
            if (id % 100 != 77) continue;
            const std::lock_guard lock(mutex);
            in_failed_batches.insert(ids.begin(), ids.end());
            ++failed_batches;
            return Error{ErrorCode::internal, "the device is gone", std::to_string(id), ""};
        }
        return {};
    };
    auto session = fake_session(behaviour, small_batches(Backpressure::block));
    ASSERT_TRUE(session);
    constexpr std::size_t requests = 8000;
    std::vector<std::atomic<int>> outcome(requests); // 1 answered, 2 failed
    std::atomic<std::size_t> wrong{0};
    on_threads([&](std::size_t number) {
        for (std::size_t id = number; id < requests; id += threads) {
            const auto key = static_cast<std::int64_t>(id);
            const auto taken = session->submit(request(key), [&, id, key](Result<BatchReply> reply) {
                const bool right =
                    reply ? is_reply_of(*reply, key)
                          : reply.error().code == ErrorCode::internal && reply.error().message == "the device is gone";
                if (!right) wrong.fetch_add(1);
                outcome[id].fetch_add(reply ? 1 : 2);
            });
            if (!taken) wrong.fetch_add(1);
        }
    });
    ASSERT_TRUE(session->shutdown(Shutdown::drain));
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(failed_batches, 0U);
    for (std::size_t id = 0; id < requests; ++id)
        ASSERT_EQ(outcome[id], in_failed_batches.contains(static_cast<std::int64_t>(id)) ? 2 : 1) << id;
    const BatchingStatistics counts = session->statistics();
    EXPECT_EQ(counts.failed, in_failed_batches.size());
    EXPECT_EQ(counts.completed + counts.failed, requests);
}

/// Loads a session from all threads until it refuses, shuts it down in the middle, and checks that every request taken
/// was answered once. Returns the counts.
BatchingStatistics shut_down_under_load(Shutdown how, Backpressure when_full) {
    FakeExecutor::Behaviour behaviour;
    behaviour.run_time = std::chrono::microseconds(500);
    auto session = fake_session(behaviour, small_batches(when_full));
    EXPECT_TRUE(session);
    std::atomic<std::size_t> taken{0};
    std::atomic<std::size_t> answered{0};
    std::atomic<std::size_t> wrong{0};
    std::atomic<std::size_t> answered_at_return{0};
    on_threads([&](std::size_t number) {
        if (number == 0) {
            while (answered < 200)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (!session->shutdown(how)) wrong.fetch_add(1);
            answered_at_return = answered.load();
            return;
        }
        for (std::int64_t i = 0;; ++i) {
            const std::int64_t id = i * 10 + static_cast<std::int64_t>(number);
            const auto accepted = session->submit(request(id), [&, id](Result<BatchReply> reply) {
                const bool right = reply ? is_reply_of(*reply, id) : reply.error().code == ErrorCode::cancelled;
                if (!right) wrong.fetch_add(1);
                answered.fetch_add(1);
            });
            if (accepted) {
                taken.fetch_add(1);
                continue;
            }
            if (accepted.error().code == ErrorCode::cancelled) return;
            if (accepted.error().code != ErrorCode::out_of_memory) wrong.fetch_add(1);
            std::this_thread::yield();
        }
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(answered, taken) << "every request taken is answered";
    EXPECT_EQ(answered_at_return, answered) << "shutdown returns after the last answer";
    const BatchingStatistics counts = session->statistics();
    EXPECT_EQ(counts.accepted, taken);
    EXPECT_EQ(counts.completed + counts.cancelled, taken);
    EXPECT_GT(counts.completed, 0U);
    return counts;
}

TEST(BatchingLoad, DrainingUnderLoadAnswersAll) {
    EXPECT_EQ(shut_down_under_load(Shutdown::drain, Backpressure::block).cancelled, 0U);
    EXPECT_EQ(shut_down_under_load(Shutdown::drain, Backpressure::reject).cancelled, 0U);
}

TEST(BatchingLoad, CancellingUnderLoadAnswersAll) {
    EXPECT_GT(shut_down_under_load(Shutdown::cancel, Backpressure::block).cancelled, 0U);
    EXPECT_GT(shut_down_under_load(Shutdown::cancel, Backpressure::reject).cancelled, 0U);
}

TEST(BatchingLoad, SeveralThreadsShutDownAtOnce) {
    for (int round = 0; round < 20; ++round) {
        auto session = fake_session({}, small_batches(Backpressure::reject));
        ASSERT_TRUE(session);
        std::atomic<std::size_t> answered{0};
        std::size_t taken = 0;
        for (std::int64_t id = 0; id < 50; ++id)
            taken += session->submit(request(id), [&](const Result<BatchReply>&) { answered.fetch_add(1); }) ? 1U : 0U;
        on_threads([&](std::size_t number) {
            ASSERT_TRUE(session->shutdown(number % 2 == 0 ? Shutdown::drain : Shutdown::cancel));
            EXPECT_EQ(answered, taken);
        });
    }
}

} // namespace
} // namespace lathe::test
