// The list of all tiles, and those of bf16, tf32 and f32.
#include <algorithm>

#include "backends/cuda/kernels/implicit_gemm_mma.cuh"

namespace lathe::cuda::kernels {
namespace mma {

const Entry* other_entries(int& count) {
    static const Entry entries[] = {
        {{"mma_bf16_m128n128_s3", type_bf16, -1, 128, 128, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::bf16, 128, 128, 64, 32, 3>>},
        {{"mma_bf16_m64n64_s4", type_bf16, -1, 64, 64, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::bf16, 64, 64, 32, 32, 4>>},
        {{"mma_bf16_m32n64_s4", type_bf16, -1, 32, 64, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::bf16, 32, 64, 16, 32, 4>>},
        {{"mma_tf32_m128n128_s3", type_f32, -1, 128, 128, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::tf32, 128, 128, 64, 32, 3>>},
        {{"mma_tf32_m64n64_s4", type_f32, -1, 64, 64, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::tf32, 64, 64, 32, 32, 4>>},
        {{"mma_tf32_m32n64_s4", type_f32, -1, 32, 64, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::tf32, 32, 64, 16, 32, 4>>},
        {{"fma_f32_m128n128_s3", type_f32, -1, 128, 128, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::f32, 128, 128, 32, 64, 3>>},
        {{"fma_f32_m128n64_s3", type_f32, -1, 128, 64, 128, 3, 8, 80, 999},
         launch_tile<Tile<Math::f32, 128, 64, 32, 32, 3>>},
        {{"fma_f32_m64n64_s3", type_f32, -1, 64, 64, 128, 3, 4, 80, 999},
         launch_tile<Tile<Math::f32, 64, 64, 32, 32, 3>>},
        {{"fma_f32_m32n64_s4", type_f32, -1, 32, 64, 128, 4, 4, 80, 999},
         launch_tile<Tile<Math::f32, 32, 64, 16, 32, 4>>},
    };
    count = static_cast<int>(sizeof entries / sizeof entries[0]);
    return entries;
}

namespace {

constexpr int most = 64;
struct All {
    TileConfig configs[most];
    Launcher launchers[most];
    int sizes[most]; ///< bytes of an element
    int count = 0;
    All() {
        for (const auto list : {s8_entries, f16_entries, other_entries}) {
            int n = 0;
            const Entry* entries = list(n);
            for (int i = 0; i < n && count < most; ++i) {
                configs[count] = entries[i].config;
                launchers[count] = entries[i].launch;
                const int type = entries[i].config.in_type;
                sizes[count++] = type == type_s8 ? 1 : type == type_f32 ? 4 : 2;
            }
        }
    }
};
const All& all() {
    static const All list;
    return list;
}

} // namespace
} // namespace mma

const TileConfig* mma_tiles(int& count) {
    count = mma::all().count;
    return mma::all().configs;
}

cudaError_t launch_implicit_gemm_mma(int tile, int split, const ImplicitGemmParams& params, int output_type,
                                     cudaStream_t stream, bool programmatic) {
    const mma::All& list = mma::all();
    if (tile < 0 || tile >= list.count || split < 1 || split > 8) return cudaErrorInvalidValue;
    const int size = list.sizes[tile];
    const std::int64_t k_bytes = std::int64_t{params.r} * params.s * params.c * size;
    const std::int64_t rows = std::int64_t{params.n} * params.p * params.q, groups = std::max(1, params.groups);
    if (params.c_pitch < params.c * groups || params.k_pitch < params.k * groups || groups > 65535 ||
        (groups > 1 && params.k_stride != params.k) || params.c * size % 16 != 0 || params.c_pitch * size % 16 != 0 ||
        k_bytes > 0x3fffffff || rows > 0x3fffffff)
        return cudaErrorInvalidValue;
    mma::Args args{};
    args.p = params;
    args.rows = static_cast<std::int32_t>(rows);
    args.k_bytes = static_cast<std::int32_t>(k_bytes);
    args.k_tiles = static_cast<std::int32_t>((k_bytes + mma::stage_bytes_k - 1) / mma::stage_bytes_k);
    args.out_type = output_type;
    const int out_size = output_type == type_s8 ? 1 : output_type == type_f32 ? 4 : 2;
    const bool narrow = params.epilogue.residual != nullptr && params.epilogue.residual_is_s8 != 0 && out_size > 1;
    // an s8 residual of a wider output is read 16 / out_size bytes at a time: its rows start on those
    args.vectors = params.k_stride * out_size % 16 == 0 && params.k_pitch * out_size % 16 == 0 ? 1 : 0;
    const int stride = params.epilogue.residual_stride != 0 ? params.epilogue.residual_stride : params.k_pitch;
    args.residual_stride = stride;
    args.residual_vectors = args.vectors != 0 && stride >= params.k_stride &&
                                    (narrow ? stride % (16 / out_size) : stride * out_size % 16) == 0
                                ? 1
                                : 0;
    return list.launchers[tile](args, split, stream, programmatic);
}

} // namespace lathe::cuda::kernels
