#include "backends/api/tensorrt_search.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

namespace lathe {

namespace {

namespace fs = std::filesystem;

constexpr const char* full_stem = "libnvinfer.so.";
constexpr const char* rtx_stem = "libtensorrt_rtx.so.";

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::vector<std::string> listed(const std::string& paths) {
    std::vector<std::string> list;
    for (std::size_t begin = 0; begin < paths.size();) {
        const std::size_t end = std::min(paths.find(':', begin), paths.size());
        if (end > begin) list.push_back(paths.substr(begin, end - begin));
        begin = end + 1;
    }
    return list;
}

/// A folder named by the user: as it is, as an SDK, as a site-packages folder.
void add_root(const fs::path& root, std::vector<fs::path>& folders) {
    for (const char* part : {"", "lib", "lib64", "tensorrt_rtx_libs", "tensorrt_libs"})
        folders.push_back(*part == '\0' ? root : root / part);
}

std::vector<fs::path> system_folders() {
    std::vector<fs::path> folders;
    for (const std::string& folder : listed(environment("LD_LIBRARY_PATH")))
        folders.emplace_back(folder);
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                               "/usr/local/lib", "/usr/local/tensorrt/lib", "/opt/tensorrt/lib"})
        folders.emplace_back(folder);
    return folders;
}

/// The library of this name in the folder; a link's target tells more of the version than the link.
void add_library(const fs::path& file, std::vector<TensorRtLibrary>& found) {
    const auto version_in = [](const std::string& name, const char* stem) {
        return name.starts_with(stem) ? name.substr(std::string_view(stem).size()) : "";
    };
    for (const auto& [stem, product] : {std::pair{full_stem, "TensorRT"}, std::pair{rtx_stem, "TensorRT-RTX"}}) {
        const std::string own = version_in(file.filename().string(), stem);
        if (own.empty() || own.find_first_not_of("0123456789.") != std::string::npos) continue;
        std::error_code failed;
        const fs::path target = fs::canonical(file, failed);
        if (failed) continue;
        const std::string linked = version_in(target.filename().string(), stem);
        const TensorRtLibrary library{
            product, std::max(own, linked, [](const auto& a, const auto& b) { return a.size() < b.size(); }), file};
        const bool known = std::ranges::any_of(found, [&](const TensorRtLibrary& other) {
            return other.product == library.product && other.version == library.version;
        });
        if (!known) found.push_back(library);
    }
}

} // namespace

TensorRtFileNames tensorrt_file_names(bool rtx, int major) {
    const std::string number = std::to_string(major);
    if (rtx) return {rtx_stem + number, "libtensorrt_onnxparser_rtx.so." + number};
    return {full_stem + number, "libnvonnxparser.so." + number};
}

std::vector<fs::path> named_tensorrt_folders() {
    std::vector<fs::path> folders;
    for (const std::string& root : listed(environment("LATHE_TENSORRT_LIBRARIES")))
        add_root(root, folders);
    if (const std::string root = environment("TENSORRT_ROOT"); !root.empty()) add_root(root, folders);
    return folders;
}

std::vector<fs::path> python_tensorrt_folders() {
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

std::vector<TensorRtLibrary> installed_tensorrt() {
    std::vector<fs::path> folders = named_tensorrt_folders();
    for (auto more : {system_folders(), python_tensorrt_folders()})
        folders.insert(folders.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    std::vector<TensorRtLibrary> found;
    for (const fs::path& folder : folders) {
        std::vector<fs::path> files;
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with(full_stem) || name.starts_with(rtx_stem)) files.push_back(entry.path());
        }
        // The order of a folder's entries is the file system's.
        std::ranges::sort(files);
        for (const fs::path& file : files)
            add_library(file, found);
    }
    return found;
}

std::string describe(const std::vector<TensorRtLibrary>& libraries) {
    std::string text;
    for (const TensorRtLibrary& library : libraries)
        text +=
            (text.empty() ? "" : ", ") + library.product + " " + library.version + " (" + library.file.string() + ")";
    return text;
}

} // namespace lathe
