#pragma once

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/cases.hpp"
#include "support/files.hpp"

namespace lathe::test {

/// A file that names the cases which are not done, with the reason: NAME<TAB>REASON, `#` begins a remark. A reason that
/// begins with `on_some` is of a case that passes on other processors.
struct ExceptionsList {
    std::string path;
    std::string remark;  ///< what the list is of: "the CPU backend does not do"
    std::string program; ///< which writes it with --update-list
};

inline std::map<std::string, std::string> read_list(const ExceptionsList& exceptions) {
    std::map<std::string, std::string> list;
    std::ifstream file(exceptions.path);
    for (std::string line; std::getline(file, line);) {
        const auto tab = line.find('\t');
        if (line.empty() || line.front() == '#' || tab == std::string::npos) continue;
        list[line.substr(0, tab)] = line.substr(tab + 1);
    }
    return list;
}

inline constexpr std::string_view on_some = "on some CPUs: ";

/// Fails the test for a listed case that passes (its verdict is empty) and for one not listed that fails. Returns how
/// many pass.
inline std::size_t compare_with_list(const ExceptionsList& exceptions, const std::vector<Case>& cases,
                                     const std::vector<std::string>& verdicts) {
    const auto list = read_list(exceptions);
    EXPECT_FALSE(list.empty()) << exceptions.path;
    std::size_t passed = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto found = list.find(cases[i].name);
        const bool listed = found != list.end();
        passed += verdicts[i].empty() ? 1 : 0;
        if (listed && found->second.starts_with(on_some)) continue;
        if (verdicts[i].empty() && listed) {
            ADD_FAILURE() << cases[i].name << " passes but is listed; run this binary with --update-list";
        } else if (!verdicts[i].empty() && !listed) {
            ADD_FAILURE() << cases[i].name << ": " << verdicts[i];
        }
    }
    std::cout << passed << " of " << cases.size() << " models give the recorded outputs, " << list.size()
              << " are listed with a reason\n";
    return passed;
}

/// Writes the list anew from verdicts of all cases; returns the exit code.
inline int update_list(const ExceptionsList& exceptions, const std::vector<Case>& cases,
                       const std::vector<std::string>& verdicts) {
    const auto list = read_list(exceptions);
    std::ostringstream text;
    text << "# ONNX backend tests that " << exceptions.remark << ", with the reason: NAME<TAB>REASON.\n"
         << "# Written by " << exceptions.program << " --update-list; a case listed here that passes fails the test.\n";
    std::size_t listed = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto before = list.find(cases[i].name);
        const bool varies = before != list.end() && before->second.starts_with(on_some);
        if (verdicts[i].empty() && !varies) continue;
        text << cases[i].name << '\t' << (varies ? before->second : verdicts[i]) << '\n';
        ++listed;
    }
    if (const auto written = write_file(exceptions.path, text.str()); !written) {
        std::cerr << written.error().describe() << '\n';
        return 1;
    }
    std::cout << cases.size() - listed << " pass, " << listed << " listed in " << exceptions.path << '\n';
    return 0;
}

} // namespace lathe::test
