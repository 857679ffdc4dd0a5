#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lathe/result.hpp"
#include "tasks/detection/candidates.hpp"

namespace lathe {

/// Two outputs for each of at least two grids, whose strides follow each other: class scores, and distances of 4, 32,
/// 64 or 68 values (plain, or of 8, 16 or 17 bins a side). They are told apart by their names, by one alone having such
/// a number of values, or by the scores of all grids coming first. Cells are rows of NxAxC, or of AxC where axis 0 is
/// no sample, or pixels of NxCxhxw. Further outputs of a grid are left out if they hold five points (SCRFD, YuNet) or,
/// beside bins, one value (the scores' sum). One value beside plain distances is a confidence if it is named as a
/// centre's, or as an object's beside scores of one class and five points: YuNet's, whose boxes are no distances.
std::optional<DetectionHead> distances_by_grid(std::span<const OutputShape> outputs, std::size_t height,
                                               std::size_t width);

/// One output NxAx(C+32): NanoDet's, with 8 bins a side; A are the cells of four grids (NanoDet-Plus, which measures
/// from the cell's corner) or three (NanoDet, from its centre).
std::optional<DetectionHead> distances_in_one(std::span<const OutputShape> outputs, std::size_t height,
                                              std::size_t width);

/// The outputs' scores and distances.
std::vector<OutputPart> parts_of_distances(const DetectionHead& head);

/// What the cells of a sample say. Errors: mismatch where an output is not as the head's.
Result<Candidates> decode_distances(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                    float threshold);

} // namespace lathe
