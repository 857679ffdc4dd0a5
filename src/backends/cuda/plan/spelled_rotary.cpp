// Rotary positions (Su et al., RoFormer, 2021), as exporters spell them.

#include <algorithm>
#include <array>

#include "backends/cuda/plan/spelling_tools.hpp"
#include "backends/cuda/plan/spellings.hpp"

namespace lathe::cuda {
namespace {

/// Whether a value is this half of the last axis of `x`, which is filled in if it is empty.
bool is_half(const Site& site, const std::string& value, bool second, std::string& x) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr || (!node->is("Slice") && !node->is("Split"))) return false;
    const Shape dims = dims_of(site.graph, node->input(0));
    if (dims.empty() || dims.back() % 2 != 0 || (!x.empty() && x != node->input(0))) return false;
    Shape half = dims;
    half.back() /= 2;
    if (dims_of(site.graph, value) != half) return false;
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (node->is("Split")) {
        const std::int64_t axis = node->int_or("axis", 0);
        if ((axis != -1 && axis != rank - 1) || node->outputs.size() != 2 || node->output(second ? 1 : 0) != value)
            return false;
    } else {
        const auto cut = cut_of(site, value);
        if (!cut || cut->axis + 1 != dims.size() || cut->step != 1 || cut->start != (second ? half.back() : 0))
            return false;
    }
    x = node->input(0);
    return true;
}

/// Whether cosines or sines are taken beside x: one number or as many as x has along each axis but the last.
bool is_table(const Shape& table, const Shape& x) {
    if (table.size() != 4 || x.size() != 4 || (table[3] != x[3] && table[3] * 2 != x[3])) return false;
    for (std::size_t i = 0; i < 3; ++i)
        if (table[i] != 1 && table[i] != x[i]) return false;
    return true;
}

/// Whether a value is every second number of the last axis of `x`, which is filled in if it is empty, from this one on;
/// as an axis of its own or not: x[..., odd::2], or x as [..., D / 2, 2] of which one is picked.
bool is_every_second(const Site& site, std::string value, bool odd, std::string& x) {
    const Node* node = site.uses.producer(value);
    while (node != nullptr && (node->is("Unsqueeze") || node->is("Squeeze") || node->is("Reshape"))) {
        Shape own = dims_of(site.graph, value), before = dims_of(site.graph, node->input(0));
        if (!own.empty() && own.back() == 1) own.pop_back();
        if (!before.empty() && before.back() == 1) before.pop_back();
        if (own != before) return false;
        value = node->input(0);
        node = site.uses.producer(value);
    }
    if (node == nullptr) return false;
    const std::int64_t which = odd ? 1 : 0;
    const auto same = [&](const std::string& whole) {
        if (!x.empty() && x != whole) return false;
        x = whole;
        return true;
    };
    Shape dims = dims_of(site.graph, value);
    if (const auto cut = cut_of(site, value); cut && cut->step == 2) {
        const Shape whole = dims_of(site.graph, cut->whole);
        return cut->axis + 1 == whole.size() && cut->start == which && whole.back() == 2 * dims.back() &&
               same(cut->whole);
    }
    std::string pairs; // [..., D / 2, 2]
    const Shape paired = dims_of(site.graph, node->input(0));
    const auto rank = static_cast<std::int64_t>(paired.size());
    const std::int64_t axis = node->int_or("axis", 0);
    const bool last = axis == -1 || axis == rank - 1;
    if (node->is("Split") && last && node->outputs.size() == 2 && node->output(odd ? 1 : 0) == value)
        pairs = node->input(0);
    if (node->is("Gather") && last && scalar_of(site.graph, node->input(1)) == static_cast<float>(which))
        pairs = node->input(0);
    const Node* parted = site.uses.producer(pairs);
    if (pairs.empty() || paired.empty() || paired.back() != 2 || parted == nullptr || !parted->is("Reshape"))
        return false;
    Shape whole = paired;
    whole.pop_back();
    whole.back() *= 2;
    return dims_of(site.graph, parted->input(0)) == whole && same(parted->input(0));
}

/// What the sines multiply: the second half of `x` negated and its first, or in turns the negated odd numbers and the
/// even.
struct Turned {
    std::string x;
    bool interleaved = false;
};
std::optional<Turned> turned_of(const Site& site, const std::string& value) {
    const Node* joined = site.uses.producer(value);
    const auto rank = static_cast<std::int64_t>(dims_of(site.graph, value).size());
    const bool pairs = joined != nullptr && joined->is("Reshape");
    if (pairs) joined = site.uses.producer(joined->input(0));
    if (joined == nullptr || !joined->is("Concat") || joined->inputs.size() != 2) return std::nullopt;
    const Shape dims = dims_of(site.graph, joined->output(0));
    const std::int64_t axis = joined->int_or("axis", 0);
    if ((axis != -1 && axis + 1 != static_cast<std::int64_t>(dims.size())) ||
        static_cast<std::int64_t>(dims.size()) != rank + (pairs ? 1 : 0) || (pairs && dims.back() != 2))
        return std::nullopt;
    // An axis may be put in before the number is negated or behind it.
    const Node* negative = site.uses.producer(joined->input(0));
    while (pairs && negative != nullptr && (negative->is("Unsqueeze") || negative->is("Reshape")))
        negative = site.uses.producer(negative->input(0));
    if (negative == nullptr || !negative->is("Neg")) return std::nullopt;
    Turned turned;
    turned.interleaved = pairs;
    const bool found =
        pairs ? is_every_second(site, negative->input(0), true, turned.x) &&
                    is_every_second(site, joined->input(1), false, turned.x)
              : is_half(site, negative->input(0), true, turned.x) && is_half(site, joined->input(1), false, turned.x);
    if (!found) return std::nullopt;
    return turned;
}

