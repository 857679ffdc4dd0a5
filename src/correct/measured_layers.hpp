#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "correct/judge.hpp"
#include "correct/samples.hpp"
#include "quantize/quantize.hpp"

namespace lathe {

struct MeasuredLayerLimits {
    double cost = 0.02;       ///< of a layer in float, as LayerNoise::cost; more is not looked at
    double all = 0.06;        ///< of all that are left in float
    double gain = 0.02;       ///< of the error at the outputs that a layer must take away
    double worth_while = 0.1; ///< the same of all candidates together, or none is measured
    std::size_t noisiest = 5; ///< candidates: of the largest estimated noise,
    std::size_t first = 4;    ///< and, of the others, the first in the graph: what they err grows on its way
    std::size_t samples = 6;  ///< at least, that networks are compared on
};

/// What leaving a layer in float does to the error at the network's outputs.
struct MeasuredLayer {
    std::string name;
    double cost = 0.0;
    double gain = 0.0; ///< share of the error that is gone
};

/// Cheap int8 layers that the answer depends on most, found by running the network without each: the estimate from
/// histograms (LayerNoise) does not see what becomes of an error on its way. Most gain for the cost first. Layers whose
/// name is not theirs alone are left out. Compared on the samples to fit on. `now` was quantised with noisy_in_float
/// from `real` as `options` say. Errors: as quantize_model and Judge.
Result<std::vector<MeasuredLayer>> measure_cheap_layers(const Model& real, const RangesFile& ranges,
                                                        const QuantizeOptions& options, const QuantizeOutcome& now,
                                                        const KeptSamples& samples, std::size_t threads,
                                                        Progress& progress, const MeasuredLayerLimits& limits = {});

} // namespace lathe
