#include "backends/openvino/windows.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

using Numbers = std::vector<std::int64_t>;

/// Sizes that can be reckoned with, whatever a file says.
constexpr std::int64_t most_of_an_axis = std::int64_t{1} << 40;

/// -0: a zero that OpenVINO does not take for a pool's own padding, since it looks at the bits.
std::optional<Tensor> negative_zero(DataType type) {
    const std::size_t bytes = byte_size(type, 1);
    if (!is_floating(type) || bytes < 2) return std::nullopt;
    std::vector<std::byte> bits(bytes);
    bits.back() = std::byte{0x80}; // little-endian, the sign first
    return Tensor("", type, {}, bits);
}

/// What a Pad is told for a window's pads, which leave out the samples' and the channels' axis.
Tensor sizes_of_all_axes(const std::vector<std::int64_t>& pads) {
    const std::size_t spatial = pads.size() / 2;
    std::vector<std::int64_t> all(2 * (spatial + 2), 0);
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
    std::copy(pads.begin(), middle, all.begin() + 2);
    std::copy(middle, pads.end(), all.begin() + static_cast<std::ptrdiff_t>(spatial) + 4);
    return Tensor::of_int64s("", {static_cast<std::int64_t>(all.size())}, all);
}

/// As many strides and dilations as the kernel has sizes, all of them and the padding numbers that can be reckoned
/// with.
bool are_windows(const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& strides,
                 const std::vector<std::int64_t>& dilations, const std::vector<std::int64_t>& pads) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    const auto fits = [&](std::int64_t least) {
        return [=](std::int64_t number) { return number >= least && number <= most; };
    };
    return strides.size() == kernel.size() && dilations.size() == kernel.size() && pads.size() == 2 * kernel.size() &&
           std::ranges::all_of(kernel, fits(1)) && std::ranges::all_of(strides, fits(1)) &&
           std::ranges::all_of(dilations, fits(1)) && std::ranges::all_of(pads, fits(0));
}

/// Whether the last window may begin behind the input, in its padding, where ONNX leaves it out: that depends on the
/// padding being the pool's own.
bool may_end_in_padding(const Graph& graph, const Node& node, const std::vector<std::int64_t>& pads) {
    const auto kernel = node.ints_or("kernel_shape", {});
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(kernel.size(), 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(kernel.size(), 1));
    const auto info = graph.info(node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    if (!are_windows(kernel, strides, dilations, pads)) return false; // refused by who reads it
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::int64_t covers = (kernel[i] - 1) * dilations[i] + 1, end = pads[i + kernel.size()];
        if (strides[i] + end <= covers) continue; // never
        if (!shape || shape->size() != kernel.size() + 2 || (*shape)[i + 2] < 0) return true;
        const std::int64_t from = (*shape)[i + 2] + pads[i];
        const std::int64_t last = (from + end - covers + strides[i] - 1) / strides[i] * strides[i];
        if (last >= from) return true;
    }
    return false;
}

//  AveragePool of a whole image of few channels   ==>   GlobalAveragePool
// Of bytes, put into another scale behind it, OpenVINO's kernel for AVX2 gives the largest instead of the mean where
// there are fewer than 16 channels and one pixel is left.
Nodes average_of_all(const Graph& graph, const Node& node) {
    constexpr std::int64_t least_channels = 16;
    const auto dims = graph.info_or_name(node.input(0)).shape();
    const auto kernel = node.ints_or("kernel_shape", {}), pads = node.ints_or("pads", {});
    const std::string padding = node.string_or("auto_pad", "NOTSET");
    if (!dims || dims->size() != kernel.size() + 2 || (*dims)[1] < 1 || (*dims)[1] >= least_channels ||
        (padding != "NOTSET" && padding != "VALID") ||
        std::ranges::any_of(pads, [](std::int64_t n) { return n != 0; }) ||
        std::ranges::any_of(node.ints_or("dilations", {}), [](std::int64_t n) { return n != 1; }) ||
        !std::equal(kernel.begin(), kernel.end(), dims->begin() + 2))
        return {};
    return {made("GlobalAveragePool", {node.input(0)}, node.output(0))};
}

