#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lathe/result.hpp"
#include "tasks/detection/candidates.hpp"

namespace lathe {

/// How rows of detections that are ready (NMS is done, or not needed) are laid out.
struct ReadyRows {
    struct Place {
        std::size_t output = 0; ///< of DetectionHead::outputs
        std::size_t value = 0;  ///< of the row, the first
    };
    Place box;                                        ///< left, top, right, bottom
    Place score;                                      ///< a probability
    Place label;                                      ///< the class
    std::optional<std::size_t> sample = std::nullopt; ///< the first output's value that says which sample the row is of
    std::vector<std::size_t> widths; ///< values a row of each output; where it is 1, the output has no axis for them
};

/// The layout of heads whose detections are ready; nothing for others.
std::optional<ReadyRows> ready_rows(const DetectionHead& head);

/// The outputs that fit a form whose detections are ready and which stand in several outputs, or lack a sample's axis:
/// lists, mmdeploy, paddle, yolov7_nms, nms_indices. `named`: the user says that it is this form, so names need not.
std::optional<DetectionHead> ready_head(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                        std::size_t width, bool named);

/// What the rows of a sample say. Errors: mismatch where an output is not as the layout says.
Result<Candidates> decode_ready(const DetectionHead& head, const ReadyRows& layout, std::span<const HostTensor> outputs,
                                std::size_t sample, float threshold);

/// The same of nms_indices. An index of no sample, class or anchor that there is fills up the list.
Result<Candidates> decode_nms_indices(const DetectionHead& head, std::span<const HostTensor> outputs,
                                      std::size_t sample, float threshold);

} // namespace lathe
