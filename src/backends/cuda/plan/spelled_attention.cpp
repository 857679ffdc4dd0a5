#include "backends/cuda/plan/spelling_tools.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cuda/plan/spellings.hpp"
#include "passes/passes.hpp"

namespace lathe::cuda {
namespace {

/// A mask's value from here down leaves nothing of a score in float32: 1e9 is a multiple of 64.
constexpr float absorbing = -1e9F;

/// Whether a Softmax alone reads what the root gives.
bool goes_into_softmax(const Site& site) {
    const auto& readers = site.uses.consumers(site.root.output(0));
    return readers.size() == 1 && site.uses.use_count(site.root.output(0)) == 1 && readers.front()->is("Softmax");
}

/// Whether sums and bounds alone are between a value and the Softmax that reads it.
bool leads_to_softmax(const Site& site, std::string value) {
    for (int steps = 0; steps < 6; ++steps) {
        const auto& readers = site.uses.consumers(value);
        if (readers.size() != 1 || site.uses.use_count(value) != 1) return false;
        if (readers.front()->is("Softmax")) return true;
        const Node& reader = *readers.front();
        if (!reader.is("Add") && !reader.is("Reshape") && !reader.is("Max") && !reader.is("Clip")) return false;
        value = reader.output(0);
    }
    return false;
}

//  MatMul(q, k) -> Mul by a factor a head, [H, 1, 1]   ==>   MatMul(Mul(q, factors), k)
// Temperatures of heads (Swin V2, XCiT): attention has one scale.
bool scale_of_heads(const Site& site) {
    Graph& graph = site.graph;
    const Shape dims = dims_of(graph, site.root.output(0));
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        const Node* product = site.uses.producer(site.root.input(at));
        const std::string& factors = site.root.input(1 - at);
        const Shape size = dims_of(graph, factors);
        if (product == nullptr || !product->is("MatMul") || site.uses.use_count(site.root.input(at)) != 1 ||
            dims_of(graph, site.root.input(at)) != dims || size.size() < 2 || size.size() > dims.size() ||
            size.back() != 1 || size[size.size() - 2] != 1 || element_count(size) < 2 ||
            !leads_to_softmax(site, site.root.output(0)))
            continue;
        const Shape rows = dims_of(graph, product->input(0));
        if (rows.size() != dims.size()) continue;
        const std::string scaled =
            add_before(site, make_node("Mul", {product->input(0), factors}), type_of(graph, site.root.output(0)), rows);
        Node moved = *product;
        moved.inputs[0] = scaled;
        become(site.root, std::move(moved), *product);
        return true;
    }
    return false;
}

//  Where(keep, scores, -inf) -> Softmax   ==>   Add(scores, Where(keep, 0, -inf)) -> Softmax
// So too with the scores in third place, and before a further mask (GPT-Neo). What is masked absorbs the score it is
// added to.
bool mask_by_add(const Site& site) {
    Node& root = site.root;
    if (!leads_to_softmax(site, root.output(0))) return false;
    const auto second = scalar_of(site.graph, root.input(1));
    const auto third = scalar_of(site.graph, root.input(2));
    if (second.has_value() == third.has_value()) return false;
    const float hidden = second ? *second : *third;
    const std::string scores = root.input(second ? 2 : 1);
    const Shape dims = dims_of(site.graph, root.output(0));
    const Shape keep = dims_of(site.graph, root.input(0));
    const DataType type = type_of(site.graph, root.output(0));
    if (!(hidden <= absorbing) || type != DataType::float32 || dims.size() != 4 || keep.size() != 4 || keep[1] != 1 ||
        dims_of(site.graph, scores) != dims)
        return false;
    std::string mask;
    if (const Tensor* known = site.graph.constant(root.input(0))) {
        std::vector<float> values;
        for (const std::byte kept : known->bytes())
            values.push_back((kept != std::byte{0}) == second.has_value() ? hidden : 0.0F);
        mask = add_constant(site.graph, "mask", Tensor::of_floats("", keep, values));
    } else {
        const std::string zero = add_scalar(site.graph, "kept", type, 0);
        Node where = make_node("Where", {root.input(0), second ? root.input(1) : zero, second ? zero : root.input(2)});
        mask = add_before(site, std::move(where), type, keep);
    }
    become(root, make_node("Add", {scores, mask}), root);
    return true;
}

//  Add(scores, constant [S, S]) -> Softmax   ==>   the constant as [1, 1, S, S], which is how a mask is taken
bool mask_of_rank_4(const Site& site) {
    Node& root = site.root;
    if (!goes_into_softmax(site)) return false;
    const std::size_t at = site.graph.constant(root.input(0)) != nullptr ? 0 : 1;
    const Tensor* mask = site.graph.constant(root.input(at));
    if (mask == nullptr || mask->shape().size() >= 4 || dims_of(site.graph, root.input(1 - at)).size() != 4)
        return false;
    Shape whole = mask->shape();
    whole.insert(whole.begin(), 4 - whole.size(), 1);
    root.inputs[at] = add_constant(site.graph, "mask", mask->reshaped(whole));
    return true;
}

//  Add(Add(scores, a), b), a and b of one size   ==>   Add(scores, Add(a, b))
// Attention takes two masks; Swin V2 of Hugging Face adds that of its windows twice, behind the positions'.
bool masks_together(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const DataType type = type_of(graph, root.output(0));
    if (type == DataType::undefined || !leads_to_softmax(site, root.output(0))) return false;
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
        const Node* inner = site.uses.producer(root.input(at));
        const std::string& second = root.input(1 - at);
        const Shape size = dims_of(graph, second);
        if (inner == nullptr || !inner->is("Add") || site.uses.use_count(root.input(at)) != 1 || size.empty() ||
            dims_of(graph, root.input(at)) != dims || element_count(size) >= element_count(dims))
            continue;
        const std::size_t mask = dims_of(graph, inner->input(1)) == size ? 1 : 0;
        if (dims_of(graph, inner->input(mask)) != size || dims_of(graph, inner->input(1 - mask)) != dims) continue;
        const std::string both = add_before(site, make_node("Add", {inner->input(mask), second}), type, size);
        become(root, make_node("Add", {inner->input(1 - mask), both}), root);
        return true;
    }
    return false;
}

