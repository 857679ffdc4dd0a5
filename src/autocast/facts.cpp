#include "autocast/facts.hpp"

#include <algorithm>
#include <cmath>

#include "support/half.hpp"

namespace lathe {

Result<HalfFormat> half_format_from_name(std::string_view name) {
    if (name == fp16.name) return fp16;
    if (name == bf16.name) return bf16;
    return Error{ErrorCode::invalid_argument, "no 16-bit floating-point format '" + std::string(name) + "'", "--to",
                 "choose fp16 or bf16"};
}

float rounded_to(const HalfFormat& format, float value) {
    return format.type == DataType::float16 ? float_from_half(half_from_float(value))
                                            : float_from_bfloat16(bfloat16_from_float(value));
}

TensorFacts facts_of(const Tensor& tensor, const HalfFormat& format) {
    TensorFacts facts;
    facts.tensor = tensor.name;
    facts.constant = true;
    double lost = 0;
    double whole = 0;
    const auto values = tensor.values<float>();
    facts.values = values.size();
    for (const float value : values) {
        if (!std::isfinite(value)) {
            ++facts.nonfinite;
            continue;
        }
        const double magnitude = std::abs(static_cast<double>(value));
        facts.absmax = std::max(facts.absmax, magnitude);
        whole += magnitude * magnitude;
        if (magnitude > format.largest) {
            ++facts.over.least;
            continue; // its rounding may be infinite
        }
        const float rounded = rounded_to(format, value);
        if (magnitude > 0 && magnitude < format.smallest_normal) ++facts.subnormal.least;
        if (magnitude > 0 && rounded == 0.0F) ++facts.flushed.least;
        const double error = std::isfinite(rounded) ? static_cast<double>(rounded) - static_cast<double>(value) : 0;
        lost += error * error;
    }
    const std::uint64_t finite = facts.values - facts.nonfinite;
    facts.mean_square = finite == 0 ? 0 : whole / static_cast<double>(finite);
    facts.relative_error = whole > 0 ? std::sqrt(lost / whole) : 0;
    facts.over.most = facts.over.least;
    facts.subnormal.most = facts.subnormal.least;
    facts.flushed.most = facts.flushed.least;
    return facts;
}

namespace {

/// Counts the values with |x| < threshold: bins wholly below it surely, the one that holds it perhaps.
CountBounds below(const Histogram& histogram, double threshold) {
    CountBounds counts;
    const double width = histogram.bin_width();
    for (int index = histogram.first_bin(); index < histogram.end_bin(); ++index) {
        const std::uint64_t count = histogram.bin(index);
        if (count == 0) continue;
        // Bin -1 - i mirrors bin i, but for which end belongs to it.
        const double near = width * static_cast<double>(index >= 0 ? index : -1 - index);
        if (near + width <= threshold) counts.least += count;
        if (near < threshold) counts.most += count;
    }
    return counts;
}

} // namespace

TensorFacts facts_of(const std::string& name, const Histogram& histogram, const HalfFormat& format) {
    TensorFacts facts;
    facts.tensor = name;
    facts.absmax = static_cast<double>(histogram.absmax());
    facts.values = histogram.count();
    facts.nonfinite = histogram.nans() + histogram.infinities();
    const double deviation = histogram.standard_deviation();
    facts.mean_square = histogram.mean() * histogram.mean() + deviation * deviation;
    if (facts.absmax == 0) return facts;

    const std::uint64_t used = histogram.finite_count() - histogram.zeros();
    if (facts.absmax > format.largest) {
        const CountBounds within = below(histogram, format.largest);
        facts.over = {std::max<std::uint64_t>(1, used - within.most), used - within.least};
    }
    facts.subnormal = below(histogram, format.smallest_normal);
    facts.flushed = below(histogram, format.smallest_subnormal / 2);
    // Rounding on a grid of step s errs by s^2/12 in the mean. The part of a wide bin that is under the threshold is
    // taken by its share of the bin.
    const double share = std::min(1.0, format.smallest_normal / histogram.bin_width());
    const double count = static_cast<double>(facts.subnormal.least) +
                         share * static_cast<double>(facts.subnormal.most - facts.subnormal.least);
    const double step = format.smallest_subnormal;
    const double lost = std::sqrt(count) * step / std::sqrt(12.0);
    // Values that all become 0 are lost by no more than themselves.
    const double whole = std::sqrt(facts.mean_square) * std::sqrt(static_cast<double>(histogram.finite_count()));
    facts.relative_error = whole > 0 ? std::min(1.0, lost / whole) : 0;
    return facts;
}

} // namespace lathe
