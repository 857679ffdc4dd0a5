#pragma once

#include <filesystem>

#include "lathe/engine.hpp"
#include "support/progress.hpp"

namespace lathe {

/// How many times as fast an INT8 engine is for the CPU when what INT8 leaves in float is BF16, at the smallest batch
/// and on random inputs, both timed in turns. `engine` is built of `network`, as `build` says. 0 where nothing is left
/// for BF16, or one of them cannot be run. Errors: cancelled, and those of reading the files.
Result<double> speedup_with_bfloat16_rest(const std::filesystem::path& engine, const std::filesystem::path& network,
                                          BuildOptions build, Progress& progress);

} // namespace lathe
