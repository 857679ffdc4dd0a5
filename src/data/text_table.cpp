#include "data/text_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "data/csv.hpp"
#include "data/text_pieces.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

constexpr std::array<std::string_view, 5> text_names{"sentence", "text", "sentence1", "premise", "question1"};
constexpr std::array<std::string_view, 5> pair_names{"sentence2", "text_pair", "hypothesis", "question2", "pair"};
constexpr std::array<std::string_view, 3> label_names{"label", "score", "similarity_score"};

std::optional<std::size_t> as_number(std::string_view text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > 4096) return std::nullopt;
    return value;
}

std::vector<std::string> split_tabs(std::string_view line) {
    std::vector<std::string> fields;
    for (;;) {
        const std::size_t end = std::min(line.find('\t'), line.size());
        fields.emplace_back(line.substr(0, end));
        if (end == line.size()) return fields;
        line.remove_prefix(end + 1);
    }
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names)
        text += (text.empty() ? "" : ", ") + name.substr(0, 40);
    return text;
}

/// The first of the names that the header has.
std::string known(const std::vector<std::string>& header, std::span<const std::string_view> names) {
    for (const std::string_view name : names) {
        if (std::ranges::find(header, name) != header.end()) return std::string(name);
    }
    return {};
}

} // namespace

Result<TextColumns> parse_text_columns(std::string_view text) {
    TextColumns columns;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view part = text.substr(0, end);
        const std::size_t equals = part.find('=');
        const std::string_view role = part.substr(0, equals);
        std::string* column = role == "text"    ? &columns.text
                              : role == "pair"  ? &columns.pair
                              : role == "label" ? &columns.label
                                                : nullptr;
        if (column == nullptr || equals == std::string_view::npos || equals + 1 == part.size()) {
            return Error{ErrorCode::invalid_argument, "cannot read the columns \"" + std::string(part) + "\"",
                         "--columns",
                         "write text=NAME,pair=NAME,label=NAME, with names of the header line or numbers from 0"};
        }
        *column = part.substr(equals + 1);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return columns;
}

Result<TextTable> TextTable::open(const std::filesystem::path& path, const TextColumns& columns) {
    TextTable table;
    table.where_ = path.string();
    table.columns_ = columns;
    LATHE_TRY(table.file_, MappedFile::open(path));
    const auto bytes = table.file_->bytes();
    table.content_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (table.content_.starts_with("\xFF\xFE") || table.content_.starts_with("\xFE\xFF")) {
        return Error{ErrorCode::parse_error, "the file is UTF-16", table.where_,
                     "convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8"};
    }
    if (table.content_.starts_with("\xEF\xBB\xBF")) table.content_.remove_prefix(3);
    const std::string extension = path.extension().string();
    const std::string_view first = table.content_.substr(0, table.content_.find('\n'));
    const bool tabs = first.find('\t') != std::string_view::npos;
    table.format_ = extension == ".jsonl" ? Format::json_lines
                    : extension == ".tsv" ? Format::tabs
                    : extension == ".csv" ? (tabs ? Format::tabs : Format::commas)
                                          : Format::lines;
    LATHE_CHECK(table.find_rows());
    LATHE_CHECK(table.find_columns());
    if (table.rows() == 0) return Error{ErrorCode::parse_error, "the file holds no samples", table.where_, ""};
    return table;
}

/// Empty lines are left out. A quoted field may hold line breaks.
Result<void> TextTable::find_rows() {
    bool quoted = false;
    bool field_start = true;
    std::size_t start = 0;
    const auto end_row = [&](std::size_t end) {
        std::size_t size = end - start;
        if (size > 0 && content_[end - 1] == '\r') --size;
        if (size > 0) places_.push_back({start, size});
        start = end + 1;
    };
    for (std::size_t i = 0; i < content_.size(); ++i) {
        const char c = content_[i];
        if (format_ == Format::commas) {
            if (quoted) {
                // A doubled quote closes and opens again.
                if (c == '"') quoted = i + 1 < content_.size() && content_[i + 1] == '"' ? (++i, true) : false;
                continue;
            }
            if (c == '"' && field_start) quoted = true;
            field_start = c == ',' || c == '\n';
        }
        if (c == '\n') end_row(i);
    }
    if (quoted) return Error{ErrorCode::parse_error, "a quote does not end", where_, ""};
    if (start < content_.size()) end_row(content_.size());
    return {};
}

