#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/target.hpp"

namespace lathe {

class EdgeIndex;

// A CPU without VNNI or AMX multiplies 8-bit numbers by vpmaddubsw, which adds the products of two neighbours in 16
// bits and clips the sum: uint8 255 x int8 127, twice, is 64,770. Kernels (oneDNN's and MLAS's, found by running them
// on such weights) make neighbours of the input channels 2i and 2i + 1 at one position of a convolution's kernel.
// Depthwise ones add in 32 bits.

/// Two steps of one sign that are added first make at most this: 255 x 128 < 2^15 <= 255 x 129.
inline constexpr int most_of_a_pair = 128;

/// Which elements of a weight are neighbours.
class WeightPairs {
public:
    WeightPairs() = default; ///< none
    /// `inputs`: the axis of the input channels.
    WeightPairs(const Shape& shape, std::int64_t inputs);
    bool empty() const { return count_ == 0; }
    /// The other one of element i's pair, if it has one.
    std::optional<std::size_t> other(std::size_t i) const;
    /// No two of a pair in these elements, the weight's or whole output channels of it from the first axis on, add up
    /// to more than most_of_a_pair.
    bool fit(std::span<const std::int8_t> steps) const;

private:
    std::size_t count_ = 0;
    std::size_t stride_ = 1;
};

/// The axis of the input channels of a Conv's, ConvTranspose's, Gemm's or MatMul's weight; nothing where the target's
/// kernels may pair otherwise.
std::optional<std::int64_t> input_axis(const Node& node, const Shape& weight, const TargetProfile& profile);

/// Can this Conv's, ConvTranspose's, Gemm's or MatMul's int8 weight overflow those sums on large inputs? Weights whose
/// pairs are not known are taken to with more than 7 bits. False for other nodes and weights.
bool can_overflow(const EdgeIndex& index, const Node& node, const TargetProfile& profile);
/// Labels of the layers that can, in graph order.
std::vector<std::string> layers_that_overflow(const Graph& graph, const TargetProfile& profile);

} // namespace lathe
