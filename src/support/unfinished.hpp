#pragma once

#include <filesystem>
#include <system_error>

namespace lathe {

/// Temporary files and folders that whoever made them will rename or remove; kept in one list for the end of a process
/// that does not come to that.
void add_unfinished(const std::filesystem::path& path);
void forget_unfinished(const std::filesystem::path& path);

/// Renames one of them to its name and forgets it.
std::error_code finish(const std::filesystem::path& temporary, const std::filesystem::path& target);

/// Removes them all. What calls finish() afterwards waits for ever: the process is about to end, and a folder that is
/// half removed must not get its name.
void remove_unfinished();

} // namespace lathe
