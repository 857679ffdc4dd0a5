#include <algorithm>
#include <array>
#include <numeric>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

/// The form a movement works on: int8 as it is, else floating point or integers.
Result<ValueId> moved(Lowering& lowering, const std::string& value, std::optional<Layout> layout) {
    const bool quantised = lowering.quantised_form(value).has_value();
    if (!quantised) {
        LATHE_TRY(const ValueId any, lowering.want_any(value));
        if (!layout) return any;
        return lowering.want(value, lowering.value(any).type, *layout);
    }
    const ValueId any = *lowering.quantised_form(value);
    if (!layout) return any;
    return lowering.want(value, ElementType::s8, *layout);
}

ValueId result_like(Lowering& lowering, const std::string& to, ValueId source) {
    const Value like = lowering.value(source);
    if (like.type == ElementType::s8 || like.layout != Layout::linear) {
        return lowering.make(to, like.type, lowering.dims(to), like.layout, like.scale);
    }
    return lowering.make_result(to, like.type, like.layout);
}

std::optional<std::vector<std::int64_t>> integers(const Lowering& lowering, const Node& node, std::size_t index,
                                                  const char* attribute) {
    if (!node.input(index).empty()) {
        const auto found = lowering.constant(node.input(index));
        if (!found || found->tensor == nullptr) return std::nullopt;
        return found->tensor->to_int64s();
    }
    if (node.attribute(attribute) == nullptr) return std::nullopt;
    return node.ints_or(attribute, {});
}

/// Forms of a value in a layout, without padding: their bytes are those of the other layout of transposed dims.
std::vector<ValueId> dense_forms(Lowering& lowering, const std::string& value, Layout layout) {
    std::vector<ValueId> found;
    if (!lowering.ready(value)) return found;
    for (const ValueId id : lowering.forms(value)) {
        const Value& form = lowering.value(id);
        const std::int64_t channels = layout == Layout::nhwc ? form.dims[1] : form.dims.back();
        if (form.layout == layout && form.role != Role::output && form.role != Role::constant &&
            channel_stride(channels, form.type) == channels)
            found.push_back(id);
    }
    return found;
}

/// Images whose pixels alone get other sizes stay images: [n, c, h, w] and [n, c, h * w].
bool reshape_pixels(Lowering& lowering, const std::string& from, const std::string& to) {
    const Shape in = lowering.dims(from), out = lowering.dims(to);
    const auto images = [](const Shape& dims) { return dims.size() >= 3 && dims.size() <= 5; };
    if (!images(in) || !images(out) || in[0] != out[0] || in[1] != out[1]) return false;
    if (!lowering.ready(from)) return false;
    const auto is_row = [](const Shape& image, const Shape& line) {
        return image.size() == 4 && line.size() == 3 && image[2] == 1;
    };
    const bool one_row = is_row(in, out) || is_row(out, in);
    bool made = false;
    const std::vector<ValueId> forms = lowering.forms(from);
    for (const ValueId id : forms) {
        const Value& form = lowering.value(id);
        if (form.layout != Layout::nhwc || form.role == Role::output || form.role == Role::constant) continue;
        // What only shows one row as a line keeps padding channels too; else planes are more likely to be wanted.
        if (channel_stride(in[1], form.type) != in[1] && !one_row) continue;
        lowering.make_alias(to, id, out, Layout::nhwc);
        made = true;
    }
    return made;
}

/// A model's input of one dimension that becomes an image of one row is turned as it is converted.
Result<bool> reshape_input_line(Lowering& lowering, const std::string& from, const std::string& to) {
    const Shape in = lowering.dims(from), out = lowering.dims(to);
    if (in.size() != 3 || out != Shape{in[0], in[1], 1, in[2]} || !lowering.ready(from)) return false;
    const auto& forms = lowering.forms(from);
    const auto type = lowering.stored_type(lowering.type_of(from));
    if (forms.size() != 1 || lowering.value(forms[0]).role != Role::input || !type || !is_real(*type)) return false;
    const bool convolved = std::ranges::any_of(lowering.uses().consumers(to), [](const Node* reader) {
        return reader->is("Conv") || reader->is("ConvTranspose") || reader->is("QuantizeLinear");
    });
    if (!convolved) return false;
    LATHE_TRY(const ValueId image, lowering.want(from, *type, Layout::nhwc));
    lowering.make_alias(to, image, out, Layout::nhwc);
    return true;
}