/// Of a pool that rounds its sizes up: how far beyond the input its last window reaches, for each axis, where ONNX
/// leaves out those that begin behind it. Nothing where sizes are open or the attributes do not fit.
std::optional<std::vector<std::int64_t>> reach_of_windows(const Graph& graph, const Node& node,
                                                          const std::vector<std::int64_t>& pads) {
    const auto kernel = node.ints_or("kernel_shape", {});
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(kernel.size(), 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(kernel.size(), 1));
    const auto shape = graph.info_or_name(node.input(0)).shape();
    if (!are_windows(kernel, strides, dilations, pads) || !shape || shape->size() != kernel.size() + 2 ||
        std::any_of(shape->begin() + 2, shape->end(),
                    [](std::int64_t size) { return size < 0 || size > most_of_an_axis; }))
        return std::nullopt;
    std::vector<std::int64_t> reach;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::int64_t covers = (kernel[i] - 1) * dilations[i] + 1, from = (*shape)[i + 2] + pads[i];
        std::int64_t last = (from + pads[i + kernel.size()] - covers + strides[i] - 1) / strides[i];
        if (last * strides[i] >= from) --last;
        reach.push_back(std::max<std::int64_t>(0, last * strides[i] + covers - from));
    }
    return reach;
}

/// Writes nodes in the place of one, with names after its output.
class Replacing {
public:
    Replacing(Graph& graph, const Node& node) : graph_(graph), stem_(node.output(0)) {}

    std::string value(const char* what) { return graph_.unique_name(stem_ + what); }
    std::string numbers(const char* what, const Numbers& numbers) {
        return add_integers(graph_, stem_ + what, numbers);
    }
    /// Elements [from, to) along spatial axes; `x` itself where there is nothing to cut.
    std::string cut(const std::string& x, const Numbers& from, const Numbers& to, const Numbers& axes) {
        if (axes.empty()) return x;
        Numbers at = axes;
        for (std::int64_t& axis : at)
            axis += 2;
        const std::string part = value("_read");
        nodes.push_back(made("Slice", {x, numbers("_from", from), numbers("_to", to), numbers("_at", at)}, part));
        return part;
    }

    Nodes nodes;

private:
    Graph& graph_;
    std::string stem_;
};

/// Whether a value is dequantised, or moved since.
bool is_of_bytes(const Graph& graph, const std::string& value, int steps = 8) {
    static constexpr std::array<std::string_view, 13> moving{"Slice",   "Split",     "Concat",  "Transpose", "Reshape",
                                                             "Squeeze", "Unsqueeze", "MaxPool", "Resize",    "Identity",
                                                             "Flatten", "Tile",      "Pad"};
    const Node* source = producer(graph, value);
    if (source == nullptr || source->is("DequantizeLinear")) return source != nullptr;
    if (steps == 0 || std::ranges::find(moving, source->op_type) == moving.end()) return false;
    const std::size_t read = source->is("Concat") ? source->inputs.size() : 1;
    return std::any_of(source->inputs.begin(), source->inputs.begin() + static_cast<std::ptrdiff_t>(read),
                       [&](const std::string& input) { return is_of_bytes(graph, input, steps - 1); });
}

//  DQ ──▶ AveragePool(pads, count_include_pad) ──▶ y
//    ==>   DQ ──▶ AveragePool(pads) ──▶ Mul ──▶ y
//          ones ──▶ AveragePool(pads, count_include_pad) ──┘
// Of quantised bytes OpenVINO takes 0 for the padding, which is no zero where there is a zero point.
Nodes average_of_padded_bytes(Graph& graph, const Node& node, std::int64_t opset) {
    const auto pads = node.ints_or("pads", {});
    if (node.int_or("count_include_pad", 0) == 0 || opset < 11 ||
        std::ranges::all_of(pads, [](std::int64_t n) { return n == 0; }) ||
        type_of(graph, node.input(0)) != DataType::float32 || !is_of_bytes(graph, node.input(0)))
        return {};
    Replacing instead(graph, node);
    const std::string sizes = instead.value("_sizes"), places = instead.value("_places"),
                      whole = instead.value("_whole"), ones = instead.value("_ones"), shares = instead.value("_shares"),
                      inside = instead.value("_inside");
    Node constant = made("ConstantOfShape", {whole}, ones);
    constant.set("value", Tensor::of<float>("", DataType::float32, {1}, std::array{1.0F}));
    Node joined = made("Concat", {instead.numbers("_one_image", {1, 1}), places}, whole);
    joined.set("axis", std::int64_t{0});
    Node share = node, mean = node;
    share.inputs = {ones};
    share.outputs = {shares};
    mean.erase_attribute("count_include_pad");
    mean.outputs = {inside};
    return {
        made("Shape", {node.input(0)}, sizes),
        made("Slice", {sizes, instead.numbers("_from", {2}), instead.numbers("_to", {std::int64_t{1} << 31})}, places),
        std::move(joined),
        std::move(constant),
        std::move(share),
        std::move(mean),
        made("Mul", {inside, shares}, node.output(0))};
}

