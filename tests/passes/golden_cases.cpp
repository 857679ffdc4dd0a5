#include "passes/golden_cases.hpp"
#include "support_lib/places.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace lathe::test {

std::vector<GoldenCase> golden_cases() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/passes/cases")))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<GoldenCase> cases;
    for (const auto& file : files) {
        std::ifstream stream(file);
        bool after = false;
        for (std::string line; std::getline(stream, line);) {
            if (line.starts_with("== ") || line.starts_with("=~ ")) {
                cases.push_back({file.stem().string(), line.substr(3), "", "", line.starts_with("== ")});
                after = false;
            } else if (line == "---") {
                after = true;
            } else if (!cases.empty() && line != "unchanged") {
                (after ? cases.back().after : cases.back().before) += line + "\n";
            }
        }
    }
    for (GoldenCase& each : cases) {
        if (each.after.find_first_not_of(" \n") == std::string::npos) each.after.clear();
    }
    return cases;
}

} // namespace lathe::test
