#include "backends/openvino/known_wrong.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/subgraphs.hpp"
#include "passes/rewrite.hpp"

namespace lathe::openvino {

namespace {

bool is_signed(DataType type) {
    return type == DataType::int8 || type == DataType::int16 || type == DataType::int32 || type == DataType::int64;
}

bool is_recurrent(const Node& node) { return node.is("LSTM") || node.is("GRU") || node.is("RNN"); }

/// By ONNX the corners are those of the size times the scale, a fraction where that is one; OpenVINO takes the size of
/// the output, rounded down.
bool cuts_a_fraction(const Graph& graph, const Node& node) {
    if (node.input(2).empty()) return false;
    const Tensor* scales = graph.constant(node.input(2));
    if (scales == nullptr) return true;
    const auto info = graph.info(node.input(0));
    const auto shape = info ? info->shape() : std::nullopt;
    const std::vector<float> factors = scales->to_floats();
    if (!shape || shape->size() != factors.size()) return false;
    for (std::size_t axis = 0; axis < factors.size(); ++axis) {
        const double size = static_cast<double>((*shape)[axis]) * static_cast<double>(factors[axis]);
        if (size > 0 && size != std::floor(size)) return true;
    }
    return false;
}

/// A mean of a window that begins in the padding at the end, which only sizes rule out.
bool may_count_beyond_padding(const Graph& graph, const Node& node) {
    if (!node.is("AveragePool") || node.int_or("ceil_mode", 0) == 0 || node.int_or("count_include_pad", 0) == 0)
        return false;
    const auto kernel = node.ints_or("kernel_shape", {}), pads = node.ints_or("pads", {});
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(kernel.size(), 1));
    const auto shape = graph.info_or_name(node.input(0)).shape();
    if (pads.size() != 2 * kernel.size() || strides.size() != kernel.size()) return false; // none, or refused elsewhere
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const bool is_open = !shape || shape->size() != kernel.size() + 2 || (*shape)[i + 2] < 0;
        if (is_open && pads[kernel.size() + i] > 0 && strides[i] + pads[kernel.size() + i] > kernel[i]) return true;
    }
    return false;
}

/// A strided window that lies in the padding at the end, or does not: see windows.hpp for those whose sizes are known.
bool may_read_padding_alone(const Graph& graph, const Node& node) {
    if (!node.is("Conv") || node.string_or("auto_pad", "NOTSET") != "NOTSET") return false;
    const auto weights = graph.info_or_name(node.input(1)).shape(), shape = graph.info_or_name(node.input(0)).shape();
    const auto pads = node.ints_or("pads", {});
    if (!weights || weights->size() < 3 || pads.size() != 2 * (weights->size() - 2)) return false;
    const std::size_t axes = pads.size() / 2;
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(axes, 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(axes, 1));
    if (strides.size() != axes || dilations.size() != axes) return false; // refused elsewhere
    for (std::size_t i = 0; i < axes; ++i) {
        const bool is_open = !shape || shape->size() != axes + 2 || (*shape)[i + 2] < 0;
        if (is_open && strides[i] > 1 && pads[axes + i] > ((*weights)[i + 2] - 1) * dilations[i]) return true;
    }
    return false;
}

/// OpenVINO 2026.4; "Resize with antialias" for one that does that.
struct KnownWrong {
    std::string_view operation;
    bool (*holds)(const Graph& graph, const Node& node);
};

const std::array<KnownWrong, 5>& wrong_resizes() {
    static const std::array<KnownWrong, 5> list{{
        {"Resize with antialias",
         [](const Graph&, const Node& node) { return node.is("Resize") && node.int_or("antialias", 0) != 0; }},
        {"Resize with exclude_outside",
         [](const Graph&, const Node& node) { return node.is("Resize") && node.int_or("exclude_outside", 0) != 0; }},
        {"Resize that keeps the aspect ratio",
         [](const Graph&, const Node& node) {
             return node.is("Resize") && node.string_or("keep_aspect_ratio_policy", "stretch") != "stretch";
         }},
        {"Resize between corners by a scale that leaves a fraction",
         [](const Graph& graph, const Node& node) {
             return node.is("Resize") && node.string_or("coordinate_transformation_mode", "") == "align_corners" &&
                    cuts_a_fraction(graph, node);
         }},
        // The last pixel is missed by rounding, for some sizes.
        {"Resize between corners to the pixel below or above",
         [](const Graph& graph, const Node& node) {
             const std::string mode = node.string_or("nearest_mode", "round_prefer_floor");
             const bool fixed = node.inputs.size() > 2 && graph.constant(node.inputs.back()) != nullptr;
             return node.is("Resize") && node.string_or("coordinate_transformation_mode", "") == "align_corners" &&
                    node.string_or("mode", "nearest") == "nearest" && (mode == "floor" || mode == "ceil") && fixed;
         }},
    }};
    return list;
}

