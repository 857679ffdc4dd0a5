#pragma once

#include <cstddef>
#include <memory>

#include "tasks/counted.hpp"

namespace lathe {

struct RegressionOptions {
    std::size_t output = 0; ///< which of the model's
    double peak = 0;        ///< the largest value that a picture can have, for PSNR; 0: none is told
};

/// Numbers that should be near others: depth, denoised or enlarged pictures, angles, prices. Answers are Numbers.
/// Figures: the share of the truth's variance that is explained ("r2" = 1 - sum (y - t)^2 / sum (t - mean t)^2, over
/// all values of all samples together), mean absolute error ("mae"), root of the mean squared error ("rmse"), and with
/// a peak PSNR in dB ("psnr" = 20 log10(peak / rmse); NaN where nothing differs). NaN and infinity in an answer count
/// as 0.
std::unique_ptr<CountedTask> make_regression_task(RegressionOptions options);

} // namespace lathe
