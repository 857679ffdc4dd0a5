#include "runtime/batching.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/batch_queue.hpp"
#include "runtime/batch_tensors.hpp"

namespace lathe {

namespace {

using Clock = BatchQueue::Clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

Error shut_down() { return {ErrorCode::cancelled, "the batching session was shut down", "", ""}; }

Error within_callback(const std::string& what) {
    return {ErrorCode::invalid_argument, what + " was called from within a callback, and would wait for itself", "",
            "call it on a thread of your own"};
}

std::int64_t samples_of(const std::vector<BatchRequest>& batch) {
    std::int64_t samples = 0;
    for (const BatchRequest& request : batch)
        samples += request.samples;
    return samples;
}

bool same_inputs(const std::vector<IoInfo>& a, const std::vector<IoInfo>& b) {
    return std::ranges::equal(a, b, [](const IoInfo& one, const IoInfo& other) {
        return one.name == other.name && one.type == other.type && one.range.min == other.range.min &&
               one.range.max == other.range.max;
    });
}

/// The batching session whose callbacks this thread is giving or may give.
thread_local const void* giving_answers_of = nullptr;

/// Zeros for a run of `samples`, the other sizes as the engine expects them most.
std::vector<HostTensor> zeros_for(const std::vector<IoInfo>& inputs, std::int64_t samples) {
    std::vector<HostTensor> zeros;
    for (const IoInfo& input : inputs) {
        Shape shape = input.range.opt;
        shape[0] = samples;
        zeros.emplace_back(input.name, input.type, std::move(shape));
    }
    return zeros;
}

Result<void> warm_up(BatchExecutor& executor, const BatchLimits& limits) {
    for (std::int64_t samples = limits.least; samples <= limits.most; ++samples) {
        std::vector<HostTensor> zeros = zeros_for(limits.inputs, samples);
        std::vector<TensorView> views;
        for (HostTensor& tensor : zeros)
            views.push_back(tensor.view());
        LATHE_TRY(const auto outputs, executor.run(views));
        LATHE_CHECK(check_rows(outputs, samples));
    }
    return {};
}

} // namespace

struct BatchingSession::Impl {
    Impl(BatchingOptions options_, BatchLimits limits_, std::vector<std::unique_ptr<BatchExecutor>> executors_)
        : options(options_), limits(std::move(limits_)), executors(std::move(executors_)),
          queue(limits.most, options.max_wait) {}

    Result<void> accept(std::vector<HostTensor> owned, std::span<const TensorView> views, BatchCallback callback);
    Result<void> shutdown(Shutdown how);
    void serve(BatchExecutor& executor);
    DueBatch next_batch();
    /// `failures`: what replies that are errors count as.
    void answer(std::vector<BatchRequest>& batch, std::vector<Result<BatchReply>> replies,
                std::size_t BatchingStatistics::*failures);
    /// `ready`: since when the batch could have run and the session had nothing else to do.
    Result<std::vector<BatchReply>> replies_of(BatchExecutor& executor, JoinedInputs& joined,
                                               const std::vector<BatchRequest>& batch, Clock::time_point ready);

    const BatchingOptions options;
    const BatchLimits limits;
    const std::vector<std::unique_ptr<BatchExecutor>> executors;

    mutable std::mutex mutex; ///< guards what follows, to the workers
    std::condition_variable work;
    std::condition_variable room;
    std::condition_variable answered;
    BatchQueue queue;
    BatchingStatistics counts;
    std::size_t unanswered = 0; ///< accepted, and their callbacks have not returned
    bool closed = false;

