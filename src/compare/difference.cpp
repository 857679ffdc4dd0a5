#include "compare/difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "graph/tensor.hpp"

namespace lathe {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_float(DataType type) {
    return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16 ||
           type == DataType::float64;
}

std::vector<double> values_of(const HostTensor& tensor) {
    if (tensor.type == DataType::float64) {
        const auto values = tensor.as<double>();
        return {values.begin(), values.end()};
    }
    const auto values = Tensor("", tensor.type, tensor.shape, tensor.bytes).to_floats();
    return {values.begin(), values.end()};
}

/// Share of rows with the greatest element at the same place.
double same_greatest(const std::vector<double>& a, const std::vector<double>& b, std::size_t columns) {
    std::size_t same = 0;
    const std::size_t rows = a.size() / columns;
    for (std::size_t row = 0; row < rows; ++row) {
        const auto first = static_cast<std::ptrdiff_t>(row * columns);
        const auto last = first + static_cast<std::ptrdiff_t>(columns);
        const auto of_a = std::max_element(a.begin() + first, a.begin() + last) - a.begin();
        const auto of_b = std::max_element(b.begin() + first, b.begin() + last) - b.begin();
        if (of_a == of_b) ++same;
    }
    return static_cast<double>(same) / static_cast<double>(rows);
}

void compare_integers(const HostTensor& a, const HostTensor& b, TensorDifference& result) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, element_count(a.shape)));
    const std::size_t width = a.bytes.size() / count;
    std::size_t same = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (std::memcmp(a.bytes.data() + i * width, b.bytes.data() + i * width, width) == 0) ++same;
    }
    result.agreement = static_cast<double>(same) / static_cast<double>(count);
    result.sqnr_db = infinity;
    result.past = same != count;
}

} // namespace

TensorDifference difference_of(const HostTensor& a, const HostTensor& b, const Tolerance& tolerance) {
    TensorDifference result;
    result.tensor = a.name;
    result.shape = a.shape;
    const auto incomparable = [&](std::string problem) {
        result.problem = std::move(problem);
        result.past = true;
        return result;
    };
    if (a.type != b.type) {
        return incomparable(std::string(to_string(a.type)) + " in the first model, " + to_string(b.type) +
                            " in the second");
    }
    if (a.shape != b.shape) {
        return incomparable("shape " + to_string(a.shape) + " in the first model, " + to_string(b.shape) +
                            " in the second");
    }
    if (!is_float(a.type)) {
        compare_integers(a, b, result);
        return result;
    }
    const std::vector<double> x = values_of(a);
    const std::vector<double> y = values_of(b);
    double signal = 0;
    double noise = 0;
    double product = 0;
    double other = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
            if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
            return incomparable("element " + std::to_string(i) + " is " + std::to_string(x[i]) +
                                " in the first model, " + std::to_string(y[i]) + " in the second");
        }
        const double gap = std::abs(x[i] - y[i]);
        result.max_abs = std::max(result.max_abs, gap);
        if (x[i] != 0) result.max_rel = std::max(result.max_rel, gap / std::abs(x[i]));
        result.magnitude = std::max(result.magnitude, std::abs(x[i]));
        signal += x[i] * x[i];
        other += y[i] * y[i];
        product += x[i] * y[i];
        noise += gap * gap;
    }
    result.sqnr_db = noise == 0 ? infinity : 10 * std::log10(signal / noise);
    if (signal == 0 || other == 0) {
        result.cosine = signal == other ? 1 : 0;
    } else {
        result.cosine = product / std::sqrt(signal * other);
    }
    if (a.shape.size() >= 2 && a.shape.back() > 1 && !x.empty()) {
        result.agreement = same_greatest(x, y, static_cast<std::size_t>(a.shape.back()));
    }
    result.past = tolerance.min_sqnr_db ? result.sqnr_db < *tolerance.min_sqnr_db
                                        : result.max_abs > tolerance.atol + tolerance.rtol * result.magnitude;
    return result;
}

Json to_json(const TensorDifference& difference) {
    Json json{{"tensor", difference.tensor}, {"shape", difference.shape}, {"past", difference.past}};
    if (!difference.problem.empty()) {
        json["problem"] = difference.problem;
        return json;
    }
    json["max_abs"] = difference.max_abs;
    json["max_rel"] = difference.max_rel;
    json["magnitude"] = difference.magnitude;
    json["sqnr_db"] = std::isfinite(difference.sqnr_db) ? Json(difference.sqnr_db) : Json(nullptr);
    json["cosine"] = difference.cosine;
    if (difference.agreement) json["agreement"] = *difference.agreement;
    return json;
}

} // namespace lathe
