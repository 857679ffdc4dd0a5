#pragma once

#include <vector>

#include "calibrate/quantization_error.hpp"
#include "calibrate/ranges_file.hpp"
#include "support/json.hpp"

namespace lathe {

/// A tensor with its range in one format.
struct JudgedTensor {
    const TensorRange* tensor;
    Range range;
    RangeQuality quality;
};

/// All of them, in the order of the file.
std::vector<JudgedTensor> judge_all(const RangesFile& ranges, const NumberFormat& format);

/// The calibration as the report reads it ("kind": "calibration", `seconds` being what it took): a tensor's extremes,
/// range, clipped fraction, signal to quantisation noise (null when there is no noise), "fallback" (true where the
/// guard took mse's range) and a histogram thinned to at most 256 bins (edges are one more than counts; exact zeros are
/// in the bin that holds zero). Worst signal to noise first.
Json calibration_to_json(const RangesFile& ranges, const NumberFormat& format, double seconds);

Json to_json(const CalibrationFinding& finding);

} // namespace lathe
