#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/interval.hpp"

namespace lathe {

struct EvalRequest;

/// How good a network's answers are, by its task's metric (1 is perfect). NaN where the samples say nothing: there is
/// nothing to find.
struct TaskScore {
    double metric = 0;    ///< against the truth; where there is none, `agreement`
    double reference = 0; ///< the same of network 0
    double agreement = 0; ///< against the answers of network 0
    /// `agreement` on every 16th sample from this one on. One that says nothing has 1.
    static constexpr std::size_t parts = 16;
    std::array<double, parts> part_agreement{};

    bool defined() const;      ///< no NaN in the first three
    double loss() const;       ///< of the metric; negative: won
    double unlikeness() const; ///< 1 - agreement, never negative
};

/// Judges any number of networks by a task's metric, from outputs that lie in memory.
class TaskJudge {
public:
    virtual ~TaskJudge() = default;
    /// All outputs of one network for the next samples, float32. Network 0 is the reference and is given each batch
    /// first; every network gets the same batches. `batch` says the samples' names and the pictures' sizes; outputs may
    /// hold more rows (a batch that was filled up). Errors: mismatch (outputs of another form), what reading the truth
    /// gives.
    virtual Result<void> add(std::size_t network, const Batch& batch, std::span<const HostTensor> outputs) = 0;
    virtual TaskScore score(std::size_t network) const = 0;
    /// 95 % interval of metric(network) - metric(other), paired: a bootstrap over samples.
    virtual Interval difference(std::size_t network, std::size_t other) const = 0;
    /// Samples that the truth does not speak of; they count for nothing.
    virtual std::size_t left_out() const = 0;
};

/// How networks of one form are judged on some data.
struct TaskJudging {
    std::string task;   ///< "detection"
    std::string metric; ///< what TaskScore::metric is, for people: "mAP 0.50:0.95"
    bool labelled = false;
    std::filesystem::path samples; ///< where the inputs lie
    std::string digest;            ///< of the truth; empty without
    bool one_sample = false;       ///< outputs have no axis for the sample: batches of one
    std::function<std::unique_ptr<TaskJudge>()> make;
};

/// The task that the request names, else the one that its data tell, else the one that the outputs of `model` do; its
/// preprocessing maps answers back into pictures. Nothing for classification, which is judged by labels and classes,
/// and where nothing tells. Errors: unsupported (similarity, squad and a metric of one's own, which only `lathe eval`
/// and `lathe optimize` judge by); what reading the truth and finding the head give.
Result<std::optional<TaskJudging>> find_task_judging(const EvalRequest& request, const EngineInfo& model);

/// Any numbers as float32, for TaskJudge. Errors: unsupported (strings, numbers of less than a byte).
Result<HostTensor> as_floats(const TensorView& values, std::string name);

// What each task's row in evaluation_tasks() has for it.
Result<TaskJudging> judge_detection(const EvalRequest& request, const EngineInfo& model);
Result<TaskJudging> judge_keypoints(const EvalRequest& request, const EngineInfo& model);
Result<TaskJudging> judge_instances(const EvalRequest& request, const EngineInfo& model);
Result<TaskJudging> judge_segmentation(const EvalRequest& request, const EngineInfo& model);
Result<TaskJudging> judge_regression(const EvalRequest& request, const EngineInfo& model);
Result<TaskJudging> judge_text_recognition(const EvalRequest& request, const EngineInfo& model);

struct DetectionHead;
struct DetectionOptions;
class DetectionTruth;
/// Of a detector: its `preprocess` maps boxes back into pictures (nothing: they stay in the input's pixels); `truth`
/// may be null, its classes become the model's through `classes`. Of a network the best 300 detections a picture are
/// kept.
std::unique_ptr<TaskJudge> make_detection_judge(DetectionHead head, DetectionOptions options,
                                                std::optional<Preprocess> preprocess,
                                                std::shared_ptr<const DetectionTruth> truth,
                                                std::vector<std::int32_t> classes);
class CountedTask;
struct CountedTruth;
/// Of a counted task whose answers are in output `output` alone; `truth` may be null.
std::unique_ptr<TaskJudge> make_counted_judge(std::shared_ptr<const CountedTask> task, std::size_t output,
                                              std::shared_ptr<const CountedTruth> truth);

} // namespace lathe
