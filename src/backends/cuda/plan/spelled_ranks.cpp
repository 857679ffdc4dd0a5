// Attention over values of more than four dimensions, as Einsum writes it over windows (MaxViT) or over frames of
// frames, and over three, with heads as samples.
#include <algorithm>
#include <numeric>

#include "backends/cuda/plan/index_map.hpp"
#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

std::int64_t product(const Shape& dims, std::size_t count) {
    return std::accumulate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count), std::int64_t{1},
                           std::multiplies<>());
}

/// The first dimensions as one, so that `rank` are left.
Shape joined(const Shape& dims, std::size_t rank) {
    const std::size_t extra = dims.size() - rank + 1;
    Shape made{product(dims, extra)};
    made.insert(made.end(), dims.begin() + static_cast<std::ptrdiff_t>(extra), dims.end());
    return made;
}

/// A node on the way from the first product to the Softmax: what it adds or multiplies by, "" for none.
struct Step {
    const Node* node = nullptr;
    std::size_t at = 0; ///< the input that the scores come by
};

/// The first product and the steps behind it, from the Softmax backwards; nothing if there is another node between.
std::optional<std::vector<Step>> steps_behind_product(const Site& site, const std::string& value, const Shape& scores) {
    std::vector<Step> steps;
    std::string at = value;
    while (steps.size() < 5) {
        const Node* node = site.uses.producer(at);
        if (node == nullptr || site.uses.use_count(at) != 1 || site.graph.is_output(at)) return std::nullopt;
        if (node->is("MatMul")) {
            steps.push_back({node, 0});
            return steps;
        }
        if (!node->is("Mul") && !node->is("Div") && !node->is("Add")) return std::nullopt;
        // The scores are the operand of their size that is computed; the other is broadcast to it.
        const auto is_scores = [&](std::size_t i) {
            return dims_of(site.graph, node->input(i)) == scores && site.graph.constant(node->input(i)) == nullptr;
        };
        const std::size_t from = is_scores(0) ? 0 : 1;
        if (!is_scores(from) || is_scores(1 - from) || (node->is("Div") && from == 1)) return std::nullopt;
        steps.push_back({node, from});
        at = node->input(from);
    }
    return std::nullopt;
}

/// What is broadcast to scores of many dimensions, as it is broadcast to those of four; "" where that cannot be.
std::optional<Shape> beside_four(const Shape& dims, std::size_t rank) {
    if (dims.size() <= 3) return dims;
    const std::size_t leading = dims.size() - 3;
    if (dims.size() > rank || product(dims, leading) != 1) return std::nullopt;
    Shape made{1};
    made.insert(made.end(), dims.end() - 3, dims.end());
    return made;
}

//  q, k [A, B, H, S, D]                                        q, k, v [A*B, H, S, D]
//  MatMul -> Mul, Add -> Softmax -> MatMul v      ==>          MatMul -> Mul, Add -> Softmax -> MatMul -> Reshape
bool attention_of_four_dimensions(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Node& softmax = site.match.node("softmax");
    const Shape scores = dims_of(graph, softmax.output(0)), result = dims_of(graph, root.output(0));
    const auto rank = static_cast<std::int64_t>(scores.size());
    const std::int64_t axis = softmax.int_or("axis", site.context.opset < 13 ? 1 : -1);
    if (rank < 5 || (axis != -1 && axis != rank - 1) || result.size() != scores.size()) return false;
    const auto steps = steps_behind_product(site, softmax.input(0), scores);
    if (!steps) return false;
    const Node& first = *steps->back().node;
    // Batches must be whole on both sides of both products.
    const auto whole = [&](const std::string& value) {
        const Shape dims = dims_of(graph, value);
        return dims.size() == scores.size() && std::equal(dims.begin(), dims.end() - 2, scores.begin());
    };
    if (!whole(first.input(0)) || !whole(first.input(1)) || !whole(root.input(1)) ||
        dims_of(graph, first.output(0)) != scores)
        return false;
    for (const Step& step : *steps) {
        if (step.node == &first) continue;
        if (!beside_four(dims_of(graph, step.node->input(1 - step.at)), scores.size())) return false;
    }
    const DataType type = type_of(graph, softmax.output(0));
    const Shape inner = joined(scores, 4);
    const auto operand = [&](const std::string& value) {
        return reshaped(site, value, joined(dims_of(graph, value), 4));
    };
    const std::string q = operand(first.input(0)), k = operand(first.input(1)), v = operand(root.input(1));
    std::string value = add_before(site, make_node("MatMul", {q, k}), type, inner);
    for (auto step = steps->rbegin() + 1; step != steps->rend(); ++step) {
        std::string other = step->node->input(1 - step->at);
        const Shape dims = dims_of(graph, other), beside = *beside_four(dims, scores.size());
        if (beside != dims) other = reshaped(site, other, beside);
        std::vector<std::string> inputs{value, other};
        if (step->at == 1) std::swap(inputs[0], inputs[1]);
        value = add_before(site, make_node(step->node->op_type, std::move(inputs)), type, inner);
    }
    Node weights = make_node("Softmax", {value});
    weights.set("axis", std::int64_t{-1});
    value = add_before(site, std::move(weights), type, inner);
    value = add_before(site, make_node("MatMul", {value, v}), type, joined(result, 4));
    become(root, reshape_node(graph, value, result), root);
    return true;
}

