#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "evaluate/evaluate.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// The cosine between two vectors of equal length, in float64; 0 if one of them is zero.
double cosine(std::span<const float> a, std::span<const float> b);

/// What says how alike two texts are: the cosine between a model's two outputs, or the one value that a model which
/// reads both together gives (a cross-encoder).
enum class PairScore { cosine, output };
const char* to_string(PairScore score);

/// How closely a subject's embeddings follow the reference's.
struct EmbeddingFidelity {
    std::string reference;
    std::size_t texts = 0;  ///< compared: finite on both sides; pairs under PairScore::output
    double mean_cosine = 0; ///< between the two embeddings of one text; NaN under PairScore::output, as the next
    double least_cosine = 1;
    double sqnr_db = 0; ///< infinite where they are equal
    double max_abs_error = 0;
    double agreement = 0;      ///< Spearman's correlation of the two models' similarities; NaN where they do not vary
    double spearman_delta = 0; ///< subject minus reference
    Interval spearman_delta_interval; ///< bootstrap
};

struct SimilaritySubject {
    std::string name;
    std::string precision;
    double spearman = 0; ///< of the model's scores with people's; NaN where one does not vary
    double pearson = 0;
    std::size_t nonfinite = 0; ///< pairs with a NaN or infinity in an output; their cosine counts as 0, or as the least
    std::optional<EmbeddingFidelity> versus;
};

struct SimilarityEvaluation {
    std::size_t pairs = 0;
    std::size_t width = 0; ///< values an embedding
    PairScore score = PairScore::cosine;
    CutTexts cut;                            ///< samples: texts, or pairs under PairScore::output
    std::vector<SimilaritySubject> subjects; ///< in the order given; the reference first if there is one
};

/// Runs every subject on pairs of texts and correlates what it says of them with their scores. Under PairScore::cosine
/// samples 2i and 2i + 1 are a pair, both with its score; under PairScore::output a sample is one, and the output its
/// one value. `options.batch_size` counts pairs. Kept in memory: a number a pair and subject. Errors: what the data or
/// a predictor gives; invalid_argument without scores; mismatch where outputs differ in size.
Result<SimilarityEvaluation> evaluate_similarity(std::span<Predictor* const> subjects, Predictor* reference,
                                                 Dataset& data, const EvaluateOptions& options, Progress& progress,
                                                 PairScore score = PairScore::cosine);

/// The "subjects" array of the eval JSON. NaN and infinity are null.
Json to_json(const SimilarityEvaluation& evaluation);

} // namespace lathe
