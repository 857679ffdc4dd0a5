// Depthwise convolution over nhwc of large windows on mma.sync. A channel's row of results is a product of its inputs
// with a Toeplitz matrix of a row of weights: 16 strips of 16 neighbouring inputs times [16][8], which holds the
// weights shifted by one from column to column, are 16 strips of 8 results. With 7 taps 7 of 16 products count, where a
// diagonal matrix of channels (depthwise_mma.cu) has 1 of 8.
//
// The product needs neighbouring pixels of a channel side by side, so a block turns its pixels' channels: a thread
// brings 8 pixels of 8 channels and writes 8 channels of 8 pixels to shared memory, and the results go back the same
// way, in the place of the inputs. Bytes are multiplied as f16, which holds them, and their sums, exactly. Where a
// weight is 0 an infinite input that is near gives NaN.

#include <algorithm>

#include "backends/cuda/kernels/depthwise.hpp"
#include "backends/cuda/kernels/mma_ptx.cuh"
#include "backends/cuda/kernels/quads.cuh"
#include "backends/cuda/kernels/vec4.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace quads;

constexpr int threads = 256, channels = 32, channels_a_warp = channels / (threads / 32);
/// Units between the planes of 8 channels and the next 8, so that what four lanes write lies in different banks.
constexpr int apart = 2;

/// Units are 8 pixels of a channel: 16 bytes of shared memory.
struct Work {
    std::int32_t groups;       ///< of `channels`
    std::int32_t across, down; ///< tiles of an image
    std::int32_t chunks, bands, images;
    std::int32_t high;          ///< input rows of a tile's image
    std::int32_t octets, pitch; ///< units that a row has, and from row to row
    std::int32_t plane;         ///< units of a channel
    Divisor by_octets, by_high, by_chunks, by_rows;
    std::int32_t x_channels; ///< stored
    Clamp clamp;
};

constexpr int reach(int kernel, int stride) { return 7 * stride + kernel; } // inputs of 8 results
constexpr int steps_of(int kernel, int stride) { return (reach(kernel, stride) + 15) / 16; }
/// Numbers of a row of weights with the zeros around it, from which all of a Toeplitz matrix's rows are cut.
constexpr int padded(int kernel, int stride) { return (16 * steps_of(kernel, stride) + 7 * stride + 7) / 8 * 8; }

/// What is multiplied.
template <class T>
using Operand = std::conditional_t<sizeof(T) == 1, __half, T>;

/// Four bytes as f16: two words.
__device__ __forceinline__ void widen(std::uint32_t bytes, std::uint32_t& low, std::uint32_t& high) {
    const std::uint32_t shifted = bytes ^ 0x80808080U; // b + 128; as the low byte of an f16 it is 1024 + 128 + b
    const __half2 offset = __halves2half2(__ushort_as_half(0x6480), __ushort_as_half(0x6480));
    const std::uint32_t a = __byte_perm(shifted, 0x64646464U, 0x4140), b = __byte_perm(shifted, 0x64646464U, 0x4342);
    const __half2 x = __hsub2(*reinterpret_cast<const __half2*>(&a), offset),
                  y = __hsub2(*reinterpret_cast<const __half2*>(&b), offset);
    low = *reinterpret_cast<const std::uint32_t*>(&x);
    high = *reinterpret_cast<const std::uint32_t*>(&y);
}
/// 8 channels of a pixel.
template <class T>
__device__ __forceinline__ void load_pixel(std::uint32_t (&to)[4], const T* from, bool inside, std::uint32_t pad) {
    if constexpr (sizeof(T) == 1) {
        std::uint32_t bytes[2];
        load_words<2>(bytes, from, inside, pad);
        widen(bytes[0], to[0], to[1]);
        widen(bytes[1], to[2], to[3]);
    } else {
        load_words<4>(to, from, inside, pad);
    }
}
/// 8 x 8 numbers of 16 bits: word j of line i holds numbers 2j and 2j + 1.
__device__ __forceinline__ void turn(const std::uint32_t (&x)[8][4], std::uint32_t (&y)[8][4]) {
#pragma unroll
    for (int i = 0; i < 8; i += 2)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            y[2 * j][i / 2] = __byte_perm(x[i][j], x[i + 1][j], 0x5410);
            y[2 * j + 1][i / 2] = __byte_perm(x[i][j], x[i + 1][j], 0x7632);
        }
}