// ---- Heads as samples ----

bool is_product_of_activations(const Graph& graph, const Node& node) {
    return node.is("MatMul") && graph.constant(node.input(0)) == nullptr && graph.constant(node.input(1)) == nullptr;
}

/// Whether scores come this way.
bool leads_to_product(const Site& site, const std::string& value, int depth = 6) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || depth == 0) return false;
    if (is_product_of_activations(site.graph, *node)) return true;
    const bool two = node->is("Add") || node->is("Mul");
    return (two || node->is("Div") || node->is("Reshape")) &&
           (leads_to_product(site, node->input(0), depth - 1) ||
            (two && leads_to_product(site, node->input(1), depth - 1)));
}

/// Samples and heads that [samples * heads, ...] is said to be.
struct SamplesAndHeads {
    std::int64_t samples = 0, heads = 0;
};

/// The way from the Softmax back to the scores' product, which is the last step. Reshapes, between [B * H, L, S] and
/// [B, H, L, S], are left out.
struct ScoresOfSamples {
    std::vector<Step> steps;
    std::optional<SamplesAndHeads> sizes;
};
std::optional<ScoresOfSamples> scores_of_samples(const Site& site, const std::string& value, const Shape& scores) {
    ScoresOfSamples found;
    std::string at = value;
    for (int steps = 0; steps < 8; ++steps) {
        const Node* node = site.uses.producer(at);
        const Shape dims = dims_of(site.graph, at);
        if (node == nullptr || site.uses.use_count(at) != 1) return std::nullopt;
        const bool four = dims.size() == 4 && dims[0] * dims[1] == scores[0] && dims[2] == scores[1];
        if ((!four && dims != scores) || dims.back() != scores[2]) return std::nullopt;
        if (four) {
            if (found.sizes && (found.sizes->samples != dims[0] || found.sizes->heads != dims[1])) return std::nullopt;
            found.sizes = {dims[0], dims[1]};
        }
        if (is_product_of_activations(site.graph, *node)) {
            found.steps.push_back({node, 0});
            return found;
        }
        std::size_t from = 0;
        if (node->is("Add") || node->is("Mul") || node->is("Div")) {
            from = leads_to_product(site, node->input(0)) ? 0 : 1;
            if (from == 1 && (node->is("Div") || !leads_to_product(site, node->input(1)))) return std::nullopt;
            if (from == 0 && leads_to_product(site, node->input(1))) return std::nullopt;
            if (dims_of(site.graph, node->input(from)) != dims) return std::nullopt;
            found.steps.push_back({node, from});
        } else if (!node->is("Reshape")) {
            return std::nullopt;
        }
        at = node->input(from);
    }
    return std::nullopt;
}

/// What [B * H, L, D] was cut from, if its heads' numbers lie side by side.
std::optional<SamplesAndHeads> heads_behind(const Site& site, std::string value) {
    const Shape dims = dims_of(site.graph, value);
    const Node* scale = site.uses.producer(value);
    if (scale != nullptr && (scale->is("Mul") || scale->is("Div")) && scalar_of(site.graph, scale->input(1)))
        value = scale->input(0);
    const auto map = index_map_of(site.graph, site.uses, value, dims);
    if (!map || map->transposes == 0) return std::nullopt;
    const auto digits = digits_by_source(*map, 0);
    if (!digits || digits->size() != 2 || (*digits)[1].stride != dims.back()) return std::nullopt;
    return SamplesAndHeads{(*digits)[0].extent, (*digits)[1].extent};
}

/// The sizes beside [B, H, L, S] of what is added to or multiplied by scores [B * H, L, S]; nothing where that cannot
/// be.
std::optional<Shape> beside_heads(const Shape& dims, const SamplesAndHeads& sizes) {
    if (dims.size() < 2) return dims;
    if (dims.size() > 3 || (dims.size() == 3 && dims[0] != 1 && dims[0] != sizes.samples * sizes.heads))
        return std::nullopt;
    const bool each = dims.size() == 3 && dims[0] != 1;
    return Shape{each ? sizes.samples : 1, each ? sizes.heads : 1, dims[dims.size() - 2], dims.back()};
}

