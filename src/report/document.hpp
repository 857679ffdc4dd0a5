#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe::report {

/// One result file.
struct Input {
    std::string name; ///< the file, for errors and for the provenance
    Json json;
};

struct DocumentOptions {
    /// Judge afresh with this limit, in points; without it a verdict found in the results is kept.
    std::optional<double> max_drop_points;
    std::string title;   ///< shown above the verdict; "" takes the model's name
    std::string command; ///< the command line that makes the report
    std::string version; ///< of lathe
    std::size_t worst_histograms = 6;
};

/// One document from any set of results: what the page is made of.
///
/// A part given by its own file takes the place of the same part inside an optimize result, and the verdict is then
/// made anew. Evaluations of the same data are put together; two benchmarks are refused (invalid_argument), since times
/// of separate runs must not be compared. Only the `worst_histograms` tensors of lowest SQNR keep their histogram,
/// merged to at most 128 bins. Every subject gets a "label" (see subject_label), the document "notes" drawn from the
/// data: what did not settle, what could not be measured. Errors: those of validate_result.
Result<Json> make_document(std::vector<Input> inputs, const DocumentOptions& options = {});

} // namespace lathe::report
