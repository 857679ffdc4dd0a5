#pragma once

#include <stdexcept>

#include "backends/api/backend.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/models.hpp"

namespace lathe::test {

/// A model whose graph inputs beginning with "w_", "b_" (noise), "s_" (scale 0.05) and "z_" (zero point 0, int8)
/// become constants of the shapes written; int8 ones beginning with "q_" become int8 noise.
inline Model network(const std::string& text) {
    Model model = model_from_text(text);
    std::uint32_t seed = 1;
    for (const ValueInfo& info : model.graph.inputs) {
        const std::string prefix = info.name.substr(0, 2);
        const Shape shape = info.shape().value_or(Shape{});
        const auto count = static_cast<std::size_t>(element_count(shape));
        ++seed;
        if (prefix == "w_" || prefix == "b_") {
            auto values = noise(count, seed);
            for (float& value : values)
                value *= prefix == "w_" ? 0.25F : 0.5F;
            model.graph.initializers.insert_or_assign(info.name, Tensor::of_floats(info.name, shape, values));
        } else if (prefix == "s_") {
            std::vector<float> values(count);
            for (std::size_t i = 0; i < count; ++i)
                values[i] = count == 1 ? 0.03125F : 0.002F + 0.0001F * static_cast<float>(i % 7);
            model.graph.initializers.insert_or_assign(info.name, Tensor::of_floats(info.name, shape, values));
        } else if (prefix == "z_" || prefix == "q_") {
            std::vector<std::int8_t> values(count);
            const auto random = noise(count, seed);
            for (std::size_t i = 0; i < count && prefix == "q_"; ++i)
                values[i] = static_cast<std::int8_t>(random[i] * 127);
            model.graph.initializers.insert_or_assign(
                info.name, Tensor::of(info.name, DataType::int8, shape, std::span<const std::int8_t>(values)));
        }
    }
    std::erase_if(model.graph.inputs,
                  [&](const ValueInfo& info) { return model.graph.initializers.contains(info.name); });
    return model;
}

inline std::vector<HostTensor> random_inputs(const Model& model, const std::vector<Shape>& shapes) {
    std::vector<HostTensor> inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const ValueInfo& info = model.graph.inputs[i];
        HostTensor tensor(info.name, info.type, shapes[i]);
        const auto values =
            noise(static_cast<std::size_t>(element_count(shapes[i])), static_cast<std::uint32_t>(100 + i));
        if (info.type == DataType::float32) {
            std::copy(values.begin(), values.end(), tensor.as<float>().begin());
        } else if (info.type == DataType::int64) {
            for (std::size_t k = 0; k < values.size(); ++k) // 0 or 1 for masks, else small indices
                tensor.as<std::int64_t>()[k] = info.name.starts_with("mask")
                                                   ? (k % 8 < 6 ? 1 : 0)
                                                   : static_cast<std::int64_t>((values[k] + 1) * 7);
        }
        inputs.push_back(std::move(tensor));
    }
    return inputs;
}

/// What the CPU backend computes in float32.
inline std::vector<HostTensor> run_on_cpu(const Model& model, std::vector<HostTensor>& inputs) {
    const auto must = [](auto result) {
        if (!result) throw std::runtime_error(result.error().describe());
        return std::move(result).value();
    };
    const Backend* backend = must(backend_for_device("cpu"));
    CompileOptions options;
    for (const HostTensor& input : inputs)
        options.shapes[input.name] = {input.shape, input.shape, input.shape};
    const auto compiled = must(backend->compile(model, options));
    const auto session = must(compiled->make_session());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (auto set = session->set_input(i, inputs[i].view()); !set) throw std::runtime_error(set.error().describe());
    }
    if (auto ran = session->run(); !ran) throw std::runtime_error(ran.error().describe());
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < compiled->outputs().size(); ++i) {
        const TensorView view = must(session->output(i));
        HostTensor tensor(view.name, view.type, view.shape);
        std::copy(view.bytes.begin(), view.bytes.end(), tensor.bytes.begin());
        outputs.push_back(std::move(tensor));
    }
    return outputs;
}

inline cuda::Plan plan_of(const Model& model, Precision precision, const std::vector<Shape>& shapes) {
    auto prepared = cuda::prepare(model, precision);
    if (!prepared) throw std::runtime_error(prepared.error().describe());
    auto plan = cuda::lower(*prepared, shapes);
    if (!plan) throw std::runtime_error(plan.error().describe());
    return std::move(*plan);
}

