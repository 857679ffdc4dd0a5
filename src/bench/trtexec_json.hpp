#pragma once

#include <string>
#include <vector>

#include "bench/trtexec_log.hpp"
#include "support/json.hpp"

namespace lathe {

/// A run and the file it was read from.
struct TrtexecSource {
    std::string file;
    TrtexecRun run;
};

/// "99", "99.9": a percentile as the key of "percentiles_ms".
std::string percent_name(double percent);

/// The runs as a bench document (kind "bench", version 1, "source": "trtexec"), in trtexec's meaning of the words:
/// median_ms is copy in + compute + copy out, without waiting; device_ms is its GPU Compute Time. There are no ratios:
/// runs one after another do not give any. Runs without a summary are "unavailable", with trtexec's error.
/// Every subject has what trtexec printed under "trtexec".
Json trtexec_document(const std::vector<TrtexecSource>& sources, const std::string& command_line);

} // namespace lathe
