#pragma once
// What CUDA C++ has no words for: mbarriers, bulk tensor copies, cluster memory, programmatic launch.

#include <cstdint>

#include <cuda.h>

namespace lathe::cuda::kernels::sm90 {

__device__ inline std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the copy engine and to the cluster.
__device__ inline void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline bool barrier_try_wait(std::uint32_t barrier, std::uint32_t parity) {
    std::uint32_t done;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, done;\n"
                 "}\n"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}
/// Until the phase of this parity has completed. LATHE_WAIT_LIMIT (tests): so many tries, then a trap instead of a
/// hang.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
#ifdef LATHE_WAIT_LIMIT
    for (unsigned tries = 0; !barrier_try_wait(barrier, parity); ++tries)
        if (tries > LATHE_WAIT_LIMIT) __trap();
#else
    while (!barrier_try_wait(barrier, parity)) {
    }
#endif
}

/// The same where other blocks of the cluster write what the barrier guards.
__device__ inline void barrier_wait_cluster(std::uint32_t barrier, std::uint32_t parity) {
    std::uint32_t done = 0;
    for (unsigned tries = 0; done == 0; ++tries) {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, done;\n"
                     "}\n"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#ifdef LATHE_WAIT_LIMIT
        if (tries > LATHE_WAIT_LIMIT) __trap();
#endif
    }
}

__device__ inline void prefetch_map(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// A box of a matrix; `column` in elements.
__device__ inline void load_matrix(std::uint32_t to, const CUtensorMap* map, int column, int row,
                                   std::uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}
/// A box of weights. Dimensions behind the first make up the output channel; see channel_of_column.
__device__ inline void load_weights(std::uint32_t to, const CUtensorMap* map, int column, int channel, int group,
                                    std::uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(column), "r"(channel), "r"(0), "r"(group), "r"(barrier)
                 : "memory");
}
/// Channels of consecutive output pixels under one tap. (w, h): first tap of the first pixel; offsets: the tap.
__device__ inline void load_pixels(std::uint32_t to, const CUtensorMap* map, int c, int w, int h, int n, int offset_w,
                                   int offset_h, std::uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
                 "%3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
                 "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(barrier), "h"(static_cast<std::uint16_t>(offset_w)),
                 "h"(static_cast<std::uint16_t>(offset_h))
                 : "memory");
}

__device__ inline std::uint32_t cluster_rank() {
    std::uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
/// The same place in the shared memory of another block of the cluster.
__device__ inline std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank) {
    std::uint32_t result;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
    return result;
}
__device__ inline void store_peer(std::uint32_t address, std::uint32_t x, std::uint32_t y) {
    asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}
__device__ inline void store_peer(std::uint32_t address, const std::uint32_t (&x)[4]) {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]),
                 "r"(x[3])
                 : "memory");
}
/// 16 bytes to another block, counted by its barrier when they are there.
__device__ inline void send_peer(std::uint32_t address, const std::uint32_t (&x)[4], std::uint32_t barrier) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
        "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(barrier)
        : "memory");
}
__device__ inline void store_shared(std::uint32_t address, std::uint32_t x, std::uint32_t y) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}
__device__ inline uint4 load_shared(std::uint32_t address) {
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

/// Until the kernels before this one in the stream are finished and their writes visible.
__device__ inline void wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the next kernel's blocks start (it waits for this one by itself).
__device__ inline void allow_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// Among `threads` threads of a block; id 0 is __syncthreads.
__device__ inline void named_barrier(int id, int threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

} // namespace lathe::cuda::kernels::sm90
