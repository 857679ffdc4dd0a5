#pragma once
// Convolution and matrix product on Hopper: out[m, k] = sum over taps and channels of pixel(m, tap)[c] * weight[k, tap,
// c].
//
// One producer warp feeds a ring of stages in shared memory: pixels by TMA's im2col mode (or as rows of a matrix for
// 1x1 windows), weights as boxes of [K][R*S*C]. One to three warpgroups multiply with wgmma. A stage holds U chunks of
// KB bytes of the reduction. In a cluster of `split` blocks each block sums its share of the chunks and sends every
// block its share of the tile, so that nothing goes through global memory; every block then finishes its share.
//
// Two ways to finish. Direct: the weights' rows are loaded in such an order that each thread holds channels next to
// each other, scales and the residual wait in shared memory and registers, and results go from registers to memory
// (shares of a cluster are columns). General, for odd sizes and other activations: sums go through shared memory, rows
// are shares.
//
// Programmatic launch: only weights and descriptors are touched before wait_for_predecessors().

#include <bit>
#include <cstdint>
#include <type_traits>

#include <cuda.h>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/share.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

/// Arguments of the kernel beside the two tensor maps.
struct Problem {
    Destination to;
    std::int32_t p, q, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    std::int32_t taps_w;            ///< S
    std::int32_t tap_stride;        ///< elements of a weight row a tap takes
    std::int32_t chunks_per_tap;    ///< chunks of KB bytes
    std::int32_t chunks;            ///< of all taps
    std::int32_t split, split_bits; ///< blocks of a cluster, 1 << split_bits
    std::int32_t stages;            ///< of the ring
    std::int32_t staging;           ///< where the sums go in shared memory, bytes behind the ring's beginning
    bool im2col;                    ///< else A is a matrix
};

inline constexpr int max_stages = 16;

