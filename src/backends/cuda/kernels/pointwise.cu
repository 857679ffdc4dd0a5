// Elementwise programs and epilogues in place, eight elements a thread and instruction.

#include "backends/cuda/kernels/vec8.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 128;

/// Operations as lathe::cuda::PointOp numbers them. The instruction is the same for all threads: no divergence.
__device__ __forceinline__ void point_op8(const PointCode& code, const float (&a)[8], const float (&b)[8],
                                          const float (&c)[8], float (&v)[8]) {
#define LATHE_EACH(expression)                                                                                         \
    _Pragma("unroll") for (int i = 0; i < 8; ++i) v[i] = (expression);                                                 \
    break
    switch (code.op) {
        case 2: LATHE_EACH(a[i] + b[i]);
        case 3: LATHE_EACH(a[i] - b[i]);
        case 4: LATHE_EACH(a[i] * b[i]);
        case 5: LATHE_EACH(a[i] / b[i]);
        case 6: LATHE_EACH(fminf(a[i], b[i]));
        case 7: LATHE_EACH(fmaxf(a[i], b[i]));
        case 8:
#pragma unroll 1
            for (int i = 0; i < 8; ++i)
                v[i] = powf(a[i], b[i]);
            break;
        case 9: LATHE_EACH(-a[i]);
        case 10: LATHE_EACH(fabsf(a[i]));
        case 11: LATHE_EACH(expf(a[i]));
        case 12: LATHE_EACH(logf(a[i]));
        case 13: LATHE_EACH(sqrtf(a[i]));
        case 14: LATHE_EACH(1.0F / a[i]);
        case 15: LATHE_EACH(erff(a[i]));
        case 16: LATHE_EACH(tanhf(a[i]));
        case 17: LATHE_EACH(1.0F / (1.0F + expf(-a[i])));
        case 18: LATHE_EACH(fmaxf(a[i], 0.0F));
        case 19: LATHE_EACH(fminf(fmaxf(a[i], code.x), code.y));
        case 20: LATHE_EACH(floorf(a[i]));
        case 21: LATHE_EACH(ceilf(a[i]));
        case 22: LATHE_EACH(rintf(a[i]));
        case 23:
#pragma unroll 1
            for (int i = 0; i < 8; ++i)
                v[i] = sinf(a[i]);
            break;
        case 24:
#pragma unroll 1
            for (int i = 0; i < 8; ++i)
                v[i] = cosf(a[i]);
            break;
        case 25: LATHE_EACH(a[i] == b[i] ? 1.0F : 0.0F);
        case 26: LATHE_EACH(a[i] < b[i] ? 1.0F : 0.0F);
        case 27: LATHE_EACH(a[i] > b[i] ? 1.0F : 0.0F);
        case 28: LATHE_EACH(a[i] == 0 ? 1.0F : 0.0F);
        case 29: LATHE_EACH(a[i] != 0 && b[i] != 0 ? 1.0F : 0.0F);
        case 30: LATHE_EACH(a[i] != 0 || b[i] != 0 ? 1.0F : 0.0F);
        case 31: LATHE_EACH(a[i] != 0 ? b[i] : c[i]);
        case 33: LATHE_EACH(atanf(a[i]));
        default: LATHE_EACH(a[i]);
    }
#undef LATHE_EACH
}

/// Eight values of an input for elements at..at+7 of the output.
__device__ __forceinline__ void fetch(const PointwiseParams& p, int input, std::int64_t at, int present,
                                      float (&v)[8]) {
    const TensorDesc& x = p.inputs[input];
    const std::int64_t inner = p.inner[input], period = p.period[input];
    const auto place = [&](std::int64_t i) {
        switch (p.access[input]) {
            case 0: return i;
            case 1: return std::int64_t{0};
            case 2: return i / inner % period;
            default: return i / inner * period + i % period;
        }
    };
    const bool run = present == 8 && (p.access[input] == 0 || (p.access[input] == 2 && inner == 1 && period % 8 == 0) ||
                                      (p.access[input] == 3 && period % 8 == 0));
    if (run) {
        load8(x.data, x.type, place(at), v);
    } else if (p.access[input] == 1 || (p.access[input] == 2 && inner % 8 == 0)) {
        const float one = load_any(x.data, x.type, place(at));
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] = one;
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] = i < present ? load_any(x.data, x.type, place(at + i)) : 0.0F;
    }
    if (x.scale != 1) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] *= x.scale;
    }
}

