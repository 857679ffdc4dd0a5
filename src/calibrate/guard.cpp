#include "calibrate/guard.hpp"

#include <cstdio>

namespace lathe {

namespace {

constexpr double tolerated_clipping = 0.01;
constexpr double tolerated_loss_db = 6.0;

} // namespace

std::optional<Collapse> find_collapse(const Histogram& histogram, const Range& range, const NumberFormat& format) {
    Collapse collapse;
    collapse.range = range;
    collapse.quality = judge(histogram, range, format);
    if (collapse.quality.clipped_fraction <= tolerated_clipping) return std::nullopt;
    collapse.better = mse_range(histogram, format, {});
    collapse.better_quality = judge(histogram, collapse.better, format);
    if (collapse.better_quality.sqnr_db - collapse.quality.sqnr_db <= tolerated_loss_db) return std::nullopt;
    return collapse;
}

bool can_clip_the_signal(Method method) { return method != Method::minmax && method != Method::mse; }

CalibrationFinding finding_of(const Collapse& collapse, const TensorRange& tensor, Method method,
                              const EstimateOptions& options) {
    const Histogram& histogram = tensor.histogram;
    char text[240];
    std::snprintf(text, sizeof(text),
                  "%s clips %.1f %% of the values (%.3g..%.3g of %.3g..%.3g), which leaves %.1f dB of signal to noise "
                  "where mse leaves %.1f",
                  to_string(method), collapse.quality.clipped_fraction * 100, static_cast<double>(collapse.range.low),
                  static_cast<double>(collapse.range.high), static_cast<double>(histogram.min()),
                  static_cast<double>(histogram.max()), collapse.quality.sqnr_db, collapse.better_quality.sqnr_db);
    std::string detail = text;
    if (options.guard) {
        detail += "; this tensor has mse's range instead (--method mse gives it to all, --no-guard to none)";
    } else {
        detail += "; it was kept, as --no-guard asked, and may ruin the network: use --method mse";
    }
    return {std::string(collapsed_range), tensor.name, std::move(detail),
            options.guard ? FindingSeverity::warning : FindingSeverity::error};
}

Range guarded_range(const Histogram& histogram, Method method, const NumberFormat& format,
                    const EstimateOptions& options, std::optional<Collapse>* collapse) {
    const Range range = estimate(histogram, method, format, options);
    if (!can_clip_the_signal(method)) return range;
    std::optional<Collapse> found = find_collapse(histogram, range, format);
    const Range kept = found && options.guard ? found->better : range;
    if (collapse != nullptr) *collapse = found;
    return kept;
}

} // namespace lathe
