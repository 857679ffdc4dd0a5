#include "backends/cuda/plan/fourier.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/plan/nodes_before.hpp"

namespace lathe::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A transform of `given` numbers, real or complex (real and imaginary parts side by side), as a matrix.
struct Transform {
    std::int64_t given = 0, length = 0, results = 0;
    bool complex = false, inverse = false, to_real = false;
    std::vector<float> window; ///< a factor of each number given; empty: 1

    std::int64_t rows() const { return given * (complex ? 2 : 1); }
    std::int64_t columns() const { return results * (to_real ? 1 : 2); }
};

/// [rows, columns]; e^(-2 pi i k t / n), or its conjugate over n where it is the inverse.
std::vector<float> matrix_of(const Transform& form) {
    const std::int64_t n = form.length, columns = form.columns();
    std::vector<double> cosines, sines;
    for (std::int64_t i = 0; i < n; ++i) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
        cosines.push_back(std::cos(angle));
        sines.push_back((form.inverse ? 1 : -1) * std::sin(angle));
    }
    std::vector<float> numbers(static_cast<std::size_t>(form.rows() * columns));
    // Half of a spectrum stands for the other half, its conjugate, as well.
    const std::int64_t counted = std::min(form.given, form.to_real ? n / 2 + 1 : n);
    for (std::int64_t t = 0; t < counted; ++t) {
        double factor = form.inverse ? 1 / static_cast<double>(n) : 1;
        if (form.to_real && t != 0 && 2 * t != n) factor *= 2;
        if (!form.window.empty()) factor *= static_cast<double>(form.window[static_cast<std::size_t>(t)]);
        for (std::int64_t k = 0; k < form.results; ++k) {
            const auto at = static_cast<std::size_t>(k * t % n);
            const double re = factor * cosines[at], im = factor * sines[at];
            const auto put = [&](std::int64_t part, std::int64_t result, double number) {
                const std::int64_t row = form.complex ? 2 * t + part : t;
                const std::int64_t column = form.to_real ? k : 2 * k + result;
                numbers[static_cast<std::size_t>(row * columns + column)] = static_cast<float>(number);
            };
            put(0, 0, re);
            if (!form.to_real) put(0, 1, im);
            if (form.complex) put(1, 0, -im);
            if (form.complex && !form.to_real) put(1, 1, re);
        }
    }
    return numbers;
}

std::optional<Tensor> matrix_tensor(DataType type, const Transform& form) {
    if (form.given < 1 || form.length < 1 || form.results < 1 || form.rows() > most_numbers / form.columns())
        return std::nullopt;
    return finite_tensor(type, {form.rows(), form.columns()}, matrix_of(form));
}

//  x [.., N, .., 1 or 2]   ==>   x -> (Transpose) -> MatMul [N (2), K 2] -> (Transpose)
bool write_dft(Graph& graph, std::size_t& at, std::int64_t opset) {
    Node& node = *graph.nodes[at];
    const auto dims = known_sizes(graph, node.input(0));
    const DataType type = type_of(graph, node.input(0));
    if (!dims || dims->size() < 2 || dims->back() > 2 || type == DataType::undefined) return false;
    const auto rank = static_cast<std::int64_t>(dims->size());
    std::optional<std::int64_t> axis = opset < 20 ? node.int_or("axis", 1) : -2;
    if (opset >= 20 && !node.input(2).empty()) axis = constant_integer(graph, node.input(2));
    if (axis && *axis < 0) *axis += rank;
    if (!axis || *axis < 0 || *axis >= rank - 1) return false;
    const auto place = static_cast<std::size_t>(*axis);
    Transform form;
    form.given = (*dims)[place];
    form.complex = dims->back() == 2;
    form.inverse = node.int_or("inverse", 0) != 0;
    const bool one_sided = node.int_or("onesided", 0) != 0;
    form.to_real = form.inverse && one_sided;
    // Two lengths have half a spectrum of that size: the even one is meant.
    const std::int64_t usual = form.to_real ? 2 * (form.given - 1) : form.given;
    const auto length = node.input(1).empty() ? std::optional(usual) : constant_integer(graph, node.input(1));
    if (!length || *length < 1 || (form.to_real && !form.complex) || (one_sided && !form.inverse && form.complex))
        return false;
    form.length = *length;
    form.results = one_sided && !form.inverse ? *length / 2 + 1 : *length;
    const auto matrix = matrix_tensor(type, form);
    if (!matrix) return false;
    const std::int64_t before = elements_between(*dims, 0, place),
                       behind = elements_between(*dims, place + 1, dims->size() - 1);
    const std::int64_t parts = dims->back(), made = form.to_real ? 1 : 2;
    Shape out = *dims;
    out[place] = form.results;
    out.back() = made;
    NodesBefore to(graph, at);
    std::string value = node.input(0);
    if (behind > 1) value = to.transposed(to.reshaped(value, {before, form.given, behind, parts}), {0, 2, 1, 3});
    value = to.product(to.reshaped(value, {before * behind, form.rows()}), to.constant("waves", *matrix));
    if (behind > 1) value = to.transposed(to.reshaped(value, {before, behind, form.results, made}), {0, 2, 1, 3});
    const Node origin = node;
    become(node, to.reshape(value, out), origin);
    return true;
}