//  x -> Slice 2nd half -> Neg
//  x -> Slice 1st half ------- Concat -> Mul sines                      x, cosines, sines
//  x --------------------------------- Mul cosines -> Add     ==>       Rotary
//
// Su et al., RoFormer, 2021, as transformers writes it; likewise with numbers 2 i and 2 i + 1 for the halves, as GPT-J,
// EVA-02 and Flux have them.
bool rotary_of_parts(const Site& site) {
    const auto product = [&](const std::string& value) {
        const Node* node = site.uses.producer(value);
        return node != nullptr && node->is("Mul") && site.uses.use_count(value) == 1 ? node : nullptr;
    };
    Node& root = site.root;
    if (product(root.input(0)) == nullptr || product(root.input(1)) == nullptr) return false;
    const Shape dims = dims_of(site.graph, root.output(0));
    if (dims.size() != 4 || type_of(site.graph, root.output(0)) != DataType::float32) return false;
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
        const Node* straight = product(root.input(first));
        const Node* crossed = product(root.input(1 - first));
        for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
            const auto turned = turned_of(site, crossed->input(at));
            if (!turned) continue;
            const std::size_t own = straight->input(0) == turned->x ? 0 : 1;
            if (straight->input(own) != turned->x || dims_of(site.graph, turned->x) != dims) continue;
            std::vector<std::string> inputs{turned->x, straight->input(1 - own), crossed->input(1 - at)};
            Shape table = dims_of(site.graph, inputs[1]);
            if (table.size() > 4 || dims_of(site.graph, inputs[2]) != table) continue;
            const bool short_table = table.size() < 4;
            table.insert(table.begin(), 4 - table.size(), 1);
            // Half a table is a number for a pair; here every number has its own.
            if (!is_table(table, dims) || table[3] != dims[3]) continue;
            for (std::size_t i = 1; short_table && i < 3; ++i) {
                const Tensor* fixed = site.graph.constant(inputs[i]);
                inputs[i] = fixed != nullptr ? add_constant(site.graph, inputs[i], fixed->reshaped(table))
                                             : reshaped(site, inputs[i], table);
            }
            Node rotary = make_node("Rotary", std::move(inputs));
            if (turned->interleaved) rotary.set("interleaved", std::int64_t{1});
            become(root, std::move(rotary), root);
            return true;
        }
    }
    return false;
}

//  x -> Slice first rows ----------- Concat                   x, cosines after ones, sines after zeros
//  x -> Slice others -> Rotary ----/              ==>         Rotary
//
// Class tokens and registers of vision transformers have no position.
bool rotary_of_all_rows(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const std::int64_t axis = root.int_or("axis", 0);
    if (root.inputs.size() != 2 || dims.size() != 4 || (axis != 2 && axis != -2)) return false;
    const Node* rotary = site.uses.producer(root.input(1));
    if (rotary == nullptr || !rotary->is("Rotary") || site.uses.use_count(root.input(1)) != 1 ||
        rotary->int_or("turned", 0) != 0)
        return false;
    const std::int64_t rows = dims_of(graph, root.input(0))[2];
    const auto first = cut_of(site, root.input(0));
    const auto others = cut_of(site, rotary->input(0));
    if (!first || !others || first->whole != others->whole || dims_of(graph, first->whole) != dims ||
        first->axis != 2 || others->axis != 2 || first->start != 0 || others->start != rows || first->step != 1 ||
        others->step != 1)
        return false;
    std::vector<std::string> inputs{first->whole};
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        const Tensor* table = graph.constant(rotary->input(i));
        if (table == nullptr || table->type() != DataType::float32) return false;
        Shape size = table->shape();
        size.insert(size.begin(), 4 - std::min<std::size_t>(4, size.size()), 1);
        if (size.size() != 4 || size[0] != 1 || size[1] != 1 || size[2] != dims[2] - rows) return false;
        std::vector<float> values(static_cast<std::size_t>(rows * size[3]), i == 1 ? 1.0F : 0.0F);
        const auto own = table->to_floats();
        values.insert(values.end(), own.begin(), own.end());
        size[2] = dims[2];
        inputs.push_back(add_constant(graph, rotary->input(i), Tensor::of_floats("", size, values)));
    }
    Node all = make_node("Rotary", std::move(inputs));
    if (rotary->int_or("interleaved", 0) != 0) all.set("interleaved", std::int64_t{1});
    become(root, std::move(all), root);
    return true;
}

