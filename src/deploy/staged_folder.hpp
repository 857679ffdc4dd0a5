#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "lathe/result.hpp"

namespace lathe {

/// A folder that is renamed to its name when it is whole, and otherwise removed.
class StagedFolder {
public:
    static Result<StagedFolder> create(const std::filesystem::path& target);
    ~StagedFolder();
    StagedFolder(StagedFolder&& other) noexcept
        : staging_(std::exchange(other.staging_, {})), target_(std::move(other.target_)) {}
    StagedFolder& operator=(StagedFolder&&) = delete;

    std::filesystem::path operator/(const std::string& name) const { return staging_ / name; }
    Result<void> commit();

private:
    StagedFolder(std::filesystem::path staging, std::filesystem::path target)
        : staging_(std::move(staging)), target_(std::move(target)) {}
    std::filesystem::path staging_;
    std::filesystem::path target_;
};

} // namespace lathe
