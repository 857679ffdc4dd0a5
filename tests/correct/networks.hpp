#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "calibrate/ranges_file.hpp"
#include "correct/run.hpp"
#include "models.hpp"
#include "quantize/placement.hpp"

namespace lathe::test {

inline HostTensor tensor_of(const std::string& name, Shape shape, const std::vector<float>& values) {
    HostTensor tensor(name, DataType::float32, std::move(shape));
    std::memcpy(tensor.bytes.data(), values.data(), values.size() * sizeof(float));
    return tensor;
}

/// `batches` batches of noise between -1 and 1.
inline std::map<std::string, Batches> noise_samples(const std::string& name, const Shape& shape, std::size_t batches,
                                                    std::uint32_t seed) {
    std::map<std::string, Batches> samples;
    for (std::size_t i = 0; i < batches; ++i) {
        const auto count = static_cast<std::size_t>(element_count(shape));
        samples[name].push_back(tensor_of(name, shape, noise(count, seed + static_cast<std::uint32_t>(i) * 77U)));
    }
    return samples;
}

/// The named values of a model on samples, by running it whole.
inline std::vector<Batches> values_of(Model model, const std::vector<std::string>& names,
                                      const std::map<std::string, Batches>& samples) {
    model.graph.outputs.clear();
    for (const std::string& name : names) {
        ValueInfo info;
        info.name = name;
        info.type = DataType::float32;
        model.graph.outputs.push_back(info);
    }
    model.graph.inputs.clear();
    std::vector<Given> given;
    for (const auto& [name, batches] : samples)
        given.emplace_back(name, batches);
    auto found = run_batches(std::move(model), given, {.threads = 1});
    if (!found) {
        ADD_FAILURE() << found.error().describe();
        return {};
    }
    return *std::move(found);
}

/// Calibrated on the samples, by running the model whole.
inline RangesFile ranges_on(const Model& model, const std::map<std::string, Batches>& samples, Method method) {
    ActivationStatistics statistics;
    std::vector<std::string> computed;
    for (const std::string& name : quantizable_tensors(model)) {
        statistics.tensors.push_back({name, {}});
        if (!samples.contains(name)) computed.push_back(name);
    }
    const std::vector<Batches> values = values_of(model, computed, samples);
    for (TensorStatistics& tensor : statistics.tensors) {
        const auto at = std::find(computed.begin(), computed.end(), tensor.name);
        const Batches& batches =
            at == computed.end() ? samples.at(tensor.name) : values.at(static_cast<std::size_t>(at - computed.begin()));
        for (const HostTensor& each : batches)
            tensor.histogram.observe(each.as<float>());
    }
    statistics.samples = 1;
    RangesKey key;
    key.model = calibration_key(model);
    return make_ranges(std::move(statistics), key, method, {}, 1);
}

/// |a - b| / |a| over all batches.
inline double distance(const Batches& a, const Batches& b) {
    double signal = 0.0;
    double noise = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const auto x = a[i].as<float>();
        const auto y = b.at(i).as<float>();
        EXPECT_EQ(x.size(), y.size());
        for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
            signal += static_cast<double>(x[k]) * static_cast<double>(x[k]);
            noise += (static_cast<double>(x[k]) - static_cast<double>(y[k])) *
                     (static_cast<double>(x[k]) - static_cast<double>(y[k]));
        }
    }
    return std::sqrt(noise / signal);
}

/// x -> conv1 (3x3) -> Relu or Clip(0, 6) -> conv2 depthwise or dense -> Relu -> GlobalAveragePool -> Gemm: [4, 8]
/// logits.
inline Model conv_network(const std::string& middle = "Relu(%a)", bool depthwise = false) {
    Model model = model_from_text("opset 17\n"
                                  "input %x: float32[4, 3, 8, 8]\n"
                                  "input %w1: float32[16, 3, 3, 3]\ninput %b1: float32[16]\n"
                                  "input %w2: float32[16, 1, 3, 3]\ninput %b2: float32[16]\n"
                                  "input %w3: float32[16, 8]\ninput %b3: float32[8]\n"
                                  "const %low: float32[] = {0.0}\nconst %six: float32[] = {6.0}\n"
                                  "%a = Conv(%x, %w1, %b1) {name = \"conv1\", pads = [1, 1, 1, 1]}\n"
                                  "%r = " +
                                  middle +
                                  "\n"
                                  "%c = Conv(%r, %w2, %b2) {name = \"conv2\", pads = [1, 1, 1, 1]" +
                                  std::string(depthwise ? ", group = 16" : "") +
                                  "}\n"
                                  "%s = Relu(%c)\n"
                                  "%p = GlobalAveragePool(%s)\n"
                                  "%f = Flatten(%p)\n"
                                  "%y = Gemm(%f, %w3, %b3) {name = \"head\"}\n"
                                  "output %y: float32[4, 8]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w1", {16, 3, 3, 3}, 1);
    add_weights(model, "b1", {16}, 2);
    add_weights(model, "w2", depthwise ? Shape{16, 1, 3, 3} : Shape{16, 16, 3, 3}, 3);
    add_weights(model, "b2", {16}, 4);
    add_weights(model, "w3", {16, 8}, 5);
    add_weights(model, "b3", {8}, 6);
    return model;
}

/// conv_network with a head of four classes, 64 of its 2800 weights.
inline Model small_head_network() {
    Model model = conv_network();
    add_weights(model, "w3", {16, 4}, 5);
    add_weights(model, "b3", {4}, 6);
    model.graph.outputs[0].dims = std::vector<Dimension>{Dimension::of(4), Dimension::of(4)};
    return model;
}

/// Multiplies output channel `channel` of a weight and its bias.
inline void scale_channel(Model& model, const std::string& weight, const std::string& bias, std::size_t channel,
                          float factor) {
    for (const std::string& name : {weight, bias}) {
        const Tensor tensor = *model.graph.initializer(name);
        auto values = tensor.to_floats();
        const std::size_t size = values.size() / static_cast<std::size_t>(tensor.shape()[0]);
        for (std::size_t i = channel * size; i < (channel + 1) * size; ++i)
            values[i] *= factor;
        model.graph.initializers.insert_or_assign(name, Tensor::of_floats(name, tensor.shape(), values));
    }
}

} // namespace lathe::test
