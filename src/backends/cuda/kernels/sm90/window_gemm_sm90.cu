#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/sm90/host.hpp"
#include "backends/cuda/kernels/sm90/window_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

namespace {

const std::vector<WindowInstance>& instances() {
    static const std::vector<WindowInstance> all = joined<WindowInstance>({window_s8, window_f16});
    return all;
}

struct Plan {
    FlatImage image{};
    int chunks = 0, pixels = 0; ///< of channels; of a run
    int runs = 0, run_bytes = 0, stages = 0, exchange = 0;
    int shared_bytes = 0, tiles_m = 0, tiles_n = 0;
};

/// False where this instance cannot take the problem in `split` parts.
bool make_plan(const WindowInstance& instance, int split, const ImplicitGemmParams& params, Plan& plan) {
    const TileConfig& config = instance.config;
    const int element = element_bytes(config.in_type), taps = params.r * params.s;
    if (params.c_stride * element % 16 != 0 || !is_direct(instance.run, params)) return false;
    if (split != 1 && split != 2 && split != 4 && split != 8) return false;
    if (taps == 1 || !is_centred_window(params)) return false;
    const int stride = params.stride_h;
    plan.image = {params.p, params.q, params.p + params.pad_h, params.q + params.pad_w};
    plan.pixels = config.m + (params.r - 1) / stride * plan.image.flat_q + (params.s - 1) / stride;
    if (plan.pixels > 1024 || !is_walkable(params.h, plan.image.flat_p, stride, params.pad_h, stride - 1) ||
        !is_walkable(params.w, plan.image.flat_q, stride, params.pad_w, stride - 1))
        return false;
    const std::int64_t rows = std::int64_t{params.n} * plan.image.flat_p * plan.image.flat_q;
    if (rows > std::numeric_limits<std::int32_t>::max() / 2) return false;
    plan.chunks = (params.c_stride * element + config.k_bytes - 1) / config.k_bytes;
    if (split > plan.chunks || split > config.n / 8) return false;
    plan.tiles_m = static_cast<int>((rows + config.m - 1) / config.m);
    plan.tiles_n = (params.k + config.n - 1) / config.n;
    if (plan.tiles_m > 65535) return false; // a grid's limit

    const int chunks = (plan.chunks + split - 1) / split, steps = chunks * taps;
    const int beside = split == 1 ? 0 : instance.exchange_bytes;
    const int before = instance.ring_offset + 1024; // its beginning is rounded up
    const int limit = shared_limit / config.blocks - (config.blocks > 1 ? 1024 : 0);
    plan.run_bytes = (plan.pixels * config.k_bytes + 1023) / 1024 * 1024;
    // A stage is free once the next one is in use, so one alone is enough only for what comes once.
    const int runs = chunks * stride * stride, fewest_runs = std::min(runs, 2), fewest = std::min(steps, 2);
    for (plan.runs = std::min(runs, stride == 1 ? 2 : window_runs); plan.runs >= fewest_runs; --plan.runs) {
        const int left = limit - before - beside - plan.runs * plan.run_bytes;
        plan.stages = std::min({steps, window_taps, left / instance.weights_bytes});
        if (plan.stages >= (plan.runs == fewest_runs ? fewest : std::min(steps, 4))) break;
    }
    if (plan.runs < fewest_runs) return false;
    plan.exchange = plan.runs * plan.run_bytes + plan.stages * instance.weights_bytes;
    plan.shared_bytes = before + plan.exchange + beside;
    return true;
}

} // namespace

const TileConfig* window_tiles(int& count) {
    static const std::vector<TileConfig> tiles = configs_of(instances());
    count = static_cast<int>(tiles.size());
    return tiles.data();
}

bool window_takes(int index, int split, const ImplicitGemmParams& params) {
    Plan plan;
    return make_plan(instances()[static_cast<std::size_t>(index)], split, params, plan);
}

cudaError_t encode_window(int index, const ImplicitGemmParams& params, void* maps) {
    const WindowInstance& instance = instances()[static_cast<std::size_t>(index)];
    Plan plan;
    if (!make_plan(instance, 1, params, plan)) return cudaErrorInvalidValue;
    const MapFormat format = input_format(instance.config);
    CUtensorMap pair[2];
    cudaError_t error = encode_pixels(pair[0], format, params.input,
                                      pixels_of(params, plan.image.flat_p, plan.image.flat_q), plan.pixels);
    if (error != cudaSuccess) return error;
    error = encode_weights(pair[1], format, params.weight, std::int64_t{params.r} * params.s * params.c_stride,
                           params.k, instance.config.n, instance.run);
    if (error != cudaSuccess) return error;
    std::memcpy(maps, pair, sizeof(pair));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

cudaError_t launch_window(int index, int split, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                          bool programmatic) {
    const WindowInstance& instance = instances()[static_cast<std::size_t>(index)];
    const TileConfig& config = instance.config;
    Plan plan;
    if (!make_plan(instance, split, params, plan)) return cudaErrorInvalidValue;

    WindowProblem problem{};
    problem.to = destination_of(params, config, true);
    problem.image = plan.image;
    problem.pad_h = params.pad_h;
    problem.pad_w = params.pad_w;
    problem.stride = params.stride_h;
    problem.taps_h = params.r;
    problem.taps_w = params.s;
    problem.tap_stride = params.c_stride;
    problem.chunks = plan.chunks;
    problem.split = split;
    problem.split_bits = std::bit_width(static_cast<unsigned>(split)) - 1;
    problem.runs = plan.runs;
    problem.run_bytes = plan.run_bytes;
    problem.pixels_bytes = plan.pixels * config.k_bytes;
    problem.stages = plan.stages;
    problem.exchange = plan.exchange;

    alignas(64) CUtensorMap pair[2];
    std::memcpy(pair, maps, sizeof(pair));
    void* arguments[] = {&pair[0], &pair[1], &problem};
    return launch_cluster(instance.kernel,
                          dim3(static_cast<unsigned>(plan.tiles_n * split), static_cast<unsigned>(plan.tiles_m)),
                          instance.threads, plan.shared_bytes, split, stream, programmatic, arguments);
}

} // namespace lathe::cuda::kernels::sm90
