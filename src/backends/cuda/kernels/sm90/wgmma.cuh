#pragma once
// wgmma of sm_90a with both operands in shared memory, K-major: D[64 x N] += A[64 x K] * B[N x K]^T, 32 bytes of K
// each. Thread t of the warpgroup holds of row 16 * (t / 32) + t % 32 / 4 + 8 * i and column 8 * j + t % 4 * 2 + c the
// sum d[4 * j + 2 * i + c].

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace lathe::cuda::kernels::sm90 {

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most PENDING groups of this thread are still running.
template <int PENDING>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/// Keeps the compiler from reading sums before the wait above it.
__device__ inline void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ inline void pin(std::int32_t& value) { asm volatile("" : "+r"(value)::"memory"); }

template <class T>
struct Accumulator {
    using type = float;
};
template <>
struct Accumulator<std::int8_t> {
    using type = std::int32_t;
};

/// One instruction; `a` and `b` are descriptors.
template <class T, int N>
struct Wgmma;

// clang-format off
#define LATHE_NAMES_16 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LATHE_NAMES_32 LATHE_NAMES_16 ", " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LATHE_NAMES_64 LATHE_NAMES_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" ", " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LATHE_NAMES_96 LATHE_NAMES_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" ", " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LATHE_NAMES_128 LATHE_NAMES_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" ", " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" ", " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" ", " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LATHE_SUMS_4(kind, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define LATHE_SUMS_16(kind, i) LATHE_SUMS_4(kind, i), LATHE_SUMS_4(kind, i + 4), LATHE_SUMS_4(kind, i + 8), LATHE_SUMS_4(kind, i + 12)
#define LATHE_SUMS_32(kind, i) LATHE_SUMS_16(kind, i), LATHE_SUMS_16(kind, i + 16)
#define LATHE_SUMS_64(kind, i) LATHE_SUMS_32(kind, i), LATHE_SUMS_32(kind, i + 32)
#define LATHE_SUMS_96(kind, i) LATHE_SUMS_64(kind, i), LATHE_SUMS_32(kind, i + 64)
#define LATHE_SUMS_128(kind, i) LATHE_SUMS_64(kind, i), LATHE_SUMS_64(kind, i + 64)

#define LATHE_WGMMA(T, N, SUMS, A, B, types, options, kind)                                                            \
    template <> struct Wgmma<T, N> {                                                                                   \
        using Sum = Accumulator<T>::type;                                                                              \
        __device__ static void run(Sum (&d)[SUMS], std::uint64_t a, std::uint64_t b) {                                 \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                    \
                         "wgmma.mma_async.sync.aligned.m64n" #N types " {" LATHE_NAMES_##SUMS "}, "                    \
                         A ", " B ", p" options ";\n}\n"                                                               \
                         : LATHE_SUMS_##SUMS(kind, 0) : "l"(a), "l"(b));                                               \
        }                                                                                                              \
    };
#define LATHE_WGMMA_TYPE(T, types, options, kind)                                                                      \
    LATHE_WGMMA(T, 32, 16, "%16", "%17", types, options, kind)                                                         \
    LATHE_WGMMA(T, 64, 32, "%32", "%33", types, options, kind)                                                         \
    LATHE_WGMMA(T, 128, 64, "%64", "%65", types, options, kind)                                                        \
    LATHE_WGMMA(T, 192, 96, "%96", "%97", types, options, kind)                                                        \
    LATHE_WGMMA(T, 256, 128, "%128", "%129", types, options, kind)

LATHE_WGMMA_TYPE(std::int8_t, "k32.s32.s8.s8", "", "+r")
LATHE_WGMMA_TYPE(__half, "k16.f32.f16.f16", ", 1, 1, 0, 0", "+f")
LATHE_WGMMA_TYPE(__nv_bfloat16, "k16.f32.bf16.bf16", ", 1, 1, 0, 0", "+f")

#undef LATHE_WGMMA_TYPE
#undef LATHE_WGMMA
#undef LATHE_SUMS_128
#undef LATHE_SUMS_96
#undef LATHE_SUMS_64
#undef LATHE_SUMS_32
#undef LATHE_SUMS_16
#undef LATHE_SUMS_4
#undef LATHE_NAMES_128
#undef LATHE_NAMES_96
#undef LATHE_NAMES_64
#undef LATHE_NAMES_32
#undef LATHE_NAMES_16
// clang-format on

} // namespace lathe::cuda::kernels::sm90
