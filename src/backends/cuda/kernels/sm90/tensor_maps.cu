#include <algorithm>

#include "backends/cuda/kernels/sm90/geometry.hpp"
#include "backends/cuda/kernels/sm90/tensor_maps.hpp"

namespace lathe::cuda::kernels::sm90 {

namespace {

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

CUtensorMapDataType data_type(int type) {
    return type == type_s8    ? CU_TENSOR_MAP_DATA_TYPE_UINT8
           : type == type_f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                              : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}
CUtensorMapSwizzle swizzle_of(const MapFormat& format) {
    return format.chunk * element_bytes(format.type) == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}
cuuint64_t wide(std::int64_t x) { return static_cast<cuuint64_t>(x); }
cuuint32_t narrow(int x) { return static_cast<cuuint32_t>(x); }

} // namespace

cudaError_t encode_tiled(CUtensorMap& map, const MapFormat& format, const void* data, int rank, const cuuint64_t* dims,
                         const cuuint64_t* strides, const cuuint32_t* box) {
    decltype(&cuTensorMapEncodeTiled) encode = nullptr;
    if (const cudaError_t error = driver_function("cuTensorMapEncodeTiled", encode); error != cudaSuccess) return error;
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    const CUresult result = encode(&map, data_type(format.type), narrow(rank), const_cast<void*>(data), dims, strides,
                                   box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(format),
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t encode_matrix(CUtensorMap& map, const MapFormat& format, const void* data, std::int64_t columns,
                          std::int64_t rows, std::int64_t row_elements, int box_rows) {
    const cuuint64_t dims[2] = {wide(columns), wide(rows)};
    const cuuint64_t strides[1] = {wide(row_elements * element_bytes(format.type))};
    const cuuint32_t box[2] = {narrow(format.chunk), narrow(box_rows)};
    return encode_tiled(map, format, data, 2, dims, strides, box);
}

cudaError_t encode_weights(CUtensorMap& map, const MapFormat& format, const void* data, std::int64_t reduction,
                           std::int64_t k, int n, int run) {
    const cuuint64_t row = wide(reduction * element_bytes(format.type));
    cuuint64_t dims[5] = {wide(reduction), wide(k), 1, 1, 1}, strides[4] = {row, row, row, row};
    cuuint32_t box[5] = {narrow(format.chunk), narrow(n), 1, 1, 1};
    if (run > 0) {
        const cuuint64_t dealt[4] = {2, 4, wide(run / 2), wide(k / (4 * run))};
        const cuuint64_t far[4] = {row, row * wide(run), row * 2, row * wide(4 * run)};
        const cuuint32_t boxed[4] = {2, 4, narrow(run / 2), narrow(n / (4 * run))};
        std::copy_n(dealt, 4, dims + 1);
        std::copy_n(far, 4, strides);
        std::copy_n(boxed, 4, box + 1);
    }
    return encode_tiled(map, format, data, 5, dims, strides, box);
}

cudaError_t encode_rows(CUtensorMap& map, const MapFormat& format, const void* data, const Pixels& pixels, int count) {
    const cuuint64_t pixel_bytes = wide(std::int64_t{pixels.c_stride} * element_bytes(format.type));
    const cuuint64_t dims[4] = {wide(pixels.c), wide(pixels.w), wide(pixels.h), wide(pixels.n)};
    const cuuint64_t strides[3] = {pixel_bytes, pixel_bytes * wide(pixels.w),
                                   pixel_bytes * wide(pixels.w) * wide(pixels.h)};
    const cuuint32_t box[4] = {narrow(format.chunk), narrow(count), 1, 1};
    return encode_tiled(map, format, data, 4, dims, strides, box);
}

cudaError_t encode_pixels(CUtensorMap& map, const MapFormat& format, const void* data, const Pixels& pixels,
                          int count) {
    decltype(&cuTensorMapEncodeIm2col) encode = nullptr;
    if (const cudaError_t error = driver_function("cuTensorMapEncodeIm2col", encode); error != cudaSuccess)
        return error;
    const cuuint64_t pixel_bytes = wide(std::int64_t{pixels.c_stride} * element_bytes(format.type));
    const cuuint64_t dims[4] = {wide(pixels.c), wide(pixels.w), wide(pixels.h), wide(pixels.n)};
    const cuuint64_t strides[3] = {pixel_bytes, pixel_bytes * wide(pixels.w),
                                   pixel_bytes * wide(pixels.w) * wide(pixels.h)};
    const PixelBox across = pixel_box(pixels.w, pixels.q, pixels.stride_w, pixels.pad_w);
    const PixelBox down = pixel_box(pixels.h, pixels.p, pixels.stride_h, pixels.pad_h);
    const int lower[2] = {across.lower, down.lower}, upper[2] = {across.upper, down.upper};
    const cuuint32_t steps[4] = {1, narrow(pixels.stride_w), narrow(pixels.stride_h), 1};
    const CUresult result =
        encode(&map, data_type(format.type), 4, const_cast<void*>(data), dims, strides, lower, upper,
               narrow(format.chunk), narrow(count), steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(format),
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace lathe::cuda::kernels::sm90
