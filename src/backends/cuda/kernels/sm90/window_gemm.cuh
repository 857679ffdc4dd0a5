#pragma once
// Convolution with a window on Hopper (odd, stride 1 or 2, padded by half of it). A tile is a run of M positions of the
// padded output, row behind row, of which each row has its left padding alone (the next row's is its right padding).
// TMA's im2col mode loads such a run and as much behind it as the window reaches, once for all taps: with stride 1, tap
// (r, s) is the same tile r * pitch + s rows further on. With stride 2 there are four runs, of odd and even rows and
// columns, and tap (r, s) is tile (r % 2, s % 2), r / 2 * pitch + s / 2 rows further on. So pixels come once or four
// times instead of R * S times and the copy engine is left to weights: a ring of taps. Sums that stand for padding are
// not stored.
//
// In a cluster of `split` blocks each sums its share of the channels and sends every block its share of the columns.
//
// Programmatic launch: only weights, scales and descriptors are touched before wait_for_predecessors().

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

/// At most: runs of pixels, taps of weights in shared memory.
inline constexpr int window_runs = 4, window_taps = 16;

/// Arguments of the kernel beside the two tensor maps.
struct WindowProblem {
    Destination to;
    FlatImage image;
    std::int32_t pad_h, pad_w, stride;
    std::int32_t taps_h, taps_w;    ///< R, S
    std::int32_t tap_stride;        ///< elements of a weight row a tap takes
    std::int32_t chunks;            ///< of channels, KB bytes each
    std::int32_t split, split_bits; ///< blocks of a cluster, 1 << split_bits
    std::int32_t runs, run_bytes;   ///< of the pixels' ring; its stages' pitch
    std::int32_t pixels_bytes;      ///< what is loaded into a stage
    std::int32_t stages;            ///< of the weights' ring
    std::int32_t exchange;          ///< bytes from the rings' beginning to where the cluster's sums go
};

template <class T, class Out, int M, int N, int KB, int GROUPS>
struct WindowTile {
    static constexpr int blocks_of_64 = M / 64 / GROUPS; ///< a warpgroup
    static constexpr int consumers = GROUPS * 128, threads = consumers + 64;
    static constexpr int chunk = KB / static_cast<int>(sizeof(T)); ///< elements
    static constexpr int weights_bytes = N * KB;                   ///< of a tap's chunk
    static constexpr int exchange_bytes = M * N * 4;               ///< all blocks' parts of a share
    static constexpr int vectors_offset = 512;
    static constexpr int ring_offset = (vectors_offset + N * 8 + 1023) / 1024 * 1024;
    static constexpr int run = run_of(sizeof(Out), N);
    static constexpr int groups = N / (4 * run);
};

