#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// What a classes.csv says: names by index, and the index each wnid (or name) stands for.
struct Classes {
    std::vector<std::string> names;
    std::map<std::string, std::int64_t, std::less<>> index_of; ///< by wnid and by name
};

/// classes.csv: a header line with the columns class_index and name, and optionally wnid, in any order.
Result<Classes> read_classes_csv(const std::filesystem::path& path);

/// Class names, index 0 first, from classes.csv, a .json file, or a text file with one name a line.
Result<std::vector<std::string>> read_class_names(const std::filesystem::path& path);

/// A JSON array of names (metadata key `lathe.labels`), or an object {"0": name, ...}.
Result<std::vector<std::string>> class_names_from_json(const Json& json, std::string_view where);

/// The class of that name: as it is written, else the only one that differs in case alone.
std::optional<std::int64_t> find_class(const std::vector<std::string>& names, std::string_view name);

/// The name of a class, or "class N" where it has none.
std::string class_name(const std::vector<std::string>& names, std::int64_t index);

} // namespace lathe
