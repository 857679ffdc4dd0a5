#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/sm90/implicit_gemm.cuh"

namespace lathe::cuda::kernels {

namespace {

using sm90::Instance;

const std::vector<Instance>& instances() {
    static const std::vector<Instance> all = [] {
        std::vector<Instance> result;
        for (const auto list : {sm90::s8_instances, sm90::f16_instances, sm90::bf16_instances}) {
            int count = 0;
            const Instance* first = list(count);
            result.insert(result.end(), first, first + count);
        }
        return result;
    }();
    return all;
}

int element_bytes(int type) { return type == type_f32 ? 4 : type == type_s8 ? 1 : 2; }

/// 1x1, stride 1, no padding: pixels are rows of a matrix.
bool is_matrix(const ImplicitGemmParams& params) {
    return params.r == 1 && params.s == 1 && params.stride_h == 1 && params.stride_w == 1 && params.pad_h == 0 &&
           params.pad_w == 0 && params.p == params.h && params.q == params.w;
}

/// Whether results can go straight from registers to memory: whole runs of channels, simple arithmetic behind the sums.
bool is_direct(const Instance& instance, const ImplicitGemmParams& params) {
    const auto aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
    return params.k % (4 * instance.run) == 0 && params.k == params.k_stride && params.epilogue.act <= 2 &&
           params.epilogue.output_scale_inverse == 1 && aligned(params.output) && aligned(params.epilogue.residual);
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
    if (params.stride_h > 8 || params.stride_w > 8) return false;
    const auto in_range = [](int extent, int outputs, int stride, int pad, int reach) {
        const sm90::PixelBox box = sm90::pixel_box(extent, outputs, stride, pad);
        return box.lower >= -128 && box.upper >= -128 && box.upper <= 127 && reach <= 255;
    };
    if (!is_matrix(params) &&
        (!in_range(params.h, params.p, params.stride_h, params.pad_h, (params.r - 1) * params.dil_h) ||
         !in_range(params.w, params.q, params.stride_w, params.pad_w, (params.s - 1) * params.dil_w)))
        return false;
    const std::int64_t rows = std::int64_t{params.n} * params.p * params.q;
    if (rows > std::numeric_limits<std::int32_t>::max() / 2) return false;
    plan.chunks_per_tap = (params.c_stride * element + chunk_bytes - 1) / chunk_bytes;
    plan.chunks = plan.chunks_per_tap * params.r * params.s;
    if (split > plan.chunks) return false;
    const int chunks = (plan.chunks + split - 1) / split;
    const int steps = (chunks + instance.chunks_per_stage - 1) / instance.chunks_per_stage;
    plan.stages = std::min(instance.config.stages, steps);
    const bool direct = is_direct(instance, params);
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

template <class Function>
cudaError_t driver_function(const char* name, Function& function) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess) return error;
    if (found != cudaDriverEntryPointSuccess || pointer == nullptr) return cudaErrorSymbolNotFound;
    function = reinterpret_cast<Function>(pointer);
    return cudaSuccess;
}

cudaError_t encode_matrix(CUtensorMap& map, CUtensorMapDataType type, int element, const void* data,
                          std::uint64_t columns, std::uint64_t rows, std::uint64_t row_elements, int box_columns,
                          int box_rows, CUtensorMapSwizzle swizzle) {
    static decltype(&cuTensorMapEncodeTiled) encode = nullptr;
    if (encode == nullptr)
        if (const cudaError_t error = driver_function("cuTensorMapEncodeTiled", encode); error != cudaSuccess)
            return error;
    const cuuint64_t dims[2] = {columns, rows};
    const cuuint64_t strides[1] = {row_elements * static_cast<std::uint64_t>(element)};
    const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows)};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult result =
        encode(&map, type, 2, const_cast<void*>(data), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/// Weights [k][reduction], their rows dealt to the columns of a tile as channel_of_column says; run 0: as they come.
cudaError_t encode_weights(CUtensorMap& map, CUtensorMapDataType type, int element, const void* data,
                           std::uint64_t reduction, std::uint64_t k, int chunk, int n, int run,
                           CUtensorMapSwizzle swizzle) {
    static decltype(&cuTensorMapEncodeTiled) encode = nullptr;
    if (encode == nullptr)
        if (const cudaError_t error = driver_function("cuTensorMapEncodeTiled", encode); error != cudaSuccess)
            return error;
    const cuuint64_t row = reduction * static_cast<cuuint64_t>(element);
    const auto wide = [](int x) { return static_cast<cuuint64_t>(x); };
    const auto narrow = [](int x) { return static_cast<cuuint32_t>(x); };
    cuuint64_t dims[5] = {reduction, k, 1, 1, 1}, strides[4] = {row, row, row, row};
    cuuint32_t box[5] = {narrow(chunk), narrow(n), 1, 1, 1};
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    if (run > 0) {
        const cuuint64_t dealt[4] = {2, 4, wide(run / 2), k / wide(4 * run)};
        const cuuint64_t far[4] = {row, row * wide(run), row * 2, row * wide(4 * run)};
        const cuuint32_t boxed[4] = {2, 4, narrow(run / 2), narrow(n / (4 * run))};
        std::copy_n(dealt, 4, dims + 1);
        std::copy_n(far, 4, strides);
        std::copy_n(boxed, 4, box + 1);
    }
    const CUresult result =
        encode(&map, type, 5, const_cast<void*>(data), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t encode_pixels(CUtensorMap& map, CUtensorMapDataType type, int element, const ImplicitGemmParams& params,
                          int chunk, int pixels, CUtensorMapSwizzle swizzle) {
    static decltype(&cuTensorMapEncodeIm2col) encode = nullptr;
    if (encode == nullptr)
        if (const cudaError_t error = driver_function("cuTensorMapEncodeIm2col", encode); error != cudaSuccess)
            return error;
    const auto extent = [](std::int32_t x) { return static_cast<cuuint64_t>(x); };
    const cuuint64_t pixel_bytes = extent(params.c_stride) * static_cast<cuuint64_t>(element);
    const cuuint64_t dims[4] = {extent(params.c), extent(params.w), extent(params.h), extent(params.n)};
    const cuuint64_t strides[3] = {pixel_bytes, pixel_bytes * extent(params.w),
                                   pixel_bytes * extent(params.w) * extent(params.h)};
    const sm90::PixelBox across = sm90::pixel_box(params.w, params.q, params.stride_w, params.pad_w);
    const sm90::PixelBox down = sm90::pixel_box(params.h, params.p, params.stride_h, params.pad_h);
    const int lower[2] = {across.lower, down.lower}, upper[2] = {across.upper, down.upper};
    const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(params.stride_w), static_cast<cuuint32_t>(params.stride_h),
                                 1};
    const CUresult result =
        encode(&map, type, 4, const_cast<void*>(params.input), dims, strides, lower, upper,
               static_cast<cuuint32_t>(chunk), static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace

const TileConfig* sm90_tiles(int& count) {
    static const std::vector<TileConfig> tiles = [] {
        std::vector<TileConfig> result;
        for (const Instance& instance : instances())
            result.push_back(instance.config);
        return result;
    }();
    count = static_cast<int>(tiles.size());
    return tiles.data();
}

bool sm90_takes(int tile, int split, const ImplicitGemmParams& params) {
    const auto index = static_cast<std::size_t>(tile);
    Plan plan;
    return tile >= 0 && index < instances().size() && make_plan(instances()[index], split, params, plan);
}

cudaError_t encode_maps_sm90(int tile, const ImplicitGemmParams& params, void* maps) {
    const Instance& instance = instances().at(static_cast<std::size_t>(tile));
    const int type = instance.config.in_type;
    const int element = element_bytes(type);
    const CUtensorMapDataType data = type == type_s8    ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                     : type == type_f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const int chunk = instance.config.k_bytes / element;
    const CUtensorMapSwizzle swizzle =
        instance.config.k_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    CUtensorMap pair[2];
    const auto size = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    cudaError_t error = is_matrix(params)
                            ? encode_matrix(pair[0], data, element, params.input, size(params.c),
                                            size(std::int64_t{params.n} * params.h * params.w), size(params.c_stride),
                                            chunk, instance.config.m, swizzle)
                            : encode_pixels(pair[0], data, element, params, chunk, instance.config.m, swizzle);
    if (error != cudaSuccess) return error;
    const std::int64_t reduction = std::int64_t{params.r} * params.s * params.c_stride;
    error = encode_weights(pair[1], data, element, params.weight, size(reduction), size(params.k), chunk,
                           instance.config.n, is_direct(instance, params) ? instance.run : 0, swizzle);
    if (error != cudaSuccess) return error;
    std::memcpy(maps, pair, sizeof(pair));
    return cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sm90::shared_limit);
}

cudaError_t launch_implicit_gemm_sm90(int tile, int split, const ImplicitGemmParams& params, const void* maps,
                                      cudaStream_t stream, bool programmatic) {
    const Instance& instance = instances().at(static_cast<std::size_t>(tile));
    const int type = instance.config.out_type;
    Plan plan;
    if (!make_plan(instance, split, params, plan)) return cudaErrorInvalidValue;

    sm90::Problem problem{};
    problem.to.output = params.output;
    problem.to.epilogue = params.epilogue;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (params.epilogue.act < 2) {
        problem.to.epilogue.low = params.epilogue.act == 1 ? 0 : -infinity;
        problem.to.epilogue.high = infinity;
    }
    problem.to.direct = is_direct(instance, params);
    problem.to.small_sums =
        problem.to.direct && instance.config.in_type == type_s8 && params.r * params.s * params.c <= 256;
    if (problem.to.direct && type == type_s8) {
        problem.to.epilogue.low = std::max(problem.to.epilogue.low, -128.0F);
        problem.to.epilogue.high = std::min(problem.to.epilogue.high, 127.0F);
    }
    problem.to.rows = params.n * params.p * params.q;
    problem.to.k = params.k;
    problem.to.k_stride = params.k_stride;
    problem.to.type = type;
    const auto aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
    problem.to.vectors =
        params.k_stride * element_bytes(type) % 16 == 0 && aligned(params.output) && aligned(params.epilogue.residual);
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
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    if (split > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim = {static_cast<unsigned>(split), 1, 1};
        ++count;
    }
    if (programmatic) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count].val.programmaticStreamSerializationAllowed = 1;
        ++count;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(plan.tiles_n * split), static_cast<unsigned>(plan.tiles_m));
    config.blockDim = dim3(static_cast<unsigned>(instance.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(plan.shared_bytes);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cudaLaunchKernelExC(&config, instance.kernel, arguments);
}

} // namespace lathe::cuda::kernels
