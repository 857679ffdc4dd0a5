#pragma once

#include <cmath>
#include <cstdint>

#include "backends/cuda/plan/indexed_kind.hpp"

#ifdef __CUDACC__
#define LATHE_BOTH_SIDES __host__ __device__
#else
#define LATHE_BOTH_SIDES
#endif

/// ONNX's GridSample of one place in a plane, for the interpreter (double) and the kernel (float).
namespace lathe::cuda::sampling {

template <class T>
LATHE_BOTH_SIDES T reflected(T x, T low, T high) {
    const T range = high - low;
    if (range <= 0) return low;
    const bool below = x < low;
    if (!below && !(x > high)) return x;
    const T beyond = below ? low - x : x - high;
    const T turns = std::floor(beyond / range), rest = beyond - turns * range;
    const bool even = std::fmod(turns, T(2)) == 0;
    return below == even ? low + rest : high - rest;
}

/// A row or column: its size and between what it is reflected.
template <class T>
struct Axis {
    std::int64_t size;
    T low, high;

    LATHE_BOTH_SIDES Axis(std::int64_t size_, bool align)
        : size(size_), low(align ? T(0) : T(-0.5)), high(static_cast<T>(size_) - (align ? T(1) : T(0.5))) {}
    /// Where -1..1 lies.
    LATHE_BOTH_SIDES T place(T x, bool align) const {
        const T n = static_cast<T>(size);
        return align ? (x + 1) / 2 * (n - 1) : ((x + 1) * n - 1) / 2;
    }
    LATHE_BOTH_SIDES T inside(T x, Outside outside) const {
        if (outside == Outside::border)
            return x < 0 ? T(0) : x > static_cast<T>(size - 1) ? static_cast<T>(size - 1) : x;
        return outside == Outside::reflection ? reflected(x, low, high) : x;
    }
    /// The pixel read for this one; -1: none, a zero.
    LATHE_BOTH_SIDES std::int64_t pixel(T at, Outside outside) const {
        if (!(at > T(-1e9) && at < T(1e9))) return -1; // NaN, infinities and what no picture has
        auto i = static_cast<std::int64_t>(at);
        if (i >= 0 && i < size) return i;
        if (outside == Outside::zeros) return -1;
        if (outside == Outside::reflection) i = static_cast<std::int64_t>(reflected(at, low, high));
        return i < 0 ? 0 : i >= size ? size - 1 : i;
    }
};

/// Keys' cubic with a = -0.75.
template <class T>
LATHE_BOTH_SIDES void cubic_weights(T t, T (&w)[4]) {
    const T a = T(-0.75), u = t + 1, v = 1 - t, z = 2 - t;
    w[0] = ((a * u - 5 * a) * u + 8 * a) * u - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * v - (a + 3)) * v * v + 1;
    w[3] = ((a * z - 5 * a) * z + 8 * a) * z - 4 * a;
}

/// `fetch(y, x)` reads a pixel of the plane.
template <class T, class Fetch>
LATHE_BOTH_SIDES T sample(const Fetch& fetch, std::int64_t height, std::int64_t width, T x, T y, Sampling how,
                          Outside outside, bool align) {
    const Axis<T> across(width, align), down(height, align);
    x = across.place(x, align);
    y = down.place(y, align);
    if (how == Sampling::nearest) {
        x = std::nearbyint(x);
        y = std::nearbyint(y);
    }
    x = across.inside(x, outside);
    y = down.inside(y, outside);
    const auto at = [&](T row, T column) {
        const std::int64_t i = down.pixel(row, outside), j = across.pixel(column, outside);
        return i < 0 || j < 0 ? T(0) : fetch(i, j);
    };
    if (how == Sampling::nearest) return at(std::nearbyint(y), std::nearbyint(x));
    const T left = std::floor(x), top = std::floor(y), dx = x - left, dy = y - top;
    if (how == Sampling::linear) {
        return (1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
               dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1));
    }
    T wx[4], wy[4], sum = 0;
    cubic_weights(dx, wx);
    cubic_weights(dy, wy);
    for (int i = 0; i < 4; ++i) {
        T row = 0;
        for (int j = 0; j < 4; ++j)
            row += wx[j] * at(top + static_cast<T>(i - 1), left + static_cast<T>(j - 1));
        sum += wy[i] * row;
    }
    return sum;
}

/// `fetch(z, y, x)` reads a number of the volume; `x` places across, `z` in depth. Cubic is for images alone.
template <class T, class Fetch>
LATHE_BOTH_SIDES T sample_volume(const Fetch& fetch, std::int64_t depth, std::int64_t height, std::int64_t width, T x,
                                 T y, T z, Sampling how, Outside outside, bool align) {
    const Axis<T> across(width, align), down(height, align), deep(depth, align);
    x = across.place(x, align);
    y = down.place(y, align);
    z = deep.place(z, align);
    if (how == Sampling::nearest) {
        x = std::nearbyint(x);
        y = std::nearbyint(y);
        z = std::nearbyint(z);
    }
    x = across.inside(x, outside);
    y = down.inside(y, outside);
    z = deep.inside(z, outside);
    const auto at = [&](T plane, T row, T column) {
        const std::int64_t k = deep.pixel(plane, outside), i = down.pixel(row, outside),
                           j = across.pixel(column, outside);
        return k < 0 || i < 0 || j < 0 ? T(0) : fetch(k, i, j);
    };
    if (how == Sampling::nearest) return at(std::nearbyint(z), std::nearbyint(y), std::nearbyint(x));
    const T left = std::floor(x), top = std::floor(y), front = std::floor(z);
    const T dx = x - left, dy = y - top, dz = z - front;
    const auto plane = [&](T k) {
        return (1 - dy) * ((1 - dx) * at(k, top, left) + dx * at(k, top, left + 1)) +
               dy * ((1 - dx) * at(k, top + 1, left) + dx * at(k, top + 1, left + 1));
    };
    return (1 - dz) * plane(front) + dz * plane(front + 1);
}

/// Number of the source that stands at place `i` (below 0 or past the end) of a padded line.
LATHE_BOTH_SIDES inline std::int64_t padded_from(std::int64_t i, std::int64_t size, Padding how) {
    if (how == Padding::edge) return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (how == Padding::wrap) return (i % size + size) % size;
    if (size == 1) return 0;
    const std::int64_t period = 2 * (size - 1), at = (i % period + period) % period;
    return at < size ? at : period - at;
}

} // namespace lathe::cuda::sampling
