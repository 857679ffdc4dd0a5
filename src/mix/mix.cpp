#include "mix/mix.hpp"
#include "support/json_fault.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace lathe {

namespace {

std::string upper(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

Json timing_to_json(const Timing& timing) {
    return {{"latency_ms", timing.latency_ms},
            {"speedup", timing.speedup},
            {"speedup_ci95", {timing.speedup_ci95.low, timing.speedup_ci95.high}},
            {"noisy", timing.noisy}};
}

/// Throws Json::exception where a figure is missing.
Timing timing_from_json(const Json& json) {
    return {json.at("latency_ms").get<double>(),
            json.at("speedup").get<double>(),
            {json.at("speedup_ci95").at(0).get<double>(), json.at("speedup_ci95").at(1).get<double>()},
            json.at("noisy").get<bool>()};
}

} // namespace

std::size_t Mix::int8_layers() const { return static_cast<std::size_t>(std::ranges::count(int8, true)); }

std::string Mix::key() const {
    std::string text = to_string(base) + ":";
    for (const bool flag : int8)
        text += flag ? '1' : '0';
    return text;
}

std::string Mix::name() const {
    const std::size_t kept = int8.size() - int8_layers();
    if (!any_int8()) return upper(to_string(base));
    if (kept == 0) return base == Precision::float32 ? "INT8" : "INT8 (rest " + upper(to_string(base)) + ")";
    return "INT8, " + std::to_string(kept) + (kept == 1 ? " layer " : " layers ") + upper(to_string(base));
}

Result<Mix> mix_from_key(const std::string& key) {
    const Error wrong{ErrorCode::corrupt, "no mix is called '" + key + "'", "", ""};
    const std::size_t colon = key.find(':');
    if (colon == std::string::npos) return wrong;
    const auto base = precision_from_name(key.substr(0, colon));
    if (!base) return wrong;
    Mix mix{*base, {}};
    for (const char c : key.substr(colon + 1)) {
        if (c != '0' && c != '1') return wrong;
        mix.int8.push_back(c == '1');
    }
    return mix;
}

Json to_json(const Trial& trial) {
    Json json = timing_to_json(trial);
    json["mix"] = trial.mix.key();
    json["phase"] = trial.phase;
    json["failed"] = trial.failed;
    json["score"] = sums_to_json(trial.score);
    json["seconds"] = trial.seconds;
    json["as_tried"] = trial.as_tried ? timing_to_json(*trial.as_tried) : Json(nullptr);
    return json;
}

Result<Trial> trial_from_json(const Json& json) {
    Trial trial;
    try {
        LATHE_TRY(trial.mix, mix_from_key(json.at("mix").get<std::string>()));
        LATHE_TRY(trial.score, score_from_json(json.at("score")));
        trial.phase = json.at("phase").get<std::string>();
        trial.failed = json.at("failed").get<std::string>();
        static_cast<Timing&>(trial) = timing_from_json(json);
        if (const Json& own = json.at("as_tried"); !own.is_null()) trial.as_tried = timing_from_json(own);
        trial.seconds = json.at("seconds").get<double>();
    } catch (const Json::exception& failure) {
        return Error{ErrorCode::corrupt, "a trial lacks a figure: " + json_fault(failure), "", ""};
    }
    return trial;
}

double drop_of(const Score& score, DamageMetric metric) {
    switch (metric) {
        case DamageMetric::top1: return 100 * score.soft_top1_drop();
        case DamageMetric::agreement: return 100 * score.damage(metric);
        case DamageMetric::kl: return score.damage(metric);
        case DamageMetric::sqnr: return 100 * score.damage(metric);
        case DamageMetric::task: return score.task ? 100 * score.task->loss() : 0;
    }
    return 0;
}

const char* drop_unit(DamageMetric metric) {
    switch (metric) {
        case DamageMetric::kl: return "nats";
        case DamageMetric::sqnr: return "%";
        default: return "pt";
    }
}

DamageMetric ranking_metric(DamageMetric limit) {
    if (limit == DamageMetric::task) return limit;
    return limit == DamageMetric::sqnr ? DamageMetric::sqnr : DamageMetric::kl;
}

double loss_of(const Score& score, DamageMetric limit) {
    if (limit == DamageMetric::task) return score.task ? score.task->unlikeness() : 0;
    return score.damage(ranking_metric(limit));
}

namespace {

/// Whether `less`, which parts of the samples make by `greater` - `smaller`, is over its one-sided 95 % point.
bool surely_positive(const std::array<double, Score::parts>& greater, const std::array<double, Score::parts>& smaller,
                     double less) {
    constexpr auto parts = static_cast<double>(Score::parts);
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < Score::parts; ++i) {
        const double difference = greater.at(i) - smaller.at(i);
        sum += difference;
        squares += difference * difference;
    }
    constexpr double t95 = 1.753; // 15 degrees of freedom, one-sided
    const double variance = std::max(0.0, squares - sum * sum / parts) * parts / (parts - 1); // of the sum
    return less > t95 * std::sqrt(variance);
}

} // namespace

bool loses_surely_less(const Score& one, const Score& other, DamageMetric limit) {
    if (limit == DamageMetric::task && one.task && other.task) {
        // The parts' mean, not their sum, is about what all samples give.
        constexpr auto parts = static_cast<double>(Score::parts);
        return surely_positive(one.task->part_agreement, other.task->part_agreement,
                               parts * (one.task->agreement - other.task->agreement));
    }
    const bool noise = ranking_metric(limit) == DamageMetric::sqnr;
    if (noise) return surely_positive(other.part_noise, one.part_noise, other.noise - one.noise);
    return surely_positive(other.part_kl, one.part_kl, other.kl - one.kl);
}

Result<double> loss_from_json(const Json& layer, DamageMetric limit) {
    const bool noise = ranking_metric(limit) == DamageMetric::sqnr;
    const bool by_task = limit == DamageMetric::task;
    const char* name = by_task ? "task_agreement" : noise ? "sqnr_db" : "mean_kl";
    const auto found = layer.find(name);
    if (noise && found != layer.end() && found->is_null()) return 0.0; // infinite: no noise
    if (found == layer.end() || !found->is_number()) {
        return Error{ErrorCode::parse_error, std::string("a layer lacks ") + name, layer.value("node", ""),
                     limit == DamageMetric::task
                         ? "write the file anew with lathe sensitivity --task TASK --output FILE"
                         : "write the file anew with lathe sensitivity --output FILE"};
    }
    if (by_task) return std::max(0.0, 1 - found->get<double>());
    return noise ? std::pow(10, -found->get<double>() / 10) : found->get<double>();
}

const char* loss_name(DamageMetric limit) {
    if (limit == DamageMetric::task) return "answers changed";
    return ranking_metric(limit) == DamageMetric::sqnr ? "noise/signal" : "KL";
}

} // namespace lathe
