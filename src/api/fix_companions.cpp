#include "api/fix_companions.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "api/model_data.hpp"
#include "data/companions.hpp"
#include "onnx/onnx.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

/// A model for more pictures at once is none that is fed with photos, and a constant for all of them might be large.
constexpr std::int64_t most_samples = 4096;

/// Two numbers of the type.
Tensor pair_of(DataType type, std::array<std::int64_t, 2> numbers) {
    const auto typed = [&]<class T>(T) {
        const std::array<T, 2> values{static_cast<T>(numbers[0]), static_cast<T>(numbers[1])};
        return Tensor::of<T>("", type, {2}, std::span<const T>(values));
    };
    switch (type) {
        case DataType::int32: return typed(std::int32_t{});
        case DataType::float32: return typed(float{});
        case DataType::float64: return typed(double{});
        default: return typed(std::int64_t{});
    }
}

/// The same pair for each of `samples`.
Tensor tiled(const Tensor& pair, std::int64_t samples) {
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < samples; ++i)
        bytes.insert(bytes.end(), pair.bytes().begin(), pair.bytes().end());
    return Tensor("", pair.type(), {samples, 2}, bytes);
}

/// Puts constants and nodes in front of a graph's own in which an input's value is computed from the picture's shape.
class InFront {
public:
    InFront(Graph& graph, std::string picture) : graph_(graph), picture_(std::move(picture)) {}

    std::string constant(Tensor tensor) {
        std::string name = graph_.unique_name("companion_constant");
        tensor.name = name;
        graph_.initializers.insert_or_assign(name, std::move(tensor));
        return name;
    }
    std::string constant(const std::vector<std::int64_t>& values) {
        return constant(Tensor::of_int64s("", {static_cast<std::int64_t>(values.size())}, values));
    }
    std::string sizes(const std::vector<std::int64_t>& axes) {
        if (shape_.empty()) shape_ = add("Shape", {picture_});
        return add("Gather", {shape_, constant(axes)});
    }
    /// `output`: the name of the result; empty: a new one.
    std::string add(const char* type, std::vector<std::string> inputs, std::vector<Attribute> attributes = {},
                    std::string output = "") {
        Node node;
        node.op_type = type;
        if (output.empty()) output = graph_.unique_name("companion");
        node.name = output + "_" + type;
        node.inputs = std::move(inputs);
        node.outputs = {output};
        node.attributes = std::move(attributes);
        graph_.insert(added_++, std::move(node));
        return output;
    }

private:
    Graph& graph_;
    std::string picture_;
    std::string shape_{};
    std::size_t added_ = 0;
};

/// The axes of the picture of which a companion says the sizes.
std::vector<std::int64_t> axes_of(CompanionValue value, const Shape& picture) {
    const std::int64_t height = picture[1] == 3 ? 2 : 1;
    if (value == CompanionValue::width_height) return {height + 1, height};
    return {height, height + 1};
}

//  images: [N, 3, h, w]   sizes: [N, 2]             images
//  |                      |                         |    \ .
//  |                      |                  ==>    |     Shape - Gather(3, 2) - Cast - Expand(N, 2)
//  |                      |                         |                                   |
//  Detector ------------- +                         Detector -------------------------- +
//
// What is known is a constant; N is 1 where the companion says so.
void fix_one(Graph& graph, InFront& front, const Shape& picture, const InputSpec& companion, CompanionValue value) {
    const bool scale = value == CompanionValue::scale;
    const std::vector<std::int64_t> axes = axes_of(value, picture);
    const auto size = [&](std::size_t i) { return scale ? 1 : picture[static_cast<std::size_t>(axes[i])]; };
    const bool known = size(0) > 0 && size(1) > 0;
    const bool batched = companion.shape.size() == 2;
    const std::int64_t samples = !batched || companion.shape[0] > 0 ? companion.shape[0] : picture[0];

    std::erase_if(graph.inputs, [&](const ValueInfo& input) { return input.name == companion.name; });
    if (known && (!batched || samples > 0)) {
        const Tensor pair = pair_of(companion.type, {size(0), size(1)});
        graph.initializers.insert_or_assign(companion.name,
                                            (batched ? tiled(pair, samples) : pair).renamed(companion.name));
        return;
    }
    std::string pair;
    if (known) {
        pair = front.constant(pair_of(companion.type, {size(0), size(1)}));
    } else {
        pair = front.add("Cast", {front.sizes(axes)}, {{"to", static_cast<std::int64_t>(companion.type), ""}});
    }
    if (!batched) {
        front.add("Identity", {pair}, {}, companion.name);
        return;
    }
    const std::string shape =
        samples > 0 ? front.constant(std::vector<std::int64_t>{samples, 2})
                    : front.add("Concat", {front.sizes({0}), front.constant(std::vector<std::int64_t>{2})},
                                {{"axis", std::int64_t{0}, ""}});
    front.add("Expand", {pair, shape}, {}, companion.name);
}

