#pragma once
// Convolution and matrix product on Hopper for many pixels and few weights. A block keeps one column of tiles: its
// weights, all taps and channels, stay in shared memory while it walks over tiles of pixels. One warp loads weights,
// one pixels and the residual; two or three warpgroups take tiles in turn, each from its first wgmma to its last store,
// so that the tensor cores, the copy engine and the stores are busy at once.
//
// Windows (odd, stride 1, padded to the same size): a tile is a run of the padded image, row behind row, of which each
// row has its left padding alone (the next row's is its right padding). TMA's im2col mode loads such a run and as much
// behind it as the window reaches, once for all taps: tap (r, s) is the same tile r * pitch + s rows further on. Sums
// that stand for padding are not stored.
//
// Programmatic launch: only weights, scales and descriptors are touched before wait_for_predecessors().

#include <cstdint>

#include <cuda.h>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/share.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"

namespace lathe::cuda::kernels::sm90 {

/// At most: stages of pixels, residual tiles under way, chunks of weights.
inline constexpr int resident_stages = 24, resident_slots = 8, resident_chunks = 64;

/// Arguments of the kernel beside the three tensor maps.
struct ResidentProblem {
    Destination to;
    std::int32_t tiles;          ///< of pixels
    std::int32_t p, q;           ///< outputs of an image
    std::int32_t flat_p, flat_q; ///< the same with the padding that tiles run over
    std::int32_t stride_h, stride_w, pad_h, pad_w;
    std::int32_t taps, taps_w; ///< R * S, S
    std::int32_t tap_stride;   ///< elements of a weight row a tap takes
    std::int32_t chunks;       ///< of channels, KB bytes each
    std::int32_t stages, stage_bytes;
    std::int32_t pixels_bytes; ///< what is loaded into a stage
    std::int32_t slots;        ///< residual tiles under way
    bool im2col;               ///< else pixels are a matrix
};

template <class T, class Out, int M, int N, int KB, int GROUPS>
struct ResidentTile {
    static constexpr int blocks_of_64 = M / 64;
    static constexpr int consumers = GROUPS * 128, threads = consumers + 32;
    static constexpr int chunk = KB / static_cast<int>(sizeof(T)); ///< elements
    static constexpr int weights_bytes = N * KB;                   ///< of a chunk
    static constexpr int residual_row =
        N * static_cast<int>(sizeof(Out)) < 128 ? N * static_cast<int>(sizeof(Out)) : 128;
    static constexpr int residual_boxes = N * static_cast<int>(sizeof(Out)) / residual_row;
    static constexpr int slot_bytes = M * N * static_cast<int>(sizeof(Out));
    static constexpr int vectors_offset = (2 * (resident_stages + resident_slots) + resident_chunks + 4) * 8;
    static constexpr int weights_offset = (vectors_offset + N * 8 + 1023) / 1024 * 1024;
    static constexpr int run = run_of(sizeof(Out), N);
    static constexpr int groups = N / (4 * run);
};

/// Sixteen or eight bytes of a residual tile in shared memory.
template <int BYTES>
__device__ inline void load_packet(Packet<BYTES>& packet, std::uint32_t from) {
    if constexpr (BYTES == 16) {
        const uint4 x = load_shared(from);
        packet.words[0] = x.x, packet.words[1] = x.y, packet.words[2] = x.z, packet.words[3] = x.w;
    } else {
        static_assert(BYTES == 8);
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                     : "=r"(packet.words[0]), "=r"(packet.words[1])
                     : "r"(from)
                     : "memory");
    }
}

