// The functions of cuDNN and NVRTC that cuDNN's C++ frontend links to, forwarded to the libraries opened at run time.
#include <cudnn.h>
#include <nvrtc.h>

#include "backends/cuda/device/libraries.hpp"

namespace {

template <class Function>
Function* find(const char* name) {
    return reinterpret_cast<Function*>(lathe::cuda::cudnn_library().symbol(name));
}

} // namespace

// NVRTC's, for engines that are compiled at run time. `parameters` come with their parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define LATHE_FORWARD_NVRTC(name, parameters, arguments)                                                               \
    extern "C" nvrtcResult name parameters {                                                                           \
        static const auto function =                                                                                   \
            reinterpret_cast<nvrtcResult(*) parameters>(lathe::cuda::nvrtc_library().symbol(#name));                   \
        return function == nullptr ? NVRTC_ERROR_INTERNAL_ERROR : function arguments;                                  \
    }
// NOLINTEND(bugprone-macro-parentheses)

LATHE_FORWARD_NVRTC(nvrtcCreateProgram,
                    (nvrtcProgram * program, const char* source, const char* name, int count,
                     const char* const* headers, const char* const* include_names),
                    (program, source, name, count, headers, include_names))
LATHE_FORWARD_NVRTC(nvrtcCompileProgram, (nvrtcProgram program, int count, const char* const* options),
                    (program, count, options))
LATHE_FORWARD_NVRTC(nvrtcDestroyProgram, (nvrtcProgram * program), (program))
LATHE_FORWARD_NVRTC(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t* size), (program, size))
LATHE_FORWARD_NVRTC(nvrtcGetProgramLog, (nvrtcProgram program, char* text), (program, text))
LATHE_FORWARD_NVRTC(nvrtcGetCUBINSize, (nvrtcProgram program, size_t* size), (program, size))
LATHE_FORWARD_NVRTC(nvrtcGetCUBIN, (nvrtcProgram program, char* code), (program, code))

#define LATHE_FORWARD(name, parameters, arguments)                                                                     \
    extern "C" cudnnStatus_t name parameters {                                                                         \
        static const auto function = find<cudnnStatus_t parameters>(#name);                                            \
        return function == nullptr ? CUDNN_STATUS_NOT_INITIALIZED : function arguments;                                \
    }

LATHE_FORWARD(cudnnCreate, (cudnnHandle_t * handle), (handle))
LATHE_FORWARD(cudnnDestroy, (cudnnHandle_t handle), (handle))
LATHE_FORWARD(cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream))
LATHE_FORWARD(cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* stream), (handle, stream))
LATHE_FORWARD(cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor),
              (type, descriptor))
LATHE_FORWARD(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))
LATHE_FORWARD(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
LATHE_FORWARD(cudnnBackendSetAttribute,
              (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
               int64_t count, const void* elements),
              (descriptor, name, type, count, elements))
LATHE_FORWARD(cudnnBackendGetAttribute,
              (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
               int64_t requested, int64_t* count, void* elements),
              (descriptor, name, type, requested, count, elements))
LATHE_FORWARD(cudnnBackendExecute,
              (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variants),
              (handle, plan, variants))
LATHE_FORWARD(cudnnBackendPopulateCudaGraph,
              (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variants,
               cudaGraph_t graph),
              (handle, plan, variants, graph))
LATHE_FORWARD(cudnnBackendUpdateCudaGraph,
              (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variants,
               cudaGraph_t graph),
              (handle, plan, variants, graph))

extern "C" size_t cudnnGetVersion() {
    static const auto function = find<size_t()>("cudnnGetVersion");
    return function == nullptr ? 0 : function();
}

extern "C" size_t cudnnGetCudartVersion() {
    static const auto function = find<size_t()>("cudnnGetCudartVersion");
    return function == nullptr ? 0 : function();
}

extern "C" const char* cudnnGetErrorString(cudnnStatus_t status) {
    static const auto function = find<const char*(cudnnStatus_t)>("cudnnGetErrorString");
    return function == nullptr ? "cuDNN is not loaded" : function(status);
}

extern "C" void cudnnGetLastErrorString(char* message, size_t size) {
    static const auto function = find<void(char*, size_t)>("cudnnGetLastErrorString");
    if (function != nullptr) {
        function(message, size);
    } else if (size > 0) {
        message[0] = '\0';
    }
}
