#include "correct/layer.hpp"

#include <algorithm>
#include <cstdint>

#include "quantize/ops.hpp"
#include "support/huge_pages.hpp"
#include "support/thread_pool.hpp"

namespace lathe {
namespace {

std::optional<LinearLayer> convolution(const Node& node, const Shape& weight, std::string& why) {
    const std::size_t dimensions = weight.size() < 2 ? 0 : weight.size() - 2;
    if (dimensions != 1 && dimensions != 2) {
        why = "a convolution in " + std::to_string(dimensions) + " dimensions";
        return std::nullopt;
    }
    LinearLayer layer;
    layer.groups = static_cast<std::size_t>(std::max<std::int64_t>(1, node.int_or("group", 1)));
    layer.outputs = static_cast<std::size_t>(weight[0]) / layer.groups;
    layer.depth = static_cast<std::size_t>(element_count(Shape(weight.begin() + 1, weight.end())));
    const std::string padding = node.string_or("auto_pad", "NOTSET");
    if (padding == "SAME_UPPER") layer.padding = LinearLayer::Padding::same_upper;
    if (padding == "SAME_LOWER") layer.padding = LinearLayer::Padding::same_lower;
    const auto strides = node.ints_or("strides", Shape(dimensions, 1));
    const auto dilations = node.ints_or("dilations", Shape(dimensions, 1));
    Shape pads(2 * dimensions, 0);
    if (padding == "NOTSET") pads = node.ints_or("pads", pads);
    const auto positive = [](std::int64_t value) { return value >= 1; };
    if (strides.size() != dimensions || dilations.size() != dimensions || pads.size() != 2 * dimensions ||
        layer.outputs == 0 || layer.depth == 0 || !std::ranges::all_of(strides, positive) ||
        !std::ranges::all_of(dilations, positive)) {
        why = "malformed attributes";
        return std::nullopt;
    }
    for (std::size_t i = 0; i < dimensions; ++i) {
        const std::size_t at = 2 - dimensions + i;
        layer.kernel[at] = weight[i + 2];
        layer.strides[at] = strides[i];
        layer.dilations[at] = dilations[i];
        layer.pads_begin[at] = pads[i];
        layer.pads_end[at] = pads[i + dimensions];
    }
    return layer;
}

void gather_convolution(const LinearLayer& layer, const HostTensor& input, const std::array<std::int64_t, 2>& before,
                        const Positions::Position& position, std::size_t group, float* row) {
    const std::span<const float> values = input.as<float>();
    const auto [height, width] = image_size(input.shape);
    const auto plane = static_cast<std::size_t>(height * width);
    const auto taps = static_cast<std::size_t>(layer.kernel[0] * layer.kernel[1]);
    const std::size_t channels = layer.depth / taps;
    const auto all = static_cast<std::size_t>(input.shape[1]);
    const std::size_t first = (position.sample * all + group * channels) * plane;
    const std::int64_t top = position.y * layer.strides[0] - before[0];
    const std::int64_t left = position.x * layer.strides[1] - before[1];
    std::size_t tap = 0;
    for (std::int64_t ky = 0; ky < layer.kernel[0]; ++ky) {
        for (std::int64_t kx = 0; kx < layer.kernel[1]; ++kx, ++tap) {
            const std::int64_t y = top + ky * layer.dilations[0];
            const std::int64_t x = left + kx * layer.dilations[1];
            const bool inside = y >= 0 && y < height && x >= 0 && x < width;
            const std::size_t at = inside ? first + static_cast<std::size_t>(y * width + x) : 0;
            for (std::size_t c = 0; c < channels; ++c)
                row[c * taps + tap] = inside ? values[at + c * plane] : 0.0F;
        }
    }
}

/// A fixed sequence that looks random (the finaliser of MurmurHash3's 64-bit form).
std::uint64_t mixed(std::uint64_t value) {
    value ^= value >> 33U;
    value *= 0xFF51AFD7ED558CCDULL;
    value ^= value >> 33U;
    value *= 0xC4CEB9FE1A85EC53ULL;
    return value ^ (value >> 33U);
}

/// `wanted` of 0..total-1, ascending, each at most once: one from each of `wanted` equal stretches.
std::vector<std::size_t> spread(std::size_t total, std::size_t wanted, std::uint64_t seed) {
    std::vector<std::size_t> chosen;
    if (wanted >= total) wanted = total;
    for (std::size_t i = 0; i < wanted; ++i) {
        const std::size_t low = i * total / wanted;
        const std::size_t high = (i + 1) * total / wanted;
        chosen.push_back(low + mixed(seed * 0x9E3779B97F4A7C15ULL + i) % (high - low));
    }
    return chosen;
}

/// Rows of a Gemm's or MatMul's input that one sample has: the input's first axis counts samples.
std::size_t rows_of_sample(const LinearLayer& layer, const HostTensor& input) {
    const auto samples = static_cast<std::size_t>(std::max<std::int64_t>(1, input.shape.empty() ? 1 : input.shape[0]));
    return std::max<std::size_t>(1, input.as<float>().size() / layer.depth / samples);
}

/// The rows of a Gemm's or MatMul's input that are no padding.
std::vector<Positions::Position> own_rows(const LinearLayer& layer, const Batches& input, const Masks& masks) {
    std::vector<Positions::Position> rows;
    for (std::size_t batch = 0; batch < input.size(); ++batch) {
        const PositionMask* mask = batch < masks.size() && masks[batch] ? &*masks[batch] : nullptr;
        const auto layout = mask == nullptr ? std::nullopt : mask->layout_of(input[batch].shape);
        const std::size_t count = input[batch].as<float>().size() / layer.depth;
        const std::size_t each = rows_of_sample(layer, input[batch]);
        for (std::size_t row = 0; row < count; ++row) {
            if (layout && !mask->is_own(*layout, row * layer.depth)) continue;
            rows.push_back({batch, row / each, static_cast<std::int64_t>(row % each), 0});
        }
    }
    return rows;
}

} // namespace

std::optional<LinearLayer> linear_layer(const Node& node, const Shape& weight, std::string& why) {
    if (node.is("Conv")) return convolution(node, weight, why);
    if (!node.is("Gemm") && !node.is("MatMul")) {
        why = node.op_type;
        return std::nullopt;
    }
    if (weight.size() != 2) {
        why = "weights of " + std::to_string(weight.size()) + " dimensions";
        return std::nullopt;
    }
    LinearLayer layer;
    layer.kind = node.is("Gemm") ? LinearLayer::Kind::gemm : LinearLayer::Kind::matmul;
    if (node.is("Gemm") && (node.int_or("transA", 0) != 0 || node.float_or("alpha", 1.0F) != 1.0F)) {
        why = "Gemm with transA or a factor";
        return std::nullopt;
    }
    layer.transposed = node.is("MatMul") || node.int_or("transB", 0) == 0;
    layer.outputs = static_cast<std::size_t>(weight[layer.transposed ? 1 : 0]);
    layer.depth = static_cast<std::size_t>(weight[layer.transposed ? 0 : 1]);
    if (layer.outputs == 0 || layer.depth == 0) {
        why = "an empty weight";
        return std::nullopt;
    }
    return layer;
}

std::optional<FloatLayer> float_layer(const EdgeIndex& real, const std::string& output, std::string& why) {
    why = "the float model has no such layer";
    const auto at = real.producer(output);
    if (!at || !is_heavy(real.node(*at))) return std::nullopt;
    FloatLayer layer;
    layer.node = &real.node(*at);
    const Constant constant = resolve_constant(real.graph(), layer.node->input(1));
    const auto* weight = std::get_if<Tensor>(&constant);
    if (weight == nullptr || weight->type() != DataType::float32) return std::nullopt;
    layer.weight = *weight;
    const auto form = linear_layer(*layer.node, weight->shape(), why);
    if (!form) return std::nullopt;
    layer.form = *form;
    why.clear();
    return layer;
}

std::array<std::int64_t, 2> image_size(const Shape& shape) {
    if (shape.size() == 3) return {1, shape[2]};
    return {shape.at(2), shape.at(3)};
}

WindowPlaces window_places(const LinearLayer& layer, const Shape& input) {
    WindowPlaces places;
    const auto size = image_size(input);
    for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t reach = (layer.kernel[i] - 1) * layer.dilations[i] + 1;
        if (layer.padding == LinearLayer::Padding::given) {
            const std::int64_t padded = size[i] + layer.pads_begin[i] + layer.pads_end[i];
            places.output[i] = std::max<std::int64_t>(0, (padded - reach) / layer.strides[i] + 1);
            places.before[i] = layer.pads_begin[i];
            continue;
        }
        places.output[i] = (size[i] + layer.strides[i] - 1) / layer.strides[i];
        const std::int64_t padding =
            std::max<std::int64_t>(0, (places.output[i] - 1) * layer.strides[i] + reach - size[i]);
        const std::int64_t odd = layer.padding == LinearLayer::Padding::same_lower ? padding % 2 : 0;
        places.before[i] = padding / 2 + odd;
    }
    return places;
}

