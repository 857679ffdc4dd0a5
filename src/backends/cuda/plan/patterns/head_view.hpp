#pragma once

#include <string>
#include <vector>

#include "backends/cuda/plan/lowering.hpp"

namespace lathe::cuda {

/// An operand of attention as it lies in some value's memory. What only moves numbers (Reshape, Transpose, Slice,
/// Split, Gather of one index, Expand of heads) is seen through, so that none of it need run.
struct SeenHeads {
    std::string value;
    HeadView view;
    std::int64_t heads = 0; ///< fewer than the operand's where Expand repeats them
    double factor = 1;      ///< of scalars that were multiplied on the way
    /// The value is an image, read as NHWC: rows are its pixels from `pixel` on. `view` then counts channels in offset
    /// and head, pixels in batch and row.
    bool image = false;
    std::int64_t pixel = 0;
};

/// A place's view of a value of the plan.
HeadView view_of(const SeenHeads& place, const Value& value);

/// An operand and the places it can be read from, nearest first. `rows`: the value that is [B,S,H,D], if there is one
/// that this operand alone reads through `nodes`.
struct HeadOperand {
    std::vector<SeenHeads> places;
    std::string rows;
    double rows_factor = 1;
    std::vector<Node*> nodes;
};

struct HeadSizes {
    std::int64_t batch = 0, heads = 0, rows = 0, depth = 0;
};
/// Which operand of attention: [B,H,S,D] of queries and values, [B,H,D,S] of keys and turned values. Values may not be
/// scaled on the way.
enum class HeadRole { queries, keys, values, turned_values };
/// `value`, read by `reader`, has these sizes or repeats over samples or heads (rank 3: there is one head). `images`:
/// places in images too.
HeadOperand see_heads(const Lowering& lowering, const std::string& value, const Node& reader, const HeadSizes& sizes,
                      HeadRole role, bool images = false);

/// The furthest of an operand's places that there is by now, with so many heads of this type. Kernels read whole
/// vectors: `aligned` elements, but where there is no other place. Images that are not NHWC come last.
std::optional<SeenHeads> heads_place(Lowering& lowering, const HeadOperand& operand, std::int64_t heads,
                                     ElementType type, std::int64_t aligned = 8);

/// The other operand of Mul or Div with a scalar constant, and the factor.
std::optional<std::pair<std::string, double>> scaled_by(const Lowering& lowering, const Node& node);

} // namespace lathe::cuda
