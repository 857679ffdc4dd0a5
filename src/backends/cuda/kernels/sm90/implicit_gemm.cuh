#pragma once
// Convolution and matrix product on Hopper: out[m, k] = sum over taps and channels of pixel(m, tap)[c] * weight[k, tap,
// c].
//
// One producer warp feeds a ring of stages in shared memory: pixels by TMA's im2col mode (or as rows of a matrix for
// 1x1 windows), weights as boxes of [K][R*S*C]. One or two warpgroups multiply with wgmma. A stage holds U chunks of KB
// bytes of the reduction. In a cluster of `split` blocks each block sums its share of the chunks and sends every block
// its rows, so that nothing goes through global memory; every block then finishes its rows.
//
// Programmatic launch: only weights and descriptors are touched before wait_for_predecessors().

#include <cstdint>

#include <cuda.h>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

/// Arguments of the kernel beside the two tensor maps.
struct Problem {
    Destination to;
    std::int32_t p, q, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    std::int32_t taps_w;         ///< S
    std::int32_t tap_stride;     ///< elements of a weight row a tap takes
    std::int32_t chunks_per_tap; ///< chunks of KB bytes
    std::int32_t chunks;         ///< of all taps
    std::int32_t tiles_n;        ///< tiles along the output channels
    std::int32_t split, stages;  ///< blocks of a cluster; stages of the ring
    std::int32_t staging;        ///< where the sums go in shared memory, bytes behind the ring's beginning
    bool im2col;                 ///< else A is a matrix
};

inline constexpr int max_stages = 16;
/// Barriers lie before the ring, which begins at a multiple of 1024 bytes.
inline constexpr int ring_offset = 1024;
inline constexpr int shared_limit = 232448;

template <class T, int M, int N, int KB, int U>
struct Tile {
    static constexpr int consumers = M == 64 ? 1 : 2;
    static constexpr int blocks_of_64 = M / 64 / consumers; ///< a warpgroup
    static constexpr int threads = consumers * 128 + 32;
    static constexpr int a_bytes = M * KB, b_bytes = N * KB; ///< of a chunk
    static constexpr int stage_bytes = U * (a_bytes + b_bytes);
    static constexpr int chunk = KB / static_cast<int>(sizeof(T)); ///< elements
    static constexpr int staging_bytes = M * staging_pitch(N);
};

/// The chunks of one block, walked tap by tap.
struct ChunkWalk {
    int r, s, c; ///< c: chunk within the tap
    __device__ ChunkWalk(const Problem& problem, int first) {
        const int tap = first / problem.chunks_per_tap;
        c = first - tap * problem.chunks_per_tap;
        r = tap / problem.taps_w;
        s = tap - r * problem.taps_w;
    }
    __device__ void next(const Problem& problem) {
        if (++c < problem.chunks_per_tap) return;
        c = 0;
        if (++s < problem.taps_w) return;
        s = 0;
        ++r;
    }
};

