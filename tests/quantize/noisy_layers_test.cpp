#include "quantize/noisy_layers.hpp"

#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "graphs.hpp"
#include "onnx/onnx.hpp"
#include "quantize/quantize.hpp"

namespace lathe {
namespace {

using test::graph;

std::vector<float> normal(std::size_t count, double deviation, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> distribution(0.0, deviation);
    std::vector<float> values(count);
    for (float& value : values)
        value = static_cast<float>(distribution(random));
    return values;
}

/// y = x W with 64 inputs and 32 outputs, 2,000 samples, a few inputs being `outlier` times as large: they take the
/// range, and W gives them next to nothing, so that they add noise and no signal.
struct Product {
    static constexpr std::size_t depth = 64, width = 32, samples = 2000;
    Model model;
    RangesFile ranges;
    std::vector<float> x, w, y;

    explicit Product(float outlier, const std::string& more = "") {
        w = normal(depth * width, 0.2, 1);
        for (std::size_t m = 0; m < width; ++m)
            w[m] *= 1.0F / outlier; // row 0 of [depth, width]
        x = normal(samples * depth, 1.0, 2);
        for (std::size_t n = 0; n < samples; ++n)
            x[n * depth] *= outlier;
        y.assign(samples * width, 0.0F);
        for (std::size_t n = 0; n < samples; ++n) {
            for (std::size_t k = 0; k < depth; ++k) {
                for (std::size_t m = 0; m < width; ++m)
                    y[n * width + m] += x[n * depth + k] * w[k * width + m];
            }
        }
        model = graph(("opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 64]\ninput %w: float32[64, 32]\n" +
                       std::string("%y = MatMul(%x, %w) {name = \"product\"}\n") + more + "output %y: float32[1, 32]\n")
                          .c_str());
        model.graph.inputs.resize(1);
        model.graph.initializers.insert_or_assign("w", Tensor::of_floats("w", {64, 32}, w));
        ActivationStatistics statistics;
        statistics.samples = samples;
        statistics.tensors.resize(2);
        statistics.tensors[0].name = "x";
        statistics.tensors[0].histogram.observe(x);
        statistics.tensors[1].name = "y";
        statistics.tensors[1].histogram.observe(y);
        RangesKey key;
        key.model = calibration_key(model);
        ranges = make_ranges(std::move(statistics), key, Method::minmax, {}, 1);
    }

    /// What rounding x and w really does to y.
    double measured() const {
        const Range range = ranges.tensors[0].uint8;
        const double scale = (static_cast<double>(range.high) - static_cast<double>(range.low)) / 255.0;
        std::vector<double> rounded(w.begin(), w.end());
        for (std::size_t m = 0; m < width; ++m) {
            double most = 0.0;
            for (std::size_t k = 0; k < depth; ++k)
                most = std::max(most, std::abs(rounded[k * width + m]));
            for (std::size_t k = 0; k < depth; ++k)
                rounded[k * width + m] = std::nearbyint(rounded[k * width + m] / (most / 127.0)) * most / 127.0;
        }
        double error = 0.0;
        double square = 0.0;
        double sum = 0.0;
        for (std::size_t n = 0; n < samples; ++n) {
            for (std::size_t m = 0; m < width; ++m) {
                double value = 0.0;
                for (std::size_t k = 0; k < depth; ++k)
                    value +=
                        std::nearbyint(static_cast<double>(x[n * depth + k]) / scale) * scale * rounded[k * width + m];
                const auto real = static_cast<double>(y[n * width + m]);
                error += (value - real) * (value - real);
                square += real * real;
                sum += real;
            }
        }
        const auto count = static_cast<double>(samples * width);
        return error / count / (square / count - sum / count * sum / count);
    }

