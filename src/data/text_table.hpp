#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "support/files.hpp"

namespace lathe {

/// Which columns of a text file hold what: a name of the header line (a key, in .jsonl), or a number counted from 0,
/// which says that the file has no header line. Empty: not given.
struct TextColumns {
    std::string text;
    std::string pair; ///< second text of a sample
    std::string label;
};

/// "text=sentence1,pair=sentence2,label=score"; empty text gives no columns. Error: invalid_argument.
Result<TextColumns> parse_text_columns(std::string_view text);

struct TextRow {
    std::string text;
    std::string pair;
    std::string label;
};

/// The rows of a text file, which stays mapped; of each row, its place is kept in memory.
///  - .tsv, or .csv whose first line holds a tab: fields between tabs, no quoting (as GLUE's files are written);
///  - .csv: fields between commas, quoted as RFC 4180 says, as many in every row as in the first line (without a header
///    line; with one, a row may have fewer as long as it has those that are read);
///  - .jsonl: one JSON object a line;
///  - .txt: one text a line.
/// Texts are UTF-8; a byte order mark in front is skipped.
/// Columns that were not named are looked for in the header: sentence, text, sentence1, ... (see `find_columns`).
class TextTable {
public:
    /// Errors: not_found, io, parse_error (no such column, no header, an open quote, UTF-16).
    static Result<TextTable> open(const std::filesystem::path& path, const TextColumns& columns);

    std::size_t rows() const { return places_.size(); }
    bool has_pairs() const { return !columns_.pair.empty(); }
    bool has_labels() const { return !columns_.label.empty(); }
    /// Error: parse_error, naming the row: columns that it lacks or has too many of, bytes that are not UTF-8.
    Result<TextRow> read(std::size_t row) const;
    /// Digest of the file.
    std::string digest() const;
    /// The columns that are read, as `parse_text_columns` takes them.
    std::string columns() const;

private:
    enum class Format { tabs, commas, json_lines, lines };
    struct Place {
        std::size_t start = 0;
        std::size_t size = 0;
    };

    Result<void> find_rows();
    Result<void> find_columns();
    Result<std::vector<std::string>> fields(std::size_t row) const;
    Result<TextRow> read_json(std::size_t row) const;
    /// Error: parse_error where it is not UTF-8: tokenizers take such bytes for unknown words, or crash.
    Result<std::string_view> line(std::size_t row) const;
    std::string name_of(std::size_t row) const;

    Format format_ = Format::lines;
    TextColumns columns_;
    std::shared_ptr<const MappedFile> file_;
    std::string_view content_;
    std::vector<Place> places_;
    std::string where_;
    std::size_t width_ = 0;     ///< fields of the first line
    std::size_t first_row_ = 1; ///< number of places_[0] in the file, for people
    std::size_t text_ = 0;      ///< positions of the columns
    std::size_t pair_ = 0;
    std::size_t label_ = 0;
};

} // namespace lathe