//  signal [B, L (, 1 or 2)]   ==>   signal -> Gather of frames [B, F, n (2)] -> MatMul [n (2), K 2]
//
// The window's factors are in the matrix.
bool write_stft(Graph& graph, std::size_t& at) {
    Node& node = *graph.nodes[at];
    const auto dims = known_sizes(graph, node.input(0));
    const DataType type = type_of(graph, node.input(0));
    const auto step = constant_integer(graph, node.input(1));
    if (!dims || dims->size() < 2 || dims->size() > 3 || type == DataType::undefined || !step || *step < 1)
        return false;
    Transform form;
    form.complex = dims->size() == 3 && dims->back() == 2;
    if (dims->size() == 3 && dims->back() > 2) return false;
    if (!node.input(2).empty()) {
        const Tensor* window = graph.constant(node.input(2));
        if (window == nullptr) return false;
        form.window = window->to_floats();
    }
    const auto length = node.input(3).empty() ? std::optional(static_cast<std::int64_t>(form.window.size()))
                                              : constant_integer(graph, node.input(3));
    const std::int64_t samples = (*dims)[1];
    if (!length || *length < 1 || *length > samples ||
        (!form.window.empty() && static_cast<std::int64_t>(form.window.size()) != *length))
        return false;
    const bool one_sided = node.int_or("onesided", 1) != 0;
    if (one_sided && form.complex) return false;
    form.given = form.length = *length;
    form.results = one_sided ? *length / 2 + 1 : *length;
    const std::int64_t frames = (samples - *length) / *step + 1;
    const auto matrix = matrix_tensor(type, form);
    if (!matrix || frames > most_numbers / *length) return false;
    Sizes places;
    for (std::int64_t frame = 0; frame < frames; ++frame)
        for (std::int64_t i = 0; i < *length; ++i)
            places.push_back(frame * *step + i);
    NodesBefore to(graph, at);
    std::string value = to.reshaped(node.input(0), form.complex ? *dims : Sizes{(*dims)[0], samples});
    value = to.gathered(value, to.integers(places, {frames, *length}), 1);
    value = to.reshaped(value, {(*dims)[0], frames, form.rows()});
    value = to.product(value, to.constant("waves", *matrix));
    const Node origin = node;
    become(node, to.reshape(value, {(*dims)[0], frames, form.results, 2}), origin);
    return true;
}

} // namespace

bool write_out_fourier(Graph& graph, std::int64_t opset) {
    const bool spectra =
        rewrite_each(graph, "DFT", [&](Graph&, std::size_t& at) { return write_dft(graph, at, opset); });
    return rewrite_each(graph, "STFT", write_stft) || spectra;
}

} // namespace lathe::cuda
