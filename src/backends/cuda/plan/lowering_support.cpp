#include <string_view>
#include <unordered_set>

#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/recurrent.hpp"
#include "backends/cuda/plan/spellings.hpp"
#include "graph/subgraphs.hpp"

namespace lathe::cuda {

Support lowering_support(const Node& node, const Model&) {
    if (!node.domain.empty()) return {false, "operators of the domain " + node.domain + " have no GPU form"};
    // Where it is decided by shapes it is written out.
    if (node.is("If") || node.is("Loop") || node.is("Scan")) return {};
    if (has_subgraph(node)) return {false, "bodies of " + node.op_type + " have no GPU form"};
    // Folded away once shapes are known, where they do not depend on data, or written out.
    static const std::unordered_set<std::string_view> folded{
        "Shape",  "Size",     "Constant", "ConstantOfShape", "Range",           "Expand",      "Tile",
        "Einsum", "CastLike", "Compress", "LpPool",          "LpNormalization", "GlobalLpPool"};
    if (node.is("Attention")) {
        const std::string why = attention_refusal(node);
        return why.empty() ? Support{} : Support{false, "Attention with " + why + " has no GPU form"};
    }
    if (node.is("RotaryEmbedding")) return {};
    if (node.is("LSTM") || node.is("GRU") || node.is("RNN")) {
        const std::string why = recurrent_refusal(node);
        return why.empty() ? Support{} : Support{false, node.op_type + " with " + why + " has no GPU form"};
    }
    if (lowering_table().contains(node.op_type) || folded.contains(node.op_type)) return {};
    return {false, "there is no GPU form of " + node.op_type};
}

} // namespace lathe::cuda
