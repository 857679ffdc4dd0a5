#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include "lathe/result.hpp"

namespace lathe {

/// Object keys keep the order they were written in.
using Json = nlohmann::ordered_json;

/// Parse text, in time linear in its length; `where` (a file name, say) goes into the error. Depth is limited to 200.
Result<Json> parse_json(std::string_view text, std::string_view where);
/// Whether a number in it is so large that no integer holds it: Json::get<std::int64_t>() would be undefined.
bool holds_huge_number(const Json& json);
/// An integer from 0 up. Throws Json::type_error for anything else: Json::get<T>() takes any number, and for a negative
/// or large one is undefined.
std::size_t count_of(const Json& json);
/// The field `key` of an object, a finite number; `positive_at`: above 0 too. Both throw Json::exception otherwise.
double finite_at(const Json& object, const char* key);
double positive_at(const Json& object, const char* key);
Result<Json> read_json_file(const std::filesystem::path& path);
/// Written atomically, indented by 2, with a final newline. Text that is not UTF-8 is replaced, not refused.
Result<void> write_json_file(const std::filesystem::path& path, const Json& json);

} // namespace lathe
