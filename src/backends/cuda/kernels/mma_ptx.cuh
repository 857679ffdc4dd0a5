#pragma once
// The instructions that kernels on mma.sync are made of: cp.async, ldmatrix and mma.sync (sm_80 and later), and
// clusters (sm_90 and later; elsewhere they do nothing, and no kernel asks for clusters there).

#include <cstdint>

namespace lathe::cuda::kernels::mma {

/// What a product multiplies; for f32 there is no such instruction, its kernel uses FMAs.
enum class Math { s8, f16, bf16, tf32, f32 };

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from, bool valid) {
    const int size = valid ? 16 : 0; // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;"); }
template <int N>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
}
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}
__device__ __forceinline__ void to_tf32(std::uint32_t& v) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "f"(__uint_as_float(v)));
}

template <Math M>
__device__ __forceinline__ void multiply(std::uint32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
    if constexpr (M == Math::s8) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        float f[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            f[i] = __uint_as_float(c[i]);
        if constexpr (M == Math::f16)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
        else if constexpr (M == Math::bf16)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
        else
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#pragma unroll
        for (int i = 0; i < 4; ++i)
            c[i] = __float_as_uint(f[i]);
    }
}

/// The same for sums that are floats.
template <Math M>
__device__ __forceinline__ void multiply_floats(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                std::uint32_t b1) {
    std::uint32_t raw[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        raw[i] = __float_as_uint(c[i]);
    multiply<M>(raw, a, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        c[i] = __uint_as_float(raw[i]);
}

__device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_arrive_and_wait() {
    cluster_arrive();
    cluster_wait();
}
/// What another block of the cluster has at the same address.
__device__ __forceinline__ float load_peer_float(std::uint32_t address, int rank) {
    float v = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    std::uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote) : "memory");
#endif
    return v;
}
/// Writes to the same address of another block of the cluster.
__device__ __forceinline__ void store_peer(std::uint32_t address, int rank, std::uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    std::uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(value) : "memory");
#endif
}
__device__ __forceinline__ uint4 load_peer(std::uint32_t address, unsigned rank) {
    uint4 v = {0, 0, 0, 0};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    std::uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(remote)
                 : "memory");
#endif
    return v;
}

} // namespace lathe::cuda::kernels::mma
