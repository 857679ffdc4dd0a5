#include "sensitivity/score.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace lathe {

namespace {

constexpr std::array metric_names{"sqnr", "kl", "agreement", "top1", "task"};

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// How right a sample is, from 0 to 1: sigmoid of the margin. 0 for NaN.
double softly_right(std::span<const float> row, std::size_t label, OutputKind kind) {
    if (label >= row.size()) return 0;
    double other = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (std::isnan(row[i])) return 0;
        if (i != label) other = std::max(other, static_cast<double>(row[i]));
    }
    constexpr double smallest = 1e-38;
    const double own = row[label];
    if (kind == OutputKind::probabilities) {
        const double odds = std::max(own, smallest) / std::max(other, smallest);
        return odds / (1 + odds);
    }
    return 1 / (1 + std::exp(other - own));
}

struct Energies {
    double signal = 0;
    double noise = 0;
};

/// Squares of the reference and of the difference, each group's in its own scale.
Energies energies(std::span<const float> reference, std::span<const float> subject, const OutputGroups& groups) {
    Energies sum;
    for (std::size_t first = 0; first < reference.size();) {
        // Runs of one group: whole samples where there is but one.
        const std::size_t group = groups.group_at(first);
        const std::size_t end = groups.single() ? reference.size() : first + groups.inner;
        const double weight = groups.single() ? 1.0 : groups.weight(group);
        for (; first < end; ++first) {
            const double x = reference[first];
            const double difference = x - static_cast<double>(subject[first]);
            sum.signal += weight * x * x;
            sum.noise += weight * difference * difference;
        }
    }
    return sum;
}

Json task_to_json(const TaskScore& task) {
    return {{"metric", task.metric},
            {"reference", task.reference},
            {"agreement", task.agreement},
            {"part_agreement", task.part_agreement}};
}

} // namespace

const char* to_string(DamageMetric metric) { return metric_names.at(static_cast<std::size_t>(metric)); }

Result<DamageMetric> damage_metric_from_name(std::string_view name) {
    for (std::size_t i = 0; i < metric_names.size(); ++i) {
        if (metric_names.at(i) == name) return static_cast<DamageMetric>(i);
    }
    return Error{ErrorCode::invalid_argument, "unknown metric '" + std::string(name) + "'", "--metric",
                 "use sqnr, kl, agreement, top1 or task"};
}

void Score::add(std::span<const float> reference, std::span<const float> subject, std::int64_t label, OutputKind kind,
                const OutputGroups& groups, std::span<const OtherOutput> others, double scale) {
    const std::size_t part = samples % parts;
    ++samples;
    const auto expected = top_class(reference);
    const auto actual = top_class(subject);
    if (label >= 0) {
        ++labelled;
        right += actual && static_cast<std::int64_t>(*actual) == label ? 1 : 0;
        reference_right += expected && static_cast<std::int64_t>(*expected) == label ? 1 : 0;
        soft_right += softly_right(subject, static_cast<std::size_t>(label), kind);
        soft_reference_right += softly_right(reference, static_cast<std::size_t>(label), kind);
    }
    const bool finite = std::ranges::all_of(
        others, [](const OtherOutput& other) { return all_finite(other.reference) && all_finite(other.subject); });
    if (!finite || !all_finite(reference) || !all_finite(subject)) {
        ++nonfinite;
        return;
    }
    agree += expected == actual ? 1 : 0;
    const double divergence = kl_divergence(reference, subject, kind);
    kl += divergence;
    part_kl.at(part) += divergence;
    Energies sum = energies(reference, subject, groups);
    sum.signal *= scale;
    sum.noise *= scale;
    for (const OtherOutput& other : others) {
        const Energies own = energies(other.reference, other.subject, *other.groups);
        sum.signal += other.scale * own.signal;
        sum.noise += other.scale * own.noise;
    }
    signal += sum.signal;
    noise += sum.noise;
    part_noise.at(part) += sum.noise;
}

double Score::mean_kl() const { return samples > nonfinite ? kl / static_cast<double>(samples - nonfinite) : 0.0; }

double Score::sqnr_db() const {
    if (noise == 0) return std::numeric_limits<double>::infinity();
    if (signal == 0) return -std::numeric_limits<double>::infinity();
    return 10 * std::log10(signal / noise);
}

