#include <algorithm>
#include <array>
#include <cmath>

#include "passes/evaluate_support.hpp"

namespace lathe::evaluation {
namespace {

/// Products beyond this stay in the graph: folding them would take longer than it is worth waiting for.
constexpr std::int64_t max_products = std::int64_t{1} << 30;

/// Floating-point elements as double.
Result<std::vector<double>> reals_of(const Call& call, const Tensor& tensor) {
    LATHE_TRY(const Elements elements, elements_of(call, tensor));
    if (const auto* single = std::get_if<std::vector<float>>(&elements))
        return std::vector<double>(single->begin(), single->end());
    if (const auto* wide = std::get_if<std::vector<double>>(&elements)) return *wide;
    return cannot(call, "only products of floating-point numbers are evaluated");
}

/// [m, k] times [k, n] of a batch, summed in double so that the result does not depend on the order.
void multiply(const double* a, const double* b, std::int64_t m, std::int64_t k, std::int64_t n, double* out) {
    std::fill_n(out, m * n, 0.0);
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t l = 0; l < k; ++l) {
            const double value = a[i * k + l];
            for (std::int64_t j = 0; j < n; ++j)
                out[i * n + j] += value * b[l * n + j];
        }
    }
}

//  ONNX MatMul: as numpy.matmul, vectors and broadcast batches included.
Outputs matmul(const Call& call) {
    LATHE_TRY(const Tensor* left, call.required(0));
    LATHE_TRY(const Tensor* right, call.required(1));
    if (left->type() != right->type()) return invalid(call, "its inputs are of two types");
    Shape a = left->shape(), b = right->shape();
    if (a.empty() || b.empty()) return invalid(call, "a scalar has no rows");
    const bool row = a.size() == 1, column = b.size() == 1;
    if (row) a.insert(a.begin(), 1);
    if (column) b.push_back(1);
    const std::int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
    if (b[b.size() - 2] != k) return invalid(call, "rows and columns of its inputs do not fit");
    const Shape outer_a(a.begin(), a.end() - 2), outer_b(b.begin(), b.end() - 2);
    const auto outer = broadcast_shape(outer_a, outer_b);
    if (!outer) return invalid(call, "its batches do not fit");
    Shape shape = *outer;
    if (!row) shape.push_back(m);
    if (!column) shape.push_back(n);
    LATHE_CHECK(check_size(call, left->type(), shape));
    const std::int64_t numbers = element_count(shape);
    // Other axes may be of any length then.
    if (numbers == 0) return std::vector<Tensor>{tensor_from(left->type(), shape, Elements(std::vector<double>()))};
    if (k > 0 && numbers > max_products / k) return cannot(call, "more than 2^30 products");
    LATHE_TRY(const std::vector<double> x, reals_of(call, *left));
    LATHE_TRY(const std::vector<double> y, reals_of(call, *right));
    std::vector<double> out(static_cast<std::size_t>(numbers));
    std::vector<std::int64_t> from(static_cast<std::size_t>(element_count(*outer)));
    walk(*outer, broadcast_strides(outer_a, *outer), 0,
         [&](std::size_t i, std::size_t at) { from[i] = static_cast<std::int64_t>(at); });
    walk(*outer, broadcast_strides(outer_b, *outer), 0, [&](std::size_t i, std::size_t at) {
        multiply(x.data() + from[i] * m * k, y.data() + static_cast<std::int64_t>(at) * k * n, m, k, n,
                 out.data() + static_cast<std::int64_t>(i) * m * n);
    });
    return std::vector<Tensor>{tensor_from(left->type(), shape, Elements(std::move(out)))};
}