//  Reshape, Flatten, Squeeze, Unsqueeze: the same bytes under other sizes
Result<void> reshape(Lowering& lowering, Node& node) {
    if (reshape_pixels(lowering, node.input(0), node.output(0))) {
        lowering.mark(&node);
        return {};
    }
    LATHE_TRY(const bool turned, reshape_input_line(lowering, node.input(0), node.output(0)));
    if (!turned) LATHE_CHECK(lowering.reshape(node.input(0), node.output(0)));
    lowering.mark(&node);
    return {};
}

Result<void> identity(Lowering& lowering, Node& node) {
    if (node.is("Dropout") && lowering.opset() >= 12 && !node.input(2).empty() &&
        lowering.scalar(node.input(2)) != 0.0F) {
        return Lowering::cannot(node, "in training mode");
    }
    if (node.outputs.size() > 1 && lowering.uses().use_count(node.output(1)) != 0) {
        return Lowering::cannot(node, "its mask is read");
    }
    LATHE_TRY(const ValueId from, moved(lowering, node.input(0), std::nullopt));
    lowering.mark(&node);
    if (lowering.value(from).role == Role::activation) {
        lowering.add_form(node.output(0), from);
        return {};
    }
    const ValueId made = lowering.make(node.output(0), lowering.value(from).type, lowering.dims(node.output(0)),
                                       lowering.value(from).layout, lowering.value(from).scale);
    lowering.add(node, {}, Reformat{}, {from}, {made}, lowering.value(from).type);
    return {};
}

/// Channels of an image to the end, or back: the same bytes in the other layout.
bool transpose_channels(Lowering& lowering, const Node& node, const std::vector<std::int64_t>& order) {
    const Shape out = lowering.dims(node.output(0));
    const bool rank4 = order.size() >= 4;
    const auto is = [&](const std::vector<std::int64_t>& wanted) { return order == wanted; };
    if (is({0, 2, 3, 1}) || is({0, 2, 1}) || is({0, 2, 3, 4, 1})) {
        const auto forms = dense_forms(lowering, node.input(0), Layout::nhwc);
        for (const ValueId id : forms)
            lowering.make_alias(node.output(0), id, out, Layout::linear);
        if (!forms.empty()) return true;
    }
    if (!is({0, 3, 1, 2}) && !is({0, 4, 1, 2, 3}) && !is({0, 2, 1})) return false;
    // Of rank 3 only what becomes an image: others multiply it.
    const Node* reader = lowering.only_reader(node.output(0));
    const bool image = reader != nullptr &&
                       (reader->is("Conv") || (reader->is("Reshape") && lowering.dims(reader->output(0)).size() == 4 &&
                                               lowering.dims(reader->output(0))[1] == out[1]));
    if (!rank4 && !image) return false;
    const auto forms = dense_forms(lowering, node.input(0), Layout::linear);
    for (const ValueId id : forms)
        lowering.make_alias(node.output(0), id, out, Layout::nhwc);
    return !forms.empty();
}

