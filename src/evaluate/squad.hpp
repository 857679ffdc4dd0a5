#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/squad.hpp"
#include "evaluate/squad_windows.hpp"
#include "evaluate/statistics.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// The scores of one window: how likely each position begins or ends the answer.
struct SpanScores {
    std::vector<float> start;
    std::vector<float> end;
};

/// Something that scores windows: an engine, or a double of one in tests.
class SpanPredictor {
public:
    virtual ~SpanPredictor() = default;
    virtual const std::string& name() const = 0;
    virtual const std::string& precision() const = 0;
    /// One SpanScores a row of the batch, at least as long as the row's tokens.
    virtual Result<std::vector<SpanScores>> score(const Batch& batch) = 0;
};

struct SquadOptions {
    WindowOptions windows;
    std::size_t n_best = 20;      ///< starts and ends considered a window
    std::size_t max_answer = 30;  ///< tokens
    double null_threshold = 0;    ///< 2.0: no answer, where its score beats the best answer's by more than that
    std::size_t batch_size = 16;  ///< windows run together
    std::size_t least_length = 0; ///< shorter windows are filled up, where the engine demands it
    std::size_t samples = 0;      ///< questions, spread evenly; 0: all
};

/// The answer in the windows of one question: the best sum of a start's and an end's score, among the `n_best` starts
/// and ends of each window, where both lie in the context, the start has its most context in this window, and the end
/// follows within `max_answer` tokens. With `may_be_none`, "" where the sum at the first token ([CLS]), the least over
/// the windows, beats it by more than the threshold. (Devlin et al., "BERT", 2019, and its run_squad.py.)
std::string best_answer(const std::string& context, const ContextTokens& tokens, std::span<const Window> windows,
                        std::span<const SpanScores> scores, const SquadOptions& options, bool may_be_none);

struct SquadSubject {
    std::string name;
    std::string precision;
    std::vector<std::string> answers; ///< one a question
    double exact = 0;                 ///< means, 0..1
    double f1 = 0;
    Interval exact_interval;
    Interval f1_interval;
    double has_answer_exact = 0; ///< 2.0: of the questions with an answer, and of those without
    double has_answer_f1 = 0;
    double no_answer_exact = 0;
    std::size_t nonfinite = 0; ///< windows with NaN or infinity, left out
    std::vector<double> f1_by_question;
};

struct SquadEvaluation {
    std::size_t questions = 0;
    std::size_t with_answer = 0;
    std::size_t windows = 0;
    bool version2 = false;
    bool has_reference = false; ///< it is the first subject then
    std::vector<SquadSubject> subjects;
};

/// Asks every subject every question. Errors: what the tokenizer or a predictor gives; invalid_argument without
/// subjects; cancelled.
Result<SquadEvaluation> evaluate_squad(std::span<SpanPredictor* const> subjects, bool has_reference,
                                       const SquadData& data, Tokenizer& tokenizer,
                                       const std::vector<InputSpec>& inputs, const SquadOptions& options,
                                       Progress& progress);

/// The "subjects" array of the eval JSON.
Json to_json(const SquadEvaluation& evaluation);

} // namespace lathe
