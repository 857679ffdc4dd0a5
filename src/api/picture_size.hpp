#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/preprocess.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Input pixels a step, along height and width.
struct Strides {
    std::size_t height = 1;
    std::size_t width = 1;
};

/// Of the only input's pictures (Nx3xHxW or NxHxWx3): the largest that convolutions and pools of fixed windows reach
/// one after another; those over whole maps and what stands behind a Reshape do not count. 1 where nothing is known.
Strides picture_strides(const Model& model);

/// A size for pictures, and in words why it is this one.
struct SizeGuess {
    Preprocess::Size size;
    std::string why;
};

/// What is known where a model leaves the size of its pictures open.
struct OpenSize {
    Preprocess::Size usual;              ///< tried first
    std::filesystem::path pictures = {}; ///< whose shape a single open side follows; may be empty
    double time_limit_s = 20;            ///< of the search; at least one size is tried
    Progress* progress = nullptr;        ///< must be there
};

/// The first size that the float network takes, which one run of it on zeros shows. Asked in this order: the usual one;
/// then for each height the network may be made for (multiples of its stride, the smallest first) the widths that its
/// declared outputs imply (a side of theirs times the stride), the one of the pictures' shape, the same as the height,
/// and the usual one. Sides that the model fixes stay. Nothing where both are fixed or the only input holds no
/// pictures. Errors: unsupported (no size held: names the last and what stood in its way); cancelled.
Result<std::optional<SizeGuess>> guess_picture_size(const Model& model, const OpenSize& open);

} // namespace lathe
