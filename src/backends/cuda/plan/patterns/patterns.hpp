#pragma once

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {

/// A matrix product with constant weights, before its tail is known.
struct Product {
    std::vector<Filter> filters;                 ///< side by side along n
    std::vector<std::optional<Constant>> biases; ///< of the filters; may be shorter
    bool transposed = false;                     ///< filters are [N][K] as kernels want them, else [K][N]
    float bias_factor = 1;
    float alpha = 1;
    std::int64_t n = 0, k = 0;
    /// Where the result is known already (merged products): its name and dims, and the nodes taken. Else "".
    std::string end;
    Shape end_dims;
    std::vector<Node*> nodes;
};
Result<void> emit_product(Lowering& lowering, Node& node, const Product& product);

/// Looks for attention before the walk: marks what its last product will emit.
void find_attention(Lowering& lowering);
/// Products of one input that feed one attention are emitted as one, at the first of them.
Result<bool> merged_product(Lowering& lowering, Node& node);

/// Whether `node` is the last product of an attention that is taken whole; emits it then.
Result<bool> attention(Lowering& lowering, Node& node);

/// Whether `node` is arithmetic on integers of 32 or 64 bits; emits it then, exactly.
Result<bool> integer_arithmetic(Lowering& lowering, Node& node);

/// An Add whose sum a LayerNormalization reads: emits both as one then.
Result<bool> add_and_normalise(Lowering& lowering, Node& node);

/// A part whose numbers lie side by side in the whole value, of these sizes, is no operation, but a place in it. False,
/// with nothing made, where it is not.
bool part_in_place(Lowering& lowering, const std::string& part, const Shape& out, ValueId whole, const Slice& cut);

/// The filters as floats: int8 ones by their scales, or `raw` as stored for int8 products; and what names them.
Result<std::vector<float>> filter_floats(const Lowering& lowering, const Filter& filter, bool raw);
std::string filter_key(const Filter& filter, bool raw);

/// Operators of volumes, N,C,D,H,W (volumes.cpp).
Result<void> volume_convolution(Lowering& lowering, Node& node);
Result<void> volume_pool(Lowering& lowering, Node& node);
Result<void> volume_global_pool(Lowering& lowering, Node& node);
/// `detail` has five scales.
Result<void> volume_resize(Lowering& lowering, Node& node, Resize detail);
/// A volume in nhwc with `depths` depths, each with the channels of all that a window along the depth meets, one behind
/// the other with their padding; its own where the window has one depth.
ValueId depth_taps(Lowering& lowering, const Node& node, ValueId in, const DepthWindow& window, std::int64_t depths,
                   const std::string& name);

} // namespace lathe::cuda
