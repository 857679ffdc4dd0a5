#pragma once
// The first wgmma of a chain: its sums need not be set before.

#include <cstdint>

#include "backends/cuda/kernels/sm90/wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

/// d[64 x N] = a[64 x K] * b[N x K]^T, else as Wgmma.
template <class T, int N>
struct WgmmaFirst;

// clang-format off
#define LATHE_FIRST_4(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define LATHE_FIRST_16(kind, i) LATHE_FIRST_4(kind, i), LATHE_FIRST_4(kind, i + 4), LATHE_FIRST_4(kind, i + 8), LATHE_FIRST_4(kind, i + 12)
#define LATHE_FIRST_32(kind, i) LATHE_FIRST_16(kind, i), LATHE_FIRST_16(kind, i + 16)
#define LATHE_FIRST_64(kind, i) LATHE_FIRST_32(kind, i), LATHE_FIRST_32(kind, i + 32)
#define LATHE_FIRST_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LATHE_FIRST_NAMES_32 LATHE_FIRST_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LATHE_FIRST_NAMES_64 LATHE_FIRST_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define LATHE_WGMMA_FIRST(T, N, SUMS, A, B, types, options, kind)                                                      \
    template <> struct WgmmaFirst<T, N> {                                                                              \
        __device__ static void run(Accumulator<T>::type (&d)[SUMS], std::uint64_t a, std::uint64_t b) {                \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                                    \
                         "wgmma.mma_async.sync.aligned.m64n" #N types " {" LATHE_FIRST_NAMES_##SUMS "}, "              \
                         A ", " B ", p" options ";\n}\n"                                                               \
                         : LATHE_FIRST_##SUMS(kind, 0) : "l"(a), "l"(b));                                              \
        }                                                                                                              \
    };
#define LATHE_WGMMA_FIRST_TYPE(T, types, options, kind)                                                                \
    LATHE_WGMMA_FIRST(T, 32, 16, "%16", "%17", types, options, kind)                                                   \
    LATHE_WGMMA_FIRST(T, 64, 32, "%32", "%33", types, options, kind)                                                   \
    LATHE_WGMMA_FIRST(T, 128, 64, "%64", "%65", types, options, kind)

LATHE_WGMMA_FIRST_TYPE(std::int8_t, "k32.s32.s8.s8", "", "=r")
LATHE_WGMMA_FIRST_TYPE(__half, "k16.f32.f16.f16", ", 1, 1, 0, 0", "=f")

#undef LATHE_WGMMA_FIRST_TYPE
#undef LATHE_WGMMA_FIRST
#undef LATHE_FIRST_NAMES_64
#undef LATHE_FIRST_NAMES_32
#undef LATHE_FIRST_NAMES_16
#undef LATHE_FIRST_64
#undef LATHE_FIRST_32
#undef LATHE_FIRST_16
#undef LATHE_FIRST_4
// clang-format on

} // namespace lathe::cuda::kernels::sm90
