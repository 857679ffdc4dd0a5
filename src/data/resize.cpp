#include "data/resize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lathe {

namespace {

constexpr int precision_bits = 22;
constexpr std::int32_t half = 1 << (precision_bits - 1);

double bilinear(double x) {
    x = std::fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

double bicubic(double x) {
    constexpr double a = -0.5;
    x = std::fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

using Weights = ResizeWeights;

Weights make_weights(std::size_t input, std::size_t output, std::size_t begin, std::size_t size,
                     Interpolation interpolation) {
    const auto filter = interpolation == Interpolation::bilinear ? bilinear : bicubic;
    const double scale = static_cast<double>(input) / static_cast<double>(output);
    const double filter_scale = std::max(scale, 1.0);
    const double support = (interpolation == Interpolation::bilinear ? 1.0 : 2.0) * filter_scale;
    const double inverse = 1.0 / filter_scale;

    Weights weights;
    weights.taps = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    weights.first.resize(size);
    weights.count.resize(size);
    weights.values.resize(size * weights.taps);
    std::vector<double> row(weights.taps);
    for (std::size_t i = 0; i < size; ++i) {
        const double center = (static_cast<double>(begin + i) + 0.5) * scale;
        const auto first = static_cast<std::int64_t>(std::max(0.0, std::trunc(center - support + 0.5)));
        // Pillow rounds halves away from zero in this very way. NOLINTNEXTLINE(bugprone-incorrect-roundings)
        const auto last = std::min(static_cast<std::int64_t>(center + support + 0.5), static_cast<std::int64_t>(input));
        const auto count = static_cast<std::size_t>(last - first);
        double sum = 0;
        for (std::size_t t = 0; t < count; ++t) {
            const auto position = static_cast<double>(first + static_cast<std::int64_t>(t));
            row[t] = filter((position - center + 0.5) * inverse);
            sum += row[t];
        }
        for (std::size_t t = 0; t < count; ++t) {
            const double weight = (sum != 0.0 ? row[t] / sum : row[t]) * (1 << precision_bits);
            weights.values[i * weights.taps + t] = static_cast<std::int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
        }
        weights.first[i] = static_cast<std::size_t>(first);
        weights.count[i] = count;
    }
    return weights;
}

// Four 32-bit lanes: R, G, B and one to spare. GCC and Clang turn these into SSE or AVX instructions.
using Lanes [[gnu::vector_size(16)]] = std::int32_t;
using Bytes [[gnu::vector_size(4)]] = std::uint8_t;

[[gnu::always_inline]] inline std::uint8_t to_byte(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> precision_bits, 0, 255));
}

/// One row, columns combined. `in` may be read one byte past its last pixel.
[[gnu::always_inline]] inline void columns_body(const std::uint8_t* in, const Weights& weights, std::uint8_t* out,
                                                std::size_t width) {
    for (std::size_t x = 0; x < width; ++x) {
        const std::uint8_t* pixel = in + 3 * weights.first[x];
        const std::int32_t* weight = weights.of(x);
        Lanes sum = {half, half, half, half};
        for (std::size_t t = weights.count[x]; t > 0; --t, pixel += 3, ++weight) {
            Bytes bytes;
            std::memcpy(&bytes, pixel, 4);
            sum += __builtin_convertvector(bytes, Lanes) * *weight;
        }
        out[3 * x] = to_byte(sum[0]);
        out[3 * x + 1] = to_byte(sum[1]);
        out[3 * x + 2] = to_byte(sum[2]);
    }
}

/// One output row from `count` input rows of `size` bytes each.
[[gnu::always_inline]] inline void rows_body(const std::uint8_t* in, std::size_t stride, const std::int32_t* weight,
                                             std::size_t count, std::uint8_t* out, std::size_t size) {
    constexpr std::size_t block = 64;
    std::size_t x = 0;
    for (; x + block <= size; x += block) {
        std::int32_t sum[block];
        for (std::int32_t& value : sum)
            value = half;
        for (std::size_t t = 0; t < count; ++t) {
            const std::uint8_t* row = in + t * stride + x;
            for (std::size_t i = 0; i < block; ++i)
                sum[i] += row[i] * weight[t];
        }
        for (std::size_t i = 0; i < block; ++i)
            out[x + i] = to_byte(sum[i]);
    }
    for (; x < size; ++x) {
        std::int32_t sum = half;
        for (std::size_t t = 0; t < count; ++t)
            sum += in[t * stride + x] * weight[t];
        out[x] = to_byte(sum);
    }
}

using ColumnsFunction = void (*)(const std::uint8_t*, const Weights&, std::uint8_t*, std::size_t);
using RowsFunction = void (*)(const std::uint8_t*, std::size_t, const std::int32_t*, std::size_t, std::uint8_t*,
                              std::size_t);

void columns_baseline(const std::uint8_t* in, const Weights& weights, std::uint8_t* out, std::size_t width) {
    columns_body(in, weights, out, width);
}
void rows_baseline(const std::uint8_t* in, std::size_t stride, const std::int32_t* weight, std::size_t count,
                   std::uint8_t* out, std::size_t size) {
    rows_body(in, stride, weight, count, out, size);
}

struct Kernels {
    ColumnsFunction columns = columns_baseline;
    RowsFunction rows = rows_baseline;
};

#if defined(__x86_64__)
// The same code for wider vectors; integer arithmetic, so the result is the same.
[[gnu::target("avx2")]] void columns_avx2(const std::uint8_t* in, const Weights& weights, std::uint8_t* out,
                                          std::size_t width) {
    columns_body(in, weights, out, width);
}
[[gnu::target("avx2")]] void rows_avx2(const std::uint8_t* in, std::size_t stride, const std::int32_t* weight,
                                       std::size_t count, std::uint8_t* out, std::size_t size) {
    rows_body(in, stride, weight, count, out, size);
}

Kernels choose_kernels() { return __builtin_cpu_supports("avx2") ? Kernels{columns_avx2, rows_avx2} : Kernels{}; }
#else
Kernels choose_kernels() { return {}; }
#endif

const Kernels& kernels() {
    static const Kernels chosen = choose_kernels();
    return chosen;
}

/// Columns region.left.. of the picture, combined.
Image combine_columns(const Image& image, std::size_t width, const Region& region, Interpolation interpolation) {
    Image out(region.width, image.height);
    const std::size_t in_stride = image.width * 3;
    const std::size_t out_stride = region.width * 3;
    const Weights weights = make_weights(image.width, width, region.left, region.width, interpolation);
    for (std::size_t y = 0; y < image.height; ++y) {
        const std::uint8_t* row = image.pixels.data() + y * in_stride;
        std::vector<std::uint8_t> padded;
        if (y + 1 == image.height) { // the kernel reads a byte past the row, here past the picture
            padded.assign(row, row + in_stride);
            padded.push_back(0);
            row = padded.data();
        }
        kernels().columns(row, weights, out.pixels.data() + y * out_stride, region.width);
    }
    return out;
}

/// Rows region.top.. of the picture, combined.
Image combine_rows(const Image& image, std::size_t height, const Region& region, Interpolation interpolation) {
    Image out(image.width, region.height);
    const std::size_t stride = image.width * 3;
    const Weights weights = make_weights(image.height, height, region.top, region.height, interpolation);
    for (std::size_t y = 0; y < region.height; ++y) {
        kernels().rows(image.pixels.data() + weights.first[y] * stride, stride, weights.of(y), weights.count[y],
                       out.pixels.data() + y * stride, stride);
    }
    return out;
}

Image cut(const Image& image, const Region& region) {
    Image out(region.width, region.height);
    for (std::size_t y = 0; y < region.height; ++y) {
        std::memcpy(out.pixels.data() + y * region.width * 3,
                    image.pixels.data() + ((region.top + y) * image.width + region.left) * 3, region.width * 3);
    }
    return out;
}

Error bad_size(const std::string& message) { return {ErrorCode::invalid_argument, message, "resize", ""}; }

} // namespace

