#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe::report {

/// The page of a document (see make_document): one HTML file that asks for nothing else, neither from the network (a
/// content security policy forbids it) nor from the disk. Strings of the document stay text whatever they hold.
std::string render_html(const Json& document);

} // namespace lathe::report
