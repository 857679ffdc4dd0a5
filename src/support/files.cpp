#include "support/files.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "support/unfinished.hpp"

namespace lathe {

namespace {

Error system_error(const std::string& what, const std::filesystem::path& path, int code) {
    constexpr std::size_t shown = 300;
    std::string where = path.string();
    if (where.size() > shown) where = where.substr(0, shown) + "...";
    Error error{ErrorCode::io, what + ": " + std::strerror(code), std::move(where), ""};
    // No file can be of such a name; some names come out of other files.
    if (code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG || code == ELOOP) {
        error.code = ErrorCode::not_found;
        error.hint = "check the path";
    } else if (code == ENOSPC || code == EDQUOT) {
        error.hint = "free some disk space, or write elsewhere with --output";
    } else if (code == EFBIG) {
        error.hint = "a limit on the size of files is set (ulimit -f); raise it, or write elsewhere";
    } else if (code == EACCES || code == EPERM || code == EROFS) {
        error.hint = "check the permissions";
    }
    return error;
}

/// Leftovers of writers that were killed: ".NAME.<pid>.tmp" of processes that no longer run.
void remove_stale_temporaries(const std::filesystem::path& target) {
    const std::string prefix = "." + target.filename().string() + ".";
    const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
    std::error_code ignored;
    for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
        const std::string name = it->path().filename().string();
        if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
        const std::string pid = name.substr(prefix.size(), name.size() - prefix.size() - 4);
        if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) continue;
        if (!std::filesystem::exists("/proc/" + pid, ignored)) std::filesystem::remove(it->path(), ignored);
    }
}

/// How long whoever reads a pipe may take to open it, or to read on: it is there, or it never will be.
constexpr int pipe_patience_ms = 5000;

/// A device or a pipe, to write to. A pipe that nobody reads is refused; opened as a file is, it would hang.
Result<int> open_special(const std::filesystem::path& path) {
    for (int waited = 0;; waited += 20) {
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0) return fd;
        if (errno != ENXIO) return system_error("cannot open", path, errno);
        if (waited >= pipe_patience_ms) {
            return Error{ErrorCode::io, "nothing reads this pipe", path.string(), "start its reader first"};
        }
        if (::poll(nullptr, 0, 20) < 0) return Error{ErrorCode::cancelled, "interrupted", path.string(), ""};
    }
}

/// Waits until a pipe takes more.
Result<void> wait_for_reader(int fd, const std::filesystem::path& path) {
    pollfd waiting{fd, POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, pipe_patience_ms);
    if (ready > 0) return {};
    if (ready < 0) return Error{ErrorCode::cancelled, "interrupted", path.string(), ""};
    return Error{ErrorCode::io, "whatever reads this pipe does not go on", path.string(), "look at its reader"};
}

void discard(const std::filesystem::path& temporary) {
    ::unlink(temporary.c_str());
    forget_unfinished(temporary);
}

} // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
    // Not blocking: a pipe that nobody writes is refused below, not waited for.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return system_error("cannot open", path, errno);
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
        const int code = errno;
        ::close(fd);
        return system_error("cannot read", path, code);
    }
    if (!S_ISREG(info.st_mode)) {
        ::close(fd);
        return Error{ErrorCode::invalid_argument, "not a regular file", path.string(),
                     "name a file, not a folder or a pipe"};
    }
    const auto size = static_cast<std::size_t>(info.st_size);
    void* data = nullptr;
    if (size > 0) {
        data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            const int code = errno;
            ::close(fd);
            return system_error("cannot map", path, code);
        }
    }
    ::close(fd);
    return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
    if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
    std::error_code failed;
    const auto status = std::filesystem::status(path, failed);
    if (path.filename().empty() || std::filesystem::is_directory(status)) {
        return Error{ErrorCode::invalid_argument, "cannot write a file here: it is a folder", path.string(),
                     "give a file name"};
    }
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        // A device or a pipe is written to; renamed over, /dev/null would be a file from then on.
        LATHE_TRY(const int fd, open_special(path));
        return AtomicFile(fd, path, {});
    }
    // A link stays, and what it leads to is written.
    std::filesystem::path target = path;
    if (std::filesystem::is_symlink(path, failed) && std::filesystem::exists(status))
        target = std::filesystem::canonical(path, failed);
    remove_stale_temporaries(target);
    std::filesystem::path temporary = target;
    temporary.replace_filename("." + target.filename().string() + "." + std::to_string(::getpid()) + ".tmp");
    add_unfinished(temporary); // before it is there: an interruption in between removes it too
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        const int code = errno;
        forget_unfinished(temporary);
        return system_error("cannot create", path, code);
    }
    return AtomicFile(fd, std::move(target), std::move(temporary));
}

AtomicFile::AtomicFile(int fd, std::filesystem::path target, std::filesystem::path temporary)
    : fd_(fd), target_(std::move(target)), temporary_(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)) {}

AtomicFile::~AtomicFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!temporary_.empty()) discard(temporary_);
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) {
                LATHE_CHECK(wait_for_reader(fd_, target_));
                continue;
            }
            return system_error("cannot write", target_, errno);
        }
        size_ += static_cast<std::size_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Result<void> AtomicFile::commit() {
    if (temporary_.empty()) { // nothing to sync or to rename
        if (::close(std::exchange(fd_, -1)) != 0) return system_error("cannot write", target_, errno);
        return {};
    }
    if (::fsync(fd_) != 0) return system_error("cannot write", target_, errno);
    if (::close(std::exchange(fd_, -1)) != 0) {
        const int code = errno;
        discard(temporary_);
        return system_error("cannot write", target_, code);
    }
    if (const std::error_code failed = finish(temporary_, target_)) {
        discard(temporary_);
        return system_error("cannot rename into place", target_, failed.value());
    }
    return {};
}

Result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    LATHE_TRY(AtomicFile file, AtomicFile::create(path));
    LATHE_CHECK(file.write(bytes));
    return file.commit();
}

Result<void> write_file(const std::filesystem::path& path, std::string_view text) {
    return write_file(path, std::as_bytes(std::span(text)));
}

bool is_folder(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored);
}

bool is_file(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
}

Result<void> look_for(const std::vector<std::string>& paths) {
    std::error_code failed;
    for (const std::string& path : paths) {
        if (path.empty() || std::filesystem::exists(path, failed)) continue;
        return Error{ErrorCode::not_found, "no such file or folder", path, "check the path"};
    }
    return {};
}

Result<ScratchFolder> ScratchFolder::create() {
    std::error_code failure;
    const auto base = std::filesystem::temp_directory_path(failure);
    std::string pattern = (base / "lathe-XXXXXX").string();
    if (failure || ::mkdtemp(pattern.data()) == nullptr) {
        return Error{ErrorCode::io, "cannot make a temporary folder", base.string(),
                     "set TMPDIR to a folder that can be written"};
    }
    add_unfinished(pattern);
    return ScratchFolder(pattern);
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    if (path_.empty()) return;
    std::filesystem::remove_all(path_, ignored);
    forget_unfinished(path_);
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit) {
    LATHE_TRY(const auto mapped, MappedFile::open(path));
    const auto bytes = mapped->bytes();
    if (bytes.size() > limit) {
        return Error{ErrorCode::invalid_argument, "file too large: " + std::to_string(bytes.size()) + " bytes",
                     path.string(), "at most " + std::to_string(limit) + " bytes are read here"};
    }
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

} // namespace lathe