    std::mutex joining; ///< guards workers after the start
    std::vector<std::thread> workers;
};

Result<void> BatchingSession::Impl::accept(std::vector<HostTensor> owned, std::span<const TensorView> views,
                                           BatchCallback callback) {
    auto inputs = limits.checked(views);
    if (inputs && !callback)
        inputs = Error{ErrorCode::invalid_argument, "a request needs a callback for its answer", "", ""};
    std::unique_lock lock(mutex);
    const auto refuse = [&](Error error) {
        ++counts.rejected;
        return error;
    };
    if (!inputs) return refuse(std::move(inputs).error());
    if (queue.size() >= options.queue_capacity && options.when_full == Backpressure::block && giving_answers_of != this)
        room.wait(lock, [&] { return closed || queue.size() < options.queue_capacity; });
    if (closed) return refuse(shut_down());
    if (queue.size() >= options.queue_capacity) {
        return refuse({ErrorCode::out_of_memory,
                       "the queue is full: " + std::to_string(queue.size()) + " requests wait", "",
                       "send less, or raise queue_capacity"});
    }
    const std::int64_t samples = inputs->front().shape[0];
    queue.push({std::move(owned), *std::move(inputs), samples, std::move(callback), Clock::now()});
    ++counts.accepted;
    ++unanswered;
    lock.unlock();
    work.notify_one();
    return {};
}

/// Waits until a batch is due; empty when there is none to come.
DueBatch BatchingSession::Impl::next_batch() {
    std::unique_lock lock(mutex);
    while (!closed || !queue.empty()) {
        if (queue.empty()) {
            work.wait(lock);
            continue;
        }
        const auto due = queue.due();
        const auto now = Clock::now();
        if (!closed && now < due) {
            work.wait_until(lock, due);
            continue;
        }
        DueBatch batch = queue.take(now);
        const std::int64_t samples = samples_of(batch.requests);
        ++counts.batches;
        counts.samples += static_cast<std::size_t>(samples);
        counts.padded += static_cast<std::size_t>(std::max(samples, limits.least) - samples);
        const bool more = !queue.empty();
        lock.unlock();
        // Others may all sleep: the notifications of what is left went to this thread.
        if (more) work.notify_one();
        room.notify_all();
        return batch;
    }
    return {};
}

Result<std::vector<BatchReply>> BatchingSession::Impl::replies_of(BatchExecutor& executor, JoinedInputs& joined,
                                                                  const std::vector<BatchRequest>& batch,
                                                                  Clock::time_point ready) {
    const auto start = Clock::now();
    const std::int64_t samples = samples_of(batch);
    const double late_ms = std::max(0.0, ms_between(ready, start));
    const std::int64_t size = std::max(samples, limits.least);
    const auto inputs = joined.join(batch, size, [&](std::size_t i) { return executor.input_memory(i); });
    LATHE_TRY(const auto outputs, executor.run(inputs));
    LATHE_CHECK(check_rows(outputs, size));
    std::vector<BatchReply> replies;
    std::int64_t first = 0;
    for (const BatchRequest& request : batch) {
        BatchReply& reply = replies.emplace_back();
        reply.outputs = rows_of(outputs, size, first, request.samples);
        reply.queue_ms = ms_between(request.arrived, start);
        reply.batch = samples;
        reply.row = first;
        reply.late_ms = late_ms;
        first += request.samples;
    }
    const double run_ms = ms_between(start, Clock::now());
    for (BatchReply& reply : replies)
        reply.run_ms = run_ms;
    return replies;
}

void BatchingSession::Impl::answer(std::vector<BatchRequest>& batch, std::vector<Result<BatchReply>> replies,
                                   std::size_t BatchingStatistics::*failures) {
    // Counted first, so that who has an answer finds it counted.
    {
        const std::lock_guard lock(mutex);
        for (const auto& reply : replies)
            ++(reply ? counts.completed : counts.*failures);
    }
    for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i].callback(std::move(replies[i]));
    const std::lock_guard lock(mutex);
    unanswered -= batch.size();
    if (unanswered == 0) answered.notify_all();
}

void BatchingSession::Impl::serve(BatchExecutor& executor) {
    giving_answers_of = this;
    JoinedInputs joined;
    auto free = Clock::now();
    for (DueBatch taken = next_batch(); !taken.requests.empty(); taken = next_batch()) {
        std::vector<BatchRequest>& batch = taken.requests;
        std::vector<Result<BatchReply>> replies;
        // No exception crosses the seam below; what the standard library throws here (no memory) is the batch's error.
        try {
            auto ran = replies_of(executor, joined, batch, std::max(taken.due, free));
            for (std::size_t i = 0; i < batch.size(); ++i) {
                if (ran)
                    replies.emplace_back(std::move((*ran)[i]));
                else
                    replies.emplace_back(ran.error());
            }
        } catch (const std::exception& failure) {
            replies.assign(batch.size(), Error{ErrorCode::out_of_memory, "the batch could not be run", failure.what(),
                                               "allow smaller batches, or fewer instances"});
        }
        answer(batch, std::move(replies), &BatchingStatistics::failed);
        free = Clock::now();
    }
}

