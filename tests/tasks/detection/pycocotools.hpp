#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/json.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"
#include "tasks/detection/average_precision.hpp"

namespace lathe::test {

inline Box box_of(const Json& json) {
    return {json[0].get<double>(), json[1].get<double>(), json[2].get<double>(), json[3].get<double>()};
}

/// The JSON that `script` beside this file writes. Skips the test where what it asks is not installed.
inline void read_cases(const std::string& script, Json& cases) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no Python to ask";
    const std::string seed = std::to_string(std::random_device{}() % 1'000'000);
    const TemporaryFolder folder;
    const std::string file = (folder / "cases.json").string();
    const auto result = run_command(std::string(python) + " " + test::source_path("tests/tasks/detection/") + script +
                                    " " + file + " " + seed);
    if (result.exit_code == 77) GTEST_SKIP() << "SKIPPED: " << result.errors;
    ASSERT_EQ(result.exit_code, 0) << "seed " << seed << "\n" << result.errors;
    auto written = read_json_file(file);
    ASSERT_TRUE(written) << written.error().describe();
    cases = *std::move(written);
    testing::Test::RecordProperty("seed", seed);
    std::printf("%s: seed %s\n", script.c_str(), seed.c_str());
}

/// Calls check(case) for each of 200 random cases and the degenerate ones, with pycocotools' figures.
template <class Check>
void compare_with_pycocotools(const std::string& script, const Check& check) {
    Json cases;
    read_cases(script, cases);
    if (testing::Test::IsSkipped() || testing::Test::HasFatalFailure()) return;
    ASSERT_GE(cases.size(), 213U);
    for (const Json& each : cases) {
        SCOPED_TRACE(each["name"].get<std::string>());
        check(each);
    }
}

} // namespace lathe::test
