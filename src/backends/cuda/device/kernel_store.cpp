#include "backends/cuda/device/kernel_store.hpp"

#include <span>
#include <system_error>

#include "backends/cuda/device/libraries.hpp"
#include "backends/cuda/device/nvrtc.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

namespace lathe::cuda {

namespace {

constexpr std::size_t digest_size = 32; ///< hexadecimal digits in front of a kept file's code

std::string digest_of(std::string_view code) { return hash_hex(std::as_bytes(std::span(code))); }

/// A kept file's code; nothing if there is none, or it is damaged.
std::shared_ptr<const std::string> read_kept(const std::filesystem::path& file) {
    const auto text = read_text_file(file, std::size_t{64} << 20);
    if (!text || text->size() <= digest_size) return nullptr;
    auto code = std::make_shared<const std::string>(text->substr(digest_size));
    return digest_of(*code) == text->substr(0, digest_size) ? code : nullptr;
}

} // namespace

Result<std::shared_ptr<const LoadedKernel>> LoadedKernel::load(const std::string& code, const std::string& entry) {
    auto loaded = std::shared_ptr<LoadedKernel>(new LoadedKernel());
    LATHE_CUDA(cudaLibraryLoadData(&loaded->library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               "loading the generated kernel " + entry);
    LATHE_CUDA(cudaLibraryGetKernel(&loaded->kernel_, loaded->library_, entry.c_str()),
               "finding the generated kernel " + entry);
    return std::shared_ptr<const LoadedKernel>(std::move(loaded));
}

LoadedKernel::~LoadedKernel() {
    if (library_ != nullptr) static_cast<void>(cudaLibraryUnload(library_));
}

KernelStore& KernelStore::of_process() {
    static KernelStore store;
    return store;
}

std::string KernelStore::key(const std::string& source, int sm) {
    Hasher hasher;
    hasher.update(source);
    hasher.update(std::int64_t{sm});
    return hasher.hex();
}

std::shared_ptr<const std::string> KernelStore::find(const std::string& key) {
    std::filesystem::path kept;
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = code_.find(key); found != code_.end()) return found->second;
        kept = file_of(key);
    }
    if (kept.empty()) return nullptr;
    auto code = read_kept(kept);
    if (code) add(key, code);
    return code;
}

void KernelStore::add(const std::string& key, std::shared_ptr<const std::string> code) {
    const std::lock_guard lock(mutex_);
    code_.emplace(key, std::move(code));
}

Result<std::shared_ptr<const std::string>> KernelStore::compile(const std::string& source, const std::string& name,
                                                                int sm) {
    const std::string key = KernelStore::key(source, sm);
    if (auto found = find(key)) return found;
    LATHE_TRY(std::string compiled, compile_cuda(source, name, sm));
    auto code = std::make_shared<const std::string>(std::move(compiled));
    add(key, code);
    std::filesystem::path kept;
    {
        const std::lock_guard lock(mutex_);
        kept = file_of(key);
    }
    if (!kept.empty()) {
        // A convenience: a folder that cannot be written costs the next build a compilation.
        std::error_code ignored;
        std::filesystem::create_directories(kept.parent_path(), ignored);
        static_cast<void>(write_file(kept, digest_of(*code) + *code));
    }
    return code;
}

Result<std::shared_ptr<const LoadedKernel>> KernelStore::load(const std::string& key, const std::string& entry) {
    const auto code = find(key);
    if (code == nullptr) return Error{ErrorCode::internal, "a generated kernel without code", entry, "report this"};
    const std::lock_guard lock(mutex_);
    if (auto found = loaded_[key].lock()) return found;
    LATHE_TRY(auto loaded, LoadedKernel::load(*code, entry));
    loaded_[key] = loaded;
    return loaded;
}

void KernelStore::keep_in(std::filesystem::path folder) {
    const std::lock_guard lock(mutex_);
    folder_ = std::move(folder);
}

std::filesystem::path KernelStore::file_of(const std::string& key) const {
    if (folder_.empty()) return {};
    const Library& nvrtc = nvrtc_library();
    return folder_ / (key + "-" + (nvrtc.found ? nvrtc.version : "none") + ".cubin");
}

} // namespace lathe::cuda