const std::array<KnownWrong, 13>& known_wrong() {
    static const std::array<KnownWrong, 13> list{{
        {"SpaceToDepth by columns",
         [](const Graph&, const Node& node) {
             return node.is("SpaceToDepth") && node.string_or("mode", "DCR") != "DCR";
         }},
        {"a recurrent layer with the batch first",
         [](const Graph&, const Node& node) { return is_recurrent(node) && node.int_or("layout", 0) != 0; }},
        {"LSTM with peepholes",
         [](const Graph&, const Node& node) { return node.is("LSTM") && !node.input(7).empty(); }},
        {"DFT of one side",
         [](const Graph&, const Node& node) { return node.is("DFT") && node.int_or("onesided", 0) != 0; }},
        {"DFT along an axis that is an input or of an open rank",
         [](const Graph&, const Node& node) {
             return node.is("DFT") && (!node.input(2).empty() || node.int_or("axis", 1) < 0);
         }},
        {"BitShift of signed integers",
         [](const Graph& graph, const Node& node) {
             return node.is("BitShift") && is_signed(type_of(graph, node.input(0)));
         }},
        {"RoiAlign of maxima",
         [](const Graph&, const Node& node) { return node.is("RoiAlign") && node.string_or("mode", "avg") == "max"; }},
        {"Attention in a window",
         [](const Graph&, const Node& node) {
             return node.is("Attention") &&
                    (node.int_or("left_window_size", -1) >= 0 || node.int_or("right_window_size", -1) >= 0);
         }},
        {"causal Attention with a mask and a past",
         [](const Graph&, const Node& node) {
             return node.is("Attention") && node.int_or("is_causal", 0) != 0 && !node.input(3).empty() &&
                    !node.input(4).empty();
         }},
        {"a saturating Cast to 8-bit floats",
         [](const Graph&, const Node& node) {
             const auto to = static_cast<DataType>(node.int_or("to", 0));
             return node.is("Cast") && node.int_or("saturate", 1) != 0 &&
                    (to == DataType::float8e4m3fn || to == DataType::float8e5m2);
         }},
        {"an Expand to nothing",
         [](const Graph& graph, const Node& node) {
             const Tensor* sizes = node.is("Expand") ? graph.constant(node.input(1)) : nullptr;
             const auto given = sizes == nullptr ? std::vector<std::int64_t>{} : sizes->to_int64s();
             return std::ranges::find(given, 0) != given.end();
         }},
        {"QuantizeLinear to uint16",
         [](const Graph& graph, const Node& node) {
             return node.is("QuantizeLinear") && type_of(graph, node.input(2)) == DataType::uint16;
         }},
        {"Tile whose repeats are an input of the model",
         [](const Graph& graph, const Node& node) {
             return node.is("Tile") && graph.find_input(node.input(1)) != nullptr;
         }},
    }};
    return list;
}

const KnownWrong* found_in(std::span<const KnownWrong> list, const Graph& graph, const Node& node) {
    const auto found = std::ranges::find_if(list, [&](const KnownWrong& known) { return known.holds(graph, node); });
    return found == list.end() ? nullptr : &*found;
}

Error refusal(std::string_view operation, const Node& node, const char* cure) {
    return {ErrorCode::unsupported, "OpenVINO computes " + std::string(operation) + " otherwise than ONNX defines it",
            "node " + node.label(), cure};
}

} // namespace

bool is_wrong_resize(const Graph& graph, const Node& node) { return found_in(wrong_resizes(), graph, node) != nullptr; }

Result<void> refuse_open_windows(const Graph& graph) {
    constexpr const char* cure = "give the inputs fixed sizes (--shape), or build for another device";
    for (const auto& node : graph.nodes) {
        if (may_count_beyond_padding(graph, *node))
            return refusal("AveragePool that counts its padding and rounds open sizes up", *node, cure);
        if (may_read_padding_alone(graph, *node))
            return refusal("a strided Conv whose padding is as wide as its window, of open sizes", *node, cure);
    }
    return {};
}

Result<void> refuse_known_wrong(const Graph& graph) {
    for (const auto& node : graph.nodes) {
        Result<void> inner;
        for_each_subgraph(*node, [&](const Graph& body) {
            if (inner) inner = refuse_known_wrong(body);
        });
        LATHE_CHECK(inner);
        const KnownWrong* known = found_in(wrong_resizes(), graph, *node);
        if (known == nullptr) known = found_in(known_wrong(), graph, *node);
        if (known == nullptr) continue;
        return refusal(known->operation, *node, "export the model without it, or build for another device");
    }
    return {};
}

} // namespace lathe::openvino
