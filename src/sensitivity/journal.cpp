#include "sensitivity/journal.hpp"

#include <system_error>

#include "support/files.hpp"

namespace lathe {

namespace {

constexpr int version = 1;

} // namespace

Result<std::optional<Json>> Journal::read() const {
    if (file_.empty()) return std::optional<Json>();
    if (auto writable = AtomicFile::create(file_); !writable) return std::move(writable).error();
    std::error_code failed;
    if (!std::filesystem::exists(file_, failed)) return std::optional<Json>();
    const std::string cure = "remove it, or begin anew with --force";
    auto json = read_json_file(file_);
    if (!json) {
        return Error{ErrorCode::corrupt, "the record of earlier work cannot be read: " + json.error().message,
                     file_.string(), cure};
    }
    const auto text = [&](const char* name) {
        return json->is_object() && json->contains(name) && (*json)[name].is_string() ? (*json)[name].get<std::string>()
                                                                                      : std::string();
    };
    if (text("kind") != "journal" || !json->contains("state") || json->value("version", 0) != version) {
        return Error{ErrorCode::corrupt, "this is no record of earlier work", file_.string(), cure};
    }
    if (text("key") != key_) {
        return Error{ErrorCode::mismatch,
                     "the record of earlier work belongs to another model, other data or other options", file_.string(),
                     cure};
    }
    return std::optional<Json>((*json)["state"]);
}

Result<void> Journal::write(const Json& state) const {
    if (file_.empty()) return {};
    return write_json_file(file_, {{"kind", "journal"}, {"version", version}, {"key", key_}, {"state", state}});
}

void Journal::remove() const {
    std::error_code ignored;
    if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

} // namespace lathe
