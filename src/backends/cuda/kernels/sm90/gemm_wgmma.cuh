#pragma once
// Large matrix products on Hopper: out[m, n] = epilogue(sum over k of a[m, k] * b[n, k]), int8 or f16 in.
//
// One block a multiprocessor walks over tiles of 128 x N. A producer warp feeds a ring of stages by TMA, 128 bytes of
// the reduction each. Two warpgroups multiply, either each on tiles of its own, so that one's epilogue lies beside the
// other's products, or both on halves of one tile. Two blocks of a cluster may work on neighbouring columns: each loads
// half the rows of A and the copy engine writes them to both.
//
// The weights' rows are dealt to columns as geometry.hpp says, so that a thread holds channels next to each other and
// results go from registers to memory in pieces of 16 bytes. Programmatic launch: weights alone are read before
// wait_for_predecessors().

#include <cstdint>

#include <cuda.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels/bytes.cuh"
#include "backends/cuda/kernels/gelu.cuh"
#include "backends/cuda/kernels/sm90/gemm_wgmma.hpp"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"
#include "backends/cuda/kernels/sm90/wgmma.cuh"
#include "backends/cuda/kernels/sm90/wgmma_more.cuh"

namespace lathe::cuda::kernels::sm90 {

/// Arguments beside the two tensor maps.
struct WideProblem {
    void* output;
    EpilogueParams epilogue; ///< low and high are bounds for none, relu and clip alike
    std::int32_t rows, columns, out_stride, residual_stride;
    std::int32_t tiles_n, tiles; ///< with pairs: tiles_n counts pairs
    std::int32_t chunks;         ///< of 128 bytes of the reduction
    std::int32_t stages;
    std::int32_t pair; ///< 1: two blocks of a cluster share the rows of A
    std::int32_t gelu; ///< 0 none, relu or clip; 1 erf; 2 tanh
};

template <class T, class Out, int N, bool ALTERNATE>
struct WideTile {
    static constexpr int threads = 384;
    static constexpr int blocks = ALTERNATE ? 2 : 1; ///< of 64 rows, a warpgroup
    static constexpr int a_bytes = 128 * 128, b_bytes = N * 128, stage_bytes = a_bytes + b_bytes;
    static constexpr int run = 16 / static_cast<int>(sizeof(Out));
    static constexpr int groups = N / (4 * run);
    static constexpr int vectors_bytes = N * 8;            ///< scales, then biases of a warpgroup's tile
    static constexpr int before = 256 + 2 * vectors_bytes; ///< barriers and vectors, ahead of the ring
    static constexpr int most_stages = (shared_limit_wide - before - 1024) / stage_bytes;
};

/// GELU in steps of int8, to the nearest even, saturated; in the lowest byte. x / 2 (1 + tanh u) with
/// u = x (c0 + c1 x^2 + c2 x^4): fitted to erf within 2.6e-5 (own fit, minimax over 0..7), or the tanh form as it is.
/// The instruction for tanh is right to 2^-11, a fiftieth of a step where int8 reaches 10. Scaled to 0..1, so that the
/// multiply-add saturates.
struct GeluInSteps {
    float c0, c1, c2, factor;
    __device__ GeluInSteps(bool tanh_form, float steps_a_unit)
        : c0(tanh_form ? 0.79788456F : 0.797507884F), c1(tanh_form ? 0.035677408F : 0.0370056463F),
          c2(tanh_form ? 0.0F : -3.51516837e-04F), factor(steps_a_unit * (0.5F / 255)) {}
    __device__ __forceinline__ std::uint32_t operator()(float x) const {
        const float t = fminf(x * x, 60.0F); // u would turn round far beyond
        const float u = x * fmaf(fmaf(c2, t, c1), t, c0);
        float th, y;
        asm("tanh.approx.f32 %0, %1;" : "=f"(th) : "f"(u));
        asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(x * factor), "f"(th), "f"(fmaf(x, factor, 128.0F / 255)));
        return __float_as_uint(fmaf(y, 255.0F, 12582912.0F - 128.0F));
    }
};

/// A box of A for all blocks of `mask`, at the same place in each; each one's barrier counts the bytes.
__device__ inline void load_matrix_to_all(std::uint32_t to, const CUtensorMap* map, int column, int row,
                                          std::uint32_t barrier, std::uint16_t mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
                 : "memory");
}
__device__ inline void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/// How `V` values of one row end: 16 bytes.
template <class Out, int V>
__device__ __forceinline__ uint4 wide_packet(float (&v)[V], const EpilogueParams& e) {
    std::uint32_t words[4];
    if constexpr (sizeof(Out) == 1) {
        constexpr float magic_number = 12582912.0F; // 1.5 * 2^23: rounds to the nearest even integer
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            std::uint32_t bits[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                bits[j] = __float_as_uint(fminf(fmaxf(v[4 * i + j], e.low), e.high) + magic_number);
            words[i] = join_bytes(bits[0], bits[1], bits[2], bits[3]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __half2 pair = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
            words[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
        }
    }
    return {words[0], words[1], words[2], words[3]};
}

/// NaN stays NaN under both bounds.
__device__ __forceinline__ float between(float x, float low, float high) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(high));
    return x;
}

