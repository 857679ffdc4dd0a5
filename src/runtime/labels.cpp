#include "runtime/labels.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "support/json.hpp"

namespace lathe {

namespace {

/// More classes than a detector or a dictionary of characters has.
constexpr std::size_t most_classes = 1'000'000;

/// What Python's repr() writes of a dict of whole numbers and texts.
class NamesReader {
public:
    explicit NamesReader(std::string_view text) : text_(text) {}

    std::optional<std::vector<std::string>> read() {
        std::map<std::size_t, std::string> names;
        if (!take('{')) return std::nullopt;
        while (!take('}')) {
            const auto index = number();
            if (!index || !take(':')) return std::nullopt;
            auto name = quoted();
            if (!name || !names.emplace(*index, *std::move(name)).second) return std::nullopt;
            if (!take(',') && !ahead('}')) return std::nullopt;
        }
        std::vector<std::string> list;
        if (names.empty() || names.rbegin()->first >= most_classes) return std::nullopt;
        list.resize(names.rbegin()->first + 1);
        for (auto& [index, name] : names)
            list[index] = std::move(name);
        return list;
    }

private:
    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
            ++at_;
    }
    bool ahead(char c) {
        skip();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool take(char c) {
        if (!ahead(c)) return false;
        ++at_;
        return true;
    }
    std::optional<std::size_t> number() {
        skip();
        std::size_t value = 0;
        const char* const begin = text_.data() + at_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error != std::errc{}) return std::nullopt;
        at_ += static_cast<std::size_t>(end - begin);
        return value;
    }
    std::optional<std::string> quoted() {
        skip();
        if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
        const char quote = text_[at_++];
        std::string value;
        for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
            // Of escapes those that names have: quotes and backslashes.
            if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
            value += text_[at_];
        }
        if (at_++ >= text_.size()) return std::nullopt;
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        lines.emplace_back(text.substr(start, end - start));
        if (lines.back().ends_with('\r')) lines.back().pop_back();
        start = end + 1;
    }
    return lines;
}

} // namespace

Result<std::vector<std::string>> class_labels(const Model& model) {
    if (const std::string* own = model.find_metadata("lathe.labels"); own != nullptr) {
        LATHE_TRY(const Json json, parse_json(*own, "metadata lathe.labels"));
        try {
            return json.get<std::vector<std::string>>();
        } catch (const Json::exception&) {
            return Error{ErrorCode::parse_error, "class names are not a JSON list of strings", "metadata lathe.labels",
                         "write a JSON list, or remove the metadata"};
        }
    }
    if (const std::string* names = model.find_metadata("names"); names != nullptr) {
        if (auto list = NamesReader(*names).read()) return *std::move(list);
    }
    if (const std::string* characters = model.find_metadata("character"); characters != nullptr)
        return lines_of(*characters);
    return std::vector<std::string>{};
}

} // namespace lathe
