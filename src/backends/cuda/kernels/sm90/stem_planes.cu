// The 7x7 stem for Hopper: f32 NCHW of up to 3 channels in, convolution of stride 2 with the 3x3 max pool of stride 2
// behind it, nhwc out. Channels are the rows of wgmma and pixels its columns: 64 x 112 sums, a row of the convolution.
//
// Weights lie in a warpgroup's registers. Of each row and channel of the input there is a plane in shared memory with
// 16 bytes for a result of the convolution, the 8 taps that begin one column in front of its window (the first has
// weight zero); 8 results are a core matrix of wgmma without swizzle. A pair of rows is 6 planes, a slot of a ring; the
// 7 rows of a window are 21 planes of 4 neighbouring slots, a reduction of 22 * 8 for 147 taps. Four warps load,
// convert and spread rows, four multiply.
//
// What comes behind the sums never decreases where the scale is positive, and weights of channels with a negative one
// are negated, so the pool's maximum over rows is taken of sums. Its maximum over columns is taken of two packed
// numbers at a time, across lanes of a quad. movmatrix brings channels beside each other: no memory between.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"
#include "backends/cuda/kernels/stems.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int window = 7, threads = 256, planes = 6;
constexpr int slots = 10, window_slots = 4, steps = 11;
constexpr int tasks = 3; ///< of a loading warp a slot: half a row of each channel
/// Sizes that follow from the columns of the convolution that a tile computes, 112 or 64.
template <int Columns>
struct Sizes {
    static constexpr int sums = Columns / 2, words = Columns / 16; ///< words: of pooled results a thread and channel
    static constexpr int quads = Columns / 4;                      ///< groups of 4 input columns in half a row
    static constexpr int plane_bytes = Columns * 16, slot_bytes = planes * plane_bytes;
    static constexpr int ahead = Columns == 112 ? 2 : 6; ///< slots whose rows a loading warp has in registers
    static constexpr int load_registers = Columns == 112 ? 56 : 112,
                         multiply_registers = 256 - load_registers; ///< two blocks share 512 a lane of four warps
    static constexpr int shared_bytes = slots * slot_bytes + slots * 2 * 8;
};
/// Pooled columns of a tile that is not the only one across, and those in front that it computes in vain.
constexpr int narrow_pooled = 28, narrow_lead = 4;

struct PlanesWork {
    int rows, down, across, count; ///< rows of the pool a tile; tiles of an image, in all
    float low, high;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// clang-format off
/// sums[64 x N] (+)= a[64 x 16] * b[N x 16]^T: `a` in registers, `b` a descriptor. The first takes no sums.
template <int N, bool First>
__device__ __forceinline__ void multiply_step(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
#define LATHE_SUMS_8(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3]), kind(d[i + 4]), kind(d[i + 5]), kind(d[i + 6]), kind(d[i + 7])
#define LATHE_SUMS_32(kind) LATHE_SUMS_8(kind, 0), LATHE_SUMS_8(kind, 8), LATHE_SUMS_8(kind, 16), LATHE_SUMS_8(kind, 24)
#define LATHE_SUMS_56(kind) LATHE_SUMS_32(kind), LATHE_SUMS_8(kind, 32), LATHE_SUMS_8(kind, 40), LATHE_SUMS_8(kind, 48)
#define LATHE_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LATHE_NAMES_56 LATHE_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55"
#define LATHE_STEP(N, names, sums, keep, a0, a1, a2, a3, at)                                                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" names "}, {" a0 ", " a1 ", " a2 ", " a3    \
                 "}, " at ", p, 1, 1, 0;\n}\n"                                                                         \
                 : sums : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
    if constexpr (N == 112 && First)
        LATHE_STEP(112, LATHE_NAMES_56, LATHE_SUMS_56("=f"), "0", "%56", "%57", "%58", "%59", "%60");
    else if constexpr (N == 112)
        LATHE_STEP(112, LATHE_NAMES_56, LATHE_SUMS_56("+f"), "1", "%56", "%57", "%58", "%59", "%60");
    else if constexpr (First)
        LATHE_STEP(64, LATHE_NAMES_32, LATHE_SUMS_32("=f"), "0", "%32", "%33", "%34", "%35", "%36");
    else
        LATHE_STEP(64, LATHE_NAMES_32, LATHE_SUMS_32("+f"), "1", "%32", "%33", "%34", "%35", "%36");
#undef LATHE_STEP
#undef LATHE_NAMES_56
#undef LATHE_NAMES_32
#undef LATHE_SUMS_56
#undef LATHE_SUMS_32
#undef LATHE_SUMS_8
}
// clang-format on

/// The 8 x 8 matrix of 16-bit numbers that a warp holds, a row a quad, transposed.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t v) {
    std::uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(v));
    return out;
}

