#include <algorithm>
#include <limits>

#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

using Condition = bool (*)(const Site&);

bool always(const Site&) { return true; }

bool is_inference_dropout(const Site& site) {
    const Node& node = site.root;
    if (!node.output(1).empty() && site.uses.use_count(node.output(1)) != 0) return false;
    if (site.context.opset < 7) return node.int_or("is_test", 0) != 0;
    if (node.input(2).empty()) return true;
    const Tensor* training = site.graph.constant(node.input(2));
    return training != nullptr && uniform_value(*training) == 0.0F;
}

bool casts_to_same(const Site& site) {
    const DataType from = type_of(site.graph, site.root.input(0));
    return from != DataType::undefined && from == static_cast<DataType>(site.root.int_or("to", 0));
}

bool keeps_all_dims(const Site& site) { return same_shape(site.graph, site.root.input(0), site.root.output(0)); }

/// As many elements before and after: with one dimension unknown and the others equal, that one is equal too.
bool reshapes_to_same(const Site& site) {
    if (keeps_all_dims(site)) return true;
    const auto from = site.graph.info(site.root.input(0));
    const auto to = site.graph.info(site.root.output(0));
    const auto x = from ? from->shape() : std::nullopt;
    const auto y = to ? to->shape() : std::nullopt;
    if (!x || !y || x->size() != y->size()) return false;
    std::size_t open = 0;
    for (std::size_t i = 0; i < x->size(); ++i) {
        if ((*x)[i] < 0 || (*y)[i] < 0) {
            ++open;
        } else if ((*x)[i] != (*y)[i] || (*x)[i] == 0) {
            return false;
        }
    }
    return open <= 1;
}

bool keeps_order(const Site& site) {
    const auto perm = site.root.ints_or("perm", {});
    if (perm.empty()) {
        const auto info = site.graph.info(site.root.input(0));
        return info && info->dims && info->dims->size() <= 1;
    }
    return std::is_sorted(perm.begin(), perm.end());
}

bool pads_nothing(const Site& site) {
    const auto pads = site.context.opset < 11 ? std::optional(site.root.ints_or("pads", {}))
                                              : constant_integers(site.graph, site.root, "", 1);
    return pads && std::all_of(pads->begin(), pads->end(), [](std::int64_t n) { return n == 0; });
}

bool slices_nothing(const Site& site) {
    const auto starts = constant_integers(site.graph, site.root, "starts", 1);
    const auto ends = constant_integers(site.graph, site.root, "ends", 2);
    const auto steps = constant_integers(site.graph, site.root, "steps", 4);
    if (!starts || !ends || (!steps && !site.root.input(4).empty())) return false;
    const auto is = [](std::int64_t n) { return [n](std::int64_t m) { return m == n; }; };
    if (!std::all_of(starts->begin(), starts->end(), is(0))) return false;
    if (steps && !std::all_of(steps->begin(), steps->end(), is(1))) return false;
    const auto past_any = [](std::int64_t n) { return n >= std::numeric_limits<std::int32_t>::max(); };
    return std::all_of(ends->begin(), ends->end(), past_any) || keeps_all_dims(site);
}

/// Every way to resize takes pixels as they are where their number stays, but that which looks outside the image.
bool resizes_to_same(const Site& site) {
    const Graph& graph = site.graph;
    const Node& node = site.root;
    if (node.string_or("coordinate_transformation_mode", "") == "tf_crop_and_resize") return false;
    const std::string& scales = node.input(site.context.opset < 11 ? 1 : 2);
    if (!scales.empty()) {
        const Tensor* factors = graph.constant(scales);
        return factors != nullptr && uniform_value(*factors) == 1.0F;
    }
    if (node.input(3).empty()) return false;
    if (keeps_all_dims(site)) return true;
    const std::size_t own = own_sizes(graph, site.uses, node.input(3), node.input(0));
    const auto from = graph.info_or_name(node.input(0)).shape(), to = graph.info_or_name(node.output(0)).shape();
    if (own == 0 || !from || !to || from->size() != to->size()) return false;
    for (std::size_t axis = own; axis < from->size(); ++axis)
        if ((*from)[axis] < 1 || (*from)[axis] != (*to)[axis]) return false;
    return true;
}

bool has_one_output(const Site& site) { return site.root.outputs.size() == 1; }

bool has_one_input(const Site& site) { return site.root.inputs.size() == 1; }

Rule no_op(const std::string& types, Condition condition) {
    return {Pattern::op(types, {Pattern::any("x")}),
            [condition](const Site& site) { return condition(site) && bypass(site, site.match.value("x")); }};
}

Rule neutral(const char* types, float element, bool either_side) {
    Pattern pattern = Pattern::op(types, {Pattern::any("x"), Pattern::constant("c", [element](const Tensor& t) {
                                              return uniform_value(t) == element;
                                          })});
    if (either_side) pattern = std::move(pattern).any_order();
    return {std::move(pattern), [](const Site& site) {
                const std::string& x = site.match.value("x");
                // Operators of opset 6 and before broadcast by attributes.
                return site.context.opset >= 7 && keeps_shape(site.graph, x, site.match.constant("c")) &&
                       bypass(site, x);
            }};
}

} // namespace

//  x                x
//  |                |
//  Identity   ==>   |
//  |                |
//  y                y
//
// Likewise Dropout at inference, Cast to the type it has, Reshape, Flatten, Squeeze, Unsqueeze and Expand to the shape
// it has, Transpose that keeps the order, Pad by nothing, Slice of everything, Resize to the size it
// has, Concat, Sum, Min, Max and Split of one, and x + 0, x - 0, x * 1, x / 1, x ^ 1 where the constant does not
// broadcast x to a larger shape.
Result<bool> remove_no_ops(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{
        no_op("Identity", always),       no_op("Dropout", is_inference_dropout),
        no_op("Cast", casts_to_same),    no_op("Reshape|Flatten|Squeeze|Unsqueeze", reshapes_to_same),
        no_op("Expand", keeps_all_dims), no_op("Transpose", keeps_order),
        no_op("Pad", pads_nothing),      no_op("Resize", resizes_to_same),
        no_op("Slice", slices_nothing),  no_op("Concat|Sum|Min|Max|Mean", has_one_input),
        no_op("Split", has_one_output), // into one part
        neutral("Add", 0, true),         neutral("Sub", 0, false),
        neutral("Mul", 1, true),         neutral("Div|Pow", 1, false),
    };
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
