#include "correct/equalize_noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>

namespace lathe {
namespace {

constexpr float most = 64.0F;      // a factor beyond this says that the samples never used the channel
constexpr double worth_it = 0.99;  // for less it is not worth touching the network
constexpr double int8_end = 127.0; // of weights

/// 0 where the network never uses the channel.
std::vector<float> relative(const std::vector<float>& values) {
    const float largest = values.empty() ? 0.0F : *std::ranges::max_element(values);
    std::vector<float> result(values.size(), 0.0F);
    if (largest > 0.0F) std::ranges::transform(values, result.begin(), [&](float each) { return each / largest; });
    return result;
}

void take_larger(std::vector<float>& largest, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        float& each = largest[i % largest.size()];
        each = std::max(each, values[i]);
    }
}

/// What factors are made of, a channel an entry, over all layers of a class; relative to the largest but `level`.
struct Sizes {
    std::vector<float> activation;
    std::vector<float> reader;
    std::vector<float> writer;
    std::vector<float> level; ///< as it is
    std::vector<float> absmax;
};

Sizes sizes_of(const ClassWeights& layers, std::size_t channels) {
    const std::vector<float> zeros(channels, 0.0F);
    Sizes sizes{zeros, zeros, zeros, zeros, zeros};
    for (const ReaderWeights& reader : layers.readers) {
        take_larger(sizes.activation, relative(reader.input->level));
        take_larger(sizes.level, reader.input->level);
        take_larger(sizes.absmax, reader.input->absmax);
        std::vector<float> columns(channels, 0.0F);
        take_larger(columns, reader.absmax);
        take_larger(sizes.reader, relative(columns));
    }
    for (const WriterWeights& writer : layers.writers)
        take_larger(sizes.writer, relative(writer.absmax));
    return sizes;
}

struct Bounds {
    float low = 1.0F / most;
    float high = most;
    float within(float factor) const { return std::max(low, std::min(factor, high)); }
};

/// Below a cap no factor may lift what was seen over it; nor, unless it is known that the cap never acted, lower what
/// it cut.
std::vector<Bounds> bounds_of(const Sizes& sizes, std::optional<float> cap, bool may_shrink) {
    std::vector<Bounds> bounds(sizes.level.size());
    for (std::size_t c = 0; c < bounds.size() && cap; ++c) {
        const float room = sizes.level[c] > 0.0F ? *cap / sizes.level[c] : most;
        bounds[c].high = std::max(1.0F, std::min(room, most));
        if (!may_shrink || sizes.absmax[c] >= *cap) bounds[c].low = 1.0F;
    }
    return bounds;
}

float power_or_one(float value, float exponent) {
    return value > 0.0F && exponent != 0.0F ? std::pow(value, exponent) : 1.0F;
}

/// Channels that set a range or a step, each once.
std::set<std::size_t> holders(const ClassWeights& layers, const std::vector<float>& factors) {
    std::set<std::size_t> found;
    const auto hold = [&](const std::vector<float>& sizes, bool grows) {
        std::size_t largest = 0;
        float size = 0.0F;
        for (std::size_t c = 0; c < sizes.size(); ++c) {
            const float here = grows ? sizes[c] * factors[c] : sizes[c] / factors[c];
            if (here <= size) continue;
            size = here;
            largest = c;
        }
        found.insert(largest);
    };
    for (const ReaderWeights& reader : layers.readers) {
        hold(reader.input->level, true);
        if (reader.one_scale) hold(reader.absmax, false);
    }
    for (const WriterWeights& writer : layers.writers)
        hold(writer.absmax, true);
    return found;
}

/// Moves the channels that hold the others back as long as that lowers the noise; returns the noise.
double release(const ClassWeights& layers, const std::vector<Bounds>& bounds, std::vector<float>& factors) {
    constexpr double least_gain = 1e-6;
    double least = predicted_noise(layers, factors);
    for (std::size_t moves = 0; moves < 2 * factors.size(); ++moves) {
        std::pair<std::size_t, float> best{0, factors[0]};
        double noise_of_best = least * (1.0 - least_gain);
        for (const std::size_t c : holders(layers, factors)) {
            const float now = factors[c];
            for (const float step : {0.5F, 0.8F, 1.25F, 2.0F}) {
                factors[c] = bounds[c].within(now * step);
                const double noise = predicted_noise(layers, factors);
                if (noise >= noise_of_best) continue;
                noise_of_best = noise;
                best = {c, factors[c]};
            }
            factors[c] = now;
        }
        if (factors[best.first] == best.second) break;
        factors[best.first] = best.second;
        least = noise_of_best;
    }
    return least;
}

std::vector<float> best_by_channel(const ClassWeights& layers, std::size_t channels, const Sizes& sizes,
                                   const std::vector<Bounds>& bounds) {
    const bool weights_matter =
        std::ranges::any_of(layers.readers, [](const ReaderWeights& reader) { return !reader.depthwise; });
    std::vector<float> best(channels, 1.0F);
    double least = predicted_noise(layers, best) * worth_it;
    for (const float a : {0.25F, 0.5F, 0.75F, 1.0F}) {
        for (const float b : {0.0F, 0.25F, 0.5F, 0.75F}) {
            if (b > 0.0F && !weights_matter) continue;
            std::vector<float> factors(channels, 1.0F);
            for (std::size_t c = 0; c < channels; ++c) {
                if (sizes.activation[c] <= 0.0F) continue;
                factors[c] = bounds[c].within(power_or_one(sizes.activation[c], -a) * power_or_one(sizes.reader[c], b));
            }
            const double noise = predicted_noise(layers, factors);
            if (noise >= least) continue;
            least = noise;
            best = std::move(factors);
        }
    }
    return best;
}

std::vector<float> best_with_one_scale(const ClassWeights& layers, std::size_t channels, const Sizes& sizes,
                                       const std::vector<Bounds>& bounds, bool capped) {
    constexpr std::array exponents{0.0F, 0.25F, 0.5F, 0.75F, 1.0F};
    const auto logarithms = [](std::vector<float> sizes_given) {
        for (float& each : sizes_given)
            each = each > 0.0F ? std::log(each) : 0.0F;
        return sizes_given;
    };
    const std::vector<float> activation = logarithms(sizes.activation);
    const std::vector<float> reader = logarithms(sizes.reader);
    const std::vector<float> writer = logarithms(sizes.writer);
    const std::vector<float> ones(channels, 1.0F);
    const double now = predicted_noise(layers, ones);
    std::vector<float> best = ones;
    double least = now;
    const auto look_at = [&](std::vector<float> factors) {
        const double noise = predicted_noise(layers, factors);
        if (noise >= least) return;
        least = noise;
        best = std::move(factors);
    };
    for (const float a : exponents) {
        for (const float b : exponents) {
            for (const float e : exponents) {
                std::vector<float> factors(channels);
                for (std::size_t c = 0; c < channels; ++c)
                    factors[c] = std::exp(b * reader[c] - a * activation[c] - e * writer[c]);
                // A common factor changes nothing, unless some channels cannot follow.
                for (const float common : {0.125F, 0.25F, 0.5F, 1.0F, 2.0F}) {
                    if (common != 1.0F && !capped) continue;
                    std::vector<float> scaled(channels);
                    for (std::size_t c = 0; c < channels; ++c)
                        scaled[c] = bounds[c].within(common * factors[c]);
                    look_at(std::move(scaled));
                }
            }
        }
    }
    least = release(layers, bounds, best);
    return least < now * worth_it ? best : ones;
}

} // namespace

