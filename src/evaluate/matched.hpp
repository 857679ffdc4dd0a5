#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/figures.hpp"
#include "evaluate/run.hpp"
#include "evaluate/task_judge.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"
#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/truth.hpp"

namespace lathe {

/// MatchJudge, whatever it finds.
class MatchesJudge : public TaskJudge {
public:
    /// Against the truth, or without one against network 0's own answers.
    virtual DetectionMatches judged(std::size_t network) const = 0;
    virtual DetectionMatches agreement(std::size_t network) const = 0;
    /// Of the samples that count.
    virtual const std::vector<std::string>& names() const = 0;
    /// The pictures on which the network's answers are least like those of network 0, at most `count`, the worst first:
    /// {"sample", "agreement", "reference_boxes", "subject_boxes"}.
    virtual Json worst(std::size_t network, std::size_t count) const = 0;
};

/// A task that finds more than boxes in pictures: how its answers are matched with one network's form of outputs, and
/// what is said of it.
struct MatchedPlan {
    const char* task;     ///< "keypoints"
    const char* answers;  ///< "poses"
    const char* metric;   ///< of the truth: "OKS AP"
    const char* key;      ///< of the metric in documents: "oks_ap"; beside it "oks_ap50", "oks_ap_large" and such
    const char* no_truth; ///< "the data has no keypoints"
    const char* cure;     ///< where there is neither truth nor reference
    /// "metric", "heading" and "columns" of an eval document; `where`: "on 80 pictures (COCO)".
    void (*describe)(Json& document, const std::string& where, bool labelled);
    bool one_sample = false;
    std::shared_ptr<const DetectionTruth> truth = nullptr; ///< null: network 0's own answers are it
    Json told = Json::object();                            ///< what else a document says
    std::function<std::unique_ptr<MatchesJudge>()> make = {};
};

/// How `lathe sensitivity`, `tune` and `compare` judge by it.
TaskJudging judging_of(MatchedPlan plan, const EvalRequest& request);

/// Evaluates engines; `plan_of` is told the first. Errors: invalid_argument (neither truth nor reference; no picture
/// that the truth speaks of); what plan_of, the engines or the data give; cancelled.
Result<Json> evaluate_matched(const EvalRequest& request,
                              Result<MatchedPlan> (*plan_of)(const EvalRequest& request, const EngineInfo& model),
                              Progress& progress);

} // namespace lathe
