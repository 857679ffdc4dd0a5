#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "correct/channel_classes.hpp"
#include "correct/run.hpp"
#include "correct/samples.hpp"
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
    std::set<std::string> from_zero = {}; ///< values that have all steps from 0 up all the same (ScaleGroup::from_zero)
    /// Outputs of the int8 MatMuls whose input a Mul of its own may scale (scaled_inputs); empty: none.
    std::set<std::string> scaled_in_front = {};
    std::shared_ptr<SpareMemory> spare = nullptr; ///< Walk::start's
};

struct EqualizeOutcome {
    Model model;               ///< computes the same, up to rounding and, with a cap, for values up to their level
    std::size_t classes = 0;   ///< that were looked at
    std::size_t fired = 0;     ///< whose factors are not all 1
    std::size_t left = 0;      ///< more of them, that hold a value which must not be scaled
    std::size_t in_front = 0;  ///< of those that fired, those that a Mul of their own scales
    double noise_before = 0.0; ///< predicted, summed over the classes that fired
    double noise_after = 0.0;
};

/// Cross-layer equalisation. M. Nagel et al., 2019 (arXiv:1906.04721), section 4.1, equalise the weights of a pair of
/// layers, both with one scale a tensor. Where the writer's weights have a scale a channel its side is free, and what
/// is equalised is the activation between them against the reader's weights; with one scale the writer's side counts
/// too, and since a layer's weights are then in the scales of two classes, all classes are gone through again until the
/// noise stands still, as there. Classes may be pairs, depthwise triples or a whole residual stream. Where no weight
/// before an activation can take its factors, a Mul may (scaled_inputs).
/// Errors: what running the model gives; cancelled.
Result<EqualizeOutcome> equalize(const Model& real, const std::map<std::string, Batches>& samples,
                                 const EqualizeOptions& options, Progress& progress);

} // namespace lathe
