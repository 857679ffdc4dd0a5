#pragma once

#include <filesystem>
#include <vector>

#include "lathe/result.hpp"
#include "plan/simulate.hpp"

namespace lathe {

/// What a request passes outside the engine.
struct OuterStages {
    std::vector<Stage> before;
    std::vector<Stage> after;
};

/// {"stages": [{"name", time, "where", "workers"}, ...]}, in the order in which requests pass them. The time is one of
/// "ms" (always the same), "mean_ms" (exponentially distributed), "median_ms" with "p99_ms" (log-normal), "samples_ms"
/// (a list, as observed). "where" is "before" or "after" the engine; if absent, after for the name postprocess, else
/// before. "workers": how many requests a machine has in the stage at once; absent: any number.
/// Errors: parse_error naming the stage.
Result<OuterStages> read_stages(const std::filesystem::path& file);

} // namespace lathe
