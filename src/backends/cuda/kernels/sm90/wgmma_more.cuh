#pragma once
// Further wgmma forms of sm_90a: 192 columns, and f16 products with A in registers and B with its columns contiguous.

#include <cstdint>

#include "backends/cuda/kernels/sm90/wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

// clang-format off
#define LATHE_WIDE_4(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define LATHE_WIDE_16(kind, i) LATHE_WIDE_4(kind, i), LATHE_WIDE_4(kind, i + 4), LATHE_WIDE_4(kind, i + 8), LATHE_WIDE_4(kind, i + 12)
#define LATHE_WIDE_32(kind, i) LATHE_WIDE_16(kind, i), LATHE_WIDE_16(kind, i + 16)

/// d[64 x N] += a[64 x 16] * b[16 x N]: `a` in registers as the sums of an earlier product lie, packed; `b` in shared
/// memory with columns next to each other, 2 N bytes a row, swizzled as wide as a row.
template <int N>
struct WgmmaValues;
#define LATHE_WGMMA_VALUES(N, SUMS, NAMES, A0, A1, A2, A3, B)                                                          \
    template <> struct WgmmaValues<N> {                                                                                \
        __device__ static void run(float (&d)[SUMS], const std::uint32_t (&a)[4], std::uint64_t b) {                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                    \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES "}, {" A0 ", " A1 ", "        \
                         A2 ", " A3 "}, " B ", p, 1, 1, 1;\n}\n"                                                       \
                         : LATHE_WIDE_##SUMS("+f", 0)                                                                  \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                        \
        }                                                                                                              \
    };
#define LATHE_VALUES_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
LATHE_WGMMA_VALUES(32, 16, LATHE_VALUES_NAMES_16, "%16", "%17", "%18", "%19", "%20")
#define LATHE_VALUES_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
LATHE_WGMMA_VALUES(64, 32, LATHE_VALUES_NAMES_32, "%32", "%33", "%34", "%35", "%36")

/// d[64 x 64] (+)= a[64 x 16] * b[64 x 16]^T; `a` and `b` are descriptors. The first of a chain takes no sums.
__device__ inline void wgmma_scores_first(float (&d)[32], std::uint64_t a, std::uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" LATHE_VALUES_NAMES_32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : LATHE_WIDE_32("=f", 0)
                 : "l"(a), "l"(b));
}
__device__ inline void wgmma_scores_next(float (&d)[32], std::uint64_t a, std::uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" LATHE_VALUES_NAMES_32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : LATHE_WIDE_32("+f", 0)
                 : "l"(a), "l"(b));
}

#undef LATHE_VALUES_NAMES_16
#undef LATHE_VALUES_NAMES_32
#undef LATHE_WGMMA_VALUES
#undef LATHE_WIDE_32
#undef LATHE_WIDE_16
#undef LATHE_WIDE_4
// clang-format on

} // namespace lathe::cuda::kernels::sm90
