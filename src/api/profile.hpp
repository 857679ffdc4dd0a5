#pragma once

#include <filesystem>
#include <limits>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Executed layers, and the times of each over all runs.
struct EngineProfile {
    std::vector<LayerInfo> layers;                 ///< with the mean times
    std::vector<std::vector<double>> milliseconds; ///< by layer and run
    std::size_t runs = 0;
};
constexpr double no_limit_s = std::numeric_limits<double>::infinity();
/// Runs on seeded random inputs of the smallest shape, after a warm-up. After `limit_s` no further run is begun, but
/// for one to warm up and one that counts.
Result<EngineProfile> profile_engine(const std::filesystem::path& file, Progress& progress,
                                     double limit_s = no_limit_s);
/// The same of an engine that was loaded with EngineLoadOptions::profiling, from `file`.
Result<EngineProfile> profile_engine(const Engine& engine, const std::filesystem::path& file, Progress& progress,
                                     double limit_s = no_limit_s);

/// Time and precision of every executed layer, as the layers JSON has it ("kind": "layers"): the mean of several runs
/// on seeded random inputs of the smallest shape. Profiling itself costs time, so the sum is above the engine's
/// latency. `limit_s`: of each engine.
Result<Json> profile_engines(const std::vector<std::filesystem::path>& engines, Progress& progress,
                             double limit_s = no_limit_s);

} // namespace lathe
