#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "runtime/batch_queue.hpp"

namespace lathe {

/// What the inputs of a batching session must be.
struct BatchLimits {
    std::vector<IoInfo> inputs;
    std::int64_t least = 1; ///< samples that a run has at least
    std::int64_t most = 1;  ///< samples that a request, and a batch, has at most

    /// From the engine's inputs; `asked` 0: the most that they allow. Errors: invalid_argument.
    static Result<BatchLimits> of(std::vector<IoInfo> inputs, std::int64_t asked);

    /// The views in the engine's order, named as its inputs; the number of samples is the first size of each.
    /// Errors: invalid_argument, out_of_range.
    Result<std::vector<TensorView>> checked(std::span<const TensorView> views) const;
};

/// The inputs of one run, joined from the requests of a batch. Its memory is kept from run to run.
class JoinedInputs {
public:
    /// The session's memory for an input (Session::input_memory).
    using SessionMemory = std::function<std::span<std::byte>(std::size_t index)>;

    /// One view an engine input with `samples` rows, at least those of the batch: what is missing repeats the last row.
    /// A single request that needs no filling is handed on in place. Others are joined where the session wants them.
    std::span<const TensorView> join(const std::vector<BatchRequest>& batch, std::int64_t samples,
                                     const SessionMemory& session_memory);

private:
    std::vector<std::vector<std::byte>> memory_;
    std::vector<TensorView> views_;
};

/// The rows `first` to `first + count` of outputs with `samples` rows each, as tensors of their own.
std::vector<HostTensor> rows_of(const std::vector<TensorView>& outputs, std::int64_t samples, std::int64_t first,
                                std::int64_t count);

/// Errors: mismatch for an output whose first axis is not the `samples` that ran.
Result<void> check_rows(const std::vector<TensorView>& outputs, std::int64_t samples);

} // namespace lathe
