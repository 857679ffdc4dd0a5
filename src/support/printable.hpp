#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// Text for a terminal or a log, whoever wrote it: what would move the cursor, ring, change the terminal's state or the
/// order in which text is read is spelled out. That is C0 (ESC, BEL, CR, ...; tab and, with `keep_lines`, line feed
/// stay), DEL, C1, bidirectional controls, line and paragraph separators, tags, and bytes that are not UTF-8: \x1b,
/// \u202e. Applied twice it changes nothing more.
std::string printable(std::string_view text, bool keep_lines = false);

/// The same for a JSON document, whose strings then still parse to the same text: \u202e.
std::string printable_json(std::string_view json);

} // namespace lathe
