#include "lathe/calibrate.hpp"

#include "api/calibrate.hpp"
#include "api/model_data.hpp"
#include "calibrate/report.hpp"

namespace lathe {

Calibration::Calibration(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Calibration::Calibration(Calibration&&) noexcept = default;
Calibration& Calibration::operator=(Calibration&&) noexcept = default;
Calibration::~Calibration() = default;

CalibrateRequest request_of(const CalibrationOptions& options, const Data& data) {
    CalibrateRequest request;
    request.data = data.path;
    request.columns = data.columns;
    request.preprocess = PreprocessChoice(options.preprocess);
    request.samples = options.samples;
    request.until_settled = options.until_settled;
    request.batch_size = options.batch_size;
    request.threads = options.threads;
    request.method = options.method;
    request.options.percentile = options.percentile;
    request.options.guard = options.guard;
    return request;
}

Result<Calibration> Calibration::run(const Model& model, Data data, const CalibrationOptions& options) {
    const CalibrateRequest request = request_of(options, data);
    Progress& progress = options.progress != nullptr ? *options.progress : no_progress();
    LATHE_TRY(CalibrateOutcome outcome, data.arrays.empty()
                                            ? calibrate_model(model, request, progress)
                                            : calibrate_arrays(model, std::move(data.arrays), request, progress));
    return Calibration(std::make_unique<Impl>(Impl{std::move(outcome.ranges)}));
}

Result<Calibration> Calibration::load(const std::filesystem::path& path) {
    LATHE_TRY(RangesFile ranges, load_ranges(path));
    return Calibration(std::make_unique<Impl>(Impl{std::move(ranges)}));
}

Result<void> Calibration::save(const std::filesystem::path& path) const { return save_ranges(path, impl_->ranges); }

Method Calibration::method() const { return impl_->ranges.method; }

std::size_t Calibration::samples() const { return impl_->ranges.samples_seen; }

const CalibrationConvergence* Calibration::convergence() const {
    const auto& convergence = impl_->ranges.convergence;
    return convergence ? &*convergence : nullptr;
}

std::vector<CalibratedTensor> Calibration::tensors() const {
    std::vector<CalibratedTensor> tensors;
    for (const auto& [tensor, range, quality] : judge_all(impl_->ranges, NumberFormat::uint8())) {
        tensors.push_back({tensor->name, tensor->histogram.min(), tensor->histogram.max(), range.low, range.high,
                           quality.clipped_fraction, quality.sqnr_db, tensor->fallback});
    }
    return tensors;
}

const std::vector<CalibrationFinding>& Calibration::findings() const { return impl_->ranges.findings; }

} // namespace lathe
