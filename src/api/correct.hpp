#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "correct/correct.hpp"
#include "data/preprocess.hpp"

namespace lathe {

/// Where the samples come from that a correction looks at: the calibration's data.
struct CorrectData {
    std::filesystem::path data;
    std::string columns;                  ///< of a text file
    std::optional<Preprocess> preprocess; ///< absent: the model's metadata, if it has any
    std::vector<HostTensor> arrays = {};  ///< instead of a path: one a model input; axis 0 is the sample
};

/// quantize_model and the corrections asked for, on samples that `open` gives, in the batches that the model takes.
/// Errors: as quantize_corrected; invalid_argument (the ranges are given ones, without the histograms that some
/// corrections need).
Result<CorrectOutcome> quantize_on_samples(const Model& model, const RangesFile& ranges,
                                           const QuantizeOptions& quantize, const CorrectOptions& options,
                                           const OpenData& open, Progress& progress);

/// quantize_model and the corrections asked for, on data as the command line names them, or on arrays. Without any
/// correction the data are not opened. Errors: as quantize_corrected; what the data give; invalid_argument (no data).
Result<CorrectOutcome> quantize_on_data(const Model& model, const RangesFile& ranges, const QuantizeOptions& quantize,
                                        const CorrectOptions& options, const CorrectData& data, Progress& progress);

} // namespace lathe