Positions choose_positions(const LinearLayer& layer, const Batches& input, std::size_t most, const Masks& masks) {
    Positions positions;
    if (layer.kind != LinearLayer::Kind::conv) {
        const std::vector<Positions::Position> rows = own_rows(layer, input, masks);
        for (const std::size_t row : spread(rows.size(), most, 1))
            positions.at.push_back(rows[row]);
        return positions;
    }
    std::size_t samples = 0;
    for (const HostTensor& each : input)
        samples += static_cast<std::size_t>(each.shape[0]);
    const std::size_t each_sample = std::max<std::size_t>(1, most / std::max<std::size_t>(1, samples));
    std::uint64_t number = 0;
    for (std::size_t batch = 0; batch < input.size(); ++batch) {
        const auto [height, width] = window_places(layer, input[batch].shape).output;
        for (std::size_t sample = 0; sample < static_cast<std::size_t>(input[batch].shape[0]); ++sample) {
            for (const std::size_t at : spread(static_cast<std::size_t>(height * width), each_sample, ++number)) {
                const auto place = static_cast<std::int64_t>(at);
                positions.at.push_back({batch, sample, place / width, place % width});
            }
        }
    }
    return positions;
}

std::pair<Positions, Positions> split_by_sample(const Positions& positions) {
    std::pair<Positions, Positions> parts;
    std::size_t sample = 0; // how many other samples stand in front
    for (std::size_t i = 0; i < positions.at.size(); ++i) {
        const Positions::Position& here = positions.at[i];
        if (i > 0) {
            const Positions::Position& before = positions.at[i - 1];
            if (before.batch != here.batch || before.sample != here.sample) ++sample;
        }
        (sample % 4 == 3 ? parts.second : parts.first).at.push_back(here);
    }
    return parts;
}