Result<void> transpose(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.input(0));
    std::vector<std::int64_t> order(dims.size());
    std::iota(order.rbegin(), order.rend(), 0);
    order = node.ints_or("perm", order);
    // Only axes of size 1 move: the same bytes.
    std::vector<std::int64_t> large;
    for (const std::int64_t axis : order) {
        if (axis < 0 || static_cast<std::size_t>(axis) >= dims.size()) return Lowering::cannot(node, "its perm");
        if (dims[static_cast<std::size_t>(axis)] != 1) large.push_back(axis);
    }
    if (std::is_sorted(large.begin(), large.end())) {
        LATHE_CHECK(lowering.reshape(node.input(0), node.output(0)));
        lowering.mark(&node);
        return {};
    }
    if (transpose_channels(lowering, node, order)) {
        lowering.mark(&node);
        return {};
    }
    // An image of four axes is read as it lies: one with padding channels is no alias.
    LATHE_TRY(ValueId from, moved(lowering, node.input(0), std::nullopt));
    if (const Value& image = lowering.value(from); image.layout == Layout::nhwc && image.dims.size() == 4) {
        const auto& forms = lowering.forms(node.input(0));
        const auto dense = std::ranges::find_if(forms, [&](ValueId id) {
            return lowering.value(id).layout == Layout::linear && lowering.value(id).type == image.type;
        });
        if (dense != forms.end()) from = *dense;
    } else {
        LATHE_TRY(from, moved(lowering, node.input(0), Layout::linear));
    }
    const ElementType type = lowering.value(from).type;
    const ValueId made = type == ElementType::s8 ? lowering.make(node.output(0), type, lowering.dims(node.output(0)),
                                                                 Layout::linear, lowering.value(from).scale)
                                                 : lowering.make_result(node.output(0), type, Layout::linear);
    lowering.add(node, {}, Transpose{order}, {from}, {made}, type);
    return {};
}

/// Concat, Reshape, Transpose, Reshape that make parts take turns along an axis (ShuffleNet's channel shuffle): the
/// nodes behind the Concat. None: it is something else.
//
//  [n, g, c, ...] -> [n, c, g, ...]
std::vector<Node*> shuffle_behind(Lowering& lowering, const Node& node, std::int64_t axis) {
    const Shape& dims = lowering.dims(node.output(0));
    const auto parts = static_cast<std::int64_t>(node.inputs.size());
    const auto at = static_cast<std::size_t>(axis);
    for (const std::string& input : node.inputs)
        if (lowering.dims(input)[at] * parts != dims[at]) return {};
    Node* apart = lowering.only_reader(node.output(0));
    if (parts < 2 || apart == nullptr || !apart->is("Reshape")) return {};
    Shape wanted = dims;
    wanted[at] /= parts;
    wanted.insert(wanted.begin() + axis, parts);
    if (lowering.dims(apart->output(0)) != wanted) return {};
    Node* turned = lowering.only_reader(apart->output(0));
    if (turned == nullptr || !turned->is("Transpose")) return {};
    std::vector<std::int64_t> order(wanted.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[at], order[at + 1]);
    if (turned->ints_or("perm", {}) != order) return {};
    Node* together = lowering.only_reader(turned->output(0));
    if (together == nullptr || !together->is("Reshape") || lowering.dims(together->output(0)) != dims) return {};
    return {apart, turned, together};
}

/// The form of an input of a concatenation: in the result's type, but a model's input of another floating type that
/// nothing else reads as it lies (a decoder's past), for the kernel to convert.
Result<ValueId> input_to_join(Lowering& lowering, const std::string& input, ElementType type, Layout layout) {
    const auto& forms = lowering.forms(input);
    if (forms.size() == 1 && lowering.only_reader(input) != nullptr) {
        const Value& value = lowering.value(forms[0]);
        if (value.role == Role::input && value.layout == layout && is_real(value.type) && is_real(type))
            return forms[0];
    }
    return lowering.want(input, type, layout);
}

Result<void> concat(Lowering& lowering, Node& node) {
    const Shape out = lowering.dims(node.output(0));
    const auto rank = static_cast<std::int64_t>(out.size());
    Concat detail;
    detail.axis = node.int_or("axis", 0);
    if (detail.axis < 0) detail.axis += rank;
    // int8 if all are, by one scale; images side by side along their channels stay images.
    bool int8 = true;
    bool image = false;
    float scale = 0;
    for (const std::string& input : node.inputs) {
        const auto form = lowering.quantised_form(input);
        int8 = int8 && form && (scale == 0 || scale == lowering.value(*form).scale);
        if (form) scale = lowering.value(*form).scale;
        if (!lowering.ready(input)) return Lowering::cannot(node, "an input is not made");
        for (const ValueId id : lowering.forms(input))
            image = image || lowering.value(id).layout == Layout::nhwc;
    }
    const auto stored = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!stored) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.output(0))));
    const ElementType type = int8 ? ElementType::s8 : *stored;
    const Layout layout = image ? Layout::nhwc : Layout::linear;
    std::vector<ValueId> inputs;
    for (const std::string& input : node.inputs) {
        if (element_count(lowering.dims(input)) == 0) continue;
        LATHE_TRY(const ValueId id, input_to_join(lowering, input, type, layout));
        inputs.push_back(id);
    }
    if (inputs.empty()) return Lowering::cannot(node, "all its inputs are empty");
    std::vector<Node*> behind;
    if (image && detail.axis == 1 && inputs.size() == node.inputs.size())
        behind = shuffle_behind(lowering, node, detail.axis);
    detail.interleaved = !behind.empty();
    const std::string& end = behind.empty() ? node.output(0) : behind.back()->output(0);
    const ValueId made = int8 || image ? lowering.make(end, type, lowering.dims(end), layout, int8 ? scale : 1.0F)
                                       : lowering.make_result(end, type, layout);
    lowering.add(node, behind, detail, std::move(inputs), {made}, type);
    return {};
}

} // namespace

