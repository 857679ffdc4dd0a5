#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "correct/run.hpp"
#include "data/dataset.hpp"
#include "data/position_mask.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Samples kept in memory: some to correct on, others to judge on. No sample is in both.
struct KeptSamples {
    std::map<std::string, Batches> fit;
    std::map<std::string, Batches> held_back;
    std::size_t fit_count = 0;
    std::size_t held_back_count = 0;
};

/// Takes `fit` + `held_back` samples, or all there are in the same proportion, spread over the dataset (rewound) and
/// alternating, in batches of `batch_size`. The rest of an incomplete batch is left out where the batch size is fixed.
/// Errors: as the dataset gives them; not_found with fewer than two batches; cancelled.
Result<KeptSamples> keep_samples(Dataset& dataset, std::size_t fit, std::size_t held_back, std::size_t batch_size,
                                 Progress& progress);

/// Where the batches of kept samples are padded, an entry a batch; empty if none is. Padding is left out of everything
/// that is measured: the positions of layers, the statistics of channels, the judgement.
using Masks = std::vector<std::optional<PositionMask>>;
Masks masks_of(const std::map<std::string, Batches>& samples);

} // namespace lathe
