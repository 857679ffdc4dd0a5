#include "passes/symmetric_int8.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/block_weights.hpp"
#include "passes/rewrite.hpp"
#include "passes/zero_point_places.hpp"

namespace lathe {
namespace {

constexpr std::int64_t shift_to_signed = 128;
constexpr std::int64_t lowest = -128;
constexpr float symmetric_steps = 127;

bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

/// One scale and zero point, the latter as int8 has it.
struct Grid {
    float scale = 1;
    std::int64_t zero_point = 0;
    bool operator==(const Grid&) const = default;

    float low() const { return scale * static_cast<float>(lowest - zero_point); }
    float high() const { return scale * static_cast<float>(127 - zero_point); }
    bool starts_at_zero() const { return zero_point == lowest; }
};

/// What moves integers without a look at them.
bool moves(const Node& node) {
    static constexpr const char* types[] = {"Reshape", "Transpose", "Flatten",  "Squeeze",      "Unsqueeze",
                                            "Slice",   "Concat",    "Identity", "DepthToSpace", "SpaceToDepth",
                                            "Split",   "Expand",    "Tile",     "Gather"};
    if (node.is("MaxPool")) return node.output(1).empty();
    if (node.is("Resize")) return node.string_or("mode", "nearest") == "nearest";
    return std::ranges::any_of(types, [&](const char* type) { return node.is(type); });
}

/// The inputs of a node that moves integers that are data, not sizes.
std::vector<std::string> moved_inputs(const Node& node) {
    return node.is("Concat") ? node.inputs : std::vector{node.input(0)};
}

/// Integers between the QuantizeLinear that give them and the DequantizeLinear that read them.
struct Region {
    std::vector<Node*> ends;         ///< QuantizeLinear and DequantizeLinear
    std::vector<std::string> values; ///< all in one grid
    bool closed = true;              ///< nothing else gives or reads them
};

class Rewriter {
public:
    Rewriter(Graph& graph, std::int64_t opset) : graph_(graph), opset_(opset) {}

    SymmetricInt8 in_int8(ZeroPoints kept) {
        kept_ = kept;
        products_in_floats();
        take_added(); // with weights to look at
        constants();
        activations();
        take_added();
        if (done_.changed()) remove_dead(graph_);
        return done_;
    }

    void in_floats() {
        floats_ = true;
        products_in_floats();
        take_added();
        constants();
        activations();
        take_added();
        remove_dead(graph_);
    }

private:
    // --- DynamicQuantizeLinear -> MatMulInteger, ConvInteger -> Cast -> Mul of both scales ---------------------------

    void products_in_floats() {
        const Uses uses(graph_);
        for (const auto& node : graph_.nodes) {
            if (node->is("MatMulInteger") || node->is("ConvInteger")) product_in_floats(uses, *node);
            if (node->is("DequantizeLinear")) dequantised_again(uses, *node);
        }
    }

    // x -> DynamicQuantizeLinear -> DequantizeLinear is x
    void dequantised_again(const Uses& uses, Node& node) {
        const Node* dynamic = uses.producer(node.input(0));
        if (dynamic == nullptr || !dynamic->is("DynamicQuantizeLinear") || node.inputs != dynamic->outputs) return;
        become(node, make_node("Identity", {dynamic->input(0)}), Node(node));
        ++done_.floats;
    }

    static Node* only_reader(const Uses& uses, const std::string& value) {
        const auto& readers = uses.consumers(value);
        return uses.use_count(value) == 1 && readers.size() == 1 ? readers[0] : nullptr;
    }

