#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Load time and peak memory cannot be told in a process that has already loaded other things, so a fresh one does it.
/// This is its whole work: load the engine or model named in `request` ({"kind", "file", "inputs"}), run it once, and
/// answer {"load_ms", "peak_rss_bytes"}, or {"error": ...}. Only for subjects that run in our own process.
Json answer_probe(const Json& request);

/// Asks a fresh process. `command` starts a program that reads one line with the request and prints the answer.
Result<void> probe_subject(SubjectInfo& info, const std::vector<std::string>& command,
                           const std::vector<InputSpec>& inputs, Progress& progress);

} // namespace lathe