inline std::vector<HostTensor> interpreted(const cuda::Plan& plan, std::vector<HostTensor>& inputs, bool round_values) {
    std::vector<TensorView> views;
    for (HostTensor& input : inputs)
        views.push_back(input.view());
    cuda::InterpretOptions options;
    options.round_values = round_values;
    auto outputs = cuda::interpret(plan, views, options);
    if (!outputs) throw std::runtime_error(outputs.error().describe());
    return std::move(*outputs);
}

/// ||a - b|| / ||a||
inline double relative_difference(const HostTensor& a, const HostTensor& b) {
    double difference = 0;
    double whole = 0;
    if (a.shape != b.shape) return 1e300;
    for (std::size_t i = 0; i < a.as<float>().size(); ++i) {
        const double x = static_cast<double>(a.as<float>()[i]);
        const double d = x - static_cast<double>(b.as<float>()[i]);
        difference += d * d;
        whole += x * x;
    }
    return std::sqrt(difference / std::max(whole, 1e-30));
}

// ---- networks ----

/// Two bottleneck blocks of a residual network with a downsampling convolution, its stem and its classifier.
inline std::string residual_network() {
    return "opset 18\n"
           "input %x: float32[N, 3, 32, 32]\n"
           "input %w_stem: float32[16, 3, 7, 7]\ninput %b_stem: float32[16]\n"
           "input %w_a: float32[16, 16, 1, 1]\ninput %b_a: float32[16]\n"
           "input %w_b: float32[16, 16, 3, 3]\ninput %b_b: float32[16]\n"
           "input %w_c: float32[32, 16, 1, 1]\ninput %b_c: float32[32]\n"
           "input %w_d: float32[32, 16, 1, 1]\ninput %b_d: float32[32]\n"
           "input %w_e: float32[24, 32, 3, 3]\ninput %b_e: float32[24]\n"
           "input %w_f: float32[32, 24, 1, 1]\ninput %b_f: float32[32]\n"
           "input %w_fc: float32[10, 32]\ninput %b_fc: float32[10]\n"
           "%stem = Conv(%x, %w_stem, %b_stem) {pads = [3, 3, 3, 3], strides = [2, 2]}\n"
           "%stem_r = Relu(%stem)\n"
           "%p = MaxPool(%stem_r) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}\n"
           "%a = Conv(%p, %w_a, %b_a)\n%a_r = Relu(%a)\n"
           "%b = Conv(%a_r, %w_b, %b_b) {pads = [1, 1, 1, 1], strides = [2, 2]}\n%b_r = Relu(%b)\n"
           "%c = Conv(%b_r, %w_c, %b_c)\n"
           "%d = Conv(%p, %w_d, %b_d) {strides = [2, 2]}\n"
           "%sum = Add(%c, %d)\n%sum_r = Relu(%sum)\n"
           "%e = Conv(%sum_r, %w_e, %b_e) {pads = [1, 1, 1, 1]}\n%e_r = Clip(%e, , )\n%e_s = Relu(%e_r)\n"
           "%f = Conv(%e_s, %w_f, %b_f)\n"
           "%sum2 = Add(%sum_r, %f)\n%sum2_r = Relu(%sum2)\n"
           "%g = GlobalAveragePool(%sum2_r)\n%flat = Flatten(%g)\n"
           "%y = Gemm(%flat, %w_fc, %b_fc) {transB = 1}\n"
           "output %y: float32[N, 10]\n";
}

