#include "support/json.hpp"

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

Result<Json> read_json_file(const std::filesystem::path& path) {
    LATHE_TRY(const std::string text, read_text_file(path));
    return parse_json(text, path.string());
}

Result<void> write_json_file(const std::filesystem::path& path, const Json& json) {
    return write_file(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

} // namespace lathe