/// Grid: columns of tiles, blocks that share a column's tiles of pixels.
template <class T, class Out, int M, int N, int KB, int GROUPS, int BLOCKS>
__global__ void __launch_bounds__(ResidentTile<T, Out, M, N, KB, GROUPS>::threads, BLOCKS)
    resident_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_r, const __grid_constant__ ResidentProblem problem) {
    using Shape = ResidentTile<T, Out, M, N, KB, GROUPS>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t full = (shared_address(shared) + 1023) & ~1023U, empty = full + resident_stages * 8;
    const std::uint32_t residual_full = empty + resident_stages * 8;
    const std::uint32_t residual_empty = residual_full + resident_slots * 8;
    const std::uint32_t weights_full = residual_empty + resident_slots * 8;
    const std::uint32_t order = weights_full + resident_chunks * 8;
    const std::uint32_t vectors = full + Shape::vectors_offset, weights = full + Shape::weights_offset;
    const std::uint32_t ring = weights + problem.taps * problem.chunks * Shape::weights_bytes;
    const std::uint32_t slots = ring + problem.stages * problem.stage_bytes;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    const Destination& to = problem.to;
    const int column = static_cast<int>(blockIdx.x) * N;

    if (warp == GROUPS * 4) {
        if (lane == 0) {
            prefetch_map(&map_a);
            prefetch_map(&map_b);
            allow_dependents();
        }
        for (int i = lane; i < problem.stages; i += 32) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, 4); // one arrival a warp of the group whose tile it is
        }
        for (int i = lane; i < problem.slots; i += 32) {
            barrier_init(residual_full + i * 8, 1);
            barrier_init(residual_empty + i * 8, 4);
        }
        for (int i = lane; i < problem.taps * problem.chunks; i += 32)
            barrier_init(weights_full + i * 8, 1);
        for (int i = lane; i < GROUPS; i += 32)
            barrier_init(order + i * 8, 4);
        fence_barrier_init();
    }
    __syncthreads();

    if (warp == GROUPS * 4) {
        if (lane == 0) {
            wait_for_predecessors();
            int stage = 0, slot = 0;
            std::uint32_t phase = 1,
                          slot_phase = 1; // the first round finds all empty
            for (int tile = static_cast<int>(blockIdx.y); tile < problem.tiles; tile += static_cast<int>(gridDim.y)) {
                const FirstPixel pixel = first_pixel(tile * M, problem.flat_p, problem.flat_q, problem.stride_h,
                                                     problem.stride_w, problem.pad_h, problem.pad_w);
                for (int c = 0; c < problem.chunks; ++c) {
                    const std::uint32_t barrier = full + stage * 8, at = ring + stage * problem.stage_bytes;
                    barrier_wait(empty + stage * 8, phase);
                    barrier_expect(barrier, problem.pixels_bytes);
                    if (problem.im2col)
                        load_pixels(at, &map_a, c * Shape::chunk, pixel.w, pixel.h, pixel.n, 0, 0, barrier);
                    else
                        load_matrix(at, &map_a, c * Shape::chunk, tile * M, barrier);
                    if (++stage == problem.stages) stage = 0, phase ^= 1;
                }
                if (problem.slots == 0) continue;
                const std::uint32_t barrier = residual_full + slot * 8, at = slots + slot * Shape::slot_bytes;
                barrier_wait(residual_empty + slot * 8, slot_phase);
                barrier_expect(barrier, Shape::slot_bytes);
                for (int box = 0; box < Shape::residual_boxes; ++box) {
                    const std::uint32_t box_at = at + box * M * Shape::residual_row;
                    const int from = column + box * Shape::residual_row / static_cast<int>(sizeof(Out));
                    if (problem.taps > 1)
                        load_pixels(box_at, &map_r, from, pixel.w + problem.pad_w, pixel.h + problem.pad_h, pixel.n, 0,
                                    0, barrier);
                    else
                        load_matrix(box_at, &map_r, from, tile * M, barrier);
                }
                if (++slot == problem.slots) slot = 0, slot_phase ^= 1;
            }
        }
        return;
    }

    if (warp == GROUPS * 4 - 1 && lane == 0) // weights, in the order of use
        for (int c = 0, i = 0; c < problem.chunks; ++c)
            for (int tap = 0; tap < problem.taps; ++tap, ++i) {
                barrier_expect(weights_full + i * 8, Shape::weights_bytes);
                load_weights(weights + i * Shape::weights_bytes, &map_b, tap * problem.tap_stride + c * Shape::chunk, 0,
                             column / (4 * Shape::run), weights_full + i * 8);
            }
    __syncwarp();
    load_vectors<N, Shape::consumers>(to, vectors, column, Shape::run, thread);
    named_barrier(1, Shape::consumers);
    wait_for_predecessors(); // for the output

    const int group = warp / 4, first_row = warp % 4 * 16 + lane / 4;
    const int lane_channel = column + lane % 4 * Shape::run;
    const int pitch = problem.flat_q;
    constexpr std::uint64_t descriptor = operand_descriptor(KB);
    const Sum origin = sizeof(T) == 1 && to.small_sums ? static_cast<Sum>(sum_origin) : Sum{0};
    const std::uint32_t next_group = order + (group + 1 == GROUPS ? 0 : group + 1) * 8;
    std::uint32_t order_phase = group == 0 ? 1 : 0; // the first tile waits for nobody
    int turn = group;                               // of this block's tiles
    for (int tile = static_cast<int>(blockIdx.y) + group * static_cast<int>(gridDim.y); tile < problem.tiles;
         tile += GROUPS * static_cast<int>(gridDim.y), turn += GROUPS) {
        int stage = turn * problem.chunks;
        std::uint32_t phase = static_cast<std::uint32_t>(stage / problem.stages);
        stage -= static_cast<int>(phase) * problem.stages;
        phase &= 1;

        Sum sums[Shape::blocks_of_64][N / 2];
#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
            for (int i = 0; i < N / 2; ++i) {
                sums[block][i] = origin;
                pin(sums[block][i]); // in a register from here on: a constant would be put there between two wgmmas
            }
        std::uint32_t b = weights >> 4, b_barrier = weights_full;
        const auto release_last = [&] { // the stage before this one
            if (lane == 0) barrier_arrive(empty + (stage == 0 ? problem.stages - 1 : stage - 1) * 8);
        };
        // Groups wait for loads in the order of their tiles: a parity tells a load from the one before only to those
        // who know that the one before has arrived, and that one may have been another group's.
        barrier_wait(order + group * 8, order_phase);
        order_phase ^= 1;
        for (int c = 0; c < problem.chunks; ++c) {
            barrier_wait(full + stage * 8, phase);
            std::uint32_t a = (ring + stage * problem.stage_bytes) >> 4;
            for (int tap = 0, s = 0; tap < problem.taps; ++tap) {
                if (turn == group) barrier_wait(b_barrier, 0);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < KB / 32; ++k)
#pragma unroll
                    for (int block = 0; block < Shape::blocks_of_64; ++block)
                        Wgmma<T, N>::run(sums[block], descriptor + (a + block * 4 * KB + k * 2),
                                         descriptor + (b + k * 2));
                wgmma_commit();
                if (tap == 0 && c > 0) {
                    wgmma_wait<1>(); // the chunk before has been read
                    release_last();
                }
                b += Shape::weights_bytes / 16;
                b_barrier += 8;
                a += KB / 16;
                if (++s == problem.taps_w) {
                    s = 0;
                    a += (pitch - problem.taps_w) * (KB / 16);
                }
            }
            if (++stage == problem.stages) stage = 0, phase ^= 1;
        }
        std::uint32_t slot_at = 0, slot_barrier = 0;
        if (problem.slots > 0) {
            const int round = turn / problem.slots, slot = turn - round * problem.slots;
            slot_at = slots + slot * Shape::slot_bytes;
            slot_barrier = residual_empty + slot * 8;
            barrier_wait(residual_full + slot * 8, round & 1);
        }
        if (lane == 0) barrier_arrive(next_group);
        wgmma_wait<0>();
        release_last();
