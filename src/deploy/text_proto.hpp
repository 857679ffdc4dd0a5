#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Writes protobuf's text format (protobuf.dev, "Text Format Language Specification"): fields in the order of the
/// calls, messages indented.
class TextProto {
public:
    void comment(std::string_view text);
    void text(std::string_view field, std::string_view value); ///< quoted and escaped
    void name(std::string_view field, std::string_view value); ///< as it is: an enum's value, true, false
    void number(std::string_view field, std::int64_t value);
    void numbers(std::string_view field, const std::vector<std::int64_t>& values); ///< a list; nothing if it is empty
    void open(std::string_view field);                                             ///< a message, until `close`
    void close();

    const std::string& str() const { return text_; }

private:
    std::string& line();
    std::string text_;
    std::size_t depth_ = 0;
};

} // namespace lathe
