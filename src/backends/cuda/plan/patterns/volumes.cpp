// Volumes: videos, scans. A value [N, C, D, H, W] lies in nhwc as its depths' images do one behind the other, so that
// it is, without a copy, N D images, or N images of D rows of H W pixels each. What is known of images then serves.

#include <algorithm>
#include <array>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

/// The value as N D images of H W pixels.
Shape as_frames(const Shape& dims) { return {dims[0] * dims[2], dims[1], dims[3], dims[4]}; }
/// The value as N images of D rows, H W pixels each.
Shape as_rows(const Shape& dims) { return {dims[0], dims[1], dims[2], dims[3] * dims[4]}; }

/// A volume that is in the plan, seen in other sizes; under a name that no value of the model is read by.
ValueId seen(Lowering& lowering, ValueId volume, const std::string& name, Shape dims) {
    return lowering.make_alias(name, volume, std::move(dims), Layout::nhwc);
}

/// A window of depths, of rows.
Window rows_window(const DepthWindow& depth) {
    Window window;
    window.kernel[0] = depth.kernel;
    window.stride[0] = depth.stride;
    window.dilation[0] = depth.dilation;
    window.pads[0] = depth.before;
    window.pads[2] = depth.after;
    return window;
}

/// [K][C][D][R][S] (C of a group) to [K][R][S][T][C padded], depths `first` to `first + T` of the filters beside one
/// another as channels; depthwise [T * R][S][C padded]. `rows`: depths are rows of one pixel, [K][D][1][C].
struct Packing {
    std::int64_t first = 0, depths = 1;
    std::int64_t padded = 1; ///< channels of a depth
    bool depthwise = false, rows = false;
};
Result<WeightId> pack(Lowering& lowering, const Filter& filter, const Packing& how, ElementType type) {
    const bool raw = type == ElementType::s8;
    const Shape& shape = filter.values.shape;
    const std::int64_t k = shape[0], c = shape[1], area = shape[3] * shape[4], all = shape[2];
    const Shape dims = how.depthwise ? Shape{how.depths * shape[3], shape[4], how.padded}
                       : how.rows    ? Shape{k, all, 1, how.padded}
                                     : Shape{k, shape[3], shape[4], how.depths * how.padded};
    const std::string key = filter_key(filter, raw) +
                            (how.depthwise ? "|rsc"
                             : how.rows    ? "|kdc"
                                           : "|krstc") +
                            std::to_string(how.first) + "+" + std::to_string(how.depths) + "|" + to_string(type) +
                            "|c" + std::to_string(how.padded);
    return lowering.store(key, type, dims, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(const auto values, filter_floats(lowering, filter, raw));
        std::vector<float> packed(static_cast<std::size_t>(element_count(dims)), 0.0F);
        for (std::int64_t ik = 0; ik < k; ++ik) {
            for (std::int64_t ic = 0; ic < c; ++ic) {
                for (std::int64_t t = 0; t < how.depths; ++t) {
                    for (std::int64_t at = 0; at < area; ++at) {
                        const std::int64_t from = ((ik * c + ic) * all + how.first + t) * area + at;
                        const std::int64_t to = how.depthwise ? (t * area + at) * how.padded + ik
                                                : how.rows    ? (ik * all + t) * how.padded + ic
                                                              : ((ik * area + at) * how.depths + t) * how.padded + ic;
                        packed[static_cast<std::size_t>(to)] = values[static_cast<std::size_t>(from)];
                    }
                }
            }
        }
        return converted(packed, type, filter.values.name);
    });
}

/// An activation alone.
Tail activation_behind(const Lowering& lowering, const std::string& value) {
    Tail tail;
    tail.end = value;
    if (auto match = lowering.match_activation(value)) {
        tail.act = match->act;
        tail.low = match->low;
        tail.high = match->high;
        tail.alpha = match->alpha;
        tail.nodes = match->nodes;
        tail.end = match->end;
    }
    return tail;
}

