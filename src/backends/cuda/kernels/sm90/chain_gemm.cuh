#pragma once
// Products of rows that follow one another, on Hopper, without reading between them what was just written:
//
//   middle = finish(input * weight + residual)           the residual: a tensor, or
//   residual = finish(down_input * down_weight)          a product itself (a block's shortcut), rounded as if stored
//   output = finish(middle * second_weight)              a block's first convolution, reading the block before
//
// All weights stay in shared memory while the block walks over tiles of 64 rows. `TEAM` warpgroups share a tile, each
// with its part of the columns; teams take tiles in turn, so that products, epilogues, loads and stores of several
// tiles lie beside each other. A tile of the middle has one place in shared memory: the copy engine puts the residual
// there, the epilogue replaces it by the result, which the copy engine stores and the second product reads (both want
// rows of 128 bytes swizzled alike). Rounding is that of the separate kernels.
//
// A team's first thread starts its loads. Programmatic launch: only weights, scales and descriptors are touched before
// wait_for_predecessors().

#include <cstdint>

#include <cuda.h>

#include "backends/cuda/kernels/sm90/chain_gemm.hpp"
#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/share.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"
#include "backends/cuda/kernels/sm90/wgmma_first.cuh"

namespace lathe::cuda::kernels::sm90 {

/// The kernel's tensors for the copy engine; those a form of it does not have are not looked at.
struct ChainMaps {
    CUtensorMap input, down_input, residual, middle;
    CUtensorMap weight, down_weight, second_weight;
};

/// How an input is walked over: rows of a matrix, or pixels of an image in steps.
struct ChainWalk {
    std::int32_t stride_h, stride_w;
    bool strided;
};

/// Arguments beside the maps.
struct ChainProblem {
    Destination first, down, second; ///< first: of the middle, stored by its map; down: scale, bias and bounds alone
    ChainWalk input, down_input;
    std::int32_t tiles; ///< of 64 rows
    std::int32_t p, q;  ///< outputs of an image
};

/// Sizes of one form. K1, KD: channels of the inputs (KD 0: the residual is a tensor); N1: columns of the middle in a
/// block; N2: those of the second product (0: none). STAGES: input tiles, SLOTS: middle tiles of a team.
template <class T, int K1, int KD, int N1, int N2, int GROUPS, int TEAM, int STAGES, int SLOTS>
struct ChainTile {
    static constexpr int size = static_cast<int>(sizeof(T));
    static constexpr bool down = KD > 0, second = N2 > 0;
    static constexpr int rows = 64, teams = GROUPS / TEAM, threads = GROUPS * 128;
    static constexpr int chunk_bytes = K1 * size < 128 ? 64 : 128; ///< of a row of the input
    static constexpr int down_chunk_bytes = KD * size < 128 ? 64 : 128;
    static constexpr int chunks = K1 * size / chunk_bytes, down_chunks = KD * size / down_chunk_bytes;
    static constexpr int boxes = N1 * size / 128; ///< of a middle tile, 128 bytes wide
    static constexpr int box_bytes = rows * 128;
    static constexpr int share = N1 / TEAM;                     ///< columns of a warpgroup
    static constexpr int pass = down || share < 128 ? 64 : 128; ///< columns that it multiplies at once
    static constexpr int passes = share / pass;
    static constexpr int packet = 16 / size; ///< channels of 16 bytes
    static constexpr int run = 32 / size;    ///< neighbouring channels of a thread in the middle
    static constexpr int share_second = second ? N2 / TEAM : 64;
    static constexpr int run_second = run_of(sizeof(T), share_second);
    static constexpr int input_bytes = rows * K1 * size, stage_bytes = input_bytes + rows * KD * size;
    static constexpr int slot_bytes = boxes * box_bytes;
    static constexpr int weight_bytes = N1 * K1 * size, down_weight_bytes = N1 * KD * size;
    static constexpr int second_weight_bytes = N2 * N1 * size;
    // Shared memory: barriers, scales and biases, weights, stages, slots.
    static constexpr int barriers = 2 + teams * (STAGES + SLOTS);
    static constexpr int vectors_at = 512, down_vectors_at = vectors_at + N1 * 8;
    static constexpr int second_vectors_at = down_vectors_at + (down ? N1 * 8 : 0);
    static constexpr int weight_at = (second_vectors_at + N2 * 8 + 1023) / 1024 * 1024;
    static constexpr int down_weight_at = weight_at + weight_bytes;
    static constexpr int second_weight_at = down_weight_at + down_weight_bytes;
    static constexpr int stages_at = second_weight_at + second_weight_bytes;
    static constexpr int slots_at = stages_at + teams * STAGES * stage_bytes;
    static constexpr int shared_bytes = slots_at + teams * SLOTS * slot_bytes + 1024; ///< its beginning is rounded up
    static_assert(barriers * 8 <= vectors_at && GROUPS % TEAM == 0 && N1 % 128 == 0 && share % pass == 0);
    static_assert(N2 == 0 || share_second == 32 || share_second == 64 || share_second == 128);
};

/// A box in shared memory to a matrix; what lies behind its last row is left out.
__device__ inline void store_matrix(const CUtensorMap* map, int column, int row, std::uint32_t from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
                 "r"(row), "r"(from)
                 : "memory");
}
__device__ inline void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until all but the latest PENDING groups of stores of this thread have read shared memory.
template <int PENDING>
__device__ inline void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
/// Makes this thread's writes to shared memory visible to the copy engine and the tensor cores.
__device__ inline void fence_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Scales and biases of `count` channels from `column` on, times `factor`; see vector_place.
__device__ inline void load_scaled_vectors(const Destination& to, std::uint32_t vectors, int count, int column, int run,
                                           float factor, int thread, int threads) {
    for (int i = thread; i < count; i += threads) {
        const float scale = to.epilogue.scale ? __ldg(to.epilogue.scale + column + i) : 1.0F;
        const float bias = to.epilogue.bias ? __ldg(to.epilogue.bias + column + i) : 0.0F;
        const std::uint32_t place = vectors + vector_place(i, run) * 4;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(place), "f"(scale * factor) : "memory");
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(place + count * 4), "f"(bias * factor) : "memory");
    }
}