/// A value of other sizes; a constant stays one.
std::string of_sizes(const Site& site, const std::string& value, const Shape& dims) {
    if (dims_of(site.graph, value) == dims) return value;
    const Tensor* constant = site.graph.constant(value);
    return constant != nullptr ? add_constant(site.graph, "mask", constant->reshaped(dims))
                               : reshaped(site, value, dims);
}

//  q, k [B*H, L, D]                                                   q, k, v [B, H, L, D]
//  MatMul [-> Reshape -> Add -> Reshape] -> Softmax -> MatMul v   ==>   MatMul [-> Add] -> Softmax -> MatMul -> Reshape
//
// Products of three dimensions (bmm), as BART, OPT, TrOCR and MultiheadAttention with its weights have them; BLOOM and
// MPT have the second Reshape behind the Softmax. A mask of samples is then no mask of heads, and samples and heads may
// lie in any order.
bool heads_apart_from_samples(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Node& softmax = site.match.node("softmax");
    const Shape scores = dims_of(graph, root.input(0)), result = dims_of(graph, root.output(0));
    const auto rank = static_cast<std::int64_t>(dims_of(graph, softmax.output(0)).size());
    const std::int64_t axis = softmax.int_or("axis", site.context.opset < 13 ? 1 : -1);
    if (scores.size() != 3 || result.size() != 3 || (axis != -1 && axis != rank - 1)) return false;
    auto found = scores_of_samples(site, softmax.input(0), scores);
    if (!found) return false;
    const Node& first = *found->steps.back().node;
    for (const Node* reader : site.uses.consumers(root.output(0))) {
        const Shape dims = dims_of(graph, reader->output(0));
        if (!found->sizes && reader->is("Reshape") && dims.size() == 4 && dims[0] * dims[1] == scores[0] &&
            dims[2] == scores[1])
            found->sizes = {dims[0], dims[1]};
    }
    if (!found->sizes) found->sizes = heads_behind(site, first.input(0));
    const DataType type = type_of(graph, softmax.output(0));
    if (!found->sizes || type == DataType::undefined) return false;
    const SamplesAndHeads sizes = *found->sizes;
    // Whole on both sides of both products. With one sample dynamo leaves the reshape of one operand to broadcasting.
    for (const std::string& each : {first.input(0), first.input(1), root.input(1)}) {
        const Shape dims = dims_of(graph, each);
        const bool three = dims.size() == 3 && dims[0] == scores[0];
        if (!three && (dims.size() != 4 || dims[0] != sizes.samples || dims[1] != sizes.heads)) return false;
    }
    std::vector<Shape> beside;
    for (const Step& step : found->steps) {
        if (step.node == &first) continue;
        const Shape dims = dims_of(graph, step.node->input(1 - step.at));
        const bool four = dims_of(graph, step.node->output(0)).size() == 4;
        const auto fits = four ? std::optional(dims) : beside_heads(dims, sizes);
        if (!fits || type_of(graph, step.node->input(1 - step.at)) == DataType::undefined) return false;
        beside.push_back(*fits);
    }
    const auto apart = [&](const Shape& dims) {
        return Shape{sizes.samples, sizes.heads, dims[dims.size() - 2], dims.back()};
    };
    const auto operand = [&](const std::string& value) { return reshaped(site, value, apart(dims_of(graph, value))); };
    const std::string q = operand(first.input(0)), k = operand(first.input(1)), v = operand(root.input(1));
    std::string value = add_before(site, make_node("MatMul", {q, k}), type, apart(scores));
    for (std::size_t i = beside.size(); i-- > 0;) {
        const Step& step = found->steps[i];
        std::vector<std::string> inputs{value, of_sizes(site, step.node->input(1 - step.at), beside[i])};
        if (step.at == 1) std::swap(inputs[0], inputs[1]);
        value = add_before(site, make_node(step.node->op_type, std::move(inputs)), type, apart(scores));
    }
    Node weights = make_node("Softmax", {value});
    weights.set("axis", std::int64_t{-1});
    value = add_before(site, std::move(weights), type, apart(scores));
    value = add_before(site, make_node("MatMul", {value, v}), type, apart(result));
    become(root, reshape_node(graph, value, result), root);
    return true;
}

// ---- Positions by axis ----

