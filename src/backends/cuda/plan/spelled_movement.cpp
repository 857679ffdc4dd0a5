// Transpositions between products and attention, and several in one chain. PyTorch's MultiheadAttention takes
// [batch, length, width] to [length, batch, width] and back around the products of queries, keys, values and outputs.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

#include "backends/cuda/plan/index_map.hpp"
#include "backends/cuda/plan/patterns/pointwise_ops.hpp"
#include "backends/cuda/plan/spelling_tools.hpp"

namespace lathe::cuda {
namespace {

using Names = std::set<std::string>;

std::string transposed_before(const Site& site, const std::string& value, const std::vector<std::int64_t>& order) {
    const Shape dims = dims_of(site.graph, value);
    Shape turned;
    for (const std::int64_t axis : order)
        turned.push_back(dims[static_cast<std::size_t>(axis)]);
    Node node = make_node("Transpose", {value});
    node.set("perm", order);
    return add_before(site, std::move(node), type_of(site.graph, value), turned);
}

/// The order of a Transpose that leaves the last of at least three axes where it is.
std::vector<std::int64_t> order_of_rows(const Graph& graph, const Node& node) {
    const auto rank = static_cast<std::int64_t>(dims_of(graph, node.output(0)).size());
    auto order = node.ints_or("perm", {});
    const bool rows = node.is("Transpose") && rank >= 3 && static_cast<std::int64_t>(order.size()) == rank &&
                      order.back() == rank - 1;
    return rows ? order : std::vector<std::int64_t>{};
}

/// A matrix that is no activation: a constant, or one in int8 and its scales.
bool is_weight(const Site& site, const Names& weights, const std::string& value) {
    if (dims_of(site.graph, value).size() != 2) return false;
    const auto fixed = [&](const std::string& name) {
        return site.graph.constant(name) != nullptr || weights.contains(name);
    };
    const Node* node = site.uses.producer(value);
    return fixed(value) || (node != nullptr && node->is("DequantizeLinear") && fixed(node->input(0)));
}

/// A constant along the last axis of `dims`, or a single number.
bool is_number_or_vector(const Graph& graph, const std::string& name, const Shape& dims) {
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr || tensor->shape().size() > dims.size()) return false;
    const auto count = static_cast<std::int64_t>(tensor->count());
    return count == 1 || (count == dims.back() && tensor->shape().back() == count);
}

/// A node that computes each row of its first activation by itself, whatever rows stand around it: the input.
enum class RowWise { no, first, second };
RowWise row_wise(const Site& site, const Names& weights, const Node& node) {
    const Graph& graph = site.graph;
    const Shape dims = dims_of(graph, node.output(0));
    if (dims.size() < 2 || node.outputs.size() != 1) return RowWise::no;
    if (node.is("MatMul")) return is_weight(site, weights, node.input(1)) ? RowWise::first : RowWise::no;
    if (node.is("Gemm")) {
        const bool plain = node.int_or("transA", 0) == 0 && is_weight(site, weights, node.input(1)) &&
                           (node.input(2).empty() || is_number_or_vector(graph, node.input(2), dims));
        return plain ? RowWise::first : RowWise::no;
    }
    if (node.is("QuantizeLinear") || node.is("DequantizeLinear")) {
        const Tensor* scale = graph.constant(node.input(1));
        return scale != nullptr && scale->count() == 1 ? RowWise::first : RowWise::no;
    }
    if (!node.is("Add") && !node.is("Mul")) return RowWise::no;
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}})
        if (is_number_or_vector(graph, node.input(1 - at), dims) && dims_of(graph, node.input(at)) == dims)
            return at == 0 ? RowWise::first : RowWise::second;
    return RowWise::no;
}

//  MatMul [B, H, L, D] -> Reshape [B*H, L, D] -> Transpose   ==>   MatMul -> Transpose of four axes -> Reshape
//
// Behind attention, which writes its result in that order.
bool transpose_of_attention(const Site& site, const IndexMap& map) {
    Graph& graph = site.graph;
    const Node* product = site.uses.producer(map.source);
    const OneTranspose made = one_transpose(map);
    if (product == nullptr || !product->is("MatMul") || map.source == site.root.input(0) ||
        map.source_dims.size() != 4 || made.split != map.source_dims || !made.moves() ||
        (made.order.back() != 3 && map.source_dims[3] != 1) || graph.constant(product->input(0)) != nullptr ||
        graph.constant(product->input(1)) != nullptr || type_of(graph, map.source) == DataType::undefined)
        return false;
    const std::string turned = transposed_before(site, map.source, made.order);
    become(site.root, reshape_node(graph, turned, map.dims), site.root);
    return true;
}

