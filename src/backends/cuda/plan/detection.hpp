#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LATHE_BOTH_SIDES_OF_BOXES __host__ __device__
#else
#define LATHE_BOTH_SIDES_OF_BOXES
#endif

/// ONNX's RoiAlign of one place and the overlap of NonMaxSuppression's boxes, for the interpreter and the kernel.
namespace lathe::cuda::detection {

/// Samples a bin and axis: a box beyond all pictures, which only a fault of the network gives, must not take minutes.
inline constexpr std::int64_t most_samples = 1024;

/// What a RoiAlign is asked for, beside its tensors.
template <class T>
struct RoiGrid {
    T scale;               ///< from the boxes' pixels to those of the image read
    std::int64_t sampling; ///< samples a bin and axis; 0: as many as the bin has pixels
    bool largest;          ///< the largest of what the four pixels of a sample contribute (ONNX's "max"), not the mean
    bool half_pixel;       ///< pixel i is at i + 0.5; else boxes have at least one pixel

    /// A box' extent on one axis of `bins` bins: where bin `at` begins and how long it is, and how many samples it has.
    struct Extent {
        T from, step;
        std::int64_t samples;
    };
    LATHE_BOTH_SIDES_OF_BOXES Extent extent(T low, T high, std::int64_t bins, std::int64_t at) const {
        const T offset = half_pixel ? T(0.5) : T(0);
        const T begin = low * scale - offset;
        T length = high * scale - offset - begin;
        if (!half_pixel && length < 1) length = 1;
        const T step = length / static_cast<T>(bins);
        const T wanted = sampling > 0 ? static_cast<T>(sampling) : std::ceil(step);
        const bool usable = wanted > 0 && wanted < static_cast<T>(most_samples);
        const std::int64_t samples = usable ? static_cast<std::int64_t>(wanted) : wanted > 0 ? most_samples : 0;
        return {begin + static_cast<T>(at) * step, step, samples};
    }
};

/// Two neighbouring pixels and how much the second counts; `inside` false: the sample counts as 0.
template <class T>
struct Neighbours {
    std::int64_t low = 0, high = 0;
    T weight = 0;
    bool inside = false;
    LATHE_BOTH_SIDES_OF_BOXES Neighbours(T at, std::int64_t size) {
        if (!(at >= T(-1) && at <= static_cast<T>(size))) return;
        inside = true;
        if (at < 0) at = 0;
        low = static_cast<std::int64_t>(at);
        high = low + 1;
        if (low >= size - 1) {
            low = high = size - 1;
            at = static_cast<T>(low);
        }
        weight = at - static_cast<T>(low);
    }
};

/// Bin (row, column) of `rows` x `columns` of the box x1, y1, x2, y2. `fetch(y, x)` reads a pixel.
template <class T, class Fetch>
LATHE_BOTH_SIDES_OF_BOXES T roi_bin(const Fetch& fetch, std::int64_t height, std::int64_t width, const T (&box)[4],
                                    std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column,
                                    const RoiGrid<T>& grid) {
    const auto down = grid.extent(box[1], box[3], rows, row);
    const auto across = grid.extent(box[0], box[2], columns, column);
    T sum = 0, largest = 0;
    bool first = true;
    for (std::int64_t i = 0; i < down.samples; ++i) {
        const T at_y = down.from + (static_cast<T>(i) + T(0.5)) * down.step / static_cast<T>(down.samples);
        const Neighbours<T> y(at_y, height);
        for (std::int64_t j = 0; j < across.samples; ++j) {
            const T at_x = across.from + (static_cast<T>(j) + T(0.5)) * across.step / static_cast<T>(across.samples);
            const Neighbours<T> x(at_x, width);
            T parts[4] = {0, 0, 0, 0};
            if (y.inside && x.inside) {
                parts[0] = (1 - y.weight) * (1 - x.weight) * fetch(y.low, x.low);
                parts[1] = (1 - y.weight) * x.weight * fetch(y.low, x.high);
                parts[2] = y.weight * (1 - x.weight) * fetch(y.high, x.low);
                parts[3] = y.weight * x.weight * fetch(y.high, x.high);
            }
            for (const T part : parts) {
                sum += part;
                if (first || part > largest) largest = part;
                first = false;
            }
        }
    }
    const std::int64_t count = down.samples * across.samples;
    return grid.largest ? largest : sum / static_cast<T>(count > 0 ? count : 1);
}

/// A box by two corners in order.
struct Box {
    float low_x, low_y, high_x, high_y;
    /// Four numbers as ONNX has them: y1, x1, y2, x2 in any order, or the centre's x and y, width and height.
    LATHE_BOTH_SIDES_OF_BOXES Box(float a, float b, float c, float d, bool center) {
        if (center) {
            low_x = a - c / 2, high_x = a + c / 2, low_y = b - d / 2, high_y = b + d / 2;
        } else {
            low_x = b < d ? b : d, high_x = b < d ? d : b, low_y = a < c ? a : c, high_y = a < c ? c : a;
        }
    }
    LATHE_BOTH_SIDES_OF_BOXES float area() const { return (high_x - low_x) * (high_y - low_y); }
};

/// Intersection over union is above `limit`. Boxes without an area overlap nothing.
LATHE_BOTH_SIDES_OF_BOXES inline bool overlap(const Box& a, const Box& b, float limit) {
    const float left = a.low_x > b.low_x ? a.low_x : b.low_x, right = a.high_x < b.high_x ? a.high_x : b.high_x;
    const float top = a.low_y > b.low_y ? a.low_y : b.low_y, bottom = a.high_y < b.high_y ? a.high_y : b.high_y;
    if (!(right > left) || !(bottom > top)) return false;
    const float both = (right - left) * (bottom - top), first = a.area(), second = b.area();
    if (!(first > 0) || !(second > 0)) return false;
    const float all = first + second - both;
    return all > 0 && both / all > limit;
}

} // namespace lathe::cuda::detection

#undef LATHE_BOTH_SIDES_OF_BOXES
