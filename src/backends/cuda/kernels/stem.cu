// First convolution of an image network: f32 NCHW of up to 4 channels in, nhwc out, products of f16 on mma.sync, with
// the 3x3 max pool behind it if asked for.
//
// A block takes tiles of th x tw results of the convolution in turn. Its input patch lies in shared memory as
// [row][column][4] f16, so that four neighbouring taps of a row are 16 products and two pixels are the 16 bytes that
// ldmatrix takes: no gathering. Taps of a row are padded to a multiple of 4 with zero weights. The weights of a warp's
// 16 output channels stay in its registers.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

struct StemTiles {
    int th, tw;       ///< results of the convolution a tile
    int out_h, out_w; ///< results written a tile
    int down, across; ///< tiles of an image
    int count;        ///< tiles in all
    int patch_h, patch_w;
    int n_groups, m_groups;
    int patch_bytes, pitch; ///< pitch: bytes of a pixel in the staged result
    float low, high;        ///< of a plain activation
};

template <class T>
__device__ __forceinline__ T lowest();
template <>
__device__ __forceinline__ __half lowest<__half>() {
    return __ushort_as_half(0xfc00);
}
template <>
__device__ __forceinline__ std::int8_t lowest<std::int8_t>() {
    return -128;
}

__device__ __forceinline__ std::uint32_t max_words(std::uint32_t a, std::uint32_t b, __half) {
    const __half2 v = __hmax2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&v);
}
__device__ __forceinline__ std::uint32_t max_words(std::uint32_t a, std::uint32_t b, std::int8_t) {
    return __vmaxs4(a, b);
}

