// Products of one input whose results are heads: one product where attention cannot see that itself.
#include <algorithm>
#include <set>

#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

/// MatMul(x, weights) [-> Add bias] -> Reshape [B, S, H, D], each read once.
struct HeadProduct {
    std::string weights, bias, end;
    std::int64_t columns = 0;
    const Node* reshape = nullptr;
    std::string joint; ///< with what others give, see joint_attention
};
std::optional<HeadProduct> head_product(const Site& site, const std::set<std::string>& weights, const Node& product) {
    const auto only = [&](const std::string& value) -> const Node* {
        const auto& readers = site.uses.consumers(value);
        return readers.size() == 1 && site.uses.use_count(value) == 1 ? readers.front() : nullptr;
    };
    HeadProduct found;
    found.weights = product.input(1);
    const Shape dims = dims_of(site.graph, found.weights);
    const bool fixed = weights.contains(found.weights) || site.graph.constant(found.weights) != nullptr;
    if (!product.is("MatMul") || !fixed || dims.size() != 2 || dims_of(site.graph, product.output(0)).size() != 3 ||
        type_of(site.graph, found.weights) != DataType::float32)
        return std::nullopt;
    found.columns = dims[1];
    found.end = product.output(0);
    const Node* reader = only(found.end);
    if (reader != nullptr && reader->is("Add")) {
        const std::string& other = reader->input(reader->input(0) == found.end ? 1 : 0);
        if (site.graph.constant(other) == nullptr || dims_of(site.graph, other) != Shape{found.columns})
            return std::nullopt;
        found.bias = other;
        found.end = reader->output(0);
        reader = only(found.end);
    }
    if (reader == nullptr || !reader->is("Reshape") || dims_of(site.graph, reader->output(0)).size() != 4)
        return std::nullopt;
    found.reshape = reader;
    return found;
}

bool leads_to_rotary(const Site& site, const Node& reshape) {
    std::string value = reshape.output(0);
    for (int steps = 0; steps < 3; ++steps) {
        const auto& readers = site.uses.consumers(value);
        if (readers.size() != 1) return false;
        if (readers.front()->is("Rotary")) return true;
        if (!readers.front()->is("Transpose")) return false;
        value = readers.front()->output(0);
    }
    return false;
}

/// The product of activations with weights whose heads a value is, or that of some that run as one; null if neither.
const Node* product_of_heads(const Site& site, const std::set<std::string>& weights, std::string value) {
    for (int steps = 0; steps < 5; ++steps) {
        const Node* node = site.uses.producer(value);
        if (node == nullptr || site.uses.use_count(value) != 1) return nullptr;
        if (node->is("MatMul")) {
            const bool fixed = weights.contains(node->input(1)) || site.graph.constant(node->input(1)) != nullptr;
            return fixed ? node : nullptr;
        }
        if (node->is("Slice")) {
            const Node* product = site.uses.producer(node->input(0));
            return product != nullptr && product->is("JoinedProducts") ? product : nullptr;
        }
        if (!node->is("Transpose") && !node->is("Reshape") && !node->is("Add")) return nullptr;
        value = node->input(node->is("Add") && site.graph.constant(node->input(0)) != nullptr ? 1 : 0);
    }
    return nullptr;
}

/// Where heads are joined with those of other products, as of text and image, that then attend together: Reshape
/// [-> Transpose] -> Concat of rows, its result's name. "" for other ways.
std::string joint_attention(const Site& site, const std::set<std::string>& weights, const Node& reshape) {
    std::string value = reshape.output(0), joined;
    const std::int64_t rows = dims_of(site.graph, value)[1];
    for (int steps = 0; steps < 6; ++steps) {
        const auto& readers = site.uses.consumers(value);
        if (readers.size() != 1 || site.uses.use_count(value) != 1) return "";
        const Node& reader = *readers.front();
        if (reader.is("MatMul")) return joined;
        const Shape dims = dims_of(site.graph, value);
        if (reader.is("Concat")) {
            const std::int64_t axis = reader.int_or("axis", 0);
            if (!joined.empty() || (axis != 1 && axis != 2) || dims.size() != 4 ||
                dims[static_cast<std::size_t>(axis)] != rows ||
                !std::all_of(reader.inputs.begin(), reader.inputs.end(), [&](const std::string& input) {
                    return product_of_heads(site, weights, input) != nullptr;
                }))
                return "";
            joined = reader.output(0);
        } else if (!reader.is("Transpose") &&
                   (joined.empty() || !reader.is("Mul") ||
                    (!scalar_of(site.graph, reader.input(0)) && !scalar_of(site.graph, reader.input(1))))) {
            return "";
        }
        value = reader.output(0);
    }
    return "";
}

