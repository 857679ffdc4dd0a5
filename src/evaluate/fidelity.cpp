#include "evaluate/fidelity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe {

namespace {

bool any_nan(std::span<const float> row) {
    return std::any_of(row.begin(), row.end(), [](float value) { return std::isnan(value); });
}

/// ln of the sum of exponentials, shifted by the greatest so that nothing overflows.
double log_sum_exp(std::span<const float> row) {
    const double greatest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row)
        sum += std::exp(static_cast<double>(value) - greatest);
    return greatest + std::log(sum);
}

double sum_of(std::span<const float> row) {
    double sum = 0;
    for (const float value : row)
        sum += std::max(0.0, static_cast<double>(value));
    return sum;
}

double kl_of_logits(std::span<const float> reference, std::span<const float> subject) {
    const double reference_norm = log_sum_exp(reference);
    const double subject_norm = log_sum_exp(subject);
    double kl = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        const double log_p = static_cast<double>(reference[i]) - reference_norm;
        const double log_q = static_cast<double>(subject[i]) - subject_norm;
        kl += std::exp(log_p) * (log_p - log_q);
    }
    return kl;
}

double kl_of_probabilities(std::span<const float> reference, std::span<const float> subject) {
    constexpr double smallest = 1e-38;
    const double reference_sum = std::max(sum_of(reference), smallest);
    const double subject_sum = std::max(sum_of(subject), smallest);
    double kl = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        const double p = std::max(0.0, static_cast<double>(reference[i])) / reference_sum;
        const double q = std::max(smallest, static_cast<double>(subject[i]) / subject_sum);
        if (p > 0) kl += p * std::log(p / q);
    }
    return kl;
}

} // namespace

const char* to_string(OutputKind kind) { return kind == OutputKind::logits ? "logits" : "probabilities"; }

OutputKind detect_output_kind(std::span<const float> values, std::size_t classes) {
    if (classes < 2 || values.empty()) return OutputKind::logits;
    for (std::size_t start = 0; start + classes <= values.size(); start += classes) {
        double sum = 0;
        for (const float value : values.subspan(start, classes)) {
            if (!(value >= 0)) return OutputKind::logits;
            sum += value;
        }
        if (std::abs(sum - 1) > 1e-3) return OutputKind::logits;
    }
    return OutputKind::probabilities;
}

double kl_divergence(std::span<const float> reference, std::span<const float> subject, OutputKind kind) {
    if (reference.empty()) return 0;
    const double kl =
        kind == OutputKind::logits ? kl_of_logits(reference, subject) : kl_of_probabilities(reference, subject);
    // Never negative in exact arithmetic (Gibbs); rounding of equal distributions may end just below.
    return std::max(0.0, kl);
}

std::optional<double> Fidelity::add(std::span<const float> reference, std::span<const float> subject, OutputKind kind) {
    if (!all_finite(reference) || !all_finite(subject)) {
        ++nonfinite_;
        return std::nullopt;
    }
    double signal = 0;
    double other = 0;
    double noise = 0;
    double dot = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        const double x = reference[i];
        const double y = subject[i];
        signal += x * x;
        other += y * y;
        dot += x * y;
        noise += (x - y) * (x - y);
        max_abs_error_ = std::max(max_abs_error_, std::abs(x - y));
    }
    signal_ += signal;
    noise_ += noise;
    if (signal > 0 && other > 0)
        cosine_ += dot / (std::sqrt(signal) * std::sqrt(other));
    else if (signal == other)
        cosine_ += 1;
    ++samples_;
    const double kl = kl_divergence(reference, subject, kind);
    kl_ += kl;
    return kl;
}

double Fidelity::mean_kl() const { return samples_ > 0 ? kl_ / static_cast<double>(samples_) : 0; }

double Fidelity::sqnr_db() const {
    if (noise_ == 0) return std::numeric_limits<double>::infinity();
    if (signal_ == 0) return -std::numeric_limits<double>::infinity();
    return 10 * std::log10(signal_ / noise_);
}

double Fidelity::mean_cosine() const { return samples_ > 0 ? cosine_ / static_cast<double>(samples_) : 0; }

bool all_finite(std::span<const float> row) {
    return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

bool all_outputs_finite(std::span<const HostTensor> outputs, std::size_t sample, std::size_t samples) {
    return std::ranges::all_of(outputs, [&](const HostTensor& output) {
        const auto values = output.as<float>();
        const std::size_t row = values.size() / samples;
        return all_finite(values.subspan(sample * row, row));
    });
}

std::optional<std::size_t> top_class(std::span<const float> row) {
    if (row.empty() || any_nan(row)) return std::nullopt;
    return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

bool in_top(std::span<const float> row, std::size_t label, std::size_t k) {
    if (label >= row.size() || any_nan(row)) return false;
    std::size_t before = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] > row[label] || (row[i] == row[label] && i < label)) ++before;
    }
    return before < k;
}

} // namespace lathe