/// Whether a value is made where channels lie last: by what computes images, or number by number behind it.
bool is_image(const Site& site, const std::string& value, int depth = 6) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || depth == 0) return false;
    static const std::set<std::string, std::less<>> makers{"Conv",        "ConvTranspose", "MaxPool",
                                                           "AveragePool", "Resize",        "BatchNormalization"};
    if (node->domain.empty() && makers.contains(node->op_type)) return true;
    const Shape dims = dims_of(site.graph, value);
    return node->outputs.size() == 1 && !node->inputs.empty() && !only_moves(*node) && !node->is("MatMul") &&
           dims_of(site.graph, node->input(0)) == dims && is_image(site, node->input(0), depth - 1);
}

/// Whether a map reads an image [N, C, ...] as its pixels, each with its channels side by side: samples first, in
/// however many axes, then places, then channels.
bool reads_pixels(const IndexMap& map) {
    if (map.source_dims.size() < 4 || map.source_dims[1] == 1) return false;
    const std::int64_t places = element_count(map.source_dims) / (map.source_dims[0] * map.source_dims[1]);
    const std::int64_t sample = places * map.source_dims[1];
    if (places == 1) return false;
    // 0: samples, 1: places, 2: channels.
    std::pair<int, std::int64_t> last{0, std::numeric_limits<std::int64_t>::max()};
    for (const auto& axis : map.axes) {
        for (const Digit& digit : axis) {
            if (digit.extent == 1) continue;
            const int part = digit.stride >= sample ? 0 : digit.stride < places ? 1 : 2;
            if (part != 0 && digit.extent * digit.stride > (part == 1 ? places : sample)) return false;
            if (part < last.first || (part == last.first && digit.stride >= last.second)) return false;
            last = {part, digit.stride};
        }
    }
    return last.first == 2;
}

//  image [N, C, H, W] -> Reshape [B, heads, C, H*W] -> Transpose   ==>   Reshape [N, C, H*W] -> Transpose -> Reshape
//
// An image with its channels last is that already. Samples beside heads are one axis (MViT's pooled queries).
bool pixels_of_image(const Site& site, const IndexMap& map) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape& dims = map.source_dims;
    const DataType type = type_of(graph, map.source);
    if (!reads_pixels(map) || type == DataType::undefined || !is_image(site, map.source)) return false;
    const Shape lines{dims[0], dims[1], element_count(dims) / (dims[0] * dims[1])};
    const Shape read = dims_of(graph, root.input(0));
    if (read.size() >= 3 && read[0] == dims[0] && read[1] == dims[1]) {
        // Its own form, also with the places in several axes, wherever those of one place stand.
        std::vector<std::int64_t> order(read.size());
        std::iota(order.begin() + 1, order.end(), 2);
        order.back() = 1;
        std::vector<std::int64_t> given = root.ints_or("perm", {});
        const auto is_one = [&](std::int64_t axis) { return read[static_cast<std::size_t>(axis)] == 1; };
        std::erase_if(order, is_one);
        std::erase_if(given, is_one);
        if (given == order) return false;
    }
    const std::string turned = transposed_before(site, reshaped(site, map.source, lines), {0, 2, 1});
    become(root, reshape_node(graph, turned, map.dims), root);
    return true;
}

