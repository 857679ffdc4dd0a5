#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/interleave.hpp"
#include "bench/subject.hpp"
#include "data/dataset.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Why a subject could not be measured, at a batch size or at all (batch 0).
struct Unavailable {
    std::string subject;
    std::int64_t batch = 0;
    std::string reason;
    std::string cure; ///< may be empty
};

/// The reason of what was left out for want of time.
constexpr const char* over_budget = "left out to stay within the time for the whole run";

struct MeasureOptions {
    std::vector<std::int64_t> batch_sizes{1, 4, 8, 16, 32};
    double duration_s = 3;        ///< of each throughput measurement; 0 leaves throughput out
    double time_limit_s = 10;     ///< a subject and batch size, for latency
    std::uint64_t seed = 1;       ///< of random inputs
    Dataset* data = nullptr;      ///< real inputs instead of random ones
    bool scaling = false;         ///< of subjects with devices: throughput on 1, 2, 4, ... of them
    InterleaveOptions interleave; ///< its time limit is replaced by the one above
    /// Seconds left for everything; empty: no limit. Later batch sizes and throughput for which they will not do, by
    /// what was measured before, are left out.
    std::function<double()> left_s{};
    /// The model's inputs at a batch size; an error if the engines cannot run it.
    std::function<Result<std::vector<InputSpec>>(std::int64_t batch)> inputs;
};

/// Measures all subjects in interleaved turns, one batch size after another, and throughput after that. Subjects that
/// fail are listed as unavailable with the reason. Returns the keys "latency", "throughput", "ratios" and "unavailable"
/// of the bench JSON, and "scaling" where asked for; ratios are those of every engine to every other subject, from
/// turns side by side. Errors: cancelled; what `inputs` or the data give; not an error of a subject.
Result<Json> measure(const std::vector<std::unique_ptr<Subject>>& subjects, const MeasureOptions& options,
                     Progress& progress);

Json to_json(const SubjectInfo& info);
Json to_json(const Unavailable& unavailable);

} // namespace lathe