/// The node that gives a value, made in this sweep or before.
Node* maker(const Graph& graph, const std::string& value) {
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
        return !node->outputs.empty() && node->output(0) == value;
    });
    return found == graph.nodes.end() ? nullptr : found->get();
}

/// Whether the products that these are joined with for attention can run as one too, so that one Concat joins all.
bool others_join(const Site& site, const std::set<std::string>& weights, const std::vector<HeadProduct>& parts) {
    for (const HeadProduct& part : parts) {
        const Node* concat = site.uses.producer(part.joint);
        for (const std::string& input : concat->inputs) {
            const Node* product = product_of_heads(site, weights, input);
            if (product == nullptr) return false;
            if (product->is("JoinedProducts")) continue;
            std::set<std::string> joints;
            for (const Node* reader : site.uses.consumers(product->input(0))) {
                if (!reader->is("MatMul") || reader->input(0) != product->input(0)) continue;
                const auto each = head_product(site, weights, *reader);
                if (!each) continue;
                joints.insert(joint_attention(site, weights, *each->reshape));
            }
            if (joints.size() != parts.size() || joints.contains("")) return false;
        }
    }
    return true;
}

/// Of these products, as the root's `joined` before it. Nothing if they are not joined.
Node* join(const Site& site, const std::set<std::string>& weights, const std::string& x, const std::string& joined) {
    Graph& graph = site.graph;
    std::vector<HeadProduct> parts;
    bool rotary = false, mine = false, joint = true;
    for (const Node* reader : site.uses.consumers(x)) {
        if (!reader->is("MatMul") || reader->input(0) != x) continue;
        auto each = head_product(site, weights, *reader);
        if (!each) continue;
        rotary = rotary || leads_to_rotary(site, *each->reshape);
        mine = mine || each->end == site.root.output(0);
        each->joint = joint_attention(site, weights, *each->reshape);
        joint = joint && !each->joint.empty();
        parts.push_back(std::move(*each));
    }
    const bool biased = !parts.empty() && !parts[0].bias.empty();
    const bool alike =
        std::all_of(parts.begin(), parts.end(), [&](const HeadProduct& each) { return each.bias.empty() != biased; });
    if (parts.size() < 2 || (!rotary && !joint) || !mine || !alike) return nullptr;
    if (!rotary && !others_join(site, weights, parts)) return nullptr;
    // In the same order on both sides.
    if (joint) std::ranges::sort(parts, {}, &HeadProduct::joint);
    std::vector<std::string> inputs{x};
    Shape dims = dims_of(graph, site.root.output(0));
    dims[2] = 0;
    for (const HeadProduct& each : parts) {
        inputs.push_back(each.weights);
        dims[2] += each.columns;
    }
    for (const HeadProduct& each : parts)
        if (biased) inputs.push_back(each.bias);
    Node product = make_node("JoinedProducts", std::move(inputs));
    product.set("products", static_cast<std::int64_t>(parts.size()));
    add_before(site, std::move(product), type_of(graph, site.root.output(0)), dims, joined);
    return maker(graph, joined);
}

