#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "correct/layer.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Rows of a layer's input, [groups, positions, depth], in the float and in the quantised network.
struct LayerRows {
    std::vector<float> real;
    std::vector<float> quantized;
    std::size_t positions = 0;
};

/// Sums over the positions, divided by their number. x: the real rows, x^: the quantised ones, e = W (x - x^).
struct LayerError {
    std::vector<float> hessian;     ///< [groups, depth, depth]: covariance of x^; empty unless asked for
    std::vector<float> pull;        ///< [groups, outputs, depth]: covariance of e and x^; likewise
    std::vector<float> gradient;    ///< [groups, outputs, depth]: D H - pull for the weights' present change D; likewise
    std::vector<double> mean_input; ///< [groups, depth]: of x^
    std::vector<double> mean_error; ///< [groups, outputs]: of e
};

/// `weight` and `change` (of the quantised weight against it, in the same unit): [groups * outputs, depth].
/// `damping`: of the mean of H's diagonal, added to it. The products run on the default backend.
Result<LayerError> measure_layer(const LinearLayer& layer, LayerRows rows, std::span<const float> weight,
                                 std::span<const float> change, bool curvature, double damping, std::size_t threads);

} // namespace lathe
