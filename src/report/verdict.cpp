#include "report/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "report/fields.hpp"
#include "report/wording.hpp"

namespace lathe::report {

namespace {

struct Ratio {
    double value = 0.0;
    double low = 0.0;
    double high = 0.0;
    double few_pairs = 0.0; ///< how many, where they are too few for an interval; else 0
};

/// Loss of the task's metric (top-1 accuracy, answers' F1, mAP) in points, positive for a loss.
struct Loss {
    double point = 0.0;
    double low = 0.0;
    double high = 0.0;
    bool bound = false; ///< only bounded, through the agreement with the reference
    std::string measure = "top-1";
    std::string key = "top1"; ///< where the evaluation has it
};

/// An engine with all that is known about it.
struct Engine {
    Candidate candidate;
    std::string precision;
    const Json* latency = nullptr;
    const Json* evaluation = nullptr;
    std::optional<Ratio> ratio; ///< against the FP32 engine
    std::optional<Loss> loss;

    double median() const { return latency != nullptr ? number(*latency, "median_ms").value_or(INFINITY) : INFINITY; }
    bool accurate() const {
        return candidate.accuracy == Accuracy::reference || candidate.accuracy == Accuracy::within ||
               candidate.accuracy == Accuracy::indistinguishable;
    }
    bool is_baseline() const { return candidate.speed == Speed::baseline; }
};

const Json* find_latency(const Json& bench, std::string_view subject, double batch) {
    for (const Json& row : items(bench, "latency")) {
        if (text(row, "subject") == subject && number(row, "batch") == batch) return &row;
    }
    return nullptr;
}

/// How many times faster `subject` is than `reference`: the paired ratio in either direction, else the medians'.
std::optional<Ratio> find_ratio(const Json& bench, std::string_view subject, std::string_view reference, double batch) {
    for (const Json& row : items(bench, "ratios")) {
        const auto speedup = number(row, "speedup");
        if (!speedup || *speedup <= 0.0 || number(row, "batch") != batch) continue;
        const auto range = interval(row, "ci95").value_or(std::pair{*speedup, *speedup});
        const double few_pairs = row.value("ci95_covered", true) ? 0.0 : number(row, "pairs").value_or(0.0);
        if (text(row, "subject") == subject && text(row, "reference") == reference) {
            return Ratio{*speedup, range.first, range.second, few_pairs};
        }
        if (text(row, "subject") == reference && text(row, "reference") == subject && range.first > 0.0) {
            return Ratio{1.0 / *speedup, 1.0 / range.second, 1.0 / range.first, few_pairs};
        }
    }
    const Json* mine = find_latency(bench, subject, batch);
    const Json* other = find_latency(bench, reference, batch);
    if (mine == nullptr || other == nullptr) return std::nullopt;
    const auto my_median = number(*mine, "median_ms");
    const auto other_median = number(*other, "median_ms");
    if (!my_median || !other_median || *my_median <= 0.0 || *other_median <= 0.0) return std::nullopt;
    const auto my_range = interval(*mine, "ci95_ms").value_or(std::pair{*my_median, *my_median});
    const auto other_range = interval(*other, "ci95_ms").value_or(std::pair{*other_median, *other_median});
    if (my_range.first <= 0.0) return std::nullopt;
    return Ratio{*other_median / *my_median, other_range.first / my_range.second, other_range.second / my_range.first};
}

/// Smallest batch at which every timed engine was timed; falls back to the smallest of all.
std::optional<double> deciding_batch(const Json& bench, const std::vector<std::string>& engines) {
    std::set<double> batches;
    for (const Json& row : items(bench, "latency")) {
        if (const auto batch = number(row, "batch")) batches.insert(*batch);
    }
    if (batches.empty()) return std::nullopt;
    for (const double batch : batches) {
        if (std::all_of(engines.begin(), engines.end(),
                        [&](const std::string& name) { return find_latency(bench, name, batch) != nullptr; })) {
            return batch;
        }
    }
    return *batches.begin();
}

/// `metric` is the evaluation's: {"name", "key"}; null where it has none.
std::optional<Loss> find_loss(const Json& evaluation, const Json* metric) {
    const Json* versus = member(evaluation, "vs_reference");
    if (versus == nullptr) return std::nullopt;
    if (metric != nullptr && metric->is_object()) {
        const std::string key = text(*metric, "key");
        const auto delta = number(*versus, key + "_delta");
        const auto range = interval(*versus, key + "_delta_ci95");
        if (!delta || !range) return std::nullopt;
        return Loss{-100.0 * *delta, -100.0 * range->second, -100.0 * range->first, false, text(*metric, "name"), key};
    }
    if (const auto delta = number(*versus, "top1_delta")) {
        if (const auto range = interval(*versus, "top1_delta_ci95")) {
            return Loss{-100.0 * *delta, -100.0 * range->second, -100.0 * range->first};
        }
        return std::nullopt; // a difference without its interval proves nothing
    }
    if (const auto delta = number(*versus, "f1_delta")) {
        if (const auto range = interval(*versus, "f1_delta_ci95")) {
            return Loss{-100.0 * *delta, -100.0 * range->second, -100.0 * range->first, false, "F1", "f1"};
        }
        return std::nullopt;
    }
    if (const auto agreement = number(*versus, "agreement")) {
        const double low = interval(*versus, "agreement_ci95").value_or(std::pair{0.0, 1.0}).first;
        return Loss{100.0 * (1.0 - *agreement), 0.0, 100.0 * (1.0 - low), true};
    }
    return std::nullopt;
}

Accuracy judge_loss(const Loss& loss, double limit) {
    if (loss.high <= limit) return Accuracy::within;
    if (loss.bound) return Accuracy::unproven;
    if (loss.low > 0.0 && loss.point > limit) return Accuracy::worse;
    if (loss.low <= 0.0 && loss.high <= 2.0 * limit) return Accuracy::indistinguishable;
    return Accuracy::unproven;
}

Speed judge_ratio(const Ratio& ratio) {
    if (ratio.low > 1.0) return Speed::faster;
    return ratio.high < 1.0 ? Speed::slower : Speed::same;
}

/// Bits of a precision's name, for preferring the higher one: "fp32" 32, "int8" 8.
int precision_bits(const std::string& precision) {
    const auto digit = precision.find_first_of("0123456789");
    return digit == std::string::npos ? 0 : std::atoi(precision.c_str() + digit);
}

std::vector<Engine> collect_engines(const Json& bench, const Json& eval) {
    std::vector<Engine> engines;
    // Evaluated subjects stand beside timed ones: an evaluation alone has candidates as well.
    const Json& timed = items(bench, "subjects");
    const Json& evaluated = items(eval, "subjects");
    const auto add = [&](const Json& list, const Json& subject) {
        const std::string name = text(subject, "name");
        Engine engine;
        engine.candidate.name = name;
        engine.candidate.label = subject_label(list, name);
        engine.precision = text(subject, "precision");
        engine.evaluation = find_item(evaluated, "name", name);
        engines.push_back(std::move(engine));
    };
    for (const Json& subject : timed) {
        if (text(subject, "kind") == "engine") add(timed, subject);
    }
    if (timed.empty()) {
        for (const Json& subject : evaluated)
            add(evaluated, subject);
    }
    return engines;
}

/// Everything the sentences are made of.
struct Judgement {
    const Json& bench;
    const Json& eval;
    const VerdictOptions& options;
    std::vector<Engine> engines;
    std::optional<double> batch;
    std::string baseline_label = "the reference";

