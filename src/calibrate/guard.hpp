#pragma once

#include <optional>
#include <string_view>

#include "calibrate/estimate.hpp"
#include "calibrate/quantization_error.hpp"
#include "calibrate/ranges_file.hpp"

namespace lathe {

/// A range that throws the signal away, and the one to take instead.
struct Collapse {
    Range range; ///< of the method
    RangeQuality quality;
    Range better; ///< of mse
    RangeQuality better_quality;
};

/// Entropy compares shapes and percentile counts values; neither asks how large the error becomes. Where channels hold
/// one value always (dead ones, their bias), the textbook's entropy cuts right behind such a spike: it keeps 0.7 of the
/// 6 of a ReLU6 in MobileNetV1, which is then right on 0 % of ImageNet.
///
/// A range has collapsed if it clips more than 1 % of the values (zeros included) and its signal to quantisation noise
/// is more than 6 dB, one bit of the eight, below that of mse's range. Both must hold: sound ranges of entropy clip
/// 0.6 % at 27 dB less (large values that are rare; EfficientNet-Lite0), or 1.5 % at no loss (values that pile up at
/// the very end; a photo's white). The ruinous one clips 33 % at 49 dB less.
std::optional<Collapse> find_collapse(const Histogram& histogram, const Range& range, const NumberFormat& format);

/// Whether a method can choose such a range: minmax clips nothing, and mse is what the others are measured against.
bool can_clip_the_signal(Method method);

/// The name of the finding about it: a warning where the guard took mse's range, an error where it was told not to.
inline constexpr std::string_view collapsed_range = "collapsed_range";
CalibrationFinding finding_of(const Collapse& collapse, const TensorRange& tensor, Method method,
                              const EstimateOptions& options);

/// `estimate`, but with `options.guard` mse's range in place of one that has collapsed. `collapse` tells of one either
/// way.
Range guarded_range(const Histogram& histogram, Method method, const NumberFormat& format,
                    const EstimateOptions& options, std::optional<Collapse>* collapse = nullptr);

} // namespace lathe