/// Two results as stored numbers, 16 bits each; s8 as s16.
template <class Out>
__device__ __forceinline__ std::uint32_t pack_two(float a, float b, const PlanesWork& t) {
    if constexpr (sizeof(Out) == 2) {
        const __half2 h = __floats2half2_rn(a, b);
        return *reinterpret_cast<const std::uint32_t*>(&h);
    } else { // added to 1.5 * 2^23 a number is rounded to nearest even, and the lowest bits are the integer
        constexpr float magic = 12582912.0F;
        return __byte_perm(__float_as_uint(fminf(fmaxf(a, t.low), t.high) + magic),
                           __float_as_uint(fminf(fmaxf(b, t.low), t.high) + magic), 0x5410);
    }
}
template <class Out>
__device__ __forceinline__ std::uint32_t largest(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    if constexpr (sizeof(Out) == 2) {
        const __half2 v = __hmax2(__hmax2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b)),
                                  *reinterpret_cast<const __half2*>(&c));
        return *reinterpret_cast<const std::uint32_t*>(&v);
    } else {
        return __vimax3_s16x2(a, b, c);
    }
}

/// Where the loading warps and the multiplying ones are in the ring.
struct RingPlace {
    std::uint32_t slot = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++slot == slots) slot = 0, parity ^= 1;
    }
};

/// Where a tile lies. Columns of the convolution from `column` on are computed, results from `ow` to `ow_end` stored.
struct TilePlace {
    int n, oh, oh_end, column, ow, ow_end;
    __device__ __forceinline__ TilePlace(int tile, const StemParams& p, const PlanesWork& t) {
        const int part = tile % t.across, rest = tile / t.across;
        n = rest / t.down;
        oh = (rest - n * t.down) * t.rows;
        oh_end = oh + t.rows < p.pool_p ? oh + t.rows : p.pool_p;
        ow = part * narrow_pooled;
        ow_end = t.across == 1 || ow + narrow_pooled > p.pool_q ? p.pool_q : ow + narrow_pooled;
        column = part == 0 ? 0 : 2 * (ow - narrow_lead);
    }
    __device__ __forceinline__ int first_row() const { return oh > 0 ? oh * 2 - 1 : 0; }
};

/// A block's tiles, each with its run of row pairs: pair i of a tile is row h0 + 2 * i of the image and the next.
struct PairCursor {
    const float* image;
    int tile, pair, pairs, h0, column;
    __device__ __forceinline__ void begin(const StemParams& p, const PlanesWork& t) {
        const TilePlace place(tile, p, t);
        column = place.column * 2;
        image = p.input + static_cast<std::int64_t>(place.n) * p.c * p.h * p.w;
        h0 = place.first_row() * 2 - p.window.pad_h;
        pair = 0;
        pairs = place.oh_end * 2 - place.first_row() + window_slots - 1;
    }
    __device__ __forceinline__ void next(const StemParams& p, const PlanesWork& t) {
        if (++pair < pairs) return;
        tile += static_cast<int>(gridDim.x);
        if (tile < t.count) begin(p, t);
    }
};

__device__ __forceinline__ float4 load_or_zero(const float* from, bool valid) {
    float4 v;
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\n"
                 "mov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&f"(v.x), "=&f"(v.y), "=&f"(v.z), "=&f"(v.w)
                 : "l"(from), "r"(static_cast<std::uint32_t>(valid)));
    return v;
}