bool part_in_place(Lowering& lowering, const std::string& part, const Shape& out, ValueId whole, const Slice& cut) {
    const Value& from = lowering.value(whole);
    if (from.role == Role::constant || from.role == Role::output || lowering.graph().is_output(part) ||
        element_count(out) == 0)
        return false;
    // Up to the first axis that is cut, all are of one element; behind it all are whole.
    std::size_t axis = 0;
    while (axis < out.size() && out[axis] == 1)
        ++axis;
    std::int64_t first = 0, stride = 1;
    for (std::size_t i = out.size(); i-- > 0; stride *= from.dims[i]) {
        if (cut.steps[i] != 1 && out[i] != 1) return false;
        if (i > axis && out[i] != from.dims[i]) return false;
        first += cut.starts[i] * stride;
    }
    // An image's numbers lie in another order, but sample by sample.
    if (from.layout == Layout::nhwc) {
        if (!std::equal(out.begin() + 1, out.end(), from.dims.begin() + 1) || from.channel_stride != from.dims[1])
            return false;
    }
    if (static_cast<std::size_t>(first) * bytes_of(from.type) % part_alignment != 0) return false;
    const Layout layout = from.layout; // making a value moves all others
    lowering.make_alias(part, whole, out, layout, first);
    return true;
}

namespace {

Result<void> slice(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.input(0));
    const auto rank = static_cast<std::int64_t>(dims.size());
    const auto starts = integers(lowering, node, 1, "starts");
    const auto ends = integers(lowering, node, 2, "ends");
    auto axes = integers(lowering, node, 3, "axes");
    auto steps = integers(lowering, node, 4, "steps");
    if (!starts || !ends) return Lowering::cannot(node, "its bounds are not constant");
    if (!axes) {
        axes.emplace(starts->size());
        std::iota(axes->begin(), axes->end(), 0);
    }
    if (!steps) steps.emplace(starts->size(), 1);
    if (axes->size() != starts->size() || steps->size() != starts->size()) {
        return Lowering::cannot(node, "its bounds do not fit each other");
    }
    Slice detail;
    detail.starts.assign(dims.size(), 0);
    detail.steps.assign(dims.size(), 1);
    for (std::size_t i = 0; i < axes->size(); ++i) {
        std::int64_t axis = (*axes)[i];
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || (*steps)[i] == 0) return Lowering::cannot(node, "an axis or step");
        const std::int64_t size = dims[static_cast<std::size_t>(axis)];
        std::int64_t start = (*starts)[i];
        if (start < 0) start += size;
        start = std::clamp<std::int64_t>(start, 0, (*steps)[i] > 0 ? size : size - 1);
        detail.starts[static_cast<std::size_t>(axis)] = start;
        detail.steps[static_cast<std::size_t>(axis)] = (*steps)[i];
    }
    LATHE_TRY(const ValueId from, moved(lowering, node.input(0), std::nullopt));
    if (part_in_place(lowering, node.output(0), lowering.dims(node.output(0)), from, detail)) {
        lowering.mark(&node);
        return {};
    }
    const ValueId made = result_like(lowering, node.output(0), from);
    lowering.add(node, {}, detail, {from}, {made}, lowering.value(from).type);
    return {};
}

