#pragma once
// What a step makes of its sums, the same for all kernels of recurrent networks.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/recurrent.hpp"

namespace lathe::cuda::kernels {

inline constexpr int most_gates = 4;

/// How many steps a sample has: behind them its state stays, and what is written is 0.
__device__ __forceinline__ std::int64_t steps_of(const RecurrentParams& p, std::int64_t sample) {
    return p.lengths == nullptr ? p.steps : p.lengths[sample];
}

/// `Quick`: by the special function unit, to 2 units in the last place more.
template <bool Quick>
__device__ __forceinline__ float logistic(float x) {
    return 1.0F / (1.0F + (Quick ? __expf(-x) : expf(-x)));
}

/// `Quick`: to 2e-7, from the exponential of the special function unit.
template <bool Quick>
__device__ __forceinline__ float hyperbolic(float x) {
    if constexpr (!Quick) return tanhf(x);
    const float e = __expf(-2.0F * fabsf(x)), far = copysignf(__fdividef(1.0F - e, 1.0F + e), x);
    const float square = x * x; // near 0, where 1 - e loses its places: to 1e-7 of x
    return square < 0.01F ? x * fmaf(square, fmaf(square, 2.0F / 15.0F, -1.0F / 3.0F), 1.0F) : far;
}

/// A unit's new state. `x` holds its gates from the input, `product(g)` is that of the recurrence with its bias. A GRU
/// whose reset gate scales the state (`scaled`) has used that gate before. `cell` is an LSTM's, and is replaced.
template <bool Quick, class Product>
__device__ __forceinline__ float next_state(Cell kind, bool scaled, const float (&x)[most_gates],
                                            const Product& product, float state, float& cell) {
    if (kind == Cell::lstm) {
        const float input = logistic<Quick>(x[0] + product(0)), output = logistic<Quick>(x[1] + product(1));
        const float forget = logistic<Quick>(x[2] + product(2));
        cell = forget * cell + input * hyperbolic<Quick>(x[3] + product(3));
        return output * hyperbolic<Quick>(cell);
    }
    if (kind == Cell::gru) {
        const float update = logistic<Quick>(x[0] + product(0));
        const float fresh =
            hyperbolic<Quick>(x[2] + (scaled ? product(2) : logistic<Quick>(x[1] + product(1)) * product(2)));
        return (1.0F - update) * fresh + update * state;
    }
    const float sum = x[0] + product(0);
    if (kind == Cell::rnn_relu) return sum < 0.0F ? 0.0F : sum;
    return hyperbolic<Quick>(sum);
}

} // namespace lathe::cuda::kernels
