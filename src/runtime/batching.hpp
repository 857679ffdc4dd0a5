#pragma once

// The inner half of lathe/batching.hpp: what runs the batches is an interface, so that tests put a double there.
#include <memory>
#include <span>
#include <vector>

#include "lathe/batching.hpp"

namespace lathe {

/// Runs one batch at a time, for one thread of a batching session.
class BatchExecutor {
public:
    virtual ~BatchExecutor() = default;
    virtual const std::vector<IoInfo>& inputs() const = 0;
    /// As Session::input_memory.
    virtual std::span<std::byte> input_memory(std::size_t /*index*/) { return {}; }
    /// As Session::run: one view an output, valid until the next run.
    virtual Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) = 0;
};

struct BatchingAccess {
    /// As BatchingSession::start, with one executor an instance; `options.instances` is replaced by their number.
    static Result<BatchingSession> start(std::vector<std::unique_ptr<BatchExecutor>> executors,
                                         BatchingOptions options);
};

} // namespace lathe