/// Grid: columns of tiles times split, tiles of pixels.
template <class T, class Out, int M, int N, int KB, int GROUPS, int BLOCKS>
__global__ void __launch_bounds__(WindowTile<T, Out, M, N, KB, GROUPS>::threads, BLOCKS)
    window_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                const __grid_constant__ WindowProblem problem) {
    using Shape = WindowTile<T, Out, M, N, KB, GROUPS>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t ring = (shared_address(shared) + Shape::ring_offset + 1023) & ~1023U;
    const std::uint32_t full_a = ring - Shape::ring_offset, empty_a = full_a + window_runs * 8;
    const std::uint32_t full_b = empty_a + window_runs * 8, empty_b = full_b + window_taps * 8;
    const std::uint32_t arrived = empty_b + window_taps * 8;
    const std::uint32_t vectors = full_a + Shape::vectors_offset;
    const std::uint32_t weights = ring + problem.runs * problem.run_bytes;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    const Destination& to = problem.to;
    const int split = problem.split;

    if (warp == GROUPS * 4 && lane == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        for (int i = 0; i < problem.runs; ++i) {
            barrier_init(full_a + i * 8, 1);
            barrier_init(empty_a + i * 8, GROUPS * 4); // one arrival a warp
        }
        for (int i = 0; i < problem.stages; ++i) {
            barrier_init(full_b + i * 8, 1);
            barrier_init(empty_b + i * 8, GROUPS * 4);
        }
        if (split > 1) barrier_init(arrived, 1);
        fence_barrier_init();
        if (split > 1) barrier_expect(arrived, Shape::exchange_bytes);
        allow_dependents();
    }
    const int rank = split > 1 ? static_cast<int>(cluster_rank()) : 0;
    const int row = static_cast<int>(blockIdx.y) * M; // of the flat image
    const int column = (static_cast<int>(blockIdx.x) >> problem.split_bits) * N;
    const int first = (problem.chunks * rank) >> problem.split_bits;
    const int last = (problem.chunks * (rank + 1)) >> problem.split_bits;
    __syncthreads();
    if (split > 1) cluster_arrive(); // waited for before the first write to a peer

    if (warp >= GROUPS * 4) {
        if (warp == GROUPS * 4 && lane == 0) { // pixels
            const FirstPixel pixel = first_pixel(row, problem.image.flat_p, problem.image.flat_q, problem.stride,
                                                 problem.stride, problem.pad_h, problem.pad_w);
            wait_for_predecessors();
            int stage = 0;
            std::uint32_t phase = 1; // the first round finds all empty
            for (int c = first; c < last; ++c)
                for (int plane_h = 0; plane_h < problem.stride; ++plane_h)
                    for (int plane_w = 0; plane_w < problem.stride; ++plane_w) {
                        barrier_wait(empty_a + stage * 8, phase);
                        barrier_expect(full_a + stage * 8, problem.pixels_bytes);
                        load_pixels(ring + stage * problem.run_bytes, &map_a, c * Shape::chunk, pixel.w, pixel.h,
                                    pixel.n, plane_w, plane_h, full_a + stage * 8);
                        if (++stage == problem.runs) stage = 0, phase ^= 1;
                    }
        }
        if (warp == GROUPS * 4 + 1 && lane == 0) { // weights
            int stage = 0;
            std::uint32_t phase = 1;
            const auto load = [&](int c, int tap) {
                barrier_wait(empty_b + stage * 8, phase);
                barrier_expect(full_b + stage * 8, Shape::weights_bytes);
                load_weights(weights + stage * Shape::weights_bytes, &map_b,
                             tap * problem.tap_stride + c * Shape::chunk, 0, column / (4 * Shape::run),
                             full_b + stage * 8);
                if (++stage == problem.stages) stage = 0, phase ^= 1;
            };
            for (int c = first; c < last; ++c)
                for (int plane = 0; plane < problem.stride * problem.stride; ++plane)
                    for (int r = plane / problem.stride; r < problem.taps_h; r += problem.stride)
                        for (int s = plane % problem.stride; s < problem.taps_w; s += problem.stride)
                            load(c, r * problem.taps_w + s);
        }
        __syncwarp();
        if (split > 1) cluster_wait();
        return;
    }

    load_vectors<N, Shape::consumers>(to, vectors, column, Shape::run, thread);
    named_barrier(1, Shape::consumers);
    wait_for_predecessors(); // residual and output

    const int group = warp / 4;
    const int first_row = row + group * Shape::blocks_of_64 * 64 + warp % 4 * 16 + lane / 4;
    constexpr std::uint64_t descriptor = operand_descriptor(KB);
    Sum sums[Shape::blocks_of_64][N / 2];
    const Sum origin = sizeof(T) == 1 && to.small_sums && rank == 0 ? static_cast<Sum>(sum_origin) : Sum{0};
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            sums[block][i] = origin;
            pin(sums[block][i]); // in a register from here on: a constant would be put there between two wgmmas
        }

    int stage = 0, run_stage = 0;
    std::uint32_t phase = 0, run_phase = 0;
    bool begun = false;
    const int planes = problem.stride * problem.stride;
    for (int i = first * planes; i < last * planes; ++i) {
        const int plane = i & (planes - 1);
        barrier_wait(full_a + run_stage * 8, run_phase);
        std::uint32_t a_row = (ring + run_stage * problem.run_bytes + group * Shape::blocks_of_64 * 64 * KB) >> 4;
        bool first_tap = true;
        for (int r = plane / problem.stride; r < problem.taps_h; r += problem.stride) {
            std::uint32_t a = a_row;
            for (int s = plane & (problem.stride - 1); s < problem.taps_w; s += problem.stride) {
                barrier_wait(full_b + stage * 8, phase);
                const std::uint32_t b = (weights + stage * Shape::weights_bytes) >> 4;
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < KB / 32; ++k)
#pragma unroll
                    for (int block = 0; block < Shape::blocks_of_64; ++block)
                        Wgmma<T, N>::run(sums[block], descriptor + (a + block * 4 * KB + k * 2),
                                         descriptor + (b + k * 2));
                wgmma_commit();
                wgmma_wait<1>(); // the step before has been read
                if (lane == 0 && begun) {
                    barrier_arrive(empty_b + (stage == 0 ? problem.stages - 1 : stage - 1) * 8);
                    if (first_tap) barrier_arrive(empty_a + (run_stage == 0 ? problem.runs - 1 : run_stage - 1) * 8);
                }
                begun = true;
                first_tap = false;
                a += KB / 16;
                if (++stage == problem.stages) stage = 0, phase ^= 1;
            }
            a_row += problem.image.flat_q * (KB / 16);
        }
        if (++run_stage == problem.runs) run_stage = 0, run_phase ^= 1;
    }
    wgmma_wait<0>();
