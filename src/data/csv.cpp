#include "data/csv.hpp"

#include <utility>

namespace lathe {

Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text, std::string_view where) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> row;
    std::string field;
    bool quoted = false;
    bool was_quoted = false;
    std::size_t line = 1;
    std::size_t quote_line = 0;
    const auto end_row = [&] {
        if (!row.empty() || !field.empty() || was_quoted) {
            row.push_back(std::exchange(field, {}));
            rows.push_back(std::exchange(row, {}));
        }
        was_quoted = false;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\n') ++line;
        if (quoted) {
            if (c != '"') {
                field += c;
            } else if (i + 1 < text.size() && text[i + 1] == '"') {
                field += '"';
                ++i;
            } else {
                quoted = false;
            }
        } else if (c == '"' && field.empty()) {
            quoted = true;
            was_quoted = true;
            quote_line = line;
        } else if (c == ',') {
            row.push_back(std::exchange(field, {}));
            was_quoted = false;
        } else if (c == '\n') {
            end_row();
        } else if (c != '\r') {
            field += c;
        }
    }
    if (quoted) {
        return Error{ErrorCode::parse_error, "a quote on line " + std::to_string(quote_line) + " does not end",
                     std::string(where), ""};
    }
    end_row();
    return rows;
}

} // namespace lathe