Result<void> TextTable::find_columns() {
    if (format_ == Format::lines) {
        if (!columns_.pair.empty() || !columns_.label.empty()) {
            return Error{ErrorCode::invalid_argument, "a .txt file holds one text a line, no columns", where_,
                         "name the file .tsv, .csv or .jsonl"};
        }
        columns_.text = "0";
        return {};
    }
    if (places_.empty()) return {};
    std::vector<std::string> header;
    if (format_ == Format::json_lines) {
        LATHE_TRY(const std::string_view first, line(0));
        LATHE_TRY(const Json object, parse_json(first, name_of(0)));
        if (!object.is_object()) return Error{ErrorCode::parse_error, "the line is no JSON object", name_of(0), ""};
        for (const auto& [key, value] : object.items())
            header.push_back(key);
    } else {
        LATHE_TRY(header, fields(0));
    }
    width_ = header.size();
    const bool numbered = format_ != Format::json_lines && as_number(columns_.text).has_value();
    if (columns_.text.empty()) columns_.text = known(header, text_names);
    if (columns_.text.empty()) {
        return Error{ErrorCode::parse_error, "no column with texts was found", where_,
                     "name it, for example --columns text=0,label=1 for a file without a header line; the first line "
                     "holds " +
                         joined(header)};
    }
    if (!numbered && columns_.pair.empty()) columns_.pair = known(header, pair_names);
    if (!numbered && columns_.label.empty()) columns_.label = known(header, label_names);
    if (!numbered && format_ != Format::json_lines) {
        places_.erase(places_.begin());
        first_row_ = 2;
    }
    const auto place = [&](const std::string& column, std::size_t& position) -> Result<void> {
        if (column.empty()) return {};
        if (numbered) {
            const auto number = as_number(column);
            if (!number || *number >= header.size()) {
                return Error{ErrorCode::parse_error, "there is no column " + column, where_,
                             "the first line has " + std::to_string(header.size()) + ", counted from 0"};
            }
            position = *number;
            return {};
        }
        position = static_cast<std::size_t>(std::ranges::find(header, column) - header.begin());
        if (position == header.size()) {
            return Error{ErrorCode::parse_error, "there is no column \"" + column + "\"", where_,
                         "the first line holds " + joined(header)};
        }
        return {};
    };
    LATHE_CHECK(place(columns_.text, text_));
    LATHE_CHECK(place(columns_.pair, pair_));
    return place(columns_.label, label_);
}

std::string TextTable::name_of(std::size_t row) const { return where_ + ", row " + std::to_string(row + first_row_); }

Result<std::string_view> TextTable::line(std::size_t row) const {
    const std::string_view text = content_.substr(places_[row].start, places_[row].size);
    if (const auto at = first_not_utf8(text)) {
        const auto mark = file_->bytes().size() - content_.size(); // the byte order mark, if there is one
        return not_utf8(text, *at, name_of(row), mark + places_[row].start + 1);
    }
    return text;
}

Result<std::vector<std::string>> TextTable::fields(std::size_t row) const {
    LATHE_TRY(const std::string_view text, line(row));
    if (format_ != Format::commas) return split_tabs(text);
    LATHE_TRY(auto rows, parse_csv(text, name_of(row)));
    return rows.empty() ? std::vector<std::string>{} : std::move(rows.front());
}

Result<TextRow> TextTable::read_json(std::size_t row) const {
    LATHE_TRY(const std::string_view text, line(row));
    LATHE_TRY(const Json object, parse_json(text, name_of(row)));
    TextRow result;
    const auto take = [&](const std::string& key, std::string& into) -> Result<void> {
        if (key.empty()) return {};
        const auto found = object.is_object() ? object.find(key) : object.end();
        if (found == object.end()) {
            return Error{ErrorCode::parse_error, "the line has no \"" + key + "\"", name_of(row), ""};
        }
        into = found->is_string() ? found->get<std::string>() : found->dump();
        return {};
    };
    LATHE_CHECK(take(columns_.text, result.text));
    LATHE_CHECK(take(columns_.pair, result.pair));
    LATHE_CHECK(take(columns_.label, result.label));
    return result;
}

Result<TextRow> TextTable::read(std::size_t row) const {
    if (format_ == Format::lines) {
        LATHE_TRY(const std::string_view text, line(row));
        return TextRow{std::string(text), {}, {}};
    }
    if (format_ == Format::json_lines) return read_json(row);
    LATHE_TRY(std::vector<std::string> all, fields(row));
    // A comma in a text without quotes would cut it. Tabs are in no text; GLUE's files have rows with more of them.
    const bool header = first_row_ > 1;
    if (format_ == Format::commas && (all.size() > width_ || (!header && all.size() < width_))) {
        return Error{ErrorCode::parse_error,
                     "the row has " + std::to_string(all.size()) + " fields, the first line has " +
                         std::to_string(width_),
                     name_of(row), "put texts that hold a comma between quotes (\"...\"), or write the file as .tsv"};
    }
    std::size_t needed = text_;
    if (has_pairs()) needed = std::max(needed, pair_);
    if (has_labels()) needed = std::max(needed, label_);
    if (needed >= all.size()) {
        return Error{ErrorCode::parse_error,
                     "the row has " + std::to_string(all.size()) + " fields, column " + std::to_string(needed) +
                         " is missing",
                     name_of(row), ""};
    }
    return TextRow{all[text_], has_pairs() ? all[pair_] : std::string(), has_labels() ? all[label_] : std::string()};
}

std::string TextTable::digest() const { return hash_hex(std::as_bytes(std::span(content_))); }

std::string TextTable::columns() const {
    std::string text = "text=" + columns_.text;
    if (has_pairs()) text += ",pair=" + columns_.pair;
    if (has_labels()) text += ",label=" + columns_.label;
    return text;
}

} // namespace lathe
