#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/range.hpp"
#include "calibrate/ranges_file.hpp"

namespace lathe {

/// A tensor's range as another tool wrote it down.
struct GivenRange {
    std::string name;
    Range range;
    std::size_t line = 0; ///< of the file; 0 where it has no lines (JSON)
};

/// What the other tool kept of its calibration: ranges without histograms.
struct GivenRanges {
    std::string source; ///< for people: "the calibration cache TRT-8601-EntropyCalibration2"
    /// "TRT-8601-EntropyCalibration2"; empty for other files. Its ranges are symmetric.
    std::string cache_header;
    std::vector<GivenRange> tensors;
};

/// The first line of a calibration cache: TRT-VERSION-ALGORITHM.
struct CacheHeader {
    /// As NV_TENSORRT_VERSION has it: 8601 is 8.6.1, 100300 is 10.3.0. TensorRT calibrates anew, and has no data to do
    /// it with, if this is not its own.
    std::string version = "100300";
    /// What the calibrator of the program that reads it says of itself; trtexec's is EntropyCalibration2.
    std::string algorithm = "EntropyCalibration2";
};

/// "10.3.0", "8.6.1.6" or "8601" as the header has it. invalid_argument for other texts and for versions from 11 on,
/// which have no calibration cache.
Result<std::string> cache_version(std::string_view version);

/// A TensorRT calibration cache: the header, then "NAME: BITS" a line, BITS being the big-endian hexadecimal bits of a
/// float32, the scale: the largest magnitude over 127. Names may hold colons and spaces.
/// Errors: parse_error with the line's number.
Result<GivenRanges> parse_tensorrt_cache(std::string_view text, std::string_view where);
/// The same the other way; a tensor of zeros alone gets the scale 1, as Lathe's own Q/DQ has it.
/// Errors: invalid_argument for a name that no line can hold.
Result<std::string> print_tensorrt_cache(const GivenRanges& ranges, const CacheHeader& header);

/// Dynamic ranges as JSON, an object by tensor name of: a number (the largest magnitude), {"min": LOW, "max": HIGH} or
/// [LOW, HIGH]; or such an object as the member "tensor_scales" (TAO) or "dynamic_ranges" of the document.
/// Errors: parse_error naming the tensor.
Result<GivenRanges> parse_dynamic_ranges(std::string_view text, std::string_view where);
/// {"NAME": MAGNITUDE, ...}, one tensor a line.
std::string print_dynamic_ranges(const GivenRanges& ranges);

/// Reads a file of either kind, which its content tells. Nothing if it is a ranges file of Lathe.
/// Errors: parse_error; io.
Result<std::optional<GivenRanges>> load_given_ranges(const std::filesystem::path& path);

/// The int8 ranges of a calibration of Lathe, to be written for another tool.
GivenRanges given_of(const RangesFile& ranges);

} // namespace lathe
