#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/openvino/compiled.hpp"

namespace lathe::openvino {

namespace {

/// Floats in 0..1, zeros of any other type: valid indices and lengths everywhere.
ov::Tensor random_input(const ov::element::Type& type, const ov::Shape& shape, std::uint32_t& random) {
    ov::Tensor tensor(type, shape);
    std::memset(tensor.data(), 0, tensor.get_byte_size());
    if (type != ov::element::f32) return tensor;
    float* const values = tensor.data<float>();
    for (std::size_t i = 0; i < tensor.get_size(); ++i) {
        random = random * 1664525U + 1013904223U;
        values[i] = static_cast<float>(random >> 8) / 16777216.0F;
    }
    return tensor;
}

template <class T>
double value_at(const ov::Tensor& tensor, std::size_t index) {
    return static_cast<double>(static_cast<const T*>(tensor.data())[index]);
}

using Reader = double (*)(const ov::Tensor&, std::size_t);

/// Null for types whose numbers are not looked at.
Reader reader_of(const ov::element::Type& type) {
    switch (type) {
        case ov::element::Type_t::f32: return value_at<float>;
        case ov::element::Type_t::f64: return value_at<double>;
        case ov::element::Type_t::f16: return value_at<ov::float16>;
        case ov::element::Type_t::bf16: return value_at<ov::bfloat16>;
        case ov::element::Type_t::i32: return value_at<std::int32_t>;
        case ov::element::Type_t::i64: return value_at<std::int64_t>;
        case ov::element::Type_t::u8:
        case ov::element::Type_t::boolean: return value_at<std::uint8_t>;
        case ov::element::Type_t::i8: return value_at<std::int8_t>;
        default: return nullptr;
    }
}

bool alike(const ov::Tensor& a, const ov::Tensor& b) {
    constexpr double least_ratio = 1000; // 30 dB
    if (a.get_shape() != b.get_shape() || a.get_element_type() != b.get_element_type()) return false;
    const Reader at = reader_of(a.get_element_type());
    if (at == nullptr) return true;
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < a.get_size(); ++i) {
        const double x = at(a, i), y = at(b, i);
        if (!std::isfinite(x) && !std::isfinite(y)) continue;
        signal += x * x;
        noise += (x - y) * (x - y);
    }
    return noise * least_ratio <= signal;
}

bool has_fixed_shapes(const ov::CompiledModel& compiled) {
    return std::ranges::all_of(compiled.get_runtime_model()->get_ops(), [](const auto& node) {
        return std::ranges::all_of(node->outputs(),
                                   [](const auto& port) { return port.get_partial_shape().is_static(); });
    });
}

class Run {
public:
    Run(ov::CompiledModel& model, const std::vector<ov::Tensor>& inputs) : request_(model.create_infer_request()) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
            request_.set_input_tensor(i, inputs[i]);
        request_.infer();
        for (std::size_t i = 0; i < model.outputs().size(); ++i)
            outputs_.push_back(request_.get_output_tensor(i));
    }
    bool is_like(const Run& other) const {
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            if (!alike(outputs_[i], other.outputs_[i])) return false;
        }
        return true;
    }

private:
    ov::InferRequest request_; // owns the outputs
    std::vector<ov::Tensor> outputs_;
};

} // namespace

bool computes_the_same(ov::CompiledModel& original, ov::CompiledModel& copy) {
    if (!has_fixed_shapes(original)) return true;
    if (original.inputs().size() != copy.inputs().size() || original.outputs().size() != copy.outputs().size())
        return false;
    std::uint32_t random = 12345;
    std::vector<ov::Tensor> inputs;
    for (std::size_t i = 0; i < original.inputs().size(); ++i) {
        const auto& port = original.input(i);
        inputs.push_back(random_input(port.get_element_type(), port.get_shape(), random));
    }
    std::optional<Run> first;
    try {
        first.emplace(original, inputs);
    } catch (const ov::Exception&) {
        return true; // what it is given may be no valid input
    }
    return first->is_like(Run(copy, inputs)) || !first->is_like(Run(original, inputs));
}

} // namespace lathe::openvino
