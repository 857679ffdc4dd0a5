#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lathe/types.hpp"

namespace lathe {

/// An output cut into its meanings. Boxes, sizes and scores of a detector lie side by side along one axis and differ in
/// size by orders of magnitude: an error over all of them is that of the largest numbers alone, whatever becomes of the
/// scores. So each run of channels of about one size is judged in its own scale.
struct OutputGroups {
    struct Group {
        std::size_t begin = 0, end = 0; ///< channels along `axis`
        double power = 1.0;             ///< mean square of the values that told the groups; over 0
    };
    std::size_t axis = 1;
    std::size_t channels = 1; ///< the axis' size
    std::size_t inner = 1;    ///< values from one channel to the next, of a sample
    std::vector<Group> groups{{0, 1, 1.0}};

    bool single() const { return groups.size() < 2; }
    /// Of the i-th value of a sample.
    std::size_t group_at(std::size_t i) const;
    /// Of the squares of a group's values, so that all groups weigh alike.
    double weight(std::size_t group) const;
};

/// By the root mean square of each channel: a segmentation of their logarithms with least squared error plus a price
/// for every cut, by dynamic programming. The channels' axis is the second or the last one, whichever is told apart
/// better. One group for outputs of fewer than three dimensions (rows of classes, embeddings), where no two
/// neighbouring groups differ by a factor of 4 and where all is 0. `values`: outputs of `shape`, but for its first
/// dimension, which counts the samples of each.
OutputGroups find_output_groups(const Shape& shape, const std::vector<std::span<const float>>& values);

} // namespace lathe
