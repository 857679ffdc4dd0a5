#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/sm90/chain_gemm.cuh"
#include "backends/cuda/kernels/sm90/host.hpp"

namespace lathe::cuda::kernels {

namespace {

using sm90::ChainInstance;
using sm90::ChainMaps;
static_assert(sizeof(ChainMaps) == chain_maps_bytes);

const std::vector<ChainInstance>& instances() {
    static const std::vector<ChainInstance> all = sm90::joined<ChainInstance>({sm90::chain_s8, sm90::chain_f16});
    return all;
}

/// 1x1 without padding from `c` channels, results straight from registers.
bool is_part(const ImplicitGemmParams& params, int run, int c) {
    const bool walks = sm90::is_matrix(params) || (sm90::is_walkable(params.h, params.p, params.stride_h, 0, 0) &&
                                                   sm90::is_walkable(params.w, params.q, params.stride_w, 0, 0));
    return walks && params.r == 1 && params.s == 1 && params.pad_h == 0 && params.pad_w == 0 && params.c == c &&
           params.c_stride == c && params.c_pitch == c && params.k_pitch == params.k_stride &&
           !sm90::is_curved(params.epilogue) && sm90::is_direct(run, params);
}
sm90::ChainWalk walk_of(const ImplicitGemmParams& params) {
    return {params.stride_h, params.stride_w, !sm90::is_matrix(params)};
}
bool same_rows(const ImplicitGemmParams& a, const ImplicitGemmParams& b) {
    return a.n == b.n && a.p == b.p && a.q == b.q;
}
TileConfig config_of(const ChainForm& form) {
    TileConfig config{};
    config.in_type = config.out_type = form.type;
    return config;
}
/// int8 whose lowest result is 0.
bool is_positive(const ChainForm& form, const ImplicitGemmParams& params) {
    return form.type == type_s8 && sm90::destination_of(params, config_of(form), true).epilogue.low == 0;
}
sm90::MapFormat format_of(const ChainForm& form, int channels) {
    return {form.type, std::min(channels, 128 / sm90::element_bytes(form.type))};
}
std::int64_t rows_of(const ImplicitGemmParams& params) { return std::int64_t{params.n} * params.p * params.q; }
cudaError_t encode_input(CUtensorMap& map, const ChainForm& form, const ImplicitGemmParams& params) {
    const sm90::MapFormat format = format_of(form, params.c);
    return sm90::is_matrix(params)
               ? sm90::encode_matrix(map, format, params.input, params.c, rows_of(params), params.c_stride, 64)
               : sm90::encode_pixels(map, format, params.input, sm90::pixels_of(params, params.p, params.q), 64);
}

} // namespace

const ChainForm* chain_forms(int& count) {
    static const std::vector<ChainForm> forms = [] {
        std::vector<ChainForm> result;
        for (const ChainInstance& instance : instances())
            result.push_back(instance.form);
        return result;
    }();
    count = static_cast<int>(forms.size());
    return forms.data();
}

bool chain_takes(int form, const ChainParams& params, int type) {
    const ChainInstance& instance = instances()[static_cast<std::size_t>(form)];
    const ChainForm& f = instance.form;
    const ImplicitGemmParams& first = params.first;
    if (f.type != type || params.has_down != (f.kd > 0) || params.has_second != (f.n2 > 0)) return false;
    if (!is_part(first, instance.run, f.k1)) return false;
    if (params.has_second ? first.k != f.n1 : first.k % f.n1 != 0) return false;
    if (rows_of(first) > std::numeric_limits<std::int32_t>::max() / 2) return false;
    if (params.has_down) {
        const ImplicitGemmParams& down = params.down;
        if (!is_part(down, instance.run, f.kd) || down.k != first.k || !same_rows(first, down) ||
            down.epilogue.residual_scale != 0)
            return false;
    } else {
        const EpilogueParams& epilogue = first.epilogue;
        if ((epilogue.residual_is_s8 != 0) != (type == type_s8) || epilogue.residual_scale == 0) return false;
        if (epilogue.residual_stride != 0 && epilogue.residual_stride != first.k_stride) return false;
    }
    if (params.has_second) {
        const ImplicitGemmParams& second = params.second;
        if (!is_part(second, instance.run_second, f.n1) || !sm90::is_matrix(second) || second.k != f.n2 ||
            !same_rows(first, second) || second.epilogue.residual_scale != 0)
            return false;
    }
    return true;
}

cudaError_t encode_chain(int form, const ChainParams& params, void* maps) {
    const ChainInstance& instance = instances()[static_cast<std::size_t>(form)];
    const ChainForm& f = instance.form;
    const ImplicitGemmParams& first = params.first;
    const std::int64_t rows = rows_of(first);
    ChainMaps all{};
    cudaError_t error = encode_input(all.input, f, first);
    const auto then = [&](auto encode) {
        if (error == cudaSuccess) error = encode();
    };
    const auto middle = [&](CUtensorMap& map, const void* data) {
        return sm90::encode_matrix(map, format_of(f, f.n1), data, first.k, rows, first.k_stride, 64);
    };
    const auto weights = [&](CUtensorMap& map, const ImplicitGemmParams& part, int n, int run) {
        return sm90::encode_weights(map, format_of(f, part.c), part.weight, part.c_stride, part.k, n, run);
    };
    then([&] { return middle(all.middle, first.output); });
    then([&] { return weights(all.weight, first, 128, instance.run); });
    if (params.has_down) {
        then([&] { return weights(all.down_weight, params.down, 128, instance.run); });
        then([&] { return encode_input(all.down_input, f, params.down); });
    } else {
        then([&] { return middle(all.residual, first.epilogue.residual); });
    }
    if (params.has_second)
        then([&] { return weights(all.second_weight, params.second, instance.share_second, instance.run_second); });
    for (const void* kernel : instance.kernel)
        then([&] {
            return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instance.shared_bytes);
        });
    std::memcpy(maps, &all, sizeof(all));
    return error;
}

cudaError_t launch_chain(int form, const ChainParams& params, const void* maps, cudaStream_t stream,
                         bool programmatic) {
    const ChainInstance& instance = instances()[static_cast<std::size_t>(form)];
    const ChainForm& f = instance.form;
    const TileConfig config = config_of(f);
    sm90::ChainProblem problem{};
    problem.first = sm90::destination_of(params.first, config, true);
    problem.tiles = static_cast<std::int32_t>((rows_of(params.first) + 63) / 64);
    problem.p = params.first.p;
    problem.q = params.first.q;
    problem.input = walk_of(params.first);
    if (params.has_down) {
        problem.down = sm90::destination_of(params.down, config, true);
        problem.down_input = walk_of(params.down);
    }
    if (params.has_second) problem.second = sm90::destination_of(params.second, config, true);
    const bool positive = is_positive(f, params.first) && (!params.has_second || is_positive(f, params.second));

    int device = 0, multiprocessors = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        error != cudaSuccess)
        return error;
    // As few blocks as finish in as many turns.
    const int columns = params.first.k / f.n1;
    const int share = std::min(std::max(1, multiprocessors / columns), problem.tiles);
    const int turns = (problem.tiles + share - 1) / share;

    alignas(64) ChainMaps all;
    std::memcpy(&all, maps, sizeof(all));
    void* arguments[] = {&all, &problem};
    return sm90::launch_cluster(
        instance.kernel[positive ? 1 : 0],
        dim3(static_cast<unsigned>(columns), static_cast<unsigned>((problem.tiles + turns - 1) / turns)),
        instance.threads, instance.shared_bytes, 1, stream, programmatic, arguments);
}

} // namespace lathe::cuda::kernels
