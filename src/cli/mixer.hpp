#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "cli/prepare.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/result.hpp"
#include "mix/engine_workshop.hpp"
#include "mix/search.hpp"

namespace lathe::cli {

/// What `lathe tune` was asked for.
struct MixOptions {
    PrepareOptions prepare;
    SearchOptions search;
    WorkshopOptions workshop;
    std::string metric; ///< empty: the task's where there is one, else top1
    TaskOptions task;
    std::string budget = "10m";
    std::string device = "cpu";
    std::string judge;
    std::string sensitivity;
    std::size_t sensitivity_samples = 64;
    std::optional<int> effort; ///< absent: 2 where the data allow it
    std::vector<std::string> shapes;
    std::string timing_cache;
    std::string tune = "default";
    std::string output;
    std::string results;
    std::string report;
    bool force = false;
};

/// The whole job: ranges, corrections, the sensitivity of the layers, the search, and the judgement of the engine that
/// is handed out. What is known is kept in a journal beside the engine file.
/// Errors: what the steps give; cancelled (the same call goes on from there); verification_failed where the engine,
/// which is written all the same, misses a limit or a plainer one is faster.
Result<void> run_mixer(const MixOptions& options, const Context& context);

} // namespace lathe::cli
