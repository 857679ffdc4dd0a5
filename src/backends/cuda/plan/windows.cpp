#include "backends/cuda/plan/windows.hpp"

#include <algorithm>

namespace lathe::cuda {

Result<Spans> spans_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel) {
    const std::size_t spatial = input.size() - 2;
    const auto refuse = [&](std::string why) {
        return Error{ErrorCode::unsupported, std::move(why), node.op_type + " " + node.label(), ""};
    };
    Spans s;
    s.kernel = node.ints_or("kernel_shape", std::move(kernel));
    s.strides = node.ints_or("strides", std::vector<std::int64_t>(spatial, 1));
    s.dilations = node.ints_or("dilations", std::vector<std::int64_t>(spatial, 1));
    s.pads = node.ints_or("pads", std::vector<std::int64_t>(spatial * 2, 0));
    if (s.kernel.size() != spatial || s.strides.size() != spatial || s.dilations.size() != spatial ||
        s.pads.size() != spatial * 2) {
        return refuse("its attributes do not fit its input");
    }
    const auto negative = [](std::int64_t n) { return n < 0; };
    const auto not_positive = [](std::int64_t n) { return n <= 0; };
    if (std::any_of(s.pads.begin(), s.pads.end(), negative) ||
        std::any_of(s.strides.begin(), s.strides.end(), not_positive) ||
        std::any_of(s.dilations.begin(), s.dilations.end(), not_positive) ||
        std::any_of(s.kernel.begin(), s.kernel.end(), not_positive)) {
        return refuse("negative padding, or a size of zero");
    }
    const std::string automatic = node.string_or("auto_pad", "NOTSET");
    if (automatic == "VALID") std::fill(s.pads.begin(), s.pads.end(), 0);
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
        for (std::size_t i = 0; i < spatial; ++i) {
            const std::int64_t size = input[i + 2];
            const std::int64_t out = (size + s.strides[i] - 1) / s.strides[i];
            const std::int64_t total =
                std::max<std::int64_t>(0, (out - 1) * s.strides[i] + (s.kernel[i] - 1) * s.dilations[i] + 1 - size);
            const std::int64_t less = total / 2;
            s.pads[i] = automatic == "SAME_UPPER" ? less : total - less;
            s.pads[i + spatial] = total - s.pads[i];
        }
    }
    return s;
}

namespace {

/// The last axes of the spans, two at most.
Window window_of(const Spans& s, std::size_t first) {
    const std::size_t spatial = s.kernel.size();
    Window window;
    for (std::size_t i = first; i < spatial; ++i) {
        const std::size_t at = i + 2 - spatial;
        window.kernel[at] = s.kernel[i];
        window.stride[at] = s.strides[i];
        window.dilation[at] = s.dilations[i];
        window.pads[at] = s.pads[i];
        window.pads[at + 2] = s.pads[i + spatial];
    }
    return window;
}

} // namespace

std::vector<std::int64_t> places_of_windows(const Spans& spans, const Shape& x, const Shape& y) {
    const Shape pixels(x.begin() + 2, x.end()), results(y.begin() + 2, y.end());
    const std::int64_t taps = element_count(spans.kernel), all = element_count(results);
    std::vector<std::int64_t> places;
    places.reserve(static_cast<std::size_t>(taps * all));
    for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t result = 0; result < all; ++result) {
            std::int64_t place = 0, stride = 1, rest_of_tap = tap, rest = result;
            bool inside = true;
            for (std::size_t i = pixels.size(); i-- > 0;) {
                const std::int64_t at = rest % results[i] * spans.strides[i] +
                                        rest_of_tap % spans.kernel[i] * spans.dilations[i] - spans.pads[i];
                rest /= results[i];
                rest_of_tap /= spans.kernel[i];
                inside = inside && at >= 0 && at < pixels[i];
                place += at * stride;
                stride *= pixels[i];
            }
            places.push_back(inside ? place : element_count(pixels));
        }
    }
    return places;
}

Result<Window> window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel) {
    if (input.size() != 3 && input.size() != 4) {
        return Error{ErrorCode::unsupported, "only images of one or two dimensions are taken",
                     node.op_type + " " + node.label(), ""};
    }
    LATHE_TRY(const Spans spans, spans_of(node, input, std::move(kernel)));
    return window_of(spans, 0);
}

Result<VolumeWindow> volume_window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel) {
    if (input.size() != 5) {
        return Error{ErrorCode::unsupported, "only volumes are taken", node.op_type + " " + node.label(), ""};
    }
    LATHE_TRY(const Spans s, spans_of(node, input, std::move(kernel)));
    return VolumeWindow{{s.kernel[0], s.strides[0], s.dilations[0], s.pads[0], s.pads[3]}, window_of(s, 1)};
}

} // namespace lathe::cuda
