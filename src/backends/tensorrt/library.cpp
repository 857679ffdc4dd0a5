#include "backends/tensorrt/library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "backends/api/tensorrt_search.hpp"
#include "backends/tensorrt/messages.hpp"

namespace lathe::tensorrt {

namespace {

namespace fs = std::filesystem;

/// The library's handle, or nullptr; `why` gets the loader's words where a file was there and did not open.
void* open_library(const std::string& name, std::string& why) {
    const auto open = [&](const std::string& file, bool tell) {
        void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const char* message = handle == nullptr ? ::dlerror() : nullptr;
        if (tell && message != nullptr) why = message;
        return handle;
    };
    const auto open_in = [&](const std::vector<fs::path>& folders) -> void* {
        for (const auto& folder : folders) {
            std::error_code ignored;
            if (!fs::exists(folder / name, ignored)) continue;
            if (void* handle = open((folder / name).string(), true)) return handle;
        }
        return nullptr;
    };
    if (void* handle = open_in(named_tensorrt_folders())) return handle;
    if (void* handle = open(name, false)) return handle;
    return open_in(python_tensorrt_folders());
}

template <class Function>
Function function(void* handle, const char* name) {
    return reinterpret_cast<Function>(handle == nullptr ? nullptr : ::dlsym(handle, name));
}

std::string path_of(void* address) {
    Dl_info info{};
    return address != nullptr && ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

const char* install_cure() {
    return is_rtx ? "install TensorRT-RTX (its SDK, or: pip install tensorrt-rtx-cu13-libs) and name the folder in "
                    "LATHE_TENSORRT_LIBRARIES"
                  : "install TensorRT's SDK and name its folder in LATHE_TENSORRT_LIBRARIES";
}

/// Fills version and path; false with cause and cure where the version does not fit.
bool version_fits(Library& library) {
    const auto part = [&](const char* name) {
        const auto read = function<std::int32_t (*)()>(library.main, name);
        return read == nullptr ? -1 : read();
    };
    const int major = part("getInferLibMajorVersion"), minor = part("getInferLibMinorVersion");
    const int patch = part("getInferLibPatchVersion");
    library.path = path_of(::dlsym(library.main, "getInferLibMajorVersion"));
    library.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    if (major == NV_TENSORRT_MAJOR && minor >= NV_TENSORRT_MINOR) return true;
    library.cause = std::string(product_name) + " " + library.version + " was found (" + library.path +
                    "), but this build of Lathe was made with the headers of " + header_version() +
                    " and needs that version or a later one of the same major version";
    library.cure = "install " + header_version() + ", or build Lathe with -DTENSORRT_ROOT set to the installed SDK";
    return false;
}

Library load() {
    Library library;
    const TensorRtFileNames names = tensorrt_file_names(is_rtx, NV_TENSORRT_MAJOR);
    std::string why;
    library.main = open_library(names.main, why);
    if (library.main == nullptr) {
        library.cause = names.main + " was not found";
        if (!why.empty()) library.cause = names.main + " does not open: " + why;
        library.cure = install_cure();
        if (const std::string others = describe(installed_tensorrt()); !others.empty()) {
            library.cause +=
                "; " + others + " is here, but this build of Lathe was made with the headers of " + header_version();
            library.cure += ", or build Lathe with -DTENSORRT_ROOT set to that SDK";
        }
        return library;
    }
    if (!version_fits(library)) return library;
    library.parser = open_library(names.parser, why);
    if (library.parser == nullptr) {
        library.cause = names.parser + (why.empty() ? " was not found" : " does not open: " + why);
        library.cure = "install it beside " + library.path;
        return library;
    }
    library.found = true;
    return library;
}

/// What a C entry point made, or what went wrong.
template <class T>
Result<std::unique_ptr<T>> made(void* object, const Capture& capture, const char* what) {
    if (object != nullptr) return std::unique_ptr<T>(static_cast<T*>(object));
    return Error{ErrorCode::internal, std::string(product_name) + " gave no " + what + capture.because(), "tensorrt",
                 "see `lathe doctor`"};
}

} // namespace

std::string header_version() {
    return std::string(product_name) + " " + std::to_string(NV_TENSORRT_MAJOR) + "." +
           std::to_string(NV_TENSORRT_MINOR) + "." + std::to_string(NV_TENSORRT_PATCH);
}

Result<std::unique_ptr<nvinfer1::IBuilder>> Library::make_builder() const {
    const Capture capture;
    const auto create = function<void* (*)(void*, std::int32_t)>(main, "createInferBuilder_INTERNAL");
    return made<nvinfer1::IBuilder>(create == nullptr ? nullptr : create(&messages(), NV_TENSORRT_VERSION), capture,
                                    "builder");
}

Result<std::unique_ptr<nvonnxparser::IParser>> Library::make_parser(nvinfer1::INetworkDefinition& network) const {
    const Capture capture;
    const auto create = function<void* (*)(void*, void*, int)>(parser, "createNvOnnxParser_INTERNAL");
    return made<nvonnxparser::IParser>(
        create == nullptr ? nullptr : create(&network, &messages(), NV_ONNX_PARSER_VERSION), capture, "ONNX parser");
}

Result<std::unique_ptr<nvinfer1::IRuntime>> Library::make_runtime() const {
    const Capture capture;
    const auto create = function<void* (*)(void*, std::int32_t)>(main, "createInferRuntime_INTERNAL");
    return made<nvinfer1::IRuntime>(create == nullptr ? nullptr : create(&messages(), NV_TENSORRT_VERSION), capture,
                                    "runtime");
}

Result<std::unique_ptr<nvinfer1::IRefitter>> Library::make_refitter(nvinfer1::ICudaEngine& engine) const {
    const Capture capture;
    const auto create = function<void* (*)(void*, void*, std::int32_t)>(main, "createInferRefitter_INTERNAL");
    return made<nvinfer1::IRefitter>(create == nullptr ? nullptr : create(&engine, &messages(), NV_TENSORRT_VERSION),
                                     capture, "refitter");
}

Result<std::unique_ptr<nvonnxparser::IParserRefitter>>
Library::make_onnx_refitter(nvinfer1::IRefitter& refitter) const {
    const Capture capture;
    const auto create = function<void* (*)(void*, void*, std::int32_t)>(parser, "createNvOnnxParserRefitter_INTERNAL");
    return made<nvonnxparser::IParserRefitter>(
        create == nullptr ? nullptr : create(&refitter, &messages(), NV_ONNX_PARSER_VERSION), capture, "ONNX refitter");
}

const Library& library() {
    static const Library loaded = load();
    return loaded;
}

} // namespace lathe::tensorrt
