#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace lathe::test {

/// One of ONNX's backend test cases on disk.
struct Case {
    std::string name; ///< "node/test_abs"
    std::filesystem::path folder;
    std::filesystem::path model() const { return folder / "model.onnx"; }
};

/// Folder that write_cases.py filled; empty if none was configured.
inline std::filesystem::path case_folder() {
    const char* variable = std::getenv("LATHE_ONNX_TEST_DATA");
    return variable != nullptr && *variable != '\0' ? variable : LATHE_ONNX_TEST_DATA;
}

inline std::vector<Case> all_cases() {
    std::vector<Case> cases;
    const auto root = case_folder();
    if (root.empty() || !std::filesystem::is_directory(root)) return cases;
    for (const auto& kind : std::filesystem::directory_iterator(root)) {
        if (!kind.is_directory()) continue;
        for (const auto& each : std::filesystem::directory_iterator(kind)) {
            if (!std::filesystem::exists(each.path() / "model.onnx")) continue;
            cases.push_back({kind.path().filename().string() + "/" + each.path().filename().string(), each.path()});
        }
    }
    std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
    return cases;
}

inline constexpr const char* no_cases =
    "SKIPPED: no ONNX test cases. Write them with tests/conformance/write_cases.py FOLDER (needs Python with onnx) and "
    "configure with -DLATHE_ONNX_TEST_DATA=FOLDER";

} // namespace lathe::test