//  x ──▶ AveragePool(pads, ceil_mode, count_include_pad) ──▶ y
//    ==>   x ──▶ Pad ──▶ AveragePool(other pads at the end) ──▶ y, with as many windows as ONNX has
// The divisor is then the number of elements of the padded input under the window, as ONNX and PyTorch have it.
Nodes padded_average(Graph& graph, const Node& node, std::int64_t opset) {
    auto pads = node.ints_or("pads", {});
    const bool padded = std::ranges::any_of(pads, [](std::int64_t n) { return n > 0; });
    const auto zero = negative_zero(type_of(graph, node.input(0)));
    if (node.int_or("ceil_mode", 0) == 0 || node.int_or("count_include_pad", 0) == 0 || !padded || !zero || opset < 11)
        return {};
    Node pool = node;
    pool.erase_attribute("pads");
    pool.erase_attribute("count_include_pad");
    if (may_end_in_padding(graph, node, pads)) {
        const auto reach = reach_of_windows(graph, node, pads);
        if (!reach) return {};
        std::vector<std::int64_t> beyond(pads.size(), 0);
        for (std::size_t i = 0, count = reach->size(); i < count; ++i) {
            beyond[count + i] = std::max<std::int64_t>(0, (*reach)[i] - pads[count + i]);
            pads[count + i] = std::min(pads[count + i], (*reach)[i]);
        }
        pool.set("pads", std::move(beyond));
        pool.erase_attribute("ceil_mode");
    }
    const std::string& stem = node.output(0);
    const std::string wide = graph.unique_name(stem + "_padded");
    const std::string sizes = add_constant(graph, stem + "_pads", sizes_of_all_axes(pads));
    pool.inputs[0] = wide;
    return {made("Pad", {node.input(0), sizes, add_constant(graph, stem + "_zero", *zero)}, wide), std::move(pool)};
}

//  MaxPool(pads, ceil_mode)   ==>   MaxPool(other pads at the end), with as many windows as ONNX has
// OpenVINO also has those that begin behind the input, and gives the least number for them. More padding is harmless:
// it is no element, of a mean that does not count it either.
Nodes windows_that_begin_inside(const Graph& graph, const Node& node) {
    const std::string way = node.string_or("auto_pad", "NOTSET");
    auto pads = std::vector<std::int64_t>(2 * node.ints_or("kernel_shape", {}).size(), 0);
    if (way == "NOTSET") pads = node.ints_or("pads", pads);
    if (node.int_or("ceil_mode", 0) == 0 || (way != "NOTSET" && way != "VALID") ||
        !may_end_in_padding(graph, node, pads))
        return {};
    const auto reach = reach_of_windows(graph, node, pads);
    if (!reach) return {};
    std::ranges::copy(*reach, pads.begin() + static_cast<std::ptrdiff_t>(reach->size()));
    Node pool = node;
    pool.erase_attribute("ceil_mode");
    pool.erase_attribute("auto_pad");
    pool.erase_attribute("count_include_pad"); // of no padding, if it was asked for: see padded_average
    pool.set("pads", pads);
    return {std::move(pool)};
}

//  ConvTranspose(auto_pad = SAME_...)   ==>   ConvTranspose(pads, output_padding)
// ONNX's output is the input's size times the stride; where the kernel is smaller than the stride, OpenVINO's is less.
Nodes enlarged_by_stride(const Graph& graph, const Node& node) {
    const std::string way = node.string_or("auto_pad", "NOTSET");
    const auto info = graph.info(node.input(1));
    const auto weights = info ? info->shape() : std::nullopt;
    auto kernel = node.ints_or("kernel_shape", {});
    if (kernel.empty() && weights && weights->size() > 2) kernel.assign(weights->begin() + 2, weights->end());
    if (!way.starts_with("SAME_") || kernel.empty() || node.attribute("output_shape") != nullptr ||
        node.attribute("output_padding") != nullptr)
        return {};
    const std::size_t count = kernel.size();
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(count, 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(count, 1));
    std::vector<std::int64_t> pads(2 * count), more(count);
    if (!are_windows(kernel, strides, dilations, pads)) return {};
    bool smaller = false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t beyond = (kernel[i] - 1) * dilations[i] + 1 - strides[i];
        smaller = smaller || beyond < 0;
        more[i] = std::max<std::int64_t>(0, -beyond);
        const std::int64_t all = std::max<std::int64_t>(0, beyond), less = all / 2;
        pads[i] = way == "SAME_UPPER" ? less : all - less;
        pads[count + i] = all - pads[i];
    }
    if (!smaller) return {};
    Node changed = node;
    changed.erase_attribute("auto_pad");
    changed.set("pads", pads);
    changed.set("output_padding", more);
    return {std::move(changed)};
}