/// Whether a mask holds no infinity: constants, or a choice between two numbers.
bool is_finite_mask(const Site& site, const std::string& mask, int depth = 4) {
    if (const Tensor* constant = site.graph.constant(mask)) {
        if (constant->type() != DataType::float32) return false;
        const std::vector<float> numbers = constant->to_floats();
        return std::all_of(numbers.begin(), numbers.end(), [](float v) { return std::isfinite(v); });
    }
    const Node* choice = site.uses.producer(mask);
    if (choice != nullptr && choice->is("Mul")) { // as scale_before_mask leaves it
        const auto factor = scalar_of(site.graph, choice->input(1));
        return depth > 0 && factor && std::abs(*factor) <= 1 && is_finite_mask(site, choice->input(0), depth - 1);
    }
    if (choice == nullptr || !choice->is("Where")) return false;
    const auto second = scalar_of(site.graph, choice->input(1)), third = scalar_of(site.graph, choice->input(2));
    return second && third && std::isfinite(*second) && std::isfinite(*third);
}

//  Max(Add(scores, mask), lowest) -> Softmax   ==>   Add(scores, mask) -> Softmax
// As OPT, XGLM and BART's older decoders keep a sum of two masks from overflowing.
bool bound_of_masked(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const bool clip = root.is("Clip");
    if (root.inputs.size() < 2 || (root.inputs.size() > 2 && !(clip && root.input(2).empty())) ||
        !leads_to_softmax(site, root.output(0)))
        return false;
    const std::size_t at = !clip && scalar_of(graph, root.input(0)) ? 0 : 1;
    const auto bound = scalar_of(graph, root.input(at));
    const Node* sum = site.uses.producer(root.input(1 - at));
    if (!bound || !(*bound <= absorbing) || sum == nullptr || !sum->is("Add") ||
        dims_of(graph, root.input(1 - at)) != dims_of(graph, root.output(0)) ||
        (!is_finite_mask(site, sum->input(0)) && !is_finite_mask(site, sum->input(1))))
        return false;
    become(root, make_node("Add", {sum->input(0), sum->input(1)}), root);
    return true;
}