//  x -> Transpose -> Reshape ... -> Transpose     ==>     x -> Reshape -> Transpose -> Reshape
//
// A chain of movements is one map of indices. What of its values is read elsewhere stays, and so do images that are
// turned and then cut finer: turning alone is a matter of their layout.
bool one_transpose_of_many(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const auto map = index_map_of(graph, site.uses, root.output(0), dims_of(graph, root.output(0)));
    const DataType type = type_of(graph, root.output(0));
    if (map && pixels_of_image(site, *map)) return true;
    if (map && map->transposes == 1) return transpose_of_attention(site, *map);
    if (!map || map->transposes < 2 || graph.constant(map->source) != nullptr || type == DataType::undefined ||
        type_of(graph, map->source) != type)
        return false;
    const OneTranspose made = one_transpose(*map);
    if (map->turns_image && made.moves() && map->pieces() > 3) return false;
    std::string value = map->source;
    if (made.moves()) {
        if (made.split != map->source_dims) value = reshaped(site, value, made.split);
        if (made.turned == map->dims) {
            Node turn = make_node("Transpose", {value});
            turn.set("perm", made.order);
            become(root, std::move(turn), root);
            return true;
        }
        value = transposed_before(site, value, made.order);
    }
    become(root, reshape_node(graph, value, map->dims), root);
    return true;
}

/// Whether all readers, through what computes rows one by one, then movements and factors, are products of attention in
/// `batch` samples: what moves there is read where it lies. `rows`: nothing has moved yet.
bool leads_to_attention(const Site& site, const Names& weights, const std::string& value, std::int64_t batch,
                        bool rows = true, int depth = 20) {
    const auto& readers = site.uses.consumers(value);
    if (depth == 0 || readers.empty() || site.uses.use_count(value) != readers.size()) return false;
    return std::all_of(readers.begin(), readers.end(), [&](const Node* reader) {
        const bool by_row = !reader->is("Gemm") && row_wise(site, weights, *reader) != RowWise::no;
        if (reader->is("MatMul") && !by_row) {
            const Shape dims = dims_of(site.graph, value);
            return dims.size() == 4 && dims[0] == batch && dims_of(site.graph, reader->input(0)).size() == 4 &&
                   dims_of(site.graph, reader->input(1)).size() == 4;
        }
        const bool cuts = reader->is("Slice") || reader->is("Split") || reader->is("Gather");
        const bool moves = only_moves(*reader) || (cuts && reader->input(0) == value);
        const bool scales =
            (reader->is("Mul") && by_row) || (reader->is("Div") && scalar_of(site.graph, reader->input(1)).has_value());
        if (!moves && !scales && !(rows && by_row)) return false;
        return std::all_of(reader->outputs.begin(), reader->outputs.end(), [&](const std::string& output) {
            return site.uses.use_count(output) == 0 ||
                   leads_to_attention(site, weights, output, batch, rows && !moves, depth - 1);
        });
    });
}

//  x [N, L, E] -> Transpose [L, N, E] -> MatMul, Add of a bias, Q, DQ   ==>   x -> MatMul -> Transpose
//
// Of what attention alone reads, wherever it lies.
bool transpose_behind_product(const Site& site, const Names& weights) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const RowWise way = row_wise(site, weights, root);
    if (way == RowWise::no || root.is("Gemm")) return false;
    const std::size_t at = way == RowWise::first ? 0 : 1;
    const Node* turn = site.uses.producer(root.input(at));
    if (turn == nullptr) return false;
    const auto order = order_of_rows(graph, *turn);
    if (order != std::vector<std::int64_t>{1, 0, 2}) return false;
    const Shape dims = dims_of(graph, turn->input(0));
    const DataType type = type_of(graph, root.output(0));
    if (type == DataType::undefined || !leads_to_attention(site, weights, root.output(0), dims[0])) return false;
    Node moved = root;
    moved.inputs[at] = turn->input(0);
    const Shape made{dims[0], dims[1], dims_of(graph, root.output(0))[2]};
    Node after = make_node("Transpose", {add_before(site, std::move(moved), type, made)});
    after.set("perm", order);
    become(root, std::move(after), root);
    return true;
}

