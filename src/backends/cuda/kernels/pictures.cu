#include "backends/cuda/kernels/pictures.hpp"

namespace lathe::cuda::kernels {

namespace {

constexpr int precision_bits = 22;
constexpr int half = 1 << (precision_bits - 1);
constexpr int block_width = 32, block_height = 4;

__device__ int to_byte(int sum) { return min(max(sum >> precision_bits, 0), 255); }

struct Sums {
    int r = half, g = half, b = half;
    __device__ void add(int red, int green, int blue, int weight) {
        r += red * weight;
        g += green * weight;
        b += blue * weight;
    }
};

/// Both filters at one place: `inner` steps of `inner_stride` bytes are summed and rounded first, then `outer` ones.
__device__ Sums filtered(const std::uint8_t* at, const int* inner_weights, int inner, int inner_stride,
                         const int* outer_weights, int outer, int outer_stride) {
    Sums sums;
    for (int o = 0; o < outer; ++o, at += outer_stride) {
        Sums row;
        const std::uint8_t* pixel = at;
        for (int i = 0; i < inner; ++i, pixel += inner_stride)
            row.add(pixel[0], pixel[1], pixel[2], inner_weights[i]);
        sums.add(to_byte(row.r), to_byte(row.g), to_byte(row.b), outer_weights[o]);
    }
    return sums;
}

/// One thread an output pixel; blockIdx.z is the picture.
__global__ void pictures(PicturesParams p) {
    const int x = static_cast<int>(blockIdx.x) * block_width + static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(blockIdx.y) * block_height + static_cast<int>(threadIdx.y);
    if (x >= p.width || y >= p.height) return;
    const PictureOnDevice picture = p.pictures[blockIdx.z];
    const int rx = x - picture.left, ry = y - picture.top;
    int rgb[3] = {0, 0, 0};
    if (rx >= 0 && ry >= 0 && rx < picture.region_width && ry < picture.region_height) {
        const int first_x = p.tables[picture.x_first + rx], first_y = p.tables[picture.y_first + ry];
        const int count_x = p.tables[picture.x_count + rx], count_y = p.tables[picture.y_count + ry];
        const int* weights_x = p.tables + picture.x_weights + rx * picture.x_taps;
        const int* weights_y = p.tables + picture.y_weights + ry * picture.y_taps;
        const int stride = picture.width * 3;
        const std::uint8_t* at = p.pixels + picture.pixels + static_cast<std::size_t>(first_y) * stride + first_x * 3;
        const Sums sums = picture.rows_first != 0 ? filtered(at, weights_y, count_y, stride, weights_x, count_x, 3)
                                                  : filtered(at, weights_x, count_x, 3, weights_y, count_y, stride);
        rgb[0] = to_byte(sums.r);
        rgb[1] = to_byte(sums.g);
        rgb[2] = to_byte(sums.b);
    }
    const std::size_t plane = static_cast<std::size_t>(p.height) * p.width;
    const std::size_t place = static_cast<std::size_t>(y) * p.width + x;
    float* out = p.out + blockIdx.z * plane * 3;
    for (int c = 0; c < 3; ++c) {
        const float value = p.values[c * 256 + rgb[p.bgr ? 2 - c : c]];
        out[p.channels_last ? place * 3 + c : c * plane + place] = value;
    }
}

} // namespace

cudaError_t launch_pictures(const PicturesParams& params, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>((params.width + block_width - 1) / block_width),
                    static_cast<unsigned>((params.height + block_height - 1) / block_height),
                    static_cast<unsigned>(params.count));
    pictures<<<grid, dim3(block_width, block_height), 0, stream>>>(params);
    return cudaGetLastError();
}

} // namespace lathe::cuda::kernels
