#include <algorithm>
#include <numeric>

#include "passes/channel_parts.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"

namespace lathe::passes {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Where a channel of the parts comes from: one of the whole's channels, and by spatial axis which of the elements
/// that a step passes over.
struct Place {
    std::int64_t channel = 0;
    Sizes offset;
    bool operator==(const Place&) const = default;
};

/// A value whose channels are each every step-th element of another value's: what SpaceToDepth gives, however it is
/// spelled.
struct Parts {
    std::string whole;
    Sizes steps; ///< by spatial axis
    std::vector<Place> places;
};

/// Every combination of offsets, the last axis fastest.
std::vector<Sizes> all_offsets(const Sizes& steps) {
    std::vector<Sizes> all{{}};
    for (const std::int64_t step : steps) {
        std::vector<Sizes> longer;
        for (const Sizes& each : all) {
            for (std::int64_t offset = 0; offset < step; ++offset) {
                longer.push_back(each);
                longer.back().push_back(offset);
            }
        }
        all = std::move(longer);
    }
    return all;
}

/// The axes' begins and steps of a Slice that runs to the end of each and goes by more than one element; false for
/// another one, and for axes of samples or channels.
bool read_slice(const Site& site, const Node& slice, std::size_t rank, Sizes& begins, Sizes& steps) {
    const Graph& graph = site.graph;
    if (site.context.opset < 10) return false; // they had no steps
    const auto begin = constant_integers(graph, slice, "", 1), end = constant_integers(graph, slice, "", 2),
               axes = constant_integers(graph, slice, "", 3), step = constant_integers(graph, slice, "", 4);
    if (!begin || !end || !axes || !step || axes->size() != begin->size() || end->size() != begin->size() ||
        step->size() != begin->size())
        return false;
    const auto sizes = graph.info(slice.input(0));
    for (std::size_t i = 0; i < axes->size(); ++i) {
        const std::int64_t signed_rank = static_cast<std::int64_t>(rank);
        const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + signed_rank : (*axes)[i];
        if (axis < 2 || axis >= signed_rank) return false;
        const auto at = static_cast<std::size_t>(axis) - 2;
        constexpr std::int64_t no_tensor_is_so_long = std::int64_t{1} << 30;
        bool to_the_end = (*end)[i] >= no_tensor_is_so_long;
        if (!to_the_end && sizes && sizes->shape() && sizes->shape()->size() == rank) {
            const std::int64_t size = (*sizes->shape())[static_cast<std::size_t>(axis)];
            to_the_end = size >= 0 && (*end)[i] >= size;
        }
        if (!to_the_end || steps[at] != 1 || (*step)[i] < 2 || (*begin)[i] < 0 || (*begin)[i] >= (*step)[i])
            return false;
        begins[at] = (*begin)[i];
        steps[at] = (*step)[i];
    }
    return true;
}

/// Concat, along the channels, of Slices of one value.
std::optional<Parts> joined_slices(const Site& site, const Node& concat, std::size_t rank, std::int64_t channels) {
    if (!joins_channels(concat, rank)) return std::nullopt;
    Parts parts;
    const auto count = static_cast<std::int64_t>(concat.inputs.size());
    if (channels % count != 0) return std::nullopt;
    for (const std::string& input : concat.inputs) {
        Sizes begins(rank - 2, 0), steps(rank - 2, 1);
        std::string value = input;
        for (const Node* node = site.uses.producer(value); node != nullptr && node->is("Slice");
             node = site.uses.producer(value)) {
            if (!read_slice(site, *node, rank, begins, steps)) return std::nullopt;
            value = node->input(0);
        }
        if (parts.whole.empty()) {
            parts.whole = value;
            parts.steps = steps;
        }
        if (value != parts.whole || steps != parts.steps) return std::nullopt;
        for (std::int64_t channel = 0; channel < channels / count; ++channel)
            parts.places.push_back({channel, begins});
    }
    return parts;
}

std::optional<Parts> space_to_depth(const Node& node, std::int64_t channels) {
    const std::int64_t step = node.int_or("blocksize", 0);
    if (step < 2 || channels % (step * step) != 0) return std::nullopt;
    Parts parts{node.input(0), {step, step}, {}};
    for (const Sizes& offset : all_offsets(parts.steps)) {
        for (std::int64_t channel = 0; channel < channels / (step * step); ++channel)
            parts.places.push_back({channel, offset});
    }
    return parts;
}

/// PyTorch's pixel_unshuffle, or SpaceToDepth, of images: Reshape to [n, c, h, step, w, step], Transpose, Reshape to
/// [n, c step step, h, w].
std::optional<Parts> reshaped_parts(const Site& site, const Node& last, std::int64_t channels) {
    const Node* turn = site.uses.producer(last.input(0));
    const Node* first = turn == nullptr || !turn->is("Transpose") ? nullptr : site.uses.producer(turn->input(0));
    if (first == nullptr || !first->is("Reshape")) return std::nullopt;
    const auto image = known_sizes(site.graph, first->input(0)), apart = known_sizes(site.graph, first->output(0)),
               joined = known_sizes(site.graph, last.output(0));
    if (!image || !apart || !joined || image->size() != 4 || apart->size() != 6 || joined->size() != 4)
        return std::nullopt;
    const Shape& sizes = *apart;
    const std::int64_t high = sizes[3], wide = sizes[5];
    const bool fits = sizes[0] == (*image)[0] && sizes[1] == (*image)[1] && sizes[2] * high == (*image)[2] &&
                      sizes[4] * wide == (*image)[3] &&
                      *joined == Shape{sizes[0], sizes[1] * high * wide, sizes[2], sizes[4]} &&
                      (*joined)[1] == channels;
    const Sizes order = turn->ints_or("perm", {});
    const bool channel_first = order == Sizes{0, 1, 3, 5, 2, 4};
    if (!fits || high * wide < 2 || (!channel_first && order != Sizes{0, 3, 5, 1, 2, 4})) return std::nullopt;
    Parts parts{first->input(0), {high, wide}, {}};
    const auto offsets = all_offsets(parts.steps);
    for (std::int64_t i = 0; i < channels; ++i) {
        const auto count = static_cast<std::int64_t>(offsets.size());
        const std::int64_t channel = channel_first ? i / count : i % sizes[1];
        const std::int64_t which = channel_first ? i % count : i / sizes[1];
        parts.places.push_back({channel, offsets[static_cast<std::size_t>(which)]});
    }
    return parts;
}

std::optional<Parts> parts_of(const Site& site, const std::string& value, std::size_t rank, std::int64_t channels) {
    const Node* node = site.uses.producer(value);
    if (node == nullptr) return std::nullopt;
    if (node->is("Concat")) return joined_slices(site, *node, rank, channels);
    if (node->is("SpaceToDepth") && rank == 4) return space_to_depth(*node, channels);
    if (node->is("Reshape") && rank == 4) return reshaped_parts(site, *node, channels);
    return std::nullopt;
}

/// Whether each of the whole's elements is in the parts, once. The sizes are then multiples of the steps, or the parts
/// could not be joined.
bool is_complete(const Parts& parts) {
    const auto count = static_cast<std::int64_t>(parts.places.size());
    const std::int64_t step =
        std::accumulate(parts.steps.begin(), parts.steps.end(), std::int64_t{1}, std::multiplies<>());
    if (step < 2 || count % step != 0) return false;
    for (const Sizes& offset : all_offsets(parts.steps)) {
        for (std::int64_t channel = 0; channel < count / step; ++channel) {
            if (std::ranges::find(parts.places, Place{channel, offset}) == parts.places.end()) return false;
        }
    }
    return true;
}

bool read_the_whole(const Site& site) {
    Node& conv = site.root;
    const Tensor* weight = site.graph.constant(conv.input(1));
    constexpr std::int64_t most_channels = 256; // stems; the check above looks for each
    if (weight == nullptr || weight->shape().size() < 3 || weight->shape()[1] > most_channels ||
        conv.int_or("group", 1) != 1 || site.uses.use_count(conv.input(0)) != 1)
        return false;
    const Shape& old = weight->shape();
    const std::size_t spatial = old.size() - 2;
    const auto parts = parts_of(site, conv.input(0), old.size(), old[1]);
    const std::string padding = conv.string_or("auto_pad", "NOTSET");
    if (!parts || !is_complete(*parts) || (padding != "NOTSET" && padding != "VALID")) return false;
    const Sizes dilations = conv.ints_or("dilations", Sizes(spatial, 1));
    Sizes strides = conv.ints_or("strides", Sizes(spatial, 1)), pads = conv.ints_or("pads", Sizes(2 * spatial, 0));
    if (dilations.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial) return false;
    Shape wide = old;
    wide[1] = 0;
    for (const Place& place : parts->places)
        wide[1] = std::max(wide[1], place.channel + 1);
    for (std::size_t i = 0; i < spatial; ++i) {
        if (dilations[i] != 1 && old[i + 2] != 1) return false;
        wide[i + 2] *= parts->steps[i];
        strides[i] *= parts->steps[i];
        pads[i] *= parts->steps[i];
        pads[i + spatial] *= parts->steps[i];
    }
    // Each of the old weights goes to its element's place in the window.
    const std::vector<float> numbers = weight->to_floats();
    std::vector<float> moved(numbers.size());
    const auto window = static_cast<std::size_t>(element_count(Shape(old.begin() + 2, old.end())));
    for (std::size_t from = 0; from < numbers.size(); ++from) {
        const std::size_t filter = from / window / parts->places.size();
        const Place& place = parts->places[from / window % parts->places.size()];
        std::size_t rest = from % window, to = 0, stride = 1;
        for (std::size_t i = spatial; i-- > 0;) {
            const auto size = static_cast<std::size_t>(old[i + 2]);
            const auto at =
                rest % size * static_cast<std::size_t>(parts->steps[i]) + static_cast<std::size_t>(place.offset[i]);
            rest /= size;
            to += at * stride;
            stride *= static_cast<std::size_t>(wide[i + 2]);
        }
        to += (filter * static_cast<std::size_t>(wide[1]) + static_cast<std::size_t>(place.channel)) * stride;
        moved[to] = numbers[from];
    }
    const auto tensor = finite_tensor(weight->type(), wide, moved);
    if (!tensor) return false;
    conv.inputs[0] = parts->whole;
    conv.inputs[1] = add_constant(site.graph, conv.input(1), *tensor);
    conv.erase_attribute("auto_pad");
    conv.set("kernel_shape", Sizes(wide.begin() + 2, wide.end()));
    conv.set("strides", strides);
    conv.set("pads", pads);
    conv.set("dilations", Sizes(spatial, 1));
    return true;
}

} // namespace

//  x -- x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2]
//                  |                                                   x
//                  Concat, by channel                      ==>         |
//                  |                                                   Conv, window 6 x 6, stride 2, padding 2
//                  Conv, window 3 x 3, stride 1, padding 1
//
// The "focus" of YOLOv5 (before 6.0) and YOLOX, SpaceToDepth, PyTorch's pixel_unshuffle: as many products, of a picture
// that need not be taken apart.
Result<bool> merge_space_to_depth(Graph& graph, PassContext& context) {
    static const std::vector<Rule> rules{{Pattern::op("Conv"), read_the_whole}};
    return rewrite(graph, context, rules);
}

} // namespace lathe::passes