template <class T, class Out, int Kernel, int Stride, int Rows>
__global__ void __launch_bounds__(threads, Stride == 1 ? 3 : 2)
    depthwise_toeplitz(const __grid_constant__ DepthwiseParams p, const __grid_constant__ Work t) {
    using In = Operand<T>;
    constexpr mma::Math math = std::is_same_v<In, __half> ? mma::Math::f16 : mma::Math::bf16;
    constexpr int steps = steps_of(Kernel, Stride), length = padded(Kernel, Stride);
    extern __shared__ uint4 planes[];
    // twice, the second time moved by one number, so that a pair is a word whichever number it begins with
    __shared__ __align__(16) In weights[2][channels][Kernel][length];
    __shared__ float4 vectors[channels / 2];
    pdl_trigger();
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const int block = static_cast<int>(blockIdx.x), first_channel = block % t.groups * channels;
    const int tile = block / t.groups, column = tile % t.across, rest = tile / t.across;
    const int first_image = rest / t.down * t.images;
    const int rows = t.bands * Rows, oh0 = rest % t.down * rows, ow0 = column * t.chunks * 8;

    // Weights are nobody's results: they come before the kernel before this one is done, all loads at once.
    constexpr int most = (channels * Kernel * Kernel + threads - 1) / threads;
    T own[most];
#pragma unroll
    for (int i = 0; i < most; ++i) {
        const int at = thread + i * threads, channel = first_channel + at % channels, tap = at / channels;
        own[i] = tap < Kernel * Kernel && channel < p.weight_c
                     ? static_cast<const T*>(p.weight)[tap * p.weight_c + channel]
                     : from_float<T>(0.0F);
    }
    for (int i = thread; i < static_cast<int>(sizeof weights / sizeof(uint4)); i += threads)
        reinterpret_cast<uint4*>(weights)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < most; ++i) {
        const int at = thread + i * threads, channel = at % channels, tap = at / channels;
        const int r = tap / Kernel, s = tap % Kernel + 7 * Stride;
        if (tap >= Kernel * Kernel) continue;
        weights[0][channel][r][s] = weights[1][channel][r][s - 1] = from_float<In>(to_float(own[i]));
    }
    if (thread < channels / 2)
        vectors[thread] = channel_pair<Out>(p.epilogue, t.clamp, first_channel + thread * 2, p.c);
    pdl_wait();

    // Four lanes have the 64 bytes of a pixel.
    const int piece = lane % 4, own_channel = first_channel + piece * 8;
    uint4* own_planes = planes + piece * 8 * t.plane + piece * apart;
    for (int octet = thread / 4; octet < t.images * t.high * t.octets; octet += threads / 4) {
        const int line = t.by_octets.divide(octet), unit = octet - line * t.octets, above = t.by_high.divide(line);
        const int image = first_image + above, h = oh0 * Stride - p.window.pad_h + line - above * t.high;
        const int w0 = ow0 * Stride - p.window.pad_w + unit * 8;
        const bool row = image < p.n && h >= 0 && h < p.h && own_channel < t.x_channels;
        const T* from = static_cast<const T*>(p.input) +
                        ((static_cast<std::int64_t>(image) * p.h + h) * p.w + w0) * p.c_pitch + own_channel;
        std::uint32_t x[8][4], y[8][4];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            load_pixel<T>(x[i], from + static_cast<std::int64_t>(i) * p.c_pitch, row && w0 + i >= 0 && w0 + i < p.w,
                          p.pad_word);
        turn(x, y);
        uint4* to = own_planes + line * t.pitch + unit;
#pragma unroll
        for (int c = 0; c < 8; ++c)
            to[c * t.plane] = make_uint4(y[c][0], y[c][1], y[c][2], y[c][3]);
    }
    __syncthreads();

    // Strips are numbered image by image, band by band, chunk by chunk.
    const int strips = t.images * t.bands * t.chunks, g = lane >> 2, q = lane & 3;
    const auto line_of = [&](int strip, int high, int step) { // of its first row
        const int band = strip / t.chunks;
        return (band / t.bands * high + band % t.bands * step) * t.pitch;
    };
    const int read = lane % 16 < strips ? lane % 16 : 0;
    const int read_at = line_of(read, t.high, Rows * Stride) + read % t.chunks * Stride + lane / 16;
    int write_at[2]; // of the strips whose results this lane has, in units
