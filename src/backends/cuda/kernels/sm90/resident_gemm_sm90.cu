#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/sm90/host.hpp"
#include "backends/cuda/kernels/sm90/resident_gemm.cuh"

namespace lathe::cuda::kernels::sm90 {

namespace {

const std::vector<ResidentInstance>& instances() {
    static const std::vector<ResidentInstance> all = joined<ResidentInstance>({resident_s8, resident_f16});
    return all;
}

struct Plan {
    int flat_p = 0, flat_q = 0; ///< an image as tiles walk over it
    int rows = 0;               ///< of all images
    int chunks = 0, pixels = 0; ///< of channels; of a stage
    int stages = 0, stage_bytes = 0,
        slots = 0; ///< rings of pixels and of residual tiles
    int shared_bytes = 0, tiles_m = 0, tiles_n = 0;
};

/// False where this instance cannot take the problem.
bool make_plan(const ResidentInstance& instance, const ImplicitGemmParams& params, Plan& plan) {
    const TileConfig& config = instance.config;
    const int element = element_bytes(config.in_type);
    if (params.c_stride * element % 16 != 0 || !is_direct(instance.run, params)) return false;
    if (params.epilogue.residual_is_s8 != 0 && config.out_type != type_s8 && params.epilogue.residual_scale != 0)
        return false;
    // TMA's swizzles are 64 or 128 bytes wide here; so must be a row of a residual tile.
    if (params.epilogue.residual_scale != 0 && instance.residual_row < 64) return false;
    const int taps = params.r * params.s;
    plan.flat_p = params.p;
    plan.flat_q = params.q;
    plan.pixels = config.m;
    if (taps > 1) {
        if (!is_centred_window(params) || params.stride_h != 1) return false;
        plan.flat_p += params.pad_h;
        plan.flat_q += params.pad_w;
        plan.pixels += (params.r - 1) * plan.flat_q + params.s - 1;
    }
    if (plan.pixels > 1024 || !is_walkable(params.h, plan.flat_p, params.stride_h, params.pad_h, 0) ||
        !is_walkable(params.w, plan.flat_q, params.stride_w, params.pad_w, 0))
        return false;
    const std::int64_t rows = std::int64_t{params.n} * plan.flat_p * plan.flat_q;
    if (rows > std::numeric_limits<std::int32_t>::max() / 2) return false;
    plan.rows = static_cast<int>(rows);
    plan.chunks = (params.c_stride * element + config.k_bytes - 1) / config.k_bytes;
    if (plan.chunks * taps > resident_chunks) return false;
    plan.tiles_m = (plan.rows + config.m - 1) / config.m;
    plan.tiles_n = (params.k + config.n - 1) / config.n;

    // Shared memory: weights, then pixels for every group twice, residual tiles
    // for every group twice; less if need be.
    const int before = 1024 + instance.weights_offset + plan.chunks * taps * instance.weights_bytes;
    plan.stage_bytes = (plan.pixels * config.k_bytes + 1023) / 1024 * 1024;
    const int groups = config.consumers, limit = shared_limit / config.blocks - (config.blocks > 1 ? 1024 : 0);
    const bool residual = params.epilogue.residual_scale != 0;
    const int least = std::min(plan.chunks, 2), wanted = std::min(2 * groups * plan.chunks, resident_stages);
    for (plan.slots = residual ? std::min(2 * groups, resident_slots) : 0; plan.slots >= (residual ? 1 : 0);
         --plan.slots) {
        const int left = limit - before - plan.slots * instance.slot_bytes;
        plan.stages = std::min(wanted, left / plan.stage_bytes);
        const bool enough = plan.stages >= std::min(wanted, groups * plan.chunks);
        if (left > 0 && (enough || plan.slots <= (residual ? 2 : 0)) && plan.stages >= std::max(least, 2)) break;
    }
    if (plan.slots < (residual ? 1 : 0)) return false;
    plan.shared_bytes = before + plan.stages * plan.stage_bytes + plan.slots * instance.slot_bytes;
    return plan.shared_bytes <= limit;
}

} // namespace

const TileConfig* resident_tiles(int& count) {
    static const std::vector<TileConfig> tiles = configs_of(instances());
    count = static_cast<int>(tiles.size());
    return tiles.data();
}

bool resident_takes(int index, const ImplicitGemmParams& params) {
    Plan plan;
    return make_plan(instances()[static_cast<std::size_t>(index)], params, plan);
}

cudaError_t encode_resident(int index, const ImplicitGemmParams& params, void* maps) {
    const ResidentInstance& instance = instances()[static_cast<std::size_t>(index)];
    Plan plan;
    if (!make_plan(instance, params, plan)) return cudaErrorInvalidValue;
    const TileConfig& config = instance.config;
    const MapFormat input = input_format(config);
    CUtensorMap three[3];
    cudaError_t error =
        is_matrix(params)
            ? encode_matrix(three[0], input, params.input, params.c, plan.rows, params.c_pitch, config.m)
            : encode_pixels(three[0], input, params.input, pixels_of(params, plan.flat_p, plan.flat_q), plan.pixels);
    if (error != cudaSuccess) return error;
    error = encode_weights(three[1], input, params.weight, std::int64_t{params.r} * params.s * params.c_stride,
                           params.k, config.n, instance.run);
    if (error != cudaSuccess) return error;
    three[2] = three[1]; // not used
    if (plan.slots > 0) {
        const MapFormat output{config.out_type, instance.residual_row / element_bytes(config.out_type)};
        const Pixels pixels{params.n, params.p, params.q, params.k, params.k_pitch, plan.flat_p, plan.flat_q,
                            1,        1,        0,        0};
        error = params.r * params.s == 1 ? encode_matrix(three[2], output, params.epilogue.residual, params.k,
                                                         plan.rows, params.k_pitch, config.m)
                                         : encode_pixels(three[2], output, params.epilogue.residual, pixels, config.m);
        if (error != cudaSuccess) return error;
    }
    std::memcpy(maps, three, sizeof(three));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

cudaError_t launch_resident(int index, const ImplicitGemmParams& params, const void* maps, cudaStream_t stream,
                            bool programmatic) {
    const ResidentInstance& instance = instances()[static_cast<std::size_t>(index)];
    const TileConfig& config = instance.config;
    Plan plan;
    if (!make_plan(instance, params, plan)) return cudaErrorInvalidValue;

    ResidentProblem problem{};
    problem.to = destination_of(params, config, true);
    problem.tiles = plan.tiles_m;
    problem.p = params.p;
    problem.q = params.q;
    problem.flat_p = plan.flat_p;
    problem.flat_q = plan.flat_q;
    problem.stride_h = params.stride_h;
    problem.stride_w = params.stride_w;
    problem.pad_h = params.pad_h;
    problem.pad_w = params.pad_w;
    problem.taps = params.r * params.s;
    problem.taps_w = params.s;
    problem.tap_stride = params.c_stride;
    problem.chunks = plan.chunks;
    problem.stages = plan.stages;
    problem.stage_bytes = plan.stage_bytes;
    problem.pixels_bytes = plan.pixels * config.k_bytes;
    problem.slots = plan.slots;
    if (plan.slots == 0) problem.to.epilogue.residual = nullptr; // its factor is 0
    problem.im2col = !is_matrix(params);

    int device = 0, multiprocessors = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        error != cudaSuccess)
        return error;
    // As few blocks as finish in as many turns.
    const int share = std::min(std::max(1, multiprocessors * config.blocks / plan.tiles_n), plan.tiles_m);
    const int turns = (plan.tiles_m + share - 1) / share;

    alignas(64) CUtensorMap three[3];
    std::memcpy(three, maps, sizeof(three));
    void* arguments[] = {&three[0], &three[1], &three[2], &problem};
    return launch_cluster(
        instance.kernel,
        dim3(static_cast<unsigned>(plan.tiles_n), static_cast<unsigned>((plan.tiles_m + turns - 1) / turns)),
        instance.threads, plan.shared_bytes, 1, stream, programmatic, arguments);
}

} // namespace lathe::cuda::kernels::sm90
