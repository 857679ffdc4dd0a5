#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/sm90/host.hpp"
#include "backends/cuda/kernels/sm90/implicit_gemm.cuh"

namespace lathe::cuda::kernels {

namespace {

using sm90::element_bytes;
using sm90::Instance;
using sm90::is_direct;
using sm90::is_matrix;

const std::vector<Instance>& instances() {
    static const std::vector<Instance> all =
        sm90::joined<Instance>({sm90::s8_instances, sm90::f16_instances, sm90::bf16_instances});
    return all;
}

struct Plan {
    int chunks_per_tap = 0, chunks = 0, stages = 0, staging = 0, shared_bytes = 0, tiles_m = 0, tiles_n = 0;
};

/// False where this instance cannot take the problem in `split` parts.
bool make_plan(const Instance& instance, int split, const ImplicitGemmParams& params, Plan& plan) {
    const int element = element_bytes(instance.config.in_type);
    const int chunk_bytes = instance.config.k_bytes;
    if (params.c_stride * element % 16 != 0) return false;
    if (split != 1 && split != 2 && split != 4 && split != 8) return false;
    if (!is_matrix(params) &&
        (!sm90::is_walkable(params.h, params.p, params.stride_h, params.pad_h, (params.r - 1) * params.dil_h) ||
         !sm90::is_walkable(params.w, params.q, params.stride_w, params.pad_w, (params.s - 1) * params.dil_w)))
        return false;
    const std::int64_t rows = std::int64_t{params.n} * params.p * params.q;
    if (rows > std::numeric_limits<std::int32_t>::max() / 2) return false;
    plan.chunks_per_tap = (params.c_stride * element + chunk_bytes - 1) / chunk_bytes;
    plan.chunks = plan.chunks_per_tap * params.r * params.s;
    if (split > plan.chunks) return false;
    const int chunks = (plan.chunks + split - 1) / split;
    const int steps = (chunks + instance.chunks_per_stage - 1) / instance.chunks_per_stage;
    plan.stages = std::min(instance.config.stages, steps);
    const bool direct = is_direct(instance.run, params);
    if (direct && split > instance.config.n / 8) return false;
    const int beside = split == 1 ? 0 : direct ? instance.exchange_bytes : instance.staging_bytes;
    const int before = instance.ring_offset + 1024; // its beginning is rounded up
    plan.stages = std::min(plan.stages, (sm90::shared_limit - before - beside) / instance.stage_bytes);
    if (plan.stages < std::min(steps, 2)) return false;
    const int ring = plan.stages * instance.stage_bytes;
    plan.staging = split > 1 ? ring : 0;
    plan.shared_bytes = before + (split > 1 || direct ? ring + beside : std::max(ring, instance.staging_bytes));
    if (plan.shared_bytes > sm90::shared_limit) return false;
    plan.tiles_n = (params.k_stride + instance.config.n - 1) / instance.config.n;
    plan.tiles_m = static_cast<int>((rows + instance.config.m - 1) / instance.config.m);
    if (plan.tiles_m > 65535 || plan.chunks > (1 << 24)) return false; // limits of a grid, of chunk * rank
    return true;
}

/// Tiles of the four kernels lie one after another, in the order of their kinds.
struct Place {
    int kind = kind_streamed, index = 0;
};
Place place_of(int tile) {
    Place place{kind_streamed, tile};
    int count = static_cast<int>(instances().size());
    for (const auto list : {sm90::resident_tiles, sm90::window_tiles, sm90::strip_tiles}) {
        if (place.index < count) break;
        place.index -= count;
        ++place.kind;
        list(count);
    }
    return place;
}

} // namespace

const TileConfig* sm90_tiles(int& count) {
    static const std::vector<TileConfig> tiles = [] {
        std::vector<TileConfig> result = sm90::configs_of(instances());
        for (const auto list : {sm90::resident_tiles, sm90::window_tiles, sm90::strip_tiles}) {
            int more = 0;
            const TileConfig* first = list(more);
            result.insert(result.end(), first, first + more);
        }
        return result;
    }();
    count = static_cast<int>(tiles.size());
    return tiles.data();
}

bool sm90_takes(int tile, int split, const ImplicitGemmParams& params) {
    int count = 0;
    sm90_tiles(count);
    if (tile < 0 || tile >= count || !sm90::has_pitches(params)) return false;
    const Place place = place_of(tile);
    if (place.kind == kind_kept) return split == 1 && sm90::resident_takes(place.index, params);
    if (place.kind == kind_window) return sm90::window_takes(place.index, split, params);
    if (place.kind == kind_strip) return split == 1 && sm90::strip_takes(place.index, params);
    Plan plan;
    return make_plan(instances()[static_cast<std::size_t>(tile)], split, params, plan);
}

cudaError_t encode_maps_sm90(int tile, const ImplicitGemmParams& params, void* maps) {
    const Place place = place_of(tile);
    if (place.kind == kind_kept) return sm90::encode_resident(place.index, params, maps);
    if (place.kind == kind_window) return sm90::encode_window(place.index, params, maps);
    if (place.kind == kind_strip) return sm90::encode_strip(place.index, params, maps);
    const Instance& instance = instances().at(static_cast<std::size_t>(tile));
    const sm90::MapFormat format = sm90::input_format(instance.config);
    CUtensorMap pair[2];
    cudaError_t error =
        is_matrix(params)
            ? sm90::encode_matrix(pair[0], format, params.input, params.c, std::int64_t{params.n} * params.h * params.w,
                                  params.c_pitch, instance.config.m)
            : sm90::encode_pixels(pair[0], format, params.input, sm90::pixels_of(params, params.p, params.q),
                                  instance.config.m);
    if (error != cudaSuccess) return error;
    error = sm90::encode_weights(pair[1], format, params.weight, std::int64_t{params.r} * params.s * params.c_stride,
                                 params.k, instance.config.n, is_direct(instance.run, params) ? instance.run : 0);
    if (error != cudaSuccess) return error;
    std::memcpy(maps, pair, sizeof(pair));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sm90::shared_limit);
}