    void product_in_floats(const Uses& uses, Node& node) {
        const Node* dynamic = uses.producer(node.input(0));
        if (dynamic == nullptr || !dynamic->is("DynamicQuantizeLinear") || node.input(2) != dynamic->output(2)) return;
        const Tensor* weight = graph_.constant(node.input(1));
        if (weight == nullptr || !is_byte(weight->type())) return;
        const Node* cast = only_reader(uses, node.output(0));
        if (cast == nullptr || !cast->is("Cast") || cast->int_or("to", 0) != static_cast<int>(DataType::float32))
            return;
        Node* scaled = only_reader(uses, cast->output(0));
        if (scaled == nullptr || !scaled->is("Mul")) return;
        const std::string& factor = scaled->input(scaled->input(0) == cast->output(0) ? 1 : 0);
        const Node* factors = uses.producer(factor);
        if (factors == nullptr || !factors->is("Mul")) return;
        const std::string& scale = factors->input(factors->input(0) == dynamic->output(1) ? 1 : 0);
        const bool of_both = factors->input(0) == dynamic->output(1) || factors->input(1) == dynamic->output(1);
        const Tensor* scales = graph_.constant(scale);
        if (!of_both || scales == nullptr || weight->shape().size() < 2) return;
        // A scale for each column, or filter; of convolutions it has the form [filters, 1, 1].
        const bool conv = node.is("ConvInteger");
        const std::size_t axis = conv ? 0 : weight->shape().size() - 1;
        if (scales->count() != 1 && static_cast<std::int64_t>(scales->count()) != weight->shape()[axis]) return;
        Node dequantise = make_node("DequantizeLinear", {node.input(1)});
        dequantise.inputs.push_back(one_dimension(scale, *scales));
        if (!node.input(3).empty())
            dequantise.inputs.push_back(one_dimension(node.input(3), *graph_.constant(node.input(3))));
        if (scales->count() > 1) dequantise.set("axis", static_cast<std::int64_t>(axis));
        const std::string floats = before(node, std::move(dequantise), node.input(1) + "_float");
        Node product = make_node(conv ? "Conv" : "MatMul", {dynamic->input(0), floats});
        product.attributes = node.attributes;
        product.name = node.name;
        product.outputs = {scaled->output(0)};
        *scaled = std::move(product);
        ++done_.floats;
    }

    std::string one_dimension(const std::string& name, const Tensor& tensor) {
        const auto count = static_cast<std::int64_t>(tensor.count());
        return add_constant(graph_, name, tensor.reshaped(count == 1 ? Shape{} : Shape{count}));
    }

    // --- constants ---------------------------------------------------------------------------------------------------

    void constants() {
        const Uses uses(graph_);
        for (const auto& node : graph_.nodes) {
            if (!node->is("DequantizeLinear")) continue;
            const Tensor* values = graph_.constant(node->input(0));
            const Tensor* scales = graph_.constant(node->input(1));
            if (values == nullptr || scales == nullptr) continue;
            if (scales->type() != DataType::float32 || node->int_or("block_size", 0) != 0) continue;
            const bool is_weight = !floats_ && is_byte(values->type()) && is_multiplied(uses, node->output(0));
            if (!is_weight) fold(*node, *values, *scales);
            if (is_weight) weights(uses, *node, *values, *scales);
        }
    }

    /// Whether what reads the value multiplies in int8 by it.
    bool is_multiplied(const Uses& uses, const std::string& value) const {
        return !graph_.is_output(value) && std::ranges::all_of(uses.consumers(value), [&](const Node* reader) {
            static constexpr const char* products[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
            const bool product = std::ranges::any_of(products, [&](const char* type) { return reader->is(type); });
            return product && reader->input(2) != value;
        });
    }

    /// The stride and size of the axis that has a scale for each index.
    static std::optional<std::pair<std::size_t, std::size_t>> along(const Shape& shape, std::int64_t axis) {
        if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
        if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) return std::nullopt;
        const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(axis);
        return std::pair{static_cast<std::size_t>(element_count(Shape(begin + 1, shape.end()))),
                         static_cast<std::size_t>(*begin)};
    }

