#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "graph/text.hpp"

namespace lathe::test {

inline Model model_from_text(const std::string& text) {
    auto model = parse_graph_text(text);
    if (!model) throw std::invalid_argument(model.error().describe());
    if (model->ir_version == 0) model->ir_version = 9;
    if (model->graph.name.empty()) model->graph.name = "test";
    return std::move(*model);
}

/// Numbers between -1 and 1 that depend on the seed alone.
inline std::vector<float> noise(std::size_t count, std::uint32_t seed) {
    std::vector<float> values(count);
    for (float& value : values) {
        seed = seed * 1664525U + 1013904223U;
        value = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
    }
    return values;
}

inline void add_weights(Model& model, const std::string& name, Shape shape, std::uint32_t seed) {
    const auto values = noise(static_cast<std::size_t>(element_count(shape)), seed);
    model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, std::move(shape), values));
}

/// A small convolutional classifier with an open batch size: [N,3,8,8] to [N,5].
inline Model small_network(const std::string& batch = "N") {
    Model model = model_from_text("opset 18\n"
                                  "input %input: float32[" +
                                  batch +
                                  ", 3, 8, 8]\n"
                                  "input %w: float32[4, 3, 3, 3]\n"
                                  "input %f: float32[4, 5]\n"
                                  "input %b: float32[5]\n"
                                  "%conv = Conv(%input, %w) {pads = [1, 1, 1, 1]}\n"
                                  "%relu = Relu(%conv)\n"
                                  "%pool = GlobalAveragePool(%relu)\n"
                                  "%flat = Flatten(%pool)\n"
                                  "%scores = Gemm(%flat, %f, %b)\n"
                                  "output %scores: float32[" +
                                  batch + ", 5]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w", {4, 3, 3, 3}, 1);
    add_weights(model, "f", {4, 5}, 2);
    add_weights(model, "b", {5}, 3);
    return model;
}

/// What small_network computes, written out in double.
inline std::vector<float> small_network_reference(const Model& model, std::span<const float> input, std::size_t batch) {
    const auto w = model.graph.initializers.at("w").to_floats();
    const auto f = model.graph.initializers.at("f").to_floats();
    const auto b = model.graph.initializers.at("b").to_floats();
    std::vector<float> scores(batch * 5);
    for (std::size_t n = 0; n < batch; ++n) {
        double pooled[4] = {};
        for (std::size_t o = 0; o < 4; ++o) {
            for (int y = 0; y < 8; ++y) {
                for (int x = 0; x < 8; ++x) {
                    double sum = 0;
                    for (std::size_t c = 0; c < 3; ++c) {
                        for (int ky = 0; ky < 3; ++ky) {
                            for (int kx = 0; kx < 3; ++kx) {
                                const int iy = y + ky - 1;
                                const int ix = x + kx - 1;
                                if (iy < 0 || ix < 0 || iy > 7 || ix > 7) continue;
                                const std::size_t at = ((n * 3 + c) * 8 + static_cast<std::size_t>(iy)) * 8;
                                sum += static_cast<double>(input[at + static_cast<std::size_t>(ix)]) *
                                       static_cast<double>(w[((o * 3 + c) * 3 + static_cast<std::size_t>(ky)) * 3 +
                                                             static_cast<std::size_t>(kx)]);
                            }
                        }
                    }
                    pooled[o] += std::max(0.0, sum) / 64.0;
                }
            }
        }
        for (std::size_t j = 0; j < 5; ++j) {
            double sum = static_cast<double>(b[j]);
            for (std::size_t o = 0; o < 4; ++o)
                sum += pooled[o] * static_cast<double>(f[o * 5 + j]);
            scores[n * 5 + j] = static_cast<float>(sum);
        }
    }
    return scores;
}

inline HostTensor small_input(std::int64_t batch, std::uint32_t seed = 7) {
    HostTensor tensor("input", DataType::float32, {batch, 3, 8, 8});
    const auto values = noise(tensor.as<float>().size(), seed);
    std::copy(values.begin(), values.end(), tensor.as<float>().begin());
    return tensor;
}

} // namespace lathe::test