double predicted_noise(const ClassWeights& layers, const std::vector<float>& factors) {
    const std::size_t channels = factors.size();
    std::vector<double> steps; // of the writers
    for (const WriterWeights& writer : layers.writers) {
        float largest = 0.0F;
        for (std::size_t c = 0; c < channels; ++c)
            largest = std::max(largest, writer.absmax[c] * factors[c]);
        steps.push_back(static_cast<double>(largest) / int8_end);
    }
    double sum = 0.0;
    for (const ReaderWeights& reader : layers.readers) {
        const ChannelStatistics& input = *reader.input;
        double range = 0.0;
        for (std::size_t c = 0; c < channels; ++c)
            range = std::max(range, static_cast<double>(factors[c]) * static_cast<double>(input.level[c]));
        const double rounding = range * range / (layers.activation_steps * layers.activation_steps);
        double signal = 0.0;
        double noise = 0.0;
        double scaled_power = 0.0;
        for (std::size_t c = 0; c < channels; ++c) {
            const auto s = static_cast<double>(factors[c]);
            signal += reader.power[c] * input.power[c];
            double on_channel = rounding;
            for (std::size_t i = 0; i < steps.size(); ++i)
                on_channel += layers.writers[i].input_power[c] * steps[i] * steps[i];
            noise += reader.power[c] / (s * s) * input.nonzero[c] * on_channel / 12.0;
            scaled_power += input.power[c] * s * s;
        }
        const std::size_t rows = reader.absmax.size() / std::max<std::size_t>(1, channels);
        const auto outputs_of_row = static_cast<double>(reader.one_scale ? reader.outputs : 1);
        for (std::size_t m = 0; m < rows; ++m) {
            float largest = 0.0F;
            for (std::size_t c = 0; c < channels; ++c)
                largest = std::max(largest, reader.absmax[m * channels + c] / factors[c]);
            const double step = static_cast<double>(largest) / int8_end;
            noise += outputs_of_row * static_cast<double>(reader.taps) * scaled_power * step * step / 12.0;
        }
        if (signal > 0.0) sum += noise / signal;
    }
    return sum;
}

std::vector<float> best_factors(const ClassWeights& layers, std::size_t channels, std::optional<float> cap) {
    const Sizes sizes = sizes_of(layers, channels);
    const bool one_scale = !layers.writers.empty() ||
                           std::ranges::any_of(layers.readers, [](const auto& reader) { return reader.one_scale; });
    const std::vector<Bounds> bounds = bounds_of(sizes, cap, one_scale);
    return one_scale ? best_with_one_scale(layers, channels, sizes, bounds, cap.has_value())
                     : best_by_channel(layers, channels, sizes, bounds);
}

} // namespace lathe