//  x -> Transpose -> Reshape -> Gemm -> Reshape -> Transpose     ==>     x -> Transpose -> Reshape -> Gemm -> Reshape
//
// Where the two are one of the same axes, as behind attention, which writes its rows in any order.
bool transpose_before_product(const Site& site, const Names& weights) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const auto order = order_of_rows(graph, root);
    if (order.empty()) return false;
    // From the root backwards, as far as rows are computed one by one.
    std::vector<const Node*> steps;
    std::string value = root.input(0);
    bool product = false;
    for (int step = 0; step < 12 && site.uses.use_count(value) == 1; ++step) {
        const Node* node = site.uses.producer(value);
        if (node == nullptr) break;
        const Shape dims = dims_of(graph, value), read = dims_of(graph, node->input(0));
        if (const RowWise way = row_wise(site, weights, *node); way != RowWise::no) {
            steps.push_back(node);
            product = product || node->is("MatMul") || node->is("Gemm");
            value = node->input(way == RowWise::first ? 0 : 1);
        } else if (only_moves(*node) && !node->is("Transpose") && !read.empty() && read.back() == dims.back()) {
            value = node->input(0);
        } else {
            break;
        }
    }
    if (!product || site.uses.use_count(value) != 1) return false;
    Shape rows = dims_of(graph, root.input(0)), result = dims_of(graph, root.output(0));
    const Shape read = dims_of(graph, value);
    const DataType type = type_of(graph, value);
    if (read.empty() || type == DataType::undefined) return false;
    rows.back() = read.back();
    const auto before = index_map_of(graph, site.uses, value, rows);
    if (!before || before->transposes == 0) return false;
    const auto both = transposed(*before, order);
    if (!both || both->transposes == before->transposes ||
        both->pieces() > std::max(before->pieces(), both->source_dims.size()))
        return false;
    for (const Node* node : steps)
        if (type_of(graph, node->output(0)) == DataType::undefined) return false;
    value = transposed_before(site, reshaped(site, value, rows), order);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        const Node& node = **step;
        Shape dims = result;
        dims.back() = dims_of(graph, node.output(0)).back();
        const Shape flat{element_count(dims) / std::max<std::int64_t>(1, dims.back()), dims.back()};
        Node moved = node;
        const bool gemm = node.is("Gemm");
        const std::size_t at = row_wise(site, weights, node) == RowWise::second ? 1 : 0;
        moved.inputs[at] = gemm ? reshaped(site, value, {flat[0], dims_of(graph, node.input(0)).back()}) : value;
        value = add_before(site, std::move(moved), type_of(graph, node.output(0)), gemm ? flat : dims);
        if (gemm) value = reshaped(site, value, dims);
    }
    become(root, reshape_node(graph, value, result), root);
    return true;
}

//  x [B, S, C] -> Transpose -> MatMul W [S, T] -> Add b [T] ... -> Transpose
//      ==>   W^T x of each sample -> Add b [T, 1] ...
//
// Linear layers over places instead of channels (MLP-Mixer: Tolstikhin et al., 2021; gMLP: Liu et al., 2021).
bool product_of_columns(const Site& site, const Names& weights) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const std::vector<std::int64_t> order{0, 2, 1};
    if (root.ints_or("perm", {}) != order) return false;
    struct Step {
        const Node* node = nullptr;
        std::size_t at = 0; ///< the input that the rows come by
    };
    std::vector<Step> steps; // from the root backwards
    std::string value = root.input(0);
    bool product = false;
    const Node* turn = nullptr;
    while (turn == nullptr) {
        const Node* node = site.uses.producer(value);
        if (node == nullptr || steps.size() == 16 || site.uses.use_count(value) != 1 ||
            type_of(graph, value) != DataType::float32)
            return false;
        if (node->is("Transpose") && node->ints_or("perm", {}) == order) {
            turn = node;
            continue;
        }
        const RowWise way = row_wise(site, weights, *node);
        const bool linear = way != RowWise::no && node->is("MatMul");
        if (linear && site.uses.producer(node->input(1)) != nullptr) return false; // int8 and its scale
        const bool alone = node->inputs.size() == 1 && is_pointwise(*node);
        if (!linear && !alone && (way == RowWise::no || (!node->is("Add") && !node->is("Mul")))) return false;
        product = product || linear;
        steps.push_back({node, way == RowWise::second ? std::size_t{1} : std::size_t{0}});
        value = node->input(steps.back().at);
    }
    if (!product) return false;
    value = turn->input(0);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        const auto& [node, at] = *step;
        const Shape dims = dims_of(graph, node->output(0));
        Node moved = *node;
        moved.inputs[at] = value;
        if (node->is("MatMul")) {
            moved = make_node("ColumnsProduct", std::move(moved.inputs));
        } else if (moved.inputs.size() == 2) {
            const Tensor& vector = *graph.constant(node->input(1 - at));
            if (vector.count() > 1)
                moved.inputs[1 - at] =
                    add_constant(graph, "column", vector.reshaped({static_cast<std::int64_t>(vector.count()), 1}));
        }
        value = add_before(site, std::move(moved), DataType::float32, {dims[0], dims[2], dims[1]});
    }
    if (!bypass(site, value)) become(root, make_node("Identity", {value}), root);
    return true;
}