//  Mul(Add(scores, mask), factor) -> Softmax   ==>   Add(Mul(scores, factor), Mul(mask, factor)) -> Softmax
// CodeGen scales what is masked; attention scales its products. A factor above one could make infinities of a mask.
bool scale_before_mask(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const DataType type = type_of(graph, root.output(0));
    if (type == DataType::undefined || !leads_to_softmax(site, root.output(0))) return false;
    const std::size_t at = scalar_of(graph, root.input(0)) ? 0 : 1;
    const auto factor = scalar_of(graph, root.input(at));
    const Node* sum = site.uses.producer(root.input(1 - at));
    if (!factor || (root.is("Div") && at == 0) || sum == nullptr || !sum->is("Add") ||
        site.uses.use_count(root.input(1 - at)) != 1)
        return false;
    const float scale = root.is("Div") ? 1 / *factor : *factor;
    const Shape dims = dims_of(graph, root.output(0));
    const std::size_t from = dims_of(graph, sum->input(0)) == dims ? 0 : 1;
    const Shape mask = dims_of(graph, sum->input(1 - from));
    if (!(std::abs(scale) <= 1) || dims_of(graph, sum->input(from)) != dims || mask.empty() ||
        element_count(mask) >= element_count(dims))
        return false;
    const std::string number = add_scalar(graph, "scale", type, scale);
    const std::string scores = add_before(site, make_node("Mul", {sum->input(from), number}), type, dims);
    const std::string scaled = add_before(site, make_node("Mul", {sum->input(1 - from), number}), type, mask);
    become(root, make_node("Add", {scores, scaled}), root);
    return true;
}

Node turned_keys(const std::string& keys) {
    Node turn = make_node("Transpose", {keys});
    turn.set("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    return turn;
}

//  [B, H, S, D] -> Reshape [B*H, S, D] -> Transpose {0, 2, 1} -> Reshape [B, H, D, S]   ==>   Transpose {0, 1, 3, 2}
bool transpose_of_heads(const Site& site) {
    const std::string& x = site.match.value("x");
    const Shape from = dims_of(site.graph, x);
    const Shape to = dims_of(site.graph, site.root.output(0));
    const Shape between = dims_of(site.graph, site.match.node("turn").input(0));
    const auto order = site.match.node("turn").ints_or("perm", {});
    if (from.size() != 4 || between.size() != 3 || order != std::vector<std::int64_t>{0, 2, 1}) return false;
    if (between != Shape{from[0] * from[1], from[2], from[3]} || to != Shape{from[0], from[1], from[3], from[2]})
        return false;
    become(site.root, turned_keys(x), site.root);
    return true;
}

//  keys [B, H, S, D] -> Mul scalar -> Transpose {0, 1, 3, 2}   ==>   Transpose {0, 1, 3, 2} -> Mul scalar
bool transpose_before_scale(const Site& site) {
    const Node scale = site.match.node("scale");
    const std::size_t at = scale.is("Mul") && scalar_of(site.graph, scale.input(0)) ? 1 : 0;
    const Shape dims = dims_of(site.graph, scale.input(at));
    if (!scalar_of(site.graph, scale.input(1 - at)) || dims.size() != 4 ||
        dims_of(site.graph, scale.output(0)) != dims ||
        site.root.ints_or("perm", {}) != std::vector<std::int64_t>{0, 1, 3, 2})
        return false;
    const DataType type = type_of(site.graph, scale.output(0));
    std::vector<std::string> inputs = scale.inputs;
    inputs[at] = add_before(site, turned_keys(scale.input(at)), type, {dims[0], dims[1], dims[3], dims[2]});
    become(site.root, make_node(scale.op_type, std::move(inputs)), scale);
    return true;
}

/// 0 where key j <= query i + ahead, else -inf: [1, 1, queries, keys].
Tensor causal_mask(std::int64_t queries, std::int64_t keys, std::int64_t ahead) {
    std::vector<float> values(static_cast<std::size_t>(queries * keys), 0.0F);
    for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = i + ahead + 1; j < keys; ++j)
            values[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    }
    return Tensor::of_floats("", {1, 1, queries, keys}, values);
}

