#pragma once

#include <memory>
#include <string>

#include "backends/tensorrt/api.hpp"
#include "lathe/result.hpp"

namespace lathe::tensorrt {

/// TensorRT's two libraries, opened at run time so that the program starts without them.
struct Library {
    bool found = false;
    std::string version;     ///< "1.7.1"
    std::string path;        ///< of the main library
    std::string cause, cure; ///< where not found, or of a version that does not fit the headers
    void* main = nullptr;    ///< of dlopen; never closed
    void* parser = nullptr;

    /// Errors: internal, with TensorRT's own words in the log.
    Result<std::unique_ptr<nvinfer1::IBuilder>> make_builder() const;
    Result<std::unique_ptr<nvonnxparser::IParser>> make_parser(nvinfer1::INetworkDefinition& network) const;
    Result<std::unique_ptr<nvinfer1::IRuntime>> make_runtime() const;
    Result<std::unique_ptr<nvinfer1::IRefitter>> make_refitter(nvinfer1::ICudaEngine& engine) const;
    /// The refitter must outlive it.
    Result<std::unique_ptr<nvonnxparser::IParserRefitter>> make_onnx_refitter(nvinfer1::IRefitter& refitter) const;
};

/// Looked for in: `named_tensorrt_folders`; the loader's own search (LD_LIBRARY_PATH); `python_tensorrt_folders`. The
/// major version must be that
/// of the headers and the minor one at least theirs: TensorRT's classes only grow within a major version.
/// Loaded once; thread-safe.
const Library& library();

/// "TensorRT-RTX 1.6.1": the headers this was compiled with.
std::string header_version();

} // namespace lathe::tensorrt
