#pragma once
// Convolution and gemm as one matrix product with the image's rows gathered on the way into shared memory: cp.async in
// several stages, ldmatrix, mma.sync (sm_80 and later), f32 exactly with FMAs. A stage holds 128 bytes of the
// reduction, whatever the type, so that all types share every index: chunks of 16 bytes, chunk c of row r at c ^ (r %
// 8).
//
//   rows m of A: output pixels (n, p, q)      A[m][tap, c] = input[n][p * stride - pad + r][q * stride - pad + s][c]
//   rows n of B: output channels              B[n][tap, c] = weight
//
// Convolutions in groups are as many products, side by side along the grid's y.
//
// The accumulators go through shared memory once, so that a thread finishes 16 bytes of neighbouring channels: one load
// of the residual, one store. With `split` > 1 the CTAs of a cluster share the reduction and add up here, each a part
// of the rows, in fixed order.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/mma_ptx.cuh"

namespace lathe::cuda::kernels::mma {

constexpr int element_bytes(Math math) {
    return math == Math::s8 ? 1 : math == Math::f16 || math == Math::bf16 ? 2 : 4;
}
constexpr int stage_bytes_k = 128;

struct Args {
    ImplicitGemmParams p;
    std::int32_t rows;    ///< of the result
    std::int32_t n_tiles; ///< along k
    std::int32_t k_bytes; ///< of the reduction
    std::int32_t k_tiles; ///< stages in all
    std::int32_t out_type;
    std::int32_t vectors;                           ///< rows of the output start on 16 bytes
    std::int32_t residual_stride, residual_vectors; ///< the same of the residual, which has all numbers of a vector
};

template <Math M_, int BlockM, int BlockN, int WarpM, int WarpN, int Stages>
struct Tile {
    static constexpr Math math = M_;
    static constexpr int m = BlockM, n = BlockN, warp_m = WarpM, warp_n = WarpN, stages = Stages;
    static constexpr int threads = (BlockM / WarpM) * (BlockN / WarpN) * 32;
    static constexpr int stage_bytes = (BlockM + BlockN) * stage_bytes_k;
    static constexpr int pitch = BlockN + 8; ///< words of a row of staged accumulators: rows on other banks
    static constexpr int main_bytes =
        Stages * stage_bytes > BlockM* pitch * 4 ? Stages* stage_bytes : BlockM* pitch * 4;
    static constexpr int shared_bytes = main_bytes + 2 * BlockN * 4;
    static constexpr int chunk_rows = threads / 8;
    static constexpr int a_loads = BlockM / chunk_rows, b_loads = BlockN / chunk_rows;
    // as many CTAs as shared memory lets in (227 KB), within 64 K registers
    static constexpr int by_shared = 232448 / (shared_bytes + 1024);
    static constexpr int by_registers = 65536 / (threads * (BlockM * BlockN / threads > 64 ? 232 : 120));
    static constexpr int blocks = by_shared < by_registers ? by_shared : by_registers;
    static_assert(a_loads * chunk_rows == BlockM && b_loads * chunk_rows == BlockN && chunk_rows % 8 == 0);
};

/// Place of the word for (row, column) in the staged accumulators: 16-byte slots are permuted so that both sides are
/// free of bank conflicts.
template <class T>
__device__ __forceinline__ int staged_word(int row, int column) {
    const int slot = column >> 2;
    return row * T::pitch + ((slot ^ ((slot >> 3) & 3)) << 2) + (column & 3);
}

template <class T, class Out>
__device__ __forceinline__ void write_tile(const Args& args, const std::uint32_t* staged, const float* scales,
                                           const float* biases, int m0, int n0, unsigned rank, unsigned split) {
    constexpr int vec = 16 / sizeof(Out), per_row = T::n / vec, rows_a_pass = T::threads / per_row, batch = 4;
    static_assert(T::threads % per_row == 0);
    const ImplicitGemmParams& p = args.p;
    const EpilogueParams& e = p.epilogue;
    const int column = static_cast<int>(threadIdx.x) % per_row * vec, n = n0 + column;
    const int k0 = static_cast<int>(blockIdx.y) * p.k; // first channel of the group
    const int first = static_cast<int>(rank) * (T::m / static_cast<int>(split));
    const int end = first + T::m / static_cast<int>(split);
    if (n >= p.k_stride) return;
    const bool narrow = sizeof(Out) != 1 && e.residual_is_s8 != 0;
    Out* out = static_cast<Out*>(p.output);
    for (int base = first + static_cast<int>(threadIdx.x) / per_row; base < end; base += batch * rows_a_pass) {
        uint4 residual[batch];
        if (e.residual != nullptr) {
#pragma unroll
            for (int b = 0; b < batch; ++b) {
                const int row = base + b * rows_a_pass;
                residual[b] = make_uint4(0, 0, 0, 0);
                if (row >= end || m0 + row >= args.rows) continue;
                const std::int64_t at = static_cast<std::int64_t>(m0 + row) * args.residual_stride + k0 + n;
                if (args.residual_vectors == 0) {
                    std::int8_t* bytes = reinterpret_cast<std::int8_t*>(&residual[b]);
                    for (int i = 0; i < vec; ++i) {
                        if (n + i >= p.k) break;
                        if (narrow)
                            bytes[i] = static_cast<const std::int8_t*>(e.residual)[at + i];
                        else
                            reinterpret_cast<Out*>(bytes)[i] = static_cast<const Out*>(e.residual)[at + i];
                    }
                } else if (!narrow) {
                    residual[b] = *reinterpret_cast<const uint4*>(static_cast<const Out*>(e.residual) + at);
                } else if constexpr (vec == 8) {
                    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const std::int8_t*>(e.residual) + at);
                    residual[b] = make_uint4(v.x, v.y, 0, 0);
                } else {
                    residual[b].x =
                        *reinterpret_cast<const std::uint32_t*>(static_cast<const std::int8_t*>(e.residual) + at);
                }
            }
        }
#pragma unroll
        for (int b = 0; b < batch; ++b) {
            const int row = base + b * rows_a_pass;
            if (row >= end || m0 + row >= args.rows) continue;
            float v[vec];
#pragma unroll
            for (int s = 0; s < vec / 4; ++s) {
                const std::uint32_t* at = staged + staged_word<T>(row, column + 4 * s);
                uint4 sum;
                if (split == 1) {
                    sum = *reinterpret_cast<const uint4*>(at);
                } else {
                    const std::uint32_t address = shared_address(at);
                    sum = load_peer(address, 0);
                    for (unsigned peer = 1; peer < split; ++peer) {
                        const uint4 more = load_peer(address, peer);
                        if constexpr (T::math == Math::s8) {
                            sum.x += more.x;
                            sum.y += more.y;
                            sum.z += more.z;
                            sum.w += more.w;
                        } else {
                            sum.x = __float_as_uint(__uint_as_float(sum.x) + __uint_as_float(more.x));
                            sum.y = __float_as_uint(__uint_as_float(sum.y) + __uint_as_float(more.y));
                            sum.z = __float_as_uint(__uint_as_float(sum.z) + __uint_as_float(more.z));
                            sum.w = __float_as_uint(__uint_as_float(sum.w) + __uint_as_float(more.w));
                        }
                    }
                }
                const float4 scale = *reinterpret_cast<const float4*>(scales + column + 4 * s);
                const float4 bias = *reinterpret_cast<const float4*>(biases + column + 4 * s);
                const auto number = [](std::uint32_t word) {
                    if constexpr (T::math == Math::s8)
                        return static_cast<float>(static_cast<std::int32_t>(word));
                    else
                        return __uint_as_float(word);
                };
                v[4 * s + 0] = fmaf(number(sum.x), scale.x, bias.x);
                v[4 * s + 1] = fmaf(number(sum.y), scale.y, bias.y);
                v[4 * s + 2] = fmaf(number(sum.z), scale.z, bias.z);
                v[4 * s + 3] = fmaf(number(sum.w), scale.w, bias.w);
            }
            const auto add_residual = [&] {
                float r[16]; // as many as an s8 vector has
                if (narrow)
                    unpack<std::int8_t>(residual[b], r);
                else
                    unpack<Out>(residual[b], r);
#pragma unroll
                for (int i = 0; i < vec; ++i)
                    v[i] = fmaf(r[i], e.residual_scale, v[i]);
            };
            if (e.residual != nullptr && e.residual_last == 0) add_residual();
            if (!activate_quickly(v, e)) {
#pragma unroll
                for (int i = 0; i < vec; ++i)
                    v[i] = activate_rare(v[i], e.act, e.high, e.alpha);
            }
            if (e.residual != nullptr && e.residual_last != 0) add_residual();
#pragma unroll
            for (int i = 0; i < vec; ++i)
                v[i] = n + i < p.k ? v[i] * e.output_scale_inverse : 0.0F;
            Out* to = out + static_cast<std::int64_t>(m0 + row) * p.k_pitch + k0 + n;
            if (args.vectors != 0) {
                *reinterpret_cast<uint4*>(to) = pack<Out>(v);
            } else {
#pragma unroll
                for (int i = 0; i < vec; ++i)
                    if (n + i < p.k_stride) to[i] = from_float<Out>(v[i]);
            }
        }
    }
}

