#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Where Python and our Python packages are.
struct PythonPlace {
    std::string interpreter;           ///< a path, or a name looked up on PATH
    std::filesystem::path package_dir; ///< the folder that holds lathe_worker and lathe_export
};

/// The variable LATHE_PYTHON, else python3.
std::string python_interpreter();

/// The interpreter above, and the package folder: LATHE_PYTHON_DIR, else the one installed beside this program, else
/// that of the source tree. Errors: not_found where the packages are not there.
Result<PythonPlace> find_python();

/// A command line that runs one of our modules as its own program. Whatever the interpreter's version, the working
/// folder is not where it looks for modules: a json.py beside a user's model is not run.
std::vector<std::string> python_command(const PythonPlace& python, std::string_view module);

/// What the environment of such a process has besides ours: the package folder on Python's path, before the absolute
/// folders of PYTHONPATH (an empty or relative one would mean the working folder), and the same rule for processes
/// that it starts itself.
std::vector<std::pair<std::string, std::string>> python_environment(const PythonPlace& python);

} // namespace lathe