/// The mask of an Attention node as numbers to add to the scores, "" if it has none; nothing for one that is not taken.
std::optional<std::string> additive_mask(const Site& site, const Shape& scores) {
    const std::string& given = site.root.input(3);
    std::string mask = given;
    Shape dims = dims_of(site.graph, given);
    if (!given.empty()) {
        // Numpy's broadcasting, the last sizes as they are; a shorter mask than there are keys is not taken.
        if (dims.size() > 4 || dims.size() < 2 || dims.back() != scores[3]) return std::nullopt;
        const DataType type = type_of(site.graph, given);
        if (type == DataType::boolean) {
            const std::string zero = add_scalar(site.graph, "kept", DataType::float32, 0);
            const std::string hidden =
                add_scalar(site.graph, "hidden", DataType::float32, -std::numeric_limits<float>::infinity());
            mask = add_before(site, make_node("Where", {given, zero, hidden}), DataType::float32, dims);
        } else if (type != DataType::float32) {
            return std::nullopt;
        }
    }
    return mask;
}

/// Whether the rule below takes this node, whose sizes are known.
bool attention_fits(const Graph& graph, const Node& node) {
    if (!attention_refusal(node).empty() || type_of(graph, node.input(0)) != DataType::float32) return false;
    const Shape q = dims_of(graph, node.input(0));
    const Shape k = dims_of(graph, node.input(1));
    const Shape v = dims_of(graph, node.input(2));
    return q.size() == 4 && k.size() == 4 && v.size() == 4 && q[1] == k[1] && q[1] == v[1];
}

//  Attention(q, k, v [, mask])   ==>   MatMul(Softmax(MatMul(q, k transposed) * scale + mask), v)
// With a boolean mask the Softmax's NaN become 0 before the last product.
bool write_out_attention(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    if (!attention_fits(graph, root)) return false;
    const DataType type = type_of(graph, root.input(0));
    const Shape q = dims_of(graph, root.input(0));
    const Shape k = dims_of(graph, root.input(1));
    const Shape scores{q[0], q[1], q[2], k[2]};
    const auto mask = additive_mask(site, scores);
    if (!mask) return false;
    const std::string turned = add_before(site, turned_keys(root.input(1)), type, {k[0], k[1], k[3], k[2]});
    std::string value = add_before(site, make_node("MatMul", {root.input(0), turned}), type, scores);
    const float scale = root.float_or("scale", 1 / std::sqrt(static_cast<float>(q[3])));
    value = add_before(site, make_node("Mul", {value, add_scalar(graph, "scale", type, scale)}), type, scores);
    if (root.int_or("is_causal", 0) != 0) {
        const std::string order = add_constant(graph, "causal", causal_mask(scores[2], scores[3], 0));
        value = add_before(site, make_node("Add", {value, order}), type, scores);
    }
    if (!mask->empty()) value = add_before(site, make_node("Add", {value, *mask}), type, scores);
    Node softmax = make_node("Softmax", {value});
    softmax.set("axis", std::int64_t{-1});
    value = add_before(site, std::move(softmax), type, scores);
    if (type_of(graph, root.input(3)) == DataType::boolean) {
        // A row in which nothing is left gives 0, as the operator is defined.
        const std::string empty = add_before(site, make_node("IsNaN", {value}), DataType::boolean, scores);
        const std::string zero = add_scalar(graph, "nothing", type, 0);
        value = add_before(site, make_node("Where", {empty, zero, value}), type, scores);
    }
    Node last = make_node("MatMul", {value, root.input(2)});
    root.outputs.resize(1);
    become(root, std::move(last), root);
    return true;
}