template <class T>
__global__ void __launch_bounds__(T::threads, T::blocks) implicit_gemm_mma(const __grid_constant__ Args args) {
    extern __shared__ __align__(128) unsigned char shared[];
    float* scales = reinterpret_cast<float*>(shared + T::main_bytes);
    float* biases = scales + T::n;
    const ImplicitGemmParams& p = args.p;
    constexpr int size = element_bytes(T::math);
    const int thread = static_cast<int>(threadIdx.x);
    const int m0 = static_cast<int>(blockIdx.x) / args.n_tiles * T::m,
              n0 = static_cast<int>(blockIdx.x) % args.n_tiles * T::n;
    const unsigned split = gridDim.z, rank = blockIdx.z;
    const int k_first = static_cast<int>(static_cast<std::int64_t>(args.k_tiles) * rank / split);
    const int k_count = static_cast<int>(static_cast<std::int64_t>(args.k_tiles) * (rank + 1) / split) - k_first;

    const int k0 = static_cast<int>(blockIdx.y) * p.k; // first channel of the group
    for (int i = thread; i < T::n; i += T::threads) {
        const bool inside = n0 + i < p.k;
        scales[i] = inside && p.epilogue.scale != nullptr ? p.epilogue.scale[k0 + n0 + i] : 1.0F;
        biases[i] = inside && p.epilogue.bias != nullptr ? p.epilogue.bias[k0 + n0 + i] : 0.0F;
    }

    // what this thread copies: one chunk column of every chunk_rows-th row
    const int chunk = thread & 7, row0 = thread >> 3;
    const std::uint32_t base = shared_address(shared);
    const std::uint32_t to = static_cast<std::uint32_t>(row0 * stage_bytes_k + ((chunk ^ (row0 & 7)) << 4));
    const char* input = static_cast<const char*>(p.input) + static_cast<std::int64_t>(blockIdx.y) * p.c * size;
    const char* image[T::a_loads];
    int h0[T::a_loads], w0[T::a_loads];
    const int pixels = p.p * p.q, pixel_bytes = p.c_pitch * size, tap_bytes = p.c * size;
#pragma unroll
    for (int i = 0; i < T::a_loads; ++i) {
        const int m = m0 + row0 + i * T::chunk_rows;
        const int n = m / pixels, rest = m - n * pixels, oh = rest / p.q, ow = rest - oh * p.q;
        image[i] = input + static_cast<std::int64_t>(n) * p.h * p.w * pixel_bytes;
        h0[i] = m < args.rows ? oh * p.stride_h - p.pad_h : -0x40000000; // never inside
        w0[i] = ow * p.stride_w - p.pad_w;
    }
    int at = k_first * stage_bytes_k + chunk * 16; // byte of the reduction
    int b_at = at;
    int tap_r = at / tap_bytes, c_at = at - tap_r * tap_bytes, tap_s = tap_r;
    tap_r = tap_r / p.s;
    tap_s -= tap_r * p.s;
    const char* weights = static_cast<const char*>(p.weight) + static_cast<std::int64_t>(k0 + n0 + row0) * args.k_bytes;

    const auto load_b = [&](int stage) {
        const std::uint32_t into =
            base + static_cast<std::uint32_t>(stage * T::stage_bytes + T::m * stage_bytes_k) + to;
#pragma unroll
        for (int i = 0; i < T::b_loads; ++i) {
            const bool valid = b_at < args.k_bytes && n0 + row0 + i * T::chunk_rows < p.k;
            copy_async(into + static_cast<std::uint32_t>(i * T::chunk_rows * stage_bytes_k),
                       valid ? weights + static_cast<std::int64_t>(i * T::chunk_rows) * args.k_bytes + b_at
                             : static_cast<const char*>(p.weight),
                       valid);
        }
        b_at += stage_bytes_k;
    };
    const auto load_a = [&](int stage) {
        const std::uint32_t into = base + static_cast<std::uint32_t>(stage * T::stage_bytes) + to;
        const int dh = tap_r * p.dil_h, dw = tap_s * p.dil_w;
        const bool inside = at < args.k_bytes;
#pragma unroll
        for (int i = 0; i < T::a_loads; ++i) {
            const int h = h0[i] + dh, w = w0[i] + dw;
            const bool valid = inside && static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                               static_cast<unsigned>(w) < static_cast<unsigned>(p.w);
            copy_async(into + static_cast<std::uint32_t>(i * T::chunk_rows * stage_bytes_k),
                       valid ? image[i] + static_cast<std::int64_t>(h * p.w + w) * pixel_bytes + c_at : input, valid);
        }
        at += stage_bytes_k;
        c_at += stage_bytes_k;
        while (c_at >= tap_bytes) {
            c_at -= tap_bytes;
            if (++tap_s == p.s) {
                tap_s = 0;
                ++tap_r;
            }
        }
    };

    // weights do not depend on the kernel before
#pragma unroll
    for (int s = 0; s < T::stages - 1; ++s)
        if (s < k_count) load_b(s);
    pdl_wait();
#pragma unroll
    for (int s = 0; s < T::stages - 1; ++s) {
        if (s < k_count) load_a(s);
        copy_commit();
    }

    const int warp = thread >> 5, lane = thread & 31;
    constexpr int warps_n = T::n / T::warp_n;
    const int warp_m0 = warp / warps_n * T::warp_m, warp_n0 = warp % warps_n * T::warp_n;
    std::uint32_t* staged = reinterpret_cast<std::uint32_t*>(shared);

    if constexpr (T::math == Math::f32) {
        constexpr int rows = T::warp_m / 4, columns = T::warp_n / 8;
        const int lane_m = lane >> 3, lane_n = lane & 7;
        float acc[rows][columns] = {};
        for (int k = 0; k < k_count; ++k) {
            copy_wait<T::stages - 2>();
            __syncthreads();
            if (k + T::stages - 1 < k_count) {
                load_b((k + T::stages - 1) % T::stages);
                load_a((k + T::stages - 1) % T::stages);
            }
            copy_commit();
            const unsigned char* a = shared + k % T::stages * T::stage_bytes;
            const unsigned char* b = a + T::m * stage_bytes_k;
#pragma unroll 1
            for (int c = 0; c < 8; ++c) {
                float4 av[rows];
#pragma unroll
                for (int i = 0; i < rows; ++i) {
                    const int row = warp_m0 + i * 4 + lane_m;
                    av[i] = *reinterpret_cast<const float4*>(a + row * stage_bytes_k + ((c ^ (row & 7)) << 4));
                }
#pragma unroll
                for (int j = 0; j < columns; ++j) {
                    const int row = warp_n0 + j * 8 + lane_n;
                    const float4 bv =
                        *reinterpret_cast<const float4*>(b + row * stage_bytes_k + ((c ^ (row & 7)) << 4));
#pragma unroll
                    for (int i = 0; i < rows; ++i) {
                        acc[i][j] = fmaf(av[i].x, bv.x, acc[i][j]);
                        acc[i][j] = fmaf(av[i].y, bv.y, acc[i][j]);
                        acc[i][j] = fmaf(av[i].z, bv.z, acc[i][j]);
                        acc[i][j] = fmaf(av[i].w, bv.w, acc[i][j]);
                    }
                }
            }
        }
        copy_wait<0>();
        pdl_trigger();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int j = 0; j < columns; ++j)
                staged[staged_word<T>(warp_m0 + i * 4 + lane_m, warp_n0 + j * 8 + lane_n)] = __float_as_uint(acc[i][j]);
    } else {
        constexpr int m_tiles = T::warp_m / 16, n_tiles = T::warp_n / 8;
        std::uint32_t acc[m_tiles][n_tiles][4] = {};
        const int a_row = warp_m0 + (lane & 15), a_chunk = lane >> 4;
        const int b_row = warp_n0 + (lane & 7) + ((lane >> 4) << 3), b_chunk = (lane >> 3) & 1;
        const std::uint32_t a_base = base + static_cast<std::uint32_t>(a_row * stage_bytes_k);
        const std::uint32_t b_base = base + static_cast<std::uint32_t>((T::m + b_row) * stage_bytes_k);
        for (int k = 0; k < k_count; ++k) {
            copy_wait<T::stages - 2>();
            __syncthreads();
            if (k + T::stages - 1 < k_count) {
                load_b((k + T::stages - 1) % T::stages);
                load_a((k + T::stages - 1) % T::stages);
            }
            copy_commit();
            const std::uint32_t stage = static_cast<std::uint32_t>(k % T::stages * T::stage_bytes);
            const int remaining = args.k_bytes - (k_first + k) * stage_bytes_k;
#pragma unroll
            for (int step = 0; step < stage_bytes_k / 32; ++step) {
                if (step * 32 >= remaining) break;
                std::uint32_t a[m_tiles][4], b[n_tiles / 2][4];
#pragma unroll
                for (int i = 0; i < m_tiles; ++i)
                    load_matrices(a[i], a_base + stage +
                                            static_cast<std::uint32_t>(i * 16 * stage_bytes_k +
                                                                       (((step * 2 + a_chunk) ^ (a_row & 7)) << 4)));
#pragma unroll
                for (int j = 0; j < n_tiles / 2; ++j)
                    load_matrices(b[j], b_base + stage +
                                            static_cast<std::uint32_t>(j * 16 * stage_bytes_k +
                                                                       (((step * 2 + b_chunk) ^ (b_row & 7)) << 4)));
                if constexpr (T::math == Math::tf32) {
#pragma unroll
                    for (int i = 0; i < m_tiles; ++i)
#pragma unroll
                        for (int r = 0; r < 4; ++r)
                            to_tf32(a[i][r]);
#pragma unroll
                    for (int j = 0; j < n_tiles / 2; ++j)
#pragma unroll
                        for (int r = 0; r < 4; ++r)
                            to_tf32(b[j][r]);
                }
#pragma unroll
                for (int i = 0; i < m_tiles; ++i)
#pragma unroll
                    for (int j = 0; j < n_tiles; ++j)
                        multiply<T::math>(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
        copy_wait<0>();
        pdl_trigger();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < m_tiles; ++i)
#pragma unroll
            for (int j = 0; j < n_tiles; ++j) {
                const int row = warp_m0 + i * 16 + (lane >> 2), column = warp_n0 + j * 8 + (lane & 3) * 2;
                *reinterpret_cast<uint2*>(staged + staged_word<T>(row, column)) =
                    make_uint2(acc[i][j][0], acc[i][j][1]);
                *reinterpret_cast<uint2*>(staged + staged_word<T>(row + 8, column)) =
                    make_uint2(acc[i][j][2], acc[i][j][3]);
            }
    }
    if (split > 1)
        cluster_arrive_and_wait();
    else
        __syncthreads();
    if constexpr (T::math == Math::s8 || T::math == Math::f16) {
        if (args.out_type == type_s8)
            write_tile<T, std::int8_t>(args, staged, scales, biases, m0, n0, rank, split);
        else if (args.out_type == type_f16)
            write_tile<T, __half>(args, staged, scales, biases, m0, n0, rank, split);
        else
            write_tile<T, float>(args, staged, scales, biases, m0, n0, rank, split);
    } else if constexpr (T::math == Math::bf16) {
        if (args.out_type == type_bf16)
            write_tile<T, __nv_bfloat16>(args, staged, scales, biases, m0, n0, rank, split);
        else
            write_tile<T, float>(args, staged, scales, biases, m0, n0, rank, split);
    } else {
        write_tile<T, float>(args, staged, scales, biases, m0, n0, rank, split);
    }
    if (split > 1) cluster_arrive_and_wait(); // nobody leaves while others read its memory
}

template <class T>
cudaError_t launch_tile(const Args& args, int split, cudaStream_t stream, bool programmatic) {
    // Once a device; asking again is harmless.
    static thread_local int ready = -1;
    int device = 0;
    if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
    if (ready != device) {
        if (const cudaError_t code = cudaFuncSetAttribute(implicit_gemm_mma<T>,
                                                          cudaFuncAttributeMaxDynamicSharedMemorySize, T::shared_bytes);
            code != cudaSuccess)
            return code;
        ready = device;
    }
    Args local = args;
    local.n_tiles = (args.p.k_stride + T::n - 1) / T::n;
    const std::int64_t tiles = static_cast<std::int64_t>((args.rows + T::m - 1) / T::m) * local.n_tiles;
    return launch_kernel(implicit_gemm_mma<T>,
                         dim3(static_cast<unsigned>(tiles),
                              static_cast<unsigned>(args.p.groups > 1 ? args.p.groups : 1),
                              static_cast<unsigned>(split)),
                         T::threads, T::shared_bytes, stream, programmatic, static_cast<unsigned>(split), local);
}

using Launcher = cudaError_t (*)(const Args&, int split, cudaStream_t, bool);
struct Entry {
    TileConfig config;
    Launcher launch;
};
/// A type's tiles: implicit_gemm_mma_*.cu.
const Entry* s8_entries(int& count);
const Entry* f16_entries(int& count);
const Entry* other_entries(int& count);

} // namespace lathe::cuda::kernels::mma
