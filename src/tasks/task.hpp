#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/interval.hpp"
#include "tasks/detection/head.hpp"
#include "tasks/output_part.hpp"

namespace lathe {

/// The answers of several networks to the same samples, judged by the task's metric. Network 0 is the reference: its
/// answers are the truth, so no labels are needed. Networks are numbered as they come: 0, 1, ...
class AnswerJudge {
public:
    virtual ~AnswerJudge() = default;
    /// All outputs of one network for the next samples, float32, axis 0 the sample. Every network gets the same samples
    /// in the same order, the reference first; how they are cut into batches does not matter. Errors: mismatch (outputs
    /// of another form).
    virtual Result<void> add(std::size_t network, std::span<const HostTensor> outputs) = 0;
    /// How well a network's answers are, 0..1, more is better; -1 where the samples say nothing (nothing to find).
    virtual double metric(std::size_t network) const = 0;
    /// 95 % interval of metric(network) - metric(other), paired: both on the same samples.
    virtual Interval difference(std::size_t network, std::size_t other) const = 0;
};

/// What a network is for, as far as its outputs tell it.
class Task {
public:
    virtual ~Task() = default;
    virtual std::string_view name() const = 0;
    /// What AnswerJudge::metric is, in words.
    virtual std::string_view metric_name() const = 0;
    /// The outputs cut into stretches of one meaning; empty where they cannot be cut.
    virtual std::vector<OutputPart> parts() const = 0;
    /// The task must outlive it.
    virtual std::unique_ptr<AnswerJudge> judge() const = 0;
};

/// Detection with this head: answers are detections with a score of at least 0.001, the truth the reference's with at
/// least 0.25, and the metric mAP at IoU 0.5; of masks, where the head has them.
std::unique_ptr<Task> make_detection_task(DetectionHead head, DecodeOptions options = {});

/// Classification of pictures with output `output`, NxC scores: is the likeliest class the float network's.
std::unique_ptr<Task> make_classification_task(std::size_t output);

/// The task of a network for pictures that the outputs' shapes and the input's size (pixels) tell, asked in this order:
/// a detection head; scores of classes for each pixel; one row of scores; a picture, or a number a pixel, of the
/// input's size or a multiple. Null where they tell none.
std::unique_ptr<Task> recognise_task(std::span<const OutputShape> outputs, std::size_t height, std::size_t width);

} // namespace lathe
