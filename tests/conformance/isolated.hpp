#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lathe::test {

/// Runs cases in child processes, so that one that crashes or hangs is reported by name and the rest still run.
/// `run(i)` gives "" if case i passed, else what went wrong. A crash gives "crashed with signal N", a case over the
/// limit "did not end in N s". The parent must not have started threads that `run` depends on.
std::vector<std::string> run_isolated(std::size_t count, const std::function<std::string(std::size_t)>& run,
                                      std::chrono::seconds limit, std::size_t workers);

} // namespace lathe::test
