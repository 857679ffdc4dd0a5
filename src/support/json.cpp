#include "support/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/files.hpp"
#include "support/printable.hpp"

namespace lathe {

namespace {

constexpr std::size_t max_depth = 200;
/// Members of an object from which its keys are looked up in a table. Json itself looks through all of them for each
/// new one: half a second for a vocabulary of 30,000 words, hours for a hostile file.
constexpr std::size_t many_members = 32;

/// Builds a document from a parser's events. Of two members of one key the later one's value counts, as in
/// Json::parse().
class Builder {
public:
    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool number_integer(Json::number_integer_t value) { return put(value); }
    bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
    bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
    bool string(std::string& value) { return put(std::move(value)); }
    bool binary(Json::binary_t& value) { return put(Json::binary(std::move(value))); } // in no text
    bool start_object(std::size_t) { return enter(Json::object()); }
    bool start_array(std::size_t) { return enter(Json::array()); }
    bool end_object() { return leave(); }
    bool end_array() { return leave(); }

    bool key(const std::string& name) {
        Level& level = open_.back();
        auto& members = level.json->get_ref<Json::object_t&>();
        const std::optional<std::size_t> found = level.find(name);
        const std::size_t member = found.value_or(members.size());
        if (!found) {
            members.emplace_back(name, Json());
            if (!level.table.empty()) level.table.emplace(name, member);
        }
        slot_ = &(members.begin() + static_cast<std::ptrdiff_t>(member))->second;
        return true;
    }

    bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
        // "[json.exception.parse_error.101] parse error at line 1, ...": the tag is for programmers.
        const std::string_view text = error.what();
        const auto tag = text.find("] ");
        fault_ = "not valid JSON: " + std::string(text.substr(tag == std::string_view::npos ? 0 : tag + 2));
        return false;
    }

    Json& document() { return document_; }
    const std::string& fault() const { return fault_; }

private:
    /// A container whose end has not come. It stays where it is: its own container grows no more until then.
    struct Level {
        Json* json = nullptr;
        std::unordered_map<std::string, std::size_t> table; ///< an object's members by key, where there are many

        std::optional<std::size_t> find(const std::string& name) {
            const auto& members = json->get_ref<const Json::object_t&>();
            if (members.size() < many_members) {
                const auto at = std::ranges::find_if(members, [&](const auto& member) { return member.first == name; });
                if (at == members.end()) return std::nullopt;
                return static_cast<std::size_t>(at - members.begin());
            }
            if (table.empty()) {
                for (const auto& [key, value] : members)
                    table.emplace(key, table.size());
            }
            const auto at = table.find(name);
            return at == table.end() ? std::nullopt : std::optional<std::size_t>(at->second);
        }
    };

    Json* place(Json&& value) {
        if (open_.empty()) slot_ = &document_;
        if (!open_.empty() && open_.back().json->is_array()) {
            auto& items = open_.back().json->get_ref<Json::array_t&>();
            items.push_back(std::move(value));
            return &items.back();
        }
        *slot_ = std::move(value);
        return slot_;
    }
    bool put(Json value) {
        place(std::move(value));
        return true;
    }
    bool enter(Json&& container) {
        if (open_.size() == max_depth) {
            fault_ = "JSON nested deeper than " + std::to_string(max_depth) + " levels";
            return false;
        }
        open_.push_back({place(std::move(container)), {}});
        return true;
    }
    bool leave() {
        open_.pop_back();
        return true;
    }

    Json document_;
    Json* slot_ = nullptr; ///< where the value of the key read last belongs
    std::vector<Level> open_;
    std::string fault_;
};

} // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
    Builder builder;
    if (!Json::sax_parse(text, &builder)) {
        return Error{ErrorCode::parse_error, builder.fault(), std::string(where), ""};
    }
    return std::move(builder.document());
}

bool holds_huge_number(const Json& json) {
    if (json.is_number_float()) return !(std::abs(json.get<double>()) < 9.2e18);
    return json.is_structured() && std::ranges::any_of(json, holds_huge_number);
}

std::size_t count_of(const Json& json) {
    if (json.is_number_unsigned() || (json.is_number_integer() && json.get<std::int64_t>() >= 0)) {
        return json.get<std::size_t>();
    }
    throw Json::type_error::create(302, "type must be an integer from 0 up", &json);
}

double finite_at(const Json& object, const char* key) {
    const double value = object.at(key).get<double>();
    if (!std::isfinite(value)) throw Json::other_error::create(501, std::string(key) + " is not finite", &object);
    return value;
}

double positive_at(const Json& object, const char* key) {
    const double value = finite_at(object, key);
    if (value <= 0) throw Json::other_error::create(501, std::string(key) + " is not positive", &object);
    return value;
}

Result<Json> read_json_file(const std::filesystem::path& path) {
    LATHE_TRY(const std::string text, read_text_file(path));
    return parse_json(text, path.string());
}

Result<void> write_json_file(const std::filesystem::path& path, const Json& json) {
    return write_file(path, printable_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n");
}

} // namespace lathe