    /// For each element, the number of its channel's scale or zero point; nothing if the sizes do not fit.
    static std::optional<std::vector<double>> spread(const std::vector<double>& by_channel, const Tensor& over,
                                                     std::int64_t axis) {
        if (by_channel.size() == 1) return std::vector<double>(over.count(), by_channel[0]);
        const auto place = along(over.shape(), axis);
        if (!place || place->second != by_channel.size()) return std::nullopt;
        std::vector<double> all(over.count());
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = by_channel[i / place->first % place->second];
        return all;
    }

    static std::vector<double> doubles(const std::vector<float>& floats) { return {floats.begin(), floats.end()}; }

    /// Zero points, as many as scales; nothing if they are not constant.
    std::optional<std::vector<double>> zero_points(const Node& node) const {
        if (node.input(2).empty()) return std::vector<double>{0};
        const Tensor* tensor = graph_.constant(node.input(2));
        if (tensor == nullptr) return std::nullopt;
        return doubles(tensor->to_floats());
    }

    /// Biases, factors of normalisations, constants that are added: floats, as int8 gains nothing there.
    void fold(Node& node, const Tensor& values, const Tensor& scales) {
        const std::int64_t axis = node.int_or("axis", 1);
        const auto by = spread(doubles(scales.to_floats()), values, axis);
        const auto zeros = zero_points(node);
        const auto shift = zeros ? spread(*zeros, values, axis) : std::nullopt;
        const auto integers = values.to_int64s();
        if (!by || !shift || integers.size() != values.count()) return;
        std::vector<float> floats(integers.size());
        for (std::size_t i = 0; i < floats.size(); ++i)
            floats[i] = static_cast<float>((static_cast<double>(integers[i]) - (*shift)[i]) * (*by)[i]);
        const std::string name =
            add_constant(graph_, node.input(0) + "_float", Tensor::of_floats("", values.shape(), floats));
        become(node, make_node("Identity", {name}), Node(node));
        ++done_.folded;
    }

    /// Where a tensor of weights with one scale may have one for each channel.
    static std::int64_t channel_axis(const Uses& uses, const Node& node, std::size_t rank) {
        const auto& readers = uses.consumers(node.output(0));
        if (readers.size() != 1 || readers[0]->input(1) != node.output(0)) return -1;
        if (readers[0]->is("Conv")) return 0;
        if (readers[0]->is("Gemm")) return readers[0]->int_or("transB", 0) != 0 ? 0 : 1;
        return readers[0]->is("MatMul") && rank == 2 ? 1 : -1;
    }

    void weights(const Uses& uses, Node& node, const Tensor& values, const Tensor& scales) {
        const auto zeros = zero_points(node);
        const bool is_signed = values.type() == DataType::int8;
        if (!zeros) return;
        if (is_signed && std::ranges::all_of(*zeros, [](double zero) { return zero == 0; })) return;
        std::int64_t axis = node.int_or("axis", 1);
        const auto shift = spread(*zeros, values, axis);
        const auto by = spread(doubles(scales.to_floats()), values, axis);
        if (!shift || !by) return;
        const auto integers = values.to_int64s();
        if (scales.count() == 1 && zeros->size() == 1) axis = channel_axis(uses, node, values.shape().size());
        const auto place = axis < 0 && scales.count() == 1 ? std::nullopt : along(values.shape(), axis);
        const std::size_t inner = place ? place->first : integers.size(), channels = place ? place->second : 1;
        if (integers.empty() || channels == 0) return;
        const auto channel = [&](std::size_t i) { return i / std::max<std::size_t>(inner, 1) % channels; };
        std::vector<double> largest(channels, 0), scale(channels, 1);
        for (std::size_t i = 0; i < integers.size(); ++i) {
            double& most = largest[channel(i)];
            most = std::max(most, std::abs(static_cast<double>(integers[i]) - (*shift)[i]));
            scale[channel(i)] = (*by)[i];
        }
        bool rounded = false;
        std::vector<double> shrunk(channels, 1);
        for (std::size_t c = 0; c < channels; ++c) {
            if (largest[c] <= double{symmetric_steps}) continue;
            shrunk[c] = double{symmetric_steps} / largest[c];
            scale[c] /= shrunk[c];
            rounded = true;
        }
        std::vector<std::int8_t> bytes(integers.size());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const double exact = (static_cast<double>(integers[i]) - (*shift)[i]) * shrunk[channel(i)];
            bytes[i] = static_cast<std::int8_t>(std::nearbyint(exact));
        }
        std::vector<float> floats(scale.begin(), scale.end());
        const bool one = channels == 1;
        const Shape by_channel = one ? Shape{} : Shape{static_cast<std::int64_t>(channels)};
        const std::vector<std::int8_t> none(channels, 0);
        Node symmetric = make_node(
            "DequantizeLinear",
            {add_constant(graph_, node.input(0) + "_int8",
                          Tensor::of("", DataType::int8, values.shape(), std::span<const std::int8_t>(bytes))),
             add_constant(graph_, node.input(1), Tensor::of_floats("", by_channel, floats)),
             add_constant(graph_, node.input(0) + "_zero",
                          Tensor::of("", DataType::int8, by_channel, std::span<const std::int8_t>(none)))});
        if (!one) symmetric.set("axis", axis);
        become(node, std::move(symmetric), Node(node));
        ++(rounded ? done_.weights : done_.shifted);
    }

