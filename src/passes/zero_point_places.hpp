#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>

#include "graph/graph.hpp"

namespace lathe {

/// Where the CUDA engine's int8 kernels take zero points other than 0 in a graph with explicit Q/DQ:
///   Conv, Gemm, MatMul -> (+ skip) -> Relu, Clip -> [Q -> DQ] -> unpadded or depthwise Conv, Gemm, MatMul, or the skip
///   of another
/// which is what quantize/planner_zero.cpp plans before the pairs are there.
class ZeroPointPlaces {
public:
    /// `added`: nodes by what they give that stand before a QuantizeLinear, but are not in `uses` yet. All stay alive.
    ZeroPointPlaces(const Graph& graph, const Uses& uses, const std::map<std::string, const Node*>& added);

    /// Whether what is quantised comes from one kernel that can add a zero point.
    bool one_kernel_gives(const std::string& value) const;
    /// Whether all that read what was dequantised take a zero point.
    bool all_take(const std::string& value) const;

private:
    const Tensor* weights_of(const Node& node) const;
    bool is_dequantised(const std::string& value) const;
    bool is_product(const Node& node) const;
    bool multiplies_int8(const Node& node) const;
    const Node* straight_from_product(const std::string& value) const;
    bool adds_behind(const Node& add, std::size_t kept) const;
    bool takes_zero_point(const Node& node, const std::string& value) const;

    const Graph& graph_;
    const Uses& uses_;
    const std::map<std::string, const Node*>& added_;
    std::unordered_map<const Node*, std::size_t> places_;
};

} // namespace lathe
