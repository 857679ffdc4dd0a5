#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/preprocess.hpp"
#include "cli/task.hpp"
#include "data/preprocess.hpp"
#include "lathe/evaluate_task.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct EvalOptions {
    EvaluateTaskRequest request;
    std::string preprocess; ///< a file
    std::string preprocess_on = "cpu";
    std::string output_kind = "auto";
    std::string output;
};

std::string number_or_dash(const Json& value, const char* format) {
    if (!value.is_number()) return "-";
    char text[64];
    std::snprintf(text, sizeof(text), format, value.get<double>());
    return text;
}

/// "68.24 % (66.9..69.5)"
std::string share(const Json& object, const std::string& key) {
    if (!object[key].is_number()) return "-";
    const auto percent = [](const Json& value, const char* format) {
        char text[32];
        std::snprintf(text, sizeof(text), format, 100 * value.get<double>());
        return std::string(text);
    };
    const Json& interval = object[key + "_ci95"];
    return percent(object[key], "%.2f") + " % (" + percent(interval[0], "%.1f") + ".." + percent(interval[1], "%.1f") +
           ")";
}

std::string points(const Json& value) {
    if (!value.is_number()) return "-";
    char text[32];
    std::snprintf(text, sizeof(text), "%+.2f", 100 * value.get<double>());
    return text;
}

void print_accuracy(const Context& context, const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "precision", "top-1 (95 %)", "top-5 (95 %)"}};
    for (const auto& subject : document["subjects"]) {
        rows.push_back({subject["name"].get<std::string>(), subject["precision"].get<std::string>(),
                        share(subject, "top1"), share(subject, "top5")});
    }
    context.print(
        context.bold("Accuracy on " + std::to_string(document["data"]["samples"].get<std::size_t>()) + " samples"));
    context.print(table(rows) + "\n");
}

void print_fidelity(const Context& context, const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "reference", "agreement (95 %)", "mean KL", "SQNR dB",
                                                "cosine", "max error", "top-1 points (95 %)", "McNemar p"}};
    for (const auto& subject : document["subjects"]) {
        if (!subject.contains("vs_reference")) continue;
        const Json& versus = subject["vs_reference"];
        const Json& delta = versus["top1_delta_ci95"];
        const std::string interval =
            delta.is_array() ? " (" + points(delta[0]) + ".." + points(delta[1]) + ")" : std::string();
        rows.push_back({subject["name"].get<std::string>(), versus["reference"].get<std::string>(),
                        share(versus, "agreement"), number_or_dash(versus["mean_kl"], "%.5f"),
                        versus["sqnr_db"].is_null() ? "equal" : number_or_dash(versus["sqnr_db"], "%.1f"),
                        number_or_dash(versus["cosine"], "%.6f"), number_or_dash(versus["max_abs_error"], "%.4g"),
                        points(versus["top1_delta"]) + interval,
                        versus["mcnemar"].is_object() ? number_or_dash(versus["mcnemar"]["p_value"], "%.3g") : "-"});
    }
    if (rows.size() < 2) return;
    context.print(context.bold("Against the reference"));
    context.print(table(rows) + "\n");
}

void print_worst(const Context& context, const Json& document) {
    for (const auto& subject : document["subjects"]) {
        if (!subject.contains("worst") || subject["worst"].empty()) continue;
        std::vector<std::vector<std::string>> rows{{"sample", "KL", "label", "reference says", "subject says"}};
        for (const auto& sample : subject["worst"]) {
            rows.push_back({sample["sample"].get<std::string>(), number_or_dash(sample["kl"], "%.4f"),
                            sample["label"].dump(), sample["reference_class"].dump(), sample["subject_class"].dump()});
        }
        context.print(context.bold("Samples on which " + subject["name"].get<std::string>() + " differs most"));
        context.print(table(rows) + "\n");
    }
}

/// "0.8203 (0.800..0.838)"
std::string correlation(const Json& object, const std::string& key, const char* format = "%.4f") {
    if (!object[key].is_number()) return "-";
    const Json& interval = object[key + "_ci95"];
    return number_or_dash(object[key], format) + " (" + number_or_dash(interval[0], format) + ".." +
           number_or_dash(interval[1], format) + ")";
}

void print_similarity(const Context& context, const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "precision", "Spearman (95 %)", "Pearson (95 %)"}};
    std::vector<std::vector<std::string>> against{{"subject", "reference", "Spearman difference (95 %)",
                                                   "rank agreement", "cosine", "least cosine", "SQNR dB", "max error"}};
    for (const auto& subject : document["subjects"]) {
        rows.push_back({subject["name"].get<std::string>(), subject["precision"].get<std::string>(),
                        correlation(subject, "spearman"), correlation(subject, "pearson")});
        if (!subject.contains("vs_reference")) continue;
        const Json& versus = subject["vs_reference"];
        against.push_back({subject["name"].get<std::string>(), versus["reference"].get<std::string>(),
                           correlation(versus, "spearman_delta", "%+.4f"),
                           number_or_dash(versus["rank_agreement"], "%.5f"), number_or_dash(versus["cosine"], "%.6f"),
                           number_or_dash(versus["least_cosine"], "%.6f"),
                           versus["sqnr_db"].is_null() ? "equal" : number_or_dash(versus["sqnr_db"], "%.1f"),
                           number_or_dash(versus["max_abs_error"], "%.4g")});
    }
    context.print(context.bold("Similarity on " + document["data"]["samples"].dump() + " pairs" +
                               (document["score"] == "output" ? ", scored by the output itself" : "")));
    context.print(table(rows) + "\n");
    if (against.size() < 2) return;
    context.print(context.bold("Against the reference"));
    context.print(table(against) + "\n");
}