    // --- activations -------------------------------------------------------------------------------------------------

    std::optional<Grid> grid_of(const Node& node) const {
        const Tensor* scale = graph_.constant(node.input(1));
        if (scale == nullptr || scale->count() != 1 || scale->type() != DataType::float32) return std::nullopt;
        Grid grid{scale->to_floats()[0], 0};
        if (!(grid.scale > 0) || !std::isfinite(grid.scale)) return std::nullopt;
        DataType type = DataType::uint8; // of a QuantizeLinear without a zero point
        if (node.input(2).empty()) {
            if (node.is("DequantizeLinear")) type = type_of(graph_, node.input(0));
            if (const auto said = static_cast<DataType>(node.int_or("output_dtype", 0)); said != DataType::undefined)
                type = said;
        } else {
            const Tensor* zero = graph_.constant(node.input(2));
            if (zero == nullptr || zero->count() != 1) return std::nullopt;
            type = zero->type();
            if (is_byte(type)) grid.zero_point = zero->to_int64s()[0];
        }
        if (!is_byte(type)) return std::nullopt;
        if (type == DataType::uint8) grid.zero_point -= shift_to_signed;
        return grid;
    }

    bool is_unsigned(const Node& node) const {
        if (!node.input(2).empty()) return type_of(graph_, node.input(2)) == DataType::uint8;
        if (node.is("DequantizeLinear")) return type_of(graph_, node.input(0)) == DataType::uint8;
        return node.int_or("output_dtype", static_cast<int>(DataType::uint8)) == static_cast<int>(DataType::uint8);
    }

    void activations() {
        const Uses uses(graph_);
        const ZeroPointPlaces places(graph_, uses, added_);
        std::unordered_set<const Node*> seen;
        std::vector<Node*> ends;
        for (const auto& node : graph_.nodes) {
            const bool dequantises = node->is("DequantizeLinear") && graph_.constant(node->input(0)) == nullptr;
            if (dequantises || node->is("QuantizeLinear")) ends.push_back(node.get());
        }
        for (Node* end : ends) {
            if (seen.contains(end)) continue;
            const Region region = region_of(uses, end->is("QuantizeLinear") ? end->output(0) : end->input(0));
            seen.insert(region.ends.begin(), region.ends.end());
            seen.insert(end);
            region_in_int8(uses, places, region);
        }
    }

