#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/preprocess.hpp"
#include "evaluate/evaluate.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"

namespace lathe {

/// A predictor that gives several outputs from one run.
class OutputsPredictor : public Predictor {
public:
    /// As `predict`, one tensor an output, in the order in which they were asked for; `predict` gives the first.
    virtual Result<std::vector<HostTensor>> predict_all(const Batch& batch) = 0;
};

/// What several outputs hold.
enum class OutputsHold {
    scores,     ///< floating point, a row a sample
    numbers,    ///< any numbers, a row a sample
    one_sample, ///< any numbers without an axis for the sample: predict_all takes batches of one
};

/// As below, for several outputs (at least one).
Result<std::unique_ptr<OutputsPredictor>> make_outputs_predictor(const Engine& engine, std::string name,
                                                                 const std::vector<std::string>& outputs,
                                                                 std::optional<Preprocess> on_device = std::nullopt,
                                                                 OutputsHold hold = OutputsHold::scores);

/// An engine as a predictor of one of its outputs, converted to float32 where it is half precision.
/// `name` is how results call it; `output` names the output, empty for the first.
/// Batches outside the engine's profile are split, and short ones padded, where the profile demands it.
/// `on_device`: preprocessing for batches of pictures, which the engine's device does then.
/// Errors: not_found (no such output), unsupported (an output that is not floating point).
Result<std::unique_ptr<Predictor>> make_engine_predictor(const Engine& engine, std::string name,
                                                         const std::string& output = {},
                                                         std::optional<Preprocess> on_device = std::nullopt);

} // namespace lathe
