#pragma once

#include <string>

#include "lathe/result.hpp"

namespace lathe::cuda {

/// Vendor libraries opened at run time, so that the program starts without them. `path` is where it was found.
struct Library {
    bool found = false;
    std::string version, path, cause, cure;
    void* handle = nullptr; ///< of dlopen; never closed

    /// The address of a function, or nullptr (library or function missing).
    void* symbol(const char* name) const;
};
/// Looked for in: LATHE_CUDNN, LATHE_CUBLASLT or LATHE_NVML (a file); the folders in LATHE_CUDA_LIBRARIES (separated by
/// colons; each as it is, its lib/, and as a Python site-packages folder its nvidia/*/lib); the loader's own search
/// (LD_LIBRARY_PATH); $CUDA_HOME/lib64, /usr/local/cuda/lib64. Loaded once; thread-safe.
const Library& cudnn_library();
const Library& cublaslt_library();
const Library& nvml_library();
/// The run-time compiler, which some of cuDNN's engines need.
const Library& nvrtc_library();

} // namespace lathe::cuda
