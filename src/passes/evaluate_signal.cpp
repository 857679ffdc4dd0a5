#include <algorithm>
#include <cmath>
#include <numbers>

#include "passes/evaluate_support.hpp"

// Windows and filters of spectra.
namespace lathe::evaluation {
namespace {

/// The number that an input is.
Result<double> number(const Call& call, std::size_t index) {
    LATHE_TRY(const Tensor* tensor, call.required(index));
    if (tensor->count() != 1) return invalid(call, "input " + std::to_string(index) + " is no single number");
    LATHE_TRY(const Elements elements, elements_of(call, *tensor));
    return std::visit([](const auto& values) { return static_cast<double>(values.front()); }, elements);
}

Outputs in_asked_type(const Call& call, Shape shape, std::vector<double> values) {
    const auto type = static_cast<DataType>(call.node.int_or("output_datatype", 1));
    if (type != DataType::float32 && type != DataType::float64 && type != DataType::float16 &&
        type != DataType::bfloat16)
        return cannot(call, "numbers of type " + to_string(type));
    LATHE_CHECK(check_size(call, type, shape));
    if (type == DataType::float64) return std::vector<Tensor>{tensor_from(type, std::move(shape), std::move(values))};
    return std::vector<Tensor>{tensor_from(type, std::move(shape), std::vector<float>(values.begin(), values.end()))};
}

/// a - b cos(2 pi i / n) + c cos(4 pi i / n), for the windows of that kind.
Outputs window(const Call& call, double a, double b, double c) {
    LATHE_TRY(const double asked, number(call, 0));
    const std::size_t limit = call.options.max_output_bytes;
    if (!(asked >= 0) || asked > static_cast<double>(limit)) return cannot(call, "a window of this size");
    const auto size = static_cast<std::int64_t>(asked);
    const auto period = static_cast<double>(call.node.int_or("periodic", 1) != 0 ? size : size - 1);
    std::vector<double> values;
    for (std::int64_t i = 0; i < size; ++i) {
        const double angle = period > 0 ? 2 * std::numbers::pi * static_cast<double>(i) / period : 0;
        values.push_back(a - b * std::cos(angle) + c * std::cos(2 * angle));
    }
    return in_asked_type(call, {size}, std::move(values));
}

Outputs hann(const Call& call) { return window(call, 0.5, 0.5, 0); }
Outputs hamming(const Call& call) { return window(call, 25.0 / 46, 21.0 / 46, 0); }
Outputs blackman(const Call& call) { return window(call, 0.42, 0.5, 0.08); }

/// Triangles over the bins of a spectrum, as ONNX's reference has them.
Outputs mel_weights(const Call& call) {
    LATHE_TRY(const double mels, number(call, 0));
    LATHE_TRY(const double length, number(call, 1));
    LATHE_TRY(const double rate, number(call, 2));
    LATHE_TRY(const double lower, number(call, 3));
    LATHE_TRY(const double upper, number(call, 4));
    constexpr double most = 1 << 20;
    if (!(mels >= 1 && mels <= most && length >= 1 && length <= most && rate >= 1 && lower >= 0 && upper >= lower))
        return cannot(call, "these frequencies");
    const auto filters = static_cast<std::int64_t>(mels), bins = static_cast<std::int64_t>(length) / 2 + 1;
    LATHE_CHECK(check_size(call, DataType::float64, {bins, filters}));
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double step = (mel(upper) - mel(lower)) / static_cast<double>(filters + 2);
    const auto edge = [&](std::int64_t i) {
        const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + mel(lower)) / 2595) - 1);
        return static_cast<std::int64_t>(std::floor((length + 1) * hertz / rate));
    };
    std::vector<double> values(static_cast<std::size_t>(bins * filters));
    for (std::int64_t i = 0; i < filters; ++i) {
        const std::int64_t from = edge(i), centre = edge(i + 1), to = edge(i + 2);
        if (from < 0 || centre >= bins || to > bins) return cannot(call, "filters beyond the spectrum");
        const auto at = [&](std::int64_t bin) -> double& {
            return values[static_cast<std::size_t>(bin * filters + i)];
        };
        if (centre == from) at(centre) = 1;
        for (std::int64_t bin = from; bin <= centre && centre > from; ++bin)
            at(bin) = static_cast<double>(bin - from) / static_cast<double>(centre - from);
        for (std::int64_t bin = centre; bin < to; ++bin)
            at(bin) = static_cast<double>(to - bin) / static_cast<double>(to - centre);
    }
    return in_asked_type(call, {bins, filters}, std::move(values));
}

} // namespace

void add_signals(FunctionTable& table) {
    table.emplace("HannWindow", hann);
    table.emplace("HammingWindow", hamming);
    table.emplace("BlackmanWindow", blackman);
    table.emplace("MelWeightMatrix", mel_weights);
}

} // namespace lathe::evaluation