#pragma unroll
    for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
        for (int i = 0; i < N / 2; ++i)
            pin(sums[block][i]);

    const auto rows_of = [&](int block, int channel) {
        RowPair rows;
#pragma unroll
        for (int r = 0; r < 2; ++r)
            rows.inside[r] = problem.image.locate(first_row + block * 64 + 8 * r, to, column + channel, rows.offset[r]);
        return rows;
    };
    if (split == 1) {
        const int lane_channel = lane % 4 * Shape::run;
#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block) {
            to_floats(sums[block], to.small_sums);
            const RowPair rows = rows_of(block, lane_channel);
#pragma unroll
            for (int g = 0; g < Shape::groups; ++g) {
                const int skip = g * 4 * Shape::run;
                if (column + lane_channel + skip >= to.k) continue;
                Residual<Out, Shape::run> residual[2];
                float v[2][Shape::run];
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    if (to.epilogue.residual != nullptr && rows.inside[r]) residual[r].load(to, rows.offset[r] + skip);
#pragma unroll
                    for (int i = 0; i < Shape::run; ++i)
                        v[r][i] = as_float(sums[block][4 * (g * Shape::run / 2 + i / 2) + 2 * r + i % 2]);
                }
                finish_run<Out, Shape::run, N>(to, v, vectors + vector_place(lane_channel + skip, Shape::run) * 4,
                                               residual, rows, skip);
            }
        }
        return;
    }
    const std::uint32_t exchange = ring + problem.exchange;
    cluster_wait(); // the peers have begun
    send_shares<Shape::consumers>(sums, exchange, arrived, rank, problem.split_bits, thread);
    const auto finish_parts = [&](auto parts) {
        if constexpr (N / 8 >= decltype(parts)::value)
            finish_share<Sum, Out, Shape, N, Shape::consumers, decltype(parts)::value>(to, exchange, arrived, vectors,
                                                                                       rank, column, thread, rows_of);
    };
    if (split == 2)
        finish_parts(std::integral_constant<int, 2>{});
    else if (split == 4)
        finish_parts(std::integral_constant<int, 4>{});
    else
        finish_parts(std::integral_constant<int, 8>{});
}

/// One compiled tile.
struct WindowInstance {
    TileConfig config;
    int weights_bytes, exchange_bytes, ring_offset, run, threads;
    const void* kernel;
};

template <class T, class Out, int M, int N, int KB, int GROUPS, int BLOCKS>
WindowInstance make_window(const char* name) {
    using Shape = WindowTile<T, Out, M, N, KB, GROUPS>;
    return {{name, type_of<T>, type_of<Out>, M, N, KB, 0, GROUPS, 90, 90, kind_window, BLOCKS},
            Shape::weights_bytes,
            Shape::exchange_bytes,
            Shape::ring_offset,
            Shape::run,
            Shape::threads,
            reinterpret_cast<const void*>(&window_gemm<T, Out, M, N, KB, GROUPS, BLOCKS>)};
}

const WindowInstance* window_s8(int& count);
const WindowInstance* window_f16(int& count);

} // namespace lathe::cuda::kernels::sm90
