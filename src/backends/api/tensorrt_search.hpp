#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lathe {

/// TensorRT's file names: "libnvinfer.so.10" and "libnvonnxparser.so.10", those of TensorRT-RTX for `rtx`.
struct TensorRtFileNames {
    std::string main, parser;
};
TensorRtFileNames tensorrt_file_names(bool rtx, int major);

/// Folders that the user names in LATHE_TENSORRT_LIBRARIES (separated by colons) and TENSORRT_ROOT: each as it is, its
/// lib/ and lib64/, and as a Python site-packages folder its tensorrt_rtx_libs/ and tensorrt_libs/.
std::vector<std::filesystem::path> named_tensorrt_folders();
/// The same in the site-packages of the Pythons in LATHE_PYTHON and VIRTUAL_ENV.
std::vector<std::filesystem::path> python_tensorrt_folders();

/// A library file that is there. Whether it opens is not tried.
struct TensorRtLibrary {
    std::string product; ///< "TensorRT" or "TensorRT-RTX"
    std::string version; ///< as far as its name or what it links to tells: "10.16.1", "1"
    std::filesystem::path file;
};
/// All of TensorRT's main libraries in these folders, in LD_LIBRARY_PATH and where Linux systems keep libraries, one of
/// a product and version, in this order. Reads names alone: nothing is opened.
std::vector<TensorRtLibrary> installed_tensorrt();
/// "TensorRT 10.16.1 (FILE), TensorRT-RTX 1 (FILE)"; "" for none.
std::string describe(const std::vector<TensorRtLibrary>& libraries);

} // namespace lathe
