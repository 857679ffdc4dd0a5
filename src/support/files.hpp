#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// A whole file, read-only, mapped into memory. An empty file gives an empty span.
class MappedFile {
public:
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }

private:
    MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
    const std::byte* data_;
    std::size_t size_;
};

/// A file that appears under its name only when whole: written to a temporary name beside it, synced, renamed.
/// Destroyed without `commit`, it leaves nothing behind; killed, it leaves the old file and one `.NAME.*.tmp`,
/// which the next writer of the same name removes. Devices and pipes are written to as they are; a link stays a link.
class AtomicFile {
public:
    /// Fails if the folder does not exist or cannot be written.
    static Result<AtomicFile> create(const std::filesystem::path& path);
    ~AtomicFile();
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;

    Result<void> write(std::span<const std::byte> bytes);
    Result<void> write(std::string_view text);
    /// Bytes written so far.
    std::size_t size() const { return size_; }
    /// Sync and rename to the final name. Nothing may be written after.
    Result<void> commit();

private:
    AtomicFile(int fd, std::filesystem::path target, std::filesystem::path temporary);
    int fd_;
    std::size_t size_ = 0;
    std::filesystem::path target_;
    std::filesystem::path temporary_; ///< empty: fd_ is the target itself
};

/// Links count as what they lead to; what cannot be looked at is neither.
bool is_folder(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);

/// not_found for the first of the paths that does not exist; empty ones are passed over.
Result<void> look_for(const std::vector<std::string>& paths);

/// A new folder for temporary files (under TMPDIR), removed with all that is in it at the end.
class ScratchFolder {
public:
    static Result<ScratchFolder> create();
    ~ScratchFolder();
    ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    ScratchFolder& operator=(ScratchFolder&&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
    std::filesystem::path path_;
};

/// create + write + commit.
Result<void> write_file(const std::filesystem::path& path, std::string_view text);
Result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// The whole file as text. `limit` bytes at most; a larger file is an error.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 30);

} // namespace lathe
