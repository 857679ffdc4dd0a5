#include "backends/cuda/plan/einsum.hpp"

#include <algorithm>
#include <map>

namespace lathe::cuda {
namespace {

/// A term of the sum: a value and the letter of each of its dimensions.
struct Term {
    std::string value;
    std::string letters;
};

struct Equation {
    std::vector<std::string> terms;
    std::string result;
};

/// Letters in order; an ellipsis becomes capitals that no equation has ('\1', '\2', ...), as many as are left over.
std::optional<Equation> parse(std::string text, const std::vector<std::size_t>& ranks) {
    std::erase(text, ' ');
    Equation equation;
    const std::size_t arrow = text.find("->");
    const std::string left = text.substr(0, arrow);
    for (std::size_t begin = 0; begin <= left.size();) {
        const std::size_t end = std::min(left.find(',', begin), left.size());
        equation.terms.push_back(left.substr(begin, end - begin));
        begin = end + 1;
    }
    if (equation.terms.size() != ranks.size()) return std::nullopt;
    std::size_t most = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const std::size_t dots = equation.terms[i].find("...");
        if (dots == std::string::npos) continue;
        if (equation.terms[i].size() > ranks[i] + 3) return std::nullopt;
        most = std::max(most, ranks[i] + 3 - equation.terms[i].size());
    }
    // Of the ellipsis the last dimensions are those that all have.
    const auto spread = [&](std::string& term, std::size_t count) {
        const std::size_t dots = term.find("...");
        if (dots == std::string::npos) return;
        std::string letters;
        for (std::size_t i = most - count; i < most; ++i)
            letters += static_cast<char>(1 + i);
        term.replace(dots, 3, letters);
    };
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        std::string& term = equation.terms[i];
        if (term.find("...") != std::string::npos) spread(term, ranks[i] + 3 - term.size());
        if (term.size() != ranks[i]) return std::nullopt;
        std::string sorted = term;
        std::sort(sorted.begin(), sorted.end());
        if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return std::nullopt; // a diagonal
    }
    if (arrow != std::string::npos) {
        equation.result = text.substr(arrow + 2);
        spread(equation.result, most);
        return equation;
    }
    // Not told: the ellipsis, then the letters that occur once, in order.
    std::map<char, int> counts;
    for (const std::string& term : equation.terms) {
        for (const char letter : term)
            ++counts[letter];
    }
    for (const auto& [letter, count] : counts) {
        if (count == 1 || letter <= static_cast<char>(most)) equation.result += letter;
    }
    return equation;
}

class EinsumWriter {
public:
    EinsumWriter(Graph& graph, const Node& node, DataType type, std::int64_t opset)
        : graph_(graph), name_(node.output(0)), type_(type), opset_(opset) {}

    std::vector<Node> take() { return std::move(nodes_); }

    bool learn(const Term& term, const Shape& dims) {
        for (std::size_t i = 0; i < dims.size(); ++i) {
            const auto [known, fresh] = sizes_.emplace(term.letters[i], dims[i]);
            if (!fresh && known->second != dims[i]) return false; // broadcasting of sizes of 1
        }
        return true;
    }

    Shape dims(const std::string& letters) const {
        Shape sizes;
        for (const char letter : letters)
            sizes.push_back(sizes_.at(letter));
        return sizes;
    }

