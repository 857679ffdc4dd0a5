#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "correct/channel_classes.hpp"
#include "correct/run.hpp"
#include "graph/graph.hpp"
#include "lathe/quantize.hpp"
#include "support/progress.hpp"

namespace lathe {

struct EqualizeOptions {
    bool convolutions = true;   ///< classes that Conv and Gemm write (cross-layer equalisation)
    bool normalizations = true; ///< classes that a LayerNormalization writes (SmoothQuant)
    std::size_t threads = 0;
    std::vector<std::string> stays_float = {}; ///< outputs of layers that will not be quantised: what they err counts 0
    std::vector<std::string> stays_as_is =
        {}; ///< values that must not be scaled: ranges are given for them as they are
    WeightGranularity weights = WeightGranularity::per_channel;
    ActivationScheme activations = ActivationScheme::asymmetric;
};

struct EqualizeOutcome {
    Model model;               ///< computes the same, up to rounding and, with a cap, for values up to their level
    std::size_t classes = 0;   ///< that were looked at
    std::size_t fired = 0;     ///< whose factors are not all 1
    std::size_t left = 0;      ///< more of them, that hold a value which must not be scaled
    double noise_before = 0.0; ///< predicted, summed over the classes that fired
    double noise_after = 0.0;
};

/// Cross-layer equalisation. M. Nagel et al., 2019 (arXiv:1906.04721), section 4.1, equalise the weights of a pair of
/// layers, both with one scale a tensor. Where the writer's weights have a scale a channel its side is free, and what
/// is equalised is the activation between them against the reader's weights; with one scale the writer's side counts
/// too, and since a layer's weights are then in the scales of two classes, all classes are gone through again until the
/// noise stands still, as there. Classes may be pairs, depthwise triples or a whole residual stream.
/// Errors: what running the model gives; cancelled.
Result<EqualizeOutcome> equalize(const Model& real, const std::map<std::string, Batches>& samples,
                                 const EqualizeOptions& options, Progress& progress);

} // namespace lathe