/// Whether what a Pad from opset 11 on fills with is the constant 0.
bool fills_with_zero(const Graph& graph, const Node& pad) {
    if (pad.string_or("mode", "constant") != "constant") return false;
    if (pad.input(2).empty()) return true;
    const Tensor* value = graph.constant(pad.input(2));
    return value != nullptr && std::ranges::all_of(value->bytes(), [](std::byte b) { return b == std::byte{0}; });
}

/// A Pad with 0 that a MaxPool reads keeps its zeros.
Nodes kept_zeros(Graph& graph, const Node& node, std::int64_t opset) {
    if (opset < 11 || !fills_with_zero(graph, node)) return {};
    const auto zero = negative_zero(type_of(graph, node.input(0)));
    if (!zero) return {};
    Node pad = node;
    pad.inputs.resize(std::max<std::size_t>(pad.inputs.size(), 3));
    pad.inputs[2] = add_constant(graph, node.output(0) + "_zero", *zero);
    return {std::move(pad)};
}

bool feeds_max_pool(const Graph& graph, const Node& pad) {
    return std::ranges::any_of(
        graph.nodes, [&](const auto& reader) { return reader->is("MaxPool") && reader->input(0) == pad.output(0); });
}

/// A convolution's window along one axis, and the outputs that it makes of padding alone.
struct Along {
    std::int64_t begin = 0; ///< padding that is left in front; negative: elements of the input that none reads
    std::int64_t end = 0;
    std::int64_t none_in_front = 0;
    std::int64_t none_behind = 0;
};