__global__ void __launch_bounds__(threads) pointwise(const __grid_constant__ PointwiseParams p) {
    // registers of the program, eight floats each; indices are known only at run time, so they lie in shared memory,
    // a thread's words 16 bytes side by side with its neighbours'
    __shared__ float4 file[max_point_registers][2][threads];
    pdl_wait();
    pdl_trigger();
    const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * 8;
    if (at >= p.count) return;
    const int present = p.count - at < 8 ? static_cast<int>(p.count - at) : 8;
    const auto read = [&](int r, float(&v)[8]) {
        const float4 a = file[r][0][threadIdx.x], b = file[r][1][threadIdx.x];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    };
    for (int k = 0; k < p.code_count; ++k) {
        const PointCode code = p.code[k];
        float v[8];
        if (code.op == 0) {
            fetch(p, code.a, at, present, v);
        } else if (code.op == 1) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                v[i] = code.x;
        } else {
            float a[8], b[8], c[8];
            read(code.a, a);
            read(code.b, b);
            if (code.op == 31) read(code.c, c);
            point_op8(code, a, b, c, v);
        }
        const int to = k % max_point_registers;
        file[to][0][threadIdx.x] = make_float4(v[0], v[1], v[2], v[3]);
        file[to][1][threadIdx.x] = make_float4(v[4], v[5], v[6], v[7]);
    }
    for (int o = 0; o < p.output_count; ++o) {
        float v[8];
        read(p.results[o], v);
        const TensorDesc& y = p.outputs[o];
        if (y.scale != 1) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                v[i] /= y.scale;
        }
        if (present == 8) {
            store8(y.data, y.type, at, v);
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (i < present) store_any(y.data, y.type, at + i, v[i]);
        }
    }
}

template <bool Vectors>
__global__ void __launch_bounds__(threads) epilogue_in_place(const __grid_constant__ EpilogueInPlaceParams p) {
    pdl_wait();
    const EpilogueParams& e = p.epilogue;
    constexpr int step = Vectors ? 8 : 1;
    const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * step;
    if (at >= p.rows * p.channels) return;
    const int channel = static_cast<int>(at % p.channels);
    const std::int64_t there = e.residual_stride != 0 ? at / p.channels * e.residual_stride + channel : at;
    if constexpr (Vectors) {
        float v[8], r[8] = {};
        load8(p.data, p.type, at, v);
        if (e.residual != nullptr) load8(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.type, there, r);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            v[i] = finish(v[i], e.scale != nullptr ? e.scale[channel + i] : 1.0F,
                          e.bias != nullptr ? e.bias[channel + i] : 0.0F, r[i], e);
        store8(p.data, p.type, at, v);
    } else {
        const float r =
            e.residual != nullptr ? load_any(e.residual, e.residual_is_s8 != 0 ? type_s8 : p.type, there) : 0.0F;
        store_any(p.data, p.type, at,
                  finish(load_any(p.data, p.type, at), e.scale != nullptr ? e.scale[channel] : 1.0F,
                         e.bias != nullptr ? e.bias[channel] : 0.0F, r, e));
    }
}

} // namespace

cudaError_t launch_pointwise(const PointwiseParams& p, cudaStream_t stream, bool programmatic) {
    return launch_kernel(pointwise, blocks_for(p.count, threads * 8), threads, 0, stream, programmatic, 1, p);
}

cudaError_t launch_epilogue_in_place(const EpilogueInPlaceParams& p, cudaStream_t stream, bool programmatic) {
    const std::int64_t count = p.rows * p.channels;
    if (p.channels % 8 == 0 && p.epilogue.residual_stride % 8 == 0)
        return launch_kernel(epilogue_in_place<true>, blocks_for(count, threads * 8), threads, 0, stream, programmatic,
                             1, p);
    return launch_kernel(epilogue_in_place<false>, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
