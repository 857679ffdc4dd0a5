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

/// Centre crop of a picture smaller than the crop in some direction: torchvision pads it with zeros first.
Image pad_and_crop(const Image& image, const Preprocess::Size& crop) {
    const std::size_t pad_left = crop.width > image.width ? (crop.width - image.width) / 2 : 0;
    const std::size_t pad_top = crop.height > image.height ? (crop.height - image.height) / 2 : 0;
    const auto left = image.width > crop.width ? static_cast<std::size_t>(crop_offset(image.width, crop.width)) : 0;
    const auto top = image.height > crop.height ? static_cast<std::size_t>(crop_offset(image.height, crop.height)) : 0;
    const std::size_t width = std::min(image.width, crop.width);
    const std::size_t height = std::min(image.height, crop.height);
    Image out(crop.width, crop.height);
    for (std::size_t y = 0; y < height; ++y) {
        std::memcpy(out.pixels.data() + ((pad_top + y) * crop.width + pad_left) * 3,
                    image.pixels.data() + ((top + y) * image.width + left) * 3, width * 3);
    }
    return out;
}

} // namespace

Preprocess::Size Preprocess::output_size() const {
    if (crop) return *crop;
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
    Size full{image.height, image.width};
    if (resize) full = *resize;
    if (short_side) {
        // torchvision's rule, in integers: int(n * long / short).
        const std::size_t n = *short_side;
        if (image.width <= image.height) {
            full = {std::max<std::size_t>(1, n * image.height / image.width), n};
        } else {
            full = {n, std::max<std::size_t>(1, n * image.width / image.height)};
        }
    }
    const Size wanted = crop.value_or(full);
    if (wanted.height <= full.height && wanted.width <= full.width) {
        const Region region{static_cast<std::size_t>(crop_offset(full.width, wanted.width)),
                            static_cast<std::size_t>(crop_offset(full.height, wanted.height)), wanted.width,
                            wanted.height};
        return resize_region(image, full.width, full.height, interpolation, region);
    }
    LATHE_TRY(const Image resized, lathe::resize(image, full.width, full.height, interpolation));
    return pad_and_crop(resized, wanted);
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
