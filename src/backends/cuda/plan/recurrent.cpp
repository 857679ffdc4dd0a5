// LSTM, GRU and RNN: what is taken of them, and what a step computes.

#include "backends/cuda/plan/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "backends/cuda/plan/interpret_op.hpp"
#include "passes/rewrite.hpp"

namespace lathe::cuda {
namespace {

/// The operator's own activations, in their order for one direction.
std::vector<std::string> usual_activations(const Node& node) {
    if (node.is("LSTM")) return {"Sigmoid", "Tanh", "Tanh"};
    if (node.is("GRU")) return {"Sigmoid", "Tanh"};
    return {"Tanh"};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

bool is_relu(const Node& node) {
    const Attribute* given = node.attribute("activations");
    const auto* names = given == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&given->value);
    return node.is("RNN") && names != nullptr && !names->empty() &&
           std::all_of(names->begin(), names->end(), [](const std::string& name) { return name == "Relu"; });
}

std::string recurrent_refusal(const Node& node) {
    const std::vector<std::string> usual = usual_activations(node);
    if (const Attribute* given = node.attribute("activations")) {
        const auto* names = std::get_if<std::vector<std::string>>(&given->value);
        if (names == nullptr) return "activations that are no names";
        for (std::size_t i = 0; i < names->size(); ++i)
            if ((*names)[i] != usual[i % usual.size()] && !is_relu(node)) return "the activation " + (*names)[i];
    }
    if (node.attribute("clip") != nullptr) return "clip";
    if (node.int_or("input_forget", 0) != 0) return "input_forget";
    if (!node.input(7).empty()) return "peepholes";
    return "";
}

//  X [B, T, I], states [B, D, H]                  X, states
//   |                                              |
//  LSTM, layout 1                         ==>     Transpose {1, 0, 2} -> LSTM -> Transpose
//   |
//  Y [B, T, D, H], states [B, D, H]
bool write_out_batch_first(Graph& graph) {
    bool changed = false;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        Node& node = *graph.nodes[at];
        const bool recurrent = node.is("LSTM") || node.is("GRU") || node.is("RNN");
        if (!recurrent || node.int_or("layout", 0) != 1) continue;
        node.erase_attribute("layout");
        changed = true;
        const auto turned = [&](const std::string& from, const std::string& to, std::vector<std::int64_t> order) {
            Node turn = make_node("Transpose", {from});
            turn.set("perm", std::move(order));
            turn.outputs = {to};
            return turn;
        };
        for (const std::size_t i : {0U, 5U, 6U}) {
            if (node.input(i).empty()) continue;
            const std::string name = graph.unique_name(node.input(i) + "/steps_first");
            Node turn = turned(node.input(i), name, {1, 0, 2});
            node.inputs[i] = name;
            graph.insert(at++, std::move(turn));
        }
        const std::size_t own = at;
        for (std::size_t i = 0; i < graph.nodes[own]->outputs.size(); ++i) {
            std::string& output = graph.nodes[own]->outputs[i];
            if (output.empty()) continue;
            const std::string name = graph.unique_name(output + "/steps_first");
            Node turn = turned(name, output,
                               i == 0 ? std::vector<std::int64_t>{2, 0, 1, 3} : std::vector<std::int64_t>{1, 0, 2});
            output = name;
            graph.insert(++at, std::move(turn));
        }
    }
    return changed;
}

Result<void> OpInterpreter::operator()(const Recurrent& d) {
    const Shape& dims = in_value(0).dims;
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::size_t steps = count(dims[0]), batch = count(dims[1]), directions = count(in_value(1).dims[0]);
    const std::size_t rows = count(in_value(1).dims[1]), width = count(in_value(1).dims[2]);
    const Numbers &gates = in(0), &recurrence = in(1), &bias = in(2);
    const bool lstm = d.cell == Cell::lstm, later = d.cell == Cell::gru && !d.linear_before_reset;
    Numbers h = d.initial ? in(3) : Numbers(directions * batch * width, 0.0);
    Numbers c = d.initial && lstm ? in(4) : Numbers(directions * batch * width, 0.0);
    const Numbers* lengths = d.lengths ? &in(op_.inputs.size() - 1) : nullptr;
    Numbers out(steps * directions * batch * width), sums(rows), scaled(width);
    for (std::size_t place = 0; place < directions; ++place) {
        const bool back = d.reverse || place == 1;
        const double* matrix = &recurrence[place * rows * width];
        for (std::size_t step = 0; step < steps * batch; ++step) {
            const std::size_t t = back ? steps - 1 - step / batch : step / batch, b = step % batch;
            if (lengths != nullptr && static_cast<double>(t) >= (*lengths)[b]) continue; // 0, and the state stays
            const auto x = [&](std::size_t row) { return gates[((t * batch + b) * directions + place) * rows + row]; };
            double *state = &h[(place * batch + b) * width], *cells = &c[(place * batch + b) * width];
            const auto multiply = [&](std::size_t from, std::size_t to, const double* with) {
                for (std::size_t row = from; row < to; ++row) {
                    double sum = bias[place * rows + row];
                    for (std::size_t k = 0; k < width; ++k)
                        sum += matrix[row * width + k] * with[k];
                    sums[row] = sum;
                }
            };
            multiply(0, later ? 2 * width : rows, state);
            if (later) {
                for (std::size_t k = 0; k < width; ++k)
                    scaled[k] = sigmoid(x(width + k) + sums[width + k]) * state[k];
                multiply(2 * width, rows, scaled.data());
            }
            for (std::size_t k = 0; k < width; ++k) {
                if (lstm) {
                    const double input = sigmoid(x(k) + sums[k]);
                    const double output = sigmoid(x(width + k) + sums[width + k]);
                    const double forget = sigmoid(x(2 * width + k) + sums[2 * width + k]);
                    cells[k] = forget * cells[k] + input * std::tanh(x(3 * width + k) + sums[3 * width + k]);
                    state[k] = output * std::tanh(cells[k]);
                } else if (d.cell == Cell::gru) {
                    const double update = sigmoid(x(k) + sums[k]);
                    const double reset = sigmoid(x(width + k) + sums[width + k]);
                    const double product = sums[2 * width + k];
                    const double fresh = std::tanh(x(2 * width + k) + (later ? product : reset * product));
                    state[k] = (1 - update) * fresh + update * state[k];
                } else {
                    const double sum = x(k) + sums[k];
                    state[k] = d.cell == Cell::rnn_relu ? std::max(sum, 0.0) : std::tanh(sum);
                }
                out[((t * directions + place) * batch + b) * width + k] = state[k];
            }
        }
    }
    state_.store(op_.outputs[0], std::move(out));
    state_.store(op_.outputs[1], std::move(h));
    if (lstm) state_.store(op_.outputs[2], std::move(c));
    return {};
}

} // namespace lathe::cuda
