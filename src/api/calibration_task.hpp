#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/calibrate.hpp"
#include "calibrate/collect.hpp"
#include "data/checks.hpp"
#include "data/open_dataset.hpp"
#include "graph/graph.hpp"

// What calibrating on one machine and on several have in common.
namespace lathe {

/// What can be said before the data are opened.
struct CalibrationTask {
    const Model& model;
    std::vector<std::string> tensors;
    std::vector<InputSpec> inputs;
    std::size_t batch_size = 1;

    /// Of more than one sample, that the data give one by one.
    bool has_fixed_batch() const;
};

/// Errors: invalid_argument (nothing to calibrate, options that contradict the model), out_of_range (NaN in the
/// weights).
Result<CalibrationTask> make_calibration_task(const Model& model, const CalibrateRequest& request);

/// Which samples calibration reads, and in what order.
DatasetOptions reading_order(const CalibrateRequest& request);

struct CalibrationData {
    std::unique_ptr<Dataset> dataset;
    std::optional<Preprocess> preprocess; ///< of files
};

/// `arrays`, or where there are none `request.data`, in the order in which calibration reads; with `part` those alone
/// (arrays then hold just them). The task's batches are of one where a sample is all that the model takes at once.
Result<CalibrationData> open_calibration_data(CalibrationTask& task, std::vector<HostTensor> arrays,
                                              const CalibrateRequest& request,
                                              std::optional<SampleSpan> part = std::nullopt);

/// Reads all samples for their digest.
Result<RangesKey> ranges_key(const CalibrationTask& task, const CalibrationData& data, const CalibrateRequest& request);

/// To run `wanted` samples at most: a fixed batch cannot be run in part. Errors: out_of_range, for fewer than a batch.
Result<CollectOptions> collect_options(const CalibrationTask& task, std::size_t wanted,
                                       const CalibrateRequest& request);

/// What the model was trained with, as its metadata say, whatever --preprocess says; of a model that says nothing what
/// --preprocess says.
DataExpectations data_expectations(const Model& model, const std::optional<Preprocess>& given);

/// Those about the data and the activations, before those about the ranges, which are there already.
void add_findings(RangesFile& ranges, const DataChecks& checks);

} // namespace lathe