    Region region_of(const Uses& uses, const std::string& first) const {
        Region region;
        std::unordered_set<std::string> known{first};
        std::unordered_set<const Node*> ends;
        std::vector<std::string> left{first};
        const auto reach = [&](const std::string& value) {
            if (!value.empty() && known.insert(value).second) left.push_back(value);
        };
        const auto add_end = [&](Node* node) {
            if (ends.insert(node).second) region.ends.push_back(node);
        };
        while (!left.empty()) {
            const std::string value = std::move(left.back());
            left.pop_back();
            Node* producer = uses.producer(value);
            if (producer == nullptr || graph_.is_output(value)) region.closed = false;
            if (producer != nullptr && producer->is("QuantizeLinear")) {
                add_end(producer);
            } else if (producer != nullptr && moves(*producer)) {
                for (const std::string& input : moved_inputs(*producer))
                    reach(input);
                for (const std::string& output : producer->outputs)
                    reach(output);
            } else {
                region.closed = false;
            }
            for (Node* reader : uses.consumers(value)) {
                if (reader->is("DequantizeLinear") && reader->input(0) == value) {
                    add_end(reader);
                } else if (moves(*reader) && std::ranges::count(moved_inputs(*reader), value) > 0) {
                    for (const std::string& output : reader->outputs)
                        reach(output);
                    for (const std::string& input : moved_inputs(*reader))
                        reach(input);
                } else {
                    region.closed = false;
                }
            }
            region.values.push_back(value);
        }
        return region;
    }

    void region_in_int8(const Uses& uses, const ZeroPointPlaces& places, const Region& region) {
        std::vector<std::optional<Grid>> grids;
        for (const Node* end : region.ends)
            grids.push_back(grid_of(*end));
        const bool known = std::ranges::all_of(grids, [](const auto& grid) { return grid.has_value(); });
        const bool one = known && std::ranges::all_of(grids, [&](const auto& grid) { return grid == grids[0]; });
        const bool all_signed = std::ranges::none_of(region.ends, [&](const Node* end) { return is_unsigned(*end); });
        const bool fits =
            known && all_signed && std::ranges::all_of(grids, [](const auto& grid) { return grid->zero_point == 0; });
        if (floats_) {
            if (one && region.closed) region_in_floats(uses, region, *grids[0]);
            return;
        }
        if (fits && region.closed) return;
        if (!one || !region.closed) {
            for (Node* end : region.ends)
                arithmetic(*end);
            return;
        }
        const Grid from = *grids[0];
        Grid to = from;
        if (from.starts_at_zero()) {
            for (Node* end : region.ends) {
                if (end->is("QuantizeLinear") && !never_negative(uses, end->input(0)))
                    end->inputs[0] = before(*end, make_node("Relu", {end->input(0)}), end->input(0) + "_relu");
            }
        }
        if (from.zero_point != 0 && !stays(places, region)) {
            to = {std::max(std::abs(from.low()), std::abs(from.high())) / symmetric_steps, 0};
            ++done_.symmetric;
        } else if (!all_signed) {
            ++done_.shifted;
        } else {
            return;
        }
        const std::string scale = add_constant(graph_, "scale", Tensor::of_floats("", {}, std::vector{to.scale}));
        const std::vector<std::int8_t> number{static_cast<std::int8_t>(to.zero_point)};
        const std::string zero = add_constant(graph_, "zero_point",
                                              Tensor::of("", DataType::int8, {}, std::span<const std::int8_t>(number)));
        for (Node* end : region.ends) {
            end->inputs.resize(3);
            end->inputs[1] = scale;
            end->inputs[2] = zero;
            end->erase_attribute("output_dtype");
        }
        for (const std::string& value : region.values)
            graph_.value_infos.erase(value);
    }

    /// Quantisers leave Relu and Clip to the saturation of what starts at zero.
    void region_in_floats(const Uses& uses, const Region& region, const Grid& grid) {
        for (Node* end : region.ends) {
            const bool bounded = end->is("QuantizeLinear") && grid.starts_at_zero() && opset_ >= 11 &&
                                 !never_negative(uses, end->input(0));
            Node plain = make_node(bounded ? "Clip" : "Identity", {end->input(0)});
            if (bounded) {
                plain.inputs.push_back(add_scalar(graph_, "low", DataType::float32, 0));
                plain.inputs.push_back(add_scalar(graph_, "high", DataType::float32, grid.high()));
            }
            become(*end, std::move(plain), Node(*end));
        }
        for (const std::string& value : region.values)
            graph_.value_infos.erase(value);
    }

