#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "quantize/insert.hpp"
#include "quantize/pairs.hpp"

namespace lathe {
namespace {

constexpr float least_scale = std::numeric_limits<float>::min(); // the smallest normal number

/// In double, since the sum of two floats may exceed the largest one.
float scale_from(double absmax, double limit) {
    if (absmax == 0.0) return 1.0F;
    return std::max(static_cast<float>(absmax / limit), least_scale);
}

/// std::nearbyint(x) for |x| < 2^22, in the default rounding mode; a call for each of millions of weights else.
float nearest(float x) {
    constexpr float shift = 0x1.8p23F;
    return x + shift - shift;
}

/// One channel of a weight seen as [outer, channels, inner]: runs of `inner` elements, `stride` apart.
struct Channel {
    std::size_t first;
    std::size_t inner;
    std::size_t stride;
    std::size_t outer;
};

// Rounds a channel so that its rounding errors add up to nothing. The output's mean error is sum_i E[x_i] (q_i - w_i),
// and after ReLU-like activations the E[x_i] are alike, so it is nearly E[x] times that sum. Nearest rounding leaves
// the sum to chance; here, as many weights as it takes, those nearest to the middle between two steps, are rounded the
// other way, unless their pair could then overflow. (The bias that M. Nagel et al., arXiv:1906.04721, correct
// afterwards from data.)
void balance(const Channel& channel, std::span<const float> values, float scale, std::span<std::int8_t> quantized,
             float limit, const WeightPairs& pairs) {
    double sum = 0.0;
    std::vector<std::pair<float, std::size_t>> errors;
    errors.reserve(channel.outer * channel.inner);
    for (std::size_t run = 0; run < channel.outer; ++run) {
        const std::size_t first = channel.first + run * channel.stride;
        for (std::size_t at = first; at < first + channel.inner; ++at) {
            const float error = static_cast<float>(quantized[at]) - values[at] / scale;
            sum += static_cast<double>(error);
            errors.emplace_back(error, at);
        }
    }
    const double excess = std::nearbyint(sum);
    if (excess == 0.0) return;
    const bool down = excess > 0.0;
    // Room for one step more, since the other one may move as well.
    if (!pairs.empty()) {
        std::erase_if(errors, [&](const auto& each) {
            const auto other = pairs.other(each.second);
            if (!other) return false;
            const int together = quantized[each.second] + (down ? -1 : 1) + quantized[*other];
            return std::abs(together) >= most_of_a_pair;
        });
    }
    const auto moves = std::min(static_cast<std::size_t>(std::abs(excess)), errors.size());
    if (moves == 0) return;
    const auto worse = [down](const auto& a, const auto& b) { return down ? b < a : a < b; };
    const auto end = errors.begin() + static_cast<std::ptrdiff_t>(moves);
    std::nth_element(errors.begin(), end - 1, errors.end(), worse);
    for (auto each = errors.begin(); each != end; ++each) {
        const float moved = static_cast<float>(quantized[each->second]) + (down ? -1.0F : 1.0F);
        quantized[each->second] = static_cast<std::int8_t>(std::clamp(moved, -limit, limit));
    }
}

} // namespace

QuantizationParameters parameters_of(const Range& range, const NumberFormat& format) {
    if (range.low == 0.0F && range.high == 0.0F) return {};
    if (format.symmetric) {
        const int half = (format.levels - 1) / 2;
        return {scale_from(static_cast<double>(std::max(-range.low, range.high)), half), 0};
    }
    // In double: high - low may exceed the largest float.
    const double width = static_cast<double>(range.high) - static_cast<double>(range.low);
    const double scale = std::max(width / (format.levels - 1), static_cast<double>(least_scale));
    const auto narrowed = static_cast<float>(std::min(scale, static_cast<double>(std::numeric_limits<float>::max())));
    const double zero = std::nearbyint(-static_cast<double>(range.low) / static_cast<double>(narrowed));
    return {narrowed, static_cast<std::int64_t>(std::clamp(zero, 0.0, static_cast<double>(format.levels - 1)))};
}

QuantizationParameters parameters_from_zero(const Range& range) {
    QuantizationParameters parameters = parameters_of({0.0F, range.high}, NumberFormat::uint8());
    parameters.zero_point = -128;
    return parameters;
}

Result<QuantizedTensorData> quantize_weight(const Tensor& weight, const WeightForm& form) {
    const std::span<const float> values = weight.values<float>();
    for (const float value : values) {
        if (std::isfinite(value)) continue;
        return Error{ErrorCode::out_of_range, "the weights hold NaN or infinity", weight.name,
                     "the model is damaged or diverged in training; lathe inspect names all such tensors. To leave "
                     "this one alone: --exclude its node"};
    }
    // The weight seen as [outer, channels, inner].
    std::size_t channels = 1;
    std::size_t inner = values.size();
    if (form.axis) {
        const auto at = static_cast<std::size_t>(*form.axis);
        channels = static_cast<std::size_t>(weight.shape().at(at));
        inner = 1;
        for (std::size_t i = at + 1; i < weight.shape().size(); ++i)
            inner *= static_cast<std::size_t>(weight.shape()[i]);
    }
    const bool is_reduced = form.range == WeightRange::seven_bits || (form.range == WeightRange::pairs && !form.inputs);
    const float limit = is_reduced ? 64.0F : 127.0F;
    const WeightPairs pairs =
        form.range == WeightRange::pairs && form.inputs ? WeightPairs(weight.shape(), *form.inputs) : WeightPairs();
    const std::size_t runs = values.empty() ? 0 : values.size() / inner; // of a channel's elements
    std::vector<double> absmax(channels, 0.0);
    for (std::size_t run = 0; run < runs; ++run) {
        float largest = 0.0F;
        for (const float value : values.subspan(run * inner, inner))
            largest = std::max(largest, std::abs(value));
        double& most = absmax[run % channels];
        most = std::max(most, static_cast<double>(largest));
        for (std::size_t i = run * inner; i < (run + 1) * inner && !pairs.empty(); ++i) {
            if (const auto other = pairs.other(i))
                most = std::max(most, std::abs(static_cast<double>(values[i]) + static_cast<double>(values[*other])));
        }
    }
    const bool per_tensor = form.granularity == WeightGranularity::per_tensor;
    if (per_tensor) {
        double largest = 0.0;
        for (const double most : absmax)
            largest = std::max(largest, most);
        absmax.assign(1, largest);
    }
    QuantizedTensorData result;
    result.scales.resize(absmax.size());
    std::ranges::transform(absmax, result.scales.begin(),
                           [&](double most) { return scale_from(most, static_cast<double>(limit)); });
    const auto scale_of = [&](std::size_t channel) { return result.scales[per_tensor ? 0 : channel]; };
    std::vector<std::int8_t> quantized(values.size());
    for (std::size_t run = 0; run < runs; ++run) {
        const float scale = scale_of(run % channels);
        for (std::size_t i = run * inner; i < (run + 1) * inner; ++i)
            quantized[i] = static_cast<std::int8_t>(nearest(std::clamp(values[i] / scale, -limit, limit)));
    }
    if (form.axis) {
        for (std::size_t c = 0; c < channels && runs > 0; ++c) {
            const Channel channel{c * inner, inner, channels * inner, runs / channels};
            balance(channel, values, scale_of(c), quantized, limit, pairs);
        }
    }
    result.values = Tensor::of<std::int8_t>(weight.name, DataType::int8, weight.shape(), quantized);
    return result;
}

} // namespace lathe
