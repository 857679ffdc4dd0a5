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

/// Means over the positions. x: the real rows, x^: the quantised ones, e = W (x - x^).
struct LayerError {
    std::vector<float> hessian;  ///< [groups, depth, depth]: covariance of x^, damped
    std::vector<float> pull;     ///< [groups, outputs, depth]: covariance of e and x^
    std::vector<float> gradient; ///< [groups, outputs, depth]: D H - pull for the weights' present change D
};

/// `weight` and `change` (of the quantised weight against it, in the same unit): [groups * outputs, depth].
/// `damping`: of the mean of H's diagonal, added to it. The products run on the default backend.
Result<LayerError> measure_layer(const LinearLayer& layer, LayerRows rows, std::span<const float> weight,
                                 std::span<const float> change, double damping, std::size_t threads);

/// W x for rows [groups, positions, depth] and a weight [groups * outputs, depth]: [groups * outputs, positions].
Result<std::vector<float>> layer_outputs(const LinearLayer& layer, std::span<const float> rows, std::size_t positions,
                                         std::span<const float> weight, std::size_t threads);

} // namespace lathe
