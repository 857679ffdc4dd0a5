#include <algorithm>
#include <array>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {

Result<std::vector<float>> filter_floats(const Lowering& lowering, const Filter& filter, bool raw) {
    LATHE_TRY(auto values, lowering.floats(filter.values));
    if (raw || !filter.scales) return values;
    LATHE_TRY(const auto scales, lowering.floats(*filter.scales));
    const Shape& shape = filter.values.shape;
    const auto inner = static_cast<std::size_t>(element_count(Shape(shape.begin() + filter.axis + 1, shape.end())));
    const auto many = static_cast<std::size_t>(shape[static_cast<std::size_t>(filter.axis)]);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] *= scales.size() == 1 ? scales[0] : scales[i / inner % many];
    return values;
}

std::string filter_key(const Filter& filter, bool raw) {
    return filter.values.key() + (filter.scales && !raw ? "*" + filter.scales->key() : "");
}

namespace {

/// The sum of each of the k filters' weights as stored.
Result<std::vector<double>> filter_sums(const Lowering& lowering, const Filter& filter, std::int64_t k) {
    LATHE_TRY(const auto values, lowering.floats(filter.values));
    std::vector<double> sums(static_cast<std::size_t>(k), 0.0);
    const std::size_t each = values.size() / std::max<std::size_t>(sums.size(), 1);
    for (std::size_t i = 0; i < sums.size() * each; ++i)
        sums[i / each] += static_cast<double>(values[i]);
    return sums;
}

/// [K][C][R][S] to [K][R][S][C padded].
Result<WeightId> pack_filters(Lowering& lowering, const Filter& filter, ElementType type, std::int64_t padded) {
    const bool raw = type == ElementType::s8;
    const Shape& shape = filter.values.shape;
    const std::int64_t k = shape[0];
    const std::int64_t c = shape[1];
    const std::int64_t r = shape.size() == 4 ? shape[2] : 1;
    const std::int64_t s = shape.back();
    const std::string key = filter_key(filter, raw) + "|krsc|" + to_string(type) + "|c" + std::to_string(padded);
    return lowering.store(key, type, {k, r, s, padded}, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, filter_floats(lowering, filter, raw));
        std::vector<float> packed(static_cast<std::size_t>(k * r * s * padded), 0.0F);
        for (std::int64_t ik = 0; ik < k; ++ik) {
            for (std::int64_t ic = 0; ic < c; ++ic) {
                for (std::int64_t at = 0; at < r * s; ++at) {
                    packed[static_cast<std::size_t>((ik * r * s + at) * padded + ic)] =
                        values[static_cast<std::size_t>((ik * c + ic) * r * s + at)];
                }
            }
        }
        return converted(packed, type, filter.values.name);
    });
}

/// [C][1][R][S] to [R][S][C padded].
Result<WeightId> pack_depthwise(Lowering& lowering, const Filter& filter, ElementType type, std::int64_t padded) {
    const bool raw = type == ElementType::s8;
    const Shape& shape = filter.values.shape;
    const std::int64_t c = shape[0];
    const std::int64_t r = shape.size() == 4 ? shape[2] : 1;
    const std::int64_t s = shape.back();
    const std::string key = filter_key(filter, raw) + "|rsc|" + to_string(type) + "|c" + std::to_string(padded);
    return lowering.store(key, type, {r, s, padded}, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, filter_floats(lowering, filter, raw));
        std::vector<float> packed(static_cast<std::size_t>(r * s * padded), 0.0F);
        for (std::int64_t ic = 0; ic < c; ++ic) {
            for (std::int64_t at = 0; at < r * s; ++at) {
                packed[static_cast<std::size_t>(at * padded + ic)] = values[static_cast<std::size_t>(ic * r * s + at)];
            }
        }
        return converted(packed, type, filter.values.name);
    });
}

