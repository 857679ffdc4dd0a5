#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace lathe::fuzz {

/// A file with these bytes, in memory where the system has a folder for that, for readers that take a path.
class File {
public:
    File(const std::uint8_t* data, std::size_t size, const std::string& suffix) {
        const std::filesystem::path memory = "/dev/shm";
        const auto folder = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
        path_ = folder / ("lathe-fuzz-" + std::to_string(::getpid()) + suffix);
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { std::filesystem::remove(path_); }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace lathe::fuzz
