// LSTM, GRU and RNN: their directions as nodes of their own, and what a step computes.

#include "backends/cuda/plan/recurrent.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cuda/plan/interpret_op.hpp"

namespace lathe::cuda {
namespace {

bool is_recurrent(const Node& node) { return node.is("LSTM") || node.is("GRU") || node.is("RNN"); }

/// The operator's own activations, in their order for one direction.
std::vector<std::string> usual_activations(const Node& node) {
    if (node.is("LSTM")) return {"Sigmoid", "Tanh", "Tanh"};
    if (node.is("GRU")) return {"Sigmoid", "Tanh"};
    return {"Tanh"};
}

class Writer {
public:
    Writer(Graph& graph, const Node& node, std::int64_t opset) : graph_(graph), node_(node), opset_(opset) {}

    std::vector<Node> nodes() {
        const auto x = graph_.info_or_name(node_.input(0)).shape();
        const auto r = graph_.info_or_name(node_.input(2)).shape();
        if (!x || !r || x->size() != 3 || r->size() != 3) return {};
        const std::int64_t steps = (*x)[0], batch = (*x)[1], directions = (*r)[0], width = (*r)[2];
        const std::string direction = node_.string_or("direction", "forward");
        std::array<std::vector<std::string>, 3> results; // all steps, the last state, the last cell
        const std::size_t kinds = node_.is("LSTM") ? 3 : 2;
        for (std::int64_t d = 0; d < directions; ++d) {
            Node part;
            part.op_type = "RecurrentDirection";
            part.name = node_.label() + (d == 0 ? "" : " backwards");
            part.inputs = {node_.input(0), node_.input(1), node_.input(2),
                           node_.input(3), node_.input(5), node_.is("LSTM") ? node_.input(6) : ""};
            part.set("cell", node_.op_type);
            part.set("place", d);
            part.set("reverse", std::int64_t{direction == "reverse" || d == 1 ? 1 : 0});
            part.set("linear_before_reset", node_.int_or("linear_before_reset", 0));
            for (std::size_t i = 0; i < kinds; ++i) {
                const Shape dims = i == 0 ? Shape{steps, batch, width} : Shape{batch, width};
                part.outputs.push_back(named(node_.output(0) + "/direction", dims));
                const Shape more = i == 0 ? Shape{steps, 1, batch, width} : Shape{1, batch, width};
                results[i].push_back(reshaped_later(part.outputs.back(), more));
            }
            parts_.push_back(std::move(part));
        }
        for (Node& later : later_)
            parts_.push_back(std::move(later));
        for (std::size_t i = 0; i < kinds; ++i) {
            if (node_.output(i).empty()) continue;
            Node joined;
            joined.op_type = directions == 1 ? "Identity" : "Concat";
            if (directions > 1) joined.set("axis", std::int64_t{i == 0 ? 1 : 0});
            joined.inputs = results[i];
            joined.outputs = {node_.output(i)};
            parts_.push_back(std::move(joined));
        }
        return std::move(parts_);
    }

private:
    std::string named(const std::string& stem, const Shape& dims) {
        std::string name = graph_.unique_name(stem);
        ValueInfo info;
        info.name = name;
        info.type = graph_.info_or_name(node_.input(0)).type;
        info.dims.emplace();
        for (const std::int64_t size : dims)
            info.dims->push_back(Dimension::of(size));
        graph_.value_infos.insert_or_assign(name, std::move(info));
        return name;
    }
    std::string reshaped_later(const std::string& value, const Shape& dims) {
        const std::string sizes = graph_.unique_name(value + "/sizes");
        graph_.initializers.insert_or_assign(
            sizes, Tensor::of_int64s(sizes, {static_cast<std::int64_t>(dims.size())}, std::span(dims)));
        Node reshape;
        reshape.op_type = "Reshape";
        reshape.inputs = {value, sizes};
        reshape.outputs = {named(value, dims)};
        later_.push_back(std::move(reshape));
        return later_.back().outputs[0];
    }

