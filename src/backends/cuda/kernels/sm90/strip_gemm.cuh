#pragma once
// 3x3 convolution of few channels on Hopper, for images between 33 and 64 wide: 64 output channels would leave the
// tensor cores waiting for pixels, since every tap reads its operand again. Here an input row is multiplied with three
// taps of a column at once: it belongs to three output rows, whose sums lie side by side, 3 x 64 columns. A warpgroup
// goes down a strip of rows of one image; a row takes the place of the one that is finished, so the weights lie in
// shared memory as rows 2 1 0 2 1 of each column of taps and are read from one of three beginnings.
//
// Programmatic launch: only weights, scales and descriptors are touched before wait_for_predecessors().

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

inline constexpr int strip_positions = 66; ///< of an input row: 64 outputs and their neighbours
inline constexpr int strip_columns = 64;   ///< output channels of a block
inline constexpr int strip_stages = 9;     ///< input rows of a warpgroup in shared memory, at most

/// Arguments of the kernel beside the two tensor maps.
struct StripProblem {
    Destination to;
    std::int32_t p, q;       ///< outputs of an image
    std::int32_t rows, down; ///< of a strip; strips of an image
    std::int32_t strips;     ///< of all images
    std::int32_t tap_stride; ///< elements of a weight row a tap takes
    std::int32_t stages;     ///< of a warpgroup's ring
};

template <class T, class Out, int KB, int GROUPS>
struct StripTile {
    static constexpr int consumers = GROUPS * 128;
    static constexpr int tap_bytes = strip_columns * KB;
    static constexpr int row_bytes = strip_positions * KB;
    static constexpr int stage_bytes = (row_bytes + 1023) / 1024 * 1024;
    static constexpr int weights_barrier = GROUPS * strip_stages * 8;
    static constexpr int vectors_offset = 512;
    static_assert(weights_barrier + 8 <= vectors_offset);
    static constexpr int weights_offset = (vectors_offset + strip_columns * 8 + 1023) / 1024 * 1024;
    static constexpr int ring_offset = weights_offset + 15 * tap_bytes;
    static constexpr int run = run_of(sizeof(Out), strip_columns);
    static constexpr int groups = strip_columns / (4 * run);
};

/// A row of an image; elements outside are 0.
__device__ inline void load_image_row(std::uint32_t to, const CUtensorMap* map, int w, int h, int n,
                                      std::uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5}], [%6];" ::"r"(to),
                 "l"(map), "r"(0), "r"(w), "r"(h), "r"(n), "r"(barrier)
                 : "memory");
}