void add_product(Lowering& lowering, Node& node, OpDetail detail, const Epilogue& epilogue, ValueId in, ValueId out,
                 std::int64_t macs, ElementType compute) {
    std::vector<ValueId> inputs{in};
    if (epilogue.residual != none) inputs.push_back(epilogue.residual);
    FusedOp& op = lowering.add(node, {}, std::move(detail), std::move(inputs), {out}, compute);
    op.macs = macs;
    op.tf32 = lowering.tf32() && compute == ElementType::f32;
}

/// The volume as floats, or as int8 where that may be.
Result<ValueId> volume(Lowering& lowering, const Node& node, bool may_be_int8) {
    const std::string& x = node.input(0);
    const auto type = lowering.stored_type(lowering.type_of(x));
    const bool quantised = may_be_int8 && lowering.quantised_form(x).has_value();
    if (!type || (!is_real(*type) && !quantised))
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    return lowering.want(x, quantised ? ElementType::s8 : *type, Layout::nhwc);
}

ValueId like(Lowering& lowering, ValueId x, const std::string& name, Shape dims) {
    const Value value = lowering.value(x);
    const ValueId made = lowering.make(name, value.type, std::move(dims), Layout::nhwc, value.scale);
    lowering.value(made).zero_point = value.zero_point;
    return made;
}

} // namespace

ValueId depth_taps(Lowering& lowering, const Node& node, ValueId in, const DepthWindow& window, std::int64_t depths,
                   const std::string& name) {
    const Value x = lowering.value(in);
    Shape dims = x.dims;
    if (window.kernel > 1) dims[1] = window.kernel * x.channel_stride;
    dims[2] = depths;
    Indexed taps;
    taps.kind = IndexedKind::depth_taps;
    taps.axis = window.stride;
    taps.mode = static_cast<std::int32_t>(window.dilation);
    taps.number = window.before;
    const ValueId made = lowering.make(name, x.type, dims, Layout::nhwc, x.scale);
    lowering.add(node, {}, taps, {in}, {made}, x.type);
    return made;
}

