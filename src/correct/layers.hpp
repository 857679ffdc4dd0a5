#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "correct/run.hpp"
#include "graph/graph.hpp"
#include "lathe/quantize.hpp"
#include "support/progress.hpp"

namespace lathe {

/// From what a layer's correction is computed.
enum class LayerInputs {
    /// Its float input, quantised. One walk; what earlier layers did is not seen ("fast").
    own_error,
    /// What the quantised network gives it, all layers before it being corrected already ("exact", sequential).
    network_error,
};

struct LayerCorrection {
    bool rounding = false; ///< choose each int8 weight for least output error, where samples kept apart gain
    /// Rounding is tried where so many positions stand against each element of a row: with fewer, what it finds suits
    /// these samples alone (MobileNetV1 gains up to 192 elements with 3,072 positions, and loses from 384 on).
    std::size_t positions_per_element = 12;
    bool bias = false; ///< give the bias the output's mean error, as it is after the rounding
    LayerInputs inputs = LayerInputs::network_error;
    std::size_t positions = 8192; ///< output positions looked at, at most about this many a layer
    double damping = 0.01;        ///< of the mean of the Hessian's diagonal
    int sweeps = 4;
    std::size_t threads = 0;
    std::shared_ptr<SpareMemory> spare = nullptr; ///< Walk::start's
};

/// What was done to one layer.
struct CorrectedLayer {
    std::string node;
    std::string op_type;
    bool rounded = false;
    bool bias = false;
    bool too_few = false;    ///< too few positions for its size: rounding was not tried
    double moved = 0.0;      ///< share of the weights that rounding changes
    double check_fall = 0.0; ///< of the noise on samples kept apart: 1 - rounded / nearest, 0 where it was not tried
    double bias_shift = 0.0; ///< root mean square over its channels
    std::string skipped;     ///< why nothing was done; empty otherwise
};

/// Corrects the layers of `quantized` (explicit Q/DQ with int8 weights) in graph order so that their outputs follow
/// those of `real`, whose values have the same names, as `target` runs it (`as_run`). Structure, scales and zero points
/// stay; only int8 weights and float biases change. M. Nagel et al., 2019 (arXiv:1906.04721), section 4.2, for the
/// bias; `rounding.hpp` for the weights. Errors: what running the network gives; cancelled.
/// `nearest`: a copy of `quantized` that is to get biases alone: what the same walk finds them to be for the weights as
/// they are, behind layers that are corrected. nullptr: none.
Result<std::vector<CorrectedLayer>> correct_layers(const Model& real, Model& quantized, Target target,
                                                   const std::map<std::string, Batches>& samples,
                                                   const LayerCorrection& options, Progress& progress,
                                                   Model* nearest = nullptr);

} // namespace lathe
