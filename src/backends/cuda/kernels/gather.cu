// Rows of tables, added up: embeddings.

#include "backends/cuda/kernels/vec8.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) gather(const __grid_constant__ GatherParams p, std::int64_t groups) {
    pdl_wait();
    pdl_trigger();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    const std::int64_t per_row = p.inner / 8;
    if (i >= groups) return;
    const std::int64_t index = i / per_row, column = i % per_row * 8;
    float sum[8] = {};
#pragma unroll
    for (int t = 0; t < max_tables; ++t) {
        if (t >= p.count) break;
        const std::int64_t at = index % p.index_counts[t];
        std::int64_t row = p.index_types[t] == type_s64 ? static_cast<const std::int64_t*>(p.indices[t])[at]
                                                        : static_cast<const std::int32_t*>(p.indices[t])[at];
        if (row < 0) row += p.table_rows[t];
        row = row < 0 ? 0 : (row >= p.table_rows[t] ? p.table_rows[t] - 1 : row); // never outside the table
        float v[8];
        load8(p.tables[t], p.table_types[t], row * p.inner + column, v);
#pragma unroll
        for (int k = 0; k < 8; ++k)
            sum[k] = fmaf(v[k], p.table_scales[t], sum[k]);
    }
    if (p.y_scale != 1) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
            sum[k] /= p.y_scale;
    }
    store8(p.y, p.y_type, index * p.inner + column, sum);
}

} // namespace

bool gather_takes(const GatherParams& p) {
    if (p.outer != 1 || p.inner % 8 != 0 || p.y_type > type_s8) return false;
    for (int t = 0; t < p.count; ++t)
        if (p.table_types[t] > type_s8) return false;
    return true;
}

cudaError_t launch_gather(const GatherParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t groups = p.index_count * p.inner / 8;
    return launch_kernel(gather, blocks_for(groups, threads), threads, 0, stream, programmatic, 1, p, groups);
}

} // namespace lathe::cuda::kernels
