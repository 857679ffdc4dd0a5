#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace lathe::test {

struct CommandResult {
    int exit_code = -1; ///< 128 + signal if it was killed
    std::string output; ///< standard output
    std::string errors; ///< standard error
};

/// A fresh folder, removed at the end of the scope.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "lathe-test-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

/// Runs a shell command line to its end.
inline CommandResult run_command(const std::string& command) {
    const TemporaryFolder folder;
    const auto errors = folder / "errors";
    CommandResult result;
    FILE* pipe = ::popen(("( " + command + " ) 2>" + errors.string()).c_str(), "r");
    if (pipe == nullptr) return result;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
        result.output.append(buffer.data(), n);
    }
    const int status = ::pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::ostringstream text;
    text << std::ifstream(errors).rdbuf();
    result.errors = text.str();
    return result;
}

} // namespace lathe::test
