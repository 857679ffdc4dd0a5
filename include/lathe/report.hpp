#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe report` does: results become one self-contained HTML file.
struct ReportRequest {
    std::vector<std::filesystem::path> results; ///< JSON files of optimize, bench, eval, ...; one of each kind at most
    std::filesystem::path output = "report.html";
    std::filesystem::path charts = {};   ///< folder for every chart as PNG, which needs Chromium; empty: none
    std::string title = {};              ///< empty: the model's name
    std::optional<double> max_drop = {}; ///< judge afresh: the largest acceptable loss of top-1, in points
    std::string command_line = {};       ///< for the record
    Progress* progress = nullptr;        ///< nullptr: silent
};

struct ReportResult {
    std::filesystem::path output;
    std::vector<std::filesystem::path> charts;
    std::string verdict;          ///< one line; empty where the results hold too little for one
    std::string verdict_document; ///< with its reasons, as JSON text: what `lathe report --json` prints; may be empty
};

/// Errors: invalid_argument (no results, two benchmarks, which must not be compared), not_found, parse_error and
/// mismatch (a file that is no result), io, unsupported (charts without Chromium).
LATHE_API Result<ReportResult> write_report(const ReportRequest& request);

} // namespace lathe