/// Numbers that repeat over all axes but the last two, and along those where their size is 1.
struct Grid {
    std::vector<std::int64_t> values;
    std::int64_t rows = 1, columns = 1;
    std::int64_t at(std::int64_t i, std::int64_t j) const {
        return values[static_cast<std::size_t>((rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j))];
    }
};
std::optional<Grid> constant_grid(const Graph& graph, const std::string& value) {
    const Tensor* tensor = graph.constant(value);
    if (tensor == nullptr || tensor->count() == 0) return std::nullopt;
    Grid grid;
    const Shape& dims = tensor->shape();
    if (!dims.empty()) grid.columns = dims.back();
    if (dims.size() > 1) grid.rows = dims[dims.size() - 2];
    if (grid.rows * grid.columns != static_cast<std::int64_t>(tensor->count())) return std::nullopt;
    if (tensor->type() == DataType::boolean) {
        for (const std::byte each : tensor->bytes())
            grid.values.push_back(each != std::byte{0} ? 1 : 0);
    } else if (tensor->type() == DataType::int64 || tensor->type() == DataType::int32) {
        grid.values = tensor->to_int64s();
    } else {
        return std::nullopt;
    }
    return grid;
}

/// What is known of a condition by row and key: comparisons of constants are often too large to be folded.
std::optional<Grid> known_condition(const Site& site, const std::string& value) {
    if (auto grid = constant_grid(site.graph, value)) return grid;
    const Node* node = site.uses.producer(value);
    if (node == nullptr) return std::nullopt;
    const bool less = node->is("Less"), less_or_equal = node->is("LessOrEqual");
    const bool greater = node->is("Greater"), greater_or_equal = node->is("GreaterOrEqual");
    if (!less && !less_or_equal && !greater && !greater_or_equal) return std::nullopt;
    const auto a = constant_grid(site.graph, node->input(0)), b = constant_grid(site.graph, node->input(1));
    if (!a || !b) return std::nullopt;
    Grid grid;
    grid.rows = std::max(a->rows, b->rows);
    grid.columns = std::max(a->columns, b->columns);
    for (const Grid* each : {&*a, &*b})
        if ((each->rows != 1 && each->rows != grid.rows) || (each->columns != 1 && each->columns != grid.columns))
            return std::nullopt;
    for (std::int64_t i = 0; i < grid.rows; ++i) {
        for (std::int64_t j = 0; j < grid.columns; ++j) {
            const std::int64_t x = a->at(i, j), y = b->at(i, j);
            grid.values.push_back(less ? x < y : less_or_equal ? x <= y : greater ? x > y : x >= y);
        }
    }
    return grid;
}

/// A condition taken apart: what must hold together.
struct Conditions {
    bool causal = false;           ///< key j is not behind row i + keys - rows
    std::vector<std::string> keys; ///< conditions that are the same for all rows
};
bool take_apart(const Site& site, const std::string& value, std::int64_t rows, std::int64_t keys, Conditions& found,
                int depth = 8) {
    const Node* node = site.uses.producer(value);
    if (node != nullptr && node->is("And") && depth > 0)
        return take_apart(site, node->input(0), rows, keys, found, depth - 1) &&
               take_apart(site, node->input(1), rows, keys, found, depth - 1);
    const auto grid = known_condition(site, value);
    if (grid && (grid->rows == 1 || grid->rows == rows) && (grid->columns == 1 || grid->columns == keys)) {
        bool all = true, causal = true;
        for (std::int64_t i = 0; i < rows && (all || causal); ++i) {
            for (std::int64_t j = 0; j < keys; ++j) {
                const bool holds = grid->at(i, j) != 0;
                all = all && holds;
                causal = causal && holds == (j <= i + keys - rows);
            }
        }
        found.causal = found.causal || (causal && !all);
        if (all || causal) return true;
    }
    const Shape dims = dims_of(site.graph, value);
    if (dims.size() != 4 || dims[1] != 1 || dims[2] != 1 || dims[3] != keys) return false;
    found.keys.push_back(value);
    return true;
}

