#pragma once

#include <filesystem>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe::cli {

/// Time and precision of every executed layer, as the layers JSON has it ("kind": "layers"): the mean of several runs
/// on seeded random inputs of the smallest shape. Profiling itself costs time, so the sum is above the engine's
/// latency.
Result<Json> profile_engines(const std::vector<std::filesystem::path>& engines, Progress& progress);

} // namespace lathe::cli