//  rows [B, heads, H*W, C] -> Transpose -> Reshape [N, C, H, W]   ==>   Reshape [N, H, W, C] -> Transpose
//
// The other way round: an image whose channels lie last is what the rows are.
bool image_of_pixels(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const DataType type = type_of(graph, root.output(0));
    if (dims.size() < 4 || dims[1] == 1 || element_count(dims) == dims[0] * dims[1] || type == DataType::undefined)
        return false;
    const auto map = index_map_of(graph, site.uses, root.output(0), dims);
    if (!map || map->transposes == 0 || graph.constant(map->source) != nullptr || type_of(graph, map->source) != type)
        return false;
    // Of an image whose places are another's channels: see pixels_of_image.
    if (reads_pixels(*map) && is_image(site, map->source)) return false;
    // In the source: samples, places, channels.
    std::vector<std::int64_t> perm(dims.size()), order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    Shape rows;
    std::int64_t stride = element_count(dims);
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto axis = static_cast<std::size_t>(order[i]);
        perm[axis] = static_cast<std::int64_t>(i);
        rows.push_back(dims[axis]);
        for (const Digit& digit : map->axes[axis]) {
            if (digit.extent == 1) continue;
            stride /= digit.extent;
            if (digit.stride != stride) return false;
        }
    }
    Node turn = make_node("Transpose", {reshaped(site, map->source, rows)});
    turn.set("perm", perm);
    become(root, std::move(turn), root);
    return true;
}

//  x -> Transpose [B, H, 3, L, D] -> Split in three   ==>   x -> Transpose [3, B, H, L, D] -> Split -> Reshapes
//
// Parts lie in one piece each where their axis is the first (queries, keys and values of MViT's heads).
bool split_of_transposed_in_pieces(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const std::string& value = root.input(0);
    const Node* turn = site.uses.producer(value);
    const Shape dims = dims_of(graph, value);
    const DataType type = type_of(graph, value);
    if (turn == nullptr || !turn->is("Transpose") || site.uses.use_count(value) != 1 || dims.empty() ||
        type == DataType::undefined)
        return false;
    const std::int64_t given = root.int_or("axis", 0);
    const auto axis = given + (given < 0 ? static_cast<std::int64_t>(dims.size()) : 0);
    auto order = turn->ints_or("perm", {});
    if (axis <= 0 || axis >= static_cast<std::int64_t>(dims.size()) || order.size() != dims.size() ||
        element_count(Shape(dims.begin(), dims.begin() + axis)) == 1 ||
        dims[static_cast<std::size_t>(axis)] != static_cast<std::int64_t>(root.outputs.size()) ||
        std::ranges::any_of(root.outputs, [&](const auto& each) { return each.empty() || graph.is_output(each); }))
        return false;
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    Shape first = dims;
    std::rotate(first.begin(), first.begin() + axis, first.begin() + axis + 1);
    first[0] = 1;
    Node split = root;
    split.inputs[0] = transposed_before(site, turn->input(0), order);
    split.set("axis", std::int64_t{0});
    for (std::string& output : split.outputs)
        output = graph.unique_name(output);
    std::vector<std::string> parts = split.outputs;
    parts[0] = add_before(site, std::move(split), type, first);
    for (std::size_t i = 1; i < parts.size(); ++i)
        graph.value_infos[parts[i]] = graph.value_infos.at(parts[0]);
    for (std::size_t i = 0; i < parts.size(); ++i)
        graph.replace_uses(root.outputs[i], reshaped(site, parts[i], dims_of(graph, root.outputs[i])));
    return true;
}

