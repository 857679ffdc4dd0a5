#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "calibrate/range.hpp"
#include "calibrate/ranges_file.hpp"
#include "quantize/edges.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// The scale group of what a node reads in int8, which may have been quantised before it was moved or joined. Refers to
/// the index.
class GroupOf {
public:
    GroupOf(const EdgeIndex& index, const QuantizationPlan& plan);
    std::optional<std::size_t> operator()(std::string value) const;

private:
    const EdgeIndex& index_;
    std::unordered_map<std::string, std::size_t> groups_; ///< by the name of a quantised tensor
};

/// The range of all tensors that the group's scale holds; nothing where that of one is not known.
std::optional<Range> range_of(const ScaleGroup& group, const std::map<std::string, Range>& values);

/// The Concat, if any, whose inputs had better keep their own scales: one scale for tensors of unlike size, which the
/// Concat joins with others (in a pyramid of images, by way of other Concats), makes noise of the smaller ones wherever
/// an operation reads them by themselves. Of all those that hold such a scale together the one of the largest values,
/// so that the rest may do; ask again with the plan made without it.
/// `values`: the range of each tensor that the plan's groups unite. Ranges without histograms tell nothing.
std::optional<std::size_t> unlike_concat(const Graph& graph, const QuantizationPlan& plan, const RangesFile& ranges,
                                         const std::map<std::string, Range>& values);

} // namespace lathe
