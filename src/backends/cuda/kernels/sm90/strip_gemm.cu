#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cuda/kernels/sm90/host.hpp"
#include "backends/cuda/kernels/sm90/strip_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

namespace {

const StripInstance strip_instances[] = {
    make_strip<std::int8_t, std::int8_t, 64, 3>("sgemm_s8_m64n64k64_g3_wgmma"),
};
constexpr int instance_count = static_cast<int>(sizeof(strip_instances) / sizeof(strip_instances[0]));

struct Plan {
    Strips cut{};
    int stages = 0, shared_bytes = 0, columns = 0;
};

/// False where this instance cannot take the problem.
bool make_plan(const StripInstance& instance, const ImplicitGemmParams& params, int multiprocessors, Plan& plan) {
    const TileConfig& config = instance.config;
    const int pixel = params.c_stride * element_bytes(config.in_type);
    if (pixel % 16 != 0 || pixel > config.k_bytes || !is_direct(instance.run, params)) return false;
    if (params.r != 3 || params.s != 3 || params.stride_h != 1 || !is_centred_window(params)) return false;
    if (params.q <= 32 || params.q > 64) return false;
    if (std::int64_t{params.n} * params.p * params.q > std::numeric_limits<std::int32_t>::max() / 2) return false;
    plan.columns = (params.k + config.n - 1) / config.n;
    const int most = std::max(1, multiprocessors / plan.columns), groups = config.consumers;
    plan.cut = cut_strips(params.n, params.p, most, groups);
    const int before = 1024 + instance.ring_offset;
    plan.stages = std::min(strip_stages, (shared_limit - before) / (groups * instance.stage_bytes));
    plan.shared_bytes = before + groups * plan.stages * instance.stage_bytes;
    return plan.stages >= 3;
}

int multiprocessors() {
    int device = 0, count = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 132; // no device: the answer is for a plan that is not run
    return count;
}

} // namespace

const TileConfig* strip_tiles(int& count) {
    static const TileConfig tiles[] = {strip_instances[0].config};
    static_assert(sizeof(tiles) / sizeof(tiles[0]) == instance_count);
    count = instance_count;
    return tiles;
}

bool strip_takes(int index, const ImplicitGemmParams& params) {
    Plan plan;
    return make_plan(strip_instances[index], params, 132, plan);
}

cudaError_t encode_strip(int index, const ImplicitGemmParams& params, void* maps) {
    const StripInstance& instance = strip_instances[index];
    Plan plan;
    if (!make_plan(instance, params, 132, plan)) return cudaErrorInvalidValue;
    const MapFormat format = input_format(instance.config);
    CUtensorMap pair[2];
    cudaError_t error =
        encode_rows(pair[0], format, params.input, pixels_of(params, params.p, params.q), strip_positions);
    if (error != cudaSuccess) return error;
    error = encode_weights(pair[1], format, params.weight, std::int64_t{9} * params.c_stride, params.k,
                           instance.config.n, instance.run);
    if (error != cudaSuccess) return error;
    std::memcpy(maps, pair, sizeof(pair));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

cudaError_t launch_strip(int index, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                         bool programmatic) {
    const StripInstance& instance = strip_instances[index];
    Plan plan;
    if (!make_plan(instance, params, multiprocessors(), plan)) return cudaErrorInvalidValue;

    StripProblem problem{};
    problem.to = destination_of(params, instance.config, true);
    problem.to.small_sums = false;
    problem.p = params.p;
    problem.q = params.q;
    problem.rows = plan.cut.rows;
    problem.down = plan.cut.down;
    problem.strips = plan.cut.count;
    problem.tap_stride = params.c_stride;
    problem.stages = plan.stages;

    alignas(64) CUtensorMap pair[2];
    std::memcpy(pair, maps, sizeof(pair));
    void* arguments[] = {&pair[0], &pair[1], &problem};
    return launch_cluster(instance.kernel,
                          dim3(static_cast<unsigned>(plan.columns), static_cast<unsigned>(plan.cut.blocks)),
                          instance.threads, plan.shared_bytes, 1, stream, programmatic, arguments);
}

} // namespace lathe::cuda::kernels::sm90