//  x -> Slice first numbers -> Rotary --- Concat                   x, cosines, sines
//  x -> Slice others -------------------/              ==>         Rotary, turned
//
// GPT-NeoX, Phi, StableLM and GLM turn a part of each head.
bool rotary_of_first_numbers(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const Shape dims = dims_of(graph, root.output(0));
    const std::int64_t axis = root.int_or("axis", 0);
    if (root.inputs.size() != 2 || dims.size() != 4 || (axis != 3 && axis != -1)) return false;
    const Node* rotary = site.uses.producer(root.input(0));
    if (rotary == nullptr || !rotary->is("Rotary") || site.uses.use_count(root.input(0)) != 1 ||
        rotary->int_or("turned", 0) != 0)
        return false;
    const std::int64_t turned = dims_of(graph, root.input(0))[3];
    const auto parts = [&]() -> std::optional<std::string> {
        const Node* split = site.uses.producer(root.input(1));
        if (split != nullptr && split->is("Split") && split->outputs.size() == 2 &&
            split->output(0) == rotary->input(0) && split->output(1) == root.input(1)) {
            const std::int64_t along = split->int_or("axis", 0);
            if (along == 3 || along == -1) return split->input(0);
            return std::nullopt;
        }
        const auto first = cut_of(site, rotary->input(0));
        const auto others = cut_of(site, root.input(1));
        if (!first || !others || first->whole != others->whole || first->axis != 3 || others->axis != 3 ||
            first->start != 0 || others->start != turned || first->step != 1 || others->step != 1)
            return std::nullopt;
        return first->whole;
    }();
    if (!parts || dims_of(graph, *parts) != dims || turned % 2 != 0 || dims[3] % 2 != 0) return false;
    Node all = make_node("Rotary", {*parts, rotary->input(1), rotary->input(2)});
    if (rotary->int_or("interleaved", 0) != 0) all.set("interleaved", std::int64_t{1});
    all.set("turned", turned);
    become(root, std::move(all), root);
    return true;
}

//  RotaryEmbedding(x, cosines, sines [, positions])   ==>   Rotary(x, cosines, sines as [B, 1, S, D / 2])
// Opset 23; heads beside each other, [B, S, H * D], are taken apart before and put together again.
bool rotary_of_operator(const Site& site) {
    Graph& graph = site.graph;
    Node& root = site.root;
    const DataType type = type_of(graph, root.input(0));
    Shape dims = dims_of(graph, root.input(0));
    if (type != DataType::float32 || dims.size() < 3) return false;
    const bool beside = dims.size() == 3;
    const std::int64_t heads = beside ? root.int_or("num_heads", 0) : dims[1];
    if (heads < 1 || dims.back() % heads != 0 || (!beside && dims.size() != 4)) return false;
    const Shape flat = dims;
    if (beside) dims = {flat[0], flat[1], heads, flat[2] / heads};
    const std::int64_t rows = beside ? dims[1] : dims[2];
    const std::int64_t turned = root.int_or("rotary_embedding_dim", 0), width = turned == 0 ? dims[3] : turned;
    if (width < 2 || width > dims[3] || width % 2 != 0) return false;
    const bool placed = !root.input(3).empty();
    if (placed && dims_of(graph, root.input(3)) != Shape{dims[0], rows}) return false;
    std::array<Shape, 2> sizes;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        Shape& own = sizes[i];
        own = dims_of(graph, root.input(i + 1));
        if (placed && own.size() != 2) return false;
        if (placed) own = {dims[0], rows, own[1]};
        if (own != Shape{dims[0], rows, width / 2} && own != Shape{1, rows, width / 2}) return false;
    }
    std::vector<std::string> inputs{beside ? reshaped(site, root.input(0), dims) : root.input(0)};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Shape& own = sizes[i];
        std::string table = root.input(i + 1);
        if (placed) {
            Node gather = make_node("Gather", {table, root.input(3)});
            gather.set("axis", std::int64_t{0});
            table = add_before(site, std::move(gather), type, own);
        }
        inputs.push_back(
            reshaped(site, table, beside ? Shape{own[0], rows, 1, own[2]} : Shape{own[0], 1, rows, own[2]}));
    }
    Node rotary = make_node("Rotary", std::move(inputs));
    if (root.int_or("interleaved", 0) != 0) rotary.set("interleaved", std::int64_t{1});
    if (width != dims[3]) rotary.set("turned", width);
    if (!beside) {
        become(root, std::move(rotary), root);
        return true;
    }
    const std::string made = add_before(site, std::move(rotary), type, dims);
    become(root, reshape_node(graph, made, flat), root);
    return true;
}

} // namespace

std::vector<Rule> rotary_spellings() {
    return {Rule{Pattern::op("Add"), rotary_of_parts}, Rule{Pattern::op("Concat"), rotary_of_all_rows},
            Rule{Pattern::op("Concat"), rotary_of_first_numbers},
            Rule{Pattern::op("RotaryEmbedding"), rotary_of_operator}};
}

} // namespace lathe::cuda
