#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "lathe/types.hpp"

namespace lathe {

/// What the values of a classifier's output are.
enum class OutputKind { logits, probabilities };
const char* to_string(OutputKind kind);

/// Probabilities if no value is negative and every row sums to 1 within 1e-3 (float32 softmax over a thousand classes
/// errs by about 1e-6; half precision by 1e-3), logits otherwise. `values` are rows of `classes` each.
OutputKind detect_output_kind(std::span<const float> values, std::size_t classes);

/// KL(P || Q) in nats, in float64, of the distributions that two rows of outputs stand for: softmax of logits, or the
/// probabilities themselves (each row divided by its sum; Q no smaller than 1e-38, where float32 ends).
double kl_divergence(std::span<const float> reference, std::span<const float> subject, OutputKind kind);

/// How closely one model's outputs follow another's, summed over samples in float64.
class Fidelity {
public:
    /// One sample's outputs, of equal length. Samples with a NaN or infinity on either side count as nonfinite and
    /// enter no other figure. Returns the sample's KL divergence, or nothing for such a sample.
    std::optional<double> add(std::span<const float> reference, std::span<const float> subject, OutputKind kind);

    std::size_t samples() const { return samples_; }     ///< finite ones
    std::size_t nonfinite() const { return nonfinite_; } ///< samples with NaN or infinity
    double mean_kl() const;
    /// 20 log10(|x| / |x - y|) over all values of all samples, x the reference; infinity when equal.
    double sqnr_db() const;
    /// Mean over samples of the cosine between the two outputs. Two all-zero outputs count as 1, one as 0.
    double mean_cosine() const;
    double max_abs_error() const { return max_abs_error_; }

private:
    std::size_t samples_ = 0;
    std::size_t nonfinite_ = 0;
    double kl_ = 0;
    double signal_ = 0;
    double noise_ = 0;
    double cosine_ = 0;
    double max_abs_error_ = 0;
};

/// Neither NaN nor infinity among them.
bool all_finite(std::span<const float> row);
/// The same of one of `samples` samples in outputs of float32, axis 0 the sample.
bool all_outputs_finite(std::span<const HostTensor> outputs, std::size_t sample, std::size_t samples);
/// Index of the greatest value; the first of equals. Nothing if any value is NaN or the row is empty.
std::optional<std::size_t> top_class(std::span<const float> row);
/// Whether `label` is among the k greatest values (of equals the first ones count). False if any value is NaN.
bool in_top(std::span<const float> row, std::size_t label, std::size_t k);

} // namespace lathe