/// The residual of one run of channels, read ahead.
template <class Out>
__device__ __forceinline__ uint4 load_wide_residual(const EpilogueParams& e, std::size_t offset) {
    if (e.residual_is_s8 == 0)
        return __ldcg(reinterpret_cast<const uint4*>(static_cast<const Out*>(e.residual) + offset));
    const auto* from = static_cast<const std::int8_t*>(e.residual) + offset;
    if constexpr (sizeof(Out) == 1) return __ldcg(reinterpret_cast<const uint4*>(from));
    const uint2 x = __ldcg(reinterpret_cast<const uint2*>(from));
    return {x.x, x.y, 0, 0};
}
/// Adds its V values times the factor.
template <class Out, int V>
__device__ __forceinline__ void add_residual(float (&v)[V], const EpilogueParams& e, const uint4& x) {
    const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
    if (sizeof(Out) == 1 || e.residual_is_s8 != 0) {
#pragma unroll
        for (int i = 0; i < V; ++i)
            v[i] = fmaf(byte_value(words[i / 4], i % 4), e.residual_scale, v[i]);
        return;
    }
    if constexpr (sizeof(Out) == 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
            v[2 * i] = fmaf(pair.x, e.residual_scale, v[2 * i]);
            v[2 * i + 1] = fmaf(pair.y, e.residual_scale, v[2 * i + 1]);
        }
    }
}

/// The activation, and 16 bytes of the result.
template <class Out, int V>
__device__ __forceinline__ uint4 activated_packet(const WideProblem& problem, const GeluInSteps& gelu, float (&v)[V]) {
    const EpilogueParams& e = problem.epilogue;
    if constexpr (sizeof(Out) == 1) {
        if (problem.gelu == 0) return wide_packet<Out>(v, e);
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = join_bytes(gelu(v[4 * i]), gelu(v[4 * i + 1]), gelu(v[4 * i + 2]), gelu(v[4 * i + 3]));
        return {words[0], words[1], words[2], words[3]};
    } else {
        if (problem.gelu == 1) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = fast_gelu(v[i]);
        } else if (problem.gelu == 2) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = fast_gelu_tanh(v[i]);
        } else if (e.act != 0) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[i] = between(v[i], e.low, e.high);
        }
        return wide_packet<Out>(v, e);
    }
}

/// Finishes a thread's part of one block of 64 rows: sums[4 j + 2 i + c] is row 8 i, column 8 j + 2 t + c as dealt.
/// `vectors`: where this thread's first scales lie in shared memory (vector_place), biases N floats behind them.
template <class Out, int N, class Sum>
__device__ __forceinline__ void finish_wide(const WideProblem& problem, Sum (&sums)[N / 2], int row, int column,
                                            std::uint32_t vectors) {
    constexpr int V = 16 / static_cast<int>(sizeof(Out)), groups = N / (4 * V), ahead = groups < 3 ? groups : 3;
    const EpilogueParams& e = problem.epilogue;
    const bool inside[2] = {row < problem.rows, row + 8 < problem.rows};
    const GeluInSteps gelu(problem.gelu == 2, e.output_scale_inverse);
    uint4 residual[ahead][2];
    const auto fetch = [&](int g) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
            if (inside[r] && column + g * 4 * V < problem.columns)
                residual[g % ahead][r] = load_wide_residual<Out>(
                    e, static_cast<std::size_t>(row + 8 * r) * problem.residual_stride + column + g * 4 * V);
    };
    if (e.residual != nullptr) {
#pragma unroll
        for (int g = 0; g < ahead; ++g)
            fetch(g);
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        const int channel = column + g * 4 * V;
        if (channel >= problem.columns) continue;
        float v[2][V];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int i = 0; i < V; ++i)
                v[r][i] = static_cast<float>(sums[4 * (g * V / 2 + i / 2) + 2 * r + i % 2]);
