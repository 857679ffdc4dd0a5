#pragma once
// What kernels that finish straight from registers share: scales and biases, rows of the output, parts of a cluster.

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/sm90/epilogue.cuh"
#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/ptx.cuh"

namespace lathe::cuda::kernels::sm90 {

/// Scales and biases of a tile's N channels to `vectors`, as finish_run reads them: to int8 such that values lie in
/// 0..1.
template <int N, int THREADS>
__device__ inline void load_vectors(const Destination& to, std::uint32_t vectors, int column, int run, int thread) {
    for (int i = thread; i < N; i += THREADS) {
        const bool inside = column + i < to.k;
        float scale = !inside ? 0.0F : to.epilogue.scale ? __ldg(to.epilogue.scale + column + i) : 1.0F;
        float bias = inside && to.epilogue.bias ? __ldg(to.epilogue.bias + column + i) : 0.0F;
        scale *= to.per_step;
        bias = (bias - to.lowest) * to.per_step;
        const std::uint32_t place = vectors + vector_place(i, run) * 4;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(place), "f"(scale) : "memory");
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(place + N * 4), "f"(bias) : "memory");
    }
}

/// Outputs p by q an image, walked over with padding in front of each row and each image: flat_p by flat_q.
struct FlatImage {
    std::int32_t p, q, flat_p, flat_q;
    /// The element of this position and channel; false: the position stands for padding or is behind the end.
    __device__ bool locate(int position, const Destination& to, int channel, std::size_t& offset) const {
        const int line = position / flat_q, w = position - line * flat_q;
        const int n = line / flat_p, h = line - n * flat_p;
        const int row = (n * p + h) * q + w;
        offset = static_cast<std::size_t>(row) * to.k_pitch + channel;
        return w < q && h < p && row < to.rows;
    }
};

/// By an instruction that the compiler does not see through: it would keep sums as words and move them around each
/// wgmma, which then has to be waited for.
__device__ inline std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}
__device__ inline std::uint32_t bits_of(std::int32_t x) { return static_cast<std::uint32_t>(x); }
__device__ inline void set_bits(float& x, std::uint32_t bits) { x = __uint_as_float(bits); }
__device__ inline void set_bits(std::int32_t& x, std::uint32_t bits) { x = static_cast<std::int32_t>(bits); }

/// Sends every block of the cluster its columns of this block's sums; finish_share adds them up.
template <int THREADS, class Sum, int BLOCKS, int SUMS>
__device__ inline void send_shares(Sum (&sums)[BLOCKS][SUMS], std::uint32_t exchange, std::uint32_t arrived, int rank,
                                   int split_bits, int thread) {
    constexpr int all = SUMS / 4; // columns of 8
    const int columns = all >> split_bits;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int j = 0; j < all; ++j) {
            const int owner = (j << split_bits) / all;
            const int place = (rank * BLOCKS + block) * columns + j - owner * columns;
            const std::uint32_t words[4] = {bits_of(sums[block][4 * j]), bits_of(sums[block][4 * j + 1]),
                                            bits_of(sums[block][4 * j + 2]), bits_of(sums[block][4 * j + 3])};
            const std::uint32_t address = peer_address(exchange + (place * THREADS + thread) * 16, owner);
            send_peer(address, words, peer_address(arrived, owner));
        }
}

/// Finishes a share of columns: SPLIT parts of its sums lie in shared memory, [part][block of 64][column of 8][thread].
/// rows_of(block, channel): this thread's rows. Shape: run and blocks_of_64 of the kernel's tile.
template <class Sum, class Out, class Shape, int N, int THREADS, int SPLIT, class RowsOf>
__device__ inline void finish_share(const Destination& to, std::uint32_t exchange, std::uint32_t arrived,
                                    std::uint32_t vectors, int rank, int column, int thread, const RowsOf& rows_of) {
    constexpr int columns = N / 8 / SPLIT;
    constexpr int V = Shape::run < 2 * columns ? Shape::run : 2 * columns;
    constexpr int runs = 2 * columns / V, blocks = Shape::blocks_of_64;
    const auto channel_of = [&](int run) {
        const int at = rank * columns + run * (V / 2); // column of 8
        return at / (Shape::run / 2) * 4 * Shape::run + thread % 4 * Shape::run + at % (Shape::run / 2) * 2;
    };
    RowPair rows[blocks];
    Residual<Out, V> residual[blocks][runs][2];
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
        rows[block] = rows_of(block, 0);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int run = 0; run < runs; ++run)
                if (to.epilogue.residual != nullptr && rows[block].inside[r] && column + channel_of(run) < to.k)
                    residual[block][run][r].load(to, rows[block].offset[r] + channel_of(run));
    }
    barrier_wait_cluster(arrived, 0);
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
        for (int run = 0; run < runs; ++run) {
            const int channel = channel_of(run);
            if (column + channel >= to.k) continue;
            Sum sums[2][V];
#pragma unroll
            for (int part = 0; part < SPLIT; ++part)
#pragma unroll
                for (int y = 0; y < V / 2; ++y) {
                    const uint4 x = load_shared(
                        exchange + (((part * blocks + block) * columns + run * (V / 2) + y) * THREADS + thread) * 16);
                    const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        Sum value;
                        set_bits(value, words[e]);
                        Sum& sum = sums[e / 2][2 * y + e % 2];
                        sum = part == 0 ? value : sum + value;
                    }
                }
            float v[2][V];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                to_floats(sums[r], to.small_sums);
#pragma unroll
                for (int i = 0; i < V; ++i)
                    v[r][i] = as_float(sums[r][i]);
            }
            finish_run<Out, V, N>(to, v, vectors + vector_place(channel, Shape::run) * 4, residual[block][run],
                                  rows[block], channel);
        }
}

} // namespace lathe::cuda::kernels::sm90
