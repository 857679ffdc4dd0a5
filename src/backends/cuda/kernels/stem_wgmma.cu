// The stem for Hopper: f32 NCHW of up to 3 channels in, convolution of stride 2 on wgmma with the 3x3 max pool behind
// it, nhwc out.
//
// The input patch of a block lies in shared memory as [row][column][4] f16. Neighbouring results of a row of the
// convolution read it 16 bytes apart, so that 8 results are 128 consecutive bytes: a core matrix of wgmma without
// swizzle. Core matrices overlap, 16 bytes apart along the reduction (two taps) and 128 along the results, and nothing
// is gathered. Taps of a row are padded to a multiple of 4 by zero weights, in front if that keeps reads on 16 bytes.
//
// A warpgroup takes 57 columns of the convolution (64 computed), that is 28 of the pool, and goes down the rows. The
// pool's maximum over rows is taken in registers, the one over columns through shared memory. What comes after scale
// and bias never decreases and follows the maximum. A block has two warpgroups side by side and `rows` rows of the
// pool; two blocks share a multiprocessor, so that one loads while the other multiplies.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int channels = 64, groups = 2, threads = groups * 128;
constexpr int pool_columns = 28;                   ///< a warpgroup
constexpr int conv_columns = 2 * pool_columns + 1; ///< that it needs for them
/// Pixels of a patch row: both warpgroups' columns, 8 taps, up to 2 for alignment; the 7 further results that wgmma
/// computes read beyond it, whatever lies there.
constexpr int patch_columns = 236;
constexpr int patch_pitch = patch_columns * 8;
static_assert(patch_columns >= 2 * (2 * pool_columns + conv_columns - 1) + 8 + 2 && patch_columns % 4 == 0);

struct StemWork {
    int rows, across, down, count; ///< rows of the pool a tile; tiles
    int patch_rows, patch_bytes;
    int shift;   ///< zero taps in front
    int vectors; ///< rows of the input start on 16 bytes
    float low, high;
};

/// Bytes of a pixel of staged results.
template <class Out>
constexpr int staged_pitch = channels* static_cast<int>(sizeof(Out)) + 16;
template <int R, int S>
constexpr int weight_bytes = R*((S + 3) / 4) * 16 * channels * 2;
template <int R, int S, class Out>
constexpr int fixed_bytes = weight_bytes<R, S> + channels * 8 + groups* conv_columns* staged_pitch<Out>;

[[maybe_unused]] __device__ __forceinline__ uint4 larger(const uint4& a, const uint4& b, __half) {
    uint4 out;
    const __half2 *x = reinterpret_cast<const __half2*>(&a), *y = reinterpret_cast<const __half2*>(&b);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        reinterpret_cast<__half2*>(&out)[i] = __hmax2(x[i], y[i]);
    return out;
}
[[maybe_unused]] __device__ __forceinline__ uint4 larger(const uint4& a, const uint4& b, std::int8_t) {
    return make_uint4(__vmaxs4(a.x, b.x), __vmaxs4(a.y, b.y), __vmaxs4(a.z, b.z), __vmaxs4(a.w, b.w));
}

/// No swizzle, K-major: core matrices of 8 rows of 16 bytes, `along_k` and `along_rows` bytes apart.
[[maybe_unused]] __device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t along_k,
                                                                     std::uint32_t along_rows) {
    return static_cast<std::uint64_t>((address & 0x3ffffU) >> 4) | static_cast<std::uint64_t>(along_k >> 4) << 16 |
           static_cast<std::uint64_t>(along_rows >> 4) << 32;
}

[[maybe_unused]] __device__ __forceinline__ uint2 pixel(float a, float b, float c) {
    const __half2 lo = __floats2half2_rn(a, b), hi = __floats2half2_rn(c, 0.0F);
    return make_uint2(*reinterpret_cast<const std::uint32_t*>(&lo), *reinterpret_cast<const std::uint32_t*>(&hi));
}

