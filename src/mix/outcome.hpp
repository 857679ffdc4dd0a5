#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/evaluate.hpp"
#include "mix/engine_workshop.hpp"
#include "mix/search.hpp"
#include "support/json.hpp"

namespace lathe {

/// The engine that is handed out, as saved: judged on data that the search did not see, and timed again.
struct Judged {
    Evaluation evaluation;          ///< the FP32 engine, then the one saved
    std::vector<TimedEngine> timed; ///< the one saved, then FP32, the device's other precisions and INT8
    std::size_t floats = 1;         ///< how many of those behind the first compute in floating point throughout
    /// By the task's metric, on the same data: the one saved against the FP32 engine.
    struct ByTask {
        std::string name, metric;
        bool labelled = false;
        TaskScore score;
        Interval change; ///< of the metric, 95 %
        std::size_t left_out = 0;
    };
    std::optional<ByTask> task;            ///< where a task judges
    std::vector<std::string> beyond_limit; ///< of those, by name: what loses more than the limit in the search
};

/// What is to be said of it.
struct Outcome {
    bool good = true; ///< no limit was missed beyond doubt, and no plainer engine that keeps it is faster
    std::string text; ///< one line
    std::vector<std::string> reasons;
    bool within = true; ///< the loss as measured is within the limit
    double drop = 0;    ///< on the judging data; see drop_of
    Interval drop_ci95;
};

/// Accuracy is missed where the loss measured is over the limit and its whole 95 % interval over zero (top1, task), or
/// over the limit (agreement); kl and sqnr are compared as measured. Speed is missed where `min_speedup` is not reached
/// as measured, or the interval of the ratio to FP32 or another floating-point engine that keeps the limit lies
/// below 1.
Outcome judge(const Trial& chosen, const Judged& judged, const SearchOptions& options);

/// The document of kind "tune": limits, every trial with what it measured ("drop": drop_of, "loss": loss_of, by
/// "ranked_by"), the Pareto front, the engine handed out with the precision of each layer and its damage (loss_of), how
/// it was judged. The caller adds where model and data came from.
Json to_json(const SearchState& state, std::size_t chosen, const std::vector<std::string>& layers,
             const SearchOptions& options, const Judged& judged, const Outcome& outcome);

} // namespace lathe