//  Concat(Transpose a, Transpose b)   ==>   Transpose(Concat(a, b))
//
// Heads of text and image that attend together: attention reads through the one that is left.
bool transpose_behind_concat(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    std::vector<std::int64_t> order;
    std::vector<std::string> inputs;
    for (const std::string& input : root.inputs) {
        const Node* turn = site.uses.producer(input);
        if (turn == nullptr || site.uses.use_count(input) != 1) return false;
        const auto own = order_of_rows(graph, *turn);
        if (own.empty() || (!order.empty() && own != order)) return false;
        order = own;
        inputs.push_back(turn->input(0));
    }
    const Shape result = dims_of(graph, root.output(0));
    const DataType type = type_of(graph, root.output(0));
    if (inputs.size() < 2 || result.size() != order.size() || type == DataType::undefined) return false;
    const std::int64_t given = root.int_or("axis", 0);
    const auto axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(order.size()) : given);
    if (axis >= order.size()) return false;
    Shape dims(result.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        dims[static_cast<std::size_t>(order[i])] = result[i];
    Node joined = make_node("Concat", std::move(inputs));
    joined.set("axis", order[axis]);
    Node turn = make_node("Transpose", {add_before(site, std::move(joined), type, dims)});
    turn.set("perm", order);
    become(root, std::move(turn), root);
    return true;
}

// ---- Stacks ----

/// The numbers that a product's other operand has along one axis of `dims`, where it is a constant of nothing else.
std::optional<std::vector<float>> factors_along(const Graph& graph, const std::string& name, std::size_t axis,
                                                const Shape& dims) {
    const Tensor* tensor = graph.constant(name);
    if (tensor == nullptr || tensor->type() != DataType::float32 || tensor->shape().size() > dims.size())
        return std::nullopt;
    const auto count = static_cast<std::int64_t>(tensor->count());
    const std::size_t missing = dims.size() - tensor->shape().size();
    const std::vector<float> values = tensor->to_floats();
    if (count == 1) return std::vector<float>(static_cast<std::size_t>(dims[axis]), values[0]);
    if (count != dims[axis] || axis < missing || tensor->shape()[axis - missing] != count) return std::nullopt;
    return values;
}

//  Unsqueeze each -> Concat [-> Mul by numbers] -> ReduceSum over the new axis     ==>     [Mul each] -> Add
//
// ReduceMean, ReduceMax and ReduceMin alike: fusion of feature pyramids (BiFPN), ensembles.
bool sum_of_stack(const Site& site) {
    constexpr std::size_t most = 8; // operands of one program
    Graph& graph = site.graph;
    Node& root = site.root;
    const DataType type = type_of(graph, root.output(0));
    const auto axes = constant_integers(graph, root, "axes", 1);
    const Node* stack = site.uses.producer(root.input(0));
    std::string value = root.input(0);
    const Shape dims = dims_of(graph, value), result = dims_of(graph, root.output(0));
    if (!axes || axes->size() != 1 || type != DataType::float32 || stack == nullptr || dims.empty()) return false;
    const auto axis =
        static_cast<std::size_t>((*axes)[0] < 0 ? (*axes)[0] + static_cast<std::int64_t>(dims.size()) : (*axes)[0]);
    if (axis >= dims.size()) return false;
    std::vector<float> factors;
    if (stack->is("Mul") && site.uses.use_count(value) == 1) {
        const std::size_t at = graph.constant(stack->input(0)) != nullptr ? 1 : 0;
        const auto found = factors_along(graph, stack->input(1 - at), axis, dims);
        value = stack->input(at);
        if (!found || dims_of(graph, value) != dims) return false;
        factors = *found;
        stack = site.uses.producer(value);
    }
    if (stack == nullptr || !stack->is("Concat") || site.uses.use_count(value) != 1 || stack->inputs.size() < 2 ||
        stack->inputs.size() > most || static_cast<std::int64_t>(stack->inputs.size()) != dims[axis])
        return false;
    const std::int64_t given = stack->int_or("axis", 0);
    if (static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(dims.size()) : given) != axis)
        return false;
    Shape each = dims;
    each.erase(each.begin() + static_cast<std::ptrdiff_t>(axis));
    if (each.empty()) return false;
    std::vector<std::string> parts;
    for (const std::string& input : stack->inputs) {
        const Node* apart = site.uses.producer(input);
        const bool plain = apart != nullptr && apart->is("Unsqueeze") && dims_of(graph, apart->input(0)) == each;
        parts.push_back(plain ? apart->input(0) : reshaped(site, input, each));
    }
    std::string sum;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!factors.empty())
            parts[i] = add_before(site, make_node("Mul", {parts[i], add_scalar(graph, "factor", type, factors[i])}),
                                  type, each);
        const char* join = root.is("ReduceMax") ? "Max" : root.is("ReduceMin") ? "Min" : "Add";
        sum = i == 0 ? parts[0] : add_before(site, make_node(join, {sum, parts[i]}), type, each);
    }
    if (root.is("ReduceMean")) {
        const std::string share = add_scalar(graph, "share", type, 1 / static_cast<float>(parts.size()));
        sum = add_before(site, make_node("Mul", {sum, share}), type, each);
    }
    become(root, reshape_node(graph, sum, result), root);
    return true;
}

} // namespace

