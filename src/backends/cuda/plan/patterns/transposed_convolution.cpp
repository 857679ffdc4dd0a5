#include <algorithm>
#include <array>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

std::int64_t floor_divided(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A transposed convolution along one dimension. Result s * i + a (phase a) sums, over the taps r for which it is
/// whole, the input at i + (a + pad - r * dilation) / s: a convolution of stride 1 with a window of `size` inputs from
/// i + `first` on, in which a phase has some of the taps.
struct Phases {
    std::int64_t input = 1, output = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
    std::int64_t first = 0, size = 1;
    std::int64_t pad_behind = 0, results = 1; ///< of the convolution

    /// The input of tap r in phase a, counted from i; nothing where there is none.
    std::optional<std::int64_t> offset(std::int64_t a, std::int64_t r) const {
        const std::int64_t at = a + pad - r * dilation;
        if (floor_divided(at, stride) * stride != at) return std::nullopt;
        return floor_divided(at, stride);
    }
    void place() {
        std::int64_t last = 0;
        for (std::int64_t a = 0; a < stride; ++a)
            for (std::int64_t r = 0; r < kernel; ++r)
                if (const auto at = offset(a, r)) {
                    first = std::min(first, *at);
                    last = std::max(last, *at);
                }
        size = last - first + 1;
        // as many results as are wanted, or more where that takes no padding behind the image
        const std::int64_t without = input - first - size + 1;
        results = std::max((output + stride - 1) / stride, without);
        pad_behind = results - without;
    }
};

struct Attributes {
    std::array<Phases, 3> phases; ///< of depths, rows and columns
    std::int64_t groups = 1;
};

Result<Attributes> attributes_of(const Lowering& lowering, const Node& node, const Shape& filter) {
    const Shape &x = lowering.dims(node.input(0)), &y = lowering.dims(node.output(0));
    const std::size_t spatial = x.size() < 2 ? 0 : x.size() - 2;
    if (spatial < 1 || spatial > 3) return Lowering::cannot(node, "only images of one to three dimensions are taken");
    if (filter.size() != x.size() || y.size() != x.size()) return Lowering::cannot(node, "its filters do not fit");
    const auto kernel = node.ints_or("kernel_shape", {filter.begin() + 2, filter.end()});
    const auto strides = node.ints_or("strides", std::vector<std::int64_t>(spatial, 1));
    const auto dilations = node.ints_or("dilations", std::vector<std::int64_t>(spatial, 1));
    const auto more = node.ints_or("output_padding", std::vector<std::int64_t>(spatial, 0));
    auto pads = node.ints_or("pads", std::vector<std::int64_t>(spatial * 2, 0));
    if (kernel.size() != spatial || strides.size() != spatial || dilations.size() != spatial ||
        more.size() != spatial || pads.size() != spatial * 2)
        return Lowering::cannot(node, "its attributes do not fit its input");
    const std::string automatic = node.string_or("auto_pad", "NOTSET");
    if (automatic == "VALID") std::fill(pads.begin(), pads.end(), 0);
    const bool from_size =
        automatic == "SAME_UPPER" || automatic == "SAME_LOWER" || node.attribute("output_shape") != nullptr;
    Attributes found;
    found.groups = node.int_or("group", 1);
    if (found.groups < 1 || x[1] % found.groups != 0 || filter[0] != x[1])
        return Lowering::cannot(node, "its groups do not fit its input");
    for (std::size_t i = 0; i < spatial; ++i) {
        Phases& p = found.phases[i + 3 - spatial];
        p.input = x[i + 2];
        p.output = y[i + 2];
        p.kernel = kernel[i];
        p.stride = strides[i];
        p.dilation = dilations[i];
        p.pad = pads[i];
        if (p.kernel < 1 || p.stride < 1 || p.dilation < 1 || p.kernel != filter[i + 2] || p.stride > 64)
            return Lowering::cannot(node, "a size of zero, or a stride over 64");
        if (from_size) { // the specification's total_padding
            const std::int64_t total = std::max<std::int64_t>(0, p.stride * (p.input - 1) + more[i] +
                                                                     (p.kernel - 1) * p.dilation + 1 - p.output);
            p.pad = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
        }
        if (p.pad < 0) return Lowering::cannot(node, "negative padding");
        p.place();
    }
    return found;
}

/// [C][K][D][R][S], K of a group, to the filters of all phases, [group][z][a][b][K][Dh][Dw][Dd][C of a group, padded],
/// or of `slots` of the depths Dd.
Result<WeightId> pack_phases(Lowering& lowering, const Filter& filter, const Attributes& attributes, ElementType type,
                             std::int64_t padded, const std::string& key, std::int64_t first, std::int64_t slots) {
    const Phases &depths = attributes.phases[0], &rows = attributes.phases[1], &columns = attributes.phases[2];
    const std::int64_t c = filter.values.shape[0], k = filter.values.shape[1], of_group = c / attributes.groups;
    const std::int64_t phases = depths.stride * rows.stride * columns.stride;
    const Shape dims{attributes.groups * phases * k, rows.size, columns.size, slots * padded};
    return lowering.store(key, type, dims, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, filter_floats(lowering, filter, type == ElementType::s8));
        std::vector<float> packed(static_cast<std::size_t>(element_count(dims)), 0.0F);
        // tap (q, r, s) of phase (z, a, b), all its filters
        const auto place = [&](std::array<std::int64_t, 3> phase, std::array<std::int64_t, 3> tap) {
            const auto d = depths.offset(phase[0], tap[0]), h = rows.offset(phase[1], tap[1]),
                       w = columns.offset(phase[2], tap[2]);
            if (!d || !h || !w) return;
            const std::int64_t slot = *d - depths.first - first;
            if (slot < 0 || slot >= slots) return;
            const std::int64_t which = (phase[0] * rows.stride + phase[1]) * columns.stride + phase[2];
            for (std::int64_t ic = 0; ic < c; ++ic) {
                for (std::int64_t ik = 0; ik < k; ++ik) {
                    const std::int64_t channel = (ic / of_group * phases + which) * k + ik;
                    const std::int64_t pixel =
                        (channel * rows.size + *h - rows.first) * columns.size + *w - columns.first;
                    const std::int64_t at = (pixel * slots + slot) * padded + ic % of_group;
                    const std::int64_t from =
                        (((ic * k + ik) * depths.kernel + tap[0]) * rows.kernel + tap[1]) * columns.kernel + tap[2];
                    packed[static_cast<std::size_t>(at)] = values[static_cast<std::size_t>(from)];
                }
            }
        };
        const auto each = [](const Phases& p, auto visit) {
            for (std::int64_t a = 0; a < p.stride; ++a)
                for (std::int64_t r = 0; r < p.kernel; ++r)
                    visit(a, r);
        };
        each(depths, [&](std::int64_t z, std::int64_t q) {
            each(rows, [&](std::int64_t a, std::int64_t r) {
                each(columns, [&](std::int64_t b, std::int64_t t) { place({z, a, b}, {q, r, t}); });
            });
        });
        return converted(packed, type, filter.values.name);
    });
}

