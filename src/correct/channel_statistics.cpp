#include "correct/channel_statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "support/thread_pool.hpp"

namespace lathe {
namespace {

constexpr std::size_t level_bins = 512;

/// Channels [first, end) of a tensor's axis.
struct ChannelSpan {
    std::size_t first = 0;
    std::size_t end = 0;
};

/// body(channel, values of it that lie together), over all batches, but for padding.
template <class Body>
void for_each_channel(const Batches& batches, std::int64_t axis, std::size_t channels, ChannelSpan part,
                      const Masks& masks, Body body) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        const HostTensor& tensor = batches[batch];
        const PositionMask* mask = axis == -1 && batch < masks.size() && masks[batch] ? &*masks[batch] : nullptr;
        const auto layout = mask == nullptr ? std::nullopt : mask->layout_of(tensor.shape);
        const auto values = tensor.as<float>();
        const auto rank = static_cast<std::int64_t>(tensor.shape.size());
        std::size_t inner = 1;
        for (std::int64_t i = (axis < 0 ? axis + rank : axis) + 1; i < rank; ++i)
            inner *= static_cast<std::size_t>(tensor.shape[static_cast<std::size_t>(i)]);
        const std::size_t outer = values.size() / (inner * channels);
        for (std::size_t o = 0; o < outer; ++o) {
            if (layout && !mask->is_own(*layout, o * channels)) continue;
            for (std::size_t c = part.first; c < part.end; ++c)
                body(c, values.subspan((o * channels + c) * inner, inner));
        }
    }
}

/// The end of an 8-bit grid, as a part of the largest magnitude, with the least sum of squared errors over a histogram
/// of magnitudes: (level / 255)^2 / 12 for each value but 0, (x - level)^2 for each beyond it.
float best_level(std::span<const std::uint32_t> bins, double nonzero) {
    const auto size = static_cast<double>(bins.size());
    double count = 0.0; // of values beyond the level, and sums of them and of their squares, in parts of the largest
    double sum = 0.0;
    double squares = 0.0;
    double least = nonzero / (12.0 * 255.0 * 255.0);
    double best = 1.0;
    for (std::size_t i = bins.size(); i-- > bins.size() / 8;) {
        const double x = (static_cast<double>(i) + 0.5) / size;
        const auto here = static_cast<double>(bins[i]);
        count += here;
        sum += here * x;
        squares += here * x * x;
        const double level = static_cast<double>(i) / size;
        const double clipped = squares - 2.0 * level * sum + level * level * count;
        const double error = clipped + nonzero * level * level / (12.0 * 255.0 * 255.0);
        if (error >= least) continue;
        least = error;
        best = level;
    }
    return static_cast<float>(best);
}

} // namespace

ChannelStatistics channel_statistics(const Batches& batches, std::int64_t axis, std::size_t channels,
                                     std::size_t threads, const Masks& masks) {
    ChannelStatistics result;
    result.level.assign(channels, 0.0F);
    result.absmax.assign(channels, 0.0F);
    result.power.assign(channels, 0.0);
    result.nonzero.assign(channels, 0.0);
    result.lowest.assign(channels, 0.0F);
    result.highest.assign(channels, 0.0F);
    constexpr std::size_t together = 16; // channels a task: a row of the last axis is read in pieces of a cache line
    ThreadPool(threads).for_each((channels + together - 1) / together, [&](std::size_t task) {
        const ChannelSpan part{task * together, std::min(channels, (task + 1) * together)};
        std::array<float, together> absmax{};
        std::array<double, together> count{};
        for_each_channel(batches, axis, channels, part, masks, [&](std::size_t c, std::span<const float> values) {
            float least = 0.0F;
            float greatest = 0.0F;
            float power = 0.0F;
            std::size_t nonzero = 0;
            for (const float x : values) {
                least = std::min(least, x);
                greatest = std::max(greatest, x);
                power += x * x;
                nonzero += x != 0.0F ? 1U : 0U;
            }
            result.lowest[c] = std::min(result.lowest[c], least);
            result.highest[c] = std::max(result.highest[c], greatest);
            count[c - part.first] += static_cast<double>(values.size());
            result.power[c] += static_cast<double>(power);
            result.nonzero[c] += static_cast<double>(nonzero);
        });
        for (std::size_t c = part.first; c < part.end; ++c)
            absmax[c - part.first] = std::max(result.highest[c], -result.lowest[c]);
        std::array<std::array<std::uint32_t, level_bins>, together> bins{};
        for_each_channel(batches, axis, channels, part, masks, [&](std::size_t c, std::span<const float> values) {
            const float largest = absmax[c - part.first];
            const float factor = largest > 0.0F ? static_cast<float>(level_bins) / largest : 0.0F;
            for (const float x : values)
                ++bins[c - part.first][std::min(level_bins - 1, static_cast<std::size_t>(std::abs(x) * factor))];
        });
        for (std::size_t c = part.first; c < part.end; ++c) {
            const double values = std::max(1.0, count[c - part.first]);
            result.absmax[c] = absmax[c - part.first];
            result.level[c] = absmax[c - part.first] * best_level(bins[c - part.first], result.nonzero[c]);
            result.lowest[c] = std::max(result.lowest[c], -result.level[c]);
            result.highest[c] = std::min(result.highest[c], result.level[c]);
            result.power[c] /= values;
            result.nonzero[c] /= values;
        }
    });
    return result;
}

} // namespace lathe