/// `size`: -1 where it is open. Nothing where that matters, or where no window reads an element.
std::optional<Along> along(std::int64_t size, std::int64_t covers, std::int64_t stride, std::int64_t begin,
                           std::int64_t end) {
    const auto rounded_up = [](std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
    Along found{begin, end, rounded_up(begin - covers + 1, stride), 0};
    if (size < 0 && stride > 1 && end >= covers) return std::nullopt;
    if (size < 0) {
        found.none_behind = std::max<std::int64_t>(0, end - covers + 1);
        found.end -= found.none_behind;
    } else {
        if (size + begin + end < covers) return std::nullopt;
        const std::int64_t windows = (size + begin + end - covers) / stride + 1;
        found.none_behind = std::max<std::int64_t>(0, windows - rounded_up(size + begin, stride));
        const std::int64_t left = windows - found.none_in_front - found.none_behind;
        if (left < 1) return std::nullopt;
        const std::int64_t first = found.none_in_front * stride - begin;
        found.end = std::max<std::int64_t>(0, first + (left - 1) * stride + covers - size);
    }
    found.begin -= found.none_in_front * stride;
    return found;
}

/// Behind a window's outputs, what a channel's bias is added to: [1, C, 1, ...].
std::string bias_of_channels(Graph& graph, const Node& node, std::size_t rank, Nodes& nodes) {
    Shape shape(rank, 1);
    shape[1] = -1;
    if (const Tensor* bias = graph.constant(node.input(2))) {
        shape[1] = static_cast<std::int64_t>(bias->count());
        return add_constant(graph, node.output(0) + "_bias", bias->reshaped(shape));
    }
    const std::string sizes = add_integers(graph, node.output(0) + "_bias_sizes", shape);
    const std::string turned = graph.unique_name(node.output(0) + "_bias");
    nodes.push_back(made("Reshape", {node.input(2), sizes}, turned));
    return turned;
}

/// A convolution of known attributes whose weights' sizes are known.
struct Windows {
    Numbers sizes; ///< of the input; -1: open
    Numbers kernel, strides, dilations, pads;
    std::int64_t covers(std::size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

std::optional<Windows> windows_of(const Graph& graph, const Node& node) {
    const auto weights = graph.info_or_name(node.input(1)).shape(), given = graph.info_or_name(node.input(0)).shape();
    if (!weights || weights->size() < 3) return std::nullopt;
    const std::size_t axes = weights->size() - 2;
    if (given && given->size() != axes + 2) return std::nullopt;
    Windows w;
    w.kernel.assign(weights->begin() + 2, weights->end());
    w.sizes = given ? Numbers(given->begin() + 2, given->end()) : Numbers(axes, -1);
    if (std::ranges::any_of(w.sizes, [](std::int64_t size) { return size > most_of_an_axis; })) return std::nullopt;
    w.pads = node.ints_or("pads", Numbers(2 * axes, 0));
    w.strides = node.ints_or("strides", Numbers(axes, 1));
    w.dilations = node.ints_or("dilations", Numbers(axes, 1));
    const std::string way = node.string_or("auto_pad", "NOTSET");
    if (way != "NOTSET") w.pads.assign(2 * axes, 0);
    if (!are_windows(w.kernel, w.strides, w.dilations, w.pads)) return std::nullopt;
    for (std::size_t i = 0; i < axes && way.starts_with("SAME_"); ++i) {
        if (w.sizes[i] < 0) return std::nullopt;
        const std::int64_t windows = (w.sizes[i] + w.strides[i] - 1) / w.strides[i];
        const std::int64_t all = std::max<std::int64_t>(0, (windows - 1) * w.strides[i] + w.covers(i) - w.sizes[i]);
        w.pads[axes + i] = way == "SAME_UPPER" ? all - all / 2 : all / 2;
        w.pads[i] = all - w.pads[axes + i];
    }
    return w;
}

//  x ──▶ Conv(pads) ──▶ y   ==>   x [──▶ Slice] ──▶ Conv(fewer pads) ──▶ Pad ──▶ Add(bias) ──▶ y
// Of windows that lie in the padding behind the input OpenVINO's kernel for AVX-512 reads beyond its memory. And the
// pixels that a strided window of one pixel reads are taken before what is in front is computed (a Mul, a Relu), and
// its padding is forgotten then.
Nodes outputs_of_padding_alone(Graph& graph, const Node& node, const Windows& w) {
    const std::size_t axes = w.kernel.size();
    Numbers left = w.pads, none(2 * axes, 0), from, at;
    for (std::size_t i = 0; i < axes; ++i) {
        if (w.pads[i] < w.covers(i) && w.pads[axes + i] == 0) continue;
        const auto found = along(w.sizes[i], w.covers(i), w.strides[i], w.pads[i], w.pads[axes + i]);
        if (!found) return {};
        left[i] = std::max<std::int64_t>(0, found->begin);
        left[axes + i] = found->end;
        none[i] = found->none_in_front;
        none[axes + i] = found->none_behind;
        if (found->begin < 0) {
            from.push_back(-found->begin);
            at.push_back(static_cast<std::int64_t>(i));
        }
    }
    Node convolution = node;
    convolution.erase_attribute("auto_pad");
    convolution.set("pads", left);
    if (std::ranges::all_of(none, [](std::int64_t n) { return n == 0; })) {
        const bool is_point = std::ranges::all_of(w.kernel, [](std::int64_t n) { return n == 1; });
        if (left == w.pads || !is_point) return {};
        return {std::move(convolution)}; // without padding that no window reads
    }
    constexpr std::int64_t all = std::int64_t{1} << 31;
    Replacing instead(graph, node);
    convolution.inputs = {instead.cut(node.input(0), from, Numbers(from.size(), all), at), node.input(1)};
    convolution.outputs = {instead.value("_windows")};
    const bool has_bias = !node.input(2).empty();
    const std::string inner = convolution.output(0), whole = has_bias ? instead.value("_whole") : node.output(0);
    instead.nodes.push_back(std::move(convolution));
    const std::string more = add_constant(graph, node.output(0) + "_none", sizes_of_all_axes(none));
    instead.nodes.push_back(made("Pad", {inner, more}, whole));
    if (has_bias) {
        const std::string bias = bias_of_channels(graph, node, axes + 2, instead.nodes);
        instead.nodes.push_back(made("Add", {whole, bias}, node.output(0)));
    }
    return std::move(instead.nodes);
}

//  x ──▶ Conv(strides) ──▶ y   ==>   x ──▶ Slice ──▶ Conv ──▶ y, along axes with one window
// Of one channel, OpenVINO's kernel for AVX-512 reads other elements where it moves by several columns to none.
Nodes one_window_of_one_channel(Graph& graph, const Node& node, const Windows& w) {
    const auto weights = graph.info_or_name(node.input(1)).shape();
    if (!weights || (*weights)[1] != 1 || node.int_or("group", 1) != 1) return {};
    const std::size_t axes = w.kernel.size();
    Numbers strides = w.strides, pads = w.pads, to, at;
    for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t size = w.sizes[i], beyond = size + w.pads[i] + w.pads[axes + i] - w.covers(i);
        if (size < 0 || w.strides[i] == 1 || beyond < 0 || beyond >= w.strides[i]) continue;
        const std::int64_t read = w.covers(i) - w.pads[i];
        if (read < 1) continue;
        strides[i] = 1;
        pads[axes + i] = std::max<std::int64_t>(0, read - size);
        if (read < size) {
            to.push_back(read);
            at.push_back(static_cast<std::int64_t>(i));
        }
    }
    if (strides == w.strides) return {};
    Replacing instead(graph, node);
    Node convolution = node;
    convolution.erase_attribute("auto_pad");
    convolution.inputs[0] = instead.cut(node.input(0), Numbers(at.size(), 0), to, at);
    convolution.set("strides", std::move(strides));
    convolution.set("pads", std::move(pads));
    instead.nodes.push_back(std::move(convolution));
    return std::move(instead.nodes);
}

/// Whether one of several outputs of a node is read, number by number, on the way to a value.
bool comes_of_parts(const Graph& graph, const std::string& value, int depth = 8) {
    const Node* node = producer(graph, value);
    if (node == nullptr || depth == 0) return false;
    if (node->outputs.size() > 1) return true;
    static constexpr std::array<std::string_view, 8> never{"Conv",    "ConvTranspose", "MatMul",   "Gemm",
                                                           "Reshape", "Transpose",     "Constant", "Concat"};
    if (std::ranges::any_of(never, [&](std::string_view type) { return node->is(type); })) return false;
    return std::ranges::any_of(node->inputs,
                               [&](const std::string& input) { return comes_of_parts(graph, input, depth - 1); });
}

//  x ──▶ Conv(1 x 1, strides) ──▶ y   ==>   x ──▶ Slice(steps) ──▶ Conv(1 x 1) ──▶ y
// OpenVINO takes such pixels before what is in front is computed, and cannot take them of one of a Split's outputs.
Nodes strided_point_of_parts(Graph& graph, const Node& node, const Windows& w) {
    const auto is = [](std::int64_t number) { return [=](std::int64_t n) { return n == number; }; };
    if (!std::ranges::all_of(w.kernel, is(1)) || !std::ranges::all_of(w.pads, is(0)) ||
        std::ranges::all_of(w.strides, is(1)) || !comes_of_parts(graph, node.input(0)))
        return {};
    Numbers axes(w.strides.size());
    std::iota(axes.begin(), axes.end(), 2);
    constexpr std::int64_t all = std::int64_t{1} << 31;
    Replacing instead(graph, node);
    Node convolution = node;
    convolution.inputs[0] = instead.value("_read");
    convolution.erase_attribute("strides");
    convolution.erase_attribute("auto_pad");
    instead.nodes.push_back(made("Slice",
                                 {node.input(0), instead.numbers("_from", Numbers(axes.size(), 0)),
                                  instead.numbers("_to", Numbers(axes.size(), all)), instead.numbers("_at", axes),
                                  instead.numbers("_steps", w.strides)},
                                 convolution.input(0)));
    instead.nodes.push_back(std::move(convolution));
    return std::move(instead.nodes);
}

} // namespace

Nodes windows_as_onnx(Graph& graph, const Node& node, std::int64_t opset) {
    if (node.is("ConvTranspose")) return enlarged_by_stride(graph, node);
    if (node.is("MaxPool")) return windows_that_begin_inside(graph, node);
    if (node.is("Pad") && feeds_max_pool(graph, node)) return kept_zeros(graph, node, opset);
    if (node.is("AveragePool")) {
        if (Nodes nodes = average_of_all(graph, node); !nodes.empty()) return nodes;
        if (Nodes nodes = average_of_padded_bytes(graph, node, opset); !nodes.empty()) return nodes;
        if (Nodes nodes = padded_average(graph, node, opset); !nodes.empty()) return nodes;
        return windows_that_begin_inside(graph, node);
    }
    const auto windows = node.is("Conv") && opset >= 11 ? windows_of(graph, node) : std::nullopt;
    if (!windows) return {};
    if (Nodes nodes = outputs_of_padding_alone(graph, node, *windows); !nodes.empty()) return nodes;
    if (Nodes nodes = one_window_of_one_channel(graph, node, *windows); !nodes.empty()) return nodes;
    return strided_point_of_parts(graph, node, *windows);
}

} // namespace lathe::openvino
