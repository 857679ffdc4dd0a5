// Host side of gemm_wgmma.cuh: which tiles there are, tensor maps, launches.

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <cuda.h>

#include "backends/cuda/kernels/sm90/gemm_wgmma.cuh"
#include "backends/cuda/kernels/sm90/host.hpp"
#include "backends/cuda/kernels/sm90/tensor_maps.hpp"

namespace lathe::cuda::kernels {
namespace {

using sm90::WideInstance;

const std::vector<WideInstance>& instances() {
    static const std::vector<WideInstance> all =
        sm90::joined<WideInstance>({sm90::wide_s8_to_s8, sm90::wide_s8_to_f16, sm90::wide_f16});
    return all;
}

std::int64_t rows_of(const ImplicitGemmParams& p) { return std::int64_t{p.n} * p.p * p.q; }

} // namespace

const TileConfig* wide_tiles(int& count) {
    static const std::vector<TileConfig> tiles = sm90::configs_of(instances());
    count = static_cast<int>(tiles.size());
    return tiles.data();
}

bool wide_takes(int tile, bool pair, const ImplicitGemmParams& p) {
    if (tile < 0 || static_cast<std::size_t>(tile) >= instances().size() || !sm90::has_pitches(p)) return false;
    const WideInstance& instance = instances()[static_cast<std::size_t>(tile)];
    const int element = sm90::element_bytes(instance.config.in_type),
              out = sm90::element_bytes(instance.config.out_type);
    const bool plain = p.r == 1 && p.s == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0 &&
                       p.p == p.h && p.q == p.w;
    if (p.epilogue.residual_last != 0 && p.epilogue.act != 0) return false;
    if (!plain || p.c * element % 16 != 0 || p.c_stride * element % 16 != 0 || p.k % 64 != 0) return false;
    const EpilogueParams& e = p.epilogue;
    const bool gelu = e.act == 4 || e.act == 5;
    if (e.act > 2 && !gelu) return false;
    if (!gelu && e.output_scale_inverse != 1) return false;
    if (gelu && out == 2 && e.output_scale_inverse != 1) return false;
    if (p.k_stride * out % 16 != 0 || p.k_pitch * out % 16 != 0) return false;
    const int residual = e.residual_stride != 0 ? e.residual_stride : p.k_pitch;
    if (residual % 16 != 0) return false;
    const int tiles_n = (p.k + instance.config.n - 1) / instance.config.n;
    const std::int64_t tiles_m = (rows_of(p) + 127) / 128;
    if (pair && (tiles_n % 2 != 0)) return false;
    const std::int64_t chunks = (std::int64_t{p.c} * element + 127) / 128;
    return rows_of(p) > 0 && tiles_m * tiles_n * chunks < std::numeric_limits<std::int32_t>::max();
}

cudaError_t encode_maps_wide(int tile, bool pair, const ImplicitGemmParams& p, void* maps) {
    const WideInstance& instance = instances().at(static_cast<std::size_t>(tile));
    const int type = instance.config.in_type, element = sm90::element_bytes(type);
    const sm90::MapFormat format{type, 128 / element};
    CUtensorMap made[2];
    if (const cudaError_t error =
            sm90::encode_matrix(made[0], format, p.input, p.c, rows_of(p), p.c_pitch, pair ? 64 : 128);
        error != cudaSuccess)
        return error;
    if (const cudaError_t error =
            sm90::encode_weights(made[1], format, p.weight, p.c_stride, p.k, instance.config.n, instance.run);
        error != cudaSuccess)
        return error;
    std::memcpy(maps, made, sizeof(made));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sm90::shared_limit_wide);
}

cudaError_t launch_wide_gemm(int tile, bool pair, int multiprocessors, const ImplicitGemmParams& p, const void* maps,
                             cudaStream_t stream, bool programmatic) {
    if (!wide_takes(tile, pair, p)) return cudaErrorInvalidValue;
    const WideInstance& instance = instances()[static_cast<std::size_t>(tile)];
    sm90::WideProblem problem{};
    problem.output = p.output;
    problem.epilogue = p.epilogue;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    EpilogueParams& e = problem.epilogue;
    if (e.act != 2) {
        e.low = e.act == 1 ? 0 : -infinity;
        e.high = infinity;
    }
    if (instance.config.out_type == type_s8) {
        e.low = std::max(e.low, -128.0F);
        e.high = std::min(e.high, 127.0F);
    }
    problem.gelu = e.act == 4 ? 1 : e.act == 5 ? 2 : 0;
    problem.rows = static_cast<std::int32_t>(rows_of(p));
    problem.columns = p.k;
    problem.out_stride = p.k_pitch;
    problem.residual_stride = e.residual_stride != 0 ? e.residual_stride : p.k_pitch;
    const int element = sm90::element_bytes(instance.config.in_type);
    problem.chunks = (p.c * element + 127) / 128;
    problem.stages = std::min(instance.most_stages, 14);
    const int tiles_n = (p.k + instance.config.n - 1) / instance.config.n, tiles_m = (problem.rows + 127) / 128;
    problem.pair = pair ? 1 : 0;
    problem.tiles_n = pair ? tiles_n / 2 : tiles_n;
    problem.tiles = problem.tiles_n * tiles_m;

    alignas(64) CUtensorMap both[2];
    std::memcpy(both, maps, sizeof(both));
    void* arguments[] = {&both[0], &both[1], &problem};
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (pair) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val.clusterDim = {2, 1, 1};
    }
    if (programmatic) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    const int width = pair ? 2 : 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(std::min(problem.tiles, multiprocessors / width) * width));
    config.blockDim = dim3(384);
    config.dynamicSmemBytes = static_cast<std::size_t>(problem.stages * instance.stage_bytes + instance.before + 1024);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelExC(&config, instance.kernel, arguments);
}

} // namespace lathe::cuda::kernels