//                                   Conv of stride 1, all phases' results side by side as channels
//  ConvTranspose of stride s  ==>   Transpose: [n, i, j, group, a, b, k] to [n, i, a, j, b, group, k]
//   Relu | Clip | ...               Slice, where that is more than the result
//
// The products run on every kernel that convolutions have; a phase's taps that it lacks are zeros (of 4x4 filters of
// stride 2 5 of 9).
Result<void> transposed_convolution(Lowering& lowering, Node& node) {
    const std::string& x = node.input(0);
    const auto filter = lowering.filter(node.input(1));
    if (!filter) return Lowering::cannot(node, "its filters are not constant (or not symmetric int8)");
    Shape taps = filter->values.shape;
    if (taps.size() == 3 && lowering.dims(x).size() == 4) taps.insert(taps.begin() + 2, 1); // an image of one row
    LATHE_TRY(const Attributes attributes, attributes_of(lowering, node, taps));
    const Phases &depths = attributes.phases[0], &rows = attributes.phases[1], &columns = attributes.phases[2];
    const bool volume = lowering.dims(x).size() == 5;
    const auto storage = lowering.stored_type(lowering.type_of(x));
    if (!storage || (*storage != ElementType::f32 && *storage != ElementType::f16 && *storage != ElementType::bf16))
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    // int8 as Q/DQ ask for it, with scales by the result's channel; other Q/DQ are computed in floating point.
    const auto quantised = lowering.quantised_form(x);
    const bool int8 = quantised && lowering.value(*quantised).zero_point == 0 && filter->scales && !volume &&
                      (filter->axis == 1 || filter->scales->count() == 1);
    const ElementType type = int8 ? ElementType::s8 : *storage;
    LATHE_TRY(ValueId in, lowering.want(x, type, Layout::nhwc));

    // The bias once a phase; an activation goes with the products, what else follows comes after the movement.
    const std::int64_t k = filter->values.shape[1], groups = attributes.groups;
    const std::int64_t phases = depths.stride * rows.stride * columns.stride;
    Tail tail;
    tail.end = node.output(0);
    if (auto match = lowering.match_activation(tail.end)) {
        tail.act = match->act;
        tail.low = match->low;
        tail.high = match->high;
        tail.alpha = match->alpha;
        tail.nodes = match->nodes;
        tail.end = match->end;
    }
    // Rounding to int8 commutes with the movement, which is then of bytes.
    Node* reader = lowering.only_reader(tail.end);
    if (int8 && reader != nullptr && reader->is("QuantizeLinear") && reader->input(0) == tail.end) {
        if (const auto found = lowering.grid(*reader); found && found->zero_point == 0) {
            tail.nodes.push_back(reader);
            tail.end = reader->output(0);
            tail.output_scale = found->scale;
        }
    }
    const ElementType result = tail.output_scale ? ElementType::s8 : *storage;
    const float scale = tail.output_scale.value_or(1.0F);
    EpilogueRequest request;
    const auto bias = node.input(2).empty() ? std::nullopt : lowering.constant(node.input(2));
    if (!node.input(2).empty() && (!bias || bias->tensor == nullptr || bias->count() != k * groups))
        return Lowering::cannot(node, "its bias is not constant");
    for (std::int64_t group = 0; group < groups; ++group) {
        EpilogueRequest::Part part;
        part.channels = k;
        if (int8) part.scales = filter->scales;
        if (bias) part.biases.push_back(lowering.part_of(*bias, group * k, k));
        request.parts.insert(request.parts.end(), static_cast<std::size_t>(phases), part);
    }
    request.channels = groups * phases * k;
    request.padded = (request.channels + 15) / 16 * 16;
    request.result = *storage;
    request.factor = int8 ? lowering.value(in).scale : 1.0F;
    LATHE_TRY(const Finished finished, finish_epilogue(lowering, request, tail));

    Conv conv;
    conv.groups = groups;
    conv.window.kernel = {rows.size, columns.size};
    conv.window.pads = {-rows.first, -columns.first, rows.pad_behind, columns.pad_behind};
    conv.epilogue = finished.epilogue;
    std::string key = filter_key(*filter, int8) + "|phases|" + to_string(type) + "|g" + std::to_string(groups);
    for (const Phases& p : attributes.phases)
        for (const std::int64_t n : {p.kernel, p.stride, p.dilation, p.pad})
            key += "|" + std::to_string(n);
    const std::int64_t of_group = filter->values.shape[0] / groups;
    const std::int64_t padded = groups != 1 ? of_group : lowering.value(in).channel_stride;
    key += "|c" + std::to_string(padded);
    const Shape out = lowering.dims(node.output(0));
    const std::int64_t n = out[0], d = depths.results, h = rows.results, w = columns.results;
    const auto image = [&](std::int64_t channels, std::int64_t depth, std::int64_t height, std::int64_t width) {
        return out.size() == 3 ? Shape{n, channels, width}
               : volume        ? Shape{n, channels, depth, height, width}
                               : Shape{n, channels, height, width};
    };
    const std::string inside = tail.end + "/phases"; // a name that no value of the model is read by
    // Groups cannot take in more channels: depths are multiplied one after another, each added to the last.
    const bool in_turns = volume && groups != 1 && depths.size > 1;
    const bool plain_depths = depths.size == 1 && depths.first == 0 && d == lowering.dims(x)[volume ? 2 : 0];
    const auto frames = [&](ValueId id, const std::string& name) {
        const Shape from = lowering.value(id).dims;
        return lowering.make_alias(name, id, {from[0] * from[2], from[1], from[3], from[4]}, Layout::nhwc);
    };
    if (volume && !in_turns) {
        if (!plain_depths)
            in = depth_taps(lowering, node, in, {depths.size, 1, 1, -depths.first, 0}, d, inside + "/taps");
        in = frames(in, inside + "/images");
    }
    const Shape products = volume ? Shape{n * d, request.channels, h, w} : image(request.channels, d, h, w);
    ValueId side = none;
    const std::int64_t turns = in_turns ? depths.size : 1;
    for (std::int64_t turn = 0; turn < turns; ++turn) {
        const bool last = turn + 1 == turns;
        Conv step = conv;
        ValueId from = in;
        if (in_turns) {
            const std::string name = inside + "/" + std::to_string(turn);
            from = frames(depth_taps(lowering, node, in, {1, 1, 1, -depths.first - turn, 0}, d, name + "/tap"), name);
            if (!last) step.epilogue = {};
            step.epilogue.residual = side;
        }
        LATHE_TRY(step.weight, pack_phases(lowering, *filter, attributes, type, padded,
                                           in_turns ? key + "|depth" + std::to_string(turn) : key, turn,
                                           in_turns ? 1 : depths.size));
        const ValueId made = last ? lowering.make(inside, result, products, Layout::nhwc, scale)
                                  : lowering.make(inside + "/sum" + std::to_string(turn), type, products, Layout::nhwc);
        std::vector<ValueId> operands{from};
        if (side != none) operands.push_back(side);
        FusedOp& op = lowering.add(node, tail.nodes, step, std::move(operands), {made}, type);
        op.macs = n * d * h * w * request.channels * depths.size * rows.size * columns.size * of_group / turns;
        op.tf32 = lowering.tf32() && type == ElementType::f32;
        side = made;
    }

    // dense pixels stay images; others are moved as planes
    const bool dense =
        lowering.value(side).channel_stride == request.channels && channel_stride(k * groups, result) == k * groups;
    const Layout layout = dense ? Layout::nhwc : Layout::linear;
    if (volume && groups != 1 && k != 1 && !dense)
        return Lowering::cannot(node, "a volume in groups of several channels, no multiple of 8");
    LATHE_TRY(const ValueId from, lowering.want(inside, result, layout));
    const std::int64_t sd = depths.stride, sh = rows.stride, sw = columns.stride;
    Shape seen, turned;
    std::vector<std::int64_t> order;
    if (volume && dense) {
        seen = {n * d, h, w, groups, sd, sh, sw, k};
        turned = {n * d, sd, h, sh, w, sw, groups, k};
        order = {0, 4, 1, 5, 2, 6, 3, 7};
    } else if (volume && groups != 1) { // of one channel each
        seen = {n, d, groups, sd, sh, sw, h, w};
        turned = {n, groups, d, sd, h, sh, w, sw};
        order = {0, 2, 1, 3, 6, 4, 7, 5};
    } else if (volume) {
        seen = {n, d, sd, sh, sw, k, h, w};
        turned = {n, k, d, sd, h, sh, w, sw};
        order = {0, 5, 1, 2, 6, 3, 7, 4};
    } else if (dense) {
        seen = {n, h, w, groups, sh, sw, k};
        turned = {n, h, sh, w, sw, groups, k};
        order = {0, 1, 4, 2, 5, 3, 6};
    } else {
        seen = {n, groups, sh, sw, k, h, w};
        turned = {n, groups, k, h, sh, w, sw};
        order = {0, 1, 4, 5, 2, 6, 3};
    }
    const ValueId apart = lowering.make_alias(inside + "/apart", from, std::move(seen), Layout::linear);
    const bool cut = d * sd != depths.output || h * sh != rows.output || w * sw != columns.output;
    const ValueId moved = lowering.make(inside + "/moved", result, std::move(turned), Layout::linear, scale);
    lowering.add(node, {}, Transpose{std::move(order)}, {apart}, {moved}, result);
    const std::string whole = cut ? inside + "/whole" : tail.end;
    const ValueId all = lowering.make_alias(whole, moved, image(k * groups, d * sd, h * sh, w * sw), layout);
    if (!cut) return {};
    Slice slice;
    slice.starts.assign(out.size(), 0);
    slice.steps.assign(out.size(), 1);
    const ValueId made = lowering.make(tail.end, result, out, layout, scale);
    lowering.add(node, {}, slice, {all}, {made}, result);
    return {};
}

} // namespace

void add_transposed_convolution(LoweringTable& table) { table.emplace("ConvTranspose", transposed_convolution); }

} // namespace lathe::cuda
