#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"
#include "quantize/edges.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// The work of plan_quantization: decide which edges want int8, moving the wish backwards through the graph.
///   1. each Conv, ConvTranspose, Gemm, MatMul: int8 or not; those in int8 want it of their activations
///   2. from the last node to the first: reshaping ops, Concat, pools and residual Adds pass the wish on to their
///   inputs
///   3. targets that need it: outputs of what runs in int8
///   4. wishes become pairs and shared scales
///   5. which of them take a zero point
class Planner {
public:
    Planner(const Graph& graph, const TargetProfile& profile, std::vector<bool> excluded,
            std::set<std::size_t> unlike = {});
    QuantizationPlan plan();

private:
    struct Verdict {
        Reason reason;
        std::string detail;
    };

    void judge_heavy(std::size_t index);
    std::optional<Verdict> why_float(std::size_t index);
    /// A convolution of one pixel whose result scales a whole image.
    bool is_gate(std::size_t index) const;
    std::optional<Verdict> why_float_by_size(const Node& node, const Shape& weight) const;
    void walk_back(std::size_t index);
    void walk_pass_through(std::size_t index);
    void walk_concat(std::size_t index);
    void walk_pool(std::size_t index);
    void walk_add(std::size_t index);
    void want_output(std::size_t index);

    /// Some reader of the value wants int8, at once or through one fused activation.
    bool wanted(const std::string& value) const;
    /// Every reader wants int8 and nothing else reads it.
    bool wanted_by_all(const std::string& value) const;
    /// An int8 kernel computes it, or could.
    bool can_be_int8(const std::string& value);
    /// A convolution's output that only `reader` reads.
    bool straight_from_heavy(const std::string& value) const;
    /// The same, or behind its activation where the target adds there too: what an Add reads for nothing.
    bool added_in_kernel(const std::string& value) const;
    /// x of x * Sigmoid(x), where the target's kernel that computes x multiplies too.
    std::optional<std::string> gated_in_kernel(const std::string& value) const;

    void want(const Edge& edge, Reason reason, std::string detail = "");
    void refuse(const Edge& edge, Reason reason, std::string detail = "");
    void refuse_all(std::size_t index, Reason reason, const std::string& detail = "");
    void share_scale(const std::string& a, const std::string& b);
    std::string scale_leader(const std::string& value);

    void build_tensors(QuantizationPlan& plan);
    /// Which groups get a zero point (planner_zero.cpp).
    void choose_zero_points(QuantizationPlan& plan) const;
    bool one_kernel_gives(const std::string& value) const;
    bool adds_behind(std::size_t add, std::size_t kept) const;
    bool takes_zero_point(const Edge& edge) const;
    void build_decisions(QuantizationPlan& plan);
    void add_remarks(QuantizationPlan& plan) const;
    /// How many depthwise convolutions are in int8.
    std::size_t depthwise_int8() const;
    Verdict default_verdict(const Edge& edge) const;

    const Graph& graph_;
    const TargetProfile& profile_;
    std::vector<bool> excluded_;
    std::set<std::size_t> unlike_; // Concats that share no scale
    EdgeIndex index_;
    std::vector<bool> int8_node_; // heavy nodes, Adds, pools and Concats that run in int8
    std::set<Edge> wanted_;       // activation edges that read int8
    std::map<Edge, Verdict> verdicts_;
    std::unordered_set<std::string> moved_;               // no pair here: the one before the reshaping op serves
    std::unordered_set<std::string> range_of_concat_;     // concat outputs whose range stands for their inputs'
    std::unordered_set<std::string> range_from_others_;   // tensors whose own range does not count
    std::unordered_set<std::string> residual_terms_;      // convolutions' outputs that go straight into a residual sum
    std::unordered_map<std::string, std::string> shared_; // union-find over tensors
    std::unordered_map<std::string, bool> can_be_int8_;
    std::map<std::pair<std::string, std::optional<std::int64_t>>, QuantizedWeight> weights_; // by value and axis
};

} // namespace lathe
