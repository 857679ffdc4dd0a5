#include "support/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "support/files.hpp"

namespace lathe {

namespace {

constexpr int max_depth = 200;

} // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
    bool too_deep = false;
    const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > max_depth;
        return !too_deep;
    };
    try {
        // The parser recurses in no other place; the scan keeps hostile nesting from growing its stack.
        Json json = Json::parse(text, limit_depth);
        if (too_deep) {
            return Error{ErrorCode::parse_error, "JSON nested deeper than 200 levels", std::string(where), ""};
        }
        return json;
    } catch (const Json::exception& error) {
        // "[json.exception.parse_error.101] parse error at line 1, ...": the tag is for programmers.
        const std::string_view text_of_error = error.what();
        const auto tag = text_of_error.find("] ");
        return Error{ErrorCode::parse_error,
                     "not valid JSON: " +
                         std::string(text_of_error.substr(tag == std::string_view::npos ? 0 : tag + 2)),
                     std::string(where), ""};
    }
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
    return write_file(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace lathe
