#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "evaluate/fidelity.hpp"
#include "evaluate/statistics.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Something that gives outputs for a batch: an engine, or a double of one in tests.
class Predictor {
public:
    virtual ~Predictor() = default;
    virtual const std::string& name() const = 0;
    virtual const std::string& precision() const = 0;
    /// The output to judge, float32, one row of scores a sample; axis 0 is the sample.
    virtual Result<HostTensor> predict(const Batch& batch) = 0;
};

struct EvaluateOptions {
    std::size_t batch_size = 16;
    std::optional<OutputKind> output_kind; ///< nothing: detected on the reference's first batch
    std::size_t worst = 10;                ///< how many samples of the greatest KL divergence are listed
};

/// One of the samples on which a subject differs most from the reference.
struct WorstSample {
    std::string sample;
    double kl = 0;
    std::int64_t label = -1;
    std::int64_t reference_class = -1;
    std::int64_t subject_class = -1;
};

/// One subject against the reference on the same samples.
struct ReferenceComparison {
    std::string reference;
    std::size_t agree = 0; ///< samples whose most likely class is the same
    std::size_t samples = 0;
    Fidelity fidelity;
    PairedOutcomes outcomes;        ///< empty without labels
    std::vector<WorstSample> worst; ///< greatest KL first
};

struct SubjectEvaluation {
    std::string name;
    std::string precision;
    std::size_t samples = 0;
    std::size_t labelled = 0;
    std::size_t top1 = 0; ///< of the labelled
    std::size_t top5 = 0;
    std::size_t nonfinite = 0; ///< samples with a NaN or infinity in the output; counted as wrong
    std::optional<ReferenceComparison> versus;
};

struct Evaluation {
    std::size_t samples = 0;
    std::size_t classes = 0;
    CutTexts cut;
    OutputKind output_kind = OutputKind::logits;
    std::vector<SubjectEvaluation> subjects; ///< in the order given; the reference first if there is one
};

/// Runs every subject (and the reference, if any) over the data, each decoded batch once for all of them, and keeps
/// counts only: memory does not grow with the samples.
/// Errors: what the data or a predictor gives; mismatch when outputs differ in shape; out_of_range for a label that
/// the output has no class for; invalid_argument without subjects.
Result<Evaluation> evaluate(std::span<Predictor* const> subjects, Predictor* reference, Dataset& data,
                            const EvaluateOptions& options, Progress& progress);

/// The "subjects" array of the eval JSON. A share without labels is null, as is an infinite SQNR (equal outputs).
Json to_json(const Evaluation& evaluation);

} // namespace lathe
