#include "support/writable.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "support/files.hpp"

namespace lathe {

Result<void> check_writable(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        std::error_code failed;
        // Opening a pipe and closing it again would end what reads it.
        if (path.empty() || std::filesystem::is_fifo(path, failed)) continue;
        if (auto writable = AtomicFile::create(path); !writable) return std::move(writable).error();
    }
    return {};
}

} // namespace lathe
