#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "calibrate/estimators.hpp"
#include "calibrate/histogram.hpp"
#include "calibrate/range.hpp"
#include "lathe/calibrate.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// A range estimator as the command line lists it.
struct Estimator {
    Method method;
    const char* name;
    const char* summary;
    Range (*estimate)(const Histogram&, const NumberFormat&, const EstimateOptions&);
};

/// All of them, in the order of `Method`.
std::span<const Estimator> estimators();

/// invalid_argument unless 0 < percentile <= 100.
Result<void> check(const EstimateOptions& options);

/// The range that `method` finds best for this format. A NaN or infinity in the tensor is left out of account.
Range estimate(const Histogram& histogram, Method method, const NumberFormat& format,
               const EstimateOptions& options = {});

/// Watches one tensor and says its range: the seam for range estimation that is not over a Histogram.
class Calibrator {
public:
    virtual ~Calibrator() = default;
    /// Any number of calls, any split of the values.
    void observe(std::span<const float> values) { do_observe(values); }
    /// The range of all that was observed so far.
    Range range() const { return do_range(); }

protected:
    virtual void do_observe(std::span<const float> values) = 0;
    virtual Range do_range() const = 0;
};

/// A calibrator that keeps a Histogram and asks `estimate`.
std::unique_ptr<Calibrator> make_calibrator(Method method, const NumberFormat& format,
                                            const EstimateOptions& options = {});

} // namespace lathe
