#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe::report {

/// Puts a second bench result beside the first, which is allowed where one of them was read from logs of trtexec:
/// those are runs of their own in any case, and say so; no ratio is formed between the two. The machine and the command
/// are those of Lathe's own benchmark, whichever comes first.
/// Errors: invalid_argument if both are benchmarks of Lathe, or name a subject alike. `names`: the two files.
Result<void> merge_bench(Json& bench, Json added, const std::string& names);

} // namespace lathe::report
