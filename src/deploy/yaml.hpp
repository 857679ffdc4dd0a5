#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe {

/// The document as YAML in block style. Text is always quoted, so that none is read as a number, a date or "no".
std::string to_yaml(const Json& document);

} // namespace lathe
