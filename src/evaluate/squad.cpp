#include "evaluate/squad.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "data/text_dataset.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/squad_metrics.hpp"

namespace lathe {

namespace {

/// Positions of the `count` largest scores, largest first, earlier ones first among equals.
std::vector<std::size_t> best_positions(std::span<const float> scores, std::size_t count) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), count));
    return order;
}

struct Candidate {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t first = 0; ///< tokens of the context
    std::size_t last = 0;
    bool found = false;
};

void consider(const Window& window, const SpanScores& scores, const SquadOptions& options, Candidate& best) {
    const auto starts = best_positions(std::span(scores.start).first(window.ids.size()), options.n_best);
    const auto ends = best_positions(std::span(scores.end).first(window.ids.size()), options.n_best);
    const auto inside = [&](std::size_t at) { return at >= window.first && at < window.first + window.tokens.size(); };
    for (const std::size_t start : starts) {
        if (!inside(start) || !window.most_context[start - window.first]) continue;
        for (const std::size_t end : ends) {
            if (!inside(end) || end < start || end - start + 1 > options.max_answer) continue;
            const double score = static_cast<double>(scores.start[start]) + static_cast<double>(scores.end[end]);
            if (best.found && score <= best.score) continue;
            best = {score, window.tokens[start - window.first], window.tokens[end - window.first], true};
        }
    }
}

bool is_finite(const SpanScores& scores, std::size_t length) {
    const auto all = [&](const std::vector<float>& values) {
        return std::all_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(length),
                           [](float value) { return std::isfinite(value); });
    };
    return all(scores.start) && all(scores.end);
}

/// 95 % by the normal approximation.
Interval mean_interval(const std::vector<double>& values, double least, double most) {
    const auto count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / std::max(1.0, count);
    if (values.size() < 2) return {least, most};
    double squares = 0;
    for (const double value : values)
        squares += (value - mean) * (value - mean);
    const double half = 1.959964 * std::sqrt(squares / (count - 1) / count);
    return {std::max(least, mean - half), std::min(most, mean + half)};
}

Batch batch_of(std::span<const Window> windows, const std::vector<InputSpec>& inputs, const Tokenizer& tokenizer,
               std::size_t least) {
    Tokens tokens;
    tokens.count = windows.size();
    for (const Window& window : windows)
        tokens.length = std::max(tokens.length, window.ids.size());
    const auto row_into = [&](std::vector<std::int64_t>& all, const std::vector<std::int64_t>& row, std::int64_t fill) {
        all.insert(all.end(), row.begin(), row.end());
        all.insert(all.end(), tokens.length - row.size(), fill);
    };
    for (const Window& window : windows) {
        row_into(tokens.ids, window.ids, tokenizer.pad_id());
        row_into(tokens.mask, std::vector<std::int64_t>(window.ids.size(), 1), 0);
        if (!window.types.empty()) row_into(tokens.types, window.types, 0);
    }
    Batch batch;
    batch.names.resize(windows.size());
    batch.labels.resize(windows.size(), -1);
    for (const InputSpec& input : inputs)
        batch.inputs.push_back(token_tensor(input, tokens, least, tokenizer));
    return batch;
}

/// Gathers one subject's answers while the questions go by.
class Subject {
public:
    Subject(SpanPredictor& predictor, const SquadOptions& options) : predictor_(predictor), options_(options) {
        result_.name = predictor.name();
        result_.precision = predictor.precision();
    }

    Result<void> ask(const SquadQuestion& question, const SquadData& data, const ContextTokens& tokens,
                     const std::vector<Window>& windows, const std::vector<Batch>& batches) {
        std::vector<SpanScores> scores;
        for (const Batch& batch : batches) {
            auto scored = predictor_.score(batch);
            if (!scored) return std::move(scored).error().in(predictor_.name());
            std::ranges::move(*scored, std::back_inserter(scores));
        }
        if (scores.size() != windows.size()) {
            return Error{ErrorCode::mismatch, "the model gave no scores for some windows", predictor_.name(), ""};
        }
        std::vector<Window> sound;
        std::vector<SpanScores> kept;
        for (std::size_t i = 0; i < windows.size(); ++i) {
            const std::size_t length = windows[i].ids.size();
            if (scores[i].start.size() < length || scores[i].end.size() < length) {
                return Error{ErrorCode::mismatch, "start_logits and end_logits have no score for each token",
                             predictor_.name(), "export a BertForQuestionAnswering or kin"};
            }
            if (!is_finite(scores[i], length)) {
                ++result_.nonfinite;
                continue;
            }
            sound.push_back(windows[i]);
            kept.push_back(std::move(scores[i]));
        }
        const std::string& context = data.contexts[question.context];
        result_.answers.push_back(best_answer(context, tokens, sound, kept, options_, data.version2));
        add(question, data.version2);
        return {};
    }

    SquadSubject finish(std::size_t with_answer) {
        const auto count = static_cast<double>(result_.answers.size());
        result_.exact = exact_sum_ / count;
        result_.f1 = std::accumulate(result_.f1_by_question.begin(), result_.f1_by_question.end(), 0.0) / count;
        result_.exact_interval =
            wilson_interval(static_cast<std::size_t>(std::lround(exact_sum_)), result_.answers.size());
        result_.f1_interval = mean_interval(result_.f1_by_question, 0, 1);
        const auto with = static_cast<double>(with_answer);
        if (with_answer > 0) {
            result_.has_answer_exact = has_answer_exact_ / with;
            result_.has_answer_f1 = has_answer_f1_ / with;
        }
        if (with < count) result_.no_answer_exact = (exact_sum_ - has_answer_exact_) / (count - with);
        return std::move(result_);
    }

private:
    void add(const SquadQuestion& question, bool version2) {
        const std::string& answer = result_.answers.back();
        const AnswerScore score =
            version2 ? score_answer_v2(answer, question.answers) : score_answer_v1(answer, question.answers);
        exact_sum_ += score.exact;
        result_.f1_by_question.push_back(score.f1);
        if (!has_answer(question.answers)) return;
        has_answer_exact_ += score.exact;
        has_answer_f1_ += score.f1;
    }

