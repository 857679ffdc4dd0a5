#include "support/python.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

namespace lathe {

namespace {

namespace fs = std::filesystem;

/// An environment variable; empty where it is not set.
std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool holds_packages(const fs::path& folder) {
    std::error_code ignored;
    return fs::is_directory(folder / "lathe_worker", ignored) && fs::is_directory(folder / "lathe_export", ignored);
}

} // namespace

std::string python_interpreter() {
    std::string named = variable("LATHE_PYTHON");
    return named.empty() ? "python3" : named;
}

Result<PythonPlace> find_python() {
    PythonPlace place{python_interpreter(), variable("LATHE_PYTHON_DIR")};
    if (!place.package_dir.empty()) {
        if (holds_packages(place.package_dir)) return place;
        return Error{ErrorCode::not_found, "LATHE_PYTHON_DIR does not hold Lathe's Python packages",
                     place.package_dir.string(), "set it to Lathe's folder python/, or unset it"};
    }
    std::error_code ignored;
    const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
    const std::array<fs::path, 2> folders{executable.parent_path().parent_path() / "share/lathe/python",
                                          fs::path(LATHE_PYTHON_SOURCE_DIR)};
    for (const fs::path& folder : folders) {
        place.package_dir = folder;
        if (holds_packages(folder)) return place;
    }
    return Error{ErrorCode::not_found, "Lathe's Python packages are not there", folders[0].string(),
                 "install Lathe again, or set LATHE_PYTHON_DIR to the source's folder python/"};
}

std::vector<std::string> python_command(const PythonPlace& python, std::string_view module) {
    // Before 3.11, which knows PYTHONSAFEPATH, -c puts an empty text, the working folder, on the path. sys is built in.
    return {python.interpreter, "-c",
            "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy.run_module('" + std::string(module) +
                "', run_name='__main__', alter_sys=True)"};
}

std::vector<std::pair<std::string, std::string>> python_environment(const PythonPlace& python) {
    std::string path = fs::absolute(python.package_dir).string();
    const std::string more = variable("PYTHONPATH");
    for (std::size_t begin = 0; begin < more.size();) {
        const std::size_t end = std::min(more.find(':', begin), more.size());
        const std::string folder = more.substr(begin, end - begin);
        if (folder.starts_with('/')) path += ":" + folder;
        begin = end + 1;
    }
    return {{"PYTHONPATH", path}, {"PYTHONSAFEPATH", "1"}, {"PYTHONDONTWRITEBYTECODE", "1"}};
}

} // namespace lathe