void print_squad(const Context& context, const Json& document) {
    std::vector<std::vector<std::string>> rows{{"subject", "precision", "exact match (95 %)", "F1 (95 %)"}};
    std::vector<std::vector<std::string>> parts{{"subject", "with an answer: exact", "F1", "without: right"}};
    std::vector<std::vector<std::string>> against{
        {"subject", "reference", "same answer (95 %)", "exact points", "F1 points (95 %)"}};
    for (const auto& subject : document["subjects"]) {
        const auto name = subject["name"].get<std::string>();
        rows.push_back({name, subject["precision"].get<std::string>(), share(subject, "exact"), share(subject, "f1")});
        if (subject.contains("has_answer")) {
            const auto percent = [&](const char* part, const char* key) {
                char text[32];
                std::snprintf(text, sizeof(text), "%.2f %%", 100 * subject[part][key].get<double>());
                return std::string(text);
            };
            parts.push_back(
                {name, percent("has_answer", "exact"), percent("has_answer", "f1"), percent("no_answer", "exact")});
        }
        if (!subject.contains("vs_reference")) continue;
        const Json& versus = subject["vs_reference"];
        const Json& interval = versus["f1_delta_ci95"];
        against.push_back({name, versus["reference"].get<std::string>(), share(versus, "agreement"),
                           points(versus["exact_delta"]),
                           points(versus["f1_delta"]) + " (" + points(interval[0]) + ".." + points(interval[1]) + ")"});
    }
    context.print(context.bold("SQuAD " + document["squad_version"].get<std::string>() + ", " +
                               document["data"]["samples"].dump() + " questions in " + document["windows"].dump() +
                               " windows"));
    context.print(table(rows) + "\n");
    if (parts.size() > 1) context.print(table(parts) + "\n");
    if (against.size() < 2) return;
    context.print(context.bold("Against the reference"));
    context.print(table(against) + "\n");
}

/// A figure as its column says, with its interval where there is one.
std::string figure(const Json& object, const Json& column) {
    const auto key = column["key"].get<std::string>();
    const auto format = column["format"].get<std::string>();
    const int digits = column["digits"].get<int>();
    if (!object.contains(key) || !object[key].is_number()) return format == "decibel" ? "equal" : "-";
    const bool share = format == "share" || format == "points";
    const auto write = [&](const Json& value, int places) {
        if (!value.is_number()) return std::string("nan"); // JSON's null: of some resamples there is no figure
        char text[48];
        const double number_or_dash = value.get<double>() * (share ? 100 : 1);
        std::snprintf(text, sizeof(text), format == "points" ? "%+.*f" : "%.*f", format == "count" ? 0 : places,
                      number_or_dash);
        return std::string(text);
    };
    std::string text = write(object[key], digits) + (format == "share" ? " %" : "");
    const auto interval = object.find(key + "_ci95");
    if (interval != object.end() && interval->is_array() && interval->size() == 2)
        text += " (" + write((*interval)[0], share ? digits - 1 : digits) + ".." +
                write((*interval)[1], share ? digits - 1 : digits) + ")";
    return text;
}

/// The two tables of a task that says itself what is shown of it.
void print_figures(const Context& context, const Json& document) {
    const Json& own = document["columns"]["subjects"];
    const Json& against = document["columns"]["vs_reference"];
    std::vector<std::vector<std::string>> rows{{"subject", "precision"}};
    std::vector<std::vector<std::string>> compared{{"subject", "reference"}};
    const auto title = [](const Json& column) {
        return column["title"].get<std::string>() + (column["format"] == "points" ? ", points" : "");
    };
    for (const Json& column : own)
        rows[0].push_back(title(column));
    for (const Json& column : against)
        compared[0].push_back(title(column));
    for (const Json& subject : document["subjects"]) {
        rows.push_back({subject["name"].get<std::string>(), subject["precision"].get<std::string>()});
        for (const Json& column : own)
            rows.back().push_back(figure(subject, column));
        if (!subject.contains("vs_reference")) continue;
        compared.push_back(
            {subject["name"].get<std::string>(), subject["vs_reference"]["reference"].get<std::string>()});
        for (const Json& column : against)
            compared.back().push_back(figure(subject["vs_reference"], column));
    }
    context.print(context.bold(document["heading"].get<std::string>()));
    if (!own.empty()) context.print(table(rows) + "\n");
    if (compared.size() < 2) return;
    context.print(context.bold("Against the reference"));
    context.print(table(compared) + "\n");
}