    const Engine* baseline() const {
        const auto found =
            std::find_if(engines.begin(), engines.end(), [](const Engine& e) { return e.is_baseline(); });
        return found == engines.end() ? nullptr : &*found;
    }
};

void judge_accuracy(Judgement& judgement) {
    const Json& evaluated = items(judgement.eval, "subjects");
    for (const Json& subject : evaluated) {
        const Json* versus = member(subject, "vs_reference");
        const std::string reference = versus == nullptr ? "" : text(*versus, "reference");
        if (reference.empty()) continue;
        judgement.baseline_label = subject_label(evaluated, reference);
        for (Engine& engine : judgement.engines) {
            if (engine.candidate.name == reference) engine.candidate.accuracy = Accuracy::reference;
        }
    }
    for (Engine& engine : judgement.engines) {
        if (engine.candidate.accuracy == Accuracy::reference || engine.evaluation == nullptr) continue;
        engine.loss = find_loss(*engine.evaluation, member(judgement.eval, "metric"));
        if (!engine.loss) continue;
        engine.candidate.accuracy = judge_loss(*engine.loss, judgement.options.max_drop_points);
        engine.candidate.loss_points = engine.loss->point;
    }
}

void judge_speed(Judgement& judgement) {
    std::vector<std::string> names;
    for (const Engine& engine : judgement.engines)
        names.push_back(engine.candidate.name);
    judgement.batch = deciding_batch(judgement.bench, names);
    if (!judgement.batch) return;
    for (Engine& engine : judgement.engines)
        engine.latency = find_latency(judgement.bench, engine.candidate.name, *judgement.batch);
    const auto fp32 = std::find_if(judgement.engines.begin(), judgement.engines.end(),
                                   [](const Engine& e) { return e.precision == "fp32" && e.latency != nullptr; });
    if (fp32 == judgement.engines.end()) return;
    fp32->candidate.speed = Speed::baseline;
    for (Engine& engine : judgement.engines) {
        if (engine.is_baseline()) continue;
        engine.ratio = find_ratio(judgement.bench, engine.candidate.name, fp32->candidate.name, *judgement.batch);
        if (engine.ratio) engine.candidate.speed = judge_ratio(*engine.ratio);
    }
}

/// The engine to use, or null where the results do not support a choice.
const Engine* choose(const Judgement& judgement) {
    const Engine* baseline = judgement.baseline();
    std::vector<const Engine*> acceptable;
    for (const Engine& engine : judgement.engines) {
        if (engine.latency == nullptr || engine.is_baseline()) continue;
        const bool fast_enough = baseline == nullptr || engine.candidate.speed == Speed::faster;
        if (fast_enough && engine.accurate()) acceptable.push_back(&engine);
    }
    if (acceptable.empty()) {
        // FP32 is worth naming only if the others were judged, not if nobody measured their accuracy.
        const bool undecided = std::any_of(judgement.engines.begin(), judgement.engines.end(), [&](const Engine& e) {
            return e.candidate.speed == Speed::faster && e.candidate.accuracy == Accuracy::not_measured;
        });
        return undecided && items(judgement.eval, "subjects").empty() ? nullptr : baseline;
    }
    const Engine* best = *std::min_element(acceptable.begin(), acceptable.end(),
                                           [](const Engine* a, const Engine* b) { return a->median() < b->median(); });
    for (const Engine* engine : acceptable) {
        if (precision_bits(engine->precision) <= precision_bits(best->precision)) continue;
        const auto ratio = find_ratio(judgement.bench, best->candidate.name, engine->candidate.name, *judgement.batch);
        if (ratio && judge_ratio(*ratio) == Speed::same) best = engine;
    }
    return best;
}

/// The engine the headline is about: the recommended one, else the most promising of the others.
const Engine* headline_engine(const Judgement& judgement, const Engine* chosen) {
    if (chosen != nullptr && !chosen->is_baseline()) return chosen;
    const Engine* best = nullptr;
    for (const Engine& engine : judgement.engines) {
        if (engine.is_baseline() || engine.candidate.accuracy == Accuracy::reference) continue;
        if (best == nullptr || engine.median() < best->median()) best = &engine;
    }
    return best != nullptr ? best : chosen;
}

struct FrameworkRatio {
    std::string label;
    Ratio ratio;
};

/// Against each framework that was timed at the deciding batch, PyTorch first.
std::vector<FrameworkRatio> against_frameworks(const Judgement& judgement, const Engine& engine) {
    std::vector<FrameworkRatio> rows;
    if (!judgement.batch) return rows;
    const Json& subjects = items(judgement.bench, "subjects");
    for (const Json& subject : subjects) {
        const std::string name = text(subject, "name");
        // Logs of trtexec are of runs of their own, which give no ratio.
        const std::string kind = text(subject, "kind");
        if (kind == "engine" || kind == "trtexec" || kind.empty()) continue;
        const auto ratio = find_ratio(judgement.bench, engine.candidate.name, name, *judgement.batch);
        if (!ratio) continue;
        const bool first = text(subject, "kind") == "pytorch";
        rows.insert(first ? rows.begin() : rows.end(), {subject_label(subjects, name), *ratio});
    }
    return rows;
}

std::string change_text(const Loss& loss) {
    if (loss.bound) return percent(1.0 - loss.point / 100.0) + " agreement";
    return points(-loss.point) + " pt " + loss.measure + " ±" + decimals((loss.high - loss.low) / 2.0, 1);
}

std::string headline(const Judgement& judgement, const Engine* chosen) {
    const Engine* engine = headline_engine(judgement, chosen);
    if (engine == nullptr) return "";
    const std::string fallback = chosen != nullptr ? "use " + chosen->candidate.label : "";
    std::vector<std::string> facts;
    if (engine->ratio) facts.push_back(times(engine->ratio->value) + " " + judgement.baseline()->candidate.label);
    const auto frameworks = against_frameworks(judgement, *engine);
    if (!frameworks.empty()) facts.push_back(times(frameworks.front().ratio.value) + " " + frameworks.front().label);
    if (facts.empty() && engine->latency != nullptr) {
        facts.push_back(milliseconds(engine->median()) + " at batch " + decimals(*judgement.batch, 0));
    }
    const std::string start = engine->candidate.label + ": ";
    const bool timed = !facts.empty();

    if (engine == chosen) {
        if (engine->loss) facts.push_back(change_text(*engine->loss));
        return start + join(facts, ", ") + (engine->is_baseline() ? ": the only engine measured" : ": use it");
    }
    if (!timed) {
        if (!engine->loss) return "";
        return start + change_text(*engine->loss) + ", " +
               accuracy_phrase(engine->candidate.accuracy, judgement.baseline_label,
                               judgement.options.max_drop_points) +
               "; speed not measured";
    }
    const Speed speed = engine->candidate.speed;
    if (speed == Speed::slower || speed == Speed::same) {
        return start + facts.front() + (speed == Speed::slower ? ", slower" : ", no faster beyond noise") +
               " on this machine" + (fallback.empty() ? "" : ": " + fallback);
    }
    if (!engine->loss) {
        if (chosen == nullptr) return start + join(facts, ", ") + "; accuracy not measured";
        return start + join(facts, ", ") + ", but its accuracy was not measured: " + fallback + " until it is";
    }
    const std::string until = fallback.empty() ? "evaluate more samples" : fallback + " until more are evaluated";
    if (engine->candidate.accuracy == Accuracy::unproven) {
        const auto samples = number(*engine->evaluation, "samples");
        return start + join(facts, ", ") + ", but " + (samples ? count(*samples) + " samples" : "the samples") +
               " cannot show that its accuracy holds (" + change_text(*engine->loss) + "): " + until;
    }
    return start + join(facts, ", ") + ", but " + change_text(*engine->loss) + ", more than the " +
           decimals(judgement.options.max_drop_points, -1) +
           " pt allowed: " + (fallback.empty() ? "do not use it" : fallback);
}

/// Headline of results that hold no engine of ours.
std::string frameworks_headline(const Json& bench, std::optional<double> batch) {
    if (text(bench, "source") == "trtexec") return ""; // separate runs have no fastest
    const Json* best = nullptr;
    for (const Json& row : items(bench, "latency")) {
        const auto median = number(row, "median_ms");
        if (number(row, "batch") == batch && median && (best == nullptr || *median < *number(*best, "median_ms"))) {
            best = &row;
        }
    }
    if (best == nullptr) return "";
    return "Fastest: " + subject_label(items(bench, "subjects"), text(*best, "subject")) + ", " +
           milliseconds(*number(*best, "median_ms")) + " at batch " + decimals(*batch, 0);
}

std::string interval_text(const Ratio& ratio) {
    if (ratio.few_pairs > 0)
        return factor(ratio.value) + "× (" + decimals(ratio.few_pairs, 0) + (ratio.few_pairs > 1 ? " pairs" : " pair") +
               ", too few for an interval)";
    return factor(ratio.value) + "× (95 % interval " + factor(ratio.low) + " to " + factor(ratio.high) + ")";
}

void add_speed_reasons(const Judgement& judgement, const Engine& engine, std::vector<std::string>& reasons) {
    if (engine.latency == nullptr) return;
    const std::string baseline = judgement.baseline() != nullptr ? judgement.baseline()->candidate.label : "";
    std::string sentence = engine.candidate.label + " takes " + milliseconds(engine.median()) + " at batch " +
                           decimals(*judgement.batch, 0);
    if (engine.ratio) {
        sentence += ": " + interval_text(*engine.ratio) + " the speed of " + baseline;
        if (engine.candidate.speed == Speed::slower) sentence += ", so it is slower on this machine";
        if (engine.candidate.speed == Speed::same) sentence += ", no difference beyond noise";
    }
    reasons.push_back(sentence + ".");
    if (!engine.ratio) return;
    for (const Json& row : items(judgement.bench, "latency")) {
        const auto batch = number(row, "batch");
        if (text(row, "subject") != engine.candidate.name || !batch || *batch == *judgement.batch) continue;
        const auto ratio =
            find_ratio(judgement.bench, engine.candidate.name, judgement.baseline()->candidate.name, *batch);
        if (ratio && engine.candidate.speed == Speed::faster && judge_ratio(*ratio) == Speed::slower) {
            reasons.push_back("At batch " + decimals(*batch, 0) + " " + engine.candidate.label + " is slower than " +
                              baseline + ": " + interval_text(*ratio) + ".");
        }
    }
}

void add_accuracy_reason(const Judgement& judgement, const Engine& engine, std::vector<std::string>& reasons) {
    const std::string& label = engine.candidate.label;
    if (!engine.loss) {
        if (engine.candidate.accuracy == Accuracy::not_measured)
            reasons.push_back(label + "'s accuracy was not measured.");
        return;
    }
    const auto samples = number(*engine.evaluation, "samples");
    const auto figure = number(*engine.evaluation, engine.loss->key);
    std::string sentence;
    if (engine.loss->bound) {
        sentence = label + " gives the same class as " + judgement.baseline_label + " on " +
                   percent(1.0 - engine.loss->point / 100.0);
    } else {
        sentence = label + "'s " + engine.loss->measure + " " + (figure ? "is " + percent(*figure) : "was compared");
    }
    if (samples) sentence += (engine.loss->bound ? " of " : " on ") + count(*samples) + " samples";
    if (!engine.loss->bound) {
        sentence += ", " + points(-engine.loss->point) + " pt against " + judgement.baseline_label +
                    " (95 % interval " + points(-engine.loss->high) + " to " + points(-engine.loss->low) + ")";
    }
    const bool no_loss_seen = engine.candidate.accuracy == Accuracy::within && engine.loss->low <= 0.0;
    sentence += ": ";
    if (no_loss_seen && !engine.loss->bound)
        sentence += "not distinguishable from " + judgement.baseline_label + " and ";
    sentence += accuracy_phrase(engine.candidate.accuracy, judgement.baseline_label, judgement.options.max_drop_points);
    reasons.push_back(sentence + ".");
}

/// Which engines' timings say little.
std::optional<std::string> unsettled(const Judgement& judgement) {
    std::vector<std::string> labels;
    for (const Engine& engine : judgement.engines)
        if (engine.latency != nullptr && flag(*engine.latency, "noisy")) labels.push_back(engine.candidate.label);
    if (labels.empty()) return std::nullopt;
    const std::string last = labels.back();
    labels.pop_back();
    const std::string all = labels.empty() ? last : join(labels, ", ") + " and " + last;
    return "The timing of " + all + " did not settle: measure again on a quieter machine.";
}

std::vector<std::string> explain(const Judgement& judgement, const Engine* chosen) {
    std::vector<std::string> reasons;
    const Engine* first = headline_engine(judgement, chosen);
    if (first != nullptr) {
        if (!first->is_baseline()) add_speed_reasons(judgement, *first, reasons);
        if (first->candidate.accuracy != Accuracy::reference) add_accuracy_reason(judgement, *first, reasons);
    }
    if (auto doubt = unsettled(judgement)) reasons.push_back(std::move(*doubt)); // a report shows the first few
    if (first != nullptr) {
        for (const auto& framework : against_frameworks(judgement, *first)) {
            reasons.push_back(first->candidate.label + " runs at " + interval_text(framework.ratio) + " the speed of " +
                              framework.label + " at batch " + decimals(*judgement.batch, 0) + ".");
        }
    }
    for (const Engine& engine : judgement.engines) {
        if (&engine == first || engine.is_baseline()) continue;
        add_speed_reasons(judgement, engine, reasons);
        if (engine.candidate.accuracy != Accuracy::reference) add_accuracy_reason(judgement, engine, reasons);
    }
    return reasons;
}

} // namespace

const char* to_string(Accuracy accuracy) {
    switch (accuracy) {
        case Accuracy::not_measured: return "not_measured";
        case Accuracy::reference: return "reference";
        case Accuracy::within: return "within";
        case Accuracy::indistinguishable: return "indistinguishable";
        case Accuracy::unproven: return "unproven";
        case Accuracy::worse: return "worse";
    }
    return "not_measured";
}

const char* to_string(Speed speed) {
    switch (speed) {
        case Speed::not_measured: return "not_measured";
        case Speed::baseline: return "baseline";
        case Speed::faster: return "faster";
        case Speed::same: return "same";
        case Speed::slower: return "slower";
    }
    return "not_measured";
}

Verdict make_verdict(const Json* bench, const Json* eval, const VerdictOptions& options) {
    const Json nothing = Json::object();
    Judgement judgement{
        bench != nullptr ? *bench : nothing, eval != nullptr ? *eval : nothing, options, {}, {}, "the reference"};
    judgement.engines = collect_engines(judgement.bench, judgement.eval);
    judge_accuracy(judgement);
    judge_speed(judgement);

    Verdict verdict;
    verdict.batch = judgement.batch;
    const Engine* chosen = choose(judgement);
    verdict.text =
        judgement.engines.empty() ? frameworks_headline(judgement.bench, judgement.batch) : headline(judgement, chosen);
    if (chosen != nullptr) verdict.recommended = chosen->candidate.name;
    verdict.reasons = explain(judgement, chosen);
    for (const Engine& engine : judgement.engines)
        verdict.candidates.push_back(engine.candidate);
    return verdict;
}

Json to_json(const Verdict& verdict, const VerdictOptions& options) {
    Json candidates = Json::array();
    for (const Candidate& candidate : verdict.candidates) {
        candidates.push_back({{"name", candidate.name},
                              {"accuracy", to_string(candidate.accuracy)},
                              {"speed", to_string(candidate.speed)}});
    }
    Json document{{"recommended", verdict.recommended},
                  {"text", verdict.text},
                  {"reasons", verdict.reasons},
                  {"max_drop_points", options.max_drop_points},
                  {"candidates", std::move(candidates)}};
    if (verdict.batch) document["batch"] = *verdict.batch;
    return document;
}

} // namespace lathe::report