__device__ inline float fma_saturated(float a, float b, float c) {
    float result;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}
__device__ inline std::uint32_t min_u16x2(std::uint32_t a, std::uint32_t b) {
    std::uint32_t result;
    asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/// int8 results of at least 0 cost less: everything is 128 times smaller (which is exact), so that the multiply-add
/// cuts at 0 and 128; the upper bound is taken of whole numbers, two at a time.
inline constexpr float positive_factor = 1.0F / 128;
template <int V>
__device__ inline void pack_positive(const float (&v)[V], std::uint32_t high_pair, std::uint32_t (&words)[V / 4]) {
    std::uint32_t bits[V];
#pragma unroll
    for (int i = 0; i < V; ++i)
        bits[i] = __float_as_uint(fmaf(v[i], 128.0F, magic));
#pragma unroll
    for (int i = 0; i < V / 4; ++i) {
        const std::uint32_t low = min_u16x2(__byte_perm(bits[4 * i], bits[4 * i + 1], 0x5410), high_pair);
        const std::uint32_t high = min_u16x2(__byte_perm(bits[4 * i + 2], bits[4 * i + 3], 0x5410), high_pair);
        words[i] = __byte_perm(low, high, 0x6420);
    }
}

/// v = v * scale + bias of V channels next to each other, two rows.
template <int V, bool SATURATED>
__device__ inline void scale_packets(float (&v)[2][V], std::uint32_t vectors, int count) {
#pragma unroll
    for (int i = 0; i < V / 4; ++i) {
        const uint4 scale = load_shared(vectors + i * 64), bias = load_shared(vectors + count * 4 + i * 64);
        const std::uint32_t scales[4] = {scale.x, scale.y, scale.z, scale.w};
        const std::uint32_t biases[4] = {bias.x, bias.y, bias.z, bias.w};
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float a = __uint_as_float(scales[j]), b = __uint_as_float(biases[j]);
                v[r][4 * i + j] = SATURATED ? fma_saturated(v[r][4 * i + j], a, b) : fmaf(v[r][4 * i + j], a, b);
            }
    }
}

