#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/ranges_file.hpp"
#include "correct/run.hpp"
#include "graph/graph.hpp"
#include "quantize/placement.hpp"
#include "support/progress.hpp"

namespace lathe {

struct RangeChoiceOptions {
    std::size_t positions = 2048; ///< of each layer's output
    std::size_t threads = 0;
    std::shared_ptr<SpareMemory> spare = nullptr; ///< Walk::start's
};

/// A tensor whose range was chosen among candidates.
struct RangeChoice {
    std::string tensor;
    std::string method;  ///< "mse", "minmax", ..., or "90 %" of the whole range
    double before = 0.0; ///< noise to signal of what reads it, with the range that it had
    double after = 0.0;
};

struct RangeChoices {
    std::map<std::string, Range> ranges; ///< QuantizeOptions::chosen: every tensor of a scale group that changed
    std::vector<RangeChoice> changed;
    std::size_t looked_at = 0; ///< scale groups
};

/// For every scale group that layers (or a GlobalAveragePool) read: the range with the least error of the readers'
/// outputs, sum |W (x - q(x))|^2 / sum |W x|^2 over sampled output positions. The histogram alone cannot tell: values
/// that are rare may carry the answer (what a classifier reads behind its pooling), and noise of many small ones
/// cancels in a sum.
/// Candidates: the four methods' and shares of the whole range. `quantized` is the model as it is, `plan` its plan.
/// Errors: what running the model gives; cancelled.
Result<RangeChoices> choose_ranges(const Model& real, const Model& quantized, const QuantizationPlan& plan,
                                   const RangesFile& ranges, const std::map<std::string, Batches>& samples,
                                   const RangeChoiceOptions& options, Progress& progress);

} // namespace lathe
