#include "mix/outcome.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "evaluate/statistics.hpp"

namespace lathe {

namespace {

std::string text(const char* format, double value) {
    char buffer[48];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
}

std::string with_unit(double drop, DamageMetric metric) {
    return text(metric == DamageMetric::top1 || metric == DamageMetric::task ? "%.2f" : "%.3g", drop) + " " +
           drop_unit(metric);
}

/// The loss on the judging data and its 95 % interval; the value itself where it has none.
std::pair<double, Interval> judged_loss(const Judged& judged, DamageMetric metric) {
    if (metric == DamageMetric::task) {
        const Judged::ByTask& task = judged.task.value();
        return {100 * task.score.loss(), {0.0 - 100 * task.change.high, 0.0 - 100 * task.change.low}};
    }
    const SubjectEvaluation& subject = judged.evaluation.subjects.at(1);
    const ReferenceComparison& versus = subject.versus.value();
    double loss = 0;
    Interval interval;
    switch (metric) {
        case DamageMetric::top1: {
            loss = 0.0 - 100 * versus.outcomes.difference(); // no loss is not -0
            const Interval change = paired_difference_interval(versus.outcomes);
            return {loss, {0.0 - 100 * change.high, 0.0 - 100 * change.low}};
        }
        case DamageMetric::agreement: {
            const Interval share = wilson_interval(versus.samples - versus.agree, versus.samples);
            loss = 100 * (1 - static_cast<double>(versus.agree) / static_cast<double>(versus.samples));
            return {loss, {100 * share.low, 100 * share.high}};
        }
        case DamageMetric::task: break; // above
        case DamageMetric::kl: loss = versus.fidelity.mean_kl(); break;
        case DamageMetric::sqnr: loss = 100 * std::pow(10, -versus.fidelity.sqnr_db() / 10); break;
    }
    interval = {loss, loss};
    return {loss, interval};
}

void judge_accuracy(Outcome& outcome, const Judged& judged, const SearchOptions& options) {
    const auto [loss, interval] = judged_loss(judged, options.metric);
    outcome.drop = loss;
    outcome.drop_ci95 = interval;
    const std::string limit = with_unit(options.max_drop, options.metric);
    const std::string where =
        " on " + std::to_string(judged.evaluation.samples) + " samples that the search did not see";
    const bool counts_right = options.metric == DamageMetric::top1 || options.metric == DamageMetric::task;
    const bool has_interval = counts_right || options.metric == DamageMetric::agreement;
    std::string measured = "it loses " + with_unit(loss, options.metric);
    if (judged.task) measured += " of " + judged.task->metric;
    if (has_interval) measured += " (" + text("%.2f", interval.low) + " to " + text("%.2f", interval.high) + ")";
    measured += where;
    const bool over = loss > options.max_drop + 1e-9;
    const bool certain = counts_right ? interval.low > 0 : interval.low > options.max_drop;
    if (judged.evaluation.subjects.at(1).nonfinite > 0) {
        outcome.good = false;
        outcome.reasons.push_back("It gives NaN or infinity for some samples.");
    } else if (over && certain) {
        outcome.good = outcome.within = false;
        outcome.reasons.push_back("The limit of " + limit + " is missed: " + measured + ".");
    } else if (has_interval && interval.high <= options.max_drop) {
        outcome.reasons.push_back("The limit of " + limit + " holds beyond doubt: " + measured + ".");
    } else if (over) {
        outcome.within = false;
        outcome.reasons.push_back("The limit of " + limit + " is neither kept nor missed beyond doubt: " + measured +
                                  ". More samples would tell.");
    } else {
        outcome.reasons.push_back("The limit of " + limit + " holds as measured: " + measured + ".");
    }
}

void judge_speed(Outcome& outcome, const Trial& chosen, const Judged& judged, const SearchOptions& options) {
    for (std::size_t i = 1; i <= judged.floats && i < judged.timed.size(); ++i) {
        const TimedEngine& other = judged.timed[i];
        if (other.name == chosen.mix.name() || other.speedup.ci95.high >= 1) continue;
        const std::string slower = "It is slower than the " + other.name +
                                   " engine: " + text("%.3f", other.speedup.median) + " times its speed";
        const bool keeps_limit = std::ranges::find(judged.beyond_limit, other.name) == judged.beyond_limit.end();
        if (keeps_limit) outcome.good = false;
        outcome.reasons.push_back(slower + (keeps_limit ? "." : ", which loses more than is allowed."));
    }
    const RatioSummary& ratio = judged.timed.at(1).speedup;
    if (options.min_speedup > 0 && ratio.median < options.min_speedup) {
        outcome.good = false;
        outcome.reasons.push_back("No mix within the loss allowed is " + text("%g", options.min_speedup) +
                                  " times as fast as FP32: this one is " + text("%.2f", ratio.median) + " times.");
    }
    if (std::ranges::any_of(judged.timed, &TimedEngine::noisy)) {
        outcome.reasons.emplace_back("Times did not settle within 1 %: something else used this machine.");
    }
}

std::string advice(const Outcome& outcome, const SearchOptions& options) {
    if (!outcome.good) return "do not rely on it";
    if (outcome.within) return "use it";
    return "not shown to keep within " + with_unit(options.max_drop, options.metric) + ", nor to miss it";
}

Json pair(const Interval& interval) { return Json::array({interval.low, interval.high}); }

Json describe(const Trial& trial, const std::vector<std::string>& layers, const SearchOptions& options) {
    Json json{{"name", trial.mix.name()},
              {"mix", trial.mix.key()},
              {"phase", trial.phase},
              {"base", to_string(trial.mix.base)},
              {"int8_layers", trial.mix.int8_layers()},
              {"seconds", trial.seconds}};
    Json kept = Json::array();
    for (std::size_t i = 0; i < layers.size() && trial.mix.any_int8(); ++i) {
        if (!trial.mix.int8[i]) kept.push_back(layers[i]);
    }
    json["float_layers"] = std::move(kept);
    if (!trial.failed.empty()) {
        json["failed"] = trial.failed;
        return json;
    }
    json["latency_ms"] = trial.latency_ms;
    json["speedup"] = trial.speedup;
    json["speedup_ci95"] = pair(trial.speedup_ci95);
    json["noisy"] = trial.noisy;
    json["timed_again"] = trial.as_tried.has_value();
    json["drop"] = drop_of(trial.score, options.metric);
    json["loss"] = loss_of(trial.score, options.metric);
    json["feasible"] = is_feasible(trial, options);
    json.update(to_json(trial.score));
    return json;
}

} // namespace

Outcome judge(const Trial& chosen, const Judged& judged, const SearchOptions& options) {
    Outcome outcome;
    judge_accuracy(outcome, judged, options);
    judge_speed(outcome, chosen, judged, options);
    const RatioSummary& ratio = judged.timed.at(1).speedup;
    if (!chosen.mix.any_int8()) {
        outcome.text = chosen.mix.name() + ": no mix with INT8 is both accurate enough and worth it";
        if (chosen.mix.base != Precision::float32) outcome.text += ", " + text("%.2f", ratio.median) + "x FP32";
        return outcome;
    }
    outcome.text = chosen.mix.name() + ": " + text("%.2f", ratio.median) + "x FP32, loses " +
                   with_unit(outcome.drop, options.metric) + " (" +
                   (judged.task ? judged.task->metric : to_string(options.metric)) + ")" + ": " +
                   advice(outcome, options);
    return outcome;
}

Json to_json(const SearchState& state, std::size_t chosen, const std::vector<std::string>& layers,
             const SearchOptions& options, const Judged& judged, const Outcome& outcome) {
    const std::vector<std::size_t> front = pareto_front(state.trials, options.metric);
    Json trials = Json::array();
    double seconds = state.seconds;
    for (std::size_t i = 0; i < state.trials.size(); ++i) {
        Json json = describe(state.trials[i], layers, options);
        json["pareto"] = std::ranges::find(front, i) != front.end();
        json["chosen"] = i == chosen;
        trials.push_back(std::move(json));
        seconds += state.trials[i].seconds;
    }
    const Trial& best = state.trials.at(chosen);
    Json precisions = Json::array();
    for (std::size_t i = 0; i < layers.size(); ++i) {
        Json layer{{"node", layers[i]}, {"precision", best.mix.int8[i] ? "int8" : to_string(best.mix.base)}};
        layer["damage"] = state.damage.at(i);
        layer["gain_ms"] = i < state.gains.size() ? Json(state.gains[i]) : Json(nullptr);
        precisions.push_back(std::move(layer));
    }
    Json timed = Json::array();
    for (const TimedEngine& engine : judged.timed) {
        timed.push_back({{"name", engine.name},
                         {"latency_ms", engine.latency_ms},
                         {"latency_ci95_ms", pair(engine.latency_ci95)},
                         {"speedup", engine.speedup.median},
                         {"speedup_ci95", pair(engine.speedup.ci95)},
                         {"noisy", engine.noisy}});
    }
    Json json{{"kind", "tune"},
              {"version", 1},
              {"metric", to_string(options.metric)},
              {"max_drop", options.max_drop},
              {"drop_unit", drop_unit(options.metric)},
              {"ranked_by", to_string(ranking_metric(options.metric))},
              {"min_speedup", options.min_speedup},
              {"slack", options.slack},
              {"time_budget_s", options.budget_s},
              {"seconds", seconds},
              {"trials", std::move(trials)},
              {"chosen", best.mix.name()},
              {"layers", std::move(precisions)},
              {"judged",
               {{"samples", judged.evaluation.samples},
                {"drop", outcome.drop},
                {"drop_ci95", pair(outcome.drop_ci95)},
                {"subjects", to_json(judged.evaluation)},
                {"timed", std::move(timed)}}},
              {"good", outcome.good},
              {"text", outcome.text},
              {"reasons", outcome.reasons}};
    if (judged.task) {
        json["task"] = {{"name", judged.task->name},
                        {"metric", judged.task->metric},
                        {"labelled", judged.task->labelled},
                        {"left_out", judged.task->left_out},
                        {"reference", judged.task->score.reference},
                        {"saved", judged.task->score.metric},
                        {"agreement", judged.task->score.agreement},
                        {"delta_ci95", pair(judged.task->change)}};
    }
    return json;
}

} // namespace lathe
