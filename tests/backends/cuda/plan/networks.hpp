#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <variant>

#include "backends/api/backend.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/float_weights.hpp"
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

/// The result, or an exception that says why there is none.
inline constexpr auto must = [](auto result) {
    if (!result) throw std::runtime_error(result.error().describe());
    return std::move(result).value();
};

inline std::unique_ptr<CompiledModel> compile_for_cpu(const Model& model, const std::vector<HostTensor>& inputs) {
    CompileOptions options;
    for (const HostTensor& input : inputs)
        options.shapes[input.name] = {input.shape, input.shape, input.shape};
    return must(must(backend_for_device("cpu"))->compile(model, options));
}

/// What the graph says, by the CPU backend in float32.
inline std::vector<HostTensor> run_on_cpu(const Model& model, std::vector<HostTensor>& inputs) {
    const auto compiled = compile_for_cpu(with_float_weights(model), inputs);
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

/// How many operations of each kind, Reformats left out.
inline std::map<std::string, int> operations_of(const cuda::Plan& plan) {
    std::map<std::string, int> found;
    for (const cuda::FusedOp& op : plan.ops)
        if (!std::holds_alternative<cuda::Reformat>(op.detail)) ++found[cuda::kind_of(op)];
    return found;
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

/// The beginning of a quantised bottleneck network at its real widths: a shortcut from 64 to 256 channels, a block
/// behind it, a shortcut of stride 2 to 512.
inline std::string bottleneck_network() {
    std::string inputs, nodes;
    const auto rounded = [](const std::string& name) {
        return "%" + name + "_q = QuantizeLinear(%" + name + ", %s_act, %z_act)\n%" + name +
               "_dq = DequantizeLinear(%" + name + "_q, %s_act, %z_act)\n";
    };
    const auto conv = [&](const std::string& name, const std::string& x, int c, int k, int size, int stride) {
        const std::string channels = std::to_string(k), window = std::to_string(size);
        inputs += "input %q_" + name + ": int8[" + channels + ", " + std::to_string(c) + ", " + window + ", " + window +
                  "]\ninput %s_" + name + ": float32[" + channels + "]\ninput %z_" + name + ": int8[" + channels +
                  "]\ninput %b_" + name + ": float32[" + channels + "]\n";
        const std::string pad = std::to_string(size / 2), step = std::to_string(stride);
        nodes += "%" + name + "_w = DequantizeLinear(%q_" + name + ", %s_" + name + ", %z_" + name + ") {axis = 0}\n%" +
                 name + " = Conv(%" + x + ", %" + name + "_w, %b_" + name + ") {pads = [" + pad + ", " + pad + ", " +
                 pad + ", " + pad + "], strides = [" + step + ", " + step + "]}\n";
    };
    const auto relu = [&](const std::string& name) {
        nodes += "%" + name + "_r = Relu(%" + name + ")\n" + rounded(name + "_r");
    };
    const auto block = [&](const std::string& name, const std::string& x, int c, int width, int stride, bool shortcut) {
        conv(name + "1", x, c, width, 1, 1);
        relu(name + "1");
        conv(name + "2", name + "1_r_dq", width, width, 3, stride);
        relu(name + "2");
        conv(name + "3", name + "2_r_dq", width, 4 * width, 1, 1);
        if (shortcut) {
            nodes += rounded(name + "3");
            conv(name + "0", x, c, 4 * width, 1, stride);
        }
        nodes += "%" + name + " = Add(%" + name + "3" + (shortcut ? "_dq, %" + name + "0" : ", %" + x) + ")\n";
        relu(name);
    };
    nodes += rounded("x");
    block("a", "x_dq", 64, 64, 1, true);
    block("b", "a_r_dq", 256, 64, 1, false);
    block("c", "b_r_dq", 256, 128, 2, true);
    block("d", "c_r_dq", 512, 128, 1, false);
    return "opset 18\ninput %x: float32[N, 64, 20, 20]\ninput %s_act: float32[]\ninput %z_act: int8[]\n" + inputs +
           nodes + "%g = GlobalAveragePool(%d_r_dq)\n%y = Flatten(%g)\noutput %y: float32[N, 512]\n";
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

/// One encoder layer with embeddings as exporters write it: eager attention (`split_scale` false, scores divided) or
/// the scaled-dot-product form (q and k each multiplied).
inline std::string encoder(bool split_scale) {
    const std::string scores = split_scale ? "%q2 = Mul(%q1, %c)\n%k2 = Mul(%k1, %c)\n%s1 = MatMul(%q2, %k2)\n"
                                           : "%s0 = MatMul(%q1, %k1)\n%s1 = Div(%s0, %d)\n";
    return "opset 18\n"
           "input %ids: int64[N, S]\ninput %mask: int64[N, S]\n"
           "input %w_words: float32[16, 32]\ninput %w_positions: float32[24, 32]\ninput %w_type: float32[32]\n"
           "input %w_q: float32[32, 32]\ninput %w_k: float32[32, 32]\ninput %w_v: float32[32, 32]\n"
           "input %b_q: float32[32]\ninput %b_k: float32[32]\ninput %b_v: float32[32]\n"
           "input %w_o: float32[32, 32]\ninput %b_o: float32[32]\n"
           "input %w_gamma: float32[32]\ninput %b_beta: float32[32]\n"
           "input %w_up: float32[32, 64]\ninput %b_up: float32[64]\n"
           "input %w_down: float32[64, 32]\ninput %b_down: float32[32]\n"
           "const %c: float32[] = {0.5946}\nconst %d: float32[] = {2.828427}\nconst %one: float32[] = {1.0}\n"
           "const %low: float32[] = {-3.4028235e38}\nconst %root: float32[] = {1.4142135}\n"
           "const %half: float32[] = {0.5}\nconst %heads: int64[4] = {0, 0, 4, 8}\nconst %joined: int64[3] = {0, 0, "
           "32}\n"
           "const %axes: int64[2] = {1, 2}\nconst %zero: int64[] = {0}\nconst %at: int64[] = {1}\n"
           "const %step: int64[] = {1}\n"
           "%shape = Shape(%ids)\n%length = Gather(%shape, %at)\n%range = Range(%zero, %length, %step)\n"
           "%words = Gather(%w_words, %ids)\n%positions = Gather(%w_positions, %range)\n"
           "%e1 = Add(%words, %w_type)\n%e2 = Add(%e1, %positions)\n"
           "%x = LayerNormalization(%e2, %w_gamma, %b_beta) {axis = -1, epsilon = 1e-12}\n"
           "%m1 = Unsqueeze(%mask, %axes)\n%m2 = Cast(%m1) {to = 1}\n%m3 = Sub(%one, %m2)\n%m4 = Mul(%m3, %low)\n"
           "%qm = MatMul(%x, %w_q)\n%qb = Add(%b_q, %qm)\n%qr = Reshape(%qb, %heads)\n"
           "%q1 = Transpose(%qr) {perm = [0, 2, 1, 3]}\n"
           "%km = MatMul(%x, %w_k)\n%kb = Add(%b_k, %km)\n%kr = Reshape(%kb, %heads)\n"
           "%k1 = Transpose(%kr) {perm = [0, 2, 3, 1]}\n"
           "%vm = MatMul(%x, %w_v)\n%vb = Add(%b_v, %vm)\n%vr = Reshape(%vb, %heads)\n"
           "%v1 = Transpose(%vr) {perm = [0, 2, 1, 3]}\n" +
           scores +
           "%s2 = Add(%s1, %m4)\n%s3 = Softmax(%s2) {axis = -1}\n%o1 = MatMul(%s3, %v1)\n"
           "%o2 = Transpose(%o1) {perm = [0, 2, 1, 3]}\n%o3 = Reshape(%o2, %joined)\n"
           "%o4 = MatMul(%o3, %w_o)\n%o5 = Add(%b_o, %o4)\n%o6 = Add(%o5, %x)\n"
           "%y = LayerNormalization(%o6, %w_gamma, %b_beta) {axis = -1, epsilon = 1e-12}\n"
           "%u1 = MatMul(%y, %w_up)\n%u2 = Add(%b_up, %u1)\n"
           "%g1 = Div(%u2, %root)\n%g2 = Erf(%g1)\n%g3 = Add(%g2, %one)\n%g4 = Mul(%u2, %g3)\n%g5 = Mul(%g4, %half)\n"
           "%d1 = MatMul(%g5, %w_down)\n%d2 = Add(%b_down, %d1)\n%d3 = Add(%d2, %y)\n"
           "%z = LayerNormalization(%d3, %w_gamma, %b_beta) {axis = -1, epsilon = 1e-12}\n"
           "%cls = Gather(%z, %zero) {axis = 1}\n"
           "output %z: float32[N, S, 32]\noutput %cls: float32[N, 32]\n";
}

/// Two layers of an int8 perceptron between normalizations: the normalised value is read in int8 and by the residual.
inline std::string quantised_perceptron() {
    return "opset 20\n"
           "input %x: float32[N, 6, 32]\n"
           "input %s_act: float32[]\ninput %z_act: int8[]\n"
           "input %w_gamma: float32[32]\ninput %b_beta: float32[32]\n"
           "input %q_up: int8[32, 48]\ninput %s_up: float32[48]\ninput %z_up: int8[48]\ninput %b_up: float32[48]\n"
           "input %q_down: int8[48, 32]\ninput %s_down: float32[32]\ninput %z_down: int8[32]\n"
           "input %b_down: float32[32]\n"
           "%n = LayerNormalization(%x, %w_gamma, %b_beta)\n"
           "%nq = QuantizeLinear(%n, %s_act, %z_act)\n%nd = DequantizeLinear(%nq, %s_act, %z_act)\n"
           "%wu = DequantizeLinear(%q_up, %s_up, %z_up) {axis = 1}\n"
           "%u1 = MatMul(%nd, %wu)\n%u2 = Add(%u1, %b_up)\n%u3 = Gelu(%u2)\n"
           "%uq = QuantizeLinear(%u3, %s_act, %z_act)\n%ud = DequantizeLinear(%uq, %s_act, %z_act)\n"
           "%wd = DequantizeLinear(%q_down, %s_down, %z_down) {axis = 1}\n"
           "%d1 = MatMul(%ud, %wd)\n%d2 = Add(%d1, %b_down)\n%d3 = Add(%d2, %n)\n"
           "%y = LayerNormalization(%d3, %w_gamma, %b_beta)\n"
           "output %y: float32[N, 6, 32]\n";
}

/// A block with squeeze and excitation.
inline std::string gated_network() {
    return "opset 18\n"
           "input %x: float32[N, 8, 10, 10]\n"
           "input %w_a: float32[24, 8, 1, 1]\ninput %b_a: float32[24]\n"
           "input %w_b: float32[24, 1, 3, 3]\ninput %b_b: float32[24]\n"
           "input %w_c: float32[6, 24, 1, 1]\ninput %b_c: float32[6]\n"
           "input %w_d: float32[24, 6, 1, 1]\ninput %b_d: float32[24]\n"
           "input %w_e: float32[8, 24, 1, 1]\ninput %b_e: float32[8]\n"
           "const %axes: int64[2] = {2, 3}\n"
           "%a = Conv(%x, %w_a, %b_a)\n%a_g = Sigmoid(%a)\n%a_r = Mul(%a, %a_g)\n"
           "%b = Conv(%a_r, %w_b, %b_b) {pads = [1, 1, 1, 1], group = 24}\n%b_g = Sigmoid(%b)\n%b_r = Mul(%b, %b_g)\n"
           "%p = ReduceMean(%b_r, %axes) {keepdims = 1}\n"
           "%c = Conv(%p, %w_c, %b_c)\n%c_g = Sigmoid(%c)\n%c_r = Mul(%c, %c_g)\n"
           "%d = Conv(%c_r, %w_d, %b_d)\n%d_r = Sigmoid(%d)\n"
           "%m = Mul(%b_r, %d_r)\n%e = Conv(%m, %w_e, %b_e)\n%y = Add(%e, %x)\n"
           "output %y: float32[N, 8, 10, 10]\n";
}

/// GroupNorm as PyTorch writes it with SiLU behind, InstanceNormalization, and RMSNorm in three spellings, the last
/// behind a past that is an input.
inline std::string normalised_network() {
    return "opset 18\n"
           "input %x: float32[N, 8, 10, 10]\n"
           "input %past: float32[N, 30, 24]\n"
           "input %w_a: float32[24, 8, 3, 3]\ninput %b_a: float32[24]\n"
           "input %w_g: float32[24, 1, 1]\ninput %b_g: float32[24, 1, 1]\n"
           "input %w_b: float32[24, 24, 1, 1]\ninput %b_b: float32[24]\n"
           "input %w_i: float32[24]\ninput %b_i: float32[24]\n"
           "input %w_r: float32[24]\ninput %w_m: float32[24, 24]\n"
           "const %ones: float32[6] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}\n"
           "const %zeros: float32[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}\n"
           "const %grouped: int64[3] = {0, 6, -1}\nconst %rows: int64[3] = {0, 0, -1}\n"
           "const %two: float32[] = {2.0}\nconst %one: float32[] = {1.0}\nconst %tiny: float32[] = {0.001}\n"
           "const %axes: int64[1] = {-1}\n"
           "%a = Conv(%x, %w_a, %b_a) {pads = [1, 1, 1, 1]}\n%shape = Shape(%a)\n"
           "%g1 = Reshape(%a, %grouped)\n%g2 = InstanceNormalization(%g1, %ones, %zeros)\n"
           "%g3 = Reshape(%g2, %shape)\n%g4 = Mul(%g3, %w_g)\n%g5 = Add(%g4, %b_g)\n"
           "%s = Sigmoid(%g5)\n%s_r = Mul(%g5, %s)\n"
           "%b = Conv(%s_r, %w_b, %b_b)\n%i = InstanceNormalization(%b, %w_i, %b_i)\n"
           "%f = Reshape(%i, %rows)\n%t = Transpose(%f) {perm = [0, 2, 1]}\n"
           "%r1 = Pow(%t, %two)\n%r2 = ReduceMean(%r1, %axes) {keepdims = 1}\n%r3 = Add(%r2, %tiny)\n"
           "%r4 = Sqrt(%r3)\n%r5 = Div(%one, %r4)\n%r6 = Mul(%t, %r5)\n%r7 = Mul(%w_r, %r6)\n"
           "%m = MatMul(%r7, %w_m)\n%n = Add(%m, %t)\n"
           "%n1 = Mul(%n, %n)\n%n2 = ReduceMean(%n1, %axes) {keepdims = 1}\n%n3 = Add(%tiny, %n2)\n"
           "%n4 = Sqrt(%n3)\n%n5 = Reciprocal(%n4)\n%n6 = Mul(%n, %n5)\n"
           "%c = Concat(%past, %n6) {axis = 1}\n"
           "%c1 = Mul(%c, %c)\n%c2 = ReduceMean(%c1, %axes) {keepdims = 1}\n%c3 = Add(%c2, %tiny)\n"
           "%c4 = Sqrt(%c3)\n%y = Div(%c, %c4)\n"
           "output %y: undefined\n";
}

/// A decoder's layer as transformers writes it: rotary positions, four heads that read two of keys, a causal mask of
/// kept keys, and a perceptron with a gate (SwiGLU). The heads' products: three, three with biases, or one.
enum class HeadProducts { three, biased, one };
/// Attention in each of three windows a sample, its products written as Einsum over five dimensions (MaxViT).
inline std::string windowed_network() {
    const auto part = [](const char* name, const char* from, const char* to) {
        const std::string n = name;
        return "%" + n + "0 = Slice(%all, %" + from + ", %" + to + ", %last)\n%" + n + "1 = Reshape(%" + n +
               "0, %apart)\n%" + n + " = Transpose(%" + n + "1) {perm = [0, 1, 3, 2, 4]}\n";
    };
    return "opset 18\ninput %x: float32[N, 3, 8, 40]\ninput %w_all: float32[40, 96]\ninput %w_o: float32[32, 40]\n"
           "input %b_near: float32[1, 2, 8, 8]\nconst %zero: int64[1] = {0}\nconst %one: int64[1] = {32}\n"
           "const %two: int64[1] = {64}\nconst %end: int64[1] = {96}\nconst %last: int64[1] = {3}\n"
           "const %apart: int64[5] = {-1, 3, 8, 2, 16}\nconst %flat: int64[4] = {-1, 3, 8, 32}\n"
           "const %quarter: float32[] = {0.25}\n%all = MatMul(%x, %w_all)\n" +
           part("q", "zero", "one") + part("k", "one", "two") + part("v", "two", "end") +
           "%dot = Einsum(%q, %k) {equation = \"bghid,bghjd->bghij\"}\n%scores = Mul(%dot, %quarter)\n"
           "%sum = Add(%scores, %b_near)\n%soft = Softmax(%sum) {axis = -1}\n"
           "%out = Einsum(%soft, %v) {equation = \"bghij,bghjd->bghid\"}\n"
           "%turned = Transpose(%out) {perm = [0, 1, 3, 2, 4]}\n%joined = Reshape(%turned, %flat)\n"
           "%y = MatMul(%joined, %w_o)\noutput %y: float32[N, 3, 8, 40]\n";
}

/// Attention over the pixels of an image as YOLO11 and EfficientViT (MSRA) write it: channels before pixels, values
/// twice as wide as keys, the values' product the other way round, a convolution behind it.
inline std::string pixel_attention_network() {
    return "opset 18\ninput %x: float32[N, 16, 6, 6]\ninput %w_qkv: float32[64, 16, 1, 1]\ninput %b_qkv: float32[64]\n"
           "input %w_o: float32[16, 32, 1, 1]\nconst %heads: int64[4] = {-1, 2, 32, 36}\n"
           "const %parts: int64[3] = {8, 8, 16}\nconst %image: int64[4] = {-1, 32, 6, 6}\n"
           "const %scale: float32[] = {0.35}\n"
           "%all = Conv(%x, %w_qkv, %b_qkv)\n%apart = Reshape(%all, %heads)\n"
           "%q, %k, %v = Split(%apart, %parts) {axis = 2}\n%rows = Transpose(%q) {perm = [0, 1, 3, 2]}\n"
           "%dot = MatMul(%rows, %k)\n%scores = Mul(%dot, %scale)\n%soft = Softmax(%scores) {axis = -1}\n"
           "%turned = Transpose(%soft) {perm = [0, 1, 3, 2]}\n%out = MatMul(%v, %turned)\n"
           "%joined = Reshape(%out, %image)\n%y = Conv(%joined, %w_o)\noutput %y: float32[N, 16, 6, 6]\n";
}

/// The same over areas of the image (YOLO12): rows of channels, turned for the products and back.
inline std::string area_attention_network() {
    return "opset 18\ninput %x: float32[N, 16, 6, 6]\ninput %w_qkv: float32[96, 16, 1, 1]\ninput %b_qkv: float32[96]\n"
           "input %w_o: float32[32, 24]\nconst %flat: int64[3] = {0, 96, 36}\n"
           "const %heads: int64[4] = {-1, 9, 2, 48}\nconst %joined: int64[3] = {-1, 36, 32}\n"
           "const %parts: int64[3] = {16, 16, 16}\nconst %scale: float32[] = {0.25}\n"
           "%all = Conv(%x, %w_qkv, %b_qkv)\n%line = Reshape(%all, %flat)\n"
           "%rows = Transpose(%line) {perm = [0, 2, 1]}\n%areas = Reshape(%rows, %heads)\n"
           "%turned = Transpose(%areas) {perm = [0, 2, 3, 1]}\n"
           "%q, %k, %v = Split(%turned, %parts) {axis = 2}\n%queries = Transpose(%q) {perm = [0, 1, 3, 2]}\n"
           "%dot = MatMul(%queries, %k)\n%scores = Mul(%dot, %scale)\n%soft = Softmax(%scores) {axis = -1}\n"
           "%weights = Transpose(%soft) {perm = [0, 1, 3, 2]}\n%out = MatMul(%v, %weights)\n"
           "%back = Transpose(%out) {perm = [0, 3, 1, 2]}\n%whole = Reshape(%back, %joined)\n"
           "%y = MatMul(%whole, %w_o)\noutput %y: float32[N, 36, 24]\n";
}

/// LeViT's: rows, values twice as wide as keys, a bias of the heads.
inline std::string wide_values_network() {
    return "opset 18\ninput %x: float32[N, 9, 24]\ninput %w_qkv: float32[24, 96]\ninput %b_near: float32[3, 9, 9]\n"
           "input %w_o: float32[48, 24]\nconst %heads: int64[4] = {0, 9, 3, 32}\nconst %parts: int64[3] = {8, 8, 16}\n"
           "const %flat: int64[3] = {0, 9, 48}\nconst %scale: float32[] = {0.35}\n"
           "%all = MatMul(%x, %w_qkv)\n%apart = Reshape(%all, %heads)\n"
           "%q, %k, %v = Split(%apart, %parts) {axis = 3}\n%queries = Transpose(%q) {perm = [0, 2, 1, 3]}\n"
           "%keys = Transpose(%k) {perm = [0, 2, 3, 1]}\n%values = Transpose(%v) {perm = [0, 2, 1, 3]}\n"
           "%dot = MatMul(%queries, %keys)\n%scores = Mul(%dot, %scale)\n%sum = Add(%scores, %b_near)\n"
           "%soft = Softmax(%sum) {axis = -1}\n%out = MatMul(%soft, %values)\n"
           "%back = Transpose(%out) {perm = [0, 2, 1, 3]}\n%joined = Reshape(%back, %flat)\n"
           "%y = MatMul(%joined, %w_o)\noutput %y: float32[N, 9, 24]\n";
}

inline std::string decoder_network(HeadProducts heads) {
    const std::string projections =
        heads == HeadProducts::one     ? "%all = MatMul(%x, %w_all)\n%p, %k, %v = Split(%all, %parts) {axis = 2}\n"
        : heads == HeadProducts::three ? "%p = MatMul(%x, %w_q)\n%k = MatMul(%x, %w_k)\n%v = MatMul(%x, %w_v)\n"
                                       : "%p0 = MatMul(%x, %w_q)\n%p = Add(%p0, %b_q)\n%k0 = MatMul(%x, %w_k)\n"
                                         "%k = Add(%b_k, %k0)\n%v0 = MatMul(%x, %w_v)\n%v = Add(%v0, %b_v)\n";
    const auto rotary = [](const std::string& x) {
        return "%" + x + "_a = Slice(%" + x + ", %zero1, %eight, %last)\n%" + x + "_b = Slice(%" + x +
               ", %eight, %end, %last)\n%" + x + "_m = Neg(%" + x + "_b)\n%" + x + "_c = Concat(%" + x + "_m, %" + x +
               "_a) {axis = -1}\n%" + x + "_s = Mul(%" + x + "_c, %w_sin)\n%" + x + "_t = Mul(%" + x + ", %w_cos)\n%" +
               x + "_r = Add(%" + x + "_t, %" + x + "_s)\n";
    };
    return "opset 18\ninput %x: float32[N, 6, 40]\ninput %keep: float32[N, 6]\n"
           "input %w_all: float32[40, 128]\ninput %w_q: float32[40, 64]\ninput %w_k: float32[40, 32]\n"
           "input %w_v: float32[40, 32]\ninput %w_o: float32[64, 40]\n"
           "input %b_q: float32[64]\ninput %b_k: float32[32]\ninput %b_v: float32[32]\n"
           "input %w_g: float32[40, 24]\ninput %w_u: float32[40, 24]\ninput %w_d: float32[24, 40]\n"
           "input %w_cos: float32[1, 1, 6, 16]\ninput %w_sin: float32[1, 1, 6, 16]\n"
           "const %parts: int64[3] = {64, 32, 32}\nconst %four: int64[4] = {0, 0, 4, 16}\n"
           "const %two: int64[4] = {0, 0, 2, 16}\nconst %zero1: int64[1] = {0}\nconst %eight: int64[1] = {8}\n"
           "const %end: int64[1] = {99999}\nconst %last: int64[1] = {3}\nconst %one: int64[1] = {1}\n"
           "const %middle: int64[1] = {2}\nconst %repeats: int64[5] = {1, 1, 2, 1, 1}\n"
           "const %heads: int64[4] = {0, 4, 6, 16}\nconst %flat: int64[3] = {0, 0, 64}\n"
           "const %axes: int64[2] = {1, 2}\nconst %none: float32[] = {0.0}\nconst %low: float32[] = {-inf}\n"
           "const %rows: int64[1, 1, 6, 1] = {0, 1, 2, 3, 4, 5}\nconst %columns: int64[1, 1, 1, 6] = {0, 1, 2, 3, 4, "
           "5}\n"
           "const %quarter: float32[] = {0.25}\n" +
           projections +
           "%p4 = Reshape(%p, %four)\n%k4 = Reshape(%k, %two)\n%v4 = Reshape(%v, %two)\n"
           "%q = Transpose(%p4) {perm = [0, 2, 1, 3]}\n%key = Transpose(%k4) {perm = [0, 2, 1, 3]}\n"
           "%val = Transpose(%v4) {perm = [0, 2, 1, 3]}\n" +
           rotary("q") + rotary("key") +
           "%ku = Unsqueeze(%key_r, %middle)\n%ke = Expand(%ku, %repeats)\n%kr = Reshape(%ke, %heads)\n"
           "%vu = Unsqueeze(%val, %middle)\n%ve = Expand(%vu, %repeats)\n%vr = Reshape(%ve, %heads)\n"
           "%kt = Transpose(%kr) {perm = [0, 1, 3, 2]}\n%dot = MatMul(%q_r, %kt)\n%scores = Mul(%dot, %quarter)\n"
           "%order = LessOrEqual(%columns, %rows)\n%kept = Greater(%keep, %none)\n%kept4 = Unsqueeze(%kept, %axes)\n"
           "%both = And(%order, %kept4)\n%mask = Where(%both, %none, %low)\n%sum = Add(%scores, %mask)\n"
           "%soft = Softmax(%sum) {axis = -1}\n%empty = IsNaN(%soft)\n%clean = Where(%empty, %none, %soft)\n"
           "%out = MatMul(%clean, %vr)\n%turned = Transpose(%out) {perm = [0, 2, 1, 3]}\n"
           "%joined = Reshape(%turned, %flat)\n%o = MatMul(%joined, %w_o)\n"
           "%g = MatMul(%o, %w_g)\n%sg = Sigmoid(%g)\n%silu = Mul(%g, %sg)\n%u = MatMul(%o, %w_u)\n"
           "%gu = Mul(%silu, %u)\n%y = MatMul(%gu, %w_d)\noutput %y: undefined\n";
}

/// Branches put together, sizes doubled, parts cut out, and what no convolution takes.
inline std::string branched_network() {
    return "opset 18\n"
           "input %x: float32[N, 6, 8, 8]\n"
           "input %w_a: float32[10, 6, 3, 3]\ninput %b_a: float32[10]\n"
           "input %w_b: float32[6, 3, 1, 3]\ninput %b_b: float32[6]\n"
           "input %w_g: float32[16]\ninput %b_g: float32[16]\ninput %b_mean: float32[16]\n"
           "const %variance: float32[16] = {1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, "
           "4.0}\n"
           "const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}\n"
           "const %begin: int64[2] = {2, 1}\nconst %end: int64[2] = {14, 15}\nconst %where: int64[2] = {2, 3}\n"
           "const %every: int64[2] = {2, 3}\nconst %parts: int64[2] = {4, 12}\nconst %slope: float32[] = {0.3}\n"
           "%a = Conv(%x, %w_a, %b_a) {pads = [2, 2, 2, 2], dilations = [2, 2]}\n%a_r = LeakyRelu(%a) {alpha = 0.1}\n"
           "%b = Conv(%x, %w_b, %b_b) {pads = [0, 1, 0, 1], group = 2}\n%b_r = Tanh(%b)\n"
           "%cat = Concat(%a_r, %b_r) {axis = 1}\n"
           "%n = BatchNormalization(%cat, %w_g, %b_g, %b_mean, %variance)\n%n_r = Relu(%n)\n"
           "%up = Resize(%n_r, , %scales) {mode = \"linear\"}\n"
           "%near = Resize(%n_r, , %scales) {mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
           "nearest_mode = \"floor\"}\n"
           "%sum = Add(%up, %near)\n"
           "%cut = Slice(%sum, %begin, %end, %where, %every)\n"
           "%left, %right = Split(%cut, %parts) {axis = 1}\n"
           "%pool = MaxPool(%right) {kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1}\n"
           "%t = Transpose(%pool) {perm = [0, 2, 3, 1]}\n"
           "%soft = Softmax(%t) {axis = 1}\n"
           "%big = Abs(%left)\n%root = Sqrt(%big)\n%e = Exp(%left)\n%q = Div(%root, %e)\n%w = Max(%q, %slope)\n"
           "output %soft: float32[N, 2, 3, 12]\noutput %w: float32[N, 4, 6, 5]\n";
}

/// Parts of images: a block that cuts its channels in two and joins what it makes of them behind a residual (YOLO), a
/// pyramid of pools, a dense block, and what is resized or transposed beside what is kept.
inline std::string parted_network() {
    return "opset 18\n"
           "input %x: float32[N, 3, 16, 16]\n"
           "input %w_s: float32[32, 3, 3, 3]\ninput %w_e: float32[32, 32, 1, 1]\n"
           "input %w_p: float32[16, 16, 3, 3]\ninput %w_q: float32[16, 16, 3, 3]\ninput %w_l: float32[32, 48, 1, 1]\n"
           "input %w_d: float32[16, 32, 3, 3]\ninput %w_f: float32[16, 48, 3, 3]\ninput %w_g: float32[32, 64, 1, 1]\n"
           "input %w_n: float32[32, 32, 3, 3]\ninput %w_k: float32[32, 96, 1, 1]\n"
           "input %w_t: float32[32, 32, 2, 2]\ninput %w_j: float32[8, 64, 3, 3]\n"
           "const %scales: float32[4] = {1.0, 1.0, 2.0, 2.0}\nconst %halves: int64[2] = {16, 16}\n"
           "const %fifth: float32[] = {0.2}\n"
           "%s = Conv(%x, %w_s) {pads = [1, 1, 1, 1]}\n%s_r = Relu(%s)\n"
           // cut in two
           "%e = Conv(%s_r, %w_e)\n%e_s = Sigmoid(%e)\n%e_a = Mul(%e, %e_s)\n"
           "%left, %right = Split(%e_a, %halves) {axis = 1}\n"
           "%p = Conv(%right, %w_p) {pads = [1, 1, 1, 1]}\n%p_s = Sigmoid(%p)\n%p_a = Mul(%p, %p_s)\n"
           "%q = Conv(%p_a, %w_q) {pads = [1, 1, 1, 1]}\n%q_s = Sigmoid(%q)\n%q_a = Mul(%q, %q_s)\n"
           "%pair = Add(%right, %q_a)\n%block = Concat(%left, %right, %pair) {axis = 1}\n"
           "%l = Conv(%block, %w_l)\n%l_r = LeakyRelu(%l) {alpha = 0.1}\n"
           // dense
           "%d = Conv(%l_r, %w_d) {pads = [1, 1, 1, 1]}\n%d_r = LeakyRelu(%d) {alpha = 0.2}\n"
           "%two = Concat(%l_r, %d_r) {axis = 1}\n"
           "%f = Conv(%two, %w_f) {pads = [1, 1, 1, 1]}\n%f_r = Relu(%f)\n"
           "%three = Concat(%l_r, %d_r, %f_r) {axis = 1}\n%g = Conv(%three, %w_g)\n"
           "%small = Mul(%g, %fifth)\n%dense = Add(%small, %l_r)\n"
           // pools
           "%n = Conv(%dense, %w_n) {pads = [1, 1, 1, 1], strides = [2, 2]}\n%n_r = Relu(%n)\n"
           "%one_p = MaxPool(%n_r) {kernel_shape = [5, 5], pads = [2, 2, 2, 2]}\n"
           "%two_p = MaxPool(%one_p) {kernel_shape = [5, 5], pads = [2, 2, 2, 2]}\n"
           "%pools = Concat(%n_r, %one_p, %two_p) {axis = 1}\n%k = Conv(%pools, %w_k)\n%k_r = Relu(%k)\n"
           // larger again
           "%up = Resize(%k_r, , %scales) {mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
           "nearest_mode = \"floor\"}\n%t = ConvTranspose(%k_r, %w_t) {strides = [2, 2]}\n"
           "%kept = Relu(%dense)\n%skip = Concat(%kept, %up) {axis = 1}\n%j = Conv(%skip, %w_j) {pads = [1, 1, 1, 1]}\n"
           "%h = Conv(%dense, %w_n) {pads = [1, 1, 1, 1]}\n%h_r = HardSwish(%h)\n"
           "%beside = Concat(%h_r, %t) {axis = 1}\n%z = Conv(%beside, %w_j) {pads = [1, 1, 1, 1]}\n"
           "%mean = GlobalAveragePool(%left)\n"
           "output %j: float32[N, 8, 16, 16]\noutput %z: float32[N, 8, 16, 16]\noutput %mean: float32[N, 16, 1, 1]\n";
}

/// Channels last and back (ConvNeXt), as tokens and back (attention over pixels), and shuffled (ShuffleNet).
inline std::string moved_network() {
    return "opset 18\n"
           "input %x: float32[N, 6, 8, 6]\n"
           "input %w_a: float32[16, 6, 3, 3]\ninput %w_b: float32[16, 16, 1, 1]\n"
           "input %w_m: float32[16, 16]\ninput %w_t: float32[16, 16]\n"
           "const %tokens: int64[3] = {2, 16, 48}\nconst %image: int64[4] = {2, 16, 8, 6}\n"
           "const %apart: int64[5] = {2, 2, 16, 8, 6}\nconst %joined: int64[4] = {2, 32, 8, 6}\n"
           "%a = Conv(%x, %w_a) {pads = [1, 1, 1, 1]}\n"
           "%last = Transpose(%a) {perm = [0, 2, 3, 1]}\n%m = MatMul(%last, %w_m)\n"
           "%first = Transpose(%m) {perm = [0, 3, 1, 2]}\n%sum = Add(%first, %a)\n"
           "%flat = Reshape(%a, %tokens)\n%rows = Transpose(%flat) {perm = [0, 2, 1]}\n"
           "%t = MatMul(%rows, %w_t)\n%columns = Transpose(%t) {perm = [0, 2, 1]}\n"
           "%back = Reshape(%columns, %image)\n%b = Conv(%back, %w_b)\n"
           "%cat = Concat(%sum, %b) {axis = 1}\n%five = Reshape(%cat, %apart)\n"
           "%turned = Transpose(%five) {perm = [0, 2, 1, 3, 4]}\n%y = Reshape(%turned, %joined)\n"
           "%z = Relu(%y)\noutput %z: float32[N, 32, 8, 6]\noutput %t: float32[N, 48, 16]\n";
}

} // namespace lathe::test
