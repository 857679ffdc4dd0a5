// LSTM, GRU and RNN: what is taken of them, and what a step computes.

#include "backends/cuda/plan/recurrent.hpp"

#include <cmath>

#include "backends/cuda/plan/interpret_op.hpp"

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

Result<void> OpInterpreter::operator()(const Recurrent& d) {
    const Shape& dims = in_value(0).dims;
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::size_t steps = count(dims[0]), batch = count(dims[1]), directions = count(in_value(1).dims[0]);
    const std::size_t rows = count(in_value(1).dims[1]), width = count(in_value(1).dims[2]);
    const Numbers &gates = in(0), &recurrence = in(1), &bias = in(2);
    const bool lstm = d.cell == Cell::lstm, later = d.cell == Cell::gru && !d.linear_before_reset;
    Numbers h = d.initial ? in(3) : Numbers(directions * batch * width, 0.0);
    Numbers c = d.initial && lstm ? in(4) : Numbers(directions * batch * width, 0.0);
    Numbers out(steps * directions * batch * width), sums(rows), scaled(width);
    for (std::size_t place = 0; place < directions; ++place) {
        const bool back = d.reverse || place == 1;
        const double* matrix = &recurrence[place * rows * width];
        for (std::size_t step = 0; step < steps * batch; ++step) {
            const std::size_t t = back ? steps - 1 - step / batch : step / batch, b = step % batch;
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
                    state[k] = std::tanh(x(k) + sums[k]);
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
