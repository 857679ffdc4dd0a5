#pragma once

namespace lathe {

/// What a tensor's values are mapped from: values outside are clipped. Always finite, and low <= 0 <= high, so that
/// zero (padding, ReLU) stays exact. low == high == 0 where nothing but zeros was seen; the scale is then anybody's.
struct Range {
    float low = 0.0F;
    float high = 0.0F;
    bool operator==(const Range&) const = default;
};

/// The grid that a Range is judged on; the threshold with the least error depends on it.
///   symmetric:  zero point 0, values -h..h with h = (levels - 1) / 2; scale = max(-low, high) / h.
///   asymmetric: values 0..levels-1; scale = (high - low) / (levels - 1), zero point = round(-low / scale).
struct NumberFormat {
    bool symmetric = false;
    int levels = 256;

    /// -127..127, as TensorRT and CUDA want activations.
    static constexpr NumberFormat int8() { return {true, 255}; }
    /// 0..255 with a zero point, as x86 VNNI (u8 x s8) wants them.
    static constexpr NumberFormat uint8() { return {false, 256}; }
    bool operator==(const NumberFormat&) const = default;
};

} // namespace lathe