template <int R>
__device__ __forceinline__ void load_patch(const StemParams& p, const StemWork& t, unsigned char* patch, int n, int h0,
                                           int w0) {
    constexpr int quads_a_row = patch_columns / 4, batch = 3;
    const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
    const float* image = p.input + n * p.c * plane;
    const int quads = t.patch_rows * quads_a_row;
    for (int base = static_cast<int>(threadIdx.x); base < quads; base += batch * threads) {
        float4 v[batch][3];
#pragma unroll
        for (int b = 0; b < batch; ++b) {
            const int i = base + b * threads, row = i / quads_a_row, h = h0 + row, w = w0 + (i - row * quads_a_row) * 4;
#pragma unroll
            for (int c = 0; c < 3; ++c)
                v[b][c] = make_float4(0, 0, 0, 0);
            if (i >= quads || static_cast<unsigned>(h) >= static_cast<unsigned>(p.h)) continue;
            const float* from = image + static_cast<std::int64_t>(h) * p.w + w;
            if (t.vectors != 0) { // a multiple of 4: all inside or all outside
                if (static_cast<unsigned>(w) < static_cast<unsigned>(p.w)) {
#pragma unroll
                    for (int c = 0; c < 3; ++c)
                        if (c < p.c) v[b][c] = __ldg(reinterpret_cast<const float4*>(from + c * plane));
                }
            } else {
#pragma unroll
                for (int x = 0; x < 4; ++x)
                    if (static_cast<unsigned>(w + x) < static_cast<unsigned>(p.w)) {
#pragma unroll
                        for (int c = 0; c < 3; ++c)
                            if (c < p.c) reinterpret_cast<float*>(&v[b][c])[x] = __ldg(from + c * plane + x);
                    }
            }
        }
#pragma unroll
        for (int b = 0; b < batch; ++b) {
            const int i = base + b * threads;
            if (i >= quads) continue;
            const uint2 p0 = pixel(v[b][0].x, v[b][1].x, v[b][2].x), p1 = pixel(v[b][0].y, v[b][1].y, v[b][2].y),
                        p2 = pixel(v[b][0].z, v[b][1].z, v[b][2].z), p3 = pixel(v[b][0].w, v[b][1].w, v[b][2].w);
            uint4* to = reinterpret_cast<uint4*>(patch + i * 32);
            to[0] = make_uint4(p0.x, p0.y, p1.x, p1.y);
            to[1] = make_uint4(p2.x, p2.y, p3.x, p3.y);
        }
    }
}