    std::vector<LayerNoise> estimated() const {
        const auto plan = plan_quantization(model, profile_of(Target::openvino));
        EXPECT_TRUE(plan);
        return estimate_layer_noise(model.graph, *plan, ranges, {{"x", ranges.tensors[0].uint8}});
    }
};

TEST(LayerNoise, IsWhatRoundingReallyDoes) {
    for (const float outlier : {1.0F, 20.0F, 200.0F}) {
        const Product product(outlier);
        const auto layers = product.estimated();
        ASSERT_EQ(layers.size(), 1U);
        EXPECT_EQ(layers[0].label, "product");
        EXPECT_DOUBLE_EQ(layers[0].share, 1.0);
        const double measured = product.measured();
        EXPECT_NEAR(layers[0].noise / measured, 1.0, 0.15) << outlier << ": " << layers[0].noise << ", " << measured;
    }
}

TEST(LayerNoise, NeedsTheOutputsHistogram) {
    Product product(1.0F);
    product.ranges.tensors.pop_back();
    EXPECT_TRUE(product.estimated().empty());
}

LayerNoise layer(std::size_t node, double noise, double cost, double share = 0.0) {
    return {node, std::to_string(node), noise, share, cost};
}

struct Case {
    const char* name;
    std::vector<LayerNoise> layers;
    std::vector<std::size_t> expected;
};

TEST(NoisyLayers, AreThoseThatStandOutWhileTheCostLasts) {
    const std::vector<Case> cases{
        {"none", {}, {}},
        {"one alone has nothing to stand out of", {layer(0, 0.5, 0.001)}, {}},
        {"all alike", {layer(0, 0.05, 0.001), layer(1, 0.04, 0.001), layer(2, 0.06, 0.001)}, {}},
        {"little noise", {layer(0, 0.015, 0.001), layer(1, 1e-4, 0.001), layer(2, 1e-4, 0.001)}, {}},
        {"little noise, but most of all, for nothing",
         {layer(0, 0.007, 0.008, 0.3), layer(1, 2e-4, 0.001), layer(2, 2e-4, 0.001), layer(3, 2e-4, 0.001),
          layer(4, 0.006, 0.02, 0.3)},
         {0}},
        {"a good part of all, but like the others", {layer(0, 0.007, 0.001, 0.5), layer(1, 0.007, 0.001, 0.5)}, {}},
        {"one", {layer(0, 1e-3, 0.001), layer(1, 0.2, 0.02), layer(2, 1e-3, 0.001)}, {1}},
        {"too dear", {layer(0, 1e-3, 0.001), layer(1, 0.2, 0.2), layer(2, 1e-3, 0.001)}, {}},
        {"most noise for the cost first",
         {layer(0, 0.15, 0.03), layer(1, 0.1, 0.001), layer(2, 0.3, 0.03), layer(3, 1e-3, 0.1), layer(4, 1e-3, 0.1),
          layer(5, 1e-3, 0.1), layer(6, 1e-3, 0.1)},
         {1, 2}},
        {"what ruins the answer may cost more, but not all",
         {layer(0, 0.9, 0.03), layer(1, 0.6, 0.03), layer(2, 0.25, 0.015), layer(3, 0.21, 0.02), layer(4, 1e-3, 0.1),
          layer(5, 1e-3, 0.1), layer(6, 1e-3, 0.1), layer(7, 1e-3, 0.1), layer(8, 1e-3, 0.1)},
         {0, 1, 2}},
    };
    for (const Case& each : cases) {
        std::vector<std::size_t> chosen;
        for (const LayerNoise& noisy : noisy_layers(each.layers))
            chosen.push_back(noisy.node);
        EXPECT_EQ(chosen, each.expected) << each.name;
    }
}

TEST(NoisyLayers, StayInFloatAndTheReasonSaysSo) {
    // Five sound layers behind the harmful one.
    std::string more;
    std::string from = "y";
    for (int i = 0; i < 5; ++i) {
        const std::string to = "z" + std::to_string(i);
        more += "%" + to + " = MatMul(%" + from + ", %v) {name = \"" + to + "\"}\n";
        from = to;
    }
    Product product(2000.0F, more);
    Model& model = product.model;
    model.graph.initializers.insert_or_assign("v", Tensor::of_floats("v", {32, 32}, normal(1024, 0.18, 3)));
    model.graph.outputs.front().name = from;
    product.ranges.key.model = calibration_key(model);
    for (int i = 0; i < 5; ++i) {
        product.ranges.tensors.push_back(product.ranges.tensors[1]);
        product.ranges.tensors.back().name = "z" + std::to_string(i);
    }
    // So much more work behind that the layer costs next to nothing.
    QuantizeOptions options;
    options.noisy_in_float = true;
    const auto outcome = quantize_model(model, product.ranges, options);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    const auto decision = std::ranges::find_if(outcome->plan.decisions, [](const EdgeDecision& each) {
        return each.node == "product" && each.edge.input == 0;
    });
    ASSERT_NE(decision, outcome->plan.decisions.end());
    const bool cheap = !outcome->in_float.empty();
    EXPECT_EQ(decision->reason, cheap ? Reason::too_noisy : Reason::heavy_input);
    EXPECT_EQ(outcome->plan.quantized_nodes, cheap ? 5U : 6U);
    options.noisy_in_float = false;
    EXPECT_EQ(quantize_model(model, product.ranges, options)->plan.quantized_nodes, 6U);
}

// What answers for each place of an image is left in float where that is nearly free, also behind a sum that decodes.
TEST(HeadLayers, OfPlacesTheLastConvolutionsAreCheap) {
    const auto labels = [](const std::string& text) {
        Model model = graph(text);
        for (const auto& [name, shape] :
             {std::pair{"w", Shape{64, 64, 3, 3}}, {"h", Shape{4, 64, 1, 1}}, {"d", Shape{1, 4, 1, 1}}})
            model.graph.initializers.insert_or_assign(
                name, Tensor::of_floats(name, shape, normal(static_cast<std::size_t>(element_count(shape)), 1.0, 3)));
        model.graph.inputs.resize(1);
        EXPECT_TRUE(infer_shapes(model));
        std::set<std::string> found;
        for (const LayerNoise& layer : head_layers(model.graph, test::plan(model, Target::openvino))) {
            EXPECT_TRUE(layer.last);
            EXPECT_LE(layer.cost, 0.04);
            found.insert(layer.label);
        }
        return found;
    };
    const std::string body =
        "opset 18\nir 8\nname \"m\"\ninput %x: float32[1, 64, 40, 40]\n"
        "input %w: float32[64, 64, 3, 3]\ninput %h: float32[4, 64, 1, 1]\ninput %d: float32[1, 4, 1, 1]\n"
        "%a = Conv(%x, %w) {name = \"a\"}\n%b = Conv(%a, %w) {name = \"b\"}\n";
    const std::string boxes = "%c = Conv(%b, %h) {name = \"boxes\"}\n";
    EXPECT_EQ(labels(body + boxes + "output %c: float32[1, 4, 36, 36]\n"), (std::set<std::string>{"boxes"}));
    EXPECT_EQ(labels(body + boxes + "%e = Conv(%c, %d) {name = \"decode\"}\noutput %e: float32[1, 1, 36, 36]\n"),
              (std::set<std::string>{"boxes", "decode"}));
    // As dear as the others: no.
    EXPECT_EQ(labels(body + "output %b: float32[1, 64, 36, 36]\n"), (std::set<std::string>{}));
    // Of one place a picture: a classifier's.
    EXPECT_EQ(labels(body + "%p = GlobalAveragePool(%b)\n%c = Conv(%p, %h) {name = \"classes\"}\n"
                            "output %c: float32[1, 4, 1, 1]\n"),
              (std::set<std::string>{}));
}

} // namespace
} // namespace lathe
