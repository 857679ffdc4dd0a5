#pragma once

#include <vector>

#include "compare/compare.hpp"
#include "lathe/compare.hpp"

namespace lathe {

/// What was compared, for those who go on from there (`reduce`).
struct ModelComparison {
    Comparand a, b;
    std::vector<HostTensor> inputs;
    CompareOptions options;
    Comparison comparison;
};

Result<ModelComparison> run_comparison(const CompareModelsRequest& request);

/// The result document.
Json comparison_document(const CompareModelsRequest& request, const Comparison& comparison);

} // namespace lathe
