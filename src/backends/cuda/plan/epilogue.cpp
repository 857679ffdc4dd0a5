#include <algorithm>
#include <cmath>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"

namespace lathe::cuda {
namespace {

/// Whether a constant broadcast against a value of these dims varies along the channels alone (or not at all).
bool along_channels(const Constant& constant, const Shape& dims, std::size_t axis) {
    if (!is_floating(constant.type) || constant.shape.size() > dims.size()) return false;
    const std::size_t shift = dims.size() - constant.shape.size();
    for (std::size_t i = 0; i < constant.shape.size(); ++i) {
        const bool channels = i + shift == axis && constant.shape[i] == dims[axis];
        if (constant.shape[i] != 1 && !channels) return false;
    }
    return true;
}

/// act(s * x) == s * act(x) for s > 0, clip's bounds scaled.
bool scales_through(Activation act) {
    return act == Activation::none || act == Activation::relu || act == Activation::clip;
}

/// act(x) + zero as an activation of x + zero, for none, relu and clip in the steps of an int8 result. A bound that
/// rounds to the end of int8 is what saturation does anyway. Rounding never falls, so bounds may be rounded first.
void shift_activation(Epilogue& e, std::int32_t zero) {
    if (e.act == Activation::none) return;
    const double low = (e.act == Activation::clip ? static_cast<double>(e.low) : 0.0) + zero;
    const double high = e.act == Activation::clip ? static_cast<double>(e.high) + zero : 127.0;
    const auto bound = [](double x) { return static_cast<float>(std::clamp(std::nearbyint(x), -128.0, 127.0)); };
    const bool saturates = bound(low) == -128.0F && bound(high) == 127.0F;
    e.act = saturates ? Activation::none : Activation::clip;
    e.low = saturates ? 0.0F : bound(low);
    e.high = saturates ? 0.0F : bound(high);
}

/// A channel's sum of weights times its scale as kernels have it: what one step of the input's zero point adds to
/// acc * scale.
Result<std::vector<double>> zero_point_sums(const Lowering& lowering, const std::vector<EpilogueRequest::Part>& parts,
                                            double factor) {
    std::vector<double> all;
    for (const auto& part : parts) {
        LATHE_TRY(const auto sums, part.sums());
        std::vector<float> scales{1.0F};
        if (part.scales) {
            LATHE_TRY(scales, lowering.floats(*part.scales));
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(part.channels); ++i) {
            const auto own = static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
            all.push_back(sums[i] * static_cast<double>(static_cast<float>(own * factor)));
        }
    }
    return all;
}

} // namespace

/// Of a skip in int8. What is added behind an activation has no bias to take a constant out of.
bool Lowering::has_zero_point(const std::string& name) {
    const auto form = quantised_form(name);
    return form && value(*form).zero_point != 0;
}

/// SiLU of a product's result that multiplies another one (SwiGLU): the program that multiplies computes it for
/// nothing, while few of the kernels for products know it.
bool Lowering::is_gate_of_products(const ActivationMatch& match, const Shape& shape) const {
    if (match.act != Activation::silu || shape.size() > 3) return false;
    const Node* reader = only_reader(match.end);
    if (reader == nullptr || !reader->is("Mul")) return false;
    const std::string& other = reader->input(0) == match.end ? reader->input(1) : reader->input(0);
    return other != match.end && dims(other) == shape && !constant(other);
}

//  conv                            conv
//   |   skip                         |
//   Add                ==>       epilogue: + skip, relu, / scale to int8
//   |
//  Relu | Clip | ...
//   |
//  QuantizeLinear
//
// Each only while nothing else reads what is between. The skip must have been made before: of two convolutions into
// one Add, the later takes the other's result.
//
// YOLO's blocks add behind the activation: act(conv) + skip.
Tail Lowering::follow(const std::string& start, std::size_t channel_axis, bool residual_last) {
    Tail tail;
    tail.end = start;
    const Shape shape = dims(start);
    bool acted = false;
    for (;;) {
        if (!acted) {
            if (auto match = match_activation(tail.end); match && !is_gate_of_products(*match, shape)) {
                acted = true;
                tail.act = match->act;
                tail.low = match->low;
                tail.high = match->high;
                tail.alpha = match->alpha;
                tail.nodes.insert(tail.nodes.end(), match->nodes.begin(), match->nodes.end());
                tail.end = match->end;
                continue;
            }
        }
        Node* reader = only_reader(tail.end);
        if (reader == nullptr) return tail;
        if (reader->is("Add") && (!acted || (residual_last && tail.residual.empty()))) {
            const std::string& other = reader->input(0) == tail.end ? reader->input(1) : reader->input(0);
            if (dims(reader->output(0)) != shape) return tail;
            const auto fixed = constant(other);
            if (!acted && fixed && tail.residual.empty() && along_channels(*fixed, shape, channel_axis)) {
                tail.bias_terms.push_back(*fixed);
            } else if (!fixed && tail.residual.empty() && other != tail.end && dims(other) == shape && ready(other) &&
                       !(acted && has_zero_point(other))) {
                tail.residual = other;
                tail.residual_last = acted;
            } else {
                return tail;
            }
            tail.nodes.push_back(reader);
            tail.end = reader->output(0);
            continue;
        }
        if (reader->is("QuantizeLinear") && reader->input(0) == tail.end) {
            const auto found = grid(*reader);
            // A residual in floating point beside an int8 result is not among what kernels know.
            if (!found || (!tail.residual.empty() && !quantised_form(tail.residual))) return tail;
            // A zero point is added before the activation: right only where that commutes with shifting and scaling.
            if (found->zero_point != 0 && (!scales_through(tail.act) || tail.residual_last)) return tail;
            tail.nodes.push_back(reader);
            tail.end = reader->output(0);
            tail.output_scale = found->scale;
            tail.output_zero_point = found->zero_point;
        }
        return tail;
    }
}

// int8 with everything divided by the result's scale where the activation allows it, so that kernels only add, clip
// and round: scale[c] = s_x * s_w[c] / s_y, bias[c] = b[c] / s_y, residual_scale = s_r / s_y. Zero points add
// constants: bias[c] += z_y - z_x * scale[c] * sum of c's weights - z_r * residual_scale; relu's 0 is then z_y.
Result<Finished> finish_epilogue(Lowering& lowering, const EpilogueRequest& request, const Tail& tail) {
    Finished result;
    Epilogue& e = result.epilogue;
    const bool through = scales_through(tail.act);
    const double inverse = tail.output_scale ? 1.0 / static_cast<double>(*tail.output_scale) : 1.0;
    const double inside = through ? inverse : 1.0;
    result.type = tail.output_scale ? ElementType::s8 : request.result;
    e.output_scale_inverse = through ? 1.0F : static_cast<float>(inverse);
    e.act = tail.act;
    e.low = tail.low;
    e.high = tail.high;
    e.alpha = tail.alpha;
    if (e.act == Activation::clip && through) {
        e.low = static_cast<float>(static_cast<double>(e.low) * inside);
        e.high = static_cast<float>(static_cast<double>(e.high) * inside);
    }
    if (tail.output_zero_point != 0) shift_activation(e, tail.output_zero_point);
    if (!tail.residual.empty()) {
        const bool quantised = lowering.quantised_form(tail.residual).has_value();
        LATHE_TRY(e.residual, lowering.want(tail.residual, quantised ? ElementType::s8 : result.type, request.layout));
        const double scale = quantised ? static_cast<double>(lowering.value(e.residual).scale) : 1.0;
        e.residual_scale = static_cast<float>(scale * inside);
        e.residual_last = tail.residual_last;
        result.residual = e.residual;
    }
    const std::int32_t residual_zero = e.residual == none ? 0 : lowering.value(e.residual).zero_point;

    const double factor = static_cast<double>(request.factor) * inside;
    const auto channels = static_cast<std::size_t>(request.channels);
    const auto& parts = request.parts;
    // One number may stand for all channels: how many there are is part of what a vector is known by.
    std::string sizes;
    for (const auto& part : parts)
        if (part.channels != request.padded) sizes += "|" + std::to_string(part.channels);
    sizes += "|" + std::to_string(request.padded);
    const bool scaled =
        std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.scales.has_value(); });
    if (scaled || factor != 1) {
        std::string key = "scale";
        for (const auto& part : parts)
            key += "|" + (part.scales ? part.scales->key() : std::string("1"));
        key += "|" + bits_of(static_cast<float>(factor)) + sizes;
        LATHE_TRY(e.scale, lowering.store_vector(key, request.padded, [&]() -> Result<std::vector<float>> {
            std::vector<float> values;
            for (const auto& part : parts) {
                std::vector<float> own{1.0F};
                if (part.scales) {
                    LATHE_TRY(own, lowering.floats(*part.scales));
                }
                for (std::size_t i = 0; i < static_cast<std::size_t>(part.channels); ++i) {
                    const float value = own[own.size() == 1 ? 0 : i];
                    values.push_back(static_cast<float>(static_cast<double>(value) * factor));
                }
            }
            return values;
        }));
    }

    const bool biased = std::any_of(parts.begin(), parts.end(), [](const auto& part) { return !part.biases.empty(); });
    const bool shifted = request.zero_point != 0 || residual_zero != 0 || tail.output_zero_point != 0;
    if (biased || !tail.bias_terms.empty() || shifted) {
        std::string key = "bias";
        for (const auto& part : parts) {
            key += "|";
            for (const Constant& own : part.biases)
                key += "+" + own.key();
        }
        key += "|" + bits_of(request.bias_factor);
        for (const Constant& term : tail.bias_terms)
            key += "+" + term.key();
        key += "|" + bits_of(static_cast<float>(inside)) + sizes;
        if (request.zero_point != 0) {
            key += "|x" + std::to_string(request.zero_point) + "*" + bits_of(static_cast<float>(factor));
            for (const auto& part : parts)
                key += "*" + part.sums_key + (part.scales ? "*" + part.scales->key() : "");
        }
        if (residual_zero != 0) key += "|r" + std::to_string(residual_zero) + "*" + bits_of(e.residual_scale);
        if (tail.output_zero_point != 0) key += "|y" + std::to_string(tail.output_zero_point);
        LATHE_TRY(e.bias, lowering.store_vector(key, request.padded, [&]() -> Result<std::vector<float>> {
            std::vector<double> sum(channels, 0.0);
            const auto add = [&](const Constant& term, double times, std::size_t first,
                                 std::size_t count) -> Result<void> {
                LATHE_TRY(const auto values, lowering.floats(term));
                for (std::size_t i = 0; i < count; ++i)
                    sum[first + i] += static_cast<double>(values[values.size() == 1 ? 0 : i]) * times;
                return {};
            };
            std::size_t first = 0;
            for (const auto& part : parts) {
                const auto count = static_cast<std::size_t>(part.channels);
                for (const Constant& own : part.biases)
                    LATHE_CHECK(add(own, static_cast<double>(request.bias_factor), first, count));
                first += count;
            }
            for (const Constant& term : tail.bias_terms)
                LATHE_CHECK(add(term, 1.0, 0, channels));
            for (double& each : sum)
                each = each * inside + tail.output_zero_point - residual_zero * static_cast<double>(e.residual_scale);
            if (request.zero_point != 0) {
                LATHE_TRY(const auto extra, zero_point_sums(lowering, parts, factor));
                for (std::size_t i = 0; i < channels; ++i)
                    sum[i] -= request.zero_point * extra[i];
            }
            std::vector<float> values(channels);
            for (std::size_t i = 0; i < channels; ++i)
                values[i] = static_cast<float>(sum[i]);
            return values;
        }));
    }
    return result;
}

} // namespace lathe::cuda