void write_sizes(Graph& graph) {
    for (const auto& node : graph.nodes) {
        if (node->is("Gather") && graph.constant(node->input(1)) != nullptr) {
            const Shape from = dims_of(graph, node->input(0)), to = dims_of(graph, node->output(0));
            const auto rank = static_cast<std::int64_t>(from.size());
            const std::int64_t axis = node->int_or("axis", 0) + (node->int_or("axis", 0) < 0 ? rank : 0);
            if (graph.constant(node->input(1))->count() == 1 && axis < rank &&
                from[static_cast<std::size_t>(axis)] == 1 && !to.empty() && element_count(to) != 0 &&
                graph.constant(node->input(0)) == nullptr)
                become(*node, reshape_node(graph, node->input(0), to), *node);
            continue;
        }
        if (!node->is("Reshape")) continue;
        const auto given = constant_integers(graph, *node, "", 1);
        const Shape dims = dims_of(graph, node->output(0));
        if (!given || dims.empty() || element_count(dims) == 0 ||
            std::find(given->begin(), given->end(), 0) == given->end())
            continue;
        node->inputs[1] =
            add_constant(graph, "shape", Tensor::of_int64s("", {static_cast<std::int64_t>(dims.size())}, dims));
    }
}

void place_parts_early(Graph& graph) {
    const auto shows = [&](const Node& node) {
        const bool kind = node.is("Reshape") || node.is("Squeeze") || node.is("Unsqueeze") || node.is("Slice") ||
                          node.is("Split") || node.is("Gather");
        return kind && node.domain.empty() &&
               std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                           [&](const auto& each) { return each.empty() || graph.constant(each) != nullptr; });
    };
    std::unordered_map<std::string, std::vector<std::size_t>> readers;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        if (shows(*graph.nodes[i])) readers[graph.nodes[i]->input(0)].push_back(i);
    std::vector<std::unique_ptr<Node>> ordered;
    std::vector<std::size_t> next;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        next.push_back(i);
        while (!next.empty()) {
            const std::size_t at = next.back();
            next.pop_back();
            if (graph.nodes[at] == nullptr) continue;
            ordered.push_back(std::move(graph.nodes[at]));
            for (const std::string& output : ordered.back()->outputs) {
                const auto found = readers.find(output);
                if (output.empty() || found == readers.end()) continue;
                next.insert(next.end(), found->second.rbegin(), found->second.rend());
            }
        }
    }
    graph.nodes = std::move(ordered);
}

std::vector<Rule> movement_spellings(const Names& weights) {
    const auto before = [weights](const Site& site) { return transpose_before_product(site, weights); };
    const auto behind = [weights](const Site& site) { return transpose_behind_product(site, weights); };
    const auto columns = [weights](const Site& site) { return product_of_columns(site, weights); };
    return {Rule{Pattern::op("Reshape"), image_of_pixels},
            Rule{Pattern::op("Transpose"), columns},
            Rule{Pattern::op("Transpose"), one_transpose_of_many},
            Rule{Pattern::op("Transpose"), before},
            Rule{Pattern::op("MatMul|Add|QuantizeLinear|DequantizeLinear"), behind},
            Rule{Pattern::op("Split"), split_of_transposed_in_pieces},
            Rule{Pattern::op("Concat"), transpose_behind_concat},
            roll_spelling(),
            Rule{Pattern::op("ReduceSum|ReduceMean|ReduceMax|ReduceMin"), sum_of_stack}};
}

} // namespace lathe::cuda