    Graph& graph_;
    const Node& node_;
    std::int64_t opset_;
    std::vector<Node> parts_, later_;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

std::string recurrent_refusal(const Node& node) {
    const std::vector<std::string> usual = usual_activations(node);
    if (const Attribute* given = node.attribute("activations")) {
        const auto* names = std::get_if<std::vector<std::string>>(&given->value);
        if (names == nullptr) return "activations that are no names";
        for (std::size_t i = 0; i < names->size(); ++i)
            if ((*names)[i] != usual[i % usual.size()]) return "the activation " + (*names)[i];
    }
    if (node.attribute("clip") != nullptr) return "clip";
    if (node.int_or("input_forget", 0) != 0) return "input_forget";
    if (node.int_or("layout", 0) != 0) return "layout 1";
    if (!node.input(4).empty()) return "lengths of sequences";
    if (!node.input(7).empty()) return "peepholes";
    return "";
}

bool write_out_recurrent(Graph& graph, std::int64_t opset) {
    bool changed = false;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!is_recurrent(*graph.nodes[i]) || !recurrent_refusal(*graph.nodes[i]).empty()) continue;
        std::vector<Node> nodes = Writer(graph, *graph.nodes[i], opset).nodes();
        if (nodes.empty()) continue;
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        for (Node& node : nodes)
            graph.insert(i++, std::move(node));
        --i;
        changed = true;
    }
    return changed;
}

Result<void> OpInterpreter::operator()(const Recurrent& d) {
    const Shape& dims = in_value(0).dims;
    const auto steps = static_cast<std::size_t>(dims[0]), batch = static_cast<std::size_t>(dims[1]);
    const auto rows = static_cast<std::size_t>(dims[2]);
    const std::size_t width = rows / static_cast<std::size_t>(gates_of(d.cell));
    const Numbers &gates = in(0), &recurrence = in(1), &bias = in(2);
    const std::size_t matrix = static_cast<std::size_t>(d.place) * rows * width;
    const std::size_t first = static_cast<std::size_t>(d.place) * batch * width;
    const auto initial = [&](std::size_t input) {
        Numbers state(batch * width, 0.0);
        if (d.initial)
            for (std::size_t i = 0; i < state.size(); ++i)
                state[i] = in(input)[first + i];
        return state;
    };
    Numbers h = initial(3), c = d.cell == Cell::lstm ? initial(4) : Numbers();
    Numbers out(steps * batch * width);
    Numbers sums(rows), scaled(width);
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t t = d.reverse ? steps - 1 - step : step;
        for (std::size_t b = 0; b < batch; ++b) {
            const auto x = [&](std::size_t row) { return gates[(t * batch + b) * rows + row]; };
            double* state = &h[b * width];
            const auto multiply = [&](std::size_t from, std::size_t to, const double* with) {
                for (std::size_t row = from; row < to; ++row) {
                    double sum = bias[row];
                    for (std::size_t k = 0; k < width; ++k)
                        sum += recurrence[matrix + row * width + k] * with[k];
                    sums[row] = sum;
                }
            };
            const bool later = d.cell == Cell::gru && !d.linear_before_reset;
            multiply(0, later ? 2 * width : rows, state);
            if (later) {
                for (std::size_t k = 0; k < width; ++k)
                    scaled[k] = sigmoid(x(width + k) + sums[width + k]) * state[k];
                multiply(2 * width, rows, scaled.data());
            }
            for (std::size_t k = 0; k < width; ++k) {
                if (d.cell == Cell::lstm) {
                    const double input = sigmoid(x(k) + sums[k]);
                    const double output = sigmoid(x(width + k) + sums[width + k]);
                    const double forget = sigmoid(x(2 * width + k) + sums[2 * width + k]);
                    const double fresh = std::tanh(x(3 * width + k) + sums[3 * width + k]);
                    double& cell = c[b * width + k];
                    cell = forget * cell + input * fresh;
                    state[k] = output * std::tanh(cell);
                } else if (d.cell == Cell::gru) {
                    const double update = sigmoid(x(k) + sums[k]);
                    const double reset = sigmoid(x(width + k) + sums[width + k]);
                    const double product = sums[2 * width + k];
                    const double fresh = std::tanh(x(2 * width + k) + (later ? product : reset * product));
                    state[k] = (1 - update) * fresh + update * state[k];
                } else {
                    state[k] = std::tanh(x(k) + sums[k]);
                }
                out[(t * batch + b) * width + k] = state[k];
            }
        }
    }
    state_.store(op_.outputs[0], std::move(out));
    state_.store(op_.outputs[1], std::move(h));
    if (d.cell == Cell::lstm) state_.store(op_.outputs[2], std::move(c));
    return {};
}

} // namespace lathe::cuda
