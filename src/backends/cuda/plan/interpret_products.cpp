#include "backends/cuda/plan/interpret_op.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace lathe::cuda {

namespace {

/// Adds one tap times one plane of the input, zeros around it, to one plane of the result.
void add_tap(const Window& w, double factor, std::int64_t r, std::int64_t s, const double* in, const Planes& x,
             double* out, const Planes& y) {
    for (std::int64_t p = 0; p < y.h; ++p) {
        const std::int64_t ih = p * w.stride[0] - w.pads[0] + r * w.dilation[0];
        if (ih < 0 || ih >= x.h) continue;
        const std::int64_t shift = s * w.dilation[1] - w.pads[1];
        // Columns q for which 0 <= q * stride + shift < width.
        const std::int64_t first = shift >= 0 ? 0 : (-shift + w.stride[1] - 1) / w.stride[1];
        const std::int64_t last = shift >= x.w ? 0 : std::min(y.w, (x.w - 1 - shift) / w.stride[1] + 1);
        const double* row = in + ih * x.w + shift;
        double* target = out + p * y.w;
        if (w.stride[1] == 1) {
            for (std::int64_t q = first; q < last; ++q)
                target[q] += factor * row[q];
        } else {
            for (std::int64_t q = first; q < last; ++q)
                target[q] += factor * row[q * w.stride[1]];
        }
    }
}

} // namespace

Result<void> OpInterpreter::operator()(const Conv& d) {
    const Planes x = image(in_value(0));
    const Planes result = image(out_value());
    Planes y = result;
    if (d.pooled) {
        y.h = conv_size(x.h, d.window, 0);
        y.w = conv_size(x.w, d.window, 1);
    }
    const Weight& packed = state_.plan.weights->weights[d.weight];
    const Numbers weight = state_.weight(d.weight);
    const std::int64_t padded = packed.dims[3];
    const std::int64_t k_group = y.c / d.groups;
    const std::int64_t c_group = x.c / d.groups;
    Numbers input = in(0);
    if (d.reads_nchw) { // the kernel converts to the type it multiplies in
        for (double& number : input)
            number = rounded(number, op_.compute, state_.options.round_values);
    }
    Numbers acc(static_cast<std::size_t>(y.n * y.c) * y.plane(), 0.0);
    for (std::int64_t n = 0; n < y.n; ++n) {
        for (std::int64_t k = 0; k < y.c; ++k) {
            double* out = acc.data() + static_cast<std::size_t>(n * y.c + k) * y.plane();
            for (std::int64_t c = 0; c < c_group; ++c) {
                const double* from =
                    input.data() + static_cast<std::size_t>(n * x.c + k / k_group * c_group + c) * x.plane();
                for (std::int64_t r = 0; r < d.window.kernel[0]; ++r) {
                    for (std::int64_t s = 0; s < d.window.kernel[1]; ++s) {
                        const auto at = static_cast<std::size_t>(
                            ((k * d.window.kernel[0] + r) * d.window.kernel[1] + s) * padded + c);
                        add_tap(d.window, weight[at], r, s, from, x, out, y);
                    }
                }
            }
        }
    }
    acc = finish(state_, d.epilogue, std::move(acc), channel_of(y));
    if (d.pooled) {
        for (double& number : acc)
            number = rounded(number, out_value().type, state_.options.round_values);
        acc = max_pool(acc, y, result, d.pool);
    }
    state_.store(op_.outputs[0], std::move(acc));
    return {};
}

