#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/cuda/plan/interpret_state.hpp"

namespace lathe::cuda {

double activated(Activation act, double x, double low, double high, double alpha) {
    const auto hard = [&](double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); };
    switch (act) {
        case Activation::none: return x;
        case Activation::relu: return std::max(x, 0.0);
        case Activation::clip: return std::min(std::max(x, low), high);
        case Activation::leaky_relu: return x < 0 ? alpha * x : x;
        case Activation::gelu_erf: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
        case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
        case Activation::sigmoid: return 1 / (1 + std::exp(-x));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::hard_sigmoid: return hard(alpha, high);
        case Activation::hard_swish: return x * hard(1.0 / 6, 0.5);
        case Activation::tanh: return std::tanh(x);
    }
    return x;
}

double activated(const Epilogue& e, double value) {
    return activated(e.act, value, static_cast<double>(e.low), static_cast<double>(e.high),
                     static_cast<double>(e.alpha));
}

namespace {

struct Image {
    std::int64_t n = 1, c = 1, h = 1, w = 1;
    std::size_t plane() const { return static_cast<std::size_t>(h * w); }
};
Image image(const Value& value) {
    const Shape& d = value.dims;
    if (d.size() == 3) return {d[0], d[1], 1, d[2]};
    return {d[0], d[1], d[2], d[3]};
}

/// Row-major strides, 0 where a dimension is repeated to reach `to`.
std::vector<std::int64_t> strides_for(const Shape& from, const Shape& to) {
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

/// acc*scale + bias + residual, activation, as the epilogue says; `channel(i)` of element i.
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
        if (residual != nullptr) x += (*residual)[i] * static_cast<double>(e.residual_scale);
        acc[i] = activated(e, x) * static_cast<double>(e.output_scale_inverse);
    }
    return acc;
}

