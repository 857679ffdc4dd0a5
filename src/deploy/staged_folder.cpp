#include "deploy/staged_folder.hpp"

#include <unistd.h>

namespace lathe {

Result<StagedFolder> StagedFolder::create(const std::filesystem::path& target) {
    std::filesystem::path staging =
        target.parent_path() / ("." + target.filename().string() + "." + std::to_string(::getpid()) + ".tmp");
    std::error_code failed;
    std::filesystem::remove_all(staging, failed);
    std::filesystem::create_directories(staging, failed);
    if (failed) return Error{ErrorCode::io, "the folder cannot be made: " + failed.message(), staging.string(), ""};
    return StagedFolder(std::move(staging), target);
}

StagedFolder::~StagedFolder() {
    std::error_code ignored;
    if (!staging_.empty()) std::filesystem::remove_all(staging_, ignored);
}

Result<void> StagedFolder::commit() {
    std::error_code failed;
    std::filesystem::rename(staging_, target_, failed);
    if (failed) return Error{ErrorCode::io, "renaming failed: " + failed.message(), target_.string(), ""};
    staging_.clear();
    return {};
}

} // namespace lathe