template <int R, int S, class Out>
__global__ void __launch_bounds__(threads, 2)
    stem_wgmma(const __grid_constant__ StemParams p, const __grid_constant__ StemWork t) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int steps_a_row = (S + 3) / 4, slots = steps_a_row * 4;
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char* weights = shared + t.patch_bytes;
    float4* vectors = reinterpret_cast<float4*>(weights + weight_bytes<R, S>); // two channels' scale and bias
    const int thread = static_cast<int>(threadIdx.x), group = thread / 128, warp = thread % 128 / 32,
              lane = thread % 32;
    unsigned char* staged =
        reinterpret_cast<unsigned char*>(vectors) + channels * 8 + group * conv_columns * staged_pitch<Out>;

    // weights as core matrices: [two taps][channel][16 bytes]
    for (int i = thread; i < R * (slots / 2) * channels; i += threads) {
        const int pair = i % (slots / 2), k = i / (slots / 2) % channels, r = i / (slots / 2 * channels);
        uint2 taps[2];
#pragma unroll
        for (int x = 0; x < 2; ++x) {
            const int s = pair * 2 + x - t.shift;
            taps[x] = make_uint2(0, 0);
            if (k < p.k && s >= 0 && s < S) taps[x] = __ldg(static_cast<const uint2*>(p.weight) + (k * R + r) * S + s);
        }
        *reinterpret_cast<uint4*>(weights + ((r * (slots / 2) + pair) * channels + k) * 16) =
            make_uint4(taps[0].x, taps[0].y, taps[1].x, taps[1].y);
    }
    if (thread < channels) {
        const bool real = thread < p.k;
        reinterpret_cast<float2*>(vectors)[thread] =
            make_float2(real && p.epilogue.scale != nullptr ? p.epilogue.scale[thread] : 1.0F,
                        real && p.epilogue.bias != nullptr ? p.epilogue.bias[thread] : 0.0F);
    }
    pdl_wait();
    pdl_trigger();

    const std::uint64_t b_first = descriptor(sm90::shared_address(weights), channels * 16, 128);
    const int g = lane >> 2, q = lane & 3;
    for (int tile = static_cast<int>(blockIdx.x); tile < t.count; tile += static_cast<int>(gridDim.x)) {
        const int n = tile / (t.down * t.across), rest = tile - n * t.down * t.across;
        const int oh_first = rest / t.across * t.rows, ow_first = rest % t.across * (groups * pool_columns);
        const int first_row = oh_first > 0 ? oh_first * 2 - 1 : 0; // of the convolution
        const int first_column = ow_first > 0 ? ow_first * 2 - 1 : 0;
        const int left = first_column * 2 - p.window.pad_w - t.shift; // even
        const int w0 = left - (left & 3);                             // rounded down to a multiple of 4
        load_patch<R>(p, t, shared, n, first_row * 2 - p.window.pad_h, w0);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads what this thread wrote
        __syncthreads();

        const int ow0 = ow_first + group * pool_columns, column0 = ow0 > 0 ? ow0 * 2 - 1 : 0;
        if (ow0 < p.pool_q) {
            const std::uint64_t a_first = descriptor(
                sm90::shared_address(shared) + static_cast<std::uint32_t>((column0 - first_column) * 2 + left - w0) * 8,
                16, 128);
            float sums[32];
            const auto multiply = [&](int row) { // a row of the convolution, with scale and bias
                const std::uint64_t a_row =
                    a_first + static_cast<std::uint64_t>((row - first_row) * 2) * (patch_pitch / 16);
#pragma unroll
                for (int i = 0; i < 32; ++i)
                    sums[i] = 0;
                sm90::wgmma_fence();
#pragma unroll
                for (int step = 0; step < R * steps_a_row; ++step)
                    sm90::Wgmma<__half, channels>::run(
                        sums,
                        a_row + static_cast<std::uint64_t>(step / steps_a_row * (patch_pitch / 16) +
                                                           step % steps_a_row * 2),
                        b_first + static_cast<std::uint64_t>(step * 2 * channels));
                sm90::wgmma_commit();
                sm90::wgmma_wait<0>();
#pragma unroll
                for (int i = 0; i < 32; ++i)
                    sm90::pin(sums[i]);
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const float4 v = vectors[j * 4 + q];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        sums[j * 4 + i * 2] = fmaf(sums[j * 4 + i * 2], v.x, v.y);
                        sums[j * 4 + i * 2 + 1] = fmaf(sums[j * 4 + i * 2 + 1], v.z, v.w);
                    }
                }
            };

            float best[32];
#pragma unroll
            for (int i = 0; i < 32; ++i)
                best[i] = -INFINITY;
            const int oh_end = oh_first + t.rows < p.pool_p ? oh_first + t.rows : p.pool_p;
            int row = first_row;
            for (int oh = oh_first; oh < oh_end; ++oh) {
                const int last = oh * 2 + 1 < p.p ? oh * 2 + 1 : p.p - 1;
                for (; row <= last; ++row) {
                    multiply(row);
#pragma unroll
                    for (int i = 0; i < 32; ++i)
                        best[i] = fmaxf(best[i], sums[i]);
                }
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int m = warp * 16 + i * 8 + g;
                    if (m >= conv_columns) continue;
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        Out pair[2];
#pragma unroll
                        for (int x = 0; x < 2; ++x)
                            pair[x] = from_float<Out>(fminf(fmaxf(best[j * 4 + i * 2 + x], t.low), t.high) *
                                                      p.epilogue.output_scale_inverse);
                        unsigned char* to =
                            staged + m * staged_pitch<Out> + (j * 8 + q * 2) * static_cast<int>(sizeof(Out));
                        if constexpr (sizeof(Out) == 2)
                            *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(pair);
                        else
                            *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(pair);
                    }
                }
#pragma unroll
                for (int i = 0; i < 32; ++i)
                    best[i] = sums[i]; // row 2 * oh + 1 belongs to the next one too
                sm90::named_barrier(1 + group, 128);

                constexpr int vec = 16 / static_cast<int>(sizeof(Out)), chunks = channels / vec;