/// Plain: the activation is a clamp. Others call a function, around which nothing stays in registers.
template <int R, int S, class Out, bool Plain>
__global__ void __launch_bounds__(256, 2)
    stem(const __grid_constant__ StemParams p, const __grid_constant__ StemTiles t) {
    constexpr int steps_a_row = (S + 3) / 4, steps = R * steps_a_row;
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char* staged = shared + t.patch_bytes;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const int n0 = warp % t.n_groups * 16, m_group = warp / t.n_groups;
    const int g = lane >> 2, q = lane & 3;

    // weights: they do not depend on the kernel before
    std::uint32_t b[steps][2][2];
    const __half* weight = static_cast<const __half*>(p.weight);
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = step / steps_a_row, s = step % steps_a_row * 4 + half * 2 + q / 2, c = q % 2 * 2;
                const int k = n0 + j * 8 + g;
                b[step][j][half] = s < S && k < p.k
                                       ? *reinterpret_cast<const std::uint32_t*>(weight + ((k * R + r) * S + s) * 4 + c)
                                       : 0U;
            }
    float scale[4], bias[4];
    bool real[4]; // false: channel padding, which is written as 0
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = n0 + i / 2 * 8 + q * 2 + i % 2;
        real[i] = k < p.k;
        scale[i] = p.epilogue.scale != nullptr && k < p.k ? p.epilogue.scale[k] : 1.0F;
        bias[i] = p.epilogue.bias != nullptr && k < p.k ? p.epilogue.bias[k] : 0.0F;
    }
    pdl_wait();
    pdl_trigger();

    const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
    const int threads = static_cast<int>(blockDim.x);
    for (int tile = static_cast<int>(blockIdx.x); tile < t.count; tile += static_cast<int>(gridDim.x)) {
        const int n = tile / (t.down * t.across), rest = tile - n * t.down * t.across;
        const int out_h0 = rest / t.across * t.out_h, out_w0 = rest % t.across * t.out_w;
        const int oh0 = p.pooled != 0 ? out_h0 * 2 - 1 : out_h0, ow0 = p.pooled != 0 ? out_w0 * 2 - 1 : out_w0;
        const int h0 = oh0 * 2 - p.window.pad_h, w0 = ow0 * 2 - p.window.pad_w;
        const float* image = p.input + n * p.c * plane;
#pragma unroll 4
        for (int i = thread; i < t.patch_h * t.patch_w; i += threads) {
            const int row = i / t.patch_w, h = h0 + row, w = w0 + (i - row * t.patch_w);
            float v[4] = {};
            if (static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                static_cast<unsigned>(w) < static_cast<unsigned>(p.w)) {
                const float* from = image + static_cast<std::int64_t>(h) * p.w + w;
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    if (c < p.c) v[c] = __ldg(from + c * plane);
            }
            const __half2 lo = __floats2half2_rn(v[0], v[1]), hi = __floats2half2_rn(v[2], v[3]);
            uint2 packed;
            packed.x = *reinterpret_cast<const std::uint32_t*>(&lo);
            packed.y = *reinterpret_cast<const std::uint32_t*>(&hi);
            *reinterpret_cast<uint2*>(shared + i * 8) = packed;
        }
        __syncthreads();

        const int pixels = t.th * t.tw;
        for (int m0 = m_group * 16; m0 < pixels; m0 += t.m_groups * 16) {
            const int mine = m0 + (lane & 15) < pixels ? m0 + (lane & 15) : pixels - 1;
            const int row = mine / t.tw, column = mine - row * t.tw;
            const std::uint32_t from =
                static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                static_cast<std::uint32_t>((row * 2 * t.patch_w + column * 2) * 8 + (lane >> 4) * 16);
            float acc[2][4] = {};
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                std::uint32_t a[4];
                const std::uint32_t at =
                    from + static_cast<std::uint32_t>((step / steps_a_row * t.patch_w + step % steps_a_row * 4) * 8);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                             : "r"(at));
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                                 "{%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[step][j][0]), "r"(b[step][j][1]));
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int m = m0 + half * 8 + g, r = m / t.tw, oh = oh0 + r, ow = ow0 + m - r * t.tw;
                if (m >= pixels) continue;
                const bool inside = static_cast<unsigned>(oh) < static_cast<unsigned>(p.p) &&
                                    static_cast<unsigned>(ow) < static_cast<unsigned>(p.q);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    Out pair[2];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const float sum = acc[j][half * 2 + i];
                        float v;
                        if constexpr (Plain)
                            v = fminf(fmaxf(fmaf(sum, scale[j * 2 + i], bias[j * 2 + i]), t.low), t.high) *
                                p.epilogue.output_scale_inverse;
                        else
                            v = finish(sum, scale[j * 2 + i], bias[j * 2 + i], 0.0F, p.epilogue);
                        pair[i] = inside ? from_float<Out>(real[j * 2 + i] ? v : 0.0F) : lowest<Out>();
                    }
                    unsigned char* to = staged + m * t.pitch + (n0 + j * 8 + q * 2) * static_cast<int>(sizeof(Out));
                    if constexpr (sizeof(Out) == 2)
                        *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(pair);
                    else
                        *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(pair);
                }
            }
        }
        __syncthreads();

        constexpr int vec = 16 / sizeof(Out);
        const int chunks = p.k_stride / vec, limit_h = p.pooled != 0 ? p.pool_p : p.p,
                  limit_w = p.pooled != 0 ? p.pool_q : p.q;
        for (int i = thread; i < t.out_h * t.out_w * chunks; i += threads) {
            const int chunk = i % chunks, pixel = i / chunks, r = pixel / t.out_w, c = pixel - r * t.out_w;
            if (out_h0 + r >= limit_h || out_w0 + c >= limit_w) continue;
            uint4 best;
            if (p.pooled != 0) {
                const unsigned char* at = staged + ((r * 2) * t.tw + c * 2) * t.pitch + chunk * 16;
                best = *reinterpret_cast<const uint4*>(at);
#pragma unroll
                for (int k = 1; k < 9; ++k) {
                    const uint4 v = *reinterpret_cast<const uint4*>(at + (k / 3 * t.tw + k % 3) * t.pitch);
                    best = make_uint4(max_words(best.x, v.x, Out{}), max_words(best.y, v.y, Out{}),
                                      max_words(best.z, v.z, Out{}), max_words(best.w, v.w, Out{}));
                }
            } else {
                best = *reinterpret_cast<const uint4*>(staged + (r * t.tw + c) * t.pitch + chunk * 16);
            }
            const std::int64_t to =
                ((static_cast<std::int64_t>(n) * limit_h + out_h0 + r) * limit_w + out_w0 + c) * p.k_stride;
            *reinterpret_cast<uint4*>(static_cast<Out*>(p.output) + to + chunk * vec) = best;
        }
        __syncthreads();
    }
}

