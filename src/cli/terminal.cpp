#include "cli/terminal.hpp"

#include <random>

#include "support/printable.hpp"

namespace lathe::cli {

namespace {

/// Stands for a colour until it is shown. No file can hold it: it is drawn anew for each process.
const std::string& mark() {
    static const std::string drawn = [] {
        std::random_device random;
        std::string text = "\033";
        for (int i = 0; i < 4; ++i)
            text += "<" + std::to_string(random());
        return text + ">";
    }();
    return drawn;
}

/// Makes all but the colours printable; each mark with its number becomes `prefix` and the number.
std::string converted(std::string_view text, bool keep_lines, std::string_view prefix) {
    std::string result;
    for (;;) {
        const auto found = text.find(mark());
        result += printable(text.substr(0, found), keep_lines);
        if (found == std::string_view::npos) return result;
        text.remove_prefix(found + mark().size());
        const auto end = text.find('m') + 1; // 0 where it is cut off: then nothing of it is shown
        (result += prefix) += text.substr(0, end);
        text.remove_prefix(end);
    }
}

} // namespace

std::string coloured(std::string_view number, std::string_view text) {
    return mark() + std::string(number) + "m" + std::string(text) + mark() + "0m";
}

std::string show(std::string_view text) { return converted(text, true, "\033["); }

std::string one_line(std::string_view text) { return converted(text, false, mark()); }

} // namespace lathe::cli