template <class T, int M, int N, int KB, int U, int BLOCKS>
__global__ void __launch_bounds__(Tile<T, M, N, KB, U>::threads, BLOCKS)
    implicit_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ Problem problem) {
    using Shape = Tile<T, M, N, KB, U>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t ring = (shared_address(shared) + ring_offset + 1023) & ~1023U;
    const std::uint32_t full = ring - ring_offset, empty = full + max_stages * 8; // 8-byte barriers
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    constexpr int producer = Shape::consumers * 4;

    if (thread == 0) {
        for (int i = 0; i < problem.stages; ++i) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, Shape::consumers * 4); // one arrival a warp
        }
        fence_barrier_init();
    }
    const int split = problem.split;
    const int rank = split > 1 ? static_cast<int>(cluster_rank()) : 0;
    const int tile = static_cast<int>(blockIdx.x) / split;
    const int tile_m = tile / problem.tiles_n;
    const int row = tile_m * M, column = (tile - tile_m * problem.tiles_n) * N;
    const int first = static_cast<int>(static_cast<std::int64_t>(problem.chunks) * rank / split);
    const int last = static_cast<int>(static_cast<std::int64_t>(problem.chunks) * (rank + 1) / split);
    const int steps = (last - first + U - 1) / U;
    if (warp == producer && thread % 32 == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
    }
    __syncthreads();
    if (split > 1) cluster_arrive(); // waited for before the first write to a peer

    if (warp == producer) {
        if (thread % 32 == 0) {
            const FirstPixel pixel = first_pixel(row, problem.p, problem.q, problem.stride_h, problem.stride_w,
                                                 problem.pad_h, problem.pad_w);
            const auto stage_a = [&](int stage) { return ring + stage * Shape::stage_bytes; };
            const auto stage_b = [&](int stage) { return stage_a(stage) + U * Shape::a_bytes; };
            const auto load_a = [&](const ChunkWalk& at, std::uint32_t to, std::uint32_t barrier) {
                if (problem.im2col)
                    load_pixels(to, &map_a, at.c * Shape::chunk, pixel.w, pixel.h, pixel.n, at.s * problem.dil_w,
                                at.r * problem.dil_h, barrier);
                else
                    load_matrix(to, &map_a, at.c * Shape::chunk, row, barrier);
            };
            const auto load_b = [&](const ChunkWalk& at, std::uint32_t to, std::uint32_t barrier) {
                const int tap = at.r * problem.taps_w + at.s;
                load_matrix(to, &map_b, tap * problem.tap_stride + at.c * Shape::chunk, column, barrier);
            };
            // Weights first: they do not depend on the kernel before.
            const int early = min(problem.stages, steps);
            ChunkWalk walk(problem, first);
            ChunkWalk walk_early = walk;
            for (int step = 0; step < early; ++step) {
                const int count = min(U, last - first - step * U);
                const std::uint32_t barrier = full + step * 8;
                barrier_expect(barrier, count * (Shape::a_bytes + Shape::b_bytes));
                for (int u = 0; u < count; ++u, walk_early.next(problem))
                    load_b(walk_early, stage_b(step) + u * Shape::b_bytes, barrier);
            }
            wait_for_predecessors();
            for (int step = 0; step < early; ++step) {
                const int count = min(U, last - first - step * U);
                for (int u = 0; u < count; ++u, walk.next(problem))
                    load_a(walk, stage_a(step) + u * Shape::a_bytes, full + step * 8);
            }
            int stage = 0;
            std::uint32_t phase = 0; // of the `empty` barrier awaited
            for (int step = early; step < steps; ++step) {
                const int count = min(U, last - first - step * U);
                const std::uint32_t barrier = full + stage * 8;
                barrier_wait(empty + stage * 8, phase);
                barrier_expect(barrier, count * (Shape::a_bytes + Shape::b_bytes));
                for (int u = 0; u < count; ++u, walk.next(problem)) {
                    load_a(walk, stage_a(stage) + u * Shape::a_bytes, barrier);
                    load_b(walk, stage_b(stage) + u * Shape::b_bytes, barrier);
                }
                if (++stage == problem.stages) stage = 0, phase ^= 1;
            }
            allow_dependents();
        }
        __syncwarp();
        if (split > 1) {
            cluster_wait();
            cluster_arrive();
            cluster_wait();
        }
        return;
    }

    const int group = warp / 4, lane = thread % 32;
    Sum sums[Shape::blocks_of_64][N / 2];
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            sums[block][i] = 0;

    constexpr std::uint64_t descriptor = operand_descriptor(KB);
    constexpr int block_bytes = 64 * KB;
    int stage = 0;
    std::uint32_t phase = 0;
    for (int step = 0; step < steps; ++step) {
        barrier_wait(full + stage * 8, phase);
        const std::uint32_t a = ring + stage * Shape::stage_bytes + group * Shape::blocks_of_64 * block_bytes;
        const std::uint32_t b = ring + stage * Shape::stage_bytes + U * Shape::a_bytes;
        wgmma_fence();
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (U > 1 && u >= last - first - step * U) break;
#pragma unroll
            for (int k = 0; k < KB / 32; ++k)
#pragma unroll
                for (int block = 0; block < Shape::blocks_of_64; ++block)
                    Wgmma<T, N>::run(sums[block],
                                     descriptor | ((a + u * Shape::a_bytes + block * block_bytes + k * 32) >> 4),
                                     descriptor | ((b + u * Shape::b_bytes + k * 32) >> 4));
        }
        wgmma_commit();
        wgmma_wait<1>(); // the step before has read its stage
        if (step > 0 && lane == 0) barrier_arrive(empty + (stage == 0 ? problem.stages - 1 : stage - 1) * 8);
        if (++stage == problem.stages) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>();
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            pin(sums[block][i]);
    wait_for_predecessors(); // residual and output

    // Sums to shared memory: here, or to the block of the cluster that finishes the row.
    constexpr int consumer_threads = Shape::consumers * 128;
    constexpr int pitch = staging_pitch(N);
    const std::uint32_t staging = ring + problem.staging;
    const int slice_rows = M / split;
    if (split > 1)
        cluster_wait();
    else
        named_barrier(1, consumer_threads); // the ring becomes staging area
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int tile_row = (group * Shape::blocks_of_64 + block) * 64 + warp % 4 * 16 + lane / 4 + 8 * i;
            const int half = lane % 4 / 2;
            if (split > 1) {
                const int owner = tile_row / slice_rows;
                const std::uint32_t base = peer_address(
                    staging + (rank * slice_rows + tile_row - owner * slice_rows) * pitch + lane % 2 * 8, owner);
#pragma unroll
                for (int j = 0; j < N / 8; ++j)
                    store_peer(base + staging_piece(2 * j + half) * 16,
                               *reinterpret_cast<std::uint32_t*>(&sums[block][4 * j + 2 * i]),
                               *reinterpret_cast<std::uint32_t*>(&sums[block][4 * j + 2 * i + 1]));
            } else {
                const std::uint32_t base = staging + tile_row * pitch + lane % 2 * 8;
#pragma unroll
                for (int j = 0; j < N / 8; ++j)
                    store_shared(base + staging_piece(2 * j + half) * 16,
                                 *reinterpret_cast<std::uint32_t*>(&sums[block][4 * j + 2 * i]),
                                 *reinterpret_cast<std::uint32_t*>(&sums[block][4 * j + 2 * i + 1]));
            }
        }
    if (split > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        named_barrier(1, consumer_threads);
    }
    const Slice slice{staging, row + rank * slice_rows, slice_rows, split, column};
    switch (problem.to.type) {
        case 0: finish<Sum, float, N, consumer_threads>(problem.to, slice, thread); break;
        case 1: finish<Sum, __half, N, consumer_threads>(problem.to, slice, thread); break;
        case 2: finish<Sum, __nv_bfloat16, N, consumer_threads>(problem.to, slice, thread); break;
        default: finish<Sum, std::int8_t, N, consumer_threads>(problem.to, slice, thread); break;
    }
}

/// One compiled tile: its table entry, how to prepare and how to launch it.
struct Instance {
    TileConfig config;
    int chunks_per_stage, stage_bytes, staging_bytes, threads;
    const void* kernel;
};

template <class T, int M, int N, int KB, int U, int BLOCKS>
Instance make_instance(const char* name, int type, int stages) {
    using Shape = Tile<T, M, N, KB, U>;
    return {{name, type, -1, M, N, KB, stages, Shape::consumers, 90, 90},
            U,
            Shape::stage_bytes,
            Shape::staging_bytes,
            Shape::threads,
            reinterpret_cast<const void*>(&implicit_gemm<T, M, N, KB, U, BLOCKS>)};
}

/// Entries of each type's file.
const Instance* s8_instances(int& count);
const Instance* f16_instances(int& count);
const Instance* bf16_instances(int& count);

} // namespace lathe::cuda::kernels::sm90
