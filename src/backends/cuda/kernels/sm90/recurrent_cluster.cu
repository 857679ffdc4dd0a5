// LSTM, GRU and RNN on Hopper: the blocks of a cluster keep the recurrence in shared memory, each the gates of its
// share of the units, for all steps. After a step every block writes its units' new state into the memory of all
// others.
#include <algorithm>
#include <cmath>

#include <cooperative_groups.h>

#include "backends/cuda/kernels/recurrent.cuh"
#include "backends/cuda/kernels/sm90/recurrent_cluster.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;
constexpr std::size_t most_shared = 227 * 1024;
constexpr RecurrentTile tiles[] = {{8, 1}, {16, 1}, {4, 1}, {2, 1}, {8, 4}, {16, 4}, {4, 4},
                                   {8, 8}, {16, 8}, {8, 2}, {1, 4}, {2, 4}, {1, 8},  {1, 1}};

template <class T, int Samples>
__global__ void __launch_bounds__(threads) recurrent_cluster(const __grid_constant__ RecurrentParams p, int lanes) {
    namespace cg = cooperative_groups;
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int step_k = Vec16<T>::count, at_once = 4;
    const cg::cluster_group cluster = cg::this_cluster();
    const int blocks = static_cast<int>(cluster.num_blocks()), rank = static_cast<int>(cluster.block_rank());
    const int width = static_cast<int>(p.width), gates = static_cast<int>(gates_of(p.cell));
    const int units = width / blocks, rows = gates * units, all_rows = gates * width;
    T* weights = reinterpret_cast<T*>(shared);
    float* state = reinterpret_cast<float*>(weights + static_cast<std::size_t>(rows) * width); // [2][Samples][width]
    float* sums = state + 2 * Samples * width;                                                 // [Samples][rows]
    const int thread = static_cast<int>(threadIdx.x);
    const std::int64_t place = blockIdx.y, first_sample = static_cast<std::int64_t>(blockIdx.x) * Samples;
    const bool back = p.reverse != 0 || place == 1;

    // Weights are nobody's results: they come before the kernel before this one is done.
    const auto row_of = [&](int local) { return local / units * width + rank * units + local % units; };
    const T* recurrence = static_cast<const T*>(p.recurrence) + place * all_rows * width;
    const int pieces = width / step_k;
    for (int i = thread; i < rows * pieces; i += threads) {
        const int row = i / pieces, k = i % pieces * step_k;
        *reinterpret_cast<uint4*>(weights + row * width + k) =
            *reinterpret_cast<const uint4*>(recurrence + static_cast<std::int64_t>(row_of(row)) * width + k);
    }
    pdl_wait();
    for (int i = thread; i < Samples * width; i += threads) {
        const std::int64_t sample = first_sample + i / width;
        const bool there = p.initial != nullptr && sample < p.batch;
        state[i] = there ? load_any(p.initial, p.initial_type, (place * p.batch + sample) * width + i % width) : 0.0F;
    }
    // A thread has at most one unit of one sample.
    const int unit = thread % units, own = thread / units, column = rank * units + unit;
    const std::int64_t sample = first_sample + own;
    const bool mine = own < Samples && sample < p.batch;
    const std::int64_t at_state = (place * p.batch + sample) * width + column;
    float bias[most_gates] = {}, cell = 0;
    const std::int64_t length = mine ? steps_of(p, sample) : 0;
    if (mine) {
        for (int g = 0; g < gates; ++g)
            bias[g] = p.bias[place * all_rows + g * width + column];
        if (p.initial_cell != nullptr) cell = load_any(p.initial_cell, p.initial_cell_type, at_state);
    }
    cluster.sync();

    const int lane = thread % lanes, group = thread / lanes, groups = threads / lanes;
    const int turns = (rows + groups * at_once - 1) / (groups * at_once);
    for (std::int64_t step = 0; step < p.steps; ++step) {
        const std::int64_t t = back ? p.steps - 1 - step : step;
        const float* now = state + (step & 1) * Samples * width;
        float* next = state + (1 - (step & 1)) * Samples * width;
        float x[most_gates] = {};
        if (mine) {
            const std::int64_t from = ((t * p.batch + sample) * p.directions + place) * all_rows + column;
#pragma unroll
            for (int g = 0; g < most_gates; ++g)
                if (g < gates) x[g] = load_any(p.gates, p.gates_type, from + g * width);
        }
        for (int turn = 0; turn < turns; ++turn) {
            const int row = (turn * groups + group) * at_once;
            float sum[at_once][Samples] = {};
            for (int k = lane * step_k; k < width; k += lanes * step_k) {
                float w[at_once][step_k];
#pragma unroll
                for (int r = 0; r < at_once; ++r) {
                    const T* at = weights + (row + r < rows ? row + r : 0) * width + k;
                    const uint4 raw = *reinterpret_cast<const uint4*>(at); // one load
                    unpack<T>(raw, w[r]);
                }
#pragma unroll
                for (int s = 0; s < Samples; ++s) {
                    alignas(16) float h[step_k];
#pragma unroll
                    for (int i = 0; i < step_k; i += 4)
                        *reinterpret_cast<float4*>(h + i) = *reinterpret_cast<const float4*>(now + s * width + k + i);
#pragma unroll
                    for (int r = 0; r < at_once; ++r)
#pragma unroll
                        for (int i = 0; i < step_k; ++i)
                            sum[r][s] += w[r][i] * h[i];
                }
            }
#pragma unroll
            for (int r = 0; r < at_once; ++r) {
#pragma unroll
                for (int s = 0; s < Samples; ++s) {
                    for (int far = lanes / 2; far > 0; far /= 2)
                        sum[r][s] += __shfl_xor_sync(0xffffffffU, sum[r][s], far);
                    if (lane == 0 && row + r < rows) sums[s * rows + row + r] = sum[r][s];
                }
            }
        }
        __syncthreads();
        if (mine) {
            const auto product = [&](int g) { return sums[own * rows + g * units + unit] + bias[g]; };
            const float before = now[own * width + column];
            float new_cell = cell;
            const float state = next_state<true>(p.cell, false, x, product, before, new_cell);
            const bool counts = t < length;
            const float fresh = counts ? state : before;
            if (counts) cell = new_cell;
            for (int to = 0; to < blocks; ++to)
                cluster.map_shared_rank(next, to)[own * width + column] = fresh;
            store_any(p.y, p.y_type, ((t * p.directions + place) * p.batch + sample) * width + column,
                      counts ? fresh : 0.0F);
            if (step + 1 == p.steps) {
                store_any(p.last, p.last_type, at_state, fresh);
                if (p.cell == Cell::lstm) store_any(p.last_cell, p.last_cell_type, at_state, cell);
            }
        }
        cluster.sync();
    }
}

