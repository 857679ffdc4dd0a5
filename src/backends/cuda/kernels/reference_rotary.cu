// Reference kernel of rotary positions: right for all sizes and types, not fast.
#include "backends/cuda/kernels/reference_rotary.hpp"

#include "backends/cuda/kernels/reference.cuh"

namespace lathe::cuda::kernels {

namespace {

using reference::threads;

__global__ void rotary_general(const __grid_constant__ RotaryParams p) {
    pdl_wait();
    const std::int64_t half = p.turned / 2, pairs = p.depth / 2,
                       i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= p.batches * p.heads * p.rows * pairs) return;
    const std::int64_t line = i / pairs, c = i % pairs;
    const std::int64_t row = line % p.rows, head = line / p.rows % p.heads, sample = line / (p.rows * p.heads);
    const std::int64_t a = p.interleaved != 0 ? 2 * c : c, b = p.interleaved != 0 ? 2 * c + 1 : half + c;
    const std::int64_t from = p.offset + sample * p.batch + head * p.head + row * p.row;
    if (c >= half) {
        for (const std::int64_t k : {2 * c, 2 * c + 1})
            store_any(p.y, p.y_type, line * p.depth + k, load_any(p.x, p.x_type, from + k));
        return;
    }
    const std::int64_t at = sample * p.table_batch + head * p.table_head + row * p.table_row;
    const std::int64_t first = at + (p.width == p.turned ? a : c), second = at + (p.width == p.turned ? b : c);
    const float x = load_any(p.x, p.x_type, from + a), y = load_any(p.x, p.x_type, from + b);
    const auto cosine = [&](std::int64_t k) { return load_any(p.cosines, p.table_type, k); };
    const auto sine = [&](std::int64_t k) { return load_any(p.sines, p.table_type, k); };
    store_any(p.y, p.y_type, line * p.depth + a, x * cosine(first) - y * sine(first));
    store_any(p.y, p.y_type, line * p.depth + b, y * cosine(second) + x * sine(second));
}

} // namespace

cudaError_t launch_rotary_general(const RotaryParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t pairs = p.batches * p.heads * p.rows * (p.depth / 2);
    return launch_kernel(rotary_general, blocks_for(pairs, threads), threads, 0, stream, programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
