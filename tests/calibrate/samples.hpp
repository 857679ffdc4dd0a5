#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "calibrate/histogram.hpp"

namespace lathe::test {

/// Values under a name, for table-driven tests.
struct Samples {
    std::string name;
    std::vector<float> values;
};
/// GoogleTest names a parameter by this.
inline void PrintTo(const Samples& samples, std::ostream* out) { *out << samples.name; }

inline std::vector<float> drawn(std::size_t count, std::uint32_t seed, float (*shape)(float)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values)
        value = shape(normal(random));
    return values;
}

/// Ordinary and hostile data.
inline std::vector<Samples> all_samples() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float largest = std::numeric_limits<float>::max();
    constexpr float denormal = std::numeric_limits<float>::denorm_min();
    std::vector<Samples> samples{
        {"nothing", {}},
        {"all zero", std::vector<float>(5000, 0.0F)},
        {"both zeros", {0.0F, -0.0F, -0.0F}},
        {"one value", {3.25F}},
        {"one negative value", {-3.25F}},
        {"one value often", std::vector<float>(700'000, 0.7F)},
        {"a power of two", std::vector<float>(10, 4.0F)},
        {"two sides of a power of two", {-4.0F, 4.0F, 3.9999998F, -3.9999998F}},
        {"only NaN", std::vector<float>(100, nan)},
        {"only infinity", {infinity, -infinity}},
        {"NaN and infinity among numbers", {1.0F, nan, -2.0F, infinity, 0.0F, -infinity, 0.5F}},
        {"largest floats", {largest, -largest, 1.0F}},
        {"denormals", {denormal, -denormal, 3 * denormal, 0.0F, 1e-40F, -1e-40F, 1.17549435e-38F}},
        {"denormals beside ordinary", {denormal, -denormal, 1.0F, -1.0F}},
        {"growing by 2^200", {1e-30F, 1e-30F, -1e-30F, 1.0F, -1.0F, 1e30F, 5e-31F}},
        {"normal", drawn(50'000, 1, [](float x) { return x; })},
        {"after ReLU", drawn(50'000, 2, [](float x) { return x > 0 ? x : 0.0F; })},
        {"after ReLU6", drawn(50'000, 3, [](float x) { return std::fmin(std::fmax(3 * x, 0.0F), 6.0F); })},
        {"negative only", drawn(50'000, 4, [](float x) { return -std::fabs(x) - 0.01F; })},
        {"positive, far from zero", drawn(50'000, 5, [](float x) { return 100.0F + x; })},
        {"heavy tail", drawn(50'000, 6, [](float x) { return x * x * x * x * x; })},
        {"SiLU", drawn(50'000, 7, [](float x) { return 3 * x / (1 + std::exp(-3 * x)); })},
    };
    Samples outlier{"one outlier", drawn(50'000, 8, [](float x) { return x; })};
    outlier.values[1234] = 1000.0F;
    samples.push_back(outlier);
    Samples rare{"almost all zero", std::vector<float>(50'000, 0.0F)};
    rare.values[77] = 2.0F;
    rare.values[7777] = 1.0F;
    samples.push_back(rare);
    return samples;
}

inline Histogram histogram_of(const std::vector<float>& values) {
    Histogram histogram;
    histogram.observe(values);
    return histogram;
}

} // namespace lathe::test
