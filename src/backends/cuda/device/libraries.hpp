#pragma once

#include <string>

#include "lathe/result.hpp"

namespace lathe::cuda {

/// Vendor libraries opened at run time, so that the program starts without them. `path` is where it was found.
struct Library {
    bool found = false;
    std::string version, path, cause, cure;
};
/// LATHE_CUDNN or LATHE_CUBLASLT (a file), the loader's path, $CUDA_HOME/lib64, /usr/local/cuda/lib64. Loaded once.
const Library& cudnn_library();
const Library& cublaslt_library();
const Library& nvml_library();

} // namespace lathe::cuda
