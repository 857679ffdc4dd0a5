#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/collect.hpp"
#include "calibrate/estimate.hpp"
#include "support/json.hpp"

namespace lathe {

/// What a calibration belongs to. Where used as an expectation, empty texts and 0 mean: not asked.
struct RangesKey {
    std::string model;          ///< calibration_key of the model
    std::string data;           ///< Dataset::digest: files and preprocessing
    std::string preprocess;     ///< the preprocessing as compact JSON, to tell it from other data in messages
    std::size_t samples = 0;    ///< asked for (there may have been fewer)
    bool until_settled = false; ///< asked for at most, until the ranges stand still
};

/// One tensor: its histogram, and the ranges that the file's method finds for the two usual formats.
struct TensorRange {
    std::string name;
    Histogram histogram;
    Range uint8; ///< for NumberFormat::uint8()
    Range int8;  ///< for NumberFormat::int8()
    /// The guard put mse's range in place of the method's, for one of the formats or both.
    bool fallback = false;
};

/// A calibration as stored (`m.ranges`). It keeps the histograms: another method, percentile or number format needs no
/// second run of the model.
struct RangesFile {
    RangesKey key;
    std::size_t samples_seen = 0;
    Method method = Method::mse;
    EstimateOptions options;
    std::vector<TensorRange> tensors;
    std::optional<CalibrationConvergence> convergence; ///< of a calibration that read until_settled
    std::vector<CalibrationFinding> findings;          ///< kept, so that reusing the file repeats its warnings
    /// Where another tool's ranges came from, which have no histograms and thus no method, and may lack tensors. Empty
    /// for a calibration of Lathe. Never stored.
    std::string source;

    const TensorRange* find(std::string_view tensor) const;
    /// By the file's method and options, guarded if they say so. {0, 0} for a tensor of zeros.
    Range range(const TensorRange& tensor, const NumberFormat& format) const;
};

/// The method's ranges for every tensor, on `threads` threads (0: all cores), with the guard's findings.
RangesFile make_ranges(ActivationStatistics statistics, RangesKey key, Method method, const EstimateOptions& options,
                       std::size_t threads = 0);
/// The same histograms under another method or option. The guard's findings become those of the new ranges, the others
/// stay.
void reestimate(RangesFile& ranges, Method method, const EstimateOptions& options, std::size_t threads = 0);

/// What such a file holds: JSON, one tensor a line.
std::string to_text(const RangesFile& ranges);
/// Written whole or not at all.
Result<void> save_ranges(const std::filesystem::path& path, const RangesFile& ranges);

/// parse_error if it is no ranges file, unsupported if it is of a newer version, corrupt if it is truncated, changed
/// or contradicts itself. Any bytes are safe to read.
Result<RangesFile> load_ranges(const std::filesystem::path& path);
/// The text of a file; `where` is named in errors.
Result<RangesFile> parse_ranges(std::string_view text, std::string_view where);

/// mismatch with the exact reason (another model, other preprocessing, other data, another number of samples, tensors
/// that were not observed) unless the file is what `expected` asks and covers `tensors`.
Result<void> validate_ranges(const RangesFile& ranges, const RangesKey& expected,
                             std::span<const std::string> tensors = {});

/// What `quantize` asks: the file was made for this very model (mismatch), and every tensor in it exists there
/// (mismatch, with the names).
Result<void> validate_ranges(const RangesFile& ranges, const Model& model);

} // namespace lathe