    bool never_negative(const Uses& uses, const std::string& value, int depth = 8) const {
        const Node* node = uses.producer(value);
        if (node == nullptr || depth == 0) return false;
        for (const char* type : {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Softplus"}) {
            if (node->is(type)) return true;
        }
        if (node->is("Clip")) {
            const Tensor* low = graph_.constant(node->input(1));
            const float least = low != nullptr && low->count() == 1 ? low->to_floats()[0]
                                                                    : (opset_ < 11 ? node->float_or("min", -1) : -1.0F);
            return least >= 0;
        }
        if (node->is("DequantizeLinear")) {
            const auto grid = grid_of(*node);
            if (grid && grid->starts_at_zero()) return true;
            const Node* quantise = uses.producer(node->input(0));
            return quantise != nullptr && quantise->is("QuantizeLinear") &&
                   never_negative(uses, quantise->input(0), depth - 1);
        }
        if (node->is("Mul") || node->is("Add") || node->is("Concat")) {
            return std::ranges::all_of(node->inputs,
                                       [&](const auto& input) { return never_negative(uses, input, depth - 1); });
        }
        const bool keeps_sign = node->is("AveragePool") || node->is("GlobalAveragePool") || node->is("ReduceMean");
        return (keeps_sign || (moves(*node) && !node->is("Concat"))) && never_negative(uses, node->input(0), depth - 1);
    }

    /// Whether a zero point may stay: see ZeroPointPlaces.
    bool stays(const ZeroPointPlaces& places, const Region& region) const {
        if (kept_ == ZeroPoints::none || region.values.size() != 1) return false;
        return std::ranges::all_of(region.ends, [&](const Node* end) {
            return end->is("QuantizeLinear") ? places.one_kernel_gives(end->input(0)) : places.all_take(end->output(0));
        });
    }

    // --- arithmetic --------------------------------------------------------------------------------------------------

    /// A scale or zero point, broadcast along its axis; "" where the rank is not known.
    std::string beside(const Node& node, const std::string& of) {
        const Tensor* tensor = graph_.constant(of);
        if (tensor == nullptr) { // computed, or given: one number
            const auto info = graph_.info(of);
            const auto shape = info ? info->shape() : std::nullopt;
            return shape && shape->size() < 2 && element_count(*shape) == 1 ? of : "";
        }
        if (tensor->count() == 1) return add_constant(graph_, of, tensor->reshaped({}));
        const auto info = graph_.info(node.input(0));
        if (!info || !info->dims || node.int_or("block_size", 0) != 0) return "";
        const auto rank = static_cast<std::int64_t>(info->dims->size());
        std::int64_t axis = node.int_or("axis", 1);
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank) return "";
        Shape shape(static_cast<std::size_t>(rank), 1);
        shape[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(tensor->count());
        return add_constant(graph_, of, tensor->reshaped(std::move(shape)));
    }

    std::string cast(Node& place, const std::string& value, DataType to, const std::string& stem) {
        Node node = make_node("Cast", {value});
        node.set("to", static_cast<std::int64_t>(to));
        return before(place, std::move(node), stem);
    }

    void arithmetic(Node& node) {
        const bool shifts = !node.input(2).empty();
        if (shifts && !is_byte(type_of(graph_, node.input(2)))) return;
        if (opset_ < 11 || !is_floating(type_of(graph_, node.input(1)))) return;
        if (node.is("DequantizeLinear") && !is_byte(type_of(graph_, node.input(0)))) return;
        const bool unsigned_bytes = is_unsigned(node);
        std::string scale = beside(node, node.input(1));
        const std::string zeros = shifts ? beside(node, node.input(2)) : "";
        if (scale.empty() || (shifts && zeros.empty())) return;
        const DataType type = type_of(graph_, scale);
        const bool narrow = type != DataType::float32; // steps are counted in float32
        if (narrow) scale = cast(node, scale, DataType::float32, scale + "_float");
        const std::string stem = node.output(0);
        const Node origin = node;
        const std::string shift = zeros.empty() ? "" : cast(node, zeros, DataType::float32, zeros + "_float");
        if (node.is("DequantizeLinear")) {
            std::string value = cast(node, node.input(0), DataType::float32, stem + "_cast");
            if (!shift.empty()) value = before(node, make_node("Sub", {value, shift}), stem + "_steps");
            Node scaled = make_node("Mul", {value, scale});
            if (narrow) {
                value = before(node, std::move(scaled), stem + "_wide");
                scaled = make_node("Cast", {value});
                scaled.set("to", static_cast<std::int64_t>(type));
            }
            become(node, std::move(scaled), origin);
        } else {
            std::string value = node.input(0);
            if (type_of(graph_, value) != DataType::float32)
                value = cast(node, value, DataType::float32, stem + "_wide");
            value = before(node, make_node("Div", {value, scale}), stem + "_steps");
            value = before(node, make_node("Round", {value}), stem + "_round");
            if (!shift.empty()) value = before(node, make_node("Add", {value, shift}), stem + "_shifted");
            const float low = unsigned_bytes ? 0.0F : -128.0F;
            value = before(node,
                           make_node("Clip", {value, add_scalar(graph_, "low", DataType::float32, low),
                                              add_scalar(graph_, "high", DataType::float32, low + 255)}),
                           stem + "_clipped");
            Node narrow = make_node("Cast", {value});
            narrow.set("to", static_cast<std::int64_t>(unsigned_bytes ? DataType::uint8 : DataType::int8));
            become(node, std::move(narrow), origin);
        }
        ++done_.arithmetic;
    }

    // --- nodes that are added ----------------------------------------------------------------------------------------

    /// Puts a node before another; the name of what it gives.
    std::string before(const Node& place, Node node, const std::string& stem) {
        const std::string name = graph_.unique_name(stem);
        node.outputs = {name};
        auto& nodes = before_[&place];
        nodes.push_back(std::make_unique<Node>(std::move(node)));
        added_.emplace(name, nodes.back().get());
        return name;
    }

    void take_added() {
        std::vector<std::unique_ptr<Node>> nodes;
        for (auto& node : graph_.nodes) {
            if (const auto found = before_.find(node.get()); found != before_.end())
                std::ranges::move(found->second, std::back_inserter(nodes));
            nodes.push_back(std::move(node));
        }
        graph_.nodes = std::move(nodes);
        before_.clear();
        added_.clear();
    }

    Graph& graph_;
    std::int64_t opset_;
    ZeroPoints kept_ = ZeroPoints::none;
    bool floats_ = false;
    SymmetricInt8 done_;
    std::map<const Node*, std::vector<std::unique_ptr<Node>>> before_;
    std::map<std::string, const Node*> added_;
};

} // namespace

std::string SymmetricInt8::notice() const {
    std::string text;
    const auto add = [&](std::size_t count, const std::string& what) {
        if (count != 0) text += (text.empty() ? "" : "; ") + what + ": " + std::to_string(count);
    };
    add(symmetric, "activations in the symmetric scale of their range");
    add(weights, "weights that are rounded anew without their zero point");
    add(floats, "products in floats whose input would be quantised as it comes");
    return text;
}

SymmetricInt8 write_symmetric_int8(Graph& graph, std::int64_t opset, ZeroPoints kept) {
    return Rewriter(graph, opset).in_int8(kept);
}

std::size_t write_float_form(Graph& graph, std::int64_t opset) {
    write_block_weights_as_floats(graph);
    Rewriter(graph, opset).in_floats();
    return static_cast<std::size_t>(
        std::ranges::count_if(graph.nodes, [](const auto& node) { return node->is("QuantizeLinear"); }));
}

} // namespace lathe