#pragma unroll
        for (int i = 0; i < V / 4; ++i) {
            const std::uint32_t at = vectors + g * 4 * V * 4 + i * 64;
            const uint4 scale = load_shared(at), bias = load_shared(at + N * 4);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                v[r][4 * i] = fmaf(v[r][4 * i], __uint_as_float(scale.x), __uint_as_float(bias.x));
                v[r][4 * i + 1] = fmaf(v[r][4 * i + 1], __uint_as_float(scale.y), __uint_as_float(bias.y));
                v[r][4 * i + 2] = fmaf(v[r][4 * i + 2], __uint_as_float(scale.z), __uint_as_float(bias.z));
                v[r][4 * i + 3] = fmaf(v[r][4 * i + 3], __uint_as_float(scale.w), __uint_as_float(bias.w));
            }
        }
        if (e.residual != nullptr) {
#pragma unroll
            for (int r = 0; r < 2; ++r)
                add_residual<Out>(v[r], e, residual[g % ahead][r]);
            if (g + ahead < groups) fetch(g + ahead);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint4 packet = activated_packet<Out>(problem, gelu, v[r]);
            if (inside[r])
                *reinterpret_cast<uint4*>(static_cast<Out*>(problem.output) +
                                          static_cast<std::size_t>(row + 8 * r) * problem.out_stride + channel) =
                    packet;
        }
    }
}

