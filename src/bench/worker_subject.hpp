#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// Where Python and our Python packages are.
struct PythonPlace {
    std::string interpreter;           ///< a path, or a name looked up on PATH
    std::filesystem::path package_dir; ///< the folder that holds lathe_worker and lathe_export
};

/// LATHE_PYTHON names the interpreter (else python3) and LATHE_PYTHON_DIR the package folder (else that of the source
/// tree or installation this was built for). Fails if the packages are not there.
Result<PythonPlace> find_python();

/// A framework in a Python process of its own (python/lathe_worker), timed inside it. `source` is the model's
/// `lathe.source` metadata, or null. Fails, with what to install, if the framework is missing or refuses the model.
/// The input file for `prepare` is written to `scratch`, a folder that outlives the subject.
Result<std::unique_ptr<Subject>> make_worker_subject(SubjectInfo info, const Json& source, const PythonPlace& python,
                                                     std::filesystem::path scratch, Progress& progress);

} // namespace lathe