    /// Sums over the letters that nothing else has.
    Term reduced(const Term& term, const std::string& needed) {
        std::vector<std::int64_t> axes;
        std::string left;
        for (std::size_t i = 0; i < term.letters.size(); ++i) {
            if (needed.find(term.letters[i]) == std::string::npos)
                axes.push_back(static_cast<std::int64_t>(i));
            else
                left += term.letters[i];
        }
        if (axes.empty()) return term;
        Node sum;
        sum.op_type = "ReduceSum";
        sum.inputs = {term.value};
        if (opset_ >= 13)
            sum.inputs.push_back(integers(axes));
        else
            sum.set("axes", axes);
        sum.set("keepdims", std::int64_t{0});
        return {add(std::move(sum), dims(left)), left};
    }
    Term ordered(const Term& term, const std::string& letters) {
        if (term.letters == letters) return term;
        std::vector<std::int64_t> order;
        for (const char letter : letters)
            order.push_back(static_cast<std::int64_t>(term.letters.find(letter)));
        Node turn;
        turn.op_type = "Transpose";
        turn.inputs = {term.value};
        turn.set("perm", order);
        return {add(std::move(turn), dims(letters)), letters};
    }
    std::string reshaped(const std::string& value, const Shape& from, const Shape& to) {
        if (from == to) return value;
        Node reshape;
        reshape.op_type = "Reshape";
        reshape.inputs = {value, integers(to)};
        return add(std::move(reshape), to);
    }
    /// Two terms multiplied and summed over what neither `needed` nor the other has.
    Term multiplied(const Term& a, const Term& b, const std::string& needed) {
        const auto has = [](const std::string& letters, char letter) {
            return letters.find(letter) != std::string::npos;
        };
        const Term left = reduced(a, b.letters + needed);
        const Term right = reduced(b, a.letters + needed);
        std::string batch, rows, columns, summed;
        for (const char letter : left.letters) {
            if (has(right.letters, letter))
                (has(needed, letter) ? batch : summed) += letter;
            else
                rows += letter;
        }
        for (const char letter : right.letters) {
            if (!has(left.letters, letter)) columns += letter;
        }
        const auto joined = [&](const std::string& first, const std::string& second) {
            Shape sizes = dims(batch);
            sizes.push_back(element_count(dims(first)));
            sizes.push_back(element_count(dims(second)));
            return sizes;
        };
        const Term first = ordered(left, batch + rows + summed);
        const Term second = ordered(right, batch + summed + columns);
        Node product;
        product.op_type = summed.empty() ? "Mul" : "MatMul"; // a column times a row
        product.inputs = {reshaped(first.value, dims(first.letters), joined(rows, summed)),
                          reshaped(second.value, dims(second.letters), joined(summed, columns))};
        const std::string result = add(std::move(product), joined(rows, columns));
        const std::string letters = batch + rows + columns;
        return {reshaped(result, joined(rows, columns), dims(letters)), letters};
    }

private:
    std::string integers(const std::vector<std::int64_t>& values) {
        std::string name = graph_.unique_name(name_ + "/sizes");
        graph_.initializers.insert_or_assign(
            name, Tensor::of_int64s(name, {static_cast<std::int64_t>(values.size())}, std::span(values)));
        return name;
    }
    std::string add(Node node, const Shape& dims) {
        std::string name = graph_.unique_name(name_ + "/" + node.op_type);
        node.name = name;
        node.outputs = {name};
        ValueInfo info;
        info.name = name;
        info.type = type_;
        info.dims.emplace();
        for (const std::int64_t size : dims)
            info.dims->push_back(Dimension::of(size));
        graph_.value_infos.insert_or_assign(name, std::move(info));
        nodes_.push_back(std::move(node));
        return name;
    }

    Graph& graph_;
    std::string name_;
    DataType type_;
    std::int64_t opset_;
    std::map<char, std::int64_t> sizes_;
    std::vector<Node> nodes_;
};

/// The nodes that stand for an Einsum; empty if it is not taken.
std::vector<Node> written_out(Graph& graph, const Node& node, std::int64_t opset) {
    std::vector<std::size_t> ranks;
    std::vector<Shape> shapes;
    for (const std::string& input : node.inputs) {
        const auto info = graph.info(input);
        const auto shape = info ? info->shape() : std::nullopt;
        if (!shape || std::any_of(shape->begin(), shape->end(), [](std::int64_t n) { return n < 1; })) return {};
        shapes.push_back(*shape);
        ranks.push_back(shape->size());
    }
    const auto equation = parse(node.string_or("equation", ""), ranks);
    const auto info = graph.info(node.output(0));
    if (!equation || node.inputs.empty() || !info) return {};
    EinsumWriter writer(graph, node, info->type, opset);
    std::vector<Term> terms;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        terms.push_back({node.inputs[i], equation->terms[i]});
        if (!writer.learn(terms.back(), shapes[i])) return {};
    }
    std::string all;
    for (const Term& term : terms)
        all += term.letters;
    for (const char letter : equation->result) {
        if (all.find(letter) == std::string::npos || std::ranges::count(equation->result, letter) != 1) return {};
    }
    while (terms.size() > 1) {
        std::string needed = equation->result;
        for (std::size_t i = 2; i < terms.size(); ++i)
            needed += terms[i].letters;
        terms[0] = writer.multiplied(terms[0], terms[1], needed);
        terms.erase(terms.begin() + 1);
    }
    const Term last = writer.ordered(writer.reduced(terms[0], equation->result), equation->result);
    std::vector<Node> nodes = writer.take();
    Node end;
    end.op_type = "Identity";
    end.inputs = {last.value};
    end.outputs = node.outputs;
    end.name = node.name;
    nodes.push_back(std::move(end));
    return nodes;
}

} // namespace

bool write_out_einsum(Graph& graph, std::int64_t opset) {
    bool changed = false;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!graph.nodes[i]->is("Einsum")) continue;
        std::vector<Node> nodes = written_out(graph, *graph.nodes[i], opset);
        if (nodes.empty()) continue;
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        for (Node& node : nodes)
            graph.insert(i++, std::move(node));
        --i;
        changed = true;
    }
    return changed;
}

} // namespace lathe::cuda