std::vector<float> gather_rows(const LinearLayer& layer, const Batches& input, const Positions& positions,
                               std::size_t threads) {
    const std::size_t count = positions.at.size();
    std::vector<float> rows;
    reserve_huge(rows, layer.groups * count * layer.depth, threads);
    rows.resize(layer.groups * count * layer.depth);
    std::vector<std::array<std::int64_t, 2>> before; // of each batch
    for (const HostTensor& each : input) {
        if (layer.kind == LinearLayer::Kind::conv) before.push_back(window_places(layer, each.shape).before);
    }
    constexpr std::size_t chunk = 256;
    ThreadPool(threads).for_each((count + chunk - 1) / chunk, [&](std::size_t part) {
        for (std::size_t n = part * chunk; n < std::min(count, (part + 1) * chunk); ++n) {
            const Positions::Position& position = positions.at[n];
            const HostTensor& tensor = input[position.batch];
            if (layer.kind != LinearLayer::Kind::conv) {
                const std::size_t at =
                    position.sample * rows_of_sample(layer, tensor) + static_cast<std::size_t>(position.y);
                const auto row = tensor.as<float>().subspan(at * layer.depth, layer.depth);
                std::ranges::copy(row, rows.begin() + static_cast<std::ptrdiff_t>(n * layer.depth));
                continue;
            }
            for (std::size_t g = 0; g < layer.groups; ++g)
                gather_convolution(layer, tensor, before[position.batch], position, g,
                                   &rows[(g * count + n) * layer.depth]);
        }
    });
    return rows;
}

} // namespace lathe
