#pragma once

#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/json.hpp"
#include "support_lib/command.hpp"
#include "tasks/detection/average_precision.hpp"

namespace lathe::test {

inline Box box_of(const Json& json) {
    return {json[0].get<double>(), json[1].get<double>(), json[2].get<double>(), json[3].get<double>()};
}

/// Calls check(case) for each of 200 random cases and the degenerate ones that `script` beside this file writes with
/// pycocotools' figures. Skips the test where that is not installed.
template <class Check>
void compare_with_pycocotools(const std::string& script, const Check& check) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no Python with pycocotools";
    const unsigned seed = std::random_device{}() % 1'000'000;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TemporaryFolder folder;
    const std::string file = (folder / "cases.json").string();
    const auto result = run_command(std::string(python) + " " LATHE_TASK_TESTS "/detection/" + script + " " + file +
                                    " " + std::to_string(seed));
    if (result.exit_code == 77) GTEST_SKIP() << "SKIPPED: " << result.errors;
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto cases = read_json_file(file);
    ASSERT_TRUE(cases) << cases.error().describe();
    ASSERT_GE(cases->size(), 213U);
    for (const Json& each : *cases) {
        SCOPED_TRACE(each["name"].get<std::string>());
        check(each);
    }
}

} // namespace lathe::test