template <class T, class Out, int N, bool ALTERNATE>
__global__ void __launch_bounds__(384, 1)
    wide_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
              const __grid_constant__ WideProblem problem) {
    using Shape = WideTile<T, Out, N, ALTERNATE>;
    using Sum = typename Accumulator<T>::type;
    extern __shared__ std::uint8_t shared[];
    const std::uint32_t begin = shared_address(shared);
    const std::uint32_t full = begin, empty = begin + 8 * 14, turn = begin + 8 * 28; // at most 14 stages
    const std::uint32_t vectors = begin + 256;
    const std::uint32_t ring = (begin + Shape::before + 1023) & ~1023U;
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    const bool pair = problem.pair != 0;
    const int rank = pair ? static_cast<int>(cluster_rank()) : 0;
    constexpr int chunk = 128 / static_cast<int>(sizeof(T)); ///< elements

    if (thread == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        for (int i = 0; i < problem.stages; ++i) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, (ALTERNATE ? 4 : 8) * (pair ? 2 : 1)); // one arrival a warp that reads it
        }
        for (int i = 0; i < 2; ++i)
            barrier_init(turn + i * 8, 4);
        fence_barrier_init();
        allow_dependents();
    }
    __syncthreads();
    if (pair) {
        cluster_arrive();
        cluster_wait();
    }
    const int first = static_cast<int>(blockIdx.x) >> (pair ? 1 : 0);
    const int step = static_cast<int>(gridDim.x) >> (pair ? 1 : 0);
    const auto row_of = [&](int tile) { return tile / problem.tiles_n * 128; };
    const auto column_of = [&](int tile) {
        const int n = tile % problem.tiles_n;
        return (pair ? 2 * n + rank : n) * N;
    };

    if (warp < 4) { // the producer's warpgroup
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 0) {
            const auto load_a = [&](int tile, int at, std::uint32_t to, std::uint32_t barrier) {
                if (pair)
                    load_matrix_to_all(to + rank * (64 * 128), &map_a, at * chunk, row_of(tile) + rank * 64, barrier,
                                       3);
                else
                    load_matrix(to, &map_a, at * chunk, row_of(tile), barrier);
            };
            const auto load_b = [&](int tile, int at, std::uint32_t to, std::uint32_t barrier) {
                load_weights(to + Shape::a_bytes, &map_b, at * chunk, 0, column_of(tile) / (4 * Shape::run), barrier);
            };
            // The first stages' weights do not depend on the kernel before.
            const int early = min(problem.stages, problem.chunks);
            for (int i = 0; i < early; ++i) {
                barrier_expect(full + i * 8, Shape::stage_bytes);
                load_b(first, i, ring + i * Shape::stage_bytes, full + i * 8);
            }
            wait_for_predecessors();
            for (int i = 0; i < early; ++i)
                load_a(first, i, ring + i * Shape::stage_bytes, full + i * 8);
            int stage = early == problem.stages ? 0 : early;
            std::uint32_t phase = early == problem.stages ? 0 : 1; // of the `empty` barrier awaited
            for (int tile = first; tile < problem.tiles; tile += step)
                for (int at = tile == first ? early : 0; at < problem.chunks; ++at) {
                    const std::uint32_t to = ring + stage * Shape::stage_bytes, barrier = full + stage * 8;
                    barrier_wait(empty + stage * 8, phase);
                    barrier_expect(barrier, Shape::stage_bytes);
                    load_a(tile, at, to, barrier);
                    load_b(tile, at, to, barrier);
                    if (++stage == problem.stages) stage = 0, phase ^= 1;
                }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int group = warp / 4 - 1, lane = thread % 32;
        wait_for_predecessors(); // residual and output
        constexpr std::uint64_t descriptor = operand_descriptor(128);
        constexpr int block_bytes = 64 * 128;
        const int own_row = (ALTERNATE ? 0 : group * 64) + warp % 4 * 16 + lane / 4;
        const auto release = [&](int stage) {
            if (lane == 0) {
                if (pair) {
                    barrier_arrive_at(empty + stage * 8, 0);
                    barrier_arrive_at(empty + stage * 8, 1);
                } else {
                    barrier_arrive(empty + stage * 8);
                }
            }
        };
        const std::uint32_t own_vectors = vectors + group * Shape::vectors_bytes;
        std::uint32_t turns = 0;
        int index = ALTERNATE ? group : 0; // of the tile among this block's
        for (int tile = first + index * step; tile < problem.tiles;
             tile += (ALTERNATE ? 2 : 1) * step, index += ALTERNATE ? 2 : 1) {
            Sum sums[Shape::blocks][N / 2];
#pragma unroll
            for (int block = 0; block < Shape::blocks; ++block)
#pragma unroll
                for (int i = 0; i < N / 2; ++i)
                    sums[block][i] = 0;
            // Scales and biases of the tile: on their way while it multiplies.
            constexpr int pieces = (N + 127) / 128;
            float scale[pieces], bias[pieces];
#pragma unroll
            for (int i = 0; i < pieces; ++i) {
                const int at = i * 128 + thread % 128, channel = column_of(tile) + at;
                const bool inside = at < N && channel < problem.columns;
                scale[i] = inside && problem.epilogue.scale != nullptr ? __ldg(problem.epilogue.scale + channel) : 1.0F;
                bias[i] = inside && problem.epilogue.bias != nullptr ? __ldg(problem.epilogue.bias + channel) : 0.0F;
            }
            // One warpgroup after the other: no barrier of the ring is then waited for a lap ahead.
            if constexpr (ALTERNATE) {
                barrier_wait(turn + group * 8, group == 0 ? turns ^ 1U : turns);
                turns ^= 1U;
            }
            const int before = index * problem.chunks;
            int stage = before % problem.stages;
            auto phase = static_cast<std::uint32_t>(before / problem.stages) & 1U;
            int last = 0;
            for (int at = 0; at < problem.chunks; ++at) {
                barrier_wait(full + stage * 8, phase);
                const std::uint32_t a = ring + stage * Shape::stage_bytes + (ALTERNATE ? 0 : group * block_bytes);
                const std::uint32_t b = ring + stage * Shape::stage_bytes + Shape::a_bytes;
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < 4; ++k)
#pragma unroll
                    for (int block = 0; block < Shape::blocks; ++block)
                        Wgmma<T, N>::run(sums[block], descriptor | ((a + block * block_bytes + k * 32) >> 4),
                                         descriptor | ((b + k * 32) >> 4));
                wgmma_commit();
                wgmma_wait<1>(); // the step before has read its stage
                if (at > 0) release(last);
                last = stage;
                if (++stage == problem.stages) stage = 0, phase ^= 1;
            }
            if constexpr (ALTERNATE) {
                if (lane == 0) barrier_arrive(turn + (1 - group) * 8);
            }
            named_barrier(1 + group, 128); // all have read the tile before's
#pragma unroll
            for (int i = 0; i < pieces; ++i) {
                const int at = i * 128 + thread % 128;
                if (at >= N) continue;
                const std::uint32_t place = own_vectors + vector_place(at, Shape::run) * 4;
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(place), "f"(scale[i]) : "memory");
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(place + N * 4), "f"(bias[i]) : "memory");
            }
            named_barrier(1 + group, 128);
            wgmma_wait<0>();
            release(last);
            const int row = row_of(tile) + own_row, column = column_of(tile) + lane % 4 * Shape::run;
            const std::uint32_t first_vector = own_vectors + vector_place(lane % 4 * Shape::run, Shape::run) * 4;
#pragma unroll
            for (int block = 0; block < Shape::blocks; ++block) {
#pragma unroll
                for (int i = 0; i < N / 2; ++i)
                    pin(sums[block][i]);
                finish_wide<Out, N>(problem, sums[block], row + block * 64, column, first_vector);
            }
        }
    }
    if (pair) { // nobody leaves while the other still writes or arrives here
        cluster_arrive();
        cluster_wait();
    }
}

template <class T>
inline constexpr int wide_type = sizeof(T) == 1 ? type_s8 : type_f16;

template <class T, class Out, int N, bool ALTERNATE>
WideInstance make_wide(const char* name) {
    using Shape = WideTile<T, Out, N, ALTERNATE>;
    WideInstance made{};
    made.config = {name, wide_type<T>, wide_type<Out>, 128, N, 128, Shape::most_stages, 2, 90, 90};
    made.kernel = reinterpret_cast<const void*>(wide_gemm<T, Out, N, ALTERNATE>);
    made.alternate = ALTERNATE;
    made.stage_bytes = Shape::stage_bytes;
    made.most_stages = Shape::most_stages;
    made.before = Shape::before;
    made.run = Shape::run;
    return made;
}

} // namespace lathe::cuda::kernels::sm90