//  DepthToSpace and SpaceToDepth: one transposition of an image as it lies, which is one again if its channels are not
//  padded.
Result<void> blocks(Lowering& lowering, Node& node) {
    const Shape in = lowering.dims(node.input(0)), out = lowering.dims(node.output(0));
    const std::int64_t b = node.int_or("blocksize", 1);
    if (in.size() != 4 || b < 1) return Lowering::cannot(node, "only images of rank 4 are taken");
    LATHE_TRY(ValueId from, moved(lowering, node.input(0), std::nullopt));
    const auto dense = [&](ValueId id) {
        const Value& value = lowering.value(id);
        return value.layout == Layout::nhwc && value.channel_stride == in[1] && value.role != Role::output;
    };
    const bool image = dense(from);
    if (!image) {
        LATHE_TRY(from, moved(lowering, node.input(0), Layout::linear));
    }
    const Value source = lowering.value(from);
    const bool to_image =
        image && channel_stride(out[1], source.type) == out[1] && !lowering.graph().is_output(node.output(0));
    const std::int64_t n = in[0], h = std::min(in[2], out[2]), w = std::min(in[3], out[3]), c = std::min(in[1], out[1]);
    // Where each of the six axes lies in what is read: sample, channel, row and column of blocks, and in a block.
    enum : std::size_t { sample, channel, row, column, above, beside };
    std::vector<std::size_t> from_axes, to_axes;
    if (node.is("DepthToSpace")) {
        const bool channels_first = node.string_or("mode", "DCR") == "CRD";
        const std::vector<std::size_t> depth = channels_first ? std::vector<std::size_t>{channel, above, beside}
                                                              : std::vector<std::size_t>{above, beside, channel};
        from_axes = image ? std::vector<std::size_t>{sample, row, column} : std::vector<std::size_t>{sample};
        from_axes.insert(from_axes.end(), depth.begin(), depth.end());
        if (!image) from_axes.insert(from_axes.end(), {row, column});
        to_axes = to_image ? std::vector<std::size_t>{sample, row, above, column, beside, channel}
                           : std::vector<std::size_t>{sample, channel, row, above, column, beside};
    } else {
        from_axes = image ? std::vector<std::size_t>{sample, row, above, column, beside, channel}
                          : std::vector<std::size_t>{sample, channel, row, above, column, beside};
        to_axes = to_image ? std::vector<std::size_t>{sample, row, column, above, beside, channel}
                           : std::vector<std::size_t>{sample, above, beside, channel, row, column};
    }
    const std::array<std::int64_t, 6> sizes{n, c, h, w, b, b};
    Shape seen, made_dims;
    for (const std::size_t axis : from_axes)
        seen.push_back(sizes[axis]);
    Transpose detail;
    for (const std::size_t axis : to_axes) {
        made_dims.push_back(sizes[axis]);
        detail.order.push_back(std::find(from_axes.begin(), from_axes.end(), axis) - from_axes.begin());
    }
    const ValueId apart = lowering.make_alias(node.output(0) + "/apart", from, seen, Layout::linear);
    const ValueId made =
        lowering.make(node.output(0) + "/blocks", source.type, made_dims, Layout::linear, source.scale);
    lowering.value(made).zero_point = source.zero_point;
    lowering.add(node, {}, std::move(detail), {apart}, {made}, source.type);
    lowering.make_alias(node.output(0), made, out, to_image ? Layout::nhwc : Layout::linear);
    return {};
}

Result<void> split(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.input(0));
    std::int64_t axis = node.int_or("axis", 0);
    if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
    LATHE_TRY(const ValueId from, moved(lowering, node.input(0), std::nullopt));
    std::int64_t at = 0;
    for (const std::string& output : node.outputs) {
        if (output.empty()) return Lowering::cannot(node, "an omitted output");
        Slice detail;
        detail.starts.assign(dims.size(), 0);
        detail.steps.assign(dims.size(), 1);
        detail.starts[static_cast<std::size_t>(axis)] = at;
        at += lowering.dims(output)[static_cast<std::size_t>(axis)];
        if (part_in_place(lowering, output, lowering.dims(output), from, detail)) {
            lowering.mark(&node);
            continue;
        }
        const ValueId made = result_like(lowering, output, from);
        lowering.add(node, {}, detail, {from}, {made}, lowering.value(from).type);
    }
    return {};
}