template <class T, class Out, int M, int N, int KB, int U>
struct Tile {
    static constexpr int consumers = M % 128 == 0 ? 2 : M / 64;
    static constexpr int blocks_of_64 = M / 64 / consumers; ///< a warpgroup
    static constexpr int threads = consumers * 128 + 32;
    static constexpr int a_bytes = M * KB, b_bytes = N * KB; ///< of a chunk
    static constexpr int stage_bytes = U * (a_bytes + b_bytes);
    static constexpr int chunk = KB / static_cast<int>(sizeof(T)); ///< elements
    static constexpr int staging_bytes = M * staging_pitch(N);
    static constexpr int exchange_bytes = M * N * 4; ///< direct, split: all blocks' parts of a share
    /// Barriers, then scales and biases, lie before the ring, which begins at a multiple of 1024 bytes.
    static constexpr int vectors_offset = 512;
    static constexpr int ring_offset = (vectors_offset + N * 8 + 1023) / 1024 * 1024;
    static constexpr int run = run_of(sizeof(Out), N); ///< channels next to each other of a thread
    static constexpr int groups = N / (4 * run);       ///< such runs of a row
    /// Whether all of the residual waits in registers while the sums form.
    static constexpr bool residual_early =
        blocks_of_64 * N <= (sizeof(Out) == 4 ? 64 : 128) && (consumers == 1 || N <= 64);
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

template <class T, class Out, int M, int N, int KB, int U, int BLOCKS>
__global__ void __launch_bounds__(Tile<T, Out, M, N, KB, U>::threads, BLOCKS)
    implicit_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ Problem problem) {
    using Shape = Tile<T, Out, M, N, KB, U>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t ring = (shared_address(shared) + Shape::ring_offset + 1023) & ~1023U;
    const std::uint32_t full = ring - Shape::ring_offset, empty = full + max_stages * 8; // 8-byte barriers
    const std::uint32_t arrived = empty + max_stages * 8;
    const std::uint32_t vectors = full + Shape::vectors_offset;
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    constexpr int producer = Shape::consumers * 4;
    const int split = problem.split;

    if (warp == producer && thread % 32 == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        for (int i = 0; i < problem.stages; ++i) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, Shape::consumers * 4); // one arrival a warp
        }
        if (split > 1) barrier_init(arrived, 1);
        fence_barrier_init();
        if (split > 1) barrier_expect(arrived, Shape::exchange_bytes);
        allow_dependents(); // it waits for this kernel's end by itself; so the next one's weights are under way early
    }
    const int rank = split > 1 ? static_cast<int>(cluster_rank()) : 0;
    const int row = static_cast<int>(blockIdx.y) * M;
    const int column = (static_cast<int>(blockIdx.x) >> problem.split_bits) * N;
    const int first = (problem.chunks * rank) >> problem.split_bits;
    const int last = (problem.chunks * (rank + 1)) >> problem.split_bits;
    const int steps = (last - first + U - 1) / U;
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
                load_weights(to, &map_b, tap * problem.tap_stride + at.c * Shape::chunk, problem.to.direct ? 0 : column,
                             problem.to.direct ? column / (4 * Shape::run) : 0, barrier);
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
        }
        __syncwarp();
        if (split > 1) {
            cluster_wait();
            if (!problem.to.direct) {
                cluster_arrive();
                cluster_wait();
            }
        }
        return;
    }

    constexpr int consumer_threads = Shape::consumers * 128;
    const int group = warp / 4, lane = thread % 32;
    const Destination& to = problem.to;
    const int first_row = row + group * Shape::blocks_of_64 * 64 + warp % 4 * 16 + lane / 4;
    if (to.direct) {
        load_vectors<N, consumer_threads>(to, vectors, column, Shape::run, thread);
        named_barrier(1, consumer_threads);
    }
    wait_for_predecessors(); // residual and output

    // Direct and alone: this thread's rows and what the residual holds there.
    RowPair rows[Shape::blocks_of_64];
    Residual<Out, Shape::run> residual[Shape::blocks_of_64][Shape::groups][2];
    const bool alone = to.direct && split == 1;
    const int lane_channel = column + lane % 4 * Shape::run;
    const auto load_residual_of = [&](int block, int g) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
            if (rows[block].inside[r] && lane_channel + g * 4 * Shape::run < to.k)
                residual[block][g][r].load(to, rows[block].offset[r] + g * 4 * Shape::run);
    };
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            rows[block].inside[r] = first_row + block * 64 + 8 * r < to.rows;
            rows[block].offset[r] =
                static_cast<std::size_t>(first_row + block * 64 + 8 * r) * to.k_pitch + lane_channel;
        }
    if (Shape::residual_early && alone && to.epilogue.residual != nullptr) {
#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
            for (int g = 0; g < Shape::groups; ++g)
                load_residual_of(block, g);
    }

    Sum sums[Shape::blocks_of_64][N / 2];
    const Sum origin = sizeof(T) == 1 && to.small_sums && rank == 0 ? static_cast<Sum>(sum_origin) : Sum{0};
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            sums[block][i] = origin;

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
    if (!Shape::residual_early && alone && to.epilogue.residual != nullptr) load_residual_of(0, 0);
    wgmma_wait<0>();
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            pin(sums[block][i]);

    if (alone) {
#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block) {
            to_floats(sums[block], to.small_sums);
#pragma unroll
            for (int g = 0; g < Shape::groups; ++g) {
                if (!Shape::residual_early && to.epilogue.residual != nullptr) {
                    const int next = block * Shape::groups + g + 1; // one ahead
                    if (next < Shape::blocks_of_64 * Shape::groups)
                        load_residual_of(next / Shape::groups, next % Shape::groups);
                }
                if (lane_channel + g * 4 * Shape::run >= to.k) continue;
                float v[2][Shape::run];
#pragma unroll
                for (int r = 0; r < 2; ++r)
#pragma unroll
                    for (int i = 0; i < Shape::run; ++i)
                        v[r][i] = as_float(sums[block][4 * (g * Shape::run / 2 + i / 2) + 2 * r + i % 2]);
                finish_run<Out, Shape::run, N>(
                    to, v, vectors + vector_place(lane % 4 * Shape::run + g * 4 * Shape::run, Shape::run) * 4,
                    residual[block][g], rows[block], g * 4 * Shape::run);
            }
        }
        return;
    }
    if (to.direct) {
        const std::uint32_t exchange = ring + problem.staging;
        cluster_wait(); // the peers have begun
        send_shares<consumer_threads>(sums, exchange, arrived, rank, problem.split_bits, thread);
        const auto rows_of = [&](int block, int channel) {
            RowPair found;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int at = first_row + block * 64 + 8 * r;
                found.inside[r] = at < to.rows;
                found.offset[r] = static_cast<std::size_t>(at) * to.k_pitch + column + channel;
            }
            return found;
        };
        const auto finish_parts = [&](auto parts) {
            if constexpr (N / 8 >= decltype(parts)::value)
                finish_share<Sum, Out, Shape, N, consumer_threads, decltype(parts)::value>(
                    to, exchange, arrived, vectors, rank, column, thread, rows_of);
        };
        if (split == 2)
            finish_parts(std::integral_constant<int, 2>{});
        else if (split == 4)
            finish_parts(std::integral_constant<int, 4>{});
        else
            finish_parts(std::integral_constant<int, 8>{});
        return;
    }

    // Sums to shared memory: here, or to the block of the cluster that finishes the row.
    constexpr int pitch = staging_pitch(N);
    const std::uint32_t staging = ring + problem.staging;
    const int slice_rows = M >> problem.split_bits;
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
                    store_peer(base + staging_piece(2 * j + half) * 16, bits_of(sums[block][4 * j + 2 * i]),
                               bits_of(sums[block][4 * j + 2 * i + 1]));
            } else {
                const std::uint32_t base = staging + tile_row * pitch + lane % 2 * 8;
#pragma unroll
                for (int j = 0; j < N / 8; ++j)
                    store_shared(base + staging_piece(2 * j + half) * 16, bits_of(sums[block][4 * j + 2 * i]),
                                 bits_of(sums[block][4 * j + 2 * i + 1]));
            }
        }
    if (split > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        named_barrier(1, consumer_threads);
    }
    const Slice slice{staging, row + rank * slice_rows, slice_rows, split, column};
    finish<Sum, Out, N, consumer_threads>(problem.to, slice, thread);
}

/// One compiled tile: its table entry, how to prepare and how to launch it.
struct Instance {
    TileConfig config;
    int chunks_per_stage, stage_bytes, staging_bytes, exchange_bytes, ring_offset, run, threads;
    const void* kernel;
};

template <class T, class Out, int M, int N, int KB, int U, int BLOCKS>
Instance make_instance(const char* name, int stages) {
    using Shape = Tile<T, Out, M, N, KB, U>;
    return {{name, type_of<T>, type_of<Out>, M, N, KB, stages, Shape::consumers, 90, 90},
            U,
            Shape::stage_bytes,
            Shape::staging_bytes,
            Shape::exchange_bytes,
            Shape::ring_offset,
            Shape::run,
            Shape::threads,
            reinterpret_cast<const void*>(&implicit_gemm<T, Out, M, N, KB, U, BLOCKS>)};
}

/// Entries of each type's file.
const Instance* s8_instances(int& count);
const Instance* f16_instances(int& count);
const Instance* bf16_instances(int& count);

} // namespace lathe::cuda::kernels::sm90
