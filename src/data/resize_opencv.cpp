#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/resize.hpp"

namespace lathe {

namespace {

constexpr int weight_bits = 11;

/// Two neighbours of an output position and their weights, with 11 fractional bits.
struct Pair {
    std::size_t first = 0, second = 0;
    std::int32_t first_weight = 0, second_weight = 0;
};

/// At the picture's edges columns take one neighbour whole; rows take the edge twice, weighted, which rounds otherwise.
std::vector<Pair> pairs_of(std::size_t input, std::size_t output, bool columns) {
    const double scale = 1.0 / (static_cast<double>(output) / static_cast<double>(input));
    const auto last = static_cast<std::int64_t>(input) - 1;
    std::vector<Pair> pairs(output);
    for (std::size_t i = 0; i < output; ++i) {
        const auto place = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
        auto below = static_cast<std::int64_t>(std::floor(place));
        float share = place - static_cast<float>(below);
        if (columns && (below < 0 || below >= last)) {
            share = 0;
            below = std::clamp<std::int64_t>(below, 0, last);
        }
        pairs[i].first = static_cast<std::size_t>(std::clamp<std::int64_t>(below, 0, last));
        pairs[i].second = static_cast<std::size_t>(std::clamp<std::int64_t>(below + 1, 0, last));
        pairs[i].first_weight = static_cast<std::int32_t>(std::nearbyint((1.0F - share) * (1 << weight_bits)));
        pairs[i].second_weight = static_cast<std::int32_t>(std::nearbyint(share * (1 << weight_bits)));
    }
    return pairs;
}

/// Half the size in both directions is the mean of four.
Image halved(const Image& image) {
    Image out(image.width / 2, image.height / 2);
    const std::size_t stride = image.width * 3;
    for (std::size_t y = 0; y < out.height; ++y) {
        const std::uint8_t* upper = image.pixels.data() + 2 * y * stride;
        const std::uint8_t* lower = upper + stride;
        std::uint8_t* to = out.pixels.data() + y * out.width * 3;
        for (std::size_t x = 0; x < out.width; ++x) {
            for (std::size_t c = 0; c < 3; ++c) {
                const std::size_t at = 6 * x + c;
                to[3 * x + c] =
                    static_cast<std::uint8_t>((upper[at] + upper[at + 3] + lower[at] + lower[at + 3] + 2) >> 2);
            }
        }
    }
    return out;
}

} // namespace

Result<Image> resize_opencv(const Image& image, std::size_t width, std::size_t height) {
    if (image.width == 0 || image.height == 0) {
        return Error{ErrorCode::invalid_argument, "the image has no pixels", "resize", ""};
    }
    if (width == 0 || height == 0) {
        return Error{ErrorCode::invalid_argument, "the new size has no pixels", "resize", ""};
    }
    if (width > max_image_pixels / height) {
        return Error{ErrorCode::out_of_memory, "the resized image is too large", "resize", "resize to a smaller size"};
    }
    if (width == image.width && height == image.height) return image;
    if (image.width == 2 * width && image.height == 2 * height) return halved(image);

    const std::vector<Pair> columns = pairs_of(image.width, width, true);
    const std::vector<Pair> rows = pairs_of(image.height, height, false);
    const std::size_t count = width * 3;
    // The last two input rows that were combined, by their number: an output row needs two, and mostly the next ones.
    std::vector<std::int32_t> kept[2]{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count)};
    std::size_t number[2]{image.height, image.height};
    const auto combined = [&](std::size_t y, std::size_t other) -> std::size_t {
        for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
            if (number[slot] == y) return slot;
        const std::size_t slot = number[0] == other ? 1 : 0;
        const std::uint8_t* row = image.pixels.data() + y * image.width * 3;
        for (std::size_t x = 0; x < width; ++x) {
            const Pair& pair = columns[x];
            for (std::size_t c = 0; c < 3; ++c) {
                kept[slot][3 * x + c] =
                    row[3 * pair.first + c] * pair.first_weight + row[3 * pair.second + c] * pair.second_weight;
            }
        }
        number[slot] = y;
        return slot;
    };
    Image out(width, height);
    for (std::size_t y = 0; y < height; ++y) {
        const Pair& pair = rows[y];
        const std::size_t upper = combined(pair.first, pair.second);
        const std::size_t lower = combined(pair.second, pair.first);
        std::uint8_t* to = out.pixels.data() + y * count;
        for (std::size_t x = 0; x < count; ++x) {
            const std::int32_t sum = ((pair.first_weight * (kept[upper][x] >> 4)) >> 16) +
                                     ((pair.second_weight * (kept[lower][x] >> 4)) >> 16);
            to[x] = static_cast<std::uint8_t>(std::clamp((sum + 2) >> 2, 0, 255));
        }
    }
    return out;
}

} // namespace lathe
