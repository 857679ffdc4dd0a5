#include "backends/cuda/plan/interpret_op.hpp"

#include <array>
#include <limits>

namespace lathe::cuda {

Numbers max_pool(const Numbers& in, const Planes& x, const Planes& y, const Window& w) {
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

Result<void> OpInterpreter::operator()(const Pool& d) {
    const Planes x = image(in_value(0));
    const Planes y = image(out_value());
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

Result<void> OpInterpreter::operator()(const GlobalPool& d) {
    const Planes x = image(in_value(0));
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

Result<void> OpInterpreter::operator()(const Softmax& d) {
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

Result<void> OpInterpreter::operator()(const LayerNorm& d) {
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
        for (std::size_t i = 0; i < columns && d.centred; ++i)
            mean += at[i];
        mean /= static_cast<double>(columns);
        double variance = 0;
        for (std::size_t i = 0; i < columns; ++i)
            variance += (at[i] - mean) * (at[i] - mean);
        const double factor = 1 / std::sqrt(variance / static_cast<double>(columns) + static_cast<double>(d.epsilon));
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

Result<void> OpInterpreter::operator()(const GroupFactors& d) {
    const Value& x = in_value(0);
    const Numbers numbers = state_.real(op_.inputs[0]); // in ONNX's order
    const auto samples = static_cast<std::size_t>(x.dims[0]), channels = static_cast<std::size_t>(x.dims[1]);
    const auto pixels = static_cast<std::size_t>(x.dims[2] * x.dims[3]);
    const std::size_t each = channels / static_cast<std::size_t>(d.groups), count = each * pixels;
    Numbers factor(samples * channels), shift(samples * channels);
    for (std::size_t first = 0; first < samples * channels; first += each) {
        const double* at = numbers.data() + first * pixels;
        double mean = 0;
        for (std::size_t i = 0; i < count; ++i)
            mean += at[i];
        mean /= static_cast<double>(count);
        double variance = 0;
        for (std::size_t i = 0; i < count; ++i)
            variance += (at[i] - mean) * (at[i] - mean);
        const double scale = 1 / std::sqrt(variance / static_cast<double>(count) + static_cast<double>(d.epsilon));
        for (std::size_t c = first; c < first + each; ++c) {
            factor[c] = scale;
            shift[c] = -mean * scale;
        }
    }
    state_.store_real(op_.outputs[0], std::move(factor));
    state_.store_real(op_.outputs[1], std::move(shift));
    return {};
}

Result<void> OpInterpreter::operator()(const Rotary& d) {
    const Numbers x = state_.real(op_.inputs[0]), cosines = state_.real(op_.inputs[1]),
                  sines = state_.real(op_.inputs[2]);
    const Shape& dims = state_.value(op_.outputs[0]).dims;
    const std::int64_t depth = dims[3], turned = d.turned_of(depth), half = turned / 2;
    const RotaryTable table(state_.value(op_.inputs[1]).dims);
    Numbers y(static_cast<std::size_t>(element_count(dims)));
    for (std::int64_t row = 0; row < element_count(dims) / depth; ++row) {
        const std::int64_t n = row / (dims[1] * dims[2]), head = row / dims[2] % dims[1], place = row % dims[2];
        const std::int64_t from = d.x.offset + n * d.x.batch + head * d.x.head + place * d.x.row;
        const std::int64_t at = n * table.strides[0] + head * table.strides[1] + place * table.strides[2];
        for (std::int64_t i = 0; i < half; ++i) {
            const std::int64_t a = d.interleaved ? 2 * i : i, b = d.interleaved ? 2 * i + 1 : half + i;
            const auto number = [](const Numbers& list, std::int64_t index) {
                return list[static_cast<std::size_t>(index)];
            };
            const double p = number(x, from + a), q = number(x, from + b);
            const std::int64_t first = at + (table.width == turned ? a : i),
                               second = at + (table.width == turned ? b : i);
            y[static_cast<std::size_t>(row * depth + a)] = p * number(cosines, first) - q * number(sines, first);
            y[static_cast<std::size_t>(row * depth + b)] = q * number(cosines, second) + p * number(sines, second);
        }
        for (std::int64_t i = turned; i < depth; ++i)
            y[static_cast<std::size_t>(row * depth + i)] = x[static_cast<std::size_t>(from + i)];
    }
    state_.store_real(op_.outputs[0], std::move(y));
    return {};
}

Result<void> OpInterpreter::operator()(const Reduce& d) {
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

} // namespace lathe::cuda