std::size_t size_of(std::int32_t type) { return type == type_f32 ? 4 : 2; }

std::size_t shared_bytes(const RecurrentTile& tile, const RecurrentParams& p) {
    const auto width = static_cast<std::size_t>(p.width), samples = static_cast<std::size_t>(tile.samples);
    const std::size_t rows = width / static_cast<std::size_t>(tile.blocks) * static_cast<std::size_t>(gates_of(p.cell));
    return rows * width * size_of(p.weight_type) + (2 * samples * width + samples * rows) * sizeof(float);
}

template <class T, int Samples>
cudaError_t launch(const RecurrentTile& tile, const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
    auto* kernel = recurrent_cluster<T, Samples>;
    const auto* address = reinterpret_cast<const void*>(kernel);
    const std::size_t bytes = shared_bytes(tile, p);
    cudaError_t code =
        cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most_shared));
    if (code == cudaSuccess && tile.blocks > 8)
        code = cudaFuncSetAttribute(address, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (code != cudaSuccess) return code;
    int lanes = 1;
    while (lanes < 8 && lanes * 2 * Vec16<T>::count <= p.width)
        lanes *= 2;
    const dim3 grid(static_cast<unsigned>((p.batch + Samples - 1) / Samples), static_cast<unsigned>(p.directions),
                    static_cast<unsigned>(tile.blocks));
    return launch_kernel(kernel, grid, threads, bytes, stream, programmatic, static_cast<unsigned>(tile.blocks), p,
                         lanes);
}

template <class T>
cudaError_t launch_of(const RecurrentTile& tile, const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
    switch (tile.samples) {
        case 1: return launch<T, 1>(tile, p, stream, programmatic);
        case 2: return launch<T, 2>(tile, p, stream, programmatic);
        case 4: return launch<T, 4>(tile, p, stream, programmatic);
        default: return launch<T, 8>(tile, p, stream, programmatic);
    }
}

} // namespace

double recurrent_cluster_cost(const RecurrentTile& tile, const RecurrentParams& p, int multiprocessors) {
    const auto width = static_cast<double>(p.width), samples = static_cast<double>(tile.samples);
    const double blocks =
        std::ceil(static_cast<double>(p.batch) / samples) * static_cast<double>(p.directions) * tile.blocks;
    const double at_once =
        std::clamp(std::floor(static_cast<double>(most_shared) / static_cast<double>(shared_bytes(tile, p))), 1.0, 4.0);
    const double products = width / tile.blocks * static_cast<double>(gates_of(p.cell)) * width * samples / threads;
    const double meeting = tile.blocks == 1 ? 400 : 1000;
    return std::ceil(blocks / (std::max(1, multiprocessors) * at_once)) * (meeting + products * at_once);
}

const RecurrentTile* recurrent_tiles(int& count) {
    count = static_cast<int>(sizeof tiles / sizeof tiles[0]);
    return tiles;
}

bool recurrent_cluster_takes(const RecurrentTile& tile, const RecurrentParams& p) {
    if (p.cell == Cell::gru && p.linear_before_reset == 0) return false;
    const auto a_piece = static_cast<std::int64_t>(16 / size_of(p.weight_type));
    if (p.width % tile.blocks != 0 || p.width % a_piece != 0 || p.width > (1 << 14)) return false;
    if (tile.samples > 1 && p.batch < tile.samples) return false;
    const std::int64_t blocks = (p.batch + tile.samples - 1) / tile.samples;
    return p.width / tile.blocks * tile.samples <= threads && shared_bytes(tile, p) <= most_shared &&
           blocks < 0x7fffffff;
}

cudaError_t launch_recurrent_cluster(const RecurrentTile& tile, const RecurrentParams& p, cudaStream_t stream,
                                     bool programmatic) {
    switch (p.weight_type) {
        case type_f16: return launch_of<__half>(tile, p, stream, programmatic);
        case type_bf16: return launch_of<__nv_bfloat16>(tile, p, stream, programmatic);
        default: return launch_of<float>(tile, p, stream, programmatic);
    }
}

} // namespace lathe::cuda::kernels
