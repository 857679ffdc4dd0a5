#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/target.hpp"
#include "support/json.hpp"

namespace lathe {

enum class LintSeverity { error, warning, note };

/// One thing that a target's runtime will refuse, compute wrongly (error), run slower than need be (warning), or that
/// is merely worth knowing (note).
struct LintFinding {
    const char* rule = ""; ///< stable name: "int32_bias", "asymmetric_zero_point", ...
    LintSeverity severity = LintSeverity::warning;
    std::string where; ///< node, and tensor where one is meant
    std::string why;
    std::string cure;
};

const char* to_string(LintSeverity severity);

/// Judge a Q/DQ model made by any tool for a target. In graph order; empty means nothing to object to. Only the top
/// graph is judged.
std::vector<LintFinding> lint_quantization(const Model& model, const TargetProfile& profile);

/// [{"rule","severity","where","why","cure"}, ...]
Json to_json(const std::vector<LintFinding>& findings);

} // namespace lathe
