#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// `text` in a colour ("1", "32", as ANSI numbers them), which show() turns into the terminal's own sequence. What is
/// shown besides is printable(): a name in a file sends the terminal nothing.
std::string coloured(std::string_view number, std::string_view text);

/// What goes to the terminal, line feeds included.
std::string show(std::string_view text);

/// One line of it, such as a table's cell: a line feed in a name is spelled out. Colours stay for show().
std::string one_line(std::string_view text);

} // namespace lathe::cli
