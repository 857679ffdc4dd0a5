#pragma once

#include <optional>

namespace lathe {

/// How the mean error of a layer goes into its bias. fast: on the inputs of the float network; exact: on those that the
/// corrected layers before it give.
enum class BiasCorrection { none, fast, exact };
/// Weights to the nearest step, or so that the layer's output errs least.
enum class Rounding { nearest, output_error };

/// Corrections of what int8 costs, chosen one by one; an absent one is as the effort says.
struct CorrectionChoice {
    std::optional<BiasCorrection> bias = {};
    std::optional<Rounding> rounding = {};
    std::optional<bool> equalize = {};
    std::optional<bool> smooth = {};
    std::optional<bool> float_last = {};     ///< the last layers stay in float where that costs next to nothing
    std::optional<bool> noisy_in_float = {}; ///< layers that 8 bits harm most stay in float; absent: yes
};

} // namespace lathe
