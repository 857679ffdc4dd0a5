// LSTM, GRU and RNN of many samples on mma.sync. A block takes 16, 32 or 64 samples through all steps and keeps the
// recurrence in shared memory, or a cluster does (sm_90), each block the gates of its share of the units. A warp
// multiplies the state of 16 samples with all gates of 8 or 16 units, so that what a step makes of its sums happens in
// the registers where they lie; the new state, rounded as the operands of the next product are, goes to the memory of
// all blocks. What a GRU keeps of its state, and an LSTM's cell, stay in f32.

#include "backends/cuda/kernels/mma_ptx.cuh"
#include "backends/cuda/kernels/recurrent.cuh"
#include "backends/cuda/kernels/recurrent_mma.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int most_tiles = 2;
/// Of a block: what registers allow.
constexpr int most_threads(int tiles) { return tiles == 1 ? 512 : 384; }
constexpr std::size_t most_shared = 227 * 1024;

/// Numbers i and i + 1, i even, of an array of T or f32.
template <class T>
__device__ __forceinline__ float2 load_pair(const void* data, std::int32_t type, std::int64_t i) {
    if (type == type_f32) return *reinterpret_cast<const float2*>(static_cast<const float*>(data) + i);
    return unpack_pair<T>(*reinterpret_cast<const std::uint32_t*>(static_cast<const T*>(data) + i));
}
template <class T>
__device__ __forceinline__ void store_pair(void* data, std::int32_t type, std::int64_t i, float2 pair) {
    if (type == type_f32)
        *reinterpret_cast<float2*>(static_cast<float*>(data) + i) = pair;
    else
        *reinterpret_cast<std::uint32_t*>(static_cast<T*>(data) + i) = pack_pair<T>(pair.x, pair.y);
}

/// In the recurrence's memory: numbers from row to row. An odd number of 16 bytes, so that eight rows lie in all banks.
__host__ __device__ constexpr int pitch_of(int width) { return (width + 15) / 16 * 16 + 8; }