/// A warp's part of filling the ring: lane l of a half row has columns 4 * f to 4 * f + 3 of the tile's, with
/// f = quads * half - 1 + l; lanes 1 to `quads` write the results 2 * f and 2 * f + 1.
template <int Columns>
struct Loader {
    using Size = Sizes<Columns>;
    const StemParams& p;
    const PlanesWork& t;
    std::uint32_t ring, full, empty; ///< ring: at the warp's row and half
    int lane, row, f;
    RingPlace place;
    PairCursor cursor;

    __device__ __forceinline__ void load(float4 (&v)[tasks]) {
        const int h = cursor.h0 + cursor.pair * 2 + row, column = cursor.column + f * 4;
        // the second row of a tile's last pair belongs to no window
        const bool inside =
            cursor.tile < t.count && lane < Size::quads + 2 && static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
            static_cast<unsigned>(column) < static_cast<unsigned>(p.w) && (row == 0 || cursor.pair + 1 < cursor.pairs);
        const float* from = cursor.image + static_cast<std::int64_t>(h) * p.w + column;
        const std::int64_t plane = static_cast<std::int64_t>(p.h) * p.w;
#pragma unroll
        for (int i = 0; i < tasks; ++i)
            v[i] = load_or_zero(from + i * plane, inside && i < p.c);
        if (cursor.tile < t.count) cursor.next(p, t);
    }
    __device__ __forceinline__ void store(const float4 (&v)[tasks]) {
        sm90::barrier_wait(empty + place.slot * 8, place.parity ^ 1);
        const std::uint32_t slot = ring + place.slot * Size::slot_bytes;
        const bool swap = (lane & 4) != 0; // keeps the 8 lanes of a store in different banks
#pragma unroll
        for (int i = 0; i < tasks; ++i) {
            const __half2 a = __floats2half2_rn(v[i].x, v[i].y), b = __floats2half2_rn(v[i].z, v[i].w);
            const std::uint32_t lo = *reinterpret_cast<const std::uint32_t*>(&a),
                                hi = *reinterpret_cast<const std::uint32_t*>(&b);
            const std::uint32_t before_lo = __shfl_up_sync(0xffffffffU, lo, 1),
                                before_hi = __shfl_up_sync(0xffffffffU, hi, 1),
                                after = __shfl_down_sync(0xffffffffU, lo, 1);
            const auto put = [&](std::uint32_t at, std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x), "r"(y), "r"(z), "r"(w)
                             : "memory");
            };
            if (lane >= 1 && lane <= Size::quads) {
                const std::uint32_t at = slot + static_cast<std::uint32_t>(i * Size::plane_bytes);
                put(at + (swap ? 16 : 0), swap ? before_hi : before_lo, swap ? lo : before_hi, swap ? hi : lo,
                    swap ? after : hi);
                put(at + (swap ? 0 : 16), swap ? before_lo : before_hi, swap ? before_hi : lo, swap ? lo : hi,
                    swap ? hi : after);
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads what this thread wrote
        __syncwarp();
        if (lane == 0) sm90::barrier_arrive(full + place.slot * 8);
        place.next();
    }
    __device__ __forceinline__ bool more() const { return cursor.tile < t.count; }
};

/// Channel of row i of a warp's 16, so that movmatrix leaves a lane 4 neighbouring ones.
template <class Out>
__device__ __forceinline__ int channel_of_row(int i) {
    const int half = i >> 3, j = i & 7;
    return sizeof(Out) == 2 ? 4 * (j >> 1) + (j & 1) + 2 * half : 2 * j + half;
}

template <class Out, int Columns>
struct Multiplier {
    using Size = Sizes<Columns>;
    static constexpr int words = Size::words;
    const StemParams& p;
    const PlanesWork& t;
    std::uint32_t full, empty;
    std::uint64_t ring; ///< descriptor
    int warp, lane, g, q;
    RingPlace oldest, newest;
    std::uint32_t a[steps][4];
    float scale[2], bias[2];