cudaError_t launch_implicit_gemm_sm90(int tile, int split, const ImplicitGemmParams& params, const void* maps,
                                      cudaStream_t stream, bool programmatic) {
    const Place place = place_of(tile);
    if (place.kind != kind_streamed && place.kind != kind_window && split != 1) return cudaErrorInvalidValue;
    if (place.kind == kind_kept) return sm90::launch_resident(place.index, params, maps, stream, programmatic);
    if (place.kind == kind_window) return sm90::launch_window(place.index, split, params, maps, stream, programmatic);
    if (place.kind == kind_strip) return sm90::launch_strip(place.index, params, maps, stream, programmatic);
    const Instance& instance = instances().at(static_cast<std::size_t>(tile));
    Plan plan;
    if (!make_plan(instance, split, params, plan)) return cudaErrorInvalidValue;

    sm90::Problem problem{};
    problem.to = sm90::destination_of(params, instance.config, is_direct(instance.run, params));
    problem.p = params.p;
    problem.q = params.q;
    problem.stride_h = params.stride_h;
    problem.stride_w = params.stride_w;
    problem.pad_h = params.pad_h;
    problem.pad_w = params.pad_w;
    problem.dil_h = params.dil_h;
    problem.dil_w = params.dil_w;
    problem.taps_w = params.s;
    problem.tap_stride = params.c_stride;
    problem.chunks_per_tap = plan.chunks_per_tap;
    problem.chunks = plan.chunks;
    problem.split = split;
    problem.split_bits = std::bit_width(static_cast<unsigned>(split)) - 1;
    problem.stages = plan.stages;
    problem.staging = plan.staging;
    problem.im2col = !is_matrix(params);

    alignas(64) CUtensorMap pair[2];
    std::memcpy(pair, maps, sizeof(pair));
    void* arguments[] = {&pair[0], &pair[1], &problem};
    return sm90::launch_cluster(instance.kernel,
                                dim3(static_cast<unsigned>(plan.tiles_n * split), static_cast<unsigned>(plan.tiles_m)),
                                instance.threads, plan.shared_bytes, split, stream, programmatic, arguments);
}

} // namespace lathe::cuda::kernels