Result<void> OpInterpreter::operator()(const Depthwise& d) {
    const Planes x = image(in_value(0));
    const Planes y = image(out_value());
    const std::int64_t padded = state_.plan.weights->weights[d.weight].dims[2];
    const Numbers weight = state_.weight(d.weight);
    // Around the image lies the zero point: what is within counts from there, and all taps get it.
    const auto zero = static_cast<double>(in_value(0).zero_point);
    Numbers input = in(0);
    for (double& number : input)
        number -= zero;
    const std::int64_t taps = d.depths.kernel * d.window.kernel[0] * d.window.kernel[1];
    Numbers acc(static_cast<std::size_t>(y.n * y.c) * y.plane(), 0.0);
    for (std::int64_t plane = 0; plane < y.n * y.c; ++plane) {
        double sum = 0;
        for (std::int64_t tap = 0; tap < taps; ++tap)
            sum += weight[static_cast<std::size_t>(tap * padded + plane % y.c)];
        std::fill_n(acc.data() + static_cast<std::size_t>(plane) * y.plane(), y.plane(), zero * sum);
        const std::int64_t image = plane / y.c, sample = image / d.depths.out;
        for (std::int64_t t = 0; t < d.depths.kernel; ++t) {
            const std::int64_t depth = image % d.depths.out * d.depths.stride - d.depths.before + t * d.depths.dilation;
            if (depth < 0 || depth >= d.depths.in) continue;
            const std::int64_t from = (sample * d.depths.in + depth) * y.c + plane % y.c;
            for (std::int64_t r = 0; r < d.window.kernel[0]; ++r) {
                for (std::int64_t s = 0; s < d.window.kernel[1]; ++s) {
                    const std::int64_t tap = (t * d.window.kernel[0] + r) * d.window.kernel[1] + s;
                    add_tap(d.window, weight[static_cast<std::size_t>(tap * padded + plane % y.c)], r, s,
                            input.data() + static_cast<std::size_t>(from) * x.plane(), x,
                            acc.data() + static_cast<std::size_t>(plane) * y.plane(), y);
                }
            }
        }
    }
    state_.store(op_.outputs[0], finish(state_, d.epilogue, std::move(acc), channel_of(y)));
    return {};
}

Result<void> OpInterpreter::operator()(const Gemm& d) {
    const Numbers weight = state_.weight(d.weight);
    const auto n = static_cast<std::size_t>(d.n);
    const auto k = static_cast<std::size_t>(d.k);
    Numbers acc(static_cast<std::size_t>(d.m) * n, 0.0);
    for (std::size_t i = 0; i < acc.size(); ++i) {
        const double* row = in(0).data() + i / n * k;
        const double* column = weight.data() + i % n * k;
        for (std::size_t at = 0; at < k; ++at)
            acc[i] += row[at] * column[at];
    }
    state_.store(op_.outputs[0], finish(state_, d.epilogue, std::move(acc), [n](std::size_t i) { return i % n; }));
    return {};
}

Result<void> OpInterpreter::operator()(const BatchedGemm& d) {
    const auto outer = [](const Shape& dims) { return Shape(dims.begin(), dims.end() - 2); };
    const Shape batch = outer(out_value().dims);
    std::vector<std::size_t> left(static_cast<std::size_t>(d.batch));
    std::vector<std::size_t> right(left.size());
    walk(batch, strides_for(outer(in_value(0).dims), batch), 0, [&](std::size_t i, std::size_t at) { left[i] = at; });
    walk(batch, strides_for(outer(in_value(1).dims), batch), 0, [&](std::size_t i, std::size_t at) { right[i] = at; });
    const Numbers a = state_.real(op_.inputs[0]);
    const Numbers b = state_.real(op_.inputs[1]);
    const auto m = static_cast<std::size_t>(d.m);
    const auto n = static_cast<std::size_t>(d.n);
    const auto k = static_cast<std::size_t>(d.k);
    const auto pitch = static_cast<std::size_t>(d.pitch_of_a());
    Numbers out(left.size() * m * n, 0.0);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t at = i / (m * n);
        const std::size_t row = i / n % m;
        const std::size_t column = i % n;
        const double* pa = a.data() + left[at] * (d.transpose_a ? k : m) * pitch;
        const double* pb = b.data() + right[at] * k * n;
        for (std::size_t l = 0; l < k; ++l) {
            out[i] += pa[d.transpose_a ? l * pitch + row : row * pitch + l] *
                      pb[d.transpose_b ? column * k + l : l * n + column];
        }
        out[i] *= static_cast<double>(d.alpha);
    }
    state_.store_real(op_.outputs[0], std::move(out));
    return {};
}

