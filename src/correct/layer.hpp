#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "correct/samples.hpp"
#include "correct/walk.hpp"
#include "graph/graph.hpp"
#include "quantize/edges.hpp"

namespace lathe {

/// A Conv, Gemm or MatMul with constant weights, seen as a product: for each group g, out[n, m] = sum_k W[m, k] x[n, k]
/// + bias[m], where a row x[n] is what one output position reads (im2col, padding as zeros).
struct LinearLayer {
    enum class Kind { conv, gemm, matmul };
    enum class Padding { given, same_upper, same_lower }; ///< ONNX's auto_pad: by the input's size
    Kind kind = Kind::conv;
    std::size_t groups = 1;
    std::size_t outputs = 0; ///< of one group
    std::size_t depth = 0;   ///< k: of one group
    bool transposed = false; ///< the weight is stored [depth, outputs]
    // Of convolutions, in two dimensions; of those in one, the second.
    std::array<std::int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1}, pads_begin{0, 0}, pads_end{0, 0};
    Padding padding = Padding::given; ///< else pads_begin and pads_end say nothing: window_places

    std::size_t channels() const { return groups * outputs; }
    /// Where element k of output channel m (of all) is in the stored weight.
    std::size_t weight_at(std::size_t m, std::size_t k) const { return transposed ? k * outputs + m : m * depth + k; }
};

/// Nothing for what has no such form here: ConvTranspose, Conv in three dimensions, Gemm with transA or factors,
/// weights of MatMul in more than two dimensions. `why` then says which.
std::optional<LinearLayer> linear_layer(const Node& node, const Shape& weight, std::string& why);

/// A layer in the float model.
struct FloatLayer {
    const Node* node = nullptr;
    Tensor weight;
    LinearLayer form;
};

/// The layer that computes this value in the float model, whose nodes `real` knows. Nothing where there is none with a
/// constant float32 weight and such a form; `why` then says so.
std::optional<FloatLayer> float_layer(const EdgeIndex& real, const std::string& output, std::string& why);

/// Output positions to look at: the same ones for the float and the quantised input of a layer.
struct Positions {
    struct Position {
        std::size_t batch, sample;
        std::int64_t y, x; ///< of the output; for Gemm and MatMul y is the row within the sample and x is 0
    };
    std::vector<Position> at;
};

/// Height and width of an image [N, C, H, W]; [N, C, W] has the height 1.
std::array<std::int64_t, 2> image_size(const Shape& shape);

/// Where a convolution's windows lie on an input [N, C, H, W] or [N, C, W].
struct WindowPlaces {
    std::array<std::int64_t, 2> output{0, 0}; ///< height and width
    std::array<std::int64_t, 2> before{0, 0}; ///< padding above and on the left
};
WindowPlaces window_places(const LinearLayer& layer, const Shape& input);

/// At most about `most` of the layer's output positions, spread evenly over the samples and, within one, by a fixed
/// pseudo-random sequence. All of them if there are no more. For Gemm and MatMul, rows that `masks` call padding are
/// none of them.
Positions choose_positions(const LinearLayer& layer, const Batches& input, std::size_t most, const Masks& masks = {});

/// The positions of every fourth sample go to the second: what is found on the first is checked there. Empty if there
/// are fewer than four samples.
std::pair<Positions, Positions> split_by_sample(const Positions& positions);

/// Rows [groups, positions, depth] of a float32 input.
std::vector<float> gather_rows(const LinearLayer& layer, const Batches& input, const Positions& positions,
                               std::size_t threads);

/// The weight as [groups * outputs, depth], whatever its stored form.
template <class T>
std::vector<T> rows_of_weight(const LinearLayer& layer, std::span<const T> stored) {
    std::vector<T> rows(stored.size());
    for (std::size_t m = 0; m < layer.channels(); ++m) {
        for (std::size_t k = 0; k < layer.depth; ++k)
            rows[m * layer.depth + k] = stored[layer.weight_at(m, k)];
    }
    return rows;
}

} // namespace lathe
