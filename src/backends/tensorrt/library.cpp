#include "backends/tensorrt/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "backends/tensorrt/messages.hpp"

namespace lathe::tensorrt {

namespace {

namespace fs = std::filesystem;

struct FileNames {
    std::string main, parser;
};

FileNames file_names(bool rtx, int major) {
    const std::string ending = ".so." + std::to_string(major);
    if (rtx) return {"libtensorrt_rtx" + ending, "libtensorrt_onnxparser_rtx" + ending};
    return {"libnvinfer" + ending, "libnvonnxparser" + ending};
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// A folder named by the user: as it is, as an SDK, as a site-packages folder.
void add_root(const fs::path& root, std::vector<fs::path>& folders) {
    for (const char* part : {"", "lib", "lib64", "tensorrt_rtx_libs", "tensorrt_libs"})
        folders.push_back(*part == '\0' ? root : root / part);
}

std::vector<fs::path> named_folders() {
    std::vector<fs::path> folders;
    std::string rest = environment("LATHE_TENSORRT_LIBRARIES");
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) add_root(rest.substr(0, end), folders);
        rest.erase(0, end + 1);
    }
    if (const std::string root = environment("TENSORRT_ROOT"); !root.empty()) add_root(root, folders);
    return folders;
}

/// lib/python3.*/site-packages of the Python environments that the user works in.
std::vector<fs::path> python_folders() {
    std::vector<fs::path> folders;
    std::vector<fs::path> environments;
    // Not resolved: a virtual environment's python is a link out of it.
    if (const fs::path python = environment("LATHE_PYTHON"); python.has_parent_path())
        environments.push_back(python.parent_path().parent_path());
    if (const std::string root = environment("VIRTUAL_ENV"); !root.empty()) environments.emplace_back(root);
    for (const auto& root : environments) {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(root / "lib", ignored)) {
            if (entry.path().filename().string().starts_with("python"))
                add_root(entry.path() / "site-packages", folders);
        }
    }
    return folders;
}

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
    if (void* handle = open_in(named_folders())) return handle;
    if (void* handle = open(name, false)) return handle;
    return open_in(python_folders());
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

/// Another product or version that is installed instead; "" if none is.
std::string other_version_found() {
    std::string ignored;
    for (const bool rtx : {true, false}) {
        for (const int major : {1, 2, 8, 9, 10, 11, 12}) {
            if ((rtx == is_rtx && major == NV_TENSORRT_MAJOR) || rtx != (major < 8)) continue;
            const std::string name = file_names(rtx, major).main;
            if (void* handle = open_library(name, ignored)) {
                ::dlclose(handle);
                return std::string(rtx ? "TensorRT-RTX " : "TensorRT ") + std::to_string(major) + " (" + name + ")";
            }
        }
    }
    return "";
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
    const FileNames names = file_names(is_rtx, NV_TENSORRT_MAJOR);
    std::string why;
    library.main = open_library(names.main, why);
    if (library.main == nullptr) {
        library.cause = names.main + " was not found";
        if (!why.empty()) library.cause = names.main + " does not open: " + why;
        library.cure = install_cure();
        if (const std::string other = other_version_found(); !other.empty()) {
            library.cause +=
                "; " + other + " is here, but this build of Lathe was made with the headers of " + header_version();
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
