#include "api/stages.hpp"

#include <chrono>
#include <cstdio>

#include "support/hash.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

constexpr int version = 1;

std::string rounded(double seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f s", seconds);
    return text;
}

/// File name to digest; absent if one cannot be read.
std::optional<Json> digests(const std::vector<std::filesystem::path>& files) {
    Json found = Json::object();
    for (const auto& file : files) {
        const auto digest = hash_file(file);
        if (!digest) return std::nullopt;
        found[file.filename().string()] = *digest;
    }
    return found;
}

} // namespace

Stages Stages::open(std::filesystem::path file, Progress& progress, Tell tell, bool redo) {
    Stages stages(std::move(file), progress, std::move(tell));
    std::error_code ignored;
    if (redo || !std::filesystem::exists(stages.file_, ignored)) return stages;
    const auto json = read_json_file(stages.file_);
    if (json && json->is_object() && json->value("version", 0) == version && json->contains("stages") &&
        (*json)["stages"].is_object()) {
        stages.done_ = (*json)["stages"];
    } else {
        log(LogLevel::warning,
            "the record of earlier work cannot be used, so everything is done anew (" + stages.file_.string() + ")");
    }
    return stages;
}

bool Stages::was_done(const std::string& name, const std::string& key) const {
    const auto found = done_.find(name);
    return found != done_.end() && found->is_object() && found->value("key", "") == key;
}

Result<Json> Stages::run(const std::string& name, const std::string& key,
                         const std::vector<std::filesystem::path>& products,
                         const std::function<Result<Json>()>& work) {
    LATHE_CHECK(progress_->check());
    if (const auto found = done_.find(name); found != done_.end() && found->is_object()) {
        const auto files = digests(products);
        if (files && found->value("key", "") == key && found->value("files", Json()) == *files &&
            found->contains("result") && found->value("seconds", Json()).is_number()) {
            timings_.push_back({{"name", name}, {"seconds", (*found)["seconds"]}, {"reused", true}});
            if (tell_) tell_(name + "  reused");
            return (*found)["result"];
        }
    }
    const auto start = std::chrono::steady_clock::now();
    LATHE_TRY(Json result, work());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    timings_.push_back({{"name", name}, {"seconds", seconds}, {"reused", false}});
    if (tell_) tell_(name + "  " + rounded(seconds));

    const auto files = digests(products);
    if (!files) return Error{ErrorCode::internal, "a file that was just written is gone", name, ""};
    done_[name] = {{"key", key}, {"files", *files}, {"seconds", seconds}, {"result", result}};
    LATHE_CHECK(write_json_file(file_, {{"version", version}, {"stages", done_}}));
    return result;
}

} // namespace lathe
