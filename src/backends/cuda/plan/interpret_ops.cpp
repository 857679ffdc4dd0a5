#include "backends/cuda/plan/interpret_op.hpp"

#include <array>
#include <limits>

#include "support/score_mask.hpp"

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
        case PointOp::atan: return std::atan(a);
    }
    return 0;
}

/// A value's real numbers, broadcast.
Numbers spread(const Interpretation& state, ValueId id, const Shape& dims) {
    const Numbers real = state.real(id);
    Numbers numbers(static_cast<std::size_t>(element_count(dims)));
    walk(dims, strides_for(state.value(id).dims, dims), 0,
         [&](std::size_t i, std::size_t at) { numbers[i] = real[at]; });
    return numbers;
}

/// A program over inputs of the outputs' dims.
void run(Interpretation& state, const FusedOp& op, const Pointwise& d, const std::vector<Numbers>& inputs) {
    const auto count = static_cast<std::size_t>(element_count(state.value(op.outputs[0]).dims));
    std::vector<Numbers> results(op.outputs.size(), Numbers(count));
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
        state.store_real(op.outputs[i], std::move(results[i]));
}

} // namespace

Result<void> OpInterpreter::operator()(const Gather& d) {
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
            out[i] += table[(o * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)) * inner + i % inner];
        }
    }
    state_.store_real(op_.outputs[0], std::move(out));
    return {};
}

Result<void> OpInterpreter::operator()(const Concat& d) {
    const Shape& dims = out_value().dims;
    const std::size_t parts = op_.inputs.size() - d.operands;
    const auto axis = static_cast<std::size_t>(d.axis);
    const auto inner = static_cast<std::size_t>(
        element_count(Shape(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end())));
    const auto outer =
        static_cast<std::size_t>(element_count(Shape(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis))));
    Numbers out;
    const auto take = [&](std::size_t i, std::size_t at, std::size_t count) {
        const auto from = in(i).begin() + static_cast<std::ptrdiff_t>(at);
        out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(count));
    };
    for (std::size_t o = 0; o < outer; ++o) {
        if (d.interleaved) {
            const std::size_t run = static_cast<std::size_t>(dims[axis]) / parts;
            for (std::size_t at = 0; at < run * parts; ++at)
                take(at % parts, (o * run + at / parts) * inner, inner);
            continue;
        }
        for (std::size_t i = 0; i < parts; ++i) {
            const std::size_t run = static_cast<std::size_t>(in_value(i).dims[axis]) * inner;
            take(i, o * run, run);
        }
    }
    if (d.program.code.empty()) {
        state_.store(op_.outputs[0], std::move(out));
        return {};
    }
    std::vector<Numbers> inputs{std::move(out)};
    for (std::size_t i = parts; i < op_.inputs.size(); ++i)
        inputs.push_back(spread(state_, op_.inputs[i], dims));
    run(state_, op_, d.program, inputs);
    return {};
}

Result<void> OpInterpreter::operator()(const Slice& d) {
    std::vector<std::int64_t> strides = strides_for(in_value(0).dims, in_value(0).dims);
    std::int64_t base = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) {
        base += strides[i] * d.starts[i];
        strides[i] *= d.steps[i];
    }
    return copied(strides, base);
}

Result<void> OpInterpreter::operator()(const Transpose& d) {
    const std::vector<std::int64_t> from = strides_for(in_value(0).dims, in_value(0).dims);
    std::vector<std::int64_t> strides;
    for (const std::int64_t axis : d.order)
        strides.push_back(from[static_cast<std::size_t>(axis)]);
    return copied(strides, 0);
}

Result<void> OpInterpreter::operator()(const Resize& d) {
    const Planes x = image(in_value(0));
    const Planes y = image(out_value());
    const Numbers source = state_.real(op_.inputs[0]);
    // Weights of input rows (columns) for each output row (column).
    const auto taps = [&](std::int64_t from, std::int64_t to, double scale) {
        std::vector<std::vector<std::pair<std::int64_t, double>>> rows(static_cast<std::size_t>(to));
        for (std::int64_t i = 0; i < to; ++i) {
            const auto o = static_cast<double>(i);
            double at = (o + 0.5) / scale - 0.5;
            if (d.coordinates == "asymmetric") at = o / scale;
            if (d.mode == ResizeMode::nearest) {
                // Between two elements it is the rounding of floats that decides, as in kernels (and elsewhere).
                const auto f = static_cast<float>(i), by = static_cast<float>(scale);
                at = static_cast<double>(d.coordinates == "asymmetric" ? f / by : (f + 0.5F) / by - 0.5F);
            }
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

Result<void> OpInterpreter::operator()(const Reformat&) {
    // Between int8 values of one scale bytes are moved; else by way of the real numbers.
    if (in_value(0).type == ElementType::s8 && out_value().type == ElementType::s8 &&
        in_value(0).scale == out_value().scale && in_value(0).zero_point == out_value().zero_point) {
        state_.store(op_.outputs[0], in(0));
    } else {
        Numbers real = state_.real(op_.inputs[0]);
        // Masks of -3.4e38 become a number that FP16 has and that still vanishes in a softmax.
        if (out_value().type == ElementType::f16 && in_value(0).type != ElementType::s8) {
            for (double& number : real)
                number = number < -65504 && std::isfinite(number) ? static_cast<double>(narrow_mask) : number;
        }
        state_.store_real(op_.outputs[0], std::move(real));
    }
    return {};
}

Result<void> OpInterpreter::operator()(const Pointwise& d) {
    std::vector<Numbers> inputs;
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
        const OperandView* view = d.view(i);
        if (view == nullptr) {
            inputs.push_back(spread(state_, op_.inputs[i], out_value().dims));
            continue;
        }
        const Numbers real = state_.real(op_.inputs[i]);
        const Shape& dims = state_.value(op_.inputs[i]).dims;
        const auto own = strides_for(dims, dims);
        Numbers numbers(static_cast<std::size_t>(element_count(out_value().dims)));
        walk(out_value().dims, view->strides(own, out_value().dims.size()), view->offset(own),
             [&](std::size_t to, std::size_t at) { numbers[to] = real[at]; });
        inputs.push_back(std::move(numbers));
    }
    run(state_, op_, d, inputs);
    return {};
}

Result<void> OpInterpreter::operator()(const Chain& d) {
    for (const FusedOp& part : d.parts)
        LATHE_CHECK(interpret_op(state_, part));
    return {};
}

Result<void> interpret_op(Interpretation& state, const FusedOp& op) {
    return std::visit(OpInterpreter(state, op), op.detail);
}

} // namespace lathe::cuda
