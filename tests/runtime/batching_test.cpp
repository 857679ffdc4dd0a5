#include <algorithm>
#include <latch>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "runtime/batch_queue.hpp"
#include "runtime/engine.hpp"
#include "runtime/fake_executor.hpp"

namespace lathe::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Future = std::future<Result<BatchReply>>;

Future submitted(BatchingSession& session, std::vector<HostTensor> inputs) {
    auto future = session.submit(std::move(inputs));
    if (!future) throw std::runtime_error(future.error().describe());
    return std::move(*future);
}

/// An executor that tells when a batch runs and holds it until it is let go.
struct Gate {
    std::latch running{1};
    std::latch let_go{1};
    bool first = true;

    FakeExecutor::Behaviour behaviour() {
        FakeExecutor::Behaviour held;
        held.before = [this](std::span<const std::int64_t>) -> Result<void> {
            if (!std::exchange(first, false)) return {};
            running.count_down();
            let_go.wait();
            return {};
        };
        return held;
    }
};

TEST(BatchQueue, TakesFullBatchesAtOnceAndOthersWhenTheirOldestWaitedEnough) {
    const auto start = BatchQueue::Clock::now();
    const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
    struct Owned {
        std::vector<std::vector<HostTensor>> tensors;
        BatchRequest make(std::int64_t id, std::int64_t samples, std::int64_t width,
                          BatchQueue::Clock::time_point arrived) {
            tensors.push_back(request(id, samples, width));
            return {{}, {tensors.back()[0].view(), tensors.back()[1].view()}, samples, {}, arrived};
        }
    } owned;
    const auto ids = [](const DueBatch& batch) {
        std::vector<std::int64_t> found;
        for (const BatchRequest& one : batch.requests)
            found.push_back(one.inputs[1].as<std::int64_t>()[0]);
        return found;
    };
    using Ids = std::vector<std::int64_t>;

    BatchQueue queue(4, 10ms);
    EXPECT_TRUE(queue.take(at(0)).requests.empty());
    queue.push(owned.make(1, 1, 4, at(0)));
    queue.push(owned.make(2, 2, 8, at(1)));
    EXPECT_EQ(queue.due(), at(10));
    queue.push(owned.make(3, 2, 8, at(2)));
    EXPECT_EQ(queue.due(), at(2)) << "four samples of width 8";
    EXPECT_EQ(ids(queue.take(at(3))), (Ids{2, 3})) << "full, though 1 is older";
    EXPECT_EQ(queue.due(), at(10));
    queue.push(owned.make(4, 1, 8, at(4)));
    EXPECT_EQ(ids(queue.take(at(14))), (Ids{1})) << "both are due, 1 is older";
    EXPECT_EQ(ids(queue.take(at(5))), (Ids{4})) << "none is due: the oldest";
    EXPECT_TRUE(queue.empty());

    // A request that does not fit is not overtaken.
    queue.push(owned.make(5, 3, 4, at(20)));
    queue.push(owned.make(6, 2, 4, at(21)));
    queue.push(owned.make(7, 1, 4, at(22)));
    EXPECT_EQ(queue.due(), at(21));
    const DueBatch taken = queue.take(at(23));
    EXPECT_EQ(ids(taken), (Ids{5}));
    EXPECT_EQ(taken.due, at(21)) << "the request that did not fit made it due";
    EXPECT_EQ(queue.due(), at(31)) << "three samples are left";
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_EQ(queue.take_all().size(), 2U);
    EXPECT_EQ(queue.size(), 0U);
}

class BatchMemory : public testing::TestWithParam<bool> {};

TEST_P(BatchMemory, RequestsShareBatchesAndGetTheirOwnRows) {
    Gate gate;
    BatchingOptions options;
    options.max_wait = 0us;
    FakeExecutor::Behaviour behaviour = gate.behaviour();
    behaviour.own_memory = GetParam();
    auto session = fake_session(behaviour, options);
    ASSERT_TRUE(session) << session.error().describe();
    EXPECT_EQ(session->options().max_batch, 8);
    std::vector<Future> futures;
    futures.push_back(submitted(*session, request(0)));
    gate.running.wait();
    for (std::int64_t id = 1; id <= 5; ++id)
        futures.push_back(submitted(*session, request(id, 2)));
    EXPECT_EQ(session->statistics().waiting, 5U);
    gate.let_go.count_down();
    EXPECT_TRUE(is_reply_of(*futures[0].get(), 0));
    for (std::int64_t id = 1; id <= 5; ++id) {
        const auto reply = futures[static_cast<std::size_t>(id)].get();
        ASSERT_TRUE(reply) << reply.error().describe();
        EXPECT_TRUE(is_reply_of(*reply, id, 2));
        EXPECT_EQ(reply->batch, id <= 4 ? 8 : 2) << "four requests of two samples fill a batch";
        EXPECT_EQ(reply->outputs[1].as<std::int64_t>()[0], id <= 4 ? 2 * (id - 1) : 0);
        EXPECT_GE(reply->queue_ms, 0);
        EXPECT_GE(reply->run_ms, 0);
    }
    const BatchingStatistics counts = session->statistics();
    EXPECT_EQ(counts.batches, 3U);
    EXPECT_EQ(counts.samples, 11U);
    EXPECT_EQ(counts.padded, 0U);
}

