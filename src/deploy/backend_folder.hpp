#pragma once

#include <filesystem>

#include "lathe/result.hpp"

namespace lathe {

/// What tritonserver's --backend-directory is to be: its folder lathe/ holds this installation's libtriton_lathe.so.
/// Errors: not_found.
Result<std::filesystem::path> triton_backends_folder();

/// Errors: invalid_argument where FOLDER/lathe exists.
Result<void> check_no_backend_in(const std::filesystem::path& folder);

/// Makes FOLDER/lathe whole: the backend and the shared libraries that it needs beside those of the system (libc, the
/// C++ library and the GPU's). `tokenizers`: OpenVINO's library for models that take texts; empty: not needed. Errors:
/// invalid_argument (it exists), io. Nothing is left behind.
Result<void> copy_triton_backend(const std::filesystem::path& installed, const std::filesystem::path& folder,
                                 const std::filesystem::path& tokenizers);

} // namespace lathe