//  Add(scores, Where(And(causal, kept keys), 0, -inf)) -> Softmax
//      ==>   Add(Add(scores, causal as numbers), Where(kept keys, 0, -inf)) -> Softmax
//
// Kernels leave out what comes after a row's own key; a mask of rows and keys they would have to read.
bool causal_apart(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    if (!goes_into_softmax(site)) return false;
    const Shape scores = dims_of(graph, root.output(0));
    if (scores.size() != 4 || scores[2] < 2 || scores[3] < scores[2]) return false;
    constexpr std::int64_t most = std::int64_t{1} << 24; // numbers of the constant
    for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
        if (scores[2] * scores[3] > most || dims_of(graph, root.input(1 - at)) != scores) continue;
        const std::string mask = root.input(at);
        const Node* where = site.uses.producer(mask);
        if (where == nullptr || !where->is("Where")) continue;
        const DataType type = type_of(graph, mask);
        const auto kept = scalar_of(graph, where->input(1)), hidden = scalar_of(graph, where->input(2));
        // With another number than -inf the rows that have no key left are the mean over all of them.
        if (kept != 0.0F || hidden != -std::numeric_limits<float>::infinity() || type != DataType::float32) continue;
        // The layers of a model share their mask: the first takes it apart, the others find what became of it.
        const std::string order = mask + "/causal", shared = mask + "/keys";
        if (!graph.initializers.contains(order)) {
            Conditions found;
            if (!take_apart(site, where->input(0), scores[2], scores[3], found) || !found.causal || graph.info(order))
                continue;
            graph.initializers.emplace(order, causal_mask(scores[2], scores[3], scores[3] - scores[2]));
            if (!found.keys.empty() && !graph.info(shared)) {
                std::string keys = found.keys[0];
                for (std::size_t i = 1; i < found.keys.size(); ++i) {
                    Shape dims = dims_of(graph, keys);
                    dims[0] = std::max(dims[0], dims_of(graph, found.keys[i])[0]);
                    keys = add_before(site, make_node("And", {keys, found.keys[i]}), DataType::boolean, dims);
                }
                const Shape dims = dims_of(graph, keys);
                add_before(site, make_node("Where", {keys, where->input(1), where->input(2)}), type, dims, shared);
            }
        }
        if (!graph.info(shared)) {
            root.inputs[at] = order;
            return true;
        }
        const std::string sum = add_before(site, make_node("Add", {root.input(1 - at), order}), type, scores);
        become(root, make_node("Add", {sum, shared}), root);
        return true;
    }
    return false;
}

} // namespace

std::string attention_refusal(const Node& node) {
    if (node.int_or("q_num_heads", 0) != 0 || node.int_or("kv_num_heads", 0) != 0) return "heads beside each other";
    if (!node.input(4).empty() || !node.input(5).empty()) return "past keys and values as its own inputs";
    if (!node.input(6).empty()) return "lengths of its keys as an input";
    if (node.float_or("softcap", 0) != 0) return "softcap";
    for (const Attribute& attribute : node.attributes) {
        static const std::set<std::string_view> known{"is_causal",        "scale",        "softcap",
                                                      "q_num_heads",      "kv_num_heads", "qk_matmul_output_mode",
                                                      "softmax_precision"};
        if (!known.contains(attribute.name)) return "the attribute " + attribute.name;
    }
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
        if (!node.outputs[i].empty()) return "more than one output";
    }
    return "";
}

bool attention_is_written_out(const Graph& graph, const Node& node) { return attention_fits(graph, node); }

std::vector<Rule> attention_spellings() {
    return {
        Rule{Pattern::op("Mul"), scale_of_heads},
        Rule{Pattern::op("Where"), mask_by_add},
        Rule{Pattern::op("Add"), mask_of_rank_4},
        Rule{Pattern::op("Add"), causal_apart},
        Rule{Pattern::op("Add"), masks_together},
        Rule{Pattern::op("Max|Clip"), bound_of_masked},
        Rule{Pattern::op("Mul|Div"), scale_before_mask},
        Rule{Pattern::op("Reshape", {Pattern::op("Transpose", {Pattern::op("Reshape", {Pattern::any("x")})}, "turn")}),
             transpose_of_heads},
        Rule{Pattern::op("Transpose", {Pattern::op("Mul|Div", {}, "scale").used_once()}), transpose_before_scale},
        Rule{Pattern::op("Attention"), write_out_attention}};
}

} // namespace lathe::cuda