#pragma unroll
                for (int i = thread % 128; i < pool_columns * chunks; i += 128) {
                    const int chunk = i % chunks, ow = ow0 + i / chunks;
                    if (ow >= p.pool_q || chunk * vec >= p.k) continue;
                    const unsigned char* at = staged + chunk * 16;
                    const int middle = ow * 2 - column0;
                    const int before = ow > 0 ? middle - 1 : middle, after = ow * 2 + 1 < p.q ? middle + 1 : middle;
                    const uint4 v =
                        larger(larger(*reinterpret_cast<const uint4*>(at + before * staged_pitch<Out>),
                                      *reinterpret_cast<const uint4*>(at + middle * staged_pitch<Out>), Out{}),
                               *reinterpret_cast<const uint4*>(at + after * staged_pitch<Out>), Out{});
                    const std::int64_t to =
                        ((static_cast<std::int64_t>(n) * p.pool_p + oh) * p.pool_q + ow) * p.k_stride + chunk * vec;
                    *reinterpret_cast<uint4*>(static_cast<Out*>(p.output) + to) = v;
                }
                sm90::named_barrier(1 + group, 128);
            }
        }
        __syncthreads(); // the patch may be overwritten
    }
#else
    (void)p;
    (void)t;
#endif
}

template <int R, int S, class Out>
cudaError_t launch_of(const StemParams& p, int rows, cudaStream_t stream, bool programmatic) {
    int device = 0, processors = 0;
    if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
    if (const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        code != cudaSuccess)
        return code;
    StemWork t{};
    t.rows = rows;
    t.across = (p.pool_q + groups * pool_columns - 1) / (groups * pool_columns);
    t.down = (p.pool_p + rows - 1) / rows;
    const std::int64_t count = std::int64_t{t.across} * t.down * p.n;
    if (count > 0x7fffffff) return cudaErrorInvalidValue;
    t.count = static_cast<int>(count);
    t.patch_rows = 2 * (2 * rows) + R;
    t.patch_bytes = (t.patch_rows * patch_pitch + 127) / 128 * 128;
    t.shift = p.window.pad_w % 2;
    t.vectors = p.w % 4 == 0 && reinterpret_cast<std::uintptr_t>(p.input) % 16 == 0 ? 1 : 0;
    t.low = p.epilogue.act == act_relu ? 0.0F : p.epilogue.act == act_clip ? p.epilogue.low : -INFINITY;
    t.high = p.epilogue.act == act_clip ? p.epilogue.high : INFINITY;
    const int shared = t.patch_bytes + fixed_bytes<R, S, Out>;
    if (const cudaError_t code =
            cudaFuncSetAttribute(stem_wgmma<R, S, Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        code != cudaSuccess)
        return code;
    const int most = processors * 2;
    return launch_kernel(stem_wgmma<R, S, Out>, static_cast<unsigned>(t.count < most ? t.count : most), threads,
                         static_cast<std::size_t>(shared), stream, programmatic, 1, p, t);
}

} // namespace

bool stem_wgmma_takes(const StemParams& p) {
    return stem_takes(p) && p.k % 16 == 0 && p.k_stride == p.k && p.pooled != 0 && p.c <= 3 && p.window.pad_w >= 0 &&
           p.window.pad_w < p.window.kernel_w && p.output_type != type_bf16 &&
           (p.epilogue.act == act_none || p.epilogue.act == act_relu || p.epilogue.act == act_clip) &&
           p.epilogue.output_scale_inverse >= 0 && p.n > 0 && p.p > 0 && p.q > 0 && 2 * (p.pool_p - 1) < p.p &&
           2 * (p.pool_q - 1) < p.q;
}

cudaError_t launch_stem_wgmma(const StemParams& p, int rows, cudaStream_t stream, bool programmatic) {
    if (!stem_wgmma_takes(p) || rows < 1 || rows > stem_wgmma_most_rows) return cudaErrorInvalidValue;
    if (p.window.kernel_h == 7)
        return p.output_type == type_f16 ? launch_of<7, 7, __half>(p, rows, stream, programmatic)
                                         : launch_of<7, 7, std::int8_t>(p, rows, stream, programmatic);
    return p.output_type == type_f16 ? launch_of<3, 3, __half>(p, rows, stream, programmatic)
                                     : launch_of<3, 3, std::int8_t>(p, rows, stream, programmatic);
}

} // namespace lathe::cuda::kernels