#pragma unroll
    for (int half = 0; half < 2; ++half)
        write_at[half] = line_of(g + half * 8, rows, Rows) + (g + half * 8) % t.chunks;
    for (int i = 0; i < channels_a_warp; ++i) {
        const int channel = warp * channels_a_warp + i;
        uint4* plane = planes + channel * t.plane + channel / 8 * apart;
        std::uint32_t b[Kernel][steps][2];
#pragma unroll
        for (int r = 0; r < Kernel; ++r)
#pragma unroll
            for (int step = 0; step < steps; ++step)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int first = step * 16 + half * 8 + 2 * q + (7 - g) * Stride;
                    b[r][step][half] =
                        *reinterpret_cast<const std::uint32_t*>(&weights[first % 2][channel][r][first - first % 2]);
                }
        float v[Rows][4] = {};
        const std::uint32_t at = mma::shared_address(plane + read_at);
#pragma unroll
        for (int h = 0; h < (Rows - 1) * Stride + Kernel; ++h)
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                std::uint32_t a[4];
                mma::load_matrices(a, at + static_cast<std::uint32_t>((h * t.pitch + 2 * step) * 16));
#pragma unroll
                for (int row = 0; row < Rows; ++row) {
                    const int r = h - row * Stride;
                    if (r >= 0 && r < Kernel) mma::multiply_floats<math>(v[row], a, b[r][step][0], b[r][step][1]);
                }
            }
        const float4 ab = vectors[channel / 2];
        const float factor = channel % 2 == 0 ? ab.x : ab.y, shift = channel % 2 == 0 ? ab.z : ab.w;
        __syncwarp(); // the plane has been read
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
            float out[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                out[k] = fmaf(v[row][k], factor, shift);
            if (t.clamp.curved != 0) {
                activate_briefly(out, p.epilogue);
                as_stored<Out>(out, t.clamp);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (g + half * 8 >= strips) continue;
                std::uint32_t word;
                if constexpr (sizeof(Out) == 1) { // kept as f16 until the channels are together again
                    const std::uint32_t both =
                        __byte_perm(clamp_byte(out[half * 2], t.clamp), clamp_byte(out[half * 2 + 1], t.clamp), 0x0040);
                    std::uint32_t none;
                    widen(both, word, none);
                } else {
                    word = Number<Out>::clamp(out[half * 2], out[half * 2 + 1], t.clamp);
                }
                reinterpret_cast<std::uint32_t*>(plane + write_at[half] + row * t.pitch)[q] = word;
            }
        }
    }
    __syncthreads();

    for (int octet = thread / 4; octet < t.images * rows * t.chunks; octet += threads / 4) {
        const int line = t.by_chunks.divide(octet), unit = octet - line * t.chunks, above = t.by_rows.divide(line);
        const int image = first_image + above, oh = oh0 + line - above * rows, ow = ow0 + unit * 8;
        if (image >= p.n || oh >= p.p || ow >= p.q || own_channel >= p.y_stride) continue;
        std::uint32_t x[8][4], y[8][4];
        const uint4* from = own_planes + line * t.pitch + unit;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const uint4 words = from[c * t.plane];
            x[c][0] = words.x, x[c][1] = words.y, x[c][2] = words.z, x[c][3] = words.w;
        }
        turn(x, y);
        const EpilogueParams& e = p.epilogue;
        const std::int64_t pixel = (static_cast<std::int64_t>(image) * p.p + oh) * p.q + ow;
        Out* to = static_cast<Out*>(p.output) + pixel * p.y_pitch + own_channel;
        if constexpr (sizeof(Out) == 2)
            if (e.residual != nullptr) {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    std::uint32_t more[4];
                    load_words<4>(more,
                                  static_cast<const Out*>(e.residual) + (pixel + i) * e.residual_stride + own_channel,
                                  ow + i < p.q);
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        const float2 sum = unpack_pair<Out>(y[i][j]), other = unpack_pair<Out>(more[j]);
                        y[i][j] = pack_pair<Out>(fmaf(other.x, e.residual_scale, sum.x),
                                                 fmaf(other.y, e.residual_scale, sum.y));
                    }
                }
            }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (ow + i >= p.q) continue;
            if constexpr (sizeof(Out) == 1) {
                std::uint32_t bytes[2];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const auto low = *reinterpret_cast<const __half2*>(&y[i][half * 2]),
                               high = *reinterpret_cast<const __half2*>(&y[i][half * 2 + 1]);
                    bytes[half] = join_bytes(static_cast<std::uint32_t>(__half2int_rn(__low2half(low))),
                                             static_cast<std::uint32_t>(__half2int_rn(__high2half(low))),
                                             static_cast<std::uint32_t>(__half2int_rn(__low2half(high))),
                                             static_cast<std::uint32_t>(__half2int_rn(__high2half(high))));
                }
                store_words<2>(to + static_cast<std::int64_t>(i) * p.y_pitch, bytes);
            } else {
                store_words<4>(to + static_cast<std::int64_t>(i) * p.y_pitch, y[i]);
            }
        }
    }
}

