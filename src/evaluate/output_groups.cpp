#include "evaluate/output_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr std::size_t most_channels = 4096;
constexpr std::size_t most_groups = 16;
/// What a cut must save of the squared error of logarithms: a single channel among many that is larger or smaller by a
/// factor of 12 is cut off, classes of which some are seen ten times as often as others are not.
constexpr double price = 6.0;

struct Segmentation {
    std::vector<std::size_t> ends;
    double saved = 0.0; ///< squared error of logarithms a channel, against one group
};

/// Squared error of any run around its mean, from running sums.
class Errors {
public:
    explicit Errors(const std::vector<double>& values) : sums_(1, 0.0), squares_(1, 0.0) {
        for (const double value : values) {
            sums_.push_back(sums_.back() + value);
            squares_.push_back(squares_.back() + value * value);
        }
    }
    double operator()(std::size_t begin, std::size_t end) const {
        const double sum = sums_[end] - sums_[begin];
        return squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin);
    }
    double mean(std::size_t begin, std::size_t end) const {
        return (sums_[end] - sums_[begin]) / static_cast<double>(end - begin);
    }

private:
    std::vector<double> sums_, squares_;
};

Segmentation segment(const std::vector<double>& logarithms) {
    const std::size_t count = logarithms.size();
    const Errors error(logarithms);
    constexpr double never = std::numeric_limits<double>::infinity();
    // least[k][i]: of the first i channels in k + 1 groups.
    std::vector<std::vector<double>> least(most_groups, std::vector<double>(count + 1, never));
    std::vector<std::vector<std::size_t>> cut(most_groups, std::vector<std::size_t>(count + 1, 0));
    for (std::size_t i = 1; i <= count; ++i)
        least[0][i] = error(0, i);
    std::size_t best = 0;
    for (std::size_t k = 1; k < std::min(most_groups, count); ++k) {
        for (std::size_t i = k + 1; i <= count; ++i) {
            for (std::size_t j = k; j < i; ++j) {
                const double sum = least[k - 1][j] + error(j, i);
                if (sum >= least[k][i]) continue;
                least[k][i] = sum;
                cut[k][i] = j;
            }
        }
        if (least[k][count] + price * static_cast<double>(k) < least[best][count] + price * static_cast<double>(best)) {
            best = k;
        } else if (k > best + 1) {
            break; // two more cuts that do not pay
        }
    }
    Segmentation found;
    for (std::size_t k = best, end = count;; --k) {
        found.ends.insert(found.ends.begin(), end);
        if (k == 0) break;
        end = cut[k][end];
    }
    found.saved = (error(0, count) - least[best][count]) / static_cast<double>(count);
    return found;
}

/// Mean square of each channel along an axis.
std::vector<double> powers(const Shape& shape, std::size_t axis, const std::vector<std::span<const float>>& values,
                           std::size_t inner) {
    const auto channels = static_cast<std::size_t>(shape[axis]);
    std::vector<double> sums(channels, 0.0);
    double count = 0.0;
    for (const std::span<const float> each : values) {
        for (std::size_t i = 0; i < each.size(); i += inner) {
            double sum = 0.0;
            for (const float value : each.subspan(i, inner))
                sum += static_cast<double>(value) * static_cast<double>(value);
            sums[i / inner % channels] += sum;
        }
        count += static_cast<double>(each.size());
    }
    for (double& sum : sums)
        sum *= static_cast<double>(channels) / std::max(1.0, count);
    return sums;
}

} // namespace

std::size_t OutputGroups::group_at(std::size_t i) const {
    if (single()) return 0;
    const std::size_t channel = i / inner % channels;
    const auto found = std::ranges::upper_bound(groups, channel, {}, &Group::end);
    return static_cast<std::size_t>(found - groups.begin());
}

double OutputGroups::weight(std::size_t group) const {
    const Group& own = groups.at(group);
    return 1.0 / (own.power * static_cast<double>((own.end - own.begin) * groups.size()));
}

namespace {

/// Of an image, whether the axis is one of its sides and so never its channels: columns of a page differ by its
/// margins.
bool is_side(const Shape& shape, std::size_t axis) {
    if (shape.size() != 4) return false;
    if (axis == 1) return shape[1] == shape[2] && shape[2] != shape[3]; // channels last, a square
    return (shape[1] < shape[2] && shape[1] < shape[3]) || (shape[2] == shape[3] && shape[1] != shape[2]); // first
}

} // namespace

OutputGroups find_output_groups(const Shape& shape, const std::vector<std::span<const float>>& values) {
    OutputGroups best;
    if (shape.size() < 3) return best;
    double most = 0.0;
    for (const std::size_t axis : {std::size_t{1}, shape.size() - 1}) {
        if (shape[axis] < 2 || static_cast<std::size_t>(shape[axis]) > most_channels || is_side(shape, axis)) continue;
        std::size_t inner = 1;
        for (std::size_t i = axis + 1; i < shape.size(); ++i)
            inner *= static_cast<std::size_t>(shape[i]);
        const std::vector<double> power = powers(shape, axis, values, inner);
        const double largest = *std::ranges::max_element(power);
        if (!(largest > 0.0) || !std::isfinite(largest)) continue;
        std::vector<double> logarithms;
        for (const double each : power)
            logarithms.push_back(0.5 * std::log(std::max(each, 1e-12 * largest)));
        const Segmentation found = segment(logarithms);
        const Errors means(logarithms);
        bool apart = false;
        for (std::size_t i = 0; i + 1 < found.ends.size(); ++i) {
            const std::size_t begin = i == 0 ? 0 : found.ends[i - 1];
            const double step = means.mean(begin, found.ends[i]) - means.mean(found.ends[i], found.ends[i + 1]);
            apart = apart || std::abs(step) >= std::log(4.0);
        }
        if (!apart || found.saved <= most) continue;
        most = found.saved;
        best = {axis, power.size(), inner, {}};
        for (std::size_t i = 0; i < found.ends.size(); ++i) {
            OutputGroups::Group group{i == 0 ? 0 : found.ends[i - 1], found.ends[i], 0.0};
            for (std::size_t channel = group.begin; channel < group.end; ++channel)
                group.power += power[channel] / static_cast<double>(group.end - group.begin);
            group.power = std::max(group.power, 1e-24 * largest);
            best.groups.push_back(group);
        }
    }
    return best;
}

} // namespace lathe