Result<void> resize(Lowering& lowering, Node& node) {
    const Shape in = lowering.dims(node.input(0));
    const Shape out = lowering.dims(node.output(0));
    const std::size_t rank = in.size();
    if ((rank != 4 && rank != 5) || in[0] != out[0] || in[1] != out[1]) {
        return Lowering::cannot(node, "only images and volumes are resized, other than along samples and channels");
    }
    Resize detail;
    const std::string mode = node.string_or("mode", "nearest");
    if (mode == "nearest") {
        detail.mode = ResizeMode::nearest;
    } else if (mode == "linear") {
        detail.mode = ResizeMode::linear;
    } else if (mode == "cubic") {
        detail.mode = ResizeMode::cubic;
    } else {
        return Lowering::cannot(node, "mode " + mode);
    }
    const bool old = node.is("Upsample") || lowering.opset() < 11;
    detail.coordinates = old ? "asymmetric" : node.string_or("coordinate_transformation_mode", "half_pixel");
    detail.nearest = old ? "floor" : node.string_or("nearest_mode", "round_prefer_floor");
    detail.cubic_a = node.float_or("cubic_coeff_a", -0.75F);
    if (detail.mode != ResizeMode::nearest) detail.nearest.clear();
    const bool known = detail.coordinates == "half_pixel" || detail.coordinates == "asymmetric" ||
                       detail.coordinates == "align_corners" || detail.coordinates == "pytorch_half_pixel";
    if (!known || node.int_or("antialias", 0) != 0 || node.int_or("exclude_outside", 0) != 0 ||
        node.string_or("keep_aspect_ratio_policy", "stretch") != "stretch" || node.attribute("axes") != nullptr) {
        return Lowering::cannot(node, "this form of it (antialias, exclude_outside, axes, cropping)");
    }
    for (std::size_t axis = 0; axis < rank; ++axis)
        detail.scales.push_back(static_cast<float>(out[axis]) / static_cast<float>(in[axis]));
    const auto given = lowering.constant(node.is("Upsample") || lowering.opset() < 11 ? node.input(1) : node.input(2));
    if (given && given->count() == static_cast<std::int64_t>(rank) && is_floating(given->type)) {
        LATHE_TRY(detail.scales, lowering.floats(*given));
    }
    for (std::size_t axis = 2; axis < rank; ++axis) {
        // Sizes are cut to integers, but align_corners is defined by the size before that.
        const float exact = static_cast<float>(in[axis]) * detail.scales[axis];
        if (detail.coordinates == "align_corners" && exact != static_cast<float>(out[axis])) {
            return Lowering::cannot(node, "align_corners with scales that give no whole size");
        }
    }
    if (rank == 5) return volume_resize(lowering, node, detail);
    // int8 only where numbers are copied.
    const auto type = lowering.stored_type(lowering.type_of(node.input(0)));
    if (!type) return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(node.input(0))));
    const bool int8 = detail.mode == ResizeMode::nearest && lowering.quantised_form(node.input(0)).has_value();
    LATHE_TRY(const ValueId from, lowering.want(node.input(0), int8 ? ElementType::s8 : *type, Layout::nhwc));
    const ValueId made = result_like(lowering, node.output(0), from);
    lowering.add(node, {}, detail, {from}, {made}, lowering.value(from).type);
    return {};
}

} // namespace

void add_movement(LoweringTable& table) {
    for (const char* name : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
        table.emplace(name, reshape);
    table.emplace("Identity", identity);
    table.emplace("Dropout", identity);
    table.emplace("Transpose", transpose);
    table.emplace("Concat", concat);
    table.emplace("Slice", slice);
    table.emplace("DepthToSpace", blocks);
    table.emplace("SpaceToDepth", blocks);
    table.emplace("Split", split);
    table.emplace("Resize", resize);
    table.emplace("Upsample", resize);
}

} // namespace lathe::cuda