//  ONNX BatchNormalization; in training mode with the statistics of its input, which exporters write where weights are
//  standardised (Brock et al., NFNet, 2021): those are constants.
Outputs batch_normalization(const Call& call) {
    std::array<const Tensor*, 5> given{};
    for (std::size_t i = 0; i < given.size(); ++i) {
        LATHE_TRY(given[i], call.required(i));
    }
    const Shape& shape = given[0]->shape();
    if (call.options.opset < 14 || call.node.int_or("spatial", 1) != 1) return cannot(call, "this form of it");
    if (shape.size() < 2 || given[0]->count() == 0) return cannot(call, "an input without channels or numbers");
    const auto channels = static_cast<std::size_t>(shape[1]);
    const std::size_t inner = given[0]->count() / static_cast<std::size_t>(shape[0]) / channels;
    LATHE_TRY(std::vector<double> x, reals_of(call, *given[0]));
    std::array<std::vector<double>, 4> vectors;
    for (std::size_t i = 0; i < vectors.size(); ++i) {
        LATHE_TRY(vectors[i], reals_of(call, *given[i + 1]));
        if (vectors[i].size() != channels) return invalid(call, "a vector of another size than there are channels");
    }
    const std::vector<double>&scale = vectors[0], &shift = vectors[1], &mean = vectors[2], &variance = vectors[3];
    const bool training = call.node.int_or("training_mode", 0) != 0;
    const double epsilon = call.node.float_or("epsilon", 1e-5F), momentum = call.node.float_or("momentum", 0.9F);
    std::vector<double> means = mean, variances = variance;
    const std::size_t samples = x.size() / channels / inner;
    const auto each = [&](std::size_t c, const auto& visit) {
        for (std::size_t s = 0; s < samples; ++s) {
            for (std::size_t i = 0; i < inner; ++i)
                visit(x[(s * channels + c) * inner + i]);
        }
    };
    for (std::size_t c = 0; c < channels; ++c) {
        if (training) {
            const auto count = static_cast<double>(samples * inner);
            double sum = 0, squares = 0;
            each(c, [&](double value) { sum += value; });
            means[c] = sum / count;
            each(c, [&](double value) { squares += (value - means[c]) * (value - means[c]); });
            variances[c] = squares / count;
        }
        const double factor = scale[c] / std::sqrt(variances[c] + epsilon);
        each(c, [&](double& value) { value = (value - means[c]) * factor + shift[c]; });
    }
    std::vector<Tensor> outputs{tensor_from(given[0]->type(), shape, Elements(std::move(x)))};
    for (std::size_t i = 1; i < call.node.outputs.size(); ++i) {
        if (!training || i > 2) return cannot(call, "more outputs than it has in this mode");
        std::vector<double> running = i == 1 ? mean : variance;
        const std::vector<double>& found = i == 1 ? means : variances;
        for (std::size_t c = 0; c < channels; ++c)
            running[c] = running[c] * momentum + found[c] * (1 - momentum);
        outputs.push_back(
            tensor_from(given[i + 2]->type(), {static_cast<std::int64_t>(channels)}, Elements(std::move(running))));
    }
    return outputs;
}

//  ONNX LayerNormalization, of constants where positions are: DeBERTa's relative ones.
Outputs layer_normalization(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    LATHE_TRY(const Tensor* factors, call.required(1));
    const Tensor* shifts = call.input(2);
    const Shape& shape = input->shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t given = call.node.int_or("axis", -1), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank || input->count() == 0) return cannot(call, "its axis, or an input without numbers");
    const auto columns = static_cast<std::size_t>(element_count(Shape(shape.begin() + axis, shape.end())));
    if (call.node.outputs.size() > 1) return cannot(call, "its statistics as outputs");
    LATHE_TRY(std::vector<double> x, reals_of(call, *input));
    LATHE_TRY(const std::vector<double> scale, reals_of(call, *factors));
    std::vector<double> shift(columns, 0.0);
    if (shifts != nullptr) {
        LATHE_TRY(shift, reals_of(call, *shifts));
    }
    if (scale.size() != columns || shift.size() != columns) return cannot(call, "vectors of another size than a row");
    const double epsilon = call.node.float_or("epsilon", 1e-5F), count = static_cast<double>(columns);
    for (std::size_t row = 0; row < x.size(); row += columns) {
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < columns; ++i)
            sum += x[row + i];
        const double mean = sum / count;
        for (std::size_t i = 0; i < columns; ++i)
            squares += (x[row + i] - mean) * (x[row + i] - mean);
        const double factor = 1 / std::sqrt(squares / count + epsilon);
        for (std::size_t i = 0; i < columns; ++i)
            x[row + i] = (x[row + i] - mean) * factor * scale[i] + shift[i];
    }
    return std::vector<Tensor>{tensor_from(input->type(), shape, Elements(std::move(x)))};
}

} // namespace

void add_products(FunctionTable& table) {
    table["MatMul"] = matmul;
    table["LayerNormalization"] = layer_normalization;
    table["BatchNormalization"] = batch_normalization;
}

} // namespace lathe::evaluation
