#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe::report {

struct ProcessOutput {
    int exit_code = -1; ///< 128 + signal if it was killed
    std::string output; ///< standard output
    std::string errors; ///< standard error
};

/// Runs a program (argv[0] a path) without a shell to its end. At the time limit, on cancellation or past
/// 512 MiB of output it and its children are killed and the call fails (io, cancelled).
Result<ProcessOutput> run_process(const std::vector<std::string>& argv, std::chrono::milliseconds limit,
                                  const Progress& progress);

} // namespace lathe::report
