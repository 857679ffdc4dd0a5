#pragma once

#include <stdexcept>
#include <string>

namespace lathe::test {

/// The text between the tags of a report page's data script, the JSON that its scripts draw from. Throws where the
/// page has none: the names of the scripts' own functions are in every page and say nothing of what it shows.
inline std::string page_data_of(const std::string& html) {
    const std::string open = "id=\"lathe-data\">";
    const std::size_t start = html.find(open);
    const std::size_t end = html.find("</script>", start);
    if (start == std::string::npos || end == std::string::npos) throw std::runtime_error("no page of a report");
    return html.substr(start + open.size(), end - start - open.size());
}

} // namespace lathe::test
