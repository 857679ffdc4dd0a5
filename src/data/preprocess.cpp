#include "data/preprocess.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace lathe {

namespace {

/// int(round((available - wanted) / 2.0)) with Python's rounding of halves to even.
std::ptrdiff_t crop_offset(std::size_t available, std::size_t wanted) {
    const double difference = static_cast<double>(available) - static_cast<double>(wanted);
    return static_cast<std::ptrdiff_t>(std::nearbyint(difference / 2.0));
}

/// How much larger a picture becomes in a letterbox.
double letterbox_ratio(const Preprocess::Size& box, std::size_t width, std::size_t height) {
    return std::min(static_cast<double>(box.width) / static_cast<double>(width),
                    static_cast<double>(box.height) / static_cast<double>(height));
}

/// A side of the picture in it.
std::size_t letterbox_side(double length, std::size_t most, Alignment align) {
    const double whole = align == Alignment::top_left ? std::trunc(length) : std::nearbyint(length);
    return std::clamp<std::size_t>(static_cast<std::size_t>(whole), 1, most);
}

} // namespace

Preprocess::Size Preprocess::output_size() const {
    if (crop) return *crop;
    if (letterbox) return *letterbox;
    return resize.value_or(Size{});
}

Shape Preprocess::output_shape() const {
    const Size size = output_size();
    const auto height = static_cast<std::int64_t>(size.height);
    const auto width = static_cast<std::int64_t>(size.width);
    return layout == Layout::nchw ? Shape{1, 3, height, width} : Shape{1, height, width, 3};
}

std::size_t Preprocess::output_count() const {
    const Size size = output_size();
    return 3 * size.height * size.width;
}

Result<Image> Preprocess::resize_and_crop(const Image& image) const {
    if (image.width == 0 || image.height == 0) {
        return Error{ErrorCode::invalid_argument, "the image has no pixels", "preprocess", ""};
    }
    const Placement placement = place(image.width, image.height);
    const Size& wanted = placement.canvas;
    const Region& region = placement.region;
    LATHE_TRY(Image part, resize_region(image, placement.full.width, placement.full.height, interpolation, region));
    if (part.width == wanted.width && part.height == wanted.height) return part;
    Image out(wanted.width, wanted.height);
    std::ranges::fill(out.pixels, pad);
    for (std::size_t y = 0; y < part.height; ++y) {
        std::memcpy(out.pixels.data() + ((placement.top + y) * out.width + placement.left) * 3,
                    part.pixels.data() + y * part.width * 3, part.width * 3);
    }
    return out;
}

Preprocess::Placement Preprocess::place(std::size_t width, std::size_t height) const {
    Placement placement;
    placement.full = resize.value_or(Size{height, width});
    if (short_side) {
        // torchvision's rule, in integers: int(n * long / short).
        const std::size_t n = *short_side;
        placement.full = width <= height ? Size{std::max<std::size_t>(1, n * height / width), n}
                                         : Size{n, std::max<std::size_t>(1, n * width / height)};
    }
    if (letterbox) {
        const double ratio = letterbox_ratio(*letterbox, width, height);
        placement.full = {letterbox_side(static_cast<double>(height) * ratio, letterbox->height, align),
                          letterbox_side(static_cast<double>(width) * ratio, letterbox->width, align)};
        placement.region = {0, 0, placement.full.width, placement.full.height};
        placement.canvas = *letterbox;
        if (align == Alignment::centre) {
            // Half of what is left; of an odd number the smaller part is before the picture (round(d / 2 - 0.1)).
            placement.left = (letterbox->width - placement.full.width) / 2;
            placement.top = (letterbox->height - placement.full.height) / 2;
        }
        return placement;
    }
    const Size& full = placement.full;
    const Size wanted = crop.value_or(full);
    placement.canvas = wanted;
    // Centre crop of a picture smaller than the crop in some direction: torchvision pads it with zeros first.
    placement.region.width = std::min(full.width, wanted.width);
    placement.region.height = std::min(full.height, wanted.height);
    if (full.width >= wanted.width) {
        placement.region.left = static_cast<std::size_t>(crop_offset(full.width, wanted.width));
    } else {
        placement.left = (wanted.width - full.width) / 2;
    }
    if (full.height >= wanted.height) {
        placement.region.top = static_cast<std::size_t>(crop_offset(full.height, wanted.height));
    } else {
        placement.top = (wanted.height - full.height) / 2;
    }
    return placement;
}

Preprocess::Mapping Preprocess::mapping(std::size_t width, std::size_t height) const {
    const Placement placement = place(width, height);
    Mapping mapping;
    mapping.left = static_cast<double>(placement.left) - static_cast<double>(placement.region.left);
    mapping.top = static_cast<double>(placement.top) - static_cast<double>(placement.region.top);
    if (letterbox) {
        mapping.scale_x = mapping.scale_y = letterbox_ratio(*letterbox, width, height);
    } else {
        mapping.scale_x = static_cast<double>(placement.full.width) / static_cast<double>(width);
        mapping.scale_y = static_cast<double>(placement.full.height) / static_cast<double>(height);
    }
    return mapping;
}

std::array<float, 256> Preprocess::channel_values(std::size_t c) const {
    std::array<float, 256> values{};
    for (std::size_t pixel = 0; pixel < values.size(); ++pixel) {
        const auto scaled = static_cast<float>(static_cast<double>(pixel) * scale);
        values[pixel] = (scaled - static_cast<float>(mean[c])) / static_cast<float>(std[c]);
    }
    return values;
}

Result<void> Preprocess::apply(const Image& image, std::span<float> out) const {
    if (out.size() != output_count()) {
        return Error{ErrorCode::invalid_argument,
                     "the output has room for " + std::to_string(out.size()) + " values, not " +
                         std::to_string(output_count()),
                     "preprocess", ""};
    }
    LATHE_TRY(const Image cropped, resize_and_crop(image));
    const std::size_t count = cropped.width * cropped.height;
    const std::uint8_t* const pixels = cropped.pixels.data();
    for (std::size_t c = 0; c < 3; ++c) {
        const std::array<float, 256> values = channel_values(c);
        const std::uint8_t* in = pixels + (color == ColorOrder::rgb ? c : 2 - c);
        float* to = out.data() + (layout == Layout::nchw ? c * count : c);
        const std::size_t step = layout == Layout::nchw ? 1 : 3;
        for (std::size_t i = 0; i < count; ++i)
            to[i * step] = values[in[3 * i]];
    }
    return {};
}

} // namespace lathe
