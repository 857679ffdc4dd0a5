#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "correct/run.hpp"
#include "correct/samples.hpp"
#include "evaluate/output_groups.hpp"
#include "graph/graph.hpp"
#include "support/interval.hpp"
#include "support/json.hpp"
#include "tasks/task.hpp"

namespace lathe {

/// One meaning among those of a network's outputs: all of an output, or some of its channels (OutputGroups).
struct JudgedPart {
    std::string output;
    std::size_t begin = 0, end = 0; ///< channels; both 0: all of the output
    std::vector<double> errors;     ///< a sample

    double error() const; ///< their mean
};

/// What a network is for, and how well its answers keep the float model's.
struct JudgedFigure {
    std::string name;        ///< of the metric: "mAP at IoU 0.5 against ..."
    double value = 0;        ///< 0..1, more is better
    std::size_t network = 0; ///< as the judge numbers them
};

/// How far a network's outputs are from the float model's, on samples kept for this. All but `error` and `parts` tells
/// of the first output that is judged.
struct Closeness {
    /// What decides: the mean size of the error over outputs, their parts and samples. For probabilities the square
    /// root of KL(P || Q), which grows with the error itself, so that a few wild samples do not decide alone; else
    /// |x - y| / |x|. In an output of several parts, and of an image, |x| is that over all samples: a photo without an
    /// object has next to no scores, a page without text none that matter. Logits are not judged by KL: samples that
    /// the network was trained on are so certain that it says nothing. Infinite where an output holds NaN or infinity.
    double error = 0.0;
    std::vector<JudgedPart> parts;
    double mean_kl = 0.0;   ///< nats; 0 where the output is no row of classes
    double sqnr_db = 0.0;   ///< 20 log10(|x| / |x - y|) over all
    double agreement = 0.0; ///< share of samples with the same likeliest class; 1 where there are no classes
    bool classes = false;
    std::size_t samples = 0;
    std::optional<JudgedFigure> task; ///< where the outputs tell what the network is for

    bool closer_than(const Closeness& other) const { return error < other.error; }
    /// The part that is further from the float model than in `other`, of the same samples, by more than a hundredth and
    /// beyond the chance of which samples these are (mean of the differences over 1.96 standard errors); of several the
    /// one that lost most. nullptr without one.
    const JudgedPart* worse_part(const Closeness& other) const;
};
Json to_json(const Closeness& closeness);

/// Names of the outputs that are judged: those of float32 that nothing inside the model reads (a decoder's keys and
/// values are read, a detector's heads are not); where all are read, the first. Empty if none is float32.
std::vector<std::string> judged_outputs(const Graph& graph);

/// Runs candidates as the CPU runs them (int8 kernels) and compares them with the float model, which is run once.
/// Where an output has positions (PositionMask), padding is not compared. An output [batch, length] has them if the
/// model calls its second size what it calls the mask's; a number says nothing, it may be a count of classes.
class Judge {
public:
    /// `answers`: whether to find what the network is for (Closeness::task), which takes time for a detector.
    /// Errors: unsupported (no float32 output), out_of_range (NaN or infinity in one); what running the model gives;
    /// cancelled.
    static Result<Judge> of(const Model& real, std::map<std::string, Batches> samples, std::size_t threads,
                            Progress& progress, bool answers = true);
    /// `quantized` has the same inputs and outputs. Errors: what running it gives; unsupported, where the size of an
    /// output depends on values.
    Result<Closeness> judge(const Model& quantized);
    /// 95 % interval of the task's metric of `a` minus that of `b`, on the same samples. Both have a task.
    Interval task_difference(const Closeness& a, const Closeness& b) const;

private:
    struct Output {
        std::string name;
        bool by_position = false; ///< it is [batch, length]
        Batches expected;
        OutputGroups groups = {};
        std::vector<double> sizes = {}; ///< of each group: root mean square over samples of |x|
    };

    Judge(const Model& real, std::map<std::string, Batches> samples, std::size_t threads, Progress& progress);
    /// An entry for each of outputs_.
    Result<std::vector<Batches>> run(Model model, Precision precision) const;
    Result<Closeness> compare(const Output& output, const Batches& actual) const;
    /// Cuts an output into its meanings, by what the float model gives.
    void find_groups(Output& output) const;
    /// Finds what the network is for from its outputs, and has the float model's answers as the truth.
    void find_task(const Model& real, const std::vector<Batches>& expected);
    /// The next network's answers. `values`: an entry for each of outputs_.
    Result<void> answer(const std::vector<Batches>& values);
    /// A sample's values that are no padding.
    std::vector<float> own_values(const Output& output, const HostTensor& values, std::size_t batch,
                                  std::size_t sample) const;

    std::map<std::string, Batches> samples_;
    std::size_t threads_;
    Progress* progress_; ///< asked whether to stop; must outlive this
    Masks masks_;
    std::vector<Output> outputs_;
    std::unique_ptr<Task> task_; ///< null where the outputs tell none
    std::unique_ptr<AnswerJudge> answers_;
    std::size_t networks_ = 0; ///< that answered
};

} // namespace lathe