/// Adds one tap times one plane of the input to one plane of the result.
void add_tap(const Window& w, double factor, std::int64_t r, std::int64_t s, const double* in, const Image& x,
             double* out, const Image& y) {
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

Numbers max_pool(const Numbers& in, const Image& x, const Image& y, const Window& w) {
    Numbers out(static_cast<std::size_t>(y.n * y.c) * y.plane(), -std::numeric_limits<double>::infinity());
    for (std::int64_t plane = 0; plane < y.n * y.c; ++plane) {
        const double* from = in.data() + static_cast<std::size_t>(plane) * x.plane();
        double* to = out.data() + static_cast<std::size_t>(plane) * y.plane();
        for (std::int64_t p = 0; p < y.h; ++p) {
            for (std::int64_t q = 0; q < y.w; ++q) {
                for (std::int64_t r = 0; r < w.kernel[0]; ++r) {
                    const std::int64_t ih = p * w.stride[0] - w.pads[0] + r * w.dilation[0];
                    for (std::int64_t s = 0; s < w.kernel[1]; ++s) {
                        const std::int64_t iw = q * w.stride[1] - w.pads[1] + s * w.dilation[1];
                        if (ih < 0 || iw < 0 || ih >= x.h || iw >= x.w) continue;
                        to[p * y.w + q] = std::max(to[p * y.w + q], from[ih * x.w + iw]);
                    }
                }
            }
        }
    }
    return out;
}

std::int64_t conv_size(std::int64_t size, const Window& w, std::size_t axis) {
    return (size + w.pads[axis] + w.pads[axis + 2] - (w.kernel[axis] - 1) * w.dilation[axis] - 1) / w.stride[axis] + 1;
}

/// The channel of an element of an image's planes.
auto channel_of(const Image& y) {
    return [plane = y.plane(), c = static_cast<std::size_t>(y.c)](std::size_t i) { return i / plane % c; };
}

class Interpreter {
public:
    Interpreter(Interpretation& state, const FusedOp& op) : state_(state), op_(op) {}

    Result<void> operator()(const Conv& d) {
        const Image x = image(in_value(0));
        const Image result = image(out_value());
        Image y = result;
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

    Result<void> operator()(const Depthwise& d) {
        const Image x = image(in_value(0));
        const Image y = image(out_value());
        const std::int64_t padded = state_.plan.weights->weights[d.weight].dims[2];
        const Numbers weight = state_.weight(d.weight);
        Numbers acc(static_cast<std::size_t>(y.n * y.c) * y.plane(), 0.0);
        for (std::int64_t plane = 0; plane < y.n * y.c; ++plane) {
            for (std::int64_t r = 0; r < d.window.kernel[0]; ++r) {
                for (std::int64_t s = 0; s < d.window.kernel[1]; ++s) {
                    const auto at = static_cast<std::size_t>((r * d.window.kernel[1] + s) * padded + plane % y.c);
                    add_tap(d.window, weight[at], r, s, in(0).data() + static_cast<std::size_t>(plane) * x.plane(), x,
                            acc.data() + static_cast<std::size_t>(plane) * y.plane(), y);
                }
            }
        }
        state_.store(op_.outputs[0], finish(state_, d.epilogue, std::move(acc), channel_of(y)));
        return {};
    }

    Result<void> operator()(const Gemm& d) {
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

    Result<void> operator()(const BatchedGemm& d) {
        const auto outer = [](const Shape& dims) { return Shape(dims.begin(), dims.end() - 2); };
        const Shape batch = outer(out_value().dims);
        std::vector<std::size_t> left(static_cast<std::size_t>(d.batch));
        std::vector<std::size_t> right(left.size());
        walk(batch, strides_for(outer(in_value(0).dims), batch), 0,
             [&](std::size_t i, std::size_t at) { left[i] = at; });
        walk(batch, strides_for(outer(in_value(1).dims), batch), 0,
             [&](std::size_t i, std::size_t at) { right[i] = at; });
        const Numbers a = state_.real(op_.inputs[0]);
        const Numbers b = state_.real(op_.inputs[1]);
        const auto m = static_cast<std::size_t>(d.m);
        const auto n = static_cast<std::size_t>(d.n);
        const auto k = static_cast<std::size_t>(d.k);
        Numbers out(left.size() * m * n, 0.0);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t at = i / (m * n);
            const std::size_t row = i / n % m;
            const std::size_t column = i % n;
            const double* pa = a.data() + left[at] * m * k;
            const double* pb = b.data() + right[at] * k * n;
            for (std::size_t l = 0; l < k; ++l) {
                out[i] +=
                    pa[d.transpose_a ? l * m + row : row * k + l] * pb[d.transpose_b ? column * k + l : l * n + column];
            }
            out[i] *= static_cast<double>(d.alpha);
        }
        state_.store_real(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Attention& d) {
        const auto heads = static_cast<std::size_t>(d.heads);
        const auto depth = static_cast<std::size_t>(d.depth);
        const auto q_len = static_cast<std::size_t>(d.q_len);
        const auto kv_len = static_cast<std::size_t>(d.kv_len);
        const Numbers q = state_.real(op_.inputs[0]);
        const Numbers k = d.packed ? q : state_.real(op_.inputs[1]);
        const Numbers v = d.packed ? q : state_.real(op_.inputs[2]);
        const std::size_t parts = d.packed ? 3 : 1;
        const auto at = [&](std::size_t b, std::size_t s, std::size_t length, std::size_t part, std::size_t h) {
            return ((b * length + s) * parts + (d.packed ? part : 0)) * heads * depth + h * depth;
        };
        Numbers mask;
        std::vector<std::int64_t> steps(4, 0);
        if (d.masked) {
            mask = state_.real(op_.inputs.back());
            steps = strides_for(state_.value(op_.inputs.back()).dims, {d.batch, d.heads, d.q_len, d.kv_len});
        }
        Numbers out(static_cast<std::size_t>(d.batch) * q_len * heads * depth, 0.0);
        Numbers scores(kv_len);
        for (std::size_t b = 0; b < static_cast<std::size_t>(d.batch); ++b) {
            for (std::size_t h = 0; h < heads; ++h) {
                for (std::size_t i = 0; i < q_len; ++i) {
                    double top = -std::numeric_limits<double>::infinity();
                    for (std::size_t j = 0; j < kv_len; ++j) {
                        double sum = 0;
                        for (std::size_t l = 0; l < depth; ++l)
                            sum += q[at(b, i, q_len, 0, h) + l] * k[at(b, j, kv_len, 1, h) + l];
                        sum *= static_cast<double>(d.scale);
                        if (d.masked) {
                            const auto offset =
                                static_cast<std::int64_t>(b) * steps[0] + static_cast<std::int64_t>(h) * steps[1] +
                                static_cast<std::int64_t>(i) * steps[2] + static_cast<std::int64_t>(j) * steps[3];
                            sum += mask[static_cast<std::size_t>(offset)];
                        }
                        scores[j] = sum;
                        top = std::max(top, sum);
                    }
                    double total = 0;
                    for (double& score : scores)
                        total += score = std::exp(score - top);
                    double* to = out.data() + ((b * q_len + i) * heads + h) * depth;
                    for (std::size_t j = 0; j < kv_len; ++j) {
                        for (std::size_t l = 0; l < depth; ++l)
                            to[l] += scores[j] / total * v[at(b, j, kv_len, 2, h) + l];
                    }
                }
            }
        }
        state_.store_real(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Pool& d) {
        const Image x = image(in_value(0));
        const Image y = image(out_value());
        if (!d.average) {
            state_.store(op_.outputs[0], max_pool(in(0), x, y, d.window));
            return {};
        }
        const Window& w = d.window;
        Numbers out(static_cast<std::size_t>(y.n * y.c) * y.plane(), 0.0);
        for (std::int64_t plane = 0; plane < y.n * y.c; ++plane) {
            const double* from = in(0).data() + static_cast<std::size_t>(plane) * x.plane();
            for (std::int64_t p = 0; p < y.h; ++p) {
                for (std::int64_t q = 0; q < y.w; ++q) {
                    double sum = 0;
                    std::int64_t inside = 0;
                    std::int64_t padded = 0;
                    for (std::int64_t r = 0; r < w.kernel[0]; ++r) {
                        const std::int64_t ih = p * w.stride[0] - w.pads[0] + r * w.dilation[0];
                        for (std::int64_t s = 0; s < w.kernel[1]; ++s) {
                            const std::int64_t iw = q * w.stride[1] - w.pads[1] + s * w.dilation[1];
                            // What ceil_mode adds beyond the padding is not counted.
                            if (ih < x.h + w.pads[2] && iw < x.w + w.pads[3]) ++padded;
                            if (ih < 0 || iw < 0 || ih >= x.h || iw >= x.w) continue;
                            ++inside;
                            sum += from[ih * x.w + iw];
                        }
                    }
                    const std::int64_t count = std::max<std::int64_t>(d.count_pad ? padded : inside, 1);
                    out[static_cast<std::size_t>(plane) * y.plane() + static_cast<std::size_t>(p * y.w + q)] =
                        sum / static_cast<double>(count) * static_cast<double>(d.rescale);
                }
            }
        }
        state_.store(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const GlobalPool& d) {
        const Image x = image(in_value(0));
        Numbers out;
        for (std::int64_t plane = 0; plane < x.n * x.c; ++plane) {
            const auto from = in(0).begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(plane) * x.plane());
            const auto end = from + static_cast<std::ptrdiff_t>(x.plane());
            double sum = 0;
            for (auto at = from; at != end; ++at)
                sum += *at;
            const double found = d.average ? sum / static_cast<double>(x.plane()) : *std::max_element(from, end);
            out.push_back(found * static_cast<double>(d.rescale));
        }
        state_.store(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Softmax& d) {
        Numbers x = state_.real(op_.inputs[0]);
        const auto columns = static_cast<std::size_t>(d.columns);
        for (std::size_t row = 0; row < static_cast<std::size_t>(d.rows); ++row) {
            double* at = x.data() + row * columns;
            const double top = *std::max_element(at, at + columns);
            double sum = 0;
            for (std::size_t i = 0; i < columns; ++i)
                sum += std::exp(at[i] - top);
            for (std::size_t i = 0; i < columns; ++i)
                at[i] = d.log ? at[i] - top - std::log(sum) : std::exp(at[i] - top) / sum;
        }
        state_.store_real(op_.outputs[0], std::move(x));
        return {};
    }

    Result<void> operator()(const LayerNorm& d) {
        Numbers x = state_.real(op_.inputs[0]);
        if (d.residual) {
            const Numbers other = state_.real(op_.inputs[1]);
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] += other[i];
        }
        const Numbers sum = x;
        const Numbers gamma = d.gamma == none ? Numbers{} : state_.weight(d.gamma);
        const Numbers beta = d.beta == none ? Numbers{} : state_.weight(d.beta);
        const auto columns = static_cast<std::size_t>(d.columns);
        for (std::size_t row = 0; row < static_cast<std::size_t>(d.rows); ++row) {
            double* at = x.data() + row * columns;
            double mean = 0;
            for (std::size_t i = 0; i < columns; ++i)
                mean += at[i];
            mean /= static_cast<double>(columns);
            double variance = 0;
            for (std::size_t i = 0; i < columns; ++i)
                variance += (at[i] - mean) * (at[i] - mean);
            const double factor =
                1 / std::sqrt(variance / static_cast<double>(columns) + static_cast<double>(d.epsilon));
            for (std::size_t i = 0; i < columns; ++i) {
                at[i] = (at[i] - mean) * factor;
                if (!gamma.empty()) at[i] *= gamma[i];
                if (!beta.empty()) at[i] += beta[i];
            }
        }
        std::size_t output = 1;
        if (d.quantized_output) state_.store_real(op_.outputs[output++], x);
        if (d.sum_output) state_.store_real(op_.outputs[output], sum);
        state_.store_real(op_.outputs[0], std::move(x));
        return {};
    }

    Result<void> operator()(const Reduce& d) {
        const Numbers x = state_.real(op_.inputs[0]);
        const auto inner = static_cast<std::size_t>(d.inner);
        const auto reduced = static_cast<std::size_t>(d.reduced);
        Numbers out(static_cast<std::size_t>(d.outer) * inner);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double* at = x.data() + i / inner * reduced * inner + i % inner;
            double found = d.kind == ReduceKind::prod  ? 1
                           : d.kind == ReduceKind::max ? -std::numeric_limits<double>::infinity()
                           : d.kind == ReduceKind::min ? std::numeric_limits<double>::infinity()
                                                       : 0;
            for (std::size_t r = 0; r < reduced; ++r) {
                const double value = at[r * inner];
                switch (d.kind) {
                    case ReduceKind::sum:
                    case ReduceKind::mean: found += value; break;
                    case ReduceKind::max: found = std::max(found, value); break;
                    case ReduceKind::min: found = std::min(found, value); break;
                    case ReduceKind::prod: found *= value; break;
                    case ReduceKind::l2: found += value * value; break;
                }
            }
            if (d.kind == ReduceKind::mean) found /= static_cast<double>(reduced);
            if (d.kind == ReduceKind::l2) found = std::sqrt(found);
            out[i] = found;
        }
        state_.store_real(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Gather& d) {
        const bool weights = !d.tables.empty();
        const std::size_t count = weights ? d.tables.size() : 1;
        Numbers out(static_cast<std::size_t>(element_count(out_value().dims)), 0.0);
        for (std::size_t t = 0; t < count; ++t) {
            const Shape& dims = weights ? state_.plan.weights->weights[d.tables[t]].dims : in_value(0).dims;
            const Numbers table = weights ? state_.weight(d.tables[t]) : state_.real(op_.inputs[0]);
            const Numbers& index = in(weights ? t : 1);
            const auto axis = static_cast<std::size_t>(d.axis);
            const auto rows = dims[axis];
            const auto inner = static_cast<std::size_t>(
                element_count(Shape(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end())));
            const std::size_t outer = table.size() / (static_cast<std::size_t>(rows) * inner);
            const std::size_t indices = out.size() / (outer * inner);
            for (std::size_t i = 0; i < out.size(); ++i) {
                const std::size_t o = i / (inner * indices);
                const std::size_t which = i / inner % indices;
                auto row = static_cast<std::int64_t>(index[which % index.size()]);
                if (row < 0) row += rows;
                // What is out of bounds has no defined result; kernels clamp rather than read beyond.
                row = std::clamp<std::int64_t>(row, 0, rows - 1);
                out[i] +=
                    table[(o * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)) * inner + i % inner];
            }
        }
        state_.store_real(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Concat& d) {
        const Shape& dims = out_value().dims;
        const auto axis = static_cast<std::size_t>(d.axis);
        const auto inner = static_cast<std::size_t>(
            element_count(Shape(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end())));
        const auto outer = static_cast<std::size_t>(
            element_count(Shape(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis))));
        Numbers out;
        for (std::size_t o = 0; o < outer; ++o) {
            for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
                const std::size_t run = static_cast<std::size_t>(in_value(i).dims[axis]) * inner;
                const auto from = in(i).begin() + static_cast<std::ptrdiff_t>(o * run);
                out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(run));
            }
        }
        state_.store(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Slice& d) {
        std::vector<std::int64_t> strides = strides_for(in_value(0).dims, in_value(0).dims);
        std::int64_t base = 0;
        for (std::size_t i = 0; i < strides.size(); ++i) {
            base += strides[i] * d.starts[i];
            strides[i] *= d.steps[i];
        }
        return copied(strides, base);
    }

    Result<void> operator()(const Transpose& d) {
        const std::vector<std::int64_t> from = strides_for(in_value(0).dims, in_value(0).dims);
        std::vector<std::int64_t> strides;
        for (const std::int64_t axis : d.order)
            strides.push_back(from[static_cast<std::size_t>(axis)]);
        return copied(strides, 0);
    }

    Result<void> operator()(const Resize& d) {
        const Image x = image(in_value(0));
        const Image y = image(out_value());
        const Numbers source = state_.real(op_.inputs[0]);
        // Weights of input rows (columns) for each output row (column).
        const auto taps = [&](std::int64_t from, std::int64_t to, double scale) {
            std::vector<std::vector<std::pair<std::int64_t, double>>> rows(static_cast<std::size_t>(to));
            for (std::int64_t i = 0; i < to; ++i) {
                const auto o = static_cast<double>(i);
                double at = (o + 0.5) / scale - 0.5;
                if (d.coordinates == "asymmetric") at = o / scale;
                if (d.coordinates == "align_corners") {
                    at = to == 1 ? 0 : o * static_cast<double>(from - 1) / static_cast<double>(to - 1);
                }
                if (d.coordinates == "pytorch_half_pixel" && to == 1) at = 0;
                auto& row = rows[static_cast<std::size_t>(i)];
                const auto add = [&](double position, double weight) {
                    const auto index = std::clamp<std::int64_t>(static_cast<std::int64_t>(position), 0, from - 1);
                    row.emplace_back(index, weight);
                };
                if (d.mode == ResizeMode::nearest) {
                    const double nearest = d.nearest == "floor"               ? std::floor(at)
                                           : d.nearest == "ceil"              ? std::ceil(at)
                                           : d.nearest == "round_prefer_ceil" ? std::floor(at + 0.5)
                                                                              : std::ceil(at - 0.5);
                    add(nearest, 1);
                } else if (d.mode == ResizeMode::linear) {
                    const double low = std::floor(std::clamp(at, 0.0, static_cast<double>(from - 1)));
                    const double part = std::clamp(at, 0.0, static_cast<double>(from - 1)) - low;
                    add(low, 1 - part);
                    add(low + 1, part);
                } else {
                    const double a = static_cast<double>(d.cubic_a);
                    const double low = std::floor(at);
                    for (int tap = -1; tap <= 2; ++tap) {
                        const double t = std::abs(at - (low + tap));
                        const double weight =
                            t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
                        add(low + tap, weight);
                    }
                }
            }
            return rows;
        };
        const std::size_t rank = in_value(0).dims.size();
        const double scale_h = rank == 4 ? static_cast<double>(d.scales[2]) : 1;
        const auto rows = taps(x.h, y.h, scale_h);
        const auto columns = taps(x.w, y.w, static_cast<double>(d.scales[rank - 1]));
        Numbers out;
        for (std::int64_t plane = 0; plane < y.n * y.c; ++plane) {
            const double* from = source.data() + static_cast<std::size_t>(plane) * x.plane();
            for (const auto& row : rows) {
                for (const auto& column : columns) {
                    double sum = 0;
                    for (const auto& [h, wh] : row) {
                        for (const auto& [w, ww] : column)
                            sum += wh * ww * from[h * x.w + w];
                    }
                    out.push_back(sum);
                }
            }
        }
        state_.store_real(op_.outputs[0], std::move(out));
        return {};
    }

    Result<void> operator()(const Reformat&) {
        // Between int8 values of one scale bytes are moved; else by way of the real numbers.
        if (in_value(0).type == ElementType::s8 && out_value().type == ElementType::s8 &&
            in_value(0).scale == out_value().scale) {
            state_.store(op_.outputs[0], in(0));
        } else {
            Numbers real = state_.real(op_.inputs[0]);
            // Masks of -3.4e38 become a number that FP16 has and that still vanishes in a softmax.
            if (out_value().type == ElementType::f16 && in_value(0).type != ElementType::s8) {
                for (double& number : real)
                    number = number < -65504 && std::isfinite(number) ? -30000 : number;
            }
            state_.store_real(op_.outputs[0], std::move(real));
        }
        return {};
    }

    Result<void> operator()(const Pointwise& d);

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

double point(const PointInstruction& i, double a, double b, double c) {
    switch (i.op) {
        case PointOp::input:
        case PointOp::constant: return static_cast<double>(i.x);
        case PointOp::add: return a + b;
        case PointOp::sub: return a - b;
        case PointOp::mul: return a * b;
        case PointOp::div: return a / b;
        case PointOp::min: return std::min(a, b);
        case PointOp::max: return std::max(a, b);
        case PointOp::pow: return std::pow(a, b);
        case PointOp::neg: return -a;
        case PointOp::abs: return std::abs(a);
        case PointOp::exp: return std::exp(a);
        case PointOp::log: return std::log(a);
        case PointOp::sqrt: return std::sqrt(a);
        case PointOp::reciprocal: return 1 / a;
        case PointOp::erf: return std::erf(a);
        case PointOp::tanh: return std::tanh(a);
        case PointOp::sigmoid: return 1 / (1 + std::exp(-a));
        case PointOp::relu: return std::max(a, 0.0);
        case PointOp::clip: return std::min(std::max(a, static_cast<double>(i.x)), static_cast<double>(i.y));
        case PointOp::floor: return std::floor(a);
        case PointOp::ceil: return std::ceil(a);
        case PointOp::round: return std::nearbyint(a);
        case PointOp::sin: return std::sin(a);
        case PointOp::cos: return std::cos(a);
        case PointOp::equal: return a == b ? 1 : 0;
        case PointOp::less: return a < b ? 1 : 0;
        case PointOp::greater: return a > b ? 1 : 0;
        case PointOp::logical_not: return a == 0 ? 1 : 0;
        case PointOp::logical_and: return a != 0 && b != 0 ? 1 : 0;
        case PointOp::logical_or: return a != 0 || b != 0 ? 1 : 0;
        case PointOp::select: return a != 0 ? b : c;
        case PointOp::cast: return a;
    }
    return 0;
}

Result<void> Interpreter::operator()(const Pointwise& d) {
    const Shape& dims = out_value().dims;
    const auto count = static_cast<std::size_t>(element_count(dims));
    std::vector<Numbers> inputs;
    for (const ValueId id : op_.inputs) {
        const Numbers real = state_.real(id);
        Numbers spread(count);
        walk(dims, strides_for(state_.value(id).dims, dims), 0,
             [&](std::size_t i, std::size_t at) { spread[i] = real[at]; });
        inputs.push_back(std::move(spread));
    }
    std::vector<Numbers> results(op_.outputs.size(), Numbers(count));
    std::array<double, 12> registers{};
    for (std::size_t at = 0; at < count; ++at) {
        for (std::size_t i = 0; i < d.code.size(); ++i) {
            const PointInstruction& code = d.code[i];
            registers[i % 12] = code.op == PointOp::input
                                    ? inputs[code.a][at]
                                    : point(code, registers[code.a], registers[code.b], registers[code.c]);
        }
        for (std::size_t i = 0; i < results.size(); ++i)
            results[i][at] = registers[d.results[i]];
    }
    for (std::size_t i = 0; i < results.size(); ++i)
        state_.store_real(op_.outputs[i], std::move(results[i]));
    return {};
}

} // namespace

Result<void> interpret_op(Interpretation& state, const FusedOp& op) {
    return std::visit(Interpreter(state, op), op.detail);
}

} // namespace lathe::cuda