//  x -> MatMul q, MatMul k, MatMul v [-> Add]     ==>     x -> JoinedProducts -> Slice q, Slice k, Slice v
//
// With rotary positions between, attention does not see that its products have one input. The parts are read where they
// lie. The first product joins them all; each finds its part by its weights.
bool join_head_products(const Site& site, const std::set<std::string>& weights) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Node* product = root.is("MatMul") ? &root : site.uses.producer(root.input(0));
    if (root.is("Add") && (product == nullptr || !product->is("MatMul"))) product = site.uses.producer(root.input(1));
    if (product == nullptr || !product->is("MatMul")) return false;
    const std::string joined = product->input(0) + "/joined", own = product->input(1);
    const Node* all = graph.info(joined) ? maker(graph, joined) : join(site, weights, product->input(0), joined);
    if (all == nullptr) return false;
    const auto count = static_cast<std::size_t>(all->int_or("products", 0));
    // With biases the Add is the part, without them the product. Two may share their weights, not their biases.
    const bool biased = all->inputs.size() > count + 1;
    if (biased != root.is("Add")) return false;
    const std::string bias = biased ? root.input(root.input(0) == product->output(0) ? 1 : 0) : "";
    std::int64_t begin = 0, end = 0;
    for (std::size_t i = 1; i <= count && end == 0; ++i) {
        const std::int64_t columns = dims_of(graph, all->input(i))[1];
        if (all->input(i) == own && (!biased || all->input(count + i) == bias))
            end = begin + columns;
        else
            begin += columns;
    }
    if (end == 0) return false;
    const auto bound = [&](std::int64_t number) {
        return add_constant(graph, "bound", Tensor::of_int64s("", {1}, std::vector<std::int64_t>{number}));
    };
    become(root, make_node("Slice", {joined, bound(begin), bound(end), bound(2)}), root);
    return true;
}

/// A part of a joined product as heads: Slice of the last of three axes -> Reshape [B, S, H, D].
struct HeadPart {
    std::string joined;
    std::vector<std::int64_t> bounds;
};
std::optional<HeadPart> head_part(const Site& site, const std::string& value) {
    const Node* reshape = site.uses.producer(value);
    if (reshape == nullptr || !reshape->is("Reshape") || site.uses.use_count(value) != 1) return std::nullopt;
    const Node* slice = site.uses.producer(reshape->input(0));
    if (slice == nullptr || !slice->is("Slice") || site.uses.use_count(reshape->input(0)) != 1) return std::nullopt;
    const Node* product = site.uses.producer(slice->input(0));
    const Tensor *begin = site.graph.constant(slice->input(1)), *end = site.graph.constant(slice->input(2)),
                 *axis = site.graph.constant(slice->input(3));
    if (product == nullptr || !product->is("JoinedProducts") || begin == nullptr || end == nullptr || axis == nullptr ||
        axis->count() != 1 || axis->to_int64s()[0] != 2 || !slice->input(4).empty())
        return std::nullopt;
    return HeadPart{slice->input(0), {begin->to_int64s()[0], end->to_int64s()[0]}};
}

//  Concat(heads of a part of one joined product, of another)   ==>   heads of that part of Concat(both products)
//
// Queries, keys and values of text and image are then joined once. The first of the three joins them.
bool join_products_of_heads(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const DataType type = type_of(graph, root.output(0));
    if (dims.size() != 4 || root.int_or("axis", 0) != 1 || root.inputs.size() < 2 || type == DataType::undefined)
        return false;
    std::vector<std::string> products;
    std::vector<std::int64_t> bounds;
    std::string both;
    for (const std::string& input : root.inputs) {
        const auto part = head_part(site, input);
        if (!part || (!bounds.empty() && part->bounds != bounds)) return false;
        bounds = part->bounds;
        products.push_back(part->joined);
        both += (both.empty() ? "" : "/with/") + part->joined;
    }
    Shape whole = dims_of(graph, products[0]);
    for (const std::string& product : products) {
        const Shape each = dims_of(graph, product);
        if (each.size() != 3 || each[0] != whole[0] || each[2] != whole[2]) return false;
    }
    whole[1] = dims[1];
    if (!graph.info(both)) {
        Node concat = make_node("Concat", products);
        concat.set("axis", std::int64_t{1});
        add_before(site, std::move(concat), type, whole, both);
    }
    const auto bound = [&](std::int64_t number) {
        return add_constant(graph, "bound", Tensor::of_int64s("", {1}, std::vector<std::int64_t>{number}));
    };
    Node slice = make_node("Slice", {both, bound(bounds[0]), bound(bounds[1]), bound(2)});
    const std::string part = add_before(site, std::move(slice), type, {whole[0], whole[1], bounds[1] - bounds[0]});
    become(root, reshape_node(graph, part, dims), root);
    return true;
}

} // namespace

std::vector<Rule> head_product_spellings(const std::set<std::string>& weights) {
    return {Rule{Pattern::op("MatMul|Add"), [weights](const Site& site) { return join_head_products(site, weights); }},
            Rule{Pattern::op("Concat"), join_products_of_heads}};
}

} // namespace lathe::cuda