Result<void> run_eval(const EvalOptions& options, const Context& context) {
    EvaluateTaskRequest request = options.request;
    request.preprocess = options.preprocess;
    request.preprocess_on_device = options.preprocess_on == "gpu";
    if (options.output_kind == "logits") request.score_kind = ScoreKind::logits;
    if (options.output_kind == "probabilities") request.score_kind = ScoreKind::probabilities;
    request.command_line = context.command_line();
    request.progress = &context.progress();
    LATHE_CHECK(check_writable({options.output}));
    LATHE_TRY(const EvaluateTaskResult result, evaluate_task(request));
    LATHE_TRY(Json document, parse_json(result.document, "eval"));
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    if (document.contains("columns")) {
        print_figures(context, document);
    } else if (result.task == "similarity") {
        print_similarity(context, document);
    } else if (result.task == "squad") {
        print_squad(context, document);
    } else {
        print_accuracy(context, document);
        print_fidelity(context, document);
        print_worst(context, document);
    }
    for (const TaskSubject& subject : result.subjects) {
        if (subject.nonfinite != 0) {
            context.warn(subject.name + " gave NaN or infinity on " + std::to_string(subject.nonfinite) +
                         " samples; they count as wrong, or as not alike");
        }
    }
    if (!options.output.empty()) context.print("results: " + options.output);
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_eval(Commands& commands) {
    const auto options = std::make_shared<EvalOptions>();
    Context& context = commands.context();
    CLI::App& command =
        commands.add({"eval",
                      "Accuracy of engines on labelled data, and how closely they follow a reference engine",
                      {"lathe eval int8.engine bf16.engine --reference fp32.engine --data validation/",
                       "lathe eval int8.engine --data validation/ --samples 1000 --json",
                       "lathe eval int8.engine --reference fp32.engine --data unlabelled/ --output eval.json",
                       "lathe eval minilm.engine --task similarity --data sts.tsv --columns text=5,pair=6,label=4",
                       "lathe eval int8.engine --reference fp32.engine --task squad --data dev-v1.1.json",
                       "lathe eval int8.engine --reference fp32.engine --data coco/",
                       "lathe eval int8.engine --reference fp32.engine --data arrays/ --task mine.py:score"}},
                     [options, &context] { return run_eval(*options, context); });
    command.add_option("engines", options->request.engines, "Engine files")->type_name("ENGINE")->required();
    command.add_option("--reference", options->request.reference, "Engine whose outputs the others should follow");
    command
        .add_option(
            "--data", options->request.data,
            "Folder with labels.csv or class subfolders, images, .npy or .npz; texts (.tsv, .csv, .jsonl); pictures "
            "with boxes (COCO, YOLO, Pascal VOC), masks/ beside images/, targets/ beside inputs/, or texts.csv")
        ->required();
    add_task_options(command, options->request.task);
    command.add_option("--columns", options->request.columns, columns_help);
    command.add_option("--samples", options->request.samples, "Use that many samples, spread evenly (default: all)");
    command.add_option("--batch-size", options->request.batch_size, "Samples decoded and run together")
        ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
        ->capture_default_str();
    command.add_option("--preprocess", options->preprocess, preprocess_help());
    command
        .add_option(
            "--preprocess-on", options->preprocess_on,
            "Who resizes, crops and normalises pictures: cpu, or gpu with GPU engines (the same to the last bit)")
        ->check(CLI::IsMember({"cpu", "gpu"}))
        ->capture_default_str();
    command
        .add_option("--output-kind", options->output_kind,
                    "Whether outputs are logits or probabilities; auto looks at the reference's first batch")
        ->check(CLI::IsMember({"auto", "logits", "probabilities"}))
        ->capture_default_str();
    command.add_option("--worst", options->request.worst, "How many of the samples that differ most are listed")
        ->capture_default_str();
    QuestionOptions& questions = options->request.questions;
    command.add_option("--max-length", questions.max_length, "Of --task squad: tokens of a window")
        ->capture_default_str();
    command.add_option("--doc-stride", questions.doc_stride, "Of --task squad: tokens from window to window")
        ->capture_default_str();
    command.add_option("--max-question", questions.max_question, "Of --task squad: tokens of a question")
        ->capture_default_str();
    command.add_option("--n-best", questions.n_best, "Of --task squad: begins and ends considered a window")
        ->capture_default_str();
    command.add_option("--max-answer", questions.max_answer, "Of --task squad: tokens of an answer")
        ->capture_default_str();
    command
        .add_option("--null-threshold", questions.null_threshold,
                    "Of --task squad, version 2.0: no answer where its score beats the best answer's by more")
        ->capture_default_str();
    command.add_option("-o,--output", options->output, "Write the results as JSON");
}

} // namespace lathe::cli