/// `Gates` of a cell; a warp has `Tiles` times 8 units.
template <class T, int Gates, int Tiles>
__global__ void __launch_bounds__(most_threads(Tiles))
    recurrent_mma(const __grid_constant__ RecurrentParams p, int samples, int blocks) {
    constexpr mma::Math math = std::is_same_v<T, __half> ? mma::Math::f16 : mma::Math::bf16;
    extern __shared__ __align__(16) unsigned char shared[];
    const int width = static_cast<int>(p.width), units = width / blocks, pitch = pitch_of(width);
    const int rank = static_cast<int>(blockIdx.z);
    const Cell kind = Gates == 4 ? Cell::lstm : Gates == 3 ? Cell::gru : p.cell;
    T* weights = reinterpret_cast<T*>(shared);  // [Gates * units][pitch]
    T* state = weights + Gates * units * pitch; // [2][samples][pitch]
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int warp = thread / 32, lane = thread % 32, row = lane >> 2, pair = lane & 3;
    const int across = (units / 8 + Tiles - 1) / Tiles; // warps with the same samples
    const int first_tile = warp % across * Tiles, first_row = warp / across * 16;
    const std::int64_t place = blockIdx.y, first_sample = static_cast<std::int64_t>(blockIdx.x) * samples;
    const bool back = p.reverse != 0 || place == 1;

    // Weights are nobody's results: they come before the kernel before this one is done.
    const T* recurrence = static_cast<const T*>(p.recurrence) + place * Gates * width * width;
    const int pieces = (pitch - 8) / 8;
    for (int i = thread; i < Gates * units * pieces; i += threads) {
        const int r = i / pieces, k = i % pieces * 8;
        const std::int64_t from = r / units * width + rank * units + r % units;
        *reinterpret_cast<uint4*>(weights + r * pitch + k) =
            k < width ? *reinterpret_cast<const uint4*>(recurrence + from * width + k) : make_uint4(0, 0, 0, 0);
    }
    pdl_wait();
    for (int i = thread; i < samples * pitch; i += threads) {
        const int k = i % pitch;
        const std::int64_t sample = first_sample + i / pitch;
        const bool there = p.initial != nullptr && sample < p.batch && k < width;
        state[i] =
            from_float<T>(there ? load_any(p.initial, p.initial_type, (place * p.batch + sample) * width + k) : 0.0F);
        state[samples * pitch + i] = from_float<T>(0.0F);
    }

    // A thread has units u and u + 1 of two samples, eight rows apart.
    std::int64_t length[2];
    bool there[2];
    float2 bias[Tiles][Gates], cell[Tiles][2], before[Tiles][2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const std::int64_t sample = first_sample + first_row + row + 8 * s;
        there[s] = sample < p.batch;
        length[s] = there[s] ? steps_of(p, sample) : 0;
    }
    const auto column_of = [&](int tile) { return rank * units + (first_tile + tile) * 8 + 2 * pair; };
    const auto is_real = [&](int tile) { return (first_tile + tile) * 8 < units; };
    const auto place_of_state = [&](int s) {
        return (place * p.batch + first_sample + first_row + row + 8 * s) * width;
    };
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
        const int column = column_of(tile);
#pragma unroll
        for (int g = 0; g < Gates; ++g) {
            const float* from = p.bias + (place * Gates + g) * width + column;
            bias[tile][g] = is_real(tile) ? make_float2(from[0], from[1]) : make_float2(0, 0);
        }
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const auto get = [&](const void* data, std::int32_t type) {
                if (data == nullptr || !there[s] || !is_real(tile)) return make_float2(0, 0);
                return load_pair<T>(data, type, place_of_state(s) + column);
            };
            before[tile][s] = get(p.initial, p.initial_type);
            cell[tile][s] = get(p.initial_cell, p.initial_cell_type);
        }
    }
    const auto meet = [&] {
        if (blocks > 1)
            mma::cluster_arrive_and_wait();
        else
            __syncthreads();
    };
    std::uint32_t x[Tiles][Gates][2]; // gates from the input
    const auto load = [&](std::int64_t step) {
        const std::int64_t t = back ? p.steps - 1 - step : step;
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const std::int64_t sample = first_sample + first_row + row + 8 * s;
            const T* from =
                static_cast<const T*>(p.gates) + ((t * p.batch + sample) * p.directions + place) * Gates * width;
#pragma unroll
            for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
                for (int g = 0; g < Gates; ++g)
                    x[tile][g][s] = there[s] && is_real(tile)
                                        ? *reinterpret_cast<const std::uint32_t*>(from + g * width + column_of(tile))
                                        : 0U;
        }
    };
    load(0);
    meet();

    for (std::int64_t step = 0; step < p.steps; ++step) {
        const std::int64_t t = back ? p.steps - 1 - step : step;
        const T* now = state + (step & 1) * samples * pitch;
        T* next = state + (1 - (step & 1)) * samples * pitch;
        float sums[Tiles][Gates][4];
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
            for (int g = 0; g < Gates; ++g)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums[tile][g][i] = i % 2 == 0 ? bias[tile][g].x : bias[tile][g].y;
        const std::uint32_t a_at = mma::shared_address(now + (first_row + lane % 16) * pitch + lane / 16 * 8);
        for (int k = 0; k < pitch - 8; k += 16) {
            std::uint32_t a[4];
            mma::load_matrices(a, a_at + static_cast<std::uint32_t>(k) * 2);
#pragma unroll
            for (int tile = 0; tile < Tiles; ++tile) {
                if (!is_real(tile)) break;
#pragma unroll
                for (int g = 0; g < Gates; g += 2) {
                    std::uint32_t b[4]; // of gates g and g + 1
                    const int gate = g + lane / 16 < Gates ? g + lane / 16 : g;
                    mma::load_matrices(
                        b, mma::shared_address(weights + (gate * units + (first_tile + tile) * 8 + lane % 8) * pitch +
                                               k + lane / 8 % 2 * 8));
                    mma::multiply_floats<math>(sums[tile][g], a, b[0], b[1]);
                    if (g + 1 < Gates) mma::multiply_floats<math>(sums[tile][g + 1], a, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
            if (!is_real(tile)) break;
            const int column = column_of(tile);
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                float in[2][most_gates] = {};
#pragma unroll
                for (int g = 0; g < Gates; ++g) {
                    const float2 both = unpack_pair<T>(x[tile][g][s]);
                    in[0][g] = both.x, in[1][g] = both.y;
                }
                float2 cells = cell[tile][s], old = before[tile][s], fresh;
                const auto sum = [&](int unit) {
                    return [&, unit](int g) { return sums[tile][g < Gates ? g : 0][2 * s + unit]; };
                };
                fresh.x = next_state<true>(kind, false, in[0], sum(0), old.x, cells.x);
                fresh.y = next_state<true>(kind, false, in[1], sum(1), old.y, cells.y);
                const bool counts = t < length[s];
                if (counts) before[tile][s] = fresh, cell[tile][s] = cells;
                const float2 kept = before[tile][s];
                const std::uint32_t raw = pack_pair<T>(kept.x, kept.y);
                std::uint32_t* to = reinterpret_cast<std::uint32_t*>(next + (first_row + row + 8 * s) * pitch + column);
                if (blocks > 1) {
                    for (int peer = 0; peer < blocks; ++peer)
                        mma::store_peer(mma::shared_address(to), peer, raw);
                } else {
                    *to = raw;
                }
                if (!there[s]) continue;
                const std::int64_t sample = first_sample + first_row + row + 8 * s;
                const std::int64_t at = ((t * p.directions + place) * p.batch + sample) * width + column;
                store_pair<T>(p.y, p.y_type, at, counts ? kept : make_float2(0, 0));
            }
        }
        if (step + 1 < p.steps) load(step + 1);
        meet();
    }
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            if (!there[s] || !is_real(tile)) continue;
            const std::int64_t at = place_of_state(s) + column_of(tile);
            store_pair<T>(p.last, p.last_type, at, before[tile][s]);
            if (kind == Cell::lstm) store_pair<T>(p.last_cell, p.last_cell_type, at, cell[tile][s]);
        }
}