EpilogueParams without_residual(EpilogueParams e) {
    e.residual = nullptr;
    e.residual_scale = 0;
    e.residual_last = 0;
    return e;
}

Work work_of(const DepthwiseParams& p, const ToeplitzTile& tile) {
    const int kernel = p.window.kernel_h, stride = p.window.stride_h;
    Work t{};
    const auto up = [](int a, int b) { return (a + b - 1) / b; };
    t.groups = up(std::max(p.c_stride, p.y_stride), channels);
    t.chunks = tile.chunks, t.bands = tile.bands, t.images = tile.images;
    t.across = up(p.q, tile.chunks * 8);
    t.down = up(p.p, tile.bands * tile.rows);
    t.high = (tile.bands * tile.rows - 1) * stride + kernel;
    t.octets = (tile.chunks - 1) * stride + 2 * steps_of(kernel, stride);
    // Eight strips that follow each other should lie in different units of the 128 bytes of all banks.
    int best = 9;
    for (int pitch = t.octets; pitch <= t.octets + 1; ++pitch) {
        int worst = 0, met[8] = {};
        for (int strip = 0; strip < 8; ++strip) {
            const int band = strip / tile.chunks;
            const int line = band / tile.bands * t.high + band % tile.bands * tile.rows * stride;
            worst = std::max(worst, ++met[(line * pitch + strip % tile.chunks * stride) % 8]);
        }
        if (worst < best) best = worst, t.pitch = pitch;
    }
    t.plane = tile.images * t.high * t.pitch;
    t.by_octets = Divisor(t.octets);
    t.by_high = Divisor(t.high);
    t.by_chunks = Divisor(t.chunks);
    t.by_rows = Divisor(tile.bands * tile.rows);
    t.x_channels = p.c_stride;
    t.clamp = clamp_of(without_residual(p.epilogue), p.output_type);
    return t;
}