Result<void> BatchingSession::Impl::shutdown(Shutdown how) {
    if (giving_answers_of == this) return within_callback("shutdown");
    std::vector<BatchRequest> dropped;
    {
        const std::lock_guard lock(mutex);
        closed = true;
        if (how == Shutdown::cancel) dropped = queue.take_all();
    }
    work.notify_all();
    room.notify_all();
    if (!dropped.empty()) {
        const void* const before = std::exchange(giving_answers_of, this);
        answer(dropped, std::vector<Result<BatchReply>>(dropped.size(), shut_down()), &BatchingStatistics::cancelled);
        giving_answers_of = before;
    }
    {
        std::unique_lock lock(mutex);
        answered.wait(lock, [&] { return unanswered == 0; });
    }
    const std::lock_guard lock(joining);
    for (std::thread& worker : workers) {
        if (worker.joinable()) worker.join();
    }
    return {};
}

Result<BatchingSession> BatchingAccess::start(std::vector<std::unique_ptr<BatchExecutor>> executors,
                                              BatchingOptions options) {
    if (executors.empty()) {
        return Error{ErrorCode::invalid_argument, "a batching session needs at least one instance", "", ""};
    }
    if (options.queue_capacity == 0 || options.max_wait.count() < 0) {
        return Error{ErrorCode::invalid_argument, "queue_capacity is at least 1, max_wait at least 0", "", ""};
    }
    LATHE_TRY(BatchLimits limits, BatchLimits::of(executors[0]->inputs(), options.max_batch));
    for (const auto& executor : executors) {
        if (same_inputs(executor->inputs(), limits.inputs)) continue;
        return Error{ErrorCode::mismatch, "the sessions of a batching session have different inputs", "",
                     "give it sessions of engines that were built alike"};
    }
    options.max_batch = limits.most;
    options.instances = executors.size();
    // A wait of years would overflow the clock.
    options.max_wait = std::min<std::chrono::microseconds>(options.max_wait, std::chrono::hours(24));
    if (options.warm_up) {
        for (const auto& executor : executors)
            LATHE_CHECK(warm_up(*executor, limits));
    }
    auto impl = std::make_unique<BatchingSession::Impl>(options, std::move(limits), std::move(executors));
    BatchingSession session(std::move(impl));
    BatchingSession::Impl& made = *session.impl_;
    try {
        for (const auto& executor : made.executors)
            made.workers.emplace_back([&made, &executor] { made.serve(*executor); });
    } catch (const std::system_error& failure) {
        return Error{ErrorCode::out_of_memory, "a thread could not be started", failure.what(),
                     "ask for fewer instances"};
    }
    return session;
}

BatchingSession::BatchingSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchingSession::BatchingSession(BatchingSession&&) noexcept = default;

BatchingSession& BatchingSession::operator=(BatchingSession&& other) noexcept {
    if (this != &other) {
        if (impl_) (void)impl_->shutdown(Shutdown::drain);
        impl_ = std::move(other.impl_);
    }
    return *this;
}

BatchingSession::~BatchingSession() {
    if (impl_) (void)impl_->shutdown(Shutdown::drain);
}

Result<void> BatchingSession::submit(std::vector<HostTensor> inputs, BatchCallback callback) {
    std::vector<TensorView> views;
    views.reserve(inputs.size());
    for (HostTensor& tensor : inputs)
        views.push_back(tensor.view());
    return impl_->accept(std::move(inputs), views, std::move(callback));
}

Result<void> BatchingSession::submit_views(std::span<const TensorView> inputs, BatchCallback callback) {
    return impl_->accept({}, inputs, std::move(callback));
}

Result<std::future<Result<BatchReply>>> BatchingSession::submit(std::vector<HostTensor> inputs) {
    const auto promise = std::make_shared<std::promise<Result<BatchReply>>>();
    std::future<Result<BatchReply>> future = promise->get_future();
    LATHE_CHECK(
        submit(std::move(inputs), [promise](Result<BatchReply> reply) { promise->set_value(std::move(reply)); }));
    return future;
}

Result<BatchReply> BatchingSession::run(std::span<const TensorView> inputs) {
    if (giving_answers_of == impl_.get()) return within_callback("run");
    const auto promise = std::make_shared<std::promise<Result<BatchReply>>>();
    std::future<Result<BatchReply>> future = promise->get_future();
    LATHE_CHECK(
        impl_->accept({}, inputs, [promise](Result<BatchReply> reply) { promise->set_value(std::move(reply)); }));
    return future.get();
}

Result<void> BatchingSession::shutdown(Shutdown how) { return impl_->shutdown(how); }

BatchingStatistics BatchingSession::statistics() const {
    const std::lock_guard lock(impl_->mutex);
    BatchingStatistics counts = impl_->counts;
    counts.waiting = impl_->queue.size();
    return counts;
}

const BatchingOptions& BatchingSession::options() const { return impl_->options; }

} // namespace lathe
