#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/export.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// What happens to a request that finds the queue full.
enum class Backpressure {
    reject, ///< it fails at once with ErrorCode::out_of_memory
    block,  ///< its caller waits for room
};

/// What becomes of the requests that wait when a batching session ends.
enum class Shutdown {
    drain,  ///< they are run, without waiting for others to share a batch
    cancel, ///< they fail with ErrorCode::cancelled; batches that run already are finished and answered
};

struct BatchingOptions {
    std::int64_t max_batch = 0;               ///< samples in one run; 0: the most that the engine takes
    std::chrono::microseconds max_wait{1000}; ///< how long the oldest request waits for others; 0: not at all
    std::size_t queue_capacity = 1024;        ///< requests that wait, those being run not counted; at least 1
    Backpressure when_full = Backpressure::reject;
    std::size_t instances = 1; ///< sessions that run batches side by side, each on a thread of its own
    /// Each session runs every batch size from the smallest to max_batch once, on zeros, before the start returns: the
    /// first run of a size prepares its kernels, and without this requests wait for it.
    bool warm_up = false;
};

/// The answer to one request.
struct BatchReply {
    std::vector<HostTensor> outputs; ///< this request's rows of the engine's outputs, in the engine's order
    double queue_ms = 0;             ///< from `submit` to the start of its batch
    double run_ms = 0;               ///< of its batch: joining the inputs, running, taking the outputs apart
    std::int64_t batch = 0;          ///< samples that ran together, this request's among them
    std::int64_t row = 0;            ///< of its first sample among them
    double late_ms = 0;              ///< from when its batch was due and its session free to the batch's start
};

/// Called once for each request accepted, on a thread of the batching session. It must not throw, and should be short:
/// the next batch of that session waits for it.
using BatchCallback = std::function<void(Result<BatchReply>)>;

/// Counts since the start. accepted = completed + failed + cancelled + those that wait or run.
struct BatchingStatistics {
    std::size_t accepted = 0;
    std::size_t rejected = 0;  ///< wrong, or the queue was full, or after shutdown: never accepted
    std::size_t completed = 0; ///< answered with outputs
    std::size_t failed = 0;    ///< answered with an error of their batch
    std::size_t cancelled = 0; ///< answered with ErrorCode::cancelled by a shutdown
    std::size_t waiting = 0;   ///< in the queue now
    std::size_t batches = 0;   ///< runs
    std::size_t samples = 0;   ///< in them
    std::size_t padded = 0;    ///< samples added where the engine's smallest batch asked for more
};

/// Collects requests into batches and runs them: dynamic batching inside a process.
///
/// A request holds one or more samples, which are the first axis of all its inputs. Requests whose other sizes are
/// equal share a batch, in the order they came; a batch runs as soon as a session is free and either it is full or its
/// oldest request has waited `max_wait`. The engine's outputs must have the samples as their first axis. Where the
/// engine's smallest batch is larger than what came together, the last sample is repeated and the repetitions' outputs
/// dropped.
///
/// Every accepted request is answered exactly once, with its own rows or with the error of its batch: no request gets
/// another's outputs or error. All functions may be called from any thread at any time; destruction drains.
class LATHE_API BatchingSession {
public:
    /// With sessions of its own. Errors: invalid_argument (options; an engine whose inputs have no common first axis or
    /// elements smaller than a byte), what making a session gives.
    static Result<BatchingSession> start(const Engine& engine, const BatchingOptions& options = {});

    /// With these sessions, one an instance (`options.instances` is ignored): of engines loaded with one thread each,
    /// or on different devices. Their inputs must be equal. Errors: as above.
    static Result<BatchingSession> start(std::vector<Session> sessions, const BatchingOptions& options = {});

    BatchingSession(BatchingSession&&) noexcept;
    BatchingSession& operator=(BatchingSession&&) noexcept;
    ~BatchingSession();

    /// Hand over a request. `inputs`: one a model input, in the engine's order, or in any order if all have names.
    /// Refused at once, without a callback: invalid_argument (count, name, type, bytes, different numbers of samples),
    /// out_of_range (more than max_batch samples; other sizes outside the engine's range), out_of_memory (queue full),
    /// cancelled (after shutdown). From within a callback a full queue rejects, even where it would block others.
    Result<void> submit(std::vector<HostTensor> inputs, BatchCallback callback);

    /// The same without handing over the memory, which is read in place: it must stay as it is until the callback is
    /// called.
    Result<void> submit_views(std::span<const TensorView> inputs, BatchCallback callback);

    /// `submit` with a future for the answer.
    Result<std::future<Result<BatchReply>>> submit(std::vector<HostTensor> inputs);

    /// Hand over and wait for the answer. The inputs' memory is read in place. Not from within a callback:
    /// invalid_argument. Errors: as submit, and those of the batch.
    Result<BatchReply> run(std::span<const TensorView> inputs);

    /// Takes no more requests, answers those accepted, and returns when the last answer was given. A later call waits
    /// too; `cancel` after a `drain` cancels what the drain has not run yet. Not from within a callback:
    /// invalid_argument.
    Result<void> shutdown(Shutdown how);

    BatchingStatistics statistics() const;
    /// What holds: max_batch is the number used.
    const BatchingOptions& options() const;

private:
    friend struct BatchingAccess;
    struct Impl;
    explicit BatchingSession(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace lathe