int tiles_of(const RecurrentMmaTile& tile, const RecurrentParams& p) {
    const std::int64_t warps = p.width / tile.blocks / 8 * (tile.samples / 16);
    return warps * 32 <= most_threads(1) ? 1 : most_tiles;
}

template <class T, int Gates, int Tiles>
cudaError_t launch(const RecurrentMmaTile& tile, const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
    auto* kernel = recurrent_mma<T, Gates, Tiles>;
    const auto* address = reinterpret_cast<const void*>(kernel);
    const std::size_t bytes = recurrent_mma_shared_bytes(tile, p);
    cudaError_t code =
        cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (code == cudaSuccess && tile.blocks > 8)
        code = cudaFuncSetAttribute(address, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (code != cudaSuccess) return code;
    const auto across = static_cast<unsigned>((p.width / tile.blocks / 8 + Tiles - 1) / Tiles);
    const dim3 grid(static_cast<unsigned>((p.batch + tile.samples - 1) / tile.samples),
                    static_cast<unsigned>(p.directions), static_cast<unsigned>(tile.blocks));
    return launch_kernel(kernel, grid, across * static_cast<unsigned>(tile.samples / 16) * 32, bytes, stream,
                         programmatic, static_cast<unsigned>(tile.blocks), p, tile.samples, tile.blocks);
}

template <class T, int Gates>
cudaError_t launch_tiles(const RecurrentMmaTile& tile, const RecurrentParams& p, cudaStream_t stream,
                         bool programmatic) {
    return tiles_of(tile, p) == 1 ? launch<T, Gates, 1>(tile, p, stream, programmatic)
                                  : launch<T, Gates, most_tiles>(tile, p, stream, programmatic);
}
template <class T>
cudaError_t launch_gates(const RecurrentMmaTile& tile, const RecurrentParams& p, cudaStream_t stream,
                         bool programmatic) {
    switch (gates_of(p.cell)) {
        case 1: return launch_tiles<T, 1>(tile, p, stream, programmatic);
        case 3: return launch_tiles<T, 3>(tile, p, stream, programmatic);
        default: return launch_tiles<T, 4>(tile, p, stream, programmatic);
    }
}

} // namespace

std::size_t recurrent_mma_shared_bytes(const RecurrentMmaTile& tile, const RecurrentParams& p) {
    const auto pitch = static_cast<std::size_t>(pitch_of(static_cast<int>(p.width)));
    const auto rows = static_cast<std::size_t>(p.width / tile.blocks * gates_of(p.cell));
    return (rows + 2 * static_cast<std::size_t>(tile.samples)) * pitch * 2;
}

bool recurrent_mma_takes(const RecurrentMmaTile& tile, const RecurrentParams& p) {
    if (p.cell == Cell::gru && p.linear_before_reset == 0) return false;
    if (p.weight_type != type_f16 && p.weight_type != type_bf16) return false;
    const auto is_stored = [&](std::int32_t type) { return type == type_f32 || type == p.weight_type; };
    if (!is_stored(p.y_type) || !is_stored(p.last_type) || (p.cell == Cell::lstm && !is_stored(p.last_cell_type)))
        return false;
    if (!is_stored(p.initial_type) || !is_stored(p.initial_cell_type)) return false; // f32 where there is none
    if (p.gates_type != p.weight_type || p.width < 8 || p.width > 1024 || p.width % (8 * tile.blocks) != 0)
        return false;
    const std::int64_t units = p.width / tile.blocks / 8, groups = tile.samples / 16;
    const bool one_tile = units * groups * 32 <= most_threads(1);
    if (!one_tile && (units + most_tiles - 1) / most_tiles * groups * 32 > most_threads(most_tiles)) return false;
    const std::int64_t blocks = (p.batch + tile.samples - 1) / tile.samples;
    return recurrent_mma_shared_bytes(tile, p) <= most_shared && blocks < 0x7fffffff;
}

cudaError_t launch_recurrent_mma(const RecurrentMmaTile& tile, const RecurrentParams& p, cudaStream_t stream,
                                 bool programmatic) {
    if (!recurrent_mma_takes(tile, p)) return cudaErrorInvalidValue;
    return p.weight_type == type_f16 ? launch_gates<__half>(tile, p, stream, programmatic)
                                     : launch_gates<__nv_bfloat16>(tile, p, stream, programmatic);
}

} // namespace lathe::cuda::kernels