    __device__ __forceinline__ void load_weights() {
        const uint2* weight = static_cast<const uint2*>(p.weight);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int k = warp * 16 + channel_of_row<Out>(half * 8 + g);
            const bool real = k < p.k;
            const float factor = !real ? 0.0F : p.epilogue.scale != nullptr ? p.epilogue.scale[k] : 1.0F;
            const std::uint32_t sign = factor < 0 ? 0x80008000U : 0U;
            scale[half] = fabsf(factor);
            bias[half] = real && p.epilogue.bias != nullptr ? p.epilogue.bias[k] : 0.0F;
            a[steps - 1][half] = 0;
#pragma unroll
            for (int r = 0; r < window; ++r) {
                uint2 taps[2];
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    const int s = q * 2 + x - 1;
                    taps[x] = make_uint2(0, 0);
                    if (real && s >= 0) taps[x] = __ldg(weight + (k * window + r) * window + s);
                }
#pragma unroll
                for (int c = 0; c < 3; ++c) {
                    const int plane = r * 3 + c + (r * 3 + c == 2 * steps - 2 ? 1 : 0);
                    const std::uint32_t word = c < 2 ? __byte_perm(taps[0].x, taps[1].x, c == 0 ? 0x5410 : 0x7632)
                                                     : __byte_perm(taps[0].y, taps[1].y, 0x5410);
                    a[plane / 2][plane % 2 * 2 + half] = word ^ sign;
                }
            }
        }
    }
    __device__ __forceinline__ void await() {
        sm90::barrier_wait(full + newest.slot * 8, newest.parity);
        newest.next();
    }
    __device__ __forceinline__ void release() {
        if (lane == 0) sm90::barrier_arrive(empty + oldest.slot * 8);
        oldest.next();
    }
    /// Starts the next row of the convolution.
    __device__ __forceinline__ void start(float (&sums)[Size::sums]) {
        await();
        sm90::wgmma_fence();
        std::uint32_t slot = oldest.slot;
#pragma unroll
        for (int i = 0; i < window_slots; ++i) {
            const std::uint64_t b = ring + slot * (Size::slot_bytes / 16);
            if (i == 0) {
                multiply_step<Columns, true>(sums, a[0], b);
            } else {
                multiply_step<Columns, false>(sums, a[i * 3], b);
            }
            if (i < window_slots - 1) {
                multiply_step<Columns, false>(sums, a[i * 3 + 1], b + 2 * Size::plane_bytes / 16);
                multiply_step<Columns, false>(sums, a[i * 3 + 2], b + 4 * Size::plane_bytes / 16);
            } else {
                multiply_step<Columns, false>(sums, a[i * 3 + 1], b + Size::plane_bytes / 16);
            }
            slot = slot + 1 == slots ? 0 : slot + 1;
        }
        sm90::wgmma_commit();
    }
    __device__ __forceinline__ void finish(float (&sums)[Size::sums]) {
        sm90::wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < Size::sums; ++i)
            sm90::pin(sums[i]);
        release();
    }

    /// Maximum over rows to stored numbers, two of 8 columns' distance a word, even columns and odd ones.
    __device__ __forceinline__ void pack(const float (&best)[Size::sums], std::uint32_t (&even)[2][words],
                                         std::uint32_t (&odd)[2][words]) const {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int w = 0; w < words; ++w) {
                float v[4];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    v[i] = fmaf(best[w * 8 + i / 2 * 4 + half * 2 + i % 2], scale[half], bias[half]);
                even[half][w] = pack_two<Out>(v[0], v[2], t);
                odd[half][w] = pack_two<Out>(v[1], v[3], t);
            }
    }
    __device__ __forceinline__ void store(const std::uint32_t (&even)[2][words], const std::uint32_t (&odd)[2][words],
                                          const TilePlace& place, int oh) const {
        const int source = (lane & ~3) | ((lane + 3) & 3);
        std::uint32_t best[2][words];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            std::uint32_t left = even[half][0]; // in front of the first column there is none
#pragma unroll
            for (int w = 0; w < words; ++w) {
                const std::uint32_t other = __shfl_sync(0xffffffffU, odd[half][w], source);
                const std::uint32_t before = __byte_perm(left, other, q != 0 ? 0x7654 : w == 0 ? 0x5410 : 0x5432);
                best[half][w] = largest<Out>(even[half][w], odd[half][w], before);
                left = other;
                if constexpr (sizeof(Out) == 2) {
                    __half2& v = *reinterpret_cast<__half2*>(&best[half][w]);
                    v = __hmin2(__hmax2(v, __float2half2_rn(t.low)), __float2half2_rn(t.high));
                }
            }
        }
        Out* row = static_cast<Out*>(p.output) +
                   (static_cast<std::int64_t>(place.n) * p.pool_p + oh) * p.pool_q * p.k_stride + warp * 16 + q * 4;