/// Grid: columns of 64 output channels, blocks.
template <class T, class Out, int KB, int GROUPS>
__global__ void __launch_bounds__(StripTile<T, Out, KB, GROUPS>::consumers, 1)
    strip_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               const __grid_constant__ StripProblem problem) {
    using Shape = StripTile<T, Out, KB, GROUPS>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t barriers = (shared_address(shared) + 1023) & ~1023U;
    const std::uint32_t weights_full = barriers + Shape::weights_barrier;
    const std::uint32_t vectors = barriers + Shape::vectors_offset, weights = barriers + Shape::weights_offset;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    const int group = warp / 4;
    const Destination& to = problem.to;
    const int column = static_cast<int>(blockIdx.x) * strip_columns;
    const std::uint32_t full = barriers + group * strip_stages * 8;
    const std::uint32_t ring = barriers + Shape::ring_offset + group * problem.stages * Shape::stage_bytes;

    if (thread == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        for (int i = 0; i < GROUPS * strip_stages; ++i)
            barrier_init(barriers + i * 8, 1);
        barrier_init(weights_full, 1);
        fence_barrier_init();
        barrier_expect(weights_full, 15 * Shape::tap_bytes);
        for (int s = 0; s < 3; ++s)
            for (int i = 0; i < 5; ++i) {
                const int r = (5 - i) % 3; // 2 1 0 2 1
                load_weights(weights + (s * 5 + i) * Shape::tap_bytes, &map_b, (r * 3 + s) * problem.tap_stride, 0,
                             column / (4 * Shape::run), weights_full);
            }
        allow_dependents();
    }
    load_vectors<strip_columns, Shape::consumers>(to, vectors, column, Shape::run, thread);
    __syncthreads();
    wait_for_predecessors();

    const int step = static_cast<int>(gridDim.y) * GROUPS;
    const int first = group * static_cast<int>(gridDim.y) + static_cast<int>(blockIdx.y);
    // What is loaded next: rows from one above a strip to one below.
    int next_strip = first, next_row = 0, next_stage = 0;
    const auto load_next = [&] { // by one thread of the group
        if (next_strip >= problem.strips) return;
        const int n = next_strip / problem.down, top = (next_strip - n * problem.down) * problem.rows;
        const std::uint32_t barrier = full + next_stage * 8;
        barrier_expect(barrier, Shape::row_bytes);
        load_image_row(ring + next_stage * Shape::stage_bytes, &map_a, -1, top - 1 + next_row, n, barrier);
        if (++next_stage == problem.stages) next_stage = 0;
        if (++next_row == min(problem.rows, problem.p - top) + 2) next_row = 0, next_strip += step;
    };
    const bool loads = thread % 128 == 0;
    if (loads)
        for (int i = 0; i < problem.stages; ++i)
            load_next();

    constexpr std::uint64_t descriptor = operand_descriptor(KB);
    const int position = warp % 4 * 16 + lane / 4;
    const int lane_channel = lane % 4 * Shape::run;
    int stage = 0;
    std::uint32_t phase = 0;
    Sum sums[96];
#pragma unroll
    for (int i = 0; i < 96; ++i) {
        sums[i] = 0;
        pin(sums[i]);
    }
    barrier_wait(weights_full, 0);
    for (int strip = first; strip < problem.strips; strip += step) {
        const int n = strip / problem.down, top = (strip - n * problem.down) * problem.rows;
        const int count = min(problem.rows, problem.p - top) + 2;
        // Input row u is tap row r of output row u - r, whose sums are the third (u - r) % 3; PLACE is u % 3.
        const auto take = [&](auto place, int u) {
            constexpr int PLACE = decltype(place)::value, done = (PLACE + 1) % 3;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                sums[PLACE * 32 + i] = 0;
                pin(sums[PLACE * 32 + i]);
            }
            barrier_wait(full + stage * 8, phase);
            const std::uint32_t a = (ring + stage * Shape::stage_bytes) >> 4;
            const std::uint32_t b = (weights + (2 - PLACE) * Shape::tap_bytes) >> 4;
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < 3; ++s)
#pragma unroll
                for (int k = 0; k < KB / 32; ++k)
                    Wgmma<T, 192>::run(sums, descriptor + (a + s * (KB / 16) + k * 2),
                                       descriptor + (b + s * (5 * Shape::tap_bytes / 16) + k * 2));
            wgmma_commit();
            wgmma_wait<0>();
            named_barrier(1 + group, 128); // the row has been read
            if (loads) load_next();
            if (++stage == problem.stages) stage = 0, phase ^= 1;
#pragma unroll
            for (int i = 0; i < 96; ++i)
                pin(sums[i]);
            if (u < 2) return;

            RowPair rows;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int w = position + 8 * r;
                rows.inside[r] = w < problem.q;
                rows.offset[r] = static_cast<std::size_t>((n * problem.p + top + u - 2) * problem.q + w) * to.k_pitch +
                                 column + lane_channel;
            }
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
                        v[r][i] =
                            static_cast<float>(sums[done * 32 + 4 * (g * Shape::run / 2 + i / 2) + 2 * r + i % 2]);
                }
                finish_run<Out, Shape::run, strip_columns>(
                    to, v, vectors + vector_place(lane_channel + skip, Shape::run) * 4, residual, rows, skip);
            }
        };
        for (int u = 0; u < count; u += 3) {
            take(std::integral_constant<int, 0>{}, u);
            if (u + 1 < count) take(std::integral_constant<int, 1>{}, u + 1);
            if (u + 2 < count) take(std::integral_constant<int, 2>{}, u + 2);
        }
    }
}

/// One compiled tile.
struct StripInstance {
    TileConfig config;
    int ring_offset, stage_bytes, run, threads;
    const void* kernel;
};

template <class T, class Out, int KB, int GROUPS>
StripInstance make_strip(const char* name) {
    using Shape = StripTile<T, Out, KB, GROUPS>;
    return {{name, type_of<T>, type_of<Out>, 64, strip_columns, KB, 0, GROUPS, 90, 90, kind_strip, 1},
            Shape::ring_offset,
            Shape::stage_bytes,
            Shape::run,
            Shape::consumers,
            reinterpret_cast<const void*>(&strip_gemm<T, Out, KB, GROUPS>)};
}

} // namespace lathe::cuda::kernels::sm90
