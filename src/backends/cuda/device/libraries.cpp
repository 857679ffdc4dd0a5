#include "backends/cuda/device/libraries.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

namespace lathe::cuda {

namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (end > 0) parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

/// Folders named by the user, before the loader's own search.
std::vector<std::filesystem::path> named_folders() {
    std::vector<std::filesystem::path> folders;
    for (const std::string& root : split(environment("LATHE_CUDA_LIBRARIES"), ':')) {
        const std::filesystem::path base(root);
        folders.push_back(base);
        folders.push_back(base / "lib");
        folders.push_back(base / "lib64");
        std::error_code ignored;
        std::vector<std::filesystem::path> wheels;
        for (const auto& entry : std::filesystem::directory_iterator(base / "nvidia", ignored))
            wheels.push_back(entry.path() / "lib");
        std::sort(wheels.begin(), wheels.end());
        folders.insert(folders.end(), wheels.begin(), wheels.end());
    }
    return folders;
}

std::vector<std::filesystem::path> usual_folders() {
    std::vector<std::filesystem::path> folders;
    if (const std::string home = environment("CUDA_HOME"); !home.empty()) {
        folders.emplace_back(std::filesystem::path(home) / "lib64");
        folders.emplace_back(std::filesystem::path(home) / "lib");
    }
    folders.emplace_back("/usr/local/cuda/lib64");
    folders.emplace_back("/usr/local/cuda/lib");
    return folders;
}

void* open_library(const std::string& file) { return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }

/// The folder a loaded function lies in, as the loader knows it.
std::string path_of(void* address) {
    Dl_info info{};
    return address != nullptr && ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Opens the first of `names` that is found; fills handle and the cause.
Library find_library(const char* what, const char* variable, const std::vector<std::string>& names) {
    Library library;
    std::string tried;
    const auto attempt = [&](const std::string& file) {
        library.handle = open_library(file);
        if (library.handle == nullptr) {
            const char* why = ::dlerror();
            if (tried.empty() && why != nullptr) tried = why;
        }
        return library.handle != nullptr;
    };
    const auto attempt_in = [&](const std::vector<std::filesystem::path>& folders) {
        for (const auto& folder : folders) {
            for (const auto& name : names) {
                std::error_code ignored;
                if (std::filesystem::exists(folder / name, ignored) && attempt((folder / name).string())) return true;
            }
        }
        return false;
    };
    const std::string named = environment(variable);
    if (!named.empty()) {
        // A file that was named must be the one: no silent second choice.
        attempt(named);
    } else if (!attempt_in(named_folders())) {
        for (const auto& name : names)
            if (attempt(name)) break;
        if (library.handle == nullptr) attempt_in(usual_folders());
    }
    library.found = library.handle != nullptr;
    if (!library.found) {
        library.cause = std::string(what) + " (" + names.front() + ") was not found: " + tried;
        library.cure =
            std::string("install it, or name its folder in LATHE_CUDA_LIBRARIES (or the file in ") + variable + ")";
    }
    return library;
}

std::string version_text(std::size_t version) {
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

/// Reads the version with `function`, which takes nothing and returns a size_t.
void add_version(Library& library, const char* function, const char* what) {
    if (!library.found) return;
    void* address = library.symbol(function);
    library.path = path_of(address);
    if (address == nullptr) {
        library.found = false;
        library.cause = std::string(what) + " has no function " + function;
        library.cure = "install a version for CUDA 13";
        return;
    }
    library.version = version_text(reinterpret_cast<std::size_t (*)()>(address)());
}

Library load_cublaslt() {
    Library library = find_library("cuBLASLt", "LATHE_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"});
    add_version(library, "cublasLtGetVersion", "cuBLASLt");
    return library;
}

Library load_cudnn() {
    // cuDNN opens these by name: found in the same folders if they are loaded first.
    cublaslt_library();
    nvrtc_library();
    Library library = find_library("cuDNN", "LATHE_CUDNN", {"libcudnn.so.9"});
    add_version(library, "cudnnGetVersion", "cuDNN");
    return library;
}

Library load_nvrtc() {
    Library library = find_library("NVRTC", "LATHE_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"});
    const auto version = reinterpret_cast<int (*)(int*, int*)>(library.symbol("nvrtcVersion"));
    int major = 0, minor = 0;
    if (version != nullptr && version(&major, &minor) == 0)
        library.version = std::to_string(major) + "." + std::to_string(minor);
    library.path = path_of(library.symbol("nvrtcVersion"));
    return library;
}

Library load_nvml() {
    Library library = find_library("NVML", "LATHE_NVML", {"libnvidia-ml.so.1"});
    if (!library.found) return library;
    const auto start = reinterpret_cast<int (*)()>(library.symbol("nvmlInit_v2"));
    const auto driver = reinterpret_cast<int (*)(char*, unsigned)>(library.symbol("nvmlSystemGetDriverVersion"));
    library.path = path_of(library.symbol("nvmlInit_v2"));
    if (start == nullptr || start() != 0) {
        library.found = false;
        library.cause = "NVML does not start";
        library.cure = "check `nvidia-smi`";
        return library;
    }
    char text[96] = {};
    if (driver != nullptr && driver(text, sizeof(text)) == 0) library.version = text;
    return library;
}

} // namespace

void* Library::symbol(const char* name) const { return handle == nullptr ? nullptr : ::dlsym(handle, name); }

const Library& cublaslt_library() {
    static const Library library = load_cublaslt();
    return library;
}

const Library& cudnn_library() {
    static const Library library = load_cudnn();
    return library;
}

const Library& nvrtc_library() {
    static const Library library = load_nvrtc();
    return library;
}

const Library& nvml_library() {
    static const Library library = load_nvml();
    return library;
}

} // namespace lathe::cuda