#pragma unroll
        for (int w = 0; w < words; ++w) {
            const int ow = place.column / 2 + w * 8 + (g & 1) * 4 + (g >> 1);
            Out* to = row + ow * p.k_stride;
            const bool real = ow >= place.ow && ow < place.ow_end && warp * 16 < p.k;
            if constexpr (sizeof(Out) == 2) {
                const uint2 v = make_uint2(transposed(best[0][w]), transposed(best[1][w]));
                if (real) *reinterpret_cast<uint2*>(to) = v;
            } else {
                const std::uint32_t v = transposed(__byte_perm(best[0][w], best[1][w], 0x6240));
                if (real) *reinterpret_cast<std::uint32_t*>(to) = v;
            }
        }
    }
};
#endif

template <class Out, int Columns>
__global__ void __launch_bounds__(threads, 2)
    stem_planes(const __grid_constant__ StemParams p, const __grid_constant__ PlanesWork t) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using Size = Sizes<Columns>;
    extern __shared__ __align__(128) unsigned char shared[];
    const std::uint32_t ring = sm90::shared_address(shared), full = ring + slots * Size::slot_bytes,
                        empty = full + slots * 8;
    const int thread = static_cast<int>(threadIdx.x), warp = thread % 128 / 32, lane = thread % 32;
    if (thread == 0) {
        for (std::uint32_t i = 0; i < slots; ++i) {
            sm90::barrier_init(full + i * 8, 4);
            sm90::barrier_init(empty + i * 8, 4);
        }
        sm90::fence_barrier_init();
    }
    __syncthreads();
    if (thread < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Size::load_registers));
        const int row = warp / 2, f = Size::quads * (warp & 1) - 1 + lane;
        Loader<Columns> l{p,    t,     ring + static_cast<std::uint32_t>(row * tasks * Size::plane_bytes + f * 32),
                          full, empty, lane,
                          row,  f,     {},
                          {}};
        l.cursor.tile = static_cast<int>(blockIdx.x);
        if (l.more()) l.cursor.begin(p, t);
        pdl_wait();
        pdl_trigger();
        float4 v[Size::ahead][tasks];
        int pending = 0; // loads without a store yet
        const auto load = [&](float4(&to)[tasks]) {
            pending += l.more() ? 1 : 0;
            l.load(to);
        };
#pragma unroll
        for (int i = 0; i < Size::ahead - 1; ++i)
            load(v[i]);
        while (pending > 0) {
#pragma unroll
            for (int i = 0; i < Size::ahead; ++i) {
                load(v[(i + Size::ahead - 1) % Size::ahead]);
                if (pending == 0) break;
                l.store(v[i]);
                --pending;
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Size::multiply_registers));
        // no swizzle: core matrices of 8 rows of 16 bytes, the two of a step a plane apart
        const std::uint64_t first = static_cast<std::uint64_t>((ring & 0x3ffffU) >> 4) |
                                    static_cast<std::uint64_t>(Size::plane_bytes / 16) << 16 |
                                    static_cast<std::uint64_t>(128 / 16) << 32;
        Multiplier<Out, Columns> m{p, t, full, empty, first, warp, lane, lane >> 2, lane & 3, {}, {}, {}, {}, {}};
        m.load_weights();
        pdl_wait();
        pdl_trigger();
        for (int tile = static_cast<int>(blockIdx.x); tile < t.count; tile += static_cast<int>(gridDim.x)) {
            const TilePlace place(tile, p, t);
            const int oh_first = place.oh, oh_end = place.oh_end;
            for (int i = 0; i < window_slots - 1; ++i)
                m.await();
            float sums[Size::sums], best[Size::sums];
            if (oh_first > 0) {
                m.start(sums);
                m.finish(sums);
            }
#pragma unroll
            for (int i = 0; i < Size::sums; ++i)
                best[i] = oh_first > 0 ? sums[i] : -INFINITY;
            for (int oh = oh_first; oh < oh_end; ++oh) {
                m.start(sums);
                m.finish(sums);
#pragma unroll
                for (int i = 0; i < Size::sums; ++i)
                    best[i] = fmaxf(best[i], sums[i]);
                m.start(sums);
                m.finish(sums);
#pragma unroll
                for (int i = 0; i < Size::sums; ++i)
                    best[i] = fmaxf(best[i], sums[i]);
                std::uint32_t even[2][Size::words], odd[2][Size::words];
                m.pack(best, even, odd);
#pragma unroll
                for (int i = 0; i < Size::sums; ++i)
                    best[i] = sums[i];
                m.store(even, odd, place, oh);
            }
            for (int i = 0; i < window_slots - 1; ++i)
                m.release();
        }
    }
