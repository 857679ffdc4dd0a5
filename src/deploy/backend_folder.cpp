#include "deploy/backend_folder.hpp"

#include <algorithm>
#include <array>
#include <link.h>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/staged_folder.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

constexpr const char* backend_library = "libtriton_lathe.so";

int note_library(dl_phdr_info* info, std::size_t /*size*/, void* list) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0')
        static_cast<std::vector<fs::path>*>(list)->emplace_back(info->dlpi_name);
    return 0;
}

/// Shared libraries of this process. It is linked with what the backend is linked with.
std::vector<fs::path> loaded_libraries() {
    std::vector<fs::path> libraries;
    dl_iterate_phdr(note_library, &libraries);
    return libraries;
}

/// Every system has its own, and two in a process would not do.
bool is_of_the_system(std::string_view name) {
    constexpr std::array<std::string_view, 13> system{
        "linux-vdso.",  "ld-linux",    "libc.so",      "libm.so",    "libdl.so",   "libpthread.so", "librt.so",
        "libresolv.so", "libgcc_s.so", "libstdc++.so", "libnvidia-", "libcuda.so", "libgomp.so"};
    return std::ranges::any_of(system, [&](std::string_view each) { return name.starts_with(each); });
}

/// OpenVINO opens these by name, from its own folder.
bool is_opened_later(std::string_view name) {
    constexpr std::array<std::string_view, 4> parts{"libopenvino_intel_cpu_plugin.so", "libopenvino_onnx_frontend.so",
                                                    "libopenvino_ir_frontend.so", "libtbb"};
    return std::ranges::any_of(parts, [&](std::string_view each) { return name.starts_with(each); });
}

Result<void> copy_into(const StagedFolder& folder, const fs::path& file) {
    std::error_code failed;
    fs::copy_file(file, folder / file.filename().string(), fs::copy_options::skip_existing, failed);
    if (failed) return Error{ErrorCode::io, "copying failed: " + failed.message(), file.string(), ""};
    return {};
}

} // namespace

Result<fs::path> triton_backends_folder() {
    std::error_code failed;
    const fs::path program = fs::read_symlink("/proc/self/exe", failed);
    const fs::path folder = (program.parent_path().parent_path() / "lib" / "lathe" / "triton").lexically_normal();
    if (!failed && fs::exists(folder / "lathe" / backend_library)) return folder;
    return Error{ErrorCode::not_found, "Lathe's backend for Triton is not installed beside this program",
                 (folder / "lathe" / backend_library).string(),
                 "build and install the whole of Lathe, or choose another --backend"};
}

Result<void> check_no_backend_in(const fs::path& folder) {
    const fs::path target = folder / "lathe";
    if (!fs::exists(target)) return {};
    return Error{ErrorCode::invalid_argument, "the backend exists there", target.string(),
                 "remove it, or choose another folder"};
}

Result<void> copy_triton_backend(const fs::path& installed, const fs::path& folder, const fs::path& tokenizers) {
    LATHE_CHECK(check_no_backend_in(folder));
    LATHE_TRY(StagedFolder staged, StagedFolder::create(folder / "lathe"));
    LATHE_CHECK(copy_into(staged, installed / "lathe" / backend_library));
    if (!tokenizers.empty()) LATHE_CHECK(copy_into(staged, tokenizers)); // looked for beside OpenVINO
    for (const fs::path& library : loaded_libraries()) {
        const std::string name = library.filename().string();
        if (is_of_the_system(name)) continue;
        LATHE_CHECK(copy_into(staged, library));
        if (!name.starts_with("libopenvino.so")) continue;
        std::error_code failed;
        for (const auto& entry : fs::directory_iterator(library.parent_path(), failed)) {
            if (is_opened_later(entry.path().filename().string())) LATHE_CHECK(copy_into(staged, entry.path()));
        }
        if (failed) return Error{ErrorCode::io, "listing failed: " + failed.message(), library.string(), ""};
    }
    return staged.commit();
}

} // namespace lathe
