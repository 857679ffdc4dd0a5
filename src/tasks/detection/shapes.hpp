#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "tasks/detection/head.hpp"

namespace lathe {

/// The strides of detectors' grids, from the finest on.
inline constexpr std::array<std::size_t, 5> usual_strides{8, 16, 32, 64, 128};

/// A size of a shape; 0 where it is free or there is no such axis.
std::size_t known_size(const Shape& shape, std::size_t axis);

/// Whether one of the words (in lower case) is in the output's name, in whatever case.
bool is_named(const OutputShape& output, std::initializer_list<const char*> words);

/// The first three, four or five of the usual strides whose grids have `anchors` cells, each with `per_cell` anchors;
/// empty for none.
std::vector<std::size_t> strides_for(std::size_t anchors, std::size_t height, std::size_t width,
                                     std::size_t per_cell = 1);

} // namespace lathe
