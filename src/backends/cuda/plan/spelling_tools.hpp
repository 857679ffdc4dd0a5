#pragma once
// What rewrites of exporters' spellings share (spellings.cpp, spelled_*.cpp).

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::cuda {

Shape dims_of(const Graph& graph, const std::string& value);
/// Of a constant that is one number.
std::optional<float> scalar_of(const Graph& graph, const std::string& value);

/// The one slice of a value along one axis, from its node.
struct AxisPart {
    std::string whole;
    std::size_t axis = 0;
    std::int64_t start = 0, step = 1;
};
std::optional<AxisPart> cut_of(const Site& site, const std::string& value);

/// Two parts that go round an axis.
Rule roll_spelling();

/// Layer normalisation over several axes, by factors that are computed, or with its statistics as results.
Rule norm_spelling(std::int64_t opset);
/// GroupNorm and InstanceNorm.
std::vector<Rule> group_norm_spellings();
/// One filter for all channels.
std::vector<Rule> plane_spellings();
/// Attention over values of more than four dimensions.
std::vector<Rule> rank_spellings();
/// Masks and attention.
std::vector<Rule> attention_spellings();
/// Products of heads. `weights`: inputs of the graph that are large constants.
std::vector<Rule> head_product_spellings(const std::set<std::string>& weights);
/// Reshapes say their sizes, so that those behind another are one with it, and the one index of an axis is a Reshape.
void write_sizes(Graph& graph);
/// Nodes that only show parts of a value in other sizes follow what makes it: a program that needs such a part finds it
/// there.
void place_parts_early(Graph& graph);
/// Transpositions around products, and several that are one.
std::vector<Rule> movement_spellings(const std::set<std::string>& weights);
/// Rotary positions.
std::vector<Rule> rotary_spellings();

} // namespace lathe::cuda