    SpanPredictor& predictor_;
    const SquadOptions& options_;
    SquadSubject result_;
    double exact_sum_ = 0;
    double has_answer_exact_ = 0;
    double has_answer_f1_ = 0;
};

Json against(const SquadSubject& subject, const SquadSubject& reference) {
    std::vector<double> differences;
    std::size_t same = 0;
    for (std::size_t i = 0; i < subject.answers.size(); ++i) {
        differences.push_back(subject.f1_by_question[i] - reference.f1_by_question[i]);
        same += normalize_answer(subject.answers[i]) == normalize_answer(reference.answers[i]) ? 1 : 0;
    }
    return {{"reference", reference.name},
            {"agreement", static_cast<double>(same) / static_cast<double>(subject.answers.size())},
            {"agreement_ci95", interval_pair(wilson_interval(same, subject.answers.size()))},
            {"exact_delta", subject.exact - reference.exact},
            {"f1_delta", subject.f1 - reference.f1},
            {"f1_delta_ci95", interval_pair(mean_interval(differences, -1, 1))}};
}

} // namespace

std::string best_answer(const std::string& context, const ContextTokens& tokens, std::span<const Window> windows,
                        std::span<const SpanScores> scores, const SquadOptions& options, bool may_be_none) {
    Candidate best;
    double none = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < windows.size(); ++i) {
        consider(windows[i], scores[i], options, best);
        none = std::min(none, static_cast<double>(scores[i].start[0]) + static_cast<double>(scores[i].end[0]));
    }
    if (!best.found || (may_be_none && none - best.score > options.null_threshold)) return "";
    const std::size_t begin = tokens.pieces[best.first].begin;
    return context.substr(begin, tokens.pieces[best.last].end - begin);
}

Result<SquadEvaluation> evaluate_squad(std::span<SpanPredictor* const> subjects, bool has_reference,
                                       const SquadData& data, Tokenizer& tokenizer,
                                       const std::vector<InputSpec>& inputs, const SquadOptions& options,
                                       Progress& progress) {
    if (subjects.empty()) return Error{ErrorCode::invalid_argument, "no engine to evaluate", "", "name at least one"};
    LATHE_TRY(WindowMaker maker, WindowMaker::make(tokenizer, options.windows));
    std::vector<Subject> gathered;
    for (SpanPredictor* predictor : subjects)
        gathered.emplace_back(*predictor, options);
    SquadEvaluation evaluation;
    evaluation.version2 = data.version2;
    evaluation.has_reference = has_reference;
    ContextTokens tokens;
    auto tokenized = std::numeric_limits<std::size_t>::max(); // which context `tokens` are of
    const auto chosen = choose_samples(data.questions.size(), options.samples, std::nullopt);
    progress.begin("evaluating", chosen.size());
    for (const std::size_t index : chosen) {
        LATHE_CHECK(progress.check());
        const SquadQuestion& question = data.questions[index];
        if (tokenized != question.context) {
            LATHE_TRY(tokens, maker.tokenize(data.contexts[question.context]));
            tokenized = question.context;
        }
        auto windows = maker.windows(question.text, tokens);
        if (!windows) return std::move(windows).error().in("question " + question.id);
        std::vector<Batch> batches;
        const std::size_t step = std::max<std::size_t>(1, options.batch_size);
        for (std::size_t at = 0; at < windows->size(); at += step) {
            const std::size_t count = std::min(step, windows->size() - at);
            batches.push_back(
                batch_of(std::span(*windows).subspan(at, count), inputs, tokenizer, options.least_length));
        }
        for (Subject& subject : gathered)
            LATHE_CHECK(subject.ask(question, data, tokens, *windows, batches));
        evaluation.windows += windows->size();
        evaluation.with_answer += has_answer(question.answers) ? 1 : 0;
        progress.advance(1);
    }
    progress.end();
    evaluation.questions = chosen.size();
    for (Subject& subject : gathered)
        evaluation.subjects.push_back(subject.finish(evaluation.with_answer));
    return evaluation;
}

Json to_json(const SquadEvaluation& evaluation) {
    Json subjects = Json::array();
    for (const SquadSubject& subject : evaluation.subjects) {
        Json json{{"name", subject.name},
                  {"precision", subject.precision},
                  {"samples", evaluation.questions},
                  {"exact", subject.exact},
                  {"exact_ci95", interval_pair(subject.exact_interval)},
                  {"f1", subject.f1},
                  {"f1_ci95", interval_pair(subject.f1_interval)},
                  {"nonfinite_samples", subject.nonfinite}};
        if (evaluation.version2) {
            json["has_answer"] = {{"samples", evaluation.with_answer},
                                  {"exact", subject.has_answer_exact},
                                  {"f1", subject.has_answer_f1}};
            json["no_answer"] = {{"samples", evaluation.questions - evaluation.with_answer},
                                 {"exact", subject.no_answer_exact},
                                 {"f1", subject.no_answer_exact}};
        }
        if (evaluation.has_reference && &subject != &evaluation.subjects.front()) {
            json["vs_reference"] = against(subject, evaluation.subjects.front());
        }
        subjects.push_back(std::move(json));
    }
    return subjects;
}

} // namespace lathe