INSTANTIATE_TEST_SUITE_P(Batching, BatchMemory, testing::Bool());

TEST(Batching, AnIncompleteBatchWaitsForOthersAndNoLonger) {
    BatchingOptions options;
    options.max_wait = 30ms;
    options.max_batch = 4;
    auto session = fake_session({}, options);
    ASSERT_TRUE(session);
    const auto alone = submitted(*session, request(1)).get();
    ASSERT_TRUE(alone);
    EXPECT_EQ(alone->batch, 1);
    EXPECT_GE(alone->queue_ms, 30);

    std::vector<Future> futures;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t id = 0; id < 4; ++id)
        futures.push_back(submitted(*session, request(id)));
    bool in_time = true;
    for (Future& future : futures) {
        const auto reply = future.get();
        in_time = in_time && reply && reply->batch == 4;
    }
    // On a machine that stood still for 30 ms between the four, they are two batches.
    EXPECT_TRUE(in_time || std::chrono::steady_clock::now() - start >= 30ms);
}

TEST(Batching, AFullQueueRejectsOrBlocks) {
    for (const Backpressure when_full : {Backpressure::reject, Backpressure::block}) {
        Gate gate;
        BatchingOptions options;
        options.max_wait = 0us;
        options.queue_capacity = 2;
        options.when_full = when_full;
        auto session = fake_session(gate.behaviour(), options);
        ASSERT_TRUE(session);
        std::vector<Future> futures;
        futures.push_back(submitted(*session, request(0)));
        gate.running.wait();
        futures.push_back(submitted(*session, request(1)));
        futures.push_back(submitted(*session, request(2)));
        if (when_full == Backpressure::reject) {
            const auto refused = session->submit(request(3));
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
            EXPECT_EQ(session->statistics().rejected, 1U);
            gate.let_go.count_down();
        } else {
            auto blocked = std::async(std::launch::async, [&] { return submitted(*session, request(3)).get(); });
            EXPECT_EQ(blocked.wait_for(30ms), std::future_status::timeout);
            EXPECT_EQ(session->statistics().waiting, 2U) << "it is not in the queue";
            gate.let_go.count_down();
            const auto reply = blocked.get();
            ASSERT_TRUE(reply);
            EXPECT_TRUE(is_reply_of(*reply, 3));
        }
        for (std::int64_t id = 0; id < 3; ++id)
            EXPECT_TRUE(is_reply_of(*futures[static_cast<std::size_t>(id)].get(), id));
    }
}

TEST(Batching, ShutdownCancelsOrDrainsAndWakesBlockedCallers) {
    for (const Shutdown how : {Shutdown::cancel, Shutdown::drain}) {
        Gate gate;
        BatchingOptions options;
        options.max_wait = 10s;
        options.max_batch = 1;
        options.queue_capacity = 1;
        options.when_full = Backpressure::block;
        auto session = fake_session(gate.behaviour(), options);
        ASSERT_TRUE(session);
        Future running = submitted(*session, request(0));
        gate.running.wait();
        Future waiting = submitted(*session, request(1));
        auto blocked = std::async(std::launch::async, [&] { return session->submit(request(2)).error().code; });
        std::this_thread::sleep_for(10ms);
        auto ending = std::async(std::launch::async, [&] { return session->shutdown(how).has_value(); });
        EXPECT_EQ(blocked.get(), ErrorCode::cancelled);
        gate.let_go.count_down();
        EXPECT_TRUE(ending.get());
        EXPECT_TRUE(is_reply_of(*running.get(), 0)) << "what runs is finished";
        const auto rest = waiting.get();
        EXPECT_EQ(rest.has_value(), how == Shutdown::drain);
        EXPECT_TRUE(rest ? is_reply_of(*rest, 1) : rest.error().code == ErrorCode::cancelled);
        EXPECT_EQ(session->submit(request(3)).error().code, ErrorCode::cancelled);
    }
}

