#include "support/unfinished.hpp"

#include <mutex>
#include <set>
#include <system_error>

namespace lathe {

namespace {

struct Unfinished {
    std::mutex mutex;
    std::set<std::filesystem::path> paths;
};

/// Never destroyed: a session may end while a thread still writes.
Unfinished& unfinished() {
    static auto* all = new Unfinished;
    return *all;
}

} // namespace

void add_unfinished(const std::filesystem::path& path) {
    const std::scoped_lock lock(unfinished().mutex);
    unfinished().paths.insert(path);
}

void forget_unfinished(const std::filesystem::path& path) {
    const std::scoped_lock lock(unfinished().mutex);
    unfinished().paths.erase(path);
}

std::error_code finish(const std::filesystem::path& temporary, const std::filesystem::path& target) {
    const std::scoped_lock lock(unfinished().mutex);
    std::error_code failed;
    std::filesystem::rename(temporary, target, failed);
    if (!failed) unfinished().paths.erase(temporary);
    return failed;
}

void remove_unfinished() {
    unfinished().mutex.lock(); // and kept
    std::error_code ignored;
    for (const auto& path : unfinished().paths)
        std::filesystem::remove_all(path, ignored);
}

} // namespace lathe
