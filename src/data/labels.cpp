#include "data/labels.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "data/csv.hpp"
#include "data/text_pieces.hpp"
#include "support/files.hpp"

namespace lathe {

namespace {

constexpr std::int64_t most_classes = 1'000'000;

std::optional<std::int64_t> parse_index(std::string_view text) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value >= most_classes) return {};
    return value;
}

void set_name(std::vector<std::string>& names, std::int64_t index, const std::string& name) {
    const auto position = static_cast<std::size_t>(index);
    if (position >= names.size()) names.resize(position + 1);
    names[position] = name;
}

std::string lower_case(std::string_view text) {
    std::string lower;
    for (std::size_t at = 0; at < text.size();)
        append_utf8(to_unicode_lower(next_code_point(text, at)), lower);
    return lower;
}

} // namespace

Result<Classes> read_classes_csv(const std::filesystem::path& path) {
    LATHE_TRY(const std::string text, read_text_file(path, std::size_t{64} << 20));
    LATHE_TRY(const auto rows, parse_csv(text, path.string()));
    const auto refuse = [&](const std::string& message) {
        return Error{ErrorCode::parse_error, message, path.string(),
                     "the first line names the columns: class_index,name"};
    };
    if (rows.empty()) return refuse("the class list is empty");
    const auto column = [&](std::string_view name) {
        return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin());
    };
    const std::size_t index_column = column("class_index");
    const std::size_t name_column = column("name");
    const std::size_t wnid_column = column("wnid");
    if (index_column == rows[0].size() || name_column == rows[0].size()) {
        return refuse("the class list lacks the column class_index or name");
    }
    Classes classes;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const auto& row = rows[i];
        if (row.size() != rows[0].size())
            return refuse("row " + std::to_string(i + 1) + " has not as many fields as the header");
        const auto index = parse_index(row[index_column]);
        if (!index)
            return refuse("row " + std::to_string(i + 1) + ": \"" + row[index_column] + "\" is not a class index");
        set_name(classes.names, *index, row[name_column]);
        classes.index_of.emplace(row[name_column], *index);
        if (wnid_column < row.size()) classes.index_of.insert_or_assign(row[wnid_column], *index);
    }
    return classes;
}

Result<std::vector<std::string>> class_names_from_json(const Json& json, std::string_view where) {
    const Error wrong{ErrorCode::parse_error, "class names must be a JSON array of texts", std::string(where), ""};
    std::vector<std::string> names;
    if (json.is_array()) {
        for (const auto& name : json) {
            if (!name.is_string()) return wrong;
            names.push_back(name.get<std::string>());
        }
        return names;
    }
    if (!json.is_object()) return wrong;
    for (const auto& [key, name] : json.items()) {
        const auto index = parse_index(key);
        if (!index || !name.is_string()) return wrong;
        set_name(names, *index, name.get<std::string>());
    }
    return names;
}

Result<std::vector<std::string>> read_class_names(const std::filesystem::path& path) {
    if (path.extension() == ".csv") {
        LATHE_TRY(Classes classes, read_classes_csv(path));
        return std::move(classes.names);
    }
    if (path.extension() == ".json") {
        LATHE_TRY(const Json json, read_json_file(path));
        return class_names_from_json(json, path.string());
    }
    LATHE_TRY(const std::string text, read_text_file(path, std::size_t{64} << 20));
    std::vector<std::string> names;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        std::string line = text.substr(start, end - start);
        if (line.ends_with('\r')) line.pop_back();
        names.push_back(std::move(line));
        start = end + 1;
    }
    while (!names.empty() && names.back().empty())
        names.pop_back();
    if (names.empty()) return Error{ErrorCode::parse_error, "no class names in the file", path.string(), ""};
    return names;
}

std::optional<std::int64_t> find_class(const std::vector<std::string>& names, std::string_view name) {
    if (name.empty()) return std::nullopt; // as classes without a name are
    if (const auto exact = std::ranges::find(names, name); exact != names.end()) return exact - names.begin();
    const std::string wanted = lower_case(name);
    const auto alike = [&](const std::string& other) { return lower_case(other) == wanted; };
    const auto found = std::ranges::find_if(names, alike);
    if (found == names.end() || std::find_if(found + 1, names.end(), alike) != names.end()) return std::nullopt;
    return found - names.begin();
}

std::string class_name(const std::vector<std::string>& names, std::int64_t index) {
    if (index >= 0 && static_cast<std::size_t>(index) < names.size() &&
        !names[static_cast<std::size_t>(index)].empty()) {
        return names[static_cast<std::size_t>(index)];
    }
    return "class " + std::to_string(index);
}

} // namespace lathe