template <int R, int S, class Out, bool Plain>
cudaError_t launch_kind(const StemParams& p, cudaStream_t stream, bool programmatic) {
    int device = 0, processors = 0;
    if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
    if (const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        code != cudaSuccess)
        return code;
    const int height = p.pooled != 0 ? p.pool_p : p.p, width = p.pooled != 0 ? p.pool_q : p.q;
    StemTiles t{};
    t.low = p.epilogue.act == act_relu ? 0.0F : p.epilogue.act == act_clip ? p.epilogue.low : -INFINITY;
    t.high = p.epilogue.act == act_clip ? p.epilogue.high : INFINITY;
    t.out_w = p.pooled != 0 ? 14 : 28;
    t.out_h = p.pooled != 0 ? 4 : 8;
    const auto count = [&] {
        t.across = (width + t.out_w - 1) / t.out_w;
        t.down = (height + t.out_h - 1) / t.out_h;
        return std::int64_t{t.across} * t.down * p.n;
    };
    if (count() < processors) t.out_h /= 2; // few images: smaller tiles on more multiprocessors
    if (count() > 0x7fffffff) return cudaErrorInvalidValue;
    t.count = static_cast<int>(count());
    t.th = p.pooled != 0 ? 2 * t.out_h + 1 : t.out_h;
    t.tw = p.pooled != 0 ? 2 * t.out_w + 1 : t.out_w;
    t.patch_h = (t.th - 1) * 2 + R;
    t.patch_w = (t.tw - 1) * 2 + (S + 3) / 4 * 4;
    t.n_groups = (p.k + 15) / 16;
    t.m_groups = 8 / t.n_groups;
    t.patch_bytes = (t.patch_h * t.patch_w * 8 + 127) / 128 * 128;
    t.pitch = t.n_groups * 16 * static_cast<int>(sizeof(Out)) + 16;
    const int shared = t.patch_bytes + t.th * t.tw * t.pitch;
    if (const cudaError_t code =
            cudaFuncSetAttribute(stem<R, S, Out, Plain>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        code != cudaSuccess)
        return code;
    const int most = processors * 2;
    return launch_kernel(stem<R, S, Out, Plain>, static_cast<unsigned>(t.count < most ? t.count : most),
                         static_cast<unsigned>(32 * t.n_groups * t.m_groups), static_cast<std::size_t>(shared), stream,
                         programmatic, 1, p, t);
}

template <int R, int S, class Out>
cudaError_t launch_of(const StemParams& p, cudaStream_t stream, bool programmatic) {
    const std::int32_t act = p.epilogue.act;
    return act == act_none || act == act_relu || act == act_clip
               ? launch_kind<R, S, Out, true>(p, stream, programmatic)
               : launch_kind<R, S, Out, false>(p, stream, programmatic);
}

} // namespace

bool stem_takes(const StemParams& p) {
    if (p.c < 1 || p.c > 4 || p.weight_c != 4 || p.k < 1 || p.k > 64) return false;
    const int vec = p.output_type == type_f16 ? 8 : 16;
    if (p.k_stride < p.k || p.k_stride > (p.k + 15) / 16 * 16 || p.k_stride % vec != 0) return false;
    const WindowParams& window = p.window;
    if (window.stride_h != 2 || window.stride_w != 2 || window.dil_h != 1 || window.dil_w != 1) return false;
    if (window.kernel_h != window.kernel_w || (window.kernel_h != 7 && window.kernel_h != 3)) return false;
    if (p.weight_type != type_f16) return false;
    return p.output_type == type_f16 || p.output_type == type_s8;
}

cudaError_t launch_stem(const StemParams& p, cudaStream_t stream, bool programmatic) {
    if (!stem_takes(p)) return cudaErrorInvalidValue;
    if (p.window.kernel_h == 7)
        return p.output_type == type_f16 ? launch_of<7, 7, __half>(p, stream, programmatic)
                                         : launch_of<7, 7, std::int8_t>(p, stream, programmatic);
    return p.output_type == type_f16 ? launch_of<3, 3, __half>(p, stream, programmatic)
                                     : launch_of<3, 3, std::int8_t>(p, stream, programmatic);
}

} // namespace lathe::cuda::kernels
