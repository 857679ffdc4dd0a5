#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "correct/run.hpp"
#include "correct/samples.hpp"
#include "graph/graph.hpp"
#include "support/json.hpp"

namespace lathe {

/// How far a network's first output is from the float model's, on samples kept for this.
struct Closeness {
    /// What decides: the mean size of the error over samples. For probabilities the square root of KL(P || Q), which
    /// grows with the error itself, so that a few wild samples do not decide alone; else |x - y| / |x|. Logits are not
    /// judged by KL: samples that the network was trained on are so certain that it says nothing.
    double error = 0.0;
    double mean_kl = 0.0;   ///< nats; 0 where the output is no row of classes
    double sqnr_db = 0.0;   ///< 20 log10(|x| / |x - y|) over all
    double agreement = 0.0; ///< share of samples with the same likeliest class; 1 where there are no classes
    bool classes = false;
    std::size_t samples = 0;

    bool closer_than(const Closeness& other) const { return error < other.error; }
};
Json to_json(const Closeness& closeness);

/// Runs candidates as the CPU runs them (int8 kernels) and compares them with the float model, which is run once.
/// Where the output has positions (PositionMask), padding is not compared. An output [batch, length] has them if the
/// model calls its second size what it calls the mask's; a number says nothing, it may be a count of classes.
class Judge {
public:
    /// Errors: what running the model gives; cancelled.
    static Result<Judge> of(const Model& real, std::map<std::string, Batches> samples, std::size_t threads,
                            Progress& progress);
    /// `quantized` has the same inputs and outputs. Errors: what running it gives; out_of_range for NaN or infinity.
    Result<Closeness> judge(const Model& quantized) const;

private:
    Judge(const Model& real, std::map<std::string, Batches> samples, std::size_t threads, Progress& progress);
    Result<Batches> first_output(Model model, Precision precision) const;
    /// A sample's values that are no padding.
    std::vector<float> own_values(const HostTensor& output, std::size_t batch, std::size_t sample) const;

    std::map<std::string, Batches> samples_;
    std::size_t threads_;
    Progress* progress_; ///< asked whether to stop; must outlive this
    Masks masks_;
    bool by_position_ = false; ///< the output is [batch, length]
    Batches expected_;
};

} // namespace lathe