#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block)
#pragma unroll
            for (int i = 0; i < N / 2; ++i)
                pin(sums[block][i]);

#pragma unroll
        for (int block = 0; block < Shape::blocks_of_64; ++block) {
            to_floats(sums[block], to.small_sums);
            RowPair rows;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int row = tile * M + block * 64 + first_row + 8 * r;
                rows.inside[r] = row < to.rows;
                if (problem.taps > 1) {
                    const int line = row / pitch, w = row - line * pitch;
                    const int n = line / problem.flat_p, h = line - n * problem.flat_p;
                    row = (n * problem.p + h) * problem.q + w;
                    rows.inside[r] = w < problem.q && h < problem.p && row < to.rows;
                }
                rows.offset[r] = static_cast<std::size_t>(row) * to.k_pitch + lane_channel;
            }
#pragma unroll
            for (int g = 0; g < Shape::groups; ++g) {
                if (lane_channel + g * 4 * Shape::run >= to.k) continue;
                Residual<Out, Shape::run> residual[2];
                if (problem.slots > 0) {
                    const int byte = (g * 4 + lane % 4) * Shape::run * static_cast<int>(sizeof(Out));
                    const std::uint32_t box = slot_at + byte / Shape::residual_row * M * Shape::residual_row;
#pragma unroll
                    for (int r = 0; r < 2; ++r)
                        load_packet(residual[r].packet,
                                    box + swizzled_offset(block * 64 + first_row + 8 * r, byte % Shape::residual_row,
                                                          Shape::residual_row));
                }
                float v[2][Shape::run];
#pragma unroll
                for (int r = 0; r < 2; ++r)
#pragma unroll
                    for (int i = 0; i < Shape::run; ++i)
                        v[r][i] = as_float(sums[block][4 * (g * Shape::run / 2 + i / 2) + 2 * r + i % 2]);
                finish_run<Out, Shape::run, N>(
                    to, v, vectors + vector_place(lane % 4 * Shape::run + g * 4 * Shape::run, Shape::run) * 4, residual,
                    rows, g * 4 * Shape::run);
            }
        }
        if (problem.slots > 0) {
            __syncwarp();
            if (lane == 0) barrier_arrive(slot_barrier);
        }
    }
}

/// One compiled tile.
struct ResidentInstance {
    TileConfig config;
    int weights_bytes, weights_offset, slot_bytes, residual_row, run, threads;
    const void* kernel;
};

template <class T, class Out, int M, int N, int KB, int GROUPS, int BLOCKS>
ResidentInstance make_resident(const char* name) {
    using Shape = ResidentTile<T, Out, M, N, KB, GROUPS>;
    return {{name, type_of<T>, type_of<Out>, M, N, KB, 0, GROUPS, 90, 90, kind_kept, BLOCKS},
            Shape::weights_bytes,
            Shape::weights_offset,
            Shape::slot_bytes,
            Shape::residual_row,
            Shape::run,
            Shape::threads,
            reinterpret_cast<const void*>(&resident_gemm<T, Out, M, N, KB, GROUPS, BLOCKS>)};
}

const ResidentInstance* resident_s8(int& count);
const ResidentInstance* resident_f16(int& count);

} // namespace lathe::cuda::kernels::sm90