#else
    (void)p;
    (void)t;
#endif
}

template <class Out, int Columns>
cudaError_t launch_of(const StemParams& p, int rows, cudaStream_t stream, bool programmatic) {
    int device = 0, processors = 0;
    if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
    if (const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        code != cudaSuccess)
        return code;
    PlanesWork t{};
    t.rows = rows;
    t.down = (p.pool_p + rows - 1) / rows;
    t.across = Columns == 112 ? 1 : (p.pool_q + narrow_pooled - 1) / narrow_pooled;
    const std::int64_t count = std::int64_t{t.down} * t.across * p.n;
    if (count > 0x7fffffff) return cudaErrorInvalidValue;
    t.count = static_cast<int>(count);
    t.low = p.epilogue.act == act_relu ? 0.0F : p.epilogue.act == act_clip ? p.epilogue.low : -INFINITY;
    t.high = p.epilogue.act == act_clip ? p.epilogue.high : INFINITY;
    if (sizeof(Out) == 1) {
        t.low = fminf(fmaxf(t.low, -128.0F), 127.0F);
        t.high = fminf(fmaxf(t.high, -128.0F), 127.0F);
    }
    if (const cudaError_t code = cudaFuncSetAttribute(
            stem_planes<Out, Columns>, cudaFuncAttributeMaxDynamicSharedMemorySize, Sizes<Columns>::shared_bytes);
        code != cudaSuccess)
        return code;
    const int most = processors * 2;
    return launch_kernel(stem_planes<Out, Columns>, static_cast<unsigned>(t.count < most ? t.count : most), threads,
                         static_cast<std::size_t>(Sizes<Columns>::shared_bytes), stream, programmatic, 1, p, t);
}

} // namespace

bool stem_planes_takes(const StemParams& p, const StemPlanesTile& tile) {
    return stem_wgmma_takes(p) && p.window.kernel_h == window && p.window.pad_w == 3 && p.window.pad_h >= 0 &&
           p.w % 4 == 0 && p.p == 2 * p.pool_p && p.q == 2 * p.pool_q && p.w <= 2 * p.q &&
           p.epilogue.output_scale_inverse == 1 && reinterpret_cast<std::uintptr_t>(p.input) % 16 == 0 &&
           tile.rows > 0 && (tile.columns == 64 || (tile.columns == 112 && p.q <= 112));
}

cudaError_t launch_stem_planes(const StemParams& p, const StemPlanesTile& tile, cudaStream_t stream,
                               bool programmatic) {
    if (!stem_planes_takes(p, tile)) return cudaErrorInvalidValue;
    if (tile.columns == 64)
        return p.output_type == type_f16 ? launch_of<__half, 64>(p, tile.rows, stream, programmatic)
                                         : launch_of<std::int8_t, 64>(p, tile.rows, stream, programmatic);
    return p.output_type == type_f16 ? launch_of<__half, 112>(p, tile.rows, stream, programmatic)
                                     : launch_of<std::int8_t, 112>(p, tile.rows, stream, programmatic);
}

} // namespace lathe::cuda::kernels
