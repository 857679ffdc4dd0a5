#pragma once

#include <cstddef>
#include <memory>
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
    bool whole_batches = false; ///< the source takes batches of just that size
    /// Seconds from the making of the collector after which no further batch is begun, but for the first; 0: no limit.
    /// How many samples are seen then depends on the machine.
    double time_limit_s = 0;
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

/// Runs a source over a dataset (rewound) a part at a time. Memory does not depend on the number of samples. Positions
/// that the input `attention_mask` calls padding are not counted (PositionMask says which those are).
class Collector {
public:
    /// invalid_argument if the batch size is 0. The source, dataset and progress must outlive the collector.
    static Result<Collector> make(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                  Progress& progress);
    Collector(Collector&&) noexcept;
    Collector& operator=(Collector&&) noexcept;
    ~Collector();

    /// Samples that there are to read: `options.samples` of them at most.
    std::size_t available() const;
    /// A histogram a tensor of the next at most `count` samples; none of them seen at the end. The histograms depend
    /// neither on batch size nor on threads nor on the order of the samples.
    /// Fails as the dataset or source fails; internal if the source does not show every tensor once a run; cancelled
    /// after Ctrl-C.
    Result<ActivationStatistics> next(std::size_t count);

private:
    struct State;
    explicit Collector(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

/// Not_found, for a dataset without samples.
Error no_samples();

/// Runs the source over the first samples of the dataset (rewound) and gathers a histogram a tensor. Memory does not
/// depend on the number of samples; the result depends neither on batch size nor on threads nor on the order.
/// Fails as Collector does; not_found if the dataset is empty.
Result<ActivationStatistics> collect(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                     Progress& progress = no_progress());

/// warning for a name that is none.
FindingSeverity severity_from_name(std::string_view name);

/// Adds what is odd about a tensor: always zero, always one value, |x| over 10,000, NaN or infinity.
void check_activation(const std::string& tensor, const Histogram& histogram, std::vector<CalibrationFinding>& findings);

} // namespace lathe