/// The max pooling that alone reads the result, possibly behind DequantizeLinear; a maximum commutes with rounding and
/// with activations that never fall.
struct PoolBehind {
    std::vector<Node*> nodes;
    Window window;
    std::string end;
};
std::optional<PoolBehind> pool_behind(const Lowering& lowering, const Tail& tail) {
    if (tail.output_zero_point != 0) return std::nullopt; // kernels pool around 0
    const bool rising = tail.act == Activation::none || tail.act == Activation::relu || tail.act == Activation::clip;
    if (!rising) return std::nullopt;
    PoolBehind found;
    Node* reader = lowering.only_reader(tail.end);
    if (reader != nullptr && reader->is("DequantizeLinear") && tail.output_scale) {
        if (lowering.symmetric_scale(*reader) != tail.output_scale) return std::nullopt;
        found.nodes.push_back(reader);
        reader = lowering.only_reader(reader->output(0));
    }
    if (reader == nullptr || !reader->is("MaxPool") || reader->outputs.size() != 1) return std::nullopt;
    if (reader->int_or("ceil_mode", 0) != 0) return std::nullopt;
    auto window = window_of(*reader, lowering.dims(reader->input(0)), {});
    if (!window || window->kernel != std::array<std::int64_t, 2>{3, 3} ||
        window->stride != std::array<std::int64_t, 2>{2, 2} || window->dilation != std::array<std::int64_t, 2>{1, 1}) {
        return std::nullopt;
    }
    if (std::any_of(window->pads.begin(), window->pads.end(), [](std::int64_t n) { return n != 1; })) {
        return std::nullopt;
    }
    found.nodes.push_back(reader);
    found.window = *window;
    found.end = reader->output(0);
    return found;
}

/// Whether there are kernels that pool behind this stem.
bool stem_pools(const Window& window, std::int64_t k, ElementType compute) {
    const bool square = window.kernel[0] == window.kernel[1] && (window.kernel[0] == 3 || window.kernel[0] == 7);
    return square && window.stride == std::array<std::int64_t, 2>{2, 2} &&
           window.dilation == std::array<std::int64_t, 2>{1, 1} && k <= 64 && compute == ElementType::f16;
}

