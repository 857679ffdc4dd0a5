#include <algorithm>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

bool merge_two_transposes(const Site& site) {
    Node& outer = site.root;
    const Node& inner = site.match.node("inner");
    const auto first = inner.ints_or("perm", {});
    const auto second = outer.ints_or("perm", {});
    // Without perm the axes are reversed, which needs the rank; exporters always write it.
    if (first.empty() || first.size() != second.size()) return false;
    std::vector<std::int64_t> both;
    for (const std::int64_t axis : second) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(first.size())) return false;
        both.push_back(first[static_cast<std::size_t>(axis)]);
    }
    outer.inputs[0] = inner.inputs[0];
    outer.set("perm", both);
    return true;
}

bool merge_two_reshapes(const Site& site) {
    const auto target = constant_integers(site.graph, site.root, "", 1);
    // A 0 copies a dimension of what it reads, which is no longer the same.
    const bool copies = target && std::find(target->begin(), target->end(), 0) != target->end();
    if (!target || copies) return false;
    site.root.inputs[0] = site.match.node("inner").inputs[0];
    return true;
}

bool undo_reshapes(const Site& site) {
    const Node& asked = site.match.node("asked");
    if (asked.int_or("start", 0) != 0 || asked.attribute("end") != nullptr) return false;
    return bypass(site, site.match.value("x"));
}

} // namespace

//  x                        x
//  |                        |
//  Transpose(p)             Transpose(q after p)     removed by remove-no-ops if nothing moves
//  |               ==>      |
//  Transpose(q)             y
//  |
//  y
Result<bool> merge_transposes(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Transpose", {Pattern::op("Transpose", {Pattern::any()}, "inner")}), merge_two_transposes}};
    return rewrite(graph, context, rules);
}

//  x                                           x
//  |                                           |
//  Reshape | Flatten | Squeeze | Unsqueeze     Reshape(b)
//  |                                     ==>   |
//  Reshape(b)                                  y
//  |
//  y
//
// Reshape(y, Shape(x)) behind what made y of x, or of x itself, is x: PyTorch's reshape_as.
Result<bool> merge_reshapes(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        {Pattern::op("Reshape", {Pattern::op("Reshape|Flatten|Squeeze|Unsqueeze", {Pattern::any()}, "inner"),
                                 Pattern::constant("shape")}),
         merge_two_reshapes},
        {Pattern::op("Reshape", {Pattern::op("Reshape|Flatten|Squeeze|Unsqueeze", {Pattern::any("x")}),
                                 Pattern::op("Shape", {Pattern::any("x")}, "asked")}),
         undo_reshapes},
        {Pattern::op("Reshape", {Pattern::any("x"), Pattern::op("Shape", {Pattern::any("x")}, "asked")}),
         undo_reshapes}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
