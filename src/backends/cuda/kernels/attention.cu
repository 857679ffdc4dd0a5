// Attention over short sequences: K and V of a head whole in shared memory, 16 rows of Q a warp, products of f16 on
// mma.sync, softmax online in f32 (base 2).

#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/common.cuh"

namespace lathe::cuda::kernels {
namespace {

constexpr int keys_a_step = 32;
constexpr float log2_e = 1.4426950408889634F;

__device__ __forceinline__ void load_four(std::uint32_t (&r)[4], std::uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}
__device__ __forceinline__ void load_four_transposed(std::uint32_t (&r)[4], std::uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ std::uint32_t pair(float a, float b) {
    const __half2 v = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&v);
}

template <int Depth>
__global__ void __launch_bounds__(128) attention(const __grid_constant__ AttentionParams p, int padded_keys) {
    constexpr int pitch = Depth * 2 + 16; ///< bytes of a row: rows on other banks
    constexpr int chunks = Depth * 2 / 16, steps = Depth / 16;
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char* keys = shared;
    unsigned char* values = keys + padded_keys * pitch;
    unsigned char* queries = values + padded_keys * pitch;
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32, lane = thread % 32, g = lane >> 2, t = lane & 3;
    const int rows = threads / 2; // 16 a warp
    const int row0 = static_cast<int>(blockIdx.x) * rows;
    const std::int64_t head = blockIdx.y, batch = blockIdx.z;
    const int q_len = static_cast<int>(p.q_len), kv_len = static_cast<int>(p.kv_len);
    pdl_wait();
    pdl_trigger();

    const auto fetch = [&](const void* from, const std::int64_t* strides, unsigned char* to, int first, int count,
                           int limit) {
        const __half* base = static_cast<const __half*>(from) + batch * strides[0] + head * strides[2];
#pragma unroll 4
        for (int i = thread; i < count * chunks; i += threads) {
            const int row = i / chunks, chunk = i % chunks;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (first + row < limit) v = *reinterpret_cast<const uint4*>(base + (first + row) * strides[1] + chunk * 8);
            *reinterpret_cast<uint4*>(to + row * pitch + chunk * 16) = v;
        }
    };
    fetch(p.q, p.q_strides, queries, row0, rows, q_len);
    fetch(p.k, p.k_strides, keys, 0, padded_keys, kv_len);
    fetch(p.v, p.v_strides, values, 0, padded_keys, kv_len);
    __syncthreads();

    const auto address = [](const void* s) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(s)); };
    std::uint32_t q[steps][4];
#pragma unroll
    for (int s = 0; s < steps; ++s)
        load_four(q[s], address(queries) +
                            static_cast<std::uint32_t>((warp * 16 + (lane & 15)) * pitch + s * 32 + (lane >> 4) * 16));
    // rows of this thread: row and row + 8
    const int row = row0 + warp * 16 + g;
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    float out[Depth / 8][4] = {};
    const float scale = p.scale * log2_e;
    const std::uint32_t key_from =
        address(keys) + static_cast<std::uint32_t>(((lane & 7) + ((lane >> 4) << 3)) * pitch + ((lane >> 3) & 1) * 16);
    const std::uint32_t value_from =
        address(values) + static_cast<std::uint32_t>((lane & 15) * pitch + (lane >> 4) * 16);
    const std::int64_t mask_at = batch * p.mask.batch_stride;
    for (int key0 = 0; key0 < padded_keys; key0 += keys_a_step) {
        float scores[keys_a_step / 8][4] = {};
#pragma unroll
        for (int j = 0; j < keys_a_step / 16; ++j)
#pragma unroll
            for (int s = 0; s < steps; ++s) {
                std::uint32_t b[4];
                load_four(b, key_from + static_cast<std::uint32_t>((key0 + j * 16) * pitch + s * 32));
                multiply(scores[2 * j], q[s], b[0], b[1]);
                multiply(scores[2 * j + 1], q[s], b[2], b[3]);
            }
        float highest[2] = {largest[0], largest[1]};
#pragma unroll
        for (int j = 0; j < keys_a_step / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = key0 + j * 8 + t * 2 + i % 2;
                float v = scores[j][i] * scale;
                if (p.mask.data != nullptr && key < kv_len) {
                    const int r = row + i / 2 * 8 < q_len ? row + i / 2 * 8 : q_len - 1;
                    v = fmaf(load_any(p.mask.data, p.mask.type, mask_at + r * p.mask.row_stride + key), log2_e, v);
                }
                v = key < kv_len ? v : -INFINITY;
                scores[j][i] = v;
                highest[i / 2] = fmaxf(highest[i / 2], v);
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffffU, highest[h], 1));
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffffU, highest[h], 2));
            // Of none but -inf nothing is left so far, and no difference of infinities may be taken.
            const float shrink = highest[h] == -INFINITY ? 0.0F : exp2f(largest[h] - highest[h]);
            largest[h] = highest[h];
            total[h] *= shrink;
