#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/compare.hpp"
#include "lathe/compare.hpp"
#include "support/json.hpp"

namespace lathe {

/// What was compared, for those who go on from there (`reduce`).
struct ModelComparison {
    Comparand a, b;          ///< the first's interpreter asks the request's progress
    std::string interpreter; ///< what computed the first, in words; empty: Lathe
    Json libraries;          ///< of it: name → version
    std::vector<HostTensor> inputs;
    CompareOptions options;
    Comparison comparison;
    std::optional<ComparedAnswers> answers; ///< where a task was named
};

Result<ModelComparison> run_comparison(const CompareModelsRequest& request);

/// The result document.
Json comparison_document(const CompareModelsRequest& request, const ModelComparison& made);

} // namespace lathe