/// A row's value of a type as it comes back from memory: bounds, rounding.
__device__ inline float as_stored(float v, const EpilogueParams& epilogue, std::int8_t) {
    return fminf(fmaxf(v, epilogue.low), epilogue.high) + magic - magic;
}
__device__ inline float as_stored(float v, const EpilogueParams& epilogue, __half) {
    return __half2float(__float2half_rn(min_nan(max_nan(v, epilogue.low), epilogue.high)));
}

/// Sums of a 64 x N product into registers: chunks of `CHUNK_BYTES` of both operands.
template <class T, int N, int CHUNKS, int CHUNK_BYTES, class Sum>
__device__ inline void multiply(Sum (&sums)[N / 2], std::uint32_t a, std::uint32_t a_step, std::uint32_t b,
                                std::uint32_t b_step) {
    constexpr std::uint64_t descriptor = operand_descriptor(CHUNK_BYTES);
    WgmmaFirst<T, N>::run(sums, descriptor + a / 16, descriptor + b / 16);
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
        for (int k = c == 0 ? 1 : 0; k < CHUNK_BYTES / 32; ++k)
            Wgmma<T, N>::run(sums, descriptor + ((a + c * a_step) / 16 + k * 2),
                             descriptor + ((b + c * b_step) / 16 + k * 2));
}
template <int COUNT, class Sum>
__device__ inline void pin_sums(Sum (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        pin(sums[i]);
}

/// Grid: columns of the middle by blocks that share the tiles. POSITIVE: int8 whose results are all bounded by 0 below.
template <class T, int K1, int KD, int N1, int N2, int GROUPS, int TEAM, int STAGES, int SLOTS, bool POSITIVE>
__global__ void __launch_bounds__(GROUPS * 128, 1)
    chain_gemm(const __grid_constant__ ChainMaps maps, const __grid_constant__ ChainProblem problem) {
    using Shape = ChainTile<T, K1, KD, N1, N2, GROUPS, TEAM, STAGES, SLOTS>;
    using Sum = typename Accumulator<T>::type;
    constexpr bool int8 = sizeof(T) == 1;
    constexpr int V = Shape::packet;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t base = (shared_address(shared) + 1023) & ~1023U;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    const int group = warp / 4, team = group / TEAM, member = group % TEAM;
    const bool leader = thread % (TEAM * 128) == 0;
    const int column = static_cast<int>(blockIdx.x) * N1;
    const std::uint32_t weights_full = base, second_full = base + 8;
    const std::uint32_t stage_full = base + 16 + team * STAGES * 8;
    const std::uint32_t slot_full = base + 16 + (Shape::teams * STAGES + team * SLOTS) * 8;
    const std::uint32_t stages = base + Shape::stages_at + team * STAGES * Shape::stage_bytes;
    const std::uint32_t slots = base + Shape::slots_at + team * SLOTS * Shape::slot_bytes;
    const std::uint32_t weight = base + Shape::weight_at, down_weight = base + Shape::down_weight_at;
    const std::uint32_t second_weight = base + Shape::second_weight_at;
    const std::uint32_t vectors = base + Shape::vectors_at, down_vectors = base + Shape::down_vectors_at;
    const std::uint32_t second_vectors = base + Shape::second_vectors_at;

    if (thread == 0) {
        allow_dependents();
        for (int i = 0; i < Shape::barriers; ++i)
            barrier_init(base + i * 8, 1);
        fence_barrier_init();
        // Weights: 128 columns a box, dealt so that a thread gets 32 bytes of a row.
        barrier_expect(weights_full, Shape::weight_bytes + Shape::down_weight_bytes);
        for (int block = 0; block < N1 / 128; ++block) {
            const int dealt = (column + block * 128) / (4 * Shape::run);
            for (int c = 0; c < Shape::chunks; ++c)
                load_weights(weight + (block * Shape::chunks + c) * 128 * Shape::chunk_bytes, &maps.weight,
                             c * Shape::chunk_bytes / Shape::size, 0, dealt, weights_full);
            for (int c = 0; c < Shape::down_chunks; ++c)
                load_weights(down_weight + (block * Shape::down_chunks + c) * 128 * Shape::down_chunk_bytes,
                             &maps.down_weight, c * Shape::down_chunk_bytes / Shape::size, 0, dealt, weights_full);
        }
        if constexpr (Shape::second) {
            barrier_expect(second_full, Shape::second_weight_bytes);
            for (int m = 0; m < TEAM; ++m)
                for (int c = 0; c < Shape::boxes; ++c)
                    load_weights(second_weight + (m * Shape::boxes + c) * Shape::share_second * 128,
                                 &maps.second_weight, c * 128 / Shape::size, 0,
                                 m * Shape::share_second / (4 * Shape::run_second), second_full);
        }
    }
    constexpr float factor = POSITIVE ? positive_factor : 1.0F;
    load_scaled_vectors(problem.first, vectors, N1, column, Shape::run, factor, thread, Shape::threads);
    if constexpr (Shape::down)
        load_scaled_vectors(problem.down, down_vectors, N1, column, Shape::run, 1.0F, thread, Shape::threads);
    if constexpr (Shape::second)
        load_scaled_vectors(problem.second, second_vectors, N2, 0, Shape::run_second, factor, thread, Shape::threads);
    __syncthreads();
    wait_for_predecessors();

    const int step = static_cast<int>(gridDim.y) * Shape::teams;
    const int first_tile = static_cast<int>(blockIdx.y) + team * static_cast<int>(gridDim.y);
    // Channels of a tile's rows, `count` boxes of `chunk` bytes a row.
    const auto load_rows = [&](const CUtensorMap& map, const ChainWalk& walk, int tile, std::uint32_t to, int count,
                               int chunk, std::uint32_t barrier) {
        FirstPixel pixel;
        if (walk.strided) pixel = first_pixel(tile * 64, problem.p, problem.q, walk.stride_h, walk.stride_w, 0, 0);
        for (int c = 0; c < count; ++c) {
            if (walk.strided)
                load_pixels(to + c * 64 * chunk, &map, c * chunk / Shape::size, pixel.w, pixel.h, pixel.n, 0, 0,
                            barrier);
            else
                load_matrix(to + c * 64 * chunk, &map, c * chunk / Shape::size, tile * 64, barrier);
        }
    };
    const auto load_inputs = [&](int tile, int stage) {
        if (tile >= problem.tiles) return;
        const std::uint32_t at = stages + stage * Shape::stage_bytes, barrier = stage_full + stage * 8;
        barrier_expect(barrier, Shape::stage_bytes);
        load_rows(maps.input, problem.input, tile, at, Shape::chunks, Shape::chunk_bytes, barrier);
        if constexpr (Shape::down)
            load_rows(maps.down_input, problem.down_input, tile, at + Shape::input_bytes, Shape::down_chunks,
                      Shape::down_chunk_bytes, barrier);
    };
    const auto load_residual = [&](int tile, int slot) {
        if (Shape::down || tile >= problem.tiles) return;
        const std::uint32_t at = slots + slot * Shape::slot_bytes, barrier = slot_full + slot * 8;
        barrier_expect(barrier, Shape::slot_bytes);
#pragma unroll
        for (int box = 0; box < Shape::boxes; ++box)
            load_matrix(at + box * Shape::box_bytes, &maps.residual, column + box * 128 / Shape::size, tile * 64,
                        barrier);
    };
    const auto team_barrier = [&] { named_barrier(1 + team, TEAM * 128); };
    if (leader) {
        for (int i = 0; i < STAGES; ++i)
            load_inputs(first_tile + i * step, i);
        for (int i = 0; i < SLOTS; ++i)
            load_residual(first_tile + i * step, i);
    }
    barrier_wait(weights_full, 0);

    const std::uint32_t high_pair = static_cast<std::uint32_t>(__float2int_rn(problem.first.epilogue.high)) * 0x10001U;
    const std::uint32_t second_high =
        static_cast<std::uint32_t>(__float2int_rn(problem.second.epilogue.high)) * 0x10001U;
    const float residual_factor = problem.first.epilogue.residual_scale * factor;
    const int tile_row = warp % 4 * 16 + lane / 4; // and 8 further on
    const std::uint32_t row_at = tile_row * 128, swizzle = (lane / 4) << 4;
    int stage = 0, slot = 0;
    std::uint32_t stage_phase = 0, slot_phase = 0;
    for (int tile = first_tile; tile < problem.tiles; tile += step) {
        const std::uint32_t input = stages + stage * Shape::stage_bytes, middle = slots + slot * Shape::slot_bytes;
        if constexpr (Shape::down) { // what was in this slot has been stored
            if (leader) store_wait_read<SLOTS - 1>();
            team_barrier();
        }
        barrier_wait(stage_full + stage * 8, stage_phase);
#pragma unroll 1
        for (int pass = 0; pass < Shape::passes; ++pass) {
            const int at = member * Shape::share + pass * Shape::pass; // this pass's first column
            Sum sums[Shape::pass / 2], shortcut[Shape::down ? Shape::pass / 2 : 1];
            wgmma_fence();
            if constexpr (Shape::down)
                multiply<T, Shape::pass, Shape::down_chunks, Shape::down_chunk_bytes>(
                    shortcut, input + Shape::input_bytes, 64 * Shape::down_chunk_bytes,
                    down_weight + (at / 128 * Shape::down_chunks * 128 + at % 128) * Shape::down_chunk_bytes,
                    128 * Shape::down_chunk_bytes);
            multiply<T, Shape::pass, Shape::chunks, Shape::chunk_bytes>(
                sums, input, 64 * Shape::chunk_bytes,
                weight + (at / 128 * Shape::chunks * 128 + at % 128) * Shape::chunk_bytes, 128 * Shape::chunk_bytes);
            wgmma_commit();
            if constexpr (!Shape::down)
                if (pass == 0) barrier_wait(slot_full + slot * 8, slot_phase);
            wgmma_wait<0>();
            pin_sums(sums);
            to_floats(sums, false);
            if constexpr (Shape::down) {
                pin_sums(shortcut);
                to_floats(shortcut, false);
            }
#pragma unroll
            for (int u = 0; u < Shape::pass / (4 * V); ++u) {
                const int unit = at / (4 * V) + u; // two of them fill 128 bytes
                const int channel = unit / 2 * 4 * Shape::run + lane % 4 * Shape::run + unit % 2 * V;
                const std::uint32_t place = vector_place(channel, Shape::run) * 4;
                const std::uint32_t to = middle + unit / 2 * Shape::box_bytes + row_at +
                                         ((static_cast<std::uint32_t>(lane % 4 * 32 + unit % 2 * 16)) ^ swizzle);
                float v[2][V], r[2][V];
#pragma unroll
                for (int i = 0; i < V; ++i)
#pragma unroll
                    for (int row = 0; row < 2; ++row) {
                        const int sum = 4 * (u * V / 2 + i / 2) + 2 * row + i % 2;
                        v[row][i] = as_float(sums[sum]);
                        if constexpr (Shape::down) r[row][i] = as_float(shortcut[sum]);
                    }
                if constexpr (Shape::down) {
                    scale_packets<V, false>(r, down_vectors + place, N1);
#pragma unroll
                    for (int row = 0; row < 2; ++row)
#pragma unroll
                        for (int i = 0; i < V; ++i)
                            r[row][i] = as_stored(r[row][i], problem.down.epilogue, T{});
                } else {
#pragma unroll
                    for (int row = 0; row < 2; ++row) {
                        const uint4 x = load_shared(to + row * 8 * 128);
                        const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
                        for (int i = 0; i < V; ++i) {
                            if constexpr (int8) {
                                r[row][i] = byte_value(words[i / 4], i % 4);
                            } else {
                                const float2 pair = unpack(words[i / 2], T{});
                                r[row][i] = i % 2 == 0 ? pair.x : pair.y;
                            }
                        }
                    }
                }
                scale_packets<V, false>(v, vectors + place, N1);
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    std::uint32_t words[4];
#pragma unroll
                    for (int i = 0; i < V; ++i)
                        v[row][i] = POSITIVE ? fma_saturated(r[row][i], residual_factor, v[row][i])
                                             : fmaf(r[row][i], residual_factor, v[row][i]);
                    if constexpr (POSITIVE) {
                        pack_positive(v[row], high_pair, words);
                    } else {
                        const Packet<16> packed = make_packet<T>(problem.first, v[row]);
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            words[i] = packed.words[i];
                    }
                    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + row * 8 * 128), "r"(words[0]),
                                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                                 : "memory");
                }
            }
        }
        fence_shared_writes();
        team_barrier();
        if (leader) {
            for (int box = 0; box < Shape::boxes; ++box)
                store_matrix(&maps.middle, column + box * 128 / Shape::size, tile * 64,
                             middle + box * Shape::box_bytes);
            store_commit();
            load_inputs(tile + STAGES * step, stage);
        }
        __syncwarp();
        if constexpr (Shape::second) {
            constexpr int N = Shape::share_second, R = Shape::run_second;
            barrier_wait(second_full, 0);
            Sum sums[N / 2];
            wgmma_fence();
            multiply<T, N, Shape::boxes, 128>(sums, middle, Shape::box_bytes,
                                              second_weight + member * Shape::boxes * N * 128, N * 128);
            wgmma_commit();
            wgmma_wait<0>();
            pin_sums(sums);
            if constexpr (!Shape::down) { // the slot's next residual; with a shortcut, stores are waited for above
                team_barrier();
                if (leader) {
                    store_wait_read<0>();
                    load_residual(tile + SLOTS * step, slot);
                }
                __syncwarp();
            }
            to_floats(sums, false);
            const int channel = member * N + lane % 4 * R;
#pragma unroll
            for (int g = 0; g < N / (4 * R); ++g) {
                float v[2][R];
#pragma unroll
                for (int row = 0; row < 2; ++row)
#pragma unroll
                    for (int i = 0; i < R; ++i)
                        v[row][i] = as_float(sums[4 * (g * R / 2 + i / 2) + 2 * row + i % 2]);
                scale_packets<R, POSITIVE>(v, second_vectors + vector_place(channel + g * 4 * R, R) * 4, N2);
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const int out_row = tile * 64 + tile_row + 8 * row;
                    Packet<R * Shape::size> packed;
                    if constexpr (POSITIVE)
                        pack_positive(v[row], second_high, packed.words);
                    else
                        packed = make_packet<T>(problem.second, v[row]);
                    if (out_row < problem.second.rows)
                        packed.store(static_cast<T*>(problem.second.output) +
                                     static_cast<std::size_t>(out_row) * problem.second.k_stride + channel + g * 4 * R);
                }
            }
        } else if constexpr (!Shape::down) {
            if (leader) {
                store_wait_read<0>();
                load_residual(tile + SLOTS * step, slot);
            }
            __syncwarp();
        }
        if (++stage == STAGES) stage = 0, stage_phase ^= 1;
        if (++slot == SLOTS) slot = 0, slot_phase ^= 1;
    }
    if (leader) store_wait_read<0>(); // shared memory must outlive them
}

/// One compiled form.
struct ChainInstance {
    ChainForm form;
    int share_second, run, run_second, shared_bytes, threads;
    const void* kernel[2]; ///< for any bounds; int8 alone: for results of at least 0
};

template <class T, int K1, int KD, int N1, int N2, int GROUPS, int TEAM, int STAGES, int SLOTS>
ChainInstance make_chain(const char* name) {
    using Shape = ChainTile<T, K1, KD, N1, N2, GROUPS, TEAM, STAGES, SLOTS>;
    static_assert(Shape::shared_bytes <= 232448);
    return {
        {name, type_of<T>, K1, KD, N1, N2},
        Shape::share_second,
        Shape::run,
        Shape::run_second,
        Shape::shared_bytes,
        Shape::threads,
        {reinterpret_cast<const void*>(&chain_gemm<T, K1, KD, N1, N2, GROUPS, TEAM, STAGES, SLOTS, false>),
         reinterpret_cast<const void*>(&chain_gemm<T, K1, KD, N1, N2, GROUPS, TEAM, STAGES, SLOTS, sizeof(T) == 1>)}};
}

const ChainInstance* chain_s8(int& count);
const ChainInstance* chain_f16(int& count);

} // namespace lathe::cuda::kernels::sm90
