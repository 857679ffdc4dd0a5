#pragma once

#include <string>
#include <vector>

namespace lathe::test {

/// One case of cases/PASS.txt: a graph, and what the pass makes of it.
struct GoldenCase {
    std::string pass;
    std::string title;
    std::string before;
    std::string after;    ///< empty: the pass must not fire
    bool runnable = true; ///< false ("=~" in place of "=="): not for a backend (odd types, unknown ranks)
};

/// All cases of all files. A file is a sequence of "== title", a graph, "---", and a graph or "unchanged".
std::vector<GoldenCase> golden_cases();

} // namespace lathe::test
