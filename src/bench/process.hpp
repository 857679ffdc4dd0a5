#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

struct ProgramOutput {
    int status = 0;   ///< exit code; 128 + signal if it was killed
    std::string text; ///< standard output and error as they came
};
/// Runs argv[0] (looked up on PATH) to its end, without input. Errors: not_found (it cannot be executed), internal (not
/// ended within `limit`), cancelled; it is ended then.
Result<ProgramOutput> run_program(const std::vector<std::string>& argv, std::chrono::seconds limit, Progress& progress);

/// A child process that answers one line of JSON with one line of JSON. Its standard error is kept: the end of it is
/// what an error message shows. Ended (and waited for) with the object; it also ends itself when our end closes.
class JsonProcess {
public:
    /// Starts argv[0] (looked up on PATH) with extra environment variables. Fails if it cannot be executed.
    static Result<std::unique_ptr<JsonProcess>>
    start(const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& extra_env);
    ~JsonProcess();
    JsonProcess(const JsonProcess&) = delete;
    JsonProcess& operator=(const JsonProcess&) = delete;

    /// Sends a request and waits for the answer. Fails when the child ended or wrote something else than JSON, when it
    /// answered {"error": {"message", "hint", "code"}}, after `limit`, and when interrupted.
    Result<Json> ask(const Json& request, std::chrono::seconds limit, Progress& progress);

private:
    JsonProcess(pid_t pid, int to_child, int from_child, int errors);
    Result<std::string> read_line(std::chrono::seconds limit, Progress& progress);
    Error ended(const std::string& what);

    pid_t pid_;
    int to_child_;
    int from_child_;
    int errors_; ///< an unnamed file that takes the child's standard error
    std::string buffer_;
};

} // namespace lathe
