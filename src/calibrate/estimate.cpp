#include "calibrate/estimate.hpp"

#include <array>

namespace lathe {

namespace {

// In the order of Method.
constexpr std::array<Estimator, 4> all_estimators{{
    {Method::minmax, "minmax", "the whole range seen", &minmax_range},
    {Method::percentile, "percentile", "clip the outermost values (--percentile, default 99.99)", &percentile_range},
    {Method::entropy, "entropy", "least Kullback-Leibler divergence (TensorRT's rule)", &entropy_range},
    {Method::mse, "mse", "least squared quantisation error", &mse_range},
}};

class HistogramCalibrator final : public Calibrator {
public:
    HistogramCalibrator(Method method, const NumberFormat& format, const EstimateOptions& options)
        : method_(method), format_(format), options_(options) {}

protected:
    void do_observe(std::span<const float> values) override { histogram_.observe(values); }
    Range do_range() const override { return estimate(histogram_, method_, format_, options_); }

private:
    Histogram histogram_;
    Method method_;
    NumberFormat format_;
    EstimateOptions options_;
};

} // namespace

std::span<const Estimator> estimators() { return all_estimators; }

const char* to_string(Method method) { return all_estimators[static_cast<std::size_t>(method)].name; }

Result<Method> method_from_name(std::string_view name) {
    std::string known;
    for (const Estimator& estimator : all_estimators) {
        if (name == estimator.name) return estimator.method;
        known += (known.empty() ? "" : ", ") + std::string(estimator.name);
    }
    return Error{ErrorCode::invalid_argument, "there is no calibration method '" + std::string(name) + "'", "",
                 "use one of " + known};
}

Result<void> check(const EstimateOptions& options) {
    if (options.percentile > 0.0 && options.percentile <= 100.0) return {};
    return Error{ErrorCode::invalid_argument, "a percentile must be over 0 and at most 100", "",
                 "99.99 keeps all but one value in 10,000"};
}

Range estimate(const Histogram& histogram, Method method, const NumberFormat& format, const EstimateOptions& options) {
    return all_estimators[static_cast<std::size_t>(method)].estimate(histogram, format, options);
}

std::unique_ptr<Calibrator> make_calibrator(Method method, const NumberFormat& format, const EstimateOptions& options) {
    return std::make_unique<HistogramCalibrator>(method, format, options);
}

} // namespace lathe
