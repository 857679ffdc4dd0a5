// LSTM, GRU and RNN, step by step. A block keeps a sample's state in shared memory and multiplies it with the whole
// recurrence each step: groups of lanes take a row, in pieces of 16 bytes, four rows at once so that loads are in
// flight. The recurrence comes from L2 again in every step, which is what bounds it.

#include "backends/cuda/kernels/recurrent.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int most_threads = 1024;
constexpr std::size_t most_shared = 96 * 1024; // of every GPU since sm_80

/// sums[row] = bias[row] + recurrence[row] . state for the rows from..to.
template <class T, bool Wide>
__device__ void multiply(const T* recurrence, const float* bias, const float* state, float* sums, int from, int to,
                         int width, int lanes) {
    constexpr int at_once = 4;
    constexpr int step = Wide ? Vec16<T>::count : 1; // a multiple of 4 if wide
    const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
    const int groups = static_cast<int>(blockDim.x) / lanes;
    // All lanes of a warp make as many turns, so that the shuffles meet.
    const int turns = (to - from + groups * at_once - 1) / (groups * at_once);
    for (int turn = 0; turn < turns; ++turn) {
        const int row = from + (turn * groups + group) * at_once;
        float sum[at_once] = {};
        for (int k = lane * step; k < width; k += lanes * step) {
            float weights[at_once][step];
#pragma unroll
            for (int r = 0; r < at_once; ++r) {
                const T* at = recurrence + static_cast<std::int64_t>(row + r < to ? row + r : from) * width + k;
                if constexpr (Wide) {
                    const uint4 raw = *reinterpret_cast<const uint4*>(at); // one load
                    unpack<T>(raw, weights[r]);
                } else {
                    weights[r][0] = to_float(*at);
                }
            }
            alignas(16) float own[step];
            if constexpr (Wide) {
#pragma unroll
                for (int i = 0; i < step; i += 4)
                    *reinterpret_cast<float4*>(own + i) = *reinterpret_cast<const float4*>(state + k + i);
            } else {
                own[0] = state[k];
            }
#pragma unroll
            for (int i = 0; i < step; ++i) {
                const float s = own[i];
#pragma unroll
                for (int r = 0; r < at_once; ++r)
                    sum[r] += weights[r][i] * s;
            }
        }
#pragma unroll
        for (int r = 0; r < at_once; ++r) {
            for (int far = lanes / 2; far > 0; far /= 2)
                sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], far);
            if (lane == 0 && row + r < to) sums[row + r] = sum[r] + bias[row + r];
        }
    }
}

template <class T, bool Wide>
__global__ void __launch_bounds__(most_threads) recurrent(const __grid_constant__ RecurrentParams p, int lanes) {
    extern __shared__ float shared[];
    const int width = static_cast<int>(p.width);
    const int rows = width * static_cast<int>(gates_of(p.cell));
    float *h = shared, *c = h + width, *scaled = c + width, *sums = scaled + width;
    pdl_wait();
    const std::int64_t b = blockIdx.x, place = blockIdx.y, first = (place * p.batch + b) * width;
    const T* recurrence = static_cast<const T*>(p.recurrence) + place * rows * width;
    const float* bias = p.bias + place * rows;
    const bool back = p.reverse != 0 || place == 1;
    for (int k = static_cast<int>(threadIdx.x); k < width; k += static_cast<int>(blockDim.x)) {
        h[k] = p.initial != nullptr ? load_any(p.initial, p.initial_type, first + k) : 0.0F;
        c[k] = p.initial_cell != nullptr ? load_any(p.initial_cell, p.initial_cell_type, first + k) : 0.0F;
    }
    const std::int64_t length = steps_of(p, b);
    __syncthreads();
    for (std::int64_t step = 0; step < p.steps; ++step) {
        const std::int64_t t = back ? p.steps - 1 - step : step;
        const std::int64_t gates = ((t * p.batch + b) * p.directions + place) * rows;
        const auto x = [&](int row) { return load_any(p.gates, p.gates_type, gates + row); };
        const bool later = p.cell == Cell::gru && p.linear_before_reset == 0;
        multiply<T, Wide>(recurrence, bias, h, sums, 0, later ? 2 * width : rows, width, lanes);
        __syncthreads();
        if (later) {
            for (int k = static_cast<int>(threadIdx.x); k < width; k += static_cast<int>(blockDim.x))
                scaled[k] = logistic<false>(x(width + k) + sums[width + k]) * h[k];
            __syncthreads();
            multiply<T, Wide>(recurrence, bias, scaled, sums, 2 * width, rows, width, lanes);
            __syncthreads();
        }
        for (int k = static_cast<int>(threadIdx.x); k < width; k += static_cast<int>(blockDim.x)) {
            float gate[most_gates] = {};
#pragma unroll
            for (int g = 0; g < most_gates; ++g)
                if (g < gates_of(p.cell)) gate[g] = x(g * width + k);
            float cell = c[k];
            const float state = next_state<false>(
                p.cell, later, gate, [&](int g) { return sums[g * width + k]; }, h[k], cell);
            const bool counts = t < length;
            if (counts) h[k] = state, c[k] = cell;
            store_any(p.y, p.y_type, ((t * p.directions + place) * p.batch + b) * width + k, counts ? state : 0.0F);
            if (step + 1 < p.steps) continue;
            store_any(p.last, p.last_type, first + k, h[k]);
            if (p.cell == Cell::lstm) store_any(p.last_cell, p.last_cell_type, first + k, c[k]);
        }
        __syncthreads();
    }
}

std::size_t shared_bytes(const RecurrentParams& p) {
    return static_cast<std::size_t>(p.width * (3 + gates_of(p.cell))) * sizeof(float);
}

template <class T>
cudaError_t launch(const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t a_piece = Vec16<T>::count;
    const bool wide = p.width % a_piece == 0;
    const std::int64_t pieces = wide ? p.width / a_piece : p.width;
    int lanes = 1;
    while (lanes < 32 && lanes * 2 <= pieces)
        lanes *= 2;
    const std::int64_t useful = p.width * gates_of(p.cell) * lanes / 4;
    int threads = 128;
    while (threads < most_threads && threads < useful)
        threads *= 2;
    auto* kernel = wide ? recurrent<T, true> : recurrent<T, false>;
    const std::size_t bytes = shared_bytes(p);
    const cudaError_t code =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most_shared));
    if (code != cudaSuccess) return code;
    return launch_kernel(kernel, dim3(static_cast<unsigned>(p.batch), static_cast<unsigned>(p.directions)),
                         static_cast<unsigned>(threads), bytes, stream, programmatic, 1, p, lanes);
}

} // namespace

bool recurrent_takes(const RecurrentParams& p) { return p.width > 0 && shared_bytes(p) <= most_shared; }

cudaError_t launch_recurrent(const RecurrentParams& p, cudaStream_t stream, bool programmatic) {
    switch (p.weight_type) {
        case type_f16: return launch<__half>(p, stream, programmatic);
        case type_bf16: return launch<__nv_bfloat16>(p, stream, programmatic);
        default: return launch<float>(p, stream, programmatic);
    }
}

} // namespace lathe::cuda::kernels
