#pragma once

#include <string>

#include "lathe/result.hpp"

namespace lathe::cuda {

/// Compiles CUDA C++ to machine code of one compute capability (90 for 9.0). Thread-safe; needs no GPU.
/// Errors: unsupported (NVRTC is missing, or too old for this GPU), internal (what the compiler said).
Result<std::string> compile_cuda(const std::string& source, const std::string& name, int sm);

} // namespace lathe::cuda