const char* in_words(CompanionValue value) {
    switch (value) {
        case CompanionValue::width_height: return "the width and height of ";
        case CompanionValue::height_width: return "the height and width of ";
        case CompanionValue::scale: break;
    }
    return "1, 1, the scale of ";
}

bool has_nms(const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const auto& node) {
        return node->op_type.find("NonMaxSuppression") != std::string::npos ||
               std::ranges::any_of(node->attributes, [](const Attribute& attribute) {
                   const auto* const body = std::get_if<GraphBox>(&attribute.value);
                   return body != nullptr && has_nms(**body);
               });
    });
}

SizedDetector detector_of(const Graph& graph, const std::vector<std::string>& names) {
    const auto has = [&](const char* name) { return std::ranges::count(names, name) > 0; };
    if (has("orig_target_sizes")) return SizedDetector::transformer;
    if (has("image_shape")) return SizedDetector::keras_yolo;
    return has("im_shape") && !has_nms(graph) ? SizedDetector::paddle_no_nms : SizedDetector::paddle;
}

} // namespace

Result<std::optional<FixedCompanions>> fix_companions(Model& model) {
    const std::vector<InputSpec> inputs = input_specs(model);
    const Companions companions = companions_of(inputs);
    if (companions.others.empty()) return std::optional<FixedCompanions>();
    const InputSpec& picture = inputs[companions.picture];
    const bool open = std::ranges::any_of(picture.shape, [](std::int64_t size) { return size < 0; });
    constexpr std::int64_t first_opset_with_expand = 8;
    if (picture.shape[0] > most_samples || (open && model.opset() < first_opset_with_expand))
        return std::optional<FixedCompanions>();

    Model changed = model;
    InFront front(changed.graph, picture.name);
    FixedCompanions fixed;
    std::vector<std::string> names;
    Json meanings = Json::object();
    for (const Companion& companion : companions.others) {
        const InputSpec& input = inputs[companion.input];
        fix_one(changed.graph, front, picture.shape, input, companion.value);
        const std::string meaning = in_words(companion.value) + picture.name;
        fixed.told += (names.empty() ? "" : ", ") + input.name + " is " + meaning;
        meanings[input.name] = meaning;
        names.push_back(input.name);
    }
    fixed.detector = detector_of(changed.graph, names);
    changed.set_metadata("lathe.fixed_inputs", meanings.dump());
    LATHE_CHECK(infer_shapes(changed, {true, false}));
    model = std::move(changed);
    return std::optional(std::move(fixed));
}

bool lists_all_samples(const Graph& graph) {
    std::size_t rows = 0;
    std::size_t counts = 0;
    for (const ValueInfo& output : graph.outputs) {
        const Shape shape = output.shape().value_or(Shape{});
        if (shape.size() == 2 && shape[1] == 6) ++rows;
        if (shape.size() == 1 && (output.type == DataType::int32 || output.type == DataType::int64)) ++counts;
    }
    return rows == 1 && counts == 1 && graph.outputs.size() == 2;
}

Preprocess usual_preprocess(SizedDetector detector, Preprocess::Size size, Layout layout) {
    Preprocess preprocess;
    preprocess.layout = layout;
    preprocess.scale = 1.0 / 255;
    switch (detector) {
        case SizedDetector::transformer: preprocess.resize = size; break;
        case SizedDetector::paddle:
            preprocess.mean = {0.485, 0.456, 0.406};
            preprocess.std = {0.229, 0.224, 0.225};
            [[fallthrough]];
        case SizedDetector::paddle_no_nms:
            preprocess.resize = size;
            preprocess.interpolation = Interpolation::bilinear_opencv;
            break;
        case SizedDetector::keras_yolo:
            preprocess.letterbox = size;
            preprocess.pad = 128;
            preprocess.interpolation = Interpolation::bicubic;
            break;
    }
    return preprocess;
}

} // namespace lathe
