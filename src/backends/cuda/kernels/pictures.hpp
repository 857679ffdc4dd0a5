#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace lathe::cuda::kernels {

/// A picture on the device. Offsets of the axes are places in `PicturesParams::tables`.
struct PictureOnDevice {
    std::uint64_t pixels = 0; ///< offset in bytes
    std::int32_t width = 0;
    std::int32_t x_first = 0, x_count = 0, x_weights = 0, x_taps = 0;
    std::int32_t y_first = 0, y_count = 0, y_weights = 0, y_taps = 0;
    std::int32_t region_width = 0, region_height = 0, left = 0, top = 0;
    std::int32_t rows_first = 0;
};

struct PicturesParams {
    const std::uint8_t* pixels = nullptr;
    const PictureOnDevice* pictures = nullptr;
    const std::int32_t* tables = nullptr;
    const float* values = nullptr; ///< 3 times 256, by the model's channel
    float* out = nullptr;          ///< count x 3 x height x width, or count x height x width x 3
    int count = 0, height = 0, width = 0;
    bool channels_last = false, bgr = false;
};

/// Resizes, crops, normalises and lays out 8-bit RGB pictures: for each output pixel both sums of its filters in 22-bit
/// fixed point, each rounded and clamped to 8 bits as on the CPU, then the table of the model's values.
cudaError_t launch_pictures(const PicturesParams& params, cudaStream_t stream);

} // namespace lathe::cuda::kernels