TEST(Batching, DrainingDoesNotWaitForTheDeadline) {
    BatchingOptions options;
    options.max_wait = 1h;
    auto session = fake_session({}, options);
    ASSERT_TRUE(session);
    Future future = submitted(*session, request(4));
    { const BatchingSession ended = std::move(*session); } // destruction drains
    EXPECT_TRUE(is_reply_of(*future.get(), 4));
}

TEST(Batching, FillsUpToTheSmallestBatchOfTheEngine) {
    FakeExecutor::Behaviour behaviour;
    behaviour.least = behaviour.most = 4;
    std::vector<std::int64_t> ran;
    behaviour.before = [&](std::span<const std::int64_t> ids) -> Result<void> {
        ran.assign(ids.begin(), ids.end());
        return {};
    };
    BatchingOptions options;
    options.max_wait = 0us;
    auto session = fake_session(behaviour, options);
    ASSERT_TRUE(session);
    const auto reply = submitted(*session, request(9, 3)).get();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(is_reply_of(*reply, 9, 3));
    EXPECT_EQ(reply->batch, 3);
    EXPECT_EQ(ran, (std::vector<std::int64_t>{9, 9, 9, 9}));
    EXPECT_EQ(session->statistics().padded, 1U);
}

TEST(Batching, WarmsUpEveryBatchSizeOfEverySessionBeforeTheStart) {
    FakeExecutor::Behaviour behaviour;
    behaviour.least = 2;
    behaviour.most = 5;
    std::vector<std::size_t> sizes;
    behaviour.before = [&](std::span<const std::int64_t> ids) -> Result<void> {
        sizes.push_back(ids.size());
        return {};
    };
    BatchingOptions options;
    options.instances = 2;
    ASSERT_TRUE(fake_session(behaviour, options));
    EXPECT_TRUE(sizes.empty());
    options.warm_up = true;
    options.max_batch = 4;
    const auto session = fake_session(behaviour, options);
    ASSERT_TRUE(session);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 3, 4, 2, 3, 4}));
    EXPECT_EQ(session->statistics().batches, 0U);
    behaviour.before = [](std::span<const std::int64_t>) -> Result<void> {
        return Error{ErrorCode::internal, "it does not run", "", ""};
    };
    EXPECT_EQ(fake_session(behaviour, options).error().message, "it does not run");
}

TEST(Batching, AWrongRequestIsRefusedAloneAndNamesWhatIsWrong) {
    auto session = fake_session({}, {});
    ASSERT_TRUE(session);
    const auto refusal = [&](std::vector<HostTensor> inputs) {
        const auto taken = session->submit(std::move(inputs));
        return taken ? Error{} : taken.error();
    };
    EXPECT_EQ(refusal(request(1, 9)).code, ErrorCode::out_of_range);
    EXPECT_THAT(refusal(request(1, 1, 17)).describe(), HasSubstr("1x17"));
    EXPECT_EQ(refusal({}).code, ErrorCode::invalid_argument);
    auto uneven = request(1, 2);
    uneven[1] = request(1, 3)[1];
    EXPECT_THAT(refusal(std::move(uneven)).message, HasSubstr("different numbers of samples"));
    auto wrong_type = request(1);
    wrong_type[1].type = DataType::float64;
    EXPECT_THAT(refusal(std::move(wrong_type)).message, HasSubstr("int64"));
    auto few_bytes = request(1);
    few_bytes[0].bytes.resize(15);
    EXPECT_THAT(refusal(std::move(few_bytes)).message, HasSubstr("needs 16 bytes"));
    auto swapped = request(5);
    std::swap(swapped[0], swapped[1]);
    EXPECT_TRUE(is_reply_of(*submitted(*session, std::move(swapped)).get(), 5)) << "named inputs in any order";
    EXPECT_FALSE(session->submit(request(1), BatchCallback()));
    EXPECT_EQ(session->statistics().rejected, 7U);
}

TEST(Batching, AnOutputWithoutTheAxisOfSamplesFailsItsBatch) {
    FakeExecutor::Behaviour behaviour;
    behaviour.flat_output = true;
    auto session = fake_session(behaviour, {});
    ASSERT_TRUE(session);
    const auto reply = submitted(*session, request(1, 2)).get();
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, ErrorCode::mismatch);
    EXPECT_EQ(reply.error().where, "y");
}

