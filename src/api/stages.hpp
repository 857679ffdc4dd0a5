#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// The steps of a long job, each with what it depended on, so that a job that was stopped goes on where it was and an
/// unchanged one is not done again. Kept in one JSON file, rewritten after each step.
class Stages {
public:
    /// Called with a line for a person after each step; may be empty.
    using Tell = std::function<void(std::string_view)>;

    /// Reads the file if it is there; one that cannot be read is ignored (all is done anew) with a warning.
    /// `redo` forgets what it says.
    static Stages open(std::filesystem::path file, Progress& progress, Tell tell, bool redo);

    /// Runs `work` unless it has been done with the same `key` (a digest of everything it depends on) and every file of
    /// `products` is there with the content it had then. Returns what `work` returned, now or then.
    Result<Json> run(const std::string& name, const std::string& key,
                     const std::vector<std::filesystem::path>& products, const std::function<Result<Json>()>& work);

    /// Whether a step was last done with this key, whatever became of its products.
    bool was_done(const std::string& name, const std::string& key) const;

    /// [{"name", "seconds", "reused"}], in the order in which they were run.
    const Json& timings() const { return timings_; }

private:
    Stages(std::filesystem::path file, Progress& progress, Tell tell)
        : file_(std::move(file)), progress_(&progress), tell_(std::move(tell)) {}

    std::filesystem::path file_;
    Progress* progress_;
    Tell tell_;
    Json done_ = Json::object();
    Json timings_ = Json::array();
};

} // namespace lathe
