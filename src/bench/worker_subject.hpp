#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bench/subject.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/python.hpp"

namespace lathe {

/// A framework in a Python process of its own (python/lathe_worker), timed inside it. `source` is the model's
/// `lathe.source` metadata, or null; `code` is the FILE.py:function that the user named for it, or empty. Fails, with
/// what to install, if the framework is missing or refuses the model. The input file for `prepare` is written to
/// `scratch`, a folder that outlives the subject.
Result<std::unique_ptr<Subject>> make_worker_subject(SubjectInfo info, const Json& source, const std::string& code,
                                                     const PythonPlace& python, std::filesystem::path scratch,
                                                     Progress& progress);

} // namespace lathe