const char* to_string(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::bilinear: return "bilinear";
        case Interpolation::bicubic: return "bicubic";
        case Interpolation::bilinear_opencv: return "bilinear-opencv";
    }
    return "";
}

ResizeWeights resize_weights(std::size_t input, std::size_t output, std::size_t begin, std::size_t size,
                             Interpolation interpolation) {
    if (input != output) return make_weights(input, output, begin, size, interpolation);
    ResizeWeights same{1, {}, std::vector<std::size_t>(size, 1), std::vector<std::int32_t>(size, 1 << precision_bits)};
    for (std::size_t i = 0; i < size; ++i)
        same.first.push_back(begin + i);
    return same;
}

// Pillow 13 combines rows first where that shrinks the picture more: found by comparing its results with both orders.
bool resizes_rows_first(std::size_t input_width, std::size_t input_height, std::size_t width, std::size_t height) {
    if (height >= input_height) return false;
    return width >= input_width || input_height - height > 2 * (input_width - width);
}

Result<Image> resize_region(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation,
                            const Region& region) {
    if (image.width == 0 || image.height == 0) return bad_size("the image has no pixels");
    if (width == 0 || height == 0) return bad_size("the new size has no pixels");
    if (region.left > width || region.width > width - region.left || region.top > height ||
        region.height > height - region.top || region.width == 0 || region.height == 0) {
        return bad_size("the region is not inside the resized image");
    }
    if (region.width > max_image_pixels / std::max(region.height, image.height) ||
        region.height > max_image_pixels / image.width) {
        return Error{ErrorCode::out_of_memory, "the resized image is too large", "resize", "resize to a smaller size"};
    }
    if (interpolation == Interpolation::bilinear_opencv) {
        LATHE_TRY(const Image whole, resize_opencv(image, width, height));
        return cut(whole, region);
    }
    // Pillow leaves out a pass that changes nothing.
    if (width == image.width && height == image.height) return cut(image, region);
    if (width == image.width) {
        const Image rows = combine_rows(image, height, region, interpolation);
        return cut(rows, {region.left, 0, region.width, region.height});
    }
    if (height == image.height) {
        const Image part = cut(image, {0, region.top, image.width, region.height});
        return combine_columns(part, width, region, interpolation);
    }
    if (resizes_rows_first(image.width, image.height, width, height)) {
        const Image rows = combine_rows(image, height, region, interpolation);
        return combine_columns(rows, width, region, interpolation);
    }
    // Only the input rows that the region needs.
    const Weights weights = make_weights(image.height, height, region.top, region.height, interpolation);
    const std::size_t first = weights.first.front();
    const std::size_t end = weights.first.back() + weights.count.back();
    const Image part = cut(image, {0, first, image.width, end - first});
    const Image narrow = combine_columns(part, width, region, interpolation);
    Image out(region.width, region.height);
    const std::size_t stride = region.width * 3;
    for (std::size_t y = 0; y < region.height; ++y) {
        kernels().rows(narrow.pixels.data() + (weights.first[y] - first) * stride, stride, weights.of(y),
                       weights.count[y], out.pixels.data() + y * stride, stride);
    }
    return out;
}

Result<Image> resize(const Image& image, std::size_t width, std::size_t height, Interpolation interpolation) {
    return resize_region(image, width, height, interpolation, {0, 0, width, height});
}

} // namespace lathe