double Score::agreement() const { return share(agree, samples); }

double Score::top1_drop() const { return share(reference_right, labelled) - share(right, labelled); }

double Score::soft_top1_drop() const {
    return labelled == 0 ? 0.0 : (soft_reference_right - soft_right) / static_cast<double>(labelled);
}

double Score::damage(DamageMetric metric) const {
    constexpr double ruin = 1e30; // sums of it are finite
    if (samples > 0 && nonfinite == samples) return ruin;
    switch (metric) {
        case DamageMetric::kl: return mean_kl();
        case DamageMetric::agreement: return 1 - agreement();
        case DamageMetric::top1: return std::max(0.0, top1_drop());
        case DamageMetric::task: return task ? std::max(0.0, task->loss()) : 0.0;
        case DamageMetric::sqnr: break;
    }
    if (noise == 0) return 0;
    return signal > 0 ? noise / signal : std::numeric_limits<double>::max();
}

Json sums_to_json(const Score& score) {
    Json json{{"samples", score.samples},
              {"nonfinite", score.nonfinite},
              {"agree", score.agree},
              {"labelled", score.labelled},
              {"right", score.right},
              {"reference_right", score.reference_right},
              {"soft_right", score.soft_right},
              {"soft_reference_right", score.soft_reference_right},
              {"kl", score.kl},
              {"signal", score.signal},
              {"noise", score.noise},
              {"part_kl", score.part_kl},
              {"part_noise", score.part_noise}};
    if (score.task) json["task"] = task_to_json(*score.task);
    return json;
}

Result<Score> score_from_json(const Json& json) {
    Score score;
    bool whole = json.is_object();
    const auto read = [&](const char* name, auto& value) {
        const auto found = whole ? json.find(name) : json.end();
        whole = whole && found != json.end() && found->is_number();
        if (whole) value = found->template get<std::remove_reference_t<decltype(value)>>();
    };
    read("samples", score.samples);
    read("nonfinite", score.nonfinite);
    read("agree", score.agree);
    read("labelled", score.labelled);
    read("right", score.right);
    read("reference_right", score.reference_right);
    read("soft_right", score.soft_right);
    read("soft_reference_right", score.soft_reference_right);
    read("kl", score.kl);
    read("signal", score.signal);
    read("noise", score.noise);
    const auto read_parts = [&](const char* name, std::array<double, Score::parts>& values) {
        const auto found = whole ? json.find(name) : json.end();
        whole = whole && found != json.end() && found->is_array() && found->size() == values.size() &&
                std::ranges::all_of(*found, [](const Json& value) { return value.is_number(); });
        if (whole) values = found->get<std::array<double, Score::parts>>();
    };
    read_parts("part_kl", score.part_kl);
    read_parts("part_noise", score.part_noise);
    if (const auto found = whole ? json.find("task") : json.end(); whole && found != json.end()) {
        TaskScore task;
        try {
            task.metric = found->at("metric").get<double>();
            task.reference = found->at("reference").get<double>();
            task.agreement = found->at("agreement").get<double>();
            task.part_agreement = found->at("part_agreement").get<std::array<double, TaskScore::parts>>();
        } catch (const Json::exception&) {
            whole = false;
        }
        score.task = task;
    }
    if (!whole) return Error{ErrorCode::corrupt, "a score lacks one of its sums", "", ""};
    return score;
}

Json to_json(const Score& score) {
    const double sqnr = score.sqnr_db();
    Json json{{"samples", score.samples},
              {"sqnr_db", std::isfinite(sqnr) ? Json(sqnr) : Json(nullptr)},
              {"mean_kl", score.mean_kl()},
              {"agreement", score.agreement()},
              {"top1", nullptr},
              {"top1_delta", nullptr},
              {"soft_top1_delta", nullptr},
              {"nonfinite_samples", score.nonfinite}};
    if (score.labelled > 0) {
        json["top1"] = share(score.right, score.labelled);
        json["top1_delta"] = 0.0 - score.top1_drop();
        json["soft_top1_delta"] = 0.0 - score.soft_top1_drop();
    }
    if (score.task) {
        json["task_metric"] = score.task->metric;
        json["task_delta"] = 0.0 - score.task->loss();
        json["task_agreement"] = score.task->agreement;
    }
    return json;
}

} // namespace lathe
