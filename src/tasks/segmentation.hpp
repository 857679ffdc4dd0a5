#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tasks/counted.hpp"
#include "tasks/detection/head.hpp"

namespace lathe {

/// How an output holds a class for every pixel.
struct SegmentationHead {
    std::size_t output = 0;    ///< which of the model's
    bool channels_last = true; ///< NxHxWxC, else NxCxHxW; of a map of classes without meaning
    std::size_t classes = 0;   ///< C: a score each, the greatest is the class. 1: see SegmentationTask; 0: NxHxW
};

/// The head that the outputs' shapes tell for an input of `height` x `width` pixels, or nothing: the first output with
/// a value for each pixel, or each block of pixels of one size up to 8, and 2 to 200 channels (3 are a picture), of
/// whole-numbered classes NxHxW only at the input's size.
std::optional<SegmentationHead> recognise_segmentation(std::span<const OutputShape> outputs, std::size_t height,
                                                       std::size_t width);
/// The same where segmentation was asked for: three channels and one are taken too. Errors: mismatch.
Result<SegmentationHead> segmentation_head(std::span<const OutputShape> outputs, std::size_t height, std::size_t width);

/// Semantic segmentation: answers are LabelMaps of the output's own size. With one channel, or none, values that are
/// whole numbers are classes; others are the share (0..1) or logit of the one class 1 against the background 0.
/// Counted are pixels with a true class: of each class those that are it, those given it, and both. The figures are
/// mean intersection over union ("miou", over the classes that are there or given; pixels of a class that no pixel is
/// count against it, as torchvision's and mmsegmentation's), and the share of right pixels ("pixel_accuracy").
std::unique_ptr<CountedTask> make_segmentation_task(SegmentationHead head);

/// Intersection over union of each class from the task's sums; NaN for a class that is not there.
std::vector<double> class_overlaps(std::span<const double> sums);

} // namespace lathe