/// The same shape of network as the quantiser writes it for `cuda`: symmetric int8, skips quantised.
inline std::string quantised_network() {
    const auto weight = [](const std::string& name, const std::string& shape, const std::string& channels) {
        return "input %q_" + name + ": int8[" + shape + "]\ninput %s_" + name + ": float32[" + channels +
               "]\ninput %z_" + name + ": int8[" + channels + "]\ninput %b_" + name + ": float32[" + channels + "]\n";
    };
    const auto filters = [](const std::string& name) {
        return "%" + name + "_w = DequantizeLinear(%q_" + name + ", %s_" + name + ", %z_" + name + ") {axis = 0}\n";
    };
    const auto rounded = [](const std::string& name) {
        return "%" + name + "_q = QuantizeLinear(%" + name + ", %s_act, %z_act)\n%" + name +
               "_dq = DequantizeLinear(%" + name + "_q, %s_act, %z_act)\n";
    };
    return "opset 18\n"
           "input %x: float32[N, 3, 32, 32]\n"
           "input %w_stem: float32[16, 3, 7, 7]\ninput %b_stem: float32[16]\n"
           "input %s_act: float32[]\ninput %z_act: int8[]\n" +
           weight("a", "16, 16, 1, 1", "16") + weight("b", "16, 1, 3, 3", "16") + weight("c", "32, 16, 1, 1", "32") +
           weight("d", "32, 16, 1, 1", "32") + weight("fc", "10, 32", "10") +
           "%stem = Conv(%x, %w_stem, %b_stem) {pads = [3, 3, 3, 3], strides = [2, 2]}\n"
           "%stem_r = Relu(%stem)\n" +
           rounded("stem_r") +
           "%p = MaxPool(%stem_r_dq) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}\n" + filters("a") +
           "%a = Conv(%p, %a_w, %b_a)\n%a_r = Relu(%a)\n" + rounded("a_r") + filters("b") +
           "%b = Conv(%a_r_dq, %b_w, %b_b) {pads = [1, 1, 1, 1], strides = [2, 2], group = 16}\n"
           "%b_r = Relu(%b)\n" +
           rounded("b_r") + filters("c") + "%c = Conv(%b_r_dq, %c_w, %b_c)\n" + rounded("c") + filters("d") +
           "%d = Conv(%p, %d_w, %b_d) {strides = [2, 2]}\n"
           "%sum = Add(%c_dq, %d)\n%sum_r = Relu(%sum)\n" +
           rounded("sum_r") + "%g = GlobalAveragePool(%sum_r_dq)\n" + rounded("g") + "%flat = Flatten(%g_dq)\n" +
           filters("fc") +
           "%y = Gemm(%flat, %fc_w, %b_fc) {transB = 1}\n"
           "output %y: float32[N, 10]\n";
}

/// Depthwise blocks with clipped activations and a residual, channels that are no multiple of 16 bytes.
inline std::string depthwise_network() {
    return "opset 18\n"
           "input %x: float32[N, 3, 24, 24]\n"
           "input %w_stem: float32[20, 3, 3, 3]\ninput %b_stem: float32[20]\n"
           "input %w_a: float32[20, 1, 3, 3]\ninput %b_a: float32[20]\n"
           "input %w_b: float32[12, 20, 1, 1]\ninput %b_b: float32[12]\n"
           "input %w_c: float32[36, 12, 1, 1]\ninput %b_c: float32[36]\n"
           "input %w_d: float32[36, 1, 5, 5]\ninput %b_d: float32[36]\n"
           "input %w_e: float32[12, 36, 1, 1]\ninput %b_e: float32[12]\n"
           "input %w_fc: float32[12, 7]\ninput %b_fc: float32[7]\n"
           "const %low: float32[] = {0.0}\nconst %high: float32[] = {6.0}\n"
           "%stem = Conv(%x, %w_stem, %b_stem) {pads = [0, 0, 1, 1], strides = [2, 2]}\n"
           "%stem_r = Clip(%stem, %low, %high)\n"
           "%a = Conv(%stem_r, %w_a, %b_a) {pads = [1, 1, 1, 1], group = 20}\n%a_r = Clip(%a, %low, %high)\n"
           "%b = Conv(%a_r, %w_b, %b_b)\n"
           "%c = Conv(%b, %w_c, %b_c)\n%c_g = Sigmoid(%c)\n%c_r = Mul(%c_g, %c)\n"
           "%d = Conv(%c_r, %w_d, %b_d) {pads = [2, 2, 2, 2], group = 36}\n%d_r = HardSwish(%d)\n"
           "%e = Conv(%d_r, %w_e, %b_e)\n"
           "%sum = Add(%e, %b)\n"
           "%p = AveragePool(%sum) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}\n"
           "%g = GlobalAveragePool(%p)\n%flat = Flatten(%g)\n"
           "%y = Gemm(%flat, %w_fc, %b_fc)\n"
           "output %y: float32[N, 7]\n";
}

} // namespace lathe::test