/// The sums from a value back to the scores of a product, which a Reshape gave rows and columns of an image: the other
/// summands. Nothing if there is another node between.
struct SummedScores {
    std::string scores; ///< as the product gives them
    std::vector<std::string> summands;
};
std::optional<SummedScores> summed_scores(const Site& site, const std::string& value, const Shape& dims) {
    SummedScores found;
    std::string at = value;
    for (int steps = 0; steps < 5; ++steps) {
        const Node* node = site.uses.producer(at);
        if (node == nullptr || site.uses.use_count(at) != 1 || dims_of(site.graph, at) != dims) return std::nullopt;
        if (node->is("Reshape")) {
            found.scores = node->input(0);
            return leads_to_product(site, at) && !found.summands.empty() ? std::optional(std::move(found))
                                                                         : std::nullopt;
        }
        if (!node->is("Add")) return std::nullopt;
        const bool first = dims_of(site.graph, node->input(0)) == dims && leads_to_product(site, node->input(0));
        const std::size_t from = first ? 0 : 1;
        found.summands.push_back(node->input(1 - from));
        at = node->input(from);
    }
    return std::nullopt;
}

//  q k^T [B, H, L, S] -> Reshape [B, H, h, w, h', w'] -> Add [.., h', 1] -> Add [.., 1, w'] -> Reshape -> Softmax
//      ==>   Add [.., h', 1] + [.., 1, w'] -> Reshape [B, H, L, S];   q k^T -> Add -> Softmax
//
// Positions relative in each axis by themselves (MViTv2: Li et al., 2022) are a mask: attention takes it.
bool positions_by_axis(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Node* flat = site.uses.producer(root.input(0));
    const Shape scores = dims_of(graph, root.input(0));
    const DataType type = type_of(graph, root.input(0));
    if (flat == nullptr || !flat->is("Reshape") || site.uses.use_count(root.input(0)) != 1 ||
        type == DataType::undefined || scores.size() < 3 || scores.size() > 4)
        return false;
    const Shape wide = dims_of(graph, flat->input(0));
    const auto found = summed_scores(site, flat->input(0), wide);
    if (!found || dims_of(graph, found->scores) != scores) return false;
    std::vector<Shape> sums; // of the first summand, of the first two, ...
    for (const std::string& summand : found->summands) {
        Shape each = dims_of(graph, summand);
        if (each.size() > wide.size() || type_of(graph, summand) != type) return false;
        each.insert(each.begin(), wide.size() - each.size(), 1);
        for (std::size_t i = 0; i < wide.size() && !sums.empty(); ++i)
            each[i] = std::max(each[i], sums.back()[i]);
        sums.push_back(std::move(each));
    }
    if (sums.back() != wide) return false;
    std::string mask = reshaped(site, found->summands[0], sums[0]);
    for (std::size_t i = 1; i < sums.size(); ++i)
        mask = add_before(site, make_node("Add", {mask, found->summands[i]}), type, sums[i]);
    Node softmax = root;
    softmax.inputs[0] = add_before(site, make_node("Add", {found->scores, reshaped(site, mask, scores)}), type, scores);
    become(root, std::move(softmax), root);
    return true;
}

//  [A, B, S, H, D] -> Transpose {0, 1, 3, 2, 4}   ==>   Reshape [A*B, S, H, D] -> Transpose {0, 2, 1, 3} -> Reshape
bool transpose_of_four_dimensions(const Site& site) {
    Graph& graph = site.graph;
    const Shape from = dims_of(graph, site.root.input(0)), to = dims_of(graph, site.root.output(0));
    const auto order = site.root.ints_or("perm", {});
    if (from.size() != 5 || to.size() != 5 || order.size() != 5 || order[0] != 0 || order[1] != 1) return false;
    const DataType type = type_of(graph, site.root.input(0));
    if (type == DataType::undefined || element_count(from) == 0) return false;
    Node turn = make_node("Transpose", {reshaped(site, site.root.input(0), joined(from, 4))});
    turn.set("perm", std::vector<std::int64_t>{0, order[2] - 1, order[3] - 1, order[4] - 1});
    const std::string turned = add_before(site, std::move(turn), type, joined(to, 4));
    become(site.root, reshape_node(graph, turned, to), site.root);
    return true;
}

} // namespace

std::vector<Rule> rank_spellings() {
    const Pattern softmax = Pattern::op("Softmax", {}, "softmax").used_once();
    return {Rule{Pattern::op("MatMul", {softmax, Pattern::any()}), attention_of_four_dimensions},
            Rule{Pattern::op("MatMul", {softmax, Pattern::any()}), heads_apart_from_samples},
            Rule{Pattern::op("MatMul", {Pattern::op("Reshape", {softmax, Pattern::any()}).used_once(), Pattern::any()}),
                 heads_apart_from_samples},
            Rule{Pattern::op("Softmax"), positions_by_axis},
            Rule{Pattern::op("Transpose"), transpose_of_four_dimensions}};
}

} // namespace lathe::cuda