template <class T, class Out, int Kernel, int Stride, int Rows>
cudaError_t launch_one(const DepthwiseParams& p, const ToeplitzTile& tile, cudaStream_t stream, bool programmatic) {
    const Work t = work_of(p, tile);
    const std::int64_t blocks = std::int64_t{t.groups} * t.across * t.down * ((p.n + tile.images - 1) / tile.images);
    if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
    auto* kernel = depthwise_toeplitz<T, Out, Kernel, Stride, Rows>;
    const std::size_t bytes = std::size_t{16} * (channels * static_cast<std::size_t>(t.plane) + channels / 8 * apart);
    const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (code != cudaSuccess) return code;
    return launch_kernel(kernel, static_cast<unsigned>(blocks), threads, bytes, stream, programmatic, 1, p, t);
}
template <class T, class Out, int Kernel, int Stride>
cudaError_t launch_rows(const DepthwiseParams& p, const ToeplitzTile& tile, cudaStream_t stream, bool programmatic) {
    switch (tile.rows) {
        case 1: return launch_one<T, Out, Kernel, Stride, 1>(p, tile, stream, programmatic);
        case 2: return launch_one<T, Out, Kernel, Stride, 2>(p, tile, stream, programmatic);
        case 4: return launch_one<T, Out, Kernel, Stride, 4>(p, tile, stream, programmatic);
        case 7: return launch_one<T, Out, Kernel, Stride, 7>(p, tile, stream, programmatic);
        default: return cudaErrorInvalidValue;
    }
}
template <class T, class Out>
cudaError_t launch_type(const DepthwiseParams& p, const ToeplitzTile& tile, cudaStream_t stream, bool programmatic) {
    const bool one = p.window.stride_h == 1;
    if (p.window.kernel_h == 5)
        return one ? launch_rows<T, Out, 5, 1>(p, tile, stream, programmatic)
                   : launch_rows<T, Out, 5, 2>(p, tile, stream, programmatic);
    return one ? launch_rows<T, Out, 7, 1>(p, tile, stream, programmatic)
               : launch_rows<T, Out, 7, 2>(p, tile, stream, programmatic);
}

} // namespace

std::size_t depthwise_toeplitz_shared_bytes(const DepthwiseParams& p, const ToeplitzTile& tile) {
    const int kernel = p.window.kernel_h, stride = p.window.stride_h;
    return std::size_t{16} * (channels * static_cast<std::size_t>(work_of(p, tile).plane) + channels / 8 * apart) +
           std::size_t{4} * channels * static_cast<std::size_t>(kernel * padded(kernel, stride)) + channels * 8;
}

bool depthwise_toeplitz_takes(const DepthwiseParams& p, const ToeplitzTile& tile) {
    const WindowParams& window = p.window;
    const int kernel = window.kernel_h, stride = window.stride_h;
    if (is_deep(p) || window.kernel_w != kernel || window.stride_w != stride || window.dil_h != 1 || window.dil_w != 1)
        return false;
    if ((kernel != 5 && kernel != 7) || (stride != 1 && stride != 2)) return false;
    if (!are_types(p.type, p.output_type)) return false;
    const int size = p.type == type_s8 ? 1 : 2;
    if (p.c_stride % 8 != 0 || p.y_stride % 8 != 0 || p.c_pitch % 8 != 0 || p.y_pitch % 8 != 0) return false;
    if (p.weight_c < p.c || p.c_stride * size % 8 != 0) return false;
    const EpilogueParams& e = p.epilogue;
    if (e.residual_scale != 0) { // added to the rounded result, when the channels are together again
        if (p.output_type == type_s8 || e.residual_is_s8 != 0 || e.residual_stride % 8 != 0) return false;
        if (e.act != act_none || e.output_scale_inverse != 1.0F) return false;
    }
    if (!curve_takes(without_residual(e), p.output_type)) return false;
    if (tile.rows != 1 && tile.rows != 2 && tile.rows != 4 && tile.rows != 7) return false;
    return tile.chunks >= 1 && tile.bands >= 1 && tile.images >= 1 && tile.chunks * tile.bands * tile.images <= 16;
}

cudaError_t launch_depthwise_toeplitz(const DepthwiseParams& p, const ToeplitzTile& tile, cudaStream_t stream,
                                      bool programmatic) {
    if (!depthwise_toeplitz_takes(p, tile)) return cudaErrorInvalidValue;
    return launch_of_types(p.type, p.output_type, [&](auto in, auto out) {
        return launch_type<decltype(in), decltype(out)>(p, tile, stream, programmatic);
    });
}

} // namespace lathe::cuda::kernels
