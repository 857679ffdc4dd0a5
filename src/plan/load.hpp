#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/batching.hpp"
#include "lathe/result.hpp"
#include "plan/served.hpp"
#include "support/progress.hpp"

namespace lathe {

/// A served load, request by request.
struct LoadResult {
    std::vector<double> latency_ms; ///< of those answered: from when a request was to arrive to its answer
    std::vector<double> late_ms;    ///< of all: how much later than planned it was handed over
    std::size_t failed = 0;         ///< refused or answered with an error
    std::size_t batches = 0;
    std::size_t samples = 0;
    std::vector<ServedBatch> served; ///< in the order of their first answers
    double seconds = 0;              ///< from the first arrival planned to the last answer
};

/// Sends requests at the planned times (ms from the start, ascending) whether or not earlier ones were answered, as
/// independent users do, and waits for all answers. A request whose turn came while the sender was held up counts from
/// its planned time: slow answers cannot hide by slowing the questions down.
/// `requests`: sets of inputs to send in turn, each one sample; their memory is read in place.
/// Errors: cancelled (after the requests on their way are answered).
Result<LoadResult> run_load(BatchingSession& session, const std::vector<double>& arrivals,
                            std::vector<std::vector<HostTensor>>& requests, Progress& progress);

} // namespace lathe
