#include "lathe/evaluate_task.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "backends/openvino/tokenizer.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/run.hpp"
#include "support/json.hpp"

namespace lathe {
namespace {

/// What is shown of the tasks whose document does not say it itself.
struct OwnFigures {
    const char* task;
    const char* heading;
    std::span<const Figure> of_subjects;
    std::span<const Figure> against_reference;
};

constexpr std::array class_figures{Figure{"top-1", "top1"}, Figure{"top-5", "top5"}};
constexpr std::array class_fidelity{Figure{"agreement", "agreement"},
                                    Figure{"mean KL", "mean_kl", FigureFormat::number, 5},
                                    Figure{"SQNR", "sqnr_db", FigureFormat::decibel, 1},
                                    Figure{"cosine", "cosine", FigureFormat::number, 6},
                                    Figure{"max error", "max_abs_error", FigureFormat::number, 4},
                                    Figure{"top-1", "top1_delta", FigureFormat::points}};
constexpr std::array pair_figures{Figure{"Spearman", "spearman", FigureFormat::number, 4},
                                  Figure{"Pearson", "pearson", FigureFormat::number, 4}};
constexpr std::array pair_fidelity{Figure{"Spearman difference", "spearman_delta", FigureFormat::number, 4},
                                   Figure{"rank agreement", "rank_agreement", FigureFormat::number, 5},
                                   Figure{"cosine", "cosine", FigureFormat::number, 6},
                                   Figure{"least cosine", "least_cosine", FigureFormat::number, 6},
                                   Figure{"SQNR", "sqnr_db", FigureFormat::decibel, 1},
                                   Figure{"max error", "max_abs_error", FigureFormat::number, 4}};
constexpr std::array answer_figures{Figure{"F1", "f1"}, Figure{"exact match", "exact"}};
constexpr std::array answer_fidelity{Figure{"same answer", "agreement"},
                                     Figure{"exact", "exact_delta", FigureFormat::points},
                                     Figure{"F1", "f1_delta", FigureFormat::points}};
constexpr std::array<OwnFigures, 3> own_figures{{
    {"similarity", "Similarity on %n pairs", pair_figures, pair_fidelity},
    {"squad", "SQuAD on %n questions", answer_figures, answer_fidelity},
    {"classification", "Accuracy on %n samples", class_figures, class_fidelity},
}};

FigureForm form_of(FigureFormat format) {
    switch (format) {
        case FigureFormat::share: return FigureForm::share;
        case FigureFormat::points: return FigureForm::points;
        case FigureFormat::number: return FigureForm::number;
        case FigureFormat::count: return FigureForm::count;
        case FigureFormat::decibel: return FigureForm::decibel;
    }
    return FigureForm::number;
}

/// As describe_figures names them.
FigureForm form_named(const std::string& name) {
    if (name == "share") return FigureForm::share;
    if (name == "points") return FigureForm::points;
    if (name == "count") return FigureForm::count;
    return name == "decibel" ? FigureForm::decibel : FigureForm::number;
}

TaskFigure figure_of(const Json& object, std::string title, std::string key, FigureForm form) {
    TaskFigure figure{std::move(title), std::move(key), form, {}};
    const auto number = [](const Json& value) {
        return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
    };
    if (const auto found = object.find(figure.key); found != object.end()) figure.value = number(*found);
    const auto interval = object.find(figure.key + "_ci95");
    if (interval == object.end() || !interval->is_array() || interval->size() != 2) return figure;
    figure.low = number((*interval)[0]);
    figure.high = number((*interval)[1]);
    return figure;
}

std::vector<TaskFigure> figures_of(const Json& object, std::span<const Figure> figures) {
    std::vector<TaskFigure> found;
    for (const Figure& figure : figures)
        found.push_back(figure_of(object, figure.title, figure.key, form_of(figure.format)));
    return found;
}

std::vector<TaskFigure> figures_of(const Json& object, const Json& columns) {
    std::vector<TaskFigure> found;
    for (const Json& column : columns) {
        found.push_back(figure_of(object, column.at("title").get<std::string>(), column.at("key").get<std::string>(),
                                  form_named(column.at("format").get<std::string>())));
    }
    return found;
}

/// The metric's figure to the front.
void put_metric_first(std::vector<TaskFigure>& figures, const std::string& key) {
    for (std::size_t i = 1; i < figures.size(); ++i) {
        if (figures[i].key != key) continue;
        std::rotate(figures.begin(), figures.begin() + static_cast<std::ptrdiff_t>(i),
                    figures.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        return;
    }
}

const OwnFigures& own_figures_of(const std::string& task) {
    for (const OwnFigures& figures : own_figures) {
        if (task == figures.task) return figures;
    }
    return own_figures.back();
}

EvaluateTaskResult result_of(const Json& document) {
    EvaluateTaskResult result;
    result.task = document.value("task", "classification");
    result.samples = document.at("data").at("samples").get<std::size_t>();
    const bool described = document.contains("columns");
    const OwnFigures& own = own_figures_of(result.task);
    if (described) {
        result.heading = document.at("heading").get<std::string>();
    } else {
        result.heading = own.heading;
        result.heading.replace(result.heading.find("%n"), 2, std::to_string(result.samples));
    }
    for (const Json& each : document.at("subjects")) {
        TaskSubject subject;
        subject.name = each.at("name").get<std::string>();
        subject.precision = each.at("precision").get<std::string>();
        subject.nonfinite = each.at("nonfinite_samples").get<std::size_t>();
        subject.figures =
            described ? figures_of(each, document.at("columns").at("subjects")) : figures_of(each, own.of_subjects);
        if (described) put_metric_first(subject.figures, document.at("metric").at("key").get<std::string>());
        if (const auto versus = each.find("vs_reference"); versus != each.end()) {
            subject.reference = versus->at("reference").get<std::string>();
            subject.against_reference = described ? figures_of(*versus, document.at("columns").at("vs_reference"))
                                                  : figures_of(*versus, own.against_reference);
        }
        result.subjects.push_back(std::move(subject));
    }
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

EvalRequest request_of(const EvaluateTaskRequest& given) {
    EvalRequest request;
    request.engines = given.engines;
    request.reference = given.reference;
    request.data = given.data;
    request.samples = given.samples;
    set_task(request, given.task);
    const QuestionOptions& questions = given.questions;
    request.squad.windows = {questions.max_length, questions.doc_stride, questions.max_question};
    request.squad.n_best = questions.n_best;
    request.squad.max_answer = questions.max_answer;
    request.squad.null_threshold = questions.null_threshold;
    request.columns = given.columns;
    request.make_tokenizer = openvino::make_tokenizer;
    request.preprocess = PreprocessChoice(given.preprocess);
    request.preprocess_on_device = given.preprocess_on_device;
    request.options.batch_size = given.batch_size;
    request.options.worst = given.worst;
    if (given.score_kind == ScoreKind::logits) request.options.output_kind = OutputKind::logits;
    if (given.score_kind == ScoreKind::probabilities) request.options.output_kind = OutputKind::probabilities;
    request.command_line = given.command_line;
    return request;
}

} // namespace

std::optional<TaskFigure> TaskSubject::metric() const {
    return figures.empty() ? std::nullopt : std::optional(figures.front());
}

Result<EvaluateTaskResult> evaluate_task(const EvaluateTaskRequest& given) {
    if (given.batch_size == 0)
        return Error{ErrorCode::invalid_argument, "a batch holds at least one sample", "batch_size", ""};
    const EvalRequest request = request_of(given);
    LATHE_TRY(const Json document,
              evaluate_engines(request, given.progress != nullptr ? *given.progress : no_progress()));
    return result_of(document);
}

} // namespace lathe