//  Conv of a volume, window D x R x S   ==>   depth_taps: D depths beside one another as channels
//                                             Conv of N D' images, window R x S, D times as many channels
//
// A window of one depth needs no taps, one of one pixel is a window of D rows. Groups cannot take in more channels:
// their depths are convolved one after another, each added to the last. A depthwise kernel takes the depths itself.
Result<void> volume_convolution(Lowering& lowering, Node& node) {
    const std::string& x = node.input(0);
    const Shape input = lowering.dims(x), output = lowering.dims(node.output(0));
    const auto filter = lowering.filter(node.input(1));
    if (!filter) return Lowering::cannot(node, "its filters are not constant (or not symmetric int8)");
    const Shape& shape = filter->values.shape;
    if (shape.size() != 5) return Lowering::cannot(node, "its filters do not fit its input");
    LATHE_TRY(const VolumeWindow window, volume_window_of(node, input, {shape.begin() + 2, shape.end()}));
    const std::int64_t groups = node.int_or("group", 1), k = shape[0], c = input[1];
    const bool depthwise = groups != 1 && groups == c && groups == k;
    const auto storage = lowering.stored_type(lowering.type_of(x));
    if (!storage || (!is_real(*storage) && *storage != ElementType::s8))
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    const auto quantised = lowering.quantised_form(x);
    const bool int8 =
        quantised && filter->scales && filter->axis == 0 && groups == 1 && lowering.value(*quantised).zero_point == 0;
    const ElementType compute = int8 ? ElementType::s8 : *storage;
    if (!int8 && !is_real(compute)) return Lowering::cannot(node, "int8 in groups, or with a zero point");
    const DepthWindow& depth = window.depth;
    const Window& plane = window.plane;
    const bool in_turns = groups != 1 && !depthwise && depth.kernel > 1; // the residual is then the sum so far
    Tail tail = in_turns ? activation_behind(lowering, node.output(0)) : lowering.follow(node.output(0), 1);
    LATHE_TRY(ValueId in, lowering.want(x, compute, Layout::nhwc));

    EpilogueRequest request;
    EpilogueRequest::Part part;
    part.channels = k;
    if (int8) part.scales = filter->scales;
    if (!node.input(2).empty()) {
        const auto bias = lowering.constant(node.input(2));
        if (!bias) return Lowering::cannot(node, "its bias is not constant");
        part.biases.push_back(*bias);
    }
    request.parts.push_back(std::move(part));
    request.factor = int8 ? lowering.value(in).scale : 1.0F;
    request.channels = k;
    request.padded = (k + 15) / 16 * 16;
    request.result = *storage;
    LATHE_TRY(Finished finished, finish_epilogue(lowering, request, tail));

    const auto all = [](const auto& list, std::int64_t n) {
        return std::ranges::all_of(list, [n](std::int64_t each) { return each == n; });
    };
    const bool one_pixel = all(plane.kernel, 1) && all(plane.stride, 1) && all(plane.pads, 0);
    const bool one_depth = depth.kernel == 1 && depth.stride == 1 && depth.before == 0 && depth.after == 0;
    const bool rows = one_pixel && !one_depth && groups == 1;
    const Shape sizes = rows ? as_rows(output) : as_frames(output);
    const std::int64_t macs = element_count(output) * (c / groups) * depth.kernel * plane.kernel[0] * plane.kernel[1];
    const std::string inside = tail.end + "/images"; // a name that no value of the model is read by
    if (finished.residual != none) {
        finished.residual = seen(lowering, finished.residual, inside + "/residual", sizes);
        finished.epilogue.residual = finished.residual;
    }
    const auto result = [&](const std::string& name, ElementType type) {
        return lowering.make(name, type, sizes, Layout::nhwc, tail.output_scale.value_or(1.0F));
    };
    const std::int64_t stride = lowering.value(in).channel_stride;
    ValueId out = none;
    if (!in_turns) {
        Packing how;
        how.rows = rows;
        how.depths = depth.kernel;
        how.padded = groups == 1 || depthwise ? stride : c / groups;
        how.depthwise = depthwise;
        Window seen_window = plane;
        if (rows) {
            seen_window = rows_window(depth);
        } else if (!one_depth && !depthwise) {
            in = depth_taps(lowering, node, in, depth, output[2], inside + "/taps");
        }
        const Shape from = lowering.value(in).dims;
        in = seen(lowering, in, inside + "/in", rows ? as_rows(from) : as_frames(from));
        LATHE_TRY(const WeightId weight, pack(lowering, *filter, how, compute));
        out = result(inside, finished.type);
        OpDetail detail;
        if (depthwise)
            detail = Depthwise{
                seen_window, weight, finished.epilogue,
                one_depth ? Depths{}
                          : Depths{depth.kernel, depth.stride, depth.dilation, depth.before, input[2], output[2]}};
        else
            detail = Conv{seen_window, groups, weight, false, finished.epilogue, false, {}};
        add_product(lowering, node, std::move(detail), finished.epilogue, in, out, macs, compute);
    } else {
        for (std::int64_t t = 0; t < depth.kernel; ++t) {
            const std::string step = inside + "/" + std::to_string(t);
            DepthWindow one = depth;
            one.kernel = 1;
            one.before = depth.before - t * depth.dilation;
            const ValueId tap = depth_taps(lowering, node, in, one, output[2], step + "/tap");
            const ValueId frames = seen(lowering, tap, step + "/in", as_frames(lowering.value(tap).dims));
            const bool last = t + 1 == depth.kernel;
            Packing how;
            how.first = t;
            how.padded = c / groups;
            LATHE_TRY(const WeightId weight, pack(lowering, *filter, how, compute));
            Epilogue epilogue;
            if (last) epilogue = finished.epilogue;
            epilogue.residual = out;
            const ValueId made = result(step, last ? finished.type : compute);
            add_product(lowering, node, Conv{plane, groups, weight, false, epilogue, false, {}}, epilogue, frames, made,
                        macs / depth.kernel, compute);
            out = made;
        }
    }
    for (const Node* each : tail.nodes)
        lowering.mark(each);
    lowering.value(out).zero_point = tail.output_zero_point;
    seen(lowering, out, tail.end, lowering.dims(tail.end));
    return {};
}

