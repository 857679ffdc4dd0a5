#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/activation_source.hpp"
#include "calibrate/histogram.hpp"
#include "data/dataset.hpp"
#include "lathe/calibrate.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

struct CollectOptions {
    std::size_t samples = 300;  ///< at most; 0 means all
    std::size_t batch_size = 1; ///< samples a run of the source
    std::size_t threads = 0;    ///< runs side by side, where the source can; 0 means all cores
};

struct TensorStatistics {
    std::string name;
    Histogram histogram;
};

struct ActivationStatistics {
    std::vector<TensorStatistics> tensors; ///< in the order of the source's tensors()
    std::size_t samples = 0;               ///< that were really seen
    double seconds = 0.0;                  ///< wall clock of the whole collection
    double inference_seconds = 0.0;        ///< of it, in the source: mean over what ran side by side
    double histogram_seconds = 0.0;        ///< of it, in the histograms; likewise
};

/// Runs the source over the first samples of the dataset (rewound) and gathers a histogram a tensor. Memory does not
/// depend on the number of samples; the result depends neither on batch size nor on threads nor on the order.
/// Fails as the dataset or source fails; not_found if the dataset is empty; internal if the source does not show every
/// tensor once a run; cancelled after Ctrl-C.
Result<ActivationStatistics> collect(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                     Progress& progress = no_progress());

/// warning for a name that is none.
FindingSeverity severity_from_name(std::string_view name);

/// Always zero, always one value, |x| over 10,000, NaN or infinity. In the order of the tensors.
std::vector<CalibrationFinding> check_activations(const std::vector<TensorStatistics>& tensors);

} // namespace lathe
