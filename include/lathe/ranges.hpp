#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "lathe/calibrate.hpp"
#include "lathe/data.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Calibration::run with every float32 activation, as calibration caches hold them and `autocast` asks for them, not
/// only those that quantisation may need. The extremes of some go on growing when ranges stand still, so without
/// CalibrationOptions::until_settled, which is left aside here, a fixed number of samples is read.
LATHE_API Result<Calibration> calibrate_every_tensor(const Model& model, Data data,
                                                     const CalibrationOptions& options = {});

/// A form of ranges that another tool reads. It has no histograms.
enum class RangesForm {
    tensorrt_cache, ///< a calibration cache for TensorRT up to 10
    dynamic_ranges, ///< JSON, the largest magnitude a tensor
};
struct RangesFormat {
    RangesForm form = RangesForm::tensorrt_cache;
    std::string tensorrt = "10.3.0"; ///< of a cache: the version that will read it, which takes no other's
    /// Of a cache: the kind of calibrator that will read it; trtexec's is this. It says nothing of how ranges were
    /// found.
    std::string algorithm = "EntropyCalibration2";
};

/// What `lathe convert-ranges` does: ranges of one tool in the form of another.
struct ConvertRangesRequest {
    std::filesystem::path input; ///< ranges file of Lathe, calibration cache of TensorRT, or JSON of dynamic ranges
    std::filesystem::path output = {}; ///< empty: the input's name with .cache or .json
    RangesFormat format = {};
};
struct ConvertRangesResult {
    std::filesystem::path output;
    std::string source; ///< "a calibration of Lathe", "the calibration cache TRT-8601-EntropyCalibration2"
    std::size_t tensors = 0;
    bool ours =
        false; ///< a ranges file of Lathe, which may lack tensors that TensorRT asks for (calibrate_every_tensor)
};
/// Writes the file, whole or not at all. Errors: invalid_argument (a version of TensorRT without such caches, a name
/// that no cache can hold, the output is the input), not_found, parse_error naming line or tensor, corrupt, io.
LATHE_API Result<ConvertRangesResult> convert_ranges(const ConvertRangesRequest& request);

/// Write the int8 ranges of a calibration for another tool, whole or not at all; TensorRT wants those of every tensor.
/// Errors: as of convert_ranges.
LATHE_API Result<void> write_ranges(const Calibration& calibration, const std::filesystem::path& path,
                                    const RangesFormat& format = {});

} // namespace lathe