Result<void> OpInterpreter::operator()(const Attention& d) {
    const auto views = d.views();
    // As they lie in memory, which is what the views count.
    const auto lying = [&](ValueId id) {
        const Value& value = state_.value(id);
        Numbers numbers = state_.real(id);
        if (value.layout != Layout::nhwc) return numbers;
        const std::int64_t pixels = element_count(value.dims) / (value.dims[0] * value.dims[1]);
        Numbers moved(static_cast<std::size_t>(value.dims[0] * pixels * value.channel_stride), 0.0);
        for (std::int64_t n = 0; n < value.dims[0]; ++n)
            for (std::int64_t c = 0; c < value.dims[1]; ++c)
                for (std::int64_t p = 0; p < pixels; ++p)
                    moved[static_cast<std::size_t>((n * pixels + p) * value.channel_stride + c)] =
                        numbers[static_cast<std::size_t>((n * value.dims[1] + c) * pixels + p)];
        return moved;
    };
    const Numbers q = lying(op_.inputs[0]);
    const Numbers k = d.packed ? q : lying(op_.inputs[1]);
    const Numbers v = d.packed ? q : lying(op_.inputs[2]);
    const auto at = [](const HeadView& view, std::int64_t b, std::int64_t row, std::int64_t head) {
        return static_cast<std::size_t>(view.offset + b * view.batch + row * view.row + head * view.head);
    };
    const std::size_t first_mask = op_.inputs.size() - static_cast<std::size_t>(d.masks);
    std::vector<Numbers> masks;
    std::vector<MaskView> mask_views;
    for (std::size_t i = first_mask; i < op_.inputs.size(); ++i) {
        masks.push_back(state_.real(op_.inputs[i]));
        mask_views.push_back(*mask_view(d, state_.value(op_.inputs[i]).dims));
    }
    Numbers out(static_cast<std::size_t>(element_count(out_value().dims)), 0.0);
    const std::int64_t group = d.heads / d.key_heads();
    for (std::int64_t b = 0; b < d.batch; ++b) {
        for (std::int64_t h = 0; h < d.heads; ++h) {
            for (std::int64_t i = 0; i < d.q_len; ++i) {
                const std::int64_t keys =
                    d.causal ? std::clamp<std::int64_t>(i + 1 + d.kv_len - d.q_len, 0, d.kv_len) : d.kv_len;
                Numbers scores(static_cast<std::size_t>(keys));
                double top = -std::numeric_limits<double>::infinity();
                for (std::int64_t j = 0; j < keys; ++j) {
                    const double* row = q.data() + at(views[0], b, i, h);
                    const double* key = k.data() + at(views[1], b, j, h / group);
                    double sum = 0;
                    for (std::int64_t l = 0; l < d.depth; ++l)
                        sum += row[l] * key[l];
                    sum *= static_cast<double>(d.scale);
                    for (std::size_t m = 0; m < masks.size(); ++m) {
                        const MaskView& view = mask_views[m];
                        sum += masks[m][static_cast<std::size_t>(b % view.batches * view.batch + h * view.head +
                                                                 i * view.row + j)];
                    }
                    scores[static_cast<std::size_t>(j)] = sum;
                    top = std::max(top, sum);
                }
                if (d.empty_is_zero && top == -std::numeric_limits<double>::infinity()) continue;
                double total = 0;
                for (double& score : scores)
                    total += score = std::exp(score - top);
                double* to = out.data() + at(views[3], b, i, h);
                for (std::int64_t j = 0; j < keys; ++j) {
                    const double* value = v.data() + at(views[2], b, j, h / group);
                    for (std::int64_t l = 0; l < d.values_depth(); ++l)
                        to[l] += scores[static_cast<std::size_t>(j)] / total * value[l];
                }
                if (keys == 0) std::fill_n(to, d.values_depth(), std::numeric_limits<double>::quiet_NaN());
            }
        }
    }
    state_.store_real(op_.outputs[0], std::move(out));
    return {};
}

} // namespace lathe::cuda
