#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "correct/layer.hpp"
#include "correct/run.hpp"
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
Result<LayerError> measure_layer(const LinearLayer& layer, const LayerRows& rows, std::span<const float> weight,
                                 std::span<const float> change, double damping, std::size_t threads);

/// Multiplies layers' rows with weights. What is compiled serves all layers of as many groups up to the largest so far:
/// compiling takes longer than most products.
class LayerProduct {
public:
    explicit LayerProduct(std::size_t threads) : threads_(threads) {}
    /// W x for rows [groups, positions, depth] and a weight [groups * outputs, depth]: [groups * outputs, positions].
    /// Errors: what compiling and running give.
    Result<std::vector<float>> operator()(const LinearLayer& layer, std::span<const float> rows, std::size_t positions,
                                          std::span<const float> weight);

private:
    /// A compiled product and the largest operands that it takes.
    struct Product {
        Shape rows, weight;
        std::optional<CompiledPart> part;
    };
    Result<CompiledPart*> part_for(const Shape& rows, const Shape& weight);

    std::size_t threads_;
    std::map<std::int64_t, Product> products_; ///< by groups
};

} // namespace lathe