TEST(Batching, CallbacksMaySubmitButNotWaitForThemselves) {
    BatchingOptions options;
    options.max_wait = 0us;
    options.queue_capacity = 1;
    options.when_full = Backpressure::block;
    auto session = fake_session({}, options);
    ASSERT_TRUE(session);
    std::promise<std::vector<ErrorCode>> seen;
    ASSERT_TRUE(session->submit(request(1), [&](const Result<BatchReply>&) {
        std::vector<ErrorCode> codes;
        auto again = request(2);
        const std::vector<TensorView> views{again[0].view(), again[1].view()};
        codes.push_back(session->run(views).error().code);
        codes.push_back(session->shutdown(Shutdown::drain).error().code);
        EXPECT_TRUE(session->submit(request(3), [](const Result<BatchReply>&) {}));
        codes.push_back(session->submit(request(4), [](const Result<BatchReply>&) {}).error().code);
        seen.set_value(codes);
    }));
    EXPECT_EQ(seen.get_future().get(), (std::vector<ErrorCode>{ErrorCode::invalid_argument, ErrorCode::invalid_argument,
                                                               ErrorCode::out_of_memory}));
    ASSERT_TRUE(session->shutdown(Shutdown::drain));
    EXPECT_EQ(session->statistics().completed, 2U);
}

TEST(Batching, ReadsViewsInPlaceUntilTheAnswer) {
    auto session = fake_session({}, {});
    ASSERT_TRUE(session);
    auto inputs = request(6, 2);
    const std::vector<TensorView> views{inputs[0].view(), inputs[1].view()};
    std::promise<bool> right;
    ASSERT_TRUE(session->submit_views(
        views, [&](const Result<BatchReply>& reply) { right.set_value(reply && is_reply_of(*reply, 6, 2)); }));
    EXPECT_TRUE(right.get_future().get());
}

TEST(Batching, SessionsMustBeAlike) {
    std::vector<std::unique_ptr<BatchExecutor>> executors;
    executors.push_back(std::make_unique<FakeExecutor>(FakeExecutor::Behaviour{}));
    FakeExecutor::Behaviour larger;
    larger.most = 16;
    executors.push_back(std::make_unique<FakeExecutor>(larger));
    EXPECT_EQ(BatchingAccess::start(std::move(executors), {}).error().code, ErrorCode::mismatch);
}

TEST(Batching, WrongOptionsAreRefused) {
    BatchingOptions options;
    options.max_batch = 9;
    EXPECT_THAT(fake_session({}, options).error().message, HasSubstr("max_batch is 9"));
    options = {};
    options.queue_capacity = 0;
    EXPECT_EQ(fake_session({}, options).error().code, ErrorCode::invalid_argument);
    options = {};
    options.instances = 0;
    EXPECT_EQ(fake_session({}, options).error().code, ErrorCode::invalid_argument);
    options = {};
    options.max_wait = std::chrono::microseconds::max();
    auto patient = fake_session({}, options);
    ASSERT_TRUE(patient);
    Future future = submitted(*patient, request(1));
    ASSERT_TRUE(patient->shutdown(Shutdown::drain));
    EXPECT_TRUE(future.get());
}

TEST(Batching, AnEngineAnswersAsItsSessionDoes) {
    BuildOptions build;
    build.shapes["input"] = {{1, 3, 8, 8}, {4, 3, 8, 8}, {8, 3, 8, 8}};
    const auto engine = Engine::build(small_network(), build);
    ASSERT_TRUE(engine) << engine.error().describe();
    BatchingOptions options;
    options.instances = 2;
    auto session = BatchingSession::start(*engine, options);
    ASSERT_TRUE(session) << session.error().describe();
    std::vector<Future> futures;
    for (std::uint32_t i = 0; i < 100; ++i) {
        std::vector<HostTensor> inputs;
        inputs.push_back(small_input(1 + i % 3, i));
        futures.push_back(submitted(*session, std::move(inputs)));
    }
    for (std::uint32_t i = 0; i < 100; ++i) {
        const auto reply = futures[i].get();
        ASSERT_TRUE(reply) << reply.error().describe();
        const auto expected =
            small_network_reference(small_network(), small_input(1 + i % 3, i).as<float>(), 1 + i % 3);
        const auto scores = reply->outputs.at(0).as<float>();
        ASSERT_EQ(scores.size(), expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k)
            ASSERT_NEAR(scores[k], expected[k], 1e-4F);
    }
}

} // namespace
} // namespace lathe::test