Result<void> convolution(Lowering& lowering, Node& node) {
    const std::string& x = node.input(0);
    if (lowering.dims(x).size() == 5) return volume_convolution(lowering, node);
    const Shape input = lowering.dims(x);
    const Shape output = lowering.dims(node.output(0));
    const auto filter = lowering.filter(node.input(1));
    if (!filter) return Lowering::cannot(node, "its filters are not constant (or not symmetric int8)");
    const Shape& shape = filter->values.shape;
    const bool line = shape.size() == 3 && input.size() == 4; // an image of one row, whose filters have none
    if (shape.size() != input.size() && !line) return Lowering::cannot(node, "its filters do not fit its input");
    std::vector<std::int64_t> taps(shape.begin() + 2, shape.end());
    if (line) taps.insert(taps.begin(), 1);
    LATHE_TRY(const Window window, window_of(node, input, std::move(taps)));
    const std::int64_t groups = node.int_or("group", 1);
    const std::int64_t k = shape[0];
    const std::int64_t c = input[1];
    const bool depthwise = groups != 1 && groups == c && groups == k;

    const auto quantised = lowering.quantised_form(x);
    const bool int8 = quantised && filter->scales && filter->axis == 0;
    const auto storage = lowering.stored_type(lowering.type_of(x));
    if (!storage || (!is_real(*storage) && *storage != ElementType::s8)) {
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    }
    const ElementType compute = int8 ? ElementType::s8 : *storage;

    Tail tail = lowering.follow(node.output(0), 1, !depthwise && input.size() == 4);
    // The stem reads the graph's input as it is: a pass over 3 channels of fp32 costs as much as the convolution. Its
    // kernels multiply in f16 and bf16; in other types the image is laid out first.
    bool reads_nchw = false;
    if ((compute == ElementType::f16 || compute == ElementType::bf16) && groups == 1 && c <= 4 && shape.size() == 4 &&
        !quantised && tail.residual.empty()) {
        if (!lowering.ready(x)) return Lowering::cannot(node, "its input is not made");
        for (const ValueId id : lowering.forms(x)) {
            const Value& value = lowering.value(id);
            if (value.role == Role::input && value.type == ElementType::f32) reads_nchw = true;
        }
    }
    ValueId in = none;
    if (reads_nchw) {
        LATHE_TRY(in, lowering.want(x, ElementType::f32, Layout::linear));
    } else {
        LATHE_TRY(in, lowering.want(x, compute, Layout::nhwc));
    }

    EpilogueRequest request;
    EpilogueRequest::Part part;
    part.channels = k;
    if (int8) {
        part.scales = filter->scales;
        part.sums_key = filter->values.key();
        part.sums = [&lowering, &filter, k] { return filter_sums(lowering, *filter, k); };
    }
    if (!node.input(2).empty()) {
        const auto bias = lowering.constant(node.input(2));
        if (!bias) return Lowering::cannot(node, "its bias is not constant");
        part.biases.push_back(*bias);
    }
    request.parts.push_back(std::move(part));
    request.factor = int8 ? lowering.value(in).scale : 1.0F;
    request.zero_point = int8 ? lowering.value(in).zero_point : 0;
    request.channels = k;
    request.padded = (k + 15) / 16 * 16;
    request.result = *storage;
    LATHE_TRY(const Finished finished, finish_epilogue(lowering, request, tail));

    const std::int64_t macs = element_count(output) * (c / groups) * window.kernel[0] * window.kernel[1];
    std::optional<PoolBehind> pool;
    if (reads_nchw && stem_pools(window, k, compute)) pool = pool_behind(lowering, tail);
    if (pool) {
        tail.nodes.insert(tail.nodes.end(), pool->nodes.begin(), pool->nodes.end());
        tail.end = pool->end;
    }

    OpDetail detail;
    if (depthwise) {
        Depthwise made;
        made.window = window;
        made.epilogue = finished.epilogue;
        LATHE_TRY(made.weight, pack_depthwise(lowering, *filter, compute, lowering.value(in).channel_stride));
        detail = made;
    } else {
        Conv made;
        made.window = window;
        made.groups = groups;
        made.reads_nchw = reads_nchw;
        made.epilogue = finished.epilogue;
        // Filters of a group are packed without gaps, as are those of patches that do not overlap, which are rows of a
        // product; the stem's other ones to 4 channels.
        const bool patches = window.stride[0] >= window.kernel[0] && window.stride[1] >= window.kernel[1] &&
                             window.kernel[0] * window.kernel[1] * c % 8 == 0;
        const std::int64_t padded = groups != 1   ? c / groups
                                    : !reads_nchw ? lowering.value(in).channel_stride
                                    : patches     ? c
                                                  : 4;
        LATHE_TRY(made.weight, pack_filters(lowering, *filter, compute, padded));
        if (pool) {
            made.pooled = true;
            made.pool = pool->window;
        }
        detail = made;
    }
    std::vector<ValueId> inputs{in};
    if (finished.residual != none) inputs.push_back(finished.residual);
    const ValueId out =
        lowering.make(tail.end, finished.type, lowering.dims(tail.end), Layout::nhwc, tail.output_scale.value_or(1.0F));
    lowering.value(out).zero_point = tail.output_zero_point;
    FusedOp& op = lowering.add(node, tail.nodes, std::move(detail), std::move(inputs), {out}, compute);
    op.macs = macs;
    op.tf32 = lowering.tf32() && compute == ElementType::f32;
    return {};
}

} // namespace

void add_convolution(LoweringTable& table) { table.emplace("Conv", convolution); }

} // namespace lathe::cuda
