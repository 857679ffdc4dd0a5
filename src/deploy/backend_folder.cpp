#include "deploy/backend_folder.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/staged_folder.hpp"
#include "support/files.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

constexpr const char* backend_library = "libtriton_lathe.so";

int note_library(dl_phdr_info* info, std::size_t /*size*/, void* list) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0')
        static_cast<std::vector<fs::path>*>(list)->emplace_back(info->dlpi_name);
    return 0;
}

/// Shared libraries of this process: what the backend is linked with, and what else the program has.
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

/// A structure of the file at an offset; nothing beyond the file's end.
template <class T>
std::optional<T> structure_at(std::span<const std::byte> file, std::uint64_t offset) {
    if (offset > file.size() || sizeof(T) > file.size() - offset) return std::nullopt;
    T value;
    std::memcpy(&value, file.data() + offset, sizeof(T));
    return value;
}

/// Where the loaded address lies in the file.
std::optional<std::uint64_t> offset_of(std::uint64_t address, const std::vector<Elf64_Phdr>& segments) {
    for (const Elf64_Phdr& segment : segments) {
        const bool inside = address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
        if (segment.p_type == PT_LOAD && inside) return segment.p_offset + (address - segment.p_vaddr);
    }
    return std::nullopt;
}

/// The libraries that a shared library names as needed (DT_NEEDED of ELF, System V ABI, chapter 5). Errors: corrupt.
Result<std::vector<std::string>> needed_by(const fs::path& library) {
    LATHE_TRY(const auto mapped, MappedFile::open(library));
    const std::span<const std::byte> file = mapped->bytes();
    const Error corrupt{ErrorCode::corrupt, "this is no shared library of 64 bits", library.string(),
                        "install Lathe again"};
    const auto header = structure_at<Elf64_Ehdr>(file, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
        return corrupt;
    std::vector<Elf64_Phdr> segments;
    for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
        const auto segment = structure_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
        if (!segment) return corrupt;
        segments.push_back(*segment);
    }
    const auto dynamic = std::ranges::find(segments, PT_DYNAMIC, &Elf64_Phdr::p_type);
    if (dynamic == segments.end()) return corrupt;
    std::vector<std::uint64_t> names;
    std::optional<std::uint64_t> strings;
    for (std::uint64_t at = dynamic->p_offset;; at += sizeof(Elf64_Dyn)) {
        const auto entry = structure_at<Elf64_Dyn>(file, at);
        if (!entry) return corrupt;
        if (entry->d_tag == DT_NULL) break;
        if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
        if (entry->d_tag == DT_STRTAB) strings = offset_of(entry->d_un.d_ptr, segments);
    }
    if (!strings) return corrupt;
    std::vector<std::string> needed;
    for (const std::uint64_t name : names) {
        const std::uint64_t at = *strings + name;
        if (at >= file.size()) return corrupt;
        const char* const text = reinterpret_cast<const char*>(file.data() + at);
        needed.emplace_back(text, ::strnlen(text, file.size() - at));
    }
    return needed;
}

/// Of the libraries of this process those that the backend needs, and what they need, beside those of the system.
Result<std::vector<fs::path>> libraries_of(const fs::path& backend) {
    const std::vector<fs::path> loaded = loaded_libraries();
    std::vector<fs::path> found;
    std::vector<fs::path> open{backend};
    while (!open.empty()) {
        LATHE_TRY(const std::vector<std::string> needed, needed_by(open.back()));
        open.pop_back();
        for (const std::string& name : needed) {
            const auto library = std::ranges::find(loaded, fs::path(name), &fs::path::filename);
            if (is_of_the_system(name) || library == loaded.end()) continue;
            if (std::ranges::find(found, *library) != found.end()) continue;
            found.push_back(*library);
            open.push_back(*library);
        }
    }
    return found;
}

/// The folder that holds a file of this process, the program or the library with this code.
fs::path folder_of_code() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&triton_backends_folder), &info) == 0 || info.dli_fname == nullptr)
        return {};
    std::error_code failed;
    return fs::canonical(info.dli_fname, failed).parent_path();
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
    // Of the program PREFIX/bin/lathe, and of PREFIX/lib/liblathe.so, whatever program has loaded it.
    const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path();
    const fs::path expected = (program.parent_path() / "lib" / "lathe" / "triton").lexically_normal();
    const fs::path beside = folder_of_code() / "lathe" / "triton";
    for (const fs::path& folder : {expected, beside}) {
        if (folder.is_absolute() && fs::exists(folder / "lathe" / backend_library, failed)) return folder;
    }
    return Error{ErrorCode::not_found, "Lathe's backend for Triton is not installed beside this program",
                 (expected / "lathe" / backend_library).string(),
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
    LATHE_TRY(const std::vector<fs::path> libraries, libraries_of(installed / "lathe" / backend_library));
    for (const fs::path& library : libraries) {
        const std::string name = library.filename().string();
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
