#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/plan/interpret_state.hpp"

namespace lathe::cuda {

/// Sizes of an image's planes.
struct Planes {
    std::int64_t n = 1, c = 1, h = 1, w = 1;
    std::size_t plane() const { return static_cast<std::size_t>(h * w); }
};
inline Planes image(const Value& value) {
    const Shape& d = value.dims;
    if (d.size() == 3) return {d[0], d[1], 1, d[2]};
    return {d[0], d[1], d[2], d[3]};
}

/// Row-major strides, 0 where a dimension is repeated to reach `to`.
inline std::vector<std::int64_t> strides_for(const Shape& from, const Shape& to) {
    std::vector<std::int64_t> strides(to.size(), 0);
    std::int64_t step = 1;
    for (std::size_t i = 0; i < from.size(); ++i) {
        const std::size_t axis = from.size() - 1 - i;
        const std::size_t at = to.size() - 1 - i;
        strides[at] = from[axis] == 1 ? 0 : step;
        step *= from[axis];
    }
    return strides;
}

/// Calls visit(i, offset) for each element of `dims` in row-major order.
template <class Visit>
void walk(const Shape& dims, const std::vector<std::int64_t>& strides, std::int64_t base, Visit visit) {
    const auto count = static_cast<std::size_t>(element_count(dims));
    Shape index(dims.size(), 0);
    std::int64_t offset = base;
    for (std::size_t i = 0; i < count; ++i) {
        visit(i, static_cast<std::size_t>(offset));
        for (std::size_t axis = dims.size(); axis-- > 0;) {
            offset += strides[axis];
            if (++index[axis] < dims[axis]) break;
            offset -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
    }
}

/// acc*scale + bias + residual, activation (and residual), as the epilogue says; `channel(i)` of element i.
template <class Channel>
Numbers finish(const Interpretation& state, const Epilogue& e, Numbers acc, Channel channel) {
    const Numbers scale = e.scale == none ? Numbers{} : state.weight(e.scale);
    const Numbers bias = e.bias == none ? Numbers{} : state.weight(e.bias);
    const Numbers* residual = e.residual == none ? nullptr : &state.of(e.residual);
    for (std::size_t i = 0; i < acc.size(); ++i) {
        const std::size_t c = channel(i);
        double x = acc[i];
        if (!scale.empty()) x *= scale[c];
        if (!bias.empty()) x += bias[c];
        const double more = residual == nullptr ? 0 : (*residual)[i] * static_cast<double>(e.residual_scale);
        x = e.residual_last ? activated(e, x) + more : activated(e, x + more);
        acc[i] = x * static_cast<double>(e.output_scale_inverse);
    }
    return acc;
}

inline std::int64_t conv_size(std::int64_t size, const Window& w, std::size_t axis) {
    return (size + w.pads[axis] + w.pads[axis + 2] - (w.kernel[axis] - 1) * w.dilation[axis] - 1) / w.stride[axis] + 1;
}

/// The channel of an element of an image's planes.
inline auto channel_of(const Planes& y) {
    return [plane = y.plane(), c = static_cast<std::size_t>(y.c)](std::size_t i) { return i / plane % c; };
}

Numbers max_pool(const Numbers& in, const Planes& x, const Planes& y, const Window& w);

/// One operation, run by plain loops; a member a kind of operation.
class OpInterpreter {
public:
    OpInterpreter(Interpretation& state, const FusedOp& op) : state_(state), op_(op) {}

    Result<void> operator()(const Conv& d);
    Result<void> operator()(const Depthwise& d);
    Result<void> operator()(const Gemm& d);
    Result<void> operator()(const BatchedGemm& d);
    Result<void> operator()(const Attention& d);
    Result<void> operator()(const Pool& d);
    Result<void> operator()(const GlobalPool& d);
    Result<void> operator()(const Softmax& d);
    Result<void> operator()(const LayerNorm& d);
    Result<void> operator()(const Reduce& d);
    Result<void> operator()(const Gather& d);
    Result<void> operator()(const Concat& d);
    Result<void> operator()(const Slice& d);
    Result<void> operator()(const Transpose& d);
    Result<void> operator()(const Resize& d);
    Result<void> operator()(const Reformat& d);
    Result<void> operator()(const Pointwise& d);
    Result<void> operator()(const Chain& d);
    Result<void> operator()(const Indexed& d); // indexed.cpp
    Result<void> operator()(const GroupFactors& d);
    Result<void> operator()(const Rotary& d);
    Result<void> operator()(const Recurrent& d); // recurrent.cpp

private:
    const Value& in_value(std::size_t i) const { return state_.value(op_.inputs[i]); }
    const Value& out_value() const { return state_.value(op_.outputs[0]); }
    const Numbers& in(std::size_t i) const { return state_.input(op_, i); }
    Result<void> copied(const std::vector<std::int64_t>& strides, std::int64_t base) {
        Numbers out(static_cast<std::size_t>(element_count(out_value().dims)));
        const Numbers& from = in(0);
        walk(out_value().dims, strides, base, [&](std::size_t i, std::size_t at) { out[i] = from[at]; });
        state_.store(op_.outputs[0], std::move(out));
        return {};
    }

    Interpretation& state_;
    const FusedOp& op_;
};

} // namespace lathe::cuda