//  MaxPool, AveragePool of D x R x S   ==>   a pool of R x S over images, and one of D x 1 over rows of all their
//  pixels
//
// Maxima do not mind, and how many numbers a window holds is a product of how many it holds along each axis.
Result<void> volume_pool(Lowering& lowering, Node& node) {
    const Shape input = lowering.dims(node.input(0)), output = lowering.dims(node.output(0));
    LATHE_TRY(const VolumeWindow window, volume_window_of(node, input, {}));
    Pool detail;
    detail.average = node.is("AveragePool");
    detail.count_pad = node.int_or("count_include_pad", 0) != 0;
    LATHE_TRY(const ValueId in, volume(lowering, node, !detail.average));
    const ElementType type = lowering.value(in).type;
    const std::string& y = node.output(0);
    Shape between = input;
    between[3] = output[3];
    between[4] = output[4];
    const ValueId frames = like(lowering, in, y + "/images", as_frames(between));
    detail.window = window.plane;
    lowering.add(node, {}, detail, {seen(lowering, in, y + "/in", as_frames(input))}, {frames}, type);
    const DepthWindow& depth = window.depth;
    if (depth.kernel == 1 && depth.stride == 1 && depth.before == 0 && depth.after == 0) {
        seen(lowering, frames, y, output);
        return {};
    }
    detail.window = rows_window(depth);
    const ValueId rows = like(lowering, in, y + "/rows", as_rows(output));
    lowering.add(node, {}, detail, {seen(lowering, frames, y + "/columns", as_rows(between))}, {rows}, type);
    seen(lowering, rows, y, output);
    return {};
}

Result<void> volume_global_pool(Lowering& lowering, Node& node) {
    const Shape input = lowering.dims(node.input(0));
    const std::string& y = node.output(0);
    GlobalPool detail;
    detail.average = node.is("GlobalAveragePool");
    LATHE_TRY(const ValueId in, volume(lowering, node, !detail.average));
    const ValueId whole = seen(lowering, in, y + "/in", {input[0], input[1], input[2] * input[3], input[4]});
    const ValueId made = like(lowering, in, y + "/image", {input[0], input[1], 1, 1});
    lowering.add(node, {}, detail, {whole}, {made}, lowering.value(in).type);
    seen(lowering, made, y, lowering.dims(y));
    return {};
}

//  Resize of a volume   ==>   of its images, then of its depths: weights are a product of each axis's
Result<void> volume_resize(Lowering& lowering, Node& node, Resize detail) {
    const Shape input = lowering.dims(node.input(0)), output = lowering.dims(node.output(0));
    const std::vector<float> scales = detail.scales;
    LATHE_TRY(const ValueId in, volume(lowering, node, detail.mode == ResizeMode::nearest));
    const ElementType type = lowering.value(in).type;
    const std::string& y = node.output(0);
    Shape between = input;
    between[3] = output[3];
    between[4] = output[4];
    ValueId last = in;
    if (between != input || scales[3] != 1 || scales[4] != 1) {
        detail.scales = {1, 1, scales[3], scales[4]};
        const ValueId images = like(lowering, in, y + "/images", as_frames(between));
        lowering.add(node, {}, detail, {seen(lowering, in, y + "/in", as_frames(input))}, {images}, type);
        last = seen(lowering, images, y + "/between", between);
    }
    if (between != output || scales[2] != 1) {
        detail.scales = {1, 1, scales[2], 1};
        const ValueId rows = like(lowering, in, y + "/rows", as_rows(output));
        lowering.add(node, {}, detail, {seen(lowering, last, y + "/columns", as_rows(between))}, {rows}, type);
        last = rows;
    }
    lowering.mark(&node);
    seen(lowering, last, y, output);
    return {};
}

} // namespace lathe::cuda