#pragma unroll
            for (int d = 0; d < Depth / 8; ++d) {
                out[d][2 * h] *= shrink;
                out[d][2 * h + 1] *= shrink;
            }
        }
#pragma unroll
        for (int j = 0; j < keys_a_step / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[j][i] = largest[i / 2] == -INFINITY ? 0.0F : exp2f(scores[j][i] - largest[i / 2]);
                total[i / 2] += scores[j][i];
            }
#pragma unroll
        for (int j = 0; j < keys_a_step / 16; ++j) {
            const std::uint32_t a[4] = {
                pair(scores[2 * j][0], scores[2 * j][1]), pair(scores[2 * j][2], scores[2 * j][3]),
                pair(scores[2 * j + 1][0], scores[2 * j + 1][1]), pair(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
            for (int d = 0; d < Depth / 16; ++d) {
                std::uint32_t b[4];
                load_four_transposed(b, value_from + static_cast<std::uint32_t>((key0 + j * 16) * pitch + d * 32));
                multiply(out[2 * d], a, b[0], b[1]);
                multiply(out[2 * d + 1], a, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(0xffffffffU, total[h], 1);
        total[h] += __shfl_xor_sync(0xffffffffU, total[h], 2);
        if (row + h * 8 >= q_len) continue;
        const float inverse = total[h] == 0 && p.empty_is_zero != 0 ? 0.0F : 1.0F / total[h];
        __half* to = static_cast<__half*>(p.output) + batch * p.o_strides[0] + (row + h * 8) * p.o_strides[1] +
                     head * p.o_strides[2] + t * 2;
#pragma unroll
        for (int d = 0; d < Depth / 8; ++d)
            *reinterpret_cast<std::uint32_t*>(to + d * 8) = pair(out[d][2 * h] * inverse, out[d][2 * h + 1] * inverse);
    }
}

template <int Depth>
cudaError_t launch_depth(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    const int padded = static_cast<int>((p.kv_len + keys_a_step - 1) / keys_a_step * keys_a_step);
    // few heads: fewer rows a block, so that more multiprocessors work
    const std::int64_t heads = p.batch * p.heads;
    const int warps = heads * ((p.q_len + 63) / 64) >= 132 ? 4 : heads * ((p.q_len + 31) / 32) >= 100 ? 2 : 1;
    const int rows = warps * 16, shared = (2 * padded + rows) * (Depth * 2 + 16);
    if (const cudaError_t code =
            cudaFuncSetAttribute(attention<Depth>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        code != cudaSuccess)
        return code;
    return launch_kernel(
        attention<Depth>,
        dim3(blocks_for(p.q_len, rows), static_cast<unsigned>(p.heads), static_cast<unsigned>(p.batch)),
        static_cast<unsigned>(warps * 32), static_cast<std::size_t>(shared), stream, programmatic, 1, p, padded);
}

} // namespace

bool attention_takes(const AttentionParams& p) {
    return is_plain_attention(p) && attention_is_aligned(p) && p.type == type_f16 && p.output_type == type_f16 &&
           (p.depth == 32 || p.depth == 64) && p.kv_len >= 1 && p.kv_len <= 512 && p.q_len >= 1 && p.heads < 65536 &&
           p.batch < 65536;
}

cudaError_t launch_attention(const AttentionParams& p, cudaStream_t stream, bool programmatic) {
    if (!attention_takes(p)) return cudaErrorInvalidValue;
    return p.depth == 32 ? launch_depth<32>(p, stream, programmatic) : launch_depth<64>(p, stream, programmatic);
}

} // namespace lathe::cuda::kernels
