#include "backends/cuda/tuning/timing_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "support/log.hpp"

namespace lathe::cuda {
namespace {

constexpr const char* kind = "lathe-timing-cache";
constexpr int version = 1;

std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

Json json_of(const Timing& timing) {
    return {{"tactic", timing.tactic},   {"mixed_us", timing.mixed_us}, {"warm_us", timing.warm_us},
            {"cold_us", timing.cold_us}, {"refused", timing.refused},   {"workspace", timing.workspace},
            {"error", timing.error}};
}

std::optional<Timing> timing_of(const Json& json) {
    if (!json.is_object() || !json.contains("tactic") || !json["tactic"].is_string()) return std::nullopt;
    Timing timing;
    timing.tactic = json["tactic"].get<std::string>();
    // Numbers that JSON cannot hold (infinity) were written as null.
    const auto number = [&](const char* key) {
        return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
    };
    timing.mixed_us = number("mixed_us");
    timing.warm_us = number("warm_us");
    timing.cold_us = number("cold_us");
    timing.error = number("error");
    const double workspace = number("workspace");
    if (!(workspace >= 0) || workspace > 1e15 || timing.mixed_us < 0) return std::nullopt;
    timing.workspace = static_cast<std::size_t>(workspace);
    if (json.contains("refused") && json["refused"].is_string()) timing.refused = json["refused"].get<std::string>();
    return timing;
}

using Entry = TimingCache::Entry;

std::optional<Entry> entry_of(const Json& json) {
    if (!json.is_object() || !json.contains("timings") || !json["timings"].is_array()) return std::nullopt;
    Entry entry;
    entry.time = json.contains("time") && json["time"].is_number_integer() ? json["time"].get<std::int64_t>() : 0;
    entry.effort = json.contains("effort") && json["effort"].is_number_integer() ? json["effort"].get<int>() : 1;
    for (const Json& one : json["timings"]) {
        auto timing = timing_of(one);
        if (!timing) return std::nullopt;
        entry.timings.push_back(std::move(*timing));
    }
    return entry;
}

/// More was tried, or as much and later.
bool is_better(const Entry& a, const Entry& b) { return a.effort != b.effort ? a.effort > b.effort : a.time > b.time; }

bool well_formed(const Json& json) {
    if (!json.is_object() || !json.contains("kind") || json["kind"] != kind) return false;
    if (!json.contains("version") || json["version"] != version) return false;
    if (!json.contains("environments") || !json["environments"].is_object()) return false;
    return std::all_of(json["environments"].begin(), json["environments"].end(),
                       [](const Json& environment) { return environment.is_object(); });
}

Json empty_file() { return {{"kind", kind}, {"version", version}, {"environments", Json::object()}}; }

/// The file's content, empty for a missing one; a damaged one is moved away so that nothing is lost by writing.
Result<Json> read_or_set_aside(const std::filesystem::path& file) {
    std::error_code failed;
    if (!std::filesystem::exists(file, failed) && !failed) return empty_file();
    auto json = read_json_file(file);
    if (json && well_formed(*json)) return std::move(*json);
    if (!json && json.error().code != ErrorCode::parse_error) return std::move(json).error();
    const std::filesystem::path aside = file.string() + ".damaged";
    std::filesystem::rename(file, aside, failed);
    if (failed) {
        return Error{ErrorCode::io, "the timing cache is damaged and cannot be moved away: " + failed.message(),
                     file.string(), "remove it"};
    }
    log(LogLevel::warning, "the timing cache " + file.string() + " is damaged; it was moved to " + aside.string() +
                               " and a new one is begun");
    return empty_file();
}

/// Held while the file is read, merged and written: of two builds at once neither loses its entries.
class FileLock {
public:
    static Result<FileLock> take(const std::filesystem::path& file) {
        const int descriptor = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
        if (descriptor < 0) {
            return Error{ErrorCode::io, std::string("cannot open the lock file: ") + std::strerror(errno),
                         file.string(), "check the folder's permissions, or name another --timing-cache"};
        }
        FileLock lock(descriptor);
        while (::flock(descriptor, LOCK_EX) != 0) {
            if (errno == EINTR) continue;
            return Error{ErrorCode::io, std::string("cannot lock: ") + std::strerror(errno), file.string(),
                         "name a --timing-cache on a file system with locks"};
        }
        return lock;
    }
    FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

private:
    explicit FileLock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

} // namespace

TimingCache::TimingCache(std::string environment) : environment_(std::move(environment)), foreign_(empty_file()) {}

Result<void> TimingCache::read(const std::filesystem::path& file) {
    LATHE_TRY(Json json, read_or_set_aside(file));
    const std::lock_guard lock(mutex_);
    Json& environments = json["environments"];
    if (environments.contains(environment_)) {
        for (const auto& [signature, stored] : environments[environment_].items()) {
            auto entry = entry_of(stored);
            if (!entry) continue; // written by something else; timed anew
            const auto found = entries_.find(signature);
            if (found == entries_.end() || is_better(*entry, found->second)) entries_[signature] = std::move(*entry);
        }
        environments.erase(environment_);
    }
    foreign_ = std::move(json);
    return {};
}

Result<void> TimingCache::write(const std::filesystem::path& file) const {
    std::error_code failed;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failed);
    LATHE_TRY(const FileLock file_lock, FileLock::take(file.string() + ".lock"));
    LATHE_TRY(Json json, read_or_set_aside(file));
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entries] : foreign_["environments"].items()) {
        if (!json["environments"].contains(name)) json["environments"][name] = entries;
    }
    Json& own = json["environments"][environment_];
    if (!own.is_object()) own = Json::object();
    for (const auto& [signature, entry] : entries_) {
        if (own.contains(signature)) {
            const auto there = entry_of(own[signature]);
            if (there && is_better(*there, entry)) continue;
        }
        Json timings = Json::array();
        for (const Timing& timing : entry.timings)
            timings.push_back(json_of(timing));
        own[signature] = {{"time", entry.time}, {"effort", entry.effort}, {"timings", std::move(timings)}};
    }
    return write_json_file(file, json);
}

std::optional<std::vector<Timing>> TimingCache::find(const std::string& signature, int least_effort) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(signature);
    if (found == entries_.end() || found->second.effort < least_effort) return std::nullopt;
    return found->second.timings;
}

void TimingCache::store(const std::string& signature, std::vector<Timing> timings, int effort) {
    const std::lock_guard lock(mutex_);
    entries_[signature] = {now(), effort, std::move(timings)};
}

const Timing* choose(const std::vector<Timing>& timings, std::size_t workspace_limit) {
    const auto may_win = [&](const Timing& timing) {
        return timing.refused.empty() && timing.workspace <= workspace_limit && std::isfinite(timing.mixed_us) &&
               timing.mixed_us > 0;
    };
    double fastest = std::numeric_limits<double>::infinity();
    for (const Timing& timing : timings) {
        if (may_win(timing)) fastest = std::min(fastest, timing.mixed_us);
    }
    // Differences within 1 % are noise: there the order of providers decides, and within a provider the workspace.
    const Timing* best = nullptr;
    const auto provider = [](const Timing& timing) { return timing.tactic.substr(0, timing.tactic.find(':')); };
    for (const Timing& timing : timings) {
        if (!may_win(timing) || timing.mixed_us > fastest * 1.01) continue;
        const bool better =
            best == nullptr || (provider(*best) == provider(timing) && timing.workspace < best->workspace);
        if (better) best = &timing;
    }
    return best;
}

} // namespace lathe::cuda
