#include "deploy/staged_folder.hpp"

#include <unistd.h>

#include "support/unfinished.hpp"

namespace lathe {

Result<StagedFolder> StagedFolder::create(const std::filesystem::path& target) {
    std::filesystem::path staging =
        target.parent_path() / ("." + target.filename().string() + "." + std::to_string(::getpid()) + ".tmp");
    std::error_code failed;
    std::filesystem::remove_all(staging, failed);
    add_unfinished(staging);
    std::filesystem::create_directories(staging, failed);
    if (failed) forget_unfinished(staging);
    if (failed) return Error{ErrorCode::io, "the folder cannot be made: " + failed.message(), staging.string(), ""};
    return StagedFolder(std::move(staging), target);
}

StagedFolder::~StagedFolder() {
    std::error_code ignored;
    if (staging_.empty()) return;
    std::filesystem::remove_all(staging_, ignored);
    forget_unfinished(staging_);
}

Result<void> StagedFolder::commit() {
    const std::error_code failed = finish(staging_, target_);
    if (failed) return Error{ErrorCode::io, "renaming failed: " + failed.message(), target_.string(), ""};
    staging_.clear();
    return {};
}

} // namespace lathe
